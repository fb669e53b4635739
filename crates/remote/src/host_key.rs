//! What a host proves itself with.

use std::fmt;

use base64ct::{Base64, Encoding as _};

/// The public key of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostKey {
    algorithm: String,
    encoded: String,
}

/// A text that is no public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is not the public key of a host; expected what stands in /etc/ssh/ssh_host_ed25519_key.pub there, or the part of \
     it that begins with AAAA"
)]
pub struct HostKeyError;

impl HostKey {
    /// Reads it as it stands in a file of ssh, with or without what stands before and behind the key itself.
    pub fn parse(text: &str) -> Result<HostKey, HostKeyError> {
        let mut words = text.split_ascii_whitespace();
        let encoded = match (words.next(), words.next()) {
            (Some(encoded), None) => encoded,
            (Some(algorithm), Some(encoded)) if !algorithm.starts_with("AAAA") => encoded,
            (Some(encoded), Some(_)) => encoded,
            (None, _) => return Err(HostKeyError),
        };
        let padded = format!("{encoded}{}", "=".repeat((4 - encoded.len() % 4) % 4));
        let bytes = Base64::decode_vec(&padded).map_err(|_| HostKeyError)?;
        // A key begins with the length and the name of its algorithm.
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or(HostKeyError)?;
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| HostKeyError)?;
        let name = rest.get(..length).filter(|name| rest.len() > name.len()).ok_or(HostKeyError)?;
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-@.".contains(byte);
        match !name.is_empty() && name.len() <= 64 && name.iter().all(is_plain) {
            true => Ok(HostKey { algorithm: String::from_utf8_lossy(name).into_owned(), encoded: padded }),
            false => Err(HostKeyError),
        }
    }
}

/// As it stands in a file of ssh.
impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.algorithm, self.encoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIJ1Hh8yqdS2p1B2VO6gQ8rJlGz2s4mWq6f3JXk1o0aBc";

    #[test]
    fn a_key_is_read_with_and_without_its_surroundings() {
        let whole = format!("ssh-ed25519 {KEY}");
        for text in [KEY, &whole, &format!("{whole} root@web1\n"), &format!("{KEY} comment")] {
            assert_eq!(HostKey::parse(text).unwrap().to_string(), whole, "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in
            ["", "AAAA", "ssh-ed25519", "ssh-ed25519 x", "AAAAC3NzaC1lZDI1NTE5", "AAAA AAAA", "////AAAA"]
        {
            assert!(HostKey::parse(text).is_err(), "{text}");
        }
    }
}
