//! Ed25519 keys, in the forms that people have them in: those of OpenSSH and of OpenSSL.

use std::fmt;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64ct::{Base64, Base64Unpadded, Encoding as _};
use mgmt_store::Signature;

/// A public key of the kind Ed25519. As text it is a line of OpenSSH.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PublicKey([u8; 32]);

/// A private key of the kind Ed25519. It cannot be shown.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    public: PublicKey,
}

/// Why a text is no key.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct KeyError {
    what: String,
    /// What to do about it.
    pub hint: &'static str,
}

const MAKE: &str =
    "make one with `ssh-keygen -t ed25519 -N '' -f FILE`, or `openssl genpkey -algorithm ed25519 -out FILE`";

const SSH: &str = "ssh-ed25519";

/// What stands before the 32 bytes of a public key in the form of X.509.
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

impl PublicKey {
    /// The key that a signature claims to be made with.
    pub fn of(signature: &Signature) -> Option<PublicKey> {
        PublicKey::new(&Base64::decode_vec(&signature.key).ok()?)
    }

    pub(super) fn new(bytes: &[u8]) -> Option<PublicKey> {
        bytes.try_into().ok().map(PublicKey)
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(message, signature).is_ok()
    }

    /// All keys of a text: lines as in `id_ed25519.pub`, or blocks of PEM. Empty lines and those that begin with `#` are
    /// passed over.
    pub fn read_all(text: &str) -> Result<Vec<PublicKey>, KeyError> {
        let mut keys = Vec::new();
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        while let Some(line) = lines.next() {
            let key = match line.strip_prefix("-----BEGIN ") {
                Some("PUBLIC KEY-----") => {
                    let body: String = lines.by_ref().take_while(|line| !line.starts_with("-----")).collect();
                    let der = Base64::decode_vec(&body).ok();
                    der.and_then(|der| PublicKey::new(der.strip_prefix(&SPKI)?))
                }
                Some(_) if line.contains("PRIVATE KEY") => {
                    return Err(KeyError {
                        what: "this is a private key".to_owned(),
                        hint: "hosts are given the public one, which `ssh-keygen` writes into a file that ends in `.pub`, and \
                               `openssl pkey -pubout -in FILE` prints; keep the private one where you deploy",
                    });
                }
                Some(_) => None,
                None => of_line(line),
            };
            keys.push(key.ok_or_else(|| KeyError {
                what: "not a public key of the kind Ed25519".to_owned(),
                hint: "expected a line that begins with `ssh-ed25519`, or a block `BEGIN PUBLIC KEY` of OpenSSL",
            })?);
        }
        match keys.is_empty() {
            true => Err(KeyError { what: "there is no key in it".to_owned(), hint: MAKE }),
            false => Ok(keys),
        }
    }
}

fn of_line(line: &str) -> Option<PublicKey> {
    let (kind, rest) = line.split_once(char::is_whitespace)?;
    let body = rest.trim_start().split(char::is_whitespace).next()?;
    let bytes = Base64::decode_vec(body).ok()?;
    let mut fields = Fields(&bytes);
    let is_right = kind == SSH && fields.text()? == SSH.as_bytes();
    let key = fields.text()?;
    (is_right && fields.0.is_empty()).then(|| PublicKey::new(key)).flatten()
}

impl SigningKey {
    /// Reads a key: PKCS#8 in PEM as OpenSSL writes it, or one of OpenSSH without a passphrase.
    pub fn read(text: &str) -> Result<SigningKey, KeyError> {
        let not = |what: &str| KeyError { what: what.to_owned(), hint: MAKE };
        let mut lines = text.lines().map(str::trim).skip_while(|line| !line.starts_with("-----BEGIN "));
        let begin = lines.next().ok_or_else(|| not("not a private key"))?;
        let body: String = lines.take_while(|line| !line.starts_with("-----")).collect();
        let bytes = Base64::decode_vec(&body).map_err(|_| not("damaged: not base64"))?;
        match begin {
            "-----BEGIN PRIVATE KEY-----" => {
                let pair = Ed25519KeyPair::from_pkcs8(&bytes);
                pair.map(SigningKey::new).map_err(|_| not("not a private key of the kind Ed25519"))
            }
            "-----BEGIN OPENSSH PRIVATE KEY-----" => {
                let seed =
                    seed_of_openssh(&bytes).ok_or_else(|| not("not a private key of the kind Ed25519"))?;
                let seed = seed.ok_or_else(|| KeyError {
                    what: "protected by a passphrase".to_owned(),
                    hint: "use a key of its own without a passphrase for deploys, or sign where the key can be read",
                })?;
                let pair = Ed25519KeyPair::from_seed_unchecked(&seed);
                pair.map(SigningKey::new).map_err(|_| not("not a private key of the kind Ed25519"))
            }
            "-----BEGIN PUBLIC KEY-----" => {
                Err(not("this is a public key, and signing needs the private one"))
            }
            "-----BEGIN ENCRYPTED PRIVATE KEY-----" => Err(not("protected by a passphrase")),
            _ => Err(not("not a private key of the kind Ed25519")),
        }
    }

