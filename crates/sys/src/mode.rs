//! Permission bits as they are written: octal (`0644`) or symbolic (`u=rw,go=r`).

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
const STICKY: u32 = 0o1000;

/// A declared mode. Octal declares all twelve bits; symbolic declares those of the subjects it names and leaves the
/// others as they are.
///
/// Both are the same thing underneath: some bits are cleared, then some are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mode {
    clear: u32,
    set: u32,
}

/// Why a text is not a mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a file mode: {mistake}")]
pub struct ModeError {
    text: String,
    mistake: Mistake,
}

/// What is wrong with the text of a mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Nothing there.
    Empty,
    /// A digit that octal does not have.
    Digit(char),
    /// More than twelve bits.
    TooLarge,
    /// A clause without `=`.
    NoOperator(String),
    /// A clause that adds or takes away instead of assigning.
    Relative(String),
    /// A clause with more than one operator.
    ManyOperators(String),
    /// A letter before `=` that names nobody.
    Who(char),
    /// A letter after `=` that is no permission.
    What(char),
    /// A subject named twice.
    Twice(char),
    /// `a` or nobody, which mean everyone, beside other clauses.
    EveryoneNotAlone,
}

impl Mode {
    /// Reads an octal number or a list of clauses such as `u=rwx,g=rx,o=`.
    pub fn parse(text: &str) -> Result<Self, ModeError> {
        let parsed = if text.is_empty() {
            Err(Mistake::Empty)
        } else if text.starts_with(|first: char| first.is_ascii_digit()) {
            parse_octal(text)
        } else {
            parse_clauses(text)
        };
        parsed.map_err(|mistake| ModeError { text: shortened(text), mistake })
    }

    /// Reads clauses that each change what the ones before have left: `u+x,g-w,o=r`. Setuid, setgid and sticky are changed
    /// only where `s` and `t` name them.
    pub fn parse_changes(text: &str) -> Result<Self, ModeError> {
        parse_changes(text).map_err(|mistake| ModeError { text: shortened(text), mistake })
    }

    /// The same for a directory of which whoever may read it may also search it.
    pub fn with_search(self) -> Self {
        Self { set: self.set | (self.set & 0o444) >> 2, ..self }
    }

    /// Declares all twelve bits.
    pub fn exact(bits: u32) -> Self {
        Self { clear: 0o7777, set: bits & 0o7777 }
    }

    /// The bits a file should have which has `current` now. Start from 0 for a file that does not exist.
    pub fn apply(self, current: u32) -> u32 {
        (current & 0o7777 & !self.clear) | self.set
    }

    /// Whether the result is the same for every file.
    pub fn is_exact(self) -> bool {
        self.clear | self.set == 0o7777
    }
}

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        Self::parse(text)
    }
}

/// Whether a file with these bits lets anyone write a program that then runs with the rights of its owner or group:
/// setuid or setgid together with writable by others. On a directory these bits mean other things; ask only for files.
pub fn is_dangerous(mode: u32) -> bool {
    mode & (SETUID | SETGID) != 0 && mode & 0o002 != 0
}

/// The mode of a new file for which none is declared: 0666 without the bits of the process's mask.
pub fn default_file_mode() -> u32 {
    0o666 & !umask()
}

/// The mode of a new directory for which none is declared: 0777 without the bits of the process's mask.
pub fn default_directory_mode() -> u32 {
    0o777 & !umask()
}

/// The process's mask, read once. The only system call for it also sets it, for all threads, which would open a window
/// in which some other thread creates a file without it; so it is read from `/proc`.
fn umask() -> u32 {
    static MASK: OnceLock<u32> = OnceLock::new();
    *MASK.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        field.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
    })
}

fn parse_octal(text: &str) -> Result<Mode, Mistake> {
    let mut bits: u32 = 0;
    for character in text.chars() {
        let digit = character.to_digit(8).ok_or(Mistake::Digit(character))?;
        bits = bits << 3 | digit;
        if bits > 0o7777 {
            return Err(Mistake::TooLarge);
        }
    }
    Ok(Mode::exact(bits))
}

fn parse_clauses(text: &str) -> Result<Mode, Mistake> {
    let mut mode = Mode { clear: 0, set: 0 };
    let mut named = 0;
    let alone = !text.contains(',');
    for clause in text.split(',') {
        let (who, what) = split_clause(clause)?;
        let subjects = parse_who(who, alone)?;
        for (letter, subject) in [('u', 0o700), ('g', 0o070), ('o', 0o007)] {
            if subjects & named & subject != 0 {
                return Err(Mistake::Twice(letter));
            }
        }
        named |= subjects;
        mode.clear |= subjects | special_bits(subjects);
        mode.set |= parse_what(what, subjects)?;
    }
    Ok(mode)
}

