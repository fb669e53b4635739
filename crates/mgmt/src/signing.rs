//! Whose deploys are run, and who signs them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgmt_signing::{KeyError, PublicKey, Signer, SigningKey};

use crate::environment::{self, Variable};
use crate::failure::Failure;

/// The flags of whoever deploys.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Signatures")]
pub(crate) struct Signing {
    /// Sign with this private key of the kind Ed25519, as `ssh-keygen -t ed25519` or `openssl genpkey` make it
    /// [env: MGMT_SIGN_KEY]
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    sign_key: Option<PathBuf>,

    /// For how long hosts that have not heard of it may begin with what is signed, such as `12h` or `30d`; for ever if
    /// nothing is said
    #[arg(long, value_name = "TIME", requires = "sign_key")]
    valid_for: Option<String>,

    /// Begin a new series of numbers, after the store was restored from a backup: hosts accept it although they have accepted a
    /// higher number with the same key
    #[arg(long, requires = "sign_key")]
    new_series: bool,
}

/// A key file has no reason to be larger.
const LARGEST: u64 = 1 << 20;

impl Signing {
    /// Who signs, if somebody does.
    pub(crate) fn signer(&self) -> Result<Option<Signer>, Failure> {
        let Some(path) = given(self.sign_key.as_deref(), &environment::SIGN_KEY) else { return Ok(None) };
        let valid_for = self.valid_for.as_deref().map(duration).transpose()?;
        let text = read(&path)?;
        let mode = path.metadata().map_err(|error| unreadable(&path, &error))?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(Failure::usage(format!("{}: others may read this private key", path.display()))
                .hint(format!("chmod 600 {}", path.display())));
        }
        let key = SigningKey::read(&text).map_err(|error| wrong(&path, &error))?;
        Ok(Some(Signer { key, valid_for, new_series: self.new_series }))
    }
}

/// The keys in these files, or in the one that the environment names.
pub(crate) fn trusted(paths: &[PathBuf]) -> Result<Vec<PublicKey>, Failure> {
    let paths = match paths.is_empty() {
        true => given(None, &environment::DEPLOY_KEY).into_iter().collect(),
        false => paths.to_vec(),
    };
    let mut keys = Vec::new();
    for path in paths {
        keys.append(&mut PublicKey::read_all(&read(&path)?).map_err(|error| wrong(&path, &error))?);
    }
    Ok(keys)
}

fn given(flag: Option<&Path>, variable: &Variable) -> Option<PathBuf> {
    flag.map(Path::to_owned).or_else(|| variable.text().map(PathBuf::from))
}

fn read(path: &Path) -> Result<String, Failure> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| unreadable(path, &error))?;
    file.take(LARGEST).read_to_string(&mut text).map_err(|error| unreadable(path, &error))?;
    Ok(text)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("cannot read {}: {error}", path.display()))
}

fn wrong(path: &Path, error: &KeyError) -> Failure {
    Failure::usage(format!("{}: {error}", path.display())).hint(error.hint)
}

fn duration(text: &str) -> Result<Duration, Failure> {
    let wrong =
        || Failure::usage(format!("`--valid-for {text}`: expected a time such as `90m`, `12h` or `30d`"));
    let span: jiff::Span = text.parse().map_err(|_| wrong())?;
    let span = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
    Duration::try_from(span).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(duration("90m").unwrap(), Duration::from_secs(5400));
        assert_eq!(duration("30d").unwrap(), Duration::from_secs(30 * 86400));
        assert_eq!(duration("1d 2h").unwrap(), Duration::from_secs(26 * 3600));
        for text in ["", "x", "0s", "-1h", "1 fortnight", "10"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