    fn new(pair: Ed25519KeyPair) -> SigningKey {
        let mut bytes = [0; 32];
        // A public key of this kind always has 32 bytes.
        bytes.copy_from_slice(pair.public_key().as_ref());
        SigningKey { pair, public: PublicKey(bytes) }
    }

    #[cfg(test)]
    pub(super) fn of_seed(seed: [u8; 32]) -> SigningKey {
        #[allow(clippy::unwrap_used, reason = "any 32 bytes are a seed")]
        SigningKey::new(Ed25519KeyPair::from_seed_unchecked(&seed).unwrap())
    }

    /// The public key that goes with it.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(super) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }
}

/// The private half in a file of OpenSSH; `Some(None)` if it is encrypted.
fn seed_of_openssh(bytes: &[u8]) -> Option<Option<[u8; 32]>> {
    let mut fields = Fields(bytes.strip_prefix(b"openssh-key-v1\0")?);
    let cipher = fields.text()?;
    let (_derivation, _options) = (fields.text()?, fields.text()?);
    let count = fields.number()?;
    let _public = fields.text()?;
    if cipher != b"none" {
        return Some(None);
    }
    let mut fields = Fields(fields.text()?);
    let check = (fields.number()?, fields.number()?);
    let kind = fields.text()?;
    let _public = fields.text()?;
    let both = fields.text()?;
    let is_right = count == 1 && check.0 == check.1 && kind == SSH.as_bytes() && both.len() == 64;
    is_right.then(|| both.get(..32)?.try_into().ok()).flatten().map(Some)
}

/// Fields of the protocol of ssh: each has its length before it.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*number))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes(), bytes].concat();
        let blob = [field(SSH.as_bytes()), field(&self.0)].concat();
        // 51 bytes: there is nothing to pad.
        write!(f, "{SSH} {}", Base64Unpadded::encode_string(&blob))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("public", &self.public).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

    use std::process::Command;

    use super::*;

    fn run(program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn keys_of_openssh_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key").to_str().unwrap().to_owned();
        run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-C", "me at home", "-f", &path]);
        let key = SigningKey::read(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let line = std::fs::read_to_string(format!("{path}.pub")).unwrap();
        assert_eq!(PublicKey::read_all(&format!("# ours\n\n{line}")).unwrap(), [key.public().clone()]);
        assert!(line.starts_with(&key.public().to_string()), "{line}");
        run("ssh-keygen", &["-q", "-p", "-P", "", "-N", "secret", "-f", &path]);
        let error = SigningKey::read(&std::fs::read_to_string(&path).unwrap()).unwrap_err();
        assert!(error.to_string().contains("passphrase"), "{error}");
    }

    #[test]
    fn keys_of_openssl_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key").to_str().unwrap().to_owned();
        run("openssl", &["genpkey", "-algorithm", "ed25519", "-out", &path]);
        let text = std::fs::read_to_string(&path).unwrap();
        let key = SigningKey::read(&text).unwrap();
        let public = run("openssl", &["pkey", "-pubout", "-in", &path]);
        assert_eq!(PublicKey::read_all(&public).unwrap(), [key.public().clone()]);
        let both = format!("{public}{}\n", key.public());
        assert_eq!(PublicKey::read_all(&both).unwrap().len(), 2);
        assert!(PublicKey::read_all(&text).unwrap_err().to_string().contains("private"));
        assert!(SigningKey::read(&public).unwrap_err().to_string().contains("public"));
        run("openssl", &["genpkey", "-algorithm", "x25519", "-out", &path]);
        assert!(SigningKey::read(&std::fs::read_to_string(&path).unwrap()).is_err());
    }

    #[test]
    fn what_is_no_key_is_said_to_be_none() {
        for text in ["", "\n# nothing\n", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-rsa AAAAB3NzaC1yc2EA", "x"]
        {
            assert!(PublicKey::read_all(text).is_err(), "{text}");
            assert!(SigningKey::read(text).is_err(), "{text}");
        }
        let line = SigningKey::of_seed([7; 32]).public().to_string();
        for at in 0..line.len() {
            assert!(PublicKey::read_all(&line[..at]).is_err(), "{at}");
        }
    }
}
