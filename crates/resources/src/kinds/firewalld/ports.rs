//! Ports and ranges of ports.

use std::fmt;

use mgmt_value::Str;

const PROTOCOLS: [&str; 4] = ["tcp", "udp", "sctp", "dccp"];

/// Ports of one protocol, from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ports {
    protocol: &'static str,
    first: u16,
    last: u16,
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.numbers(), self.protocol)
    }
}

impl Ports {
    /// Reads `80/tcp` or `6000-6063/tcp`.
    pub(super) fn read(text: &Str) -> Result<Ports, String> {
        let wrong =
            || format!("expected a port like `80/tcp` or a range like `6000-6063/tcp`, found {text:?}");
        let (numbers, protocol) = text.as_str().and_then(|text| text.split_once('/')).ok_or_else(wrong)?;
        if !PROTOCOLS.iter().any(|known| known.eq_ignore_ascii_case(protocol)) {
            return Err(format!(
                "there is no protocol {protocol:?} in {text:?}; expected one of {}",
                PROTOCOLS.join(", ")
            ));
        }
        Ports::of(numbers, protocol).ok_or_else(wrong)
    }

    /// The same in two parts, as firewalld has it. What it has by a name is nothing that can be declared.
    pub(super) fn of(numbers: &str, protocol: &str) -> Option<Ports> {
        let protocol = PROTOCOLS.into_iter().find(|known| known.eq_ignore_ascii_case(protocol))?;
        let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse::<u16>().ok().filter(|number| *number > 0),
            false => None,
        };
        let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
        let (first, last) = (number(first)?, number(last)?);
        (first <= last).then_some(Ports { protocol, first, last })
    }

    /// The numbers alone.
    pub(super) fn numbers(&self) -> String {
        match self.first == self.last {
            true => self.first.to_string(),
            false => format!("{}-{}", self.first, self.last),
        }
    }

    pub(super) fn protocol(&self) -> &'static str {
        self.protocol
    }

    /// The parts that are in none of the others.
    pub(super) fn without(self, others: &[Ports]) -> Vec<Ports> {
        let mut rest = vec![self];
        for other in others.iter().filter(|other| other.protocol == self.protocol) {
            let cut = |part: Ports| {
                let below = (part.first < other.first)
                    .then(|| Ports { last: part.last.min(other.first.saturating_sub(1)), ..part });
                let above = (part.last > other.last)
                    .then(|| Ports { first: part.first.max(other.last.saturating_add(1)), ..part });
                below.into_iter().chain(above)
            };
            rest = rest.into_iter().flat_map(cut).collect();
        }
        rest
    }

    /// The parts that are in one of the others.
    pub(super) fn within(self, others: &[Ports]) -> Vec<Ports> {
        let common = |other: &Ports| {
            let (first, last) = (self.first.max(other.first), self.last.min(other.last));
            (other.protocol == self.protocol && first <= last).then_some(Ports { first, last, ..self })
        };
        others.iter().filter_map(common).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(text: &str) -> Ports {
        Ports::read(&text.into()).unwrap()
    }

    fn texts(ports: &[Ports]) -> Vec<String> {
        ports.iter().map(Ports::to_string).collect()
    }

    #[test]
    fn ranges_are_compared_number_by_number() {
        let others = [ports("10-20/tcp"), ports("30/tcp"), ports("1-65535/udp")];
        for (text, without, within) in [
            ("5/tcp", vec!["5/tcp"], vec![]),
            ("15/tcp", vec![], vec!["15/tcp"]),
            ("10-20/tcp", vec![], vec!["10-20/tcp"]),
            ("5-35/tcp", vec!["5-9/tcp", "21-29/tcp", "31-35/tcp"], vec!["10-20/tcp", "30/tcp"]),
            ("20-30/tcp", vec!["21-29/tcp"], vec!["20/tcp", "30/tcp"]),
            ("1-65535/udp", vec![], vec!["1-65535/udp"]),
            ("1/sctp", vec!["1/sctp"], vec![]),
        ] {
            assert_eq!(texts(&ports(text).without(&others)), without, "{text}");
            assert_eq!(texts(&ports(text).within(&others)), within, "{text}");
        }
        let all = [ports("1-65535/tcp")];
        assert!(ports("65535/tcp").without(&all).is_empty() && ports("1/tcp").without(&all).is_empty());
    }

    #[test]
    fn a_range_of_one_is_a_port() {
        assert_eq!(ports("80-80/TCP"), ports("80/tcp"));
        assert_eq!(ports("80-80/tcp").to_string(), "80/tcp");
        assert_eq!(Ports::of("http", "tcp"), None);
        assert_eq!(Ports::of("+80", "tcp"), None);
    }
}