fn parse_changes(text: &str) -> Result<Mode, Mistake> {
    let mut mode = Mode { clear: 0, set: 0 };
    for clause in text.split(',') {
        let mut operators = clause.match_indices(['=', '+', '-']);
        let Some((at, operator)) = operators.next() else {
            return Err(if clause.is_empty() {
                Mistake::Empty
            } else {
                Mistake::NoOperator(shortened(clause))
            });
        };
        if operators.next().is_some() {
            return Err(Mistake::ManyOperators(shortened(clause)));
        }
        let subjects = parse_who(&clause[..at], true)?;
        let bits = parse_what(&clause[at + 1..], subjects)?;
        let (clear, set) = match operator {
            "+" => (0, bits),
            "-" => (bits, 0),
            _ => (subjects, bits),
        };
        mode = Mode { clear: mode.clear | clear, set: (mode.set & !clear) | set };
    }
    Ok(mode)
}

fn split_clause(clause: &str) -> Result<(&str, &str), Mistake> {
    let mut operators = clause.match_indices(['=', '+', '-']);
    let Some((_, operator)) = operators.next() else {
        return Err(Mistake::NoOperator(shortened(clause)));
    };
    if operator != "=" {
        return Err(Mistake::Relative(shortened(clause)));
    }
    if operators.next().is_some() {
        return Err(Mistake::ManyOperators(shortened(clause)));
    }
    clause.split_once('=').ok_or_else(|| Mistake::NoOperator(shortened(clause)))
}

/// The nine bits of the subjects named before the operator.
fn parse_who(who: &str, alone: bool) -> Result<u32, Mistake> {
    let mut subjects = 0;
    let mut everyone = who.is_empty();
    for letter in who.chars() {
        let subject = match letter {
            'u' => 0o700,
            'g' => 0o070,
            'o' => 0o007,
            'a' => {
                everyone = true;
                continue;
            }
            _ => return Err(Mistake::Who(letter)),
        };
        if subjects & subject != 0 {
            return Err(Mistake::Twice(letter));
        }
        subjects |= subject;
    }
    match everyone {
        true if alone => Ok(0o777),
        true => Err(Mistake::EveryoneNotAlone),
        false => Ok(subjects),
    }
}

fn parse_what(what: &str, subjects: u32) -> Result<u32, Mistake> {
    what.chars().try_fold(0, |set, letter| {
        Ok(set
            | match letter {
                'r' => 0o444 & subjects,
                'w' => 0o222 & subjects,
                'x' => 0o111 & subjects,
                's' => special_bits(subjects),
                't' => STICKY,
                _ => return Err(Mistake::What(letter)),
            })
    })
}

/// The setuid bit belongs to the user, the setgid bit to the group. The sticky bit belongs to nobody, so no
/// assignment clears it.
fn special_bits(subjects: u32) -> u32 {
    (if subjects & 0o700 != 0 { SETUID } else { 0 }) | (if subjects & 0o070 != 0 { SETGID } else { 0 })
}

/// Keeps messages readable when someone hands us a megabyte as a mode.
fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mistake::Empty => f.write_str("it is empty; write it like 0644 or u=rw,go=r"),
            Mistake::Digit(digit) => {
                write!(f, "{digit:?} is not an octal digit; a number here is octal, with digits 0 to 7")
            }
            Mistake::TooLarge => f.write_str("it has more than twelve bits; the largest mode is 07777"),
            Mistake::NoOperator(clause) => {
                write!(
                    f,
                    "{clause:?} does not say what to assign; write clauses like u=rw, separated by commas"
                )
            }
            Mistake::Relative(clause) => write!(
                f,
                "{clause:?} is relative to what the file has now, but a mode is a declaration of what it should be; \
                 assign with = instead, for example u=rwx"
            ),
            Mistake::ManyOperators(clause) => {
                write!(
                    f,
                    "{clause:?} has more than one operator; separate clauses with commas, like u=rw,g=r"
                )
            }
            Mistake::Who(letter) => {
                write!(f, "{letter:?} before = names nobody; use u (user), g (group), o (others) or a (all)")
            }
            Mistake::What(letter) => {
                write!(
                    f,
                    "{letter:?} after = is no permission; use r, w, x, s (setuid, setgid) or t (sticky)"
                )
            }
            Mistake::Twice(letter) => write!(f, "{letter:?} is assigned twice; name it once"),
            Mistake::EveryoneNotAlone => {
                f.write_str("a clause for everyone (a=, or nobody before =) must be the only clause")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn modes_apply_as_the_table_says() {
        for (text, current, expected) in [
            // Octal declares everything.
            ("0", 0o7777, 0),
            ("644", 0o7777, 0o644),
            ("0644", 0, 0o644),
            ("00000644", 0, 0o644),
            ("4755", 0o600, 0o4755),
            ("07777", 0, 0o7777),
            // Symbolic declares the subjects it names.
            ("u=rw", 0, 0o600),
            ("u=rw,go=r", 0, 0o644),
            ("u=rwx,g=rx,o=", 0o7777, 0o1750),
            ("g=r", 0o755, 0o745),
            ("o=", 0o777, 0o770),
            ("ug=rw", 0o111, 0o661),
            ("a=r", 0o777, 0o444),
            ("=r", 0o777, 0o444),
            ("ua=x", 0, 0o111),
            ("=", 0o7777, 0o1000),
            ("u=rr", 0, 0o400),
            // Setuid and setgid belong to user and group and go with them.
            ("u=rwxs", 0, 0o4700),
            ("g=rxs", 0, 0o2050),
            ("o=rxs", 0, 0o005),
            ("a=s", 0, 0o6000),
            ("u=rx", 0o6755, 0o2555),
            ("g=rx", 0o6755, 0o4755),
            ("o=rx", 0o6750, 0o6755),
            // Sticky belongs to nobody: set by t, never cleared.
            ("u=t", 0o750, 0o1050),
            ("o=t", 0, 0o1000),
            ("a=rx", 0o1777, 0o1555),
            // File type bits that come along are dropped.
            ("u=rw", 0o100_644, 0o644),
            ("0755", 0o040_000, 0o755),
        ] {
            let mode = Mode::parse(text).unwrap();
            assert_eq!(mode.apply(current), expected, "{text} on {current:o}");
        }
    }

    #[test]
    fn changes_apply_one_after_the_other() {
        for (text, current, expected) in [
            ("u+x", 0o644, 0o744),
            ("+x", 0o640, 0o751),
            ("g-w,o-rwx", 0o666, 0o640),
            ("a=r,u+w", 0o777, 0o644),
            ("u+x,u-x", 0o700, 0o600),
            ("ug+s,o+t", 0o755, 0o7755),
            ("u=rx", 0o6755, 0o6555),
            ("g=", 0o2777, 0o2707),
        ] {
            assert_eq!(Mode::parse_changes(text).unwrap().apply(current), expected, "{text} on {current:o}");
        }
        for wrong in ["", "u", "0644", "u+q", "x+r", "u+x,", "u+x-w"] {
            assert!(Mode::parse_changes(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Mode::exact(0o640).with_search().apply(0), 0o750);
    }

    #[test]
    fn what_is_wrong_with_a_mode_is_said() {
        for (text, expected) in [
            ("", "it is empty"),
            ("08", "'8' is not an octal digit"),
            ("0o644", "'o' is not an octal digit"),
            ("10000", "the largest mode is 07777"),
            ("77777777777777777777777777", "the largest mode is 07777"),
            ("u+x", "assign with = instead, for example u=rwx"),
            ("u=r,g-w", "\"g-w\" is relative to what the file has now"),
            ("u", "\"u\" does not say what to assign"),
            ("u=r,", "\"\" does not say what to assign"),
            ("rwxr-xr-x", "relative"),
            ("u=r=w", "more than one operator"),
            ("u=r+w", "more than one operator"),
            ("x=r", "'x' before = names nobody"),
            (" u=r", "' ' before = names nobody"),
            ("u=q", "'q' after = is no permission"),
            ("u=X", "'X' after = is no permission"),
            ("u=r,u=w", "'u' is assigned twice"),
            ("uu=r", "'u' is assigned twice"),
            ("ug=r,go=w", "'g' is assigned twice"),
            ("a=r,u=w", "must be the only clause"),
            ("u=w,=r", "must be the only clause"),
            ("-644", "relative"),
        ] {
            let message = Mode::parse(text).unwrap_err().to_string();
            assert!(message.starts_with(&format!("{text:?} is not a file mode: ")), "{message}");
            assert!(message.contains(expected), "{text:?} gave {message}");
        }
    }

    #[test]
    fn a_program_that_anyone_can_write_must_not_be_setuid() {
        for mode in [0o4777, 0o2777, 0o6002, 0o4722, 0o2666] {
            assert!(is_dangerous(mode), "{mode:o}");
        }
        for mode in [0o777, 0o1777, 0o4755, 0o2755, 0o4775, 0o644, 0] {
            assert!(!is_dangerous(mode), "{mode:o}");
        }
    }

    #[test]
    fn only_octal_is_exact() {
        assert!(Mode::parse("0644").unwrap().is_exact());
        assert!(!Mode::parse("u=rw,go=r").unwrap().is_exact());
        assert!(Mode::parse("a=rwxst").unwrap().is_exact());
    }

    proptest! {
        #[test]
        fn any_text_is_a_mode_or_an_error(text in "\\PC{0,12}", current in any::<u32>()) {
            if let Ok(mode) = Mode::parse(&text) {
                prop_assert!(mode.apply(current) <= 0o7777);
            }
        }

        #[test]
        fn applying_twice_changes_nothing_more(text in "[ugoa]{0,2}=[rwxst]{0,3}(,[ugo]=[rwxst]{0,3})?", now in 0..0o10000_u32) {
            if let Ok(mode) = Mode::parse(&text) {
                prop_assert_eq!(mode.apply(mode.apply(now)), mode.apply(now));
            }
        }

        #[test]
        fn every_twelve_bit_number_survives_octal(bits in 0..0o10000_u32, now in any::<u32>()) {
            prop_assert_eq!(Mode::parse(&format!("{bits:o}")).unwrap().apply(now), bits);
        }
    }
}
