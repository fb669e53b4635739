//! `password`: a password that nobody has to think of.
//!
//! [`Password`] is the declaration, `kept` what outlives a run.
//!
//! Invariants
//! - Neither the password nor its hash is ever logged, told in an error, or given to a command.
//! - What is kept is readable by us alone, from the first moment on, and replaced as a whole.
//! - What is sent is what is kept: a password that could not be stored is not sent.

mod kept;

use mgmt_resource::{
    Checked, Context, Effect, Error, Fields, Id, Invalid, Kind, Resource, Result, Watch, state_name,
};
use mgmt_value::{Secret, Str};
use sha_crypt::{Algorithm, Params, PasswordHasher, ShaCrypt};

use self::kept::Kept;
use crate::support::follow;

/// What a password is made of.
const LETTERS: &[u8; 52] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The largest number of letters that fit a byte several times over. What is beyond would prefer some letters.
const FAIR: u8 = 208;
/// How often the hash is computed over: some hundredths of a second, for us and for whoever tries passwords.
const ROUNDS: u32 = 100_000;
/// Bytes of the salt, which are sixteen letters.
const SALT: usize = 12;

/// Makes a password of random letters, keeps it, and sends it to others.
///
/// The password is made once. Another resource receives it as `password`, or its hash as `hash`, which is what the `password`
/// of a `user` needs. With `saved`, the password is sent for ever; without, it is sent only in the run that makes it, and
/// afterwards nothing is sent, which leaves receivers that can be unset as they would be without it. The hash is always kept
/// and sent.
///
/// When another resource notifies this one, or when somebody removes the file that it keeps, another password is made.
///
/// What is kept is in the state directory of this program, readable by nobody but the user that runs it.
///
/// ```mcl
/// password "database" {
///     length => 32,
///     saved => true,
/// }
/// file "/etc/shop-database-password" {
///     state => "exists",
///     mode => "u=rw,go=",
/// }
///
/// Password["database"].password -> File["/etc/shop-database-password"].content
/// ```
#[derive(Clone, Debug, PartialEq, Resource)]
#[resource(kind = "password", refresh, send, blocking)]
pub struct Password {
    /// How many letters the password has.
    pub length: u16,
    /// Keep the password itself, and not only its hash.
    pub saved: bool,
    /// When what is kept is not right, make another password instead of failing.
    pub check_recovery: bool,
}

impl Default for Password {
    fn default() -> Password {
        Password { length: 64, saved: false, check_recovery: false }
    }
}

/// What a `password` sends.
#[derive(Clone, Debug, Default, Fields)]
pub struct Secrets {
    /// The password, if it is known.
    #[field(secret)]
    pub password: Option<Secret<Str>>,
    /// The hash of the password, as the accounts of the host have it.
    #[field(secret)]
    pub hash: Option<Secret<Str>>,
}

impl Kind for Password {
    type State = ();
    type Sends = Secrets;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        match self.length {
            0 => Err(Invalid::field("length", "expected at least one letter, found 0")),
            _ => Ok(()),
        }
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        vec![follow::state_files(state_name(&Id::new("password", name.clone())), &kept::FILES)]
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        let directory = cx.state_directory();
        let kept = Kept::load(&directory)?;
        let found = self.judge(&kept, cx.refresh);
        if let Found::Invalid(why) = found
            && !self.check_recovery
        {
            return Err(Error::new(format_args!(
                "what is kept in {} is not right: {why}",
                directory.display()
            ))
            .with_hint("remove it, or set `check_recovery => true`, to have another password made"));
        }
        if kept.is_damaged && cx.apply {
            Kept::set_aside(&directory);
        }
        if matches!(found, Found::Right) {
            cx.send(&kept.secrets());
            return Ok(Checked::Right);
        }
        // Nobody knows beforehand what it will be.
        let effect = Effect::change(cx.id.name.display()).aspect("password").secret();
        cx.describe(Effect { opaque: true, ..effect });
        if !cx.apply {
            cx.send(&kept.secrets());
            return Ok(Checked::Changed);
        }
        let secrets = match (found, kept.password) {
            // The password is known, only its hash is not there any more.
            (Found::Unhashed, Some(password)) => {
                Secrets { hash: Some(hashed(password.reveal())?.into()), password: Some(password) }
            }
            _ => {
                let password = Secret::new(generate(self.length)?);
                Secrets { hash: Some(hashed(password.reveal())?.into()), password: Some(password) }
            }
        };
        Kept::store(&secrets, self.saved, &directory, cx.host.durability)?;
        cx.send(&secrets);
        cx.info("has made a password");
        Ok(Checked::Changed)
    }
}

/// What the last run has left.
enum Found {
    Right,
    /// There is no password.
    Missing,
    /// There is a password, but no hash of it.
    Unhashed,
    Invalid(&'static str),
}

impl Password {
    fn judge(&self, kept: &Kept, refresh: bool) -> Found {
        let password = match &kept.password {
            None => return Found::Missing,
            _ if refresh => return Found::Missing,
            Some(_) if kept.is_damaged => {
                return Found::Invalid("it is damaged: its checksum does not match");
            }
            Some(password) => password.reveal(),
        };
        let is_letter = |byte: &u8| LETTERS.contains(byte);
        match (self.saved, password.is_empty()) {
            (false, false) => Found::Invalid("it has the password, which is not to be saved"),
            (true, true) => Found::Missing,
            (true, false) if password.len() != usize::from(self.length) => {
                Found::Invalid("it has another length")
            }
            (true, false) if !password.iter().all(is_letter) => {
                Found::Invalid("it has something else than letters")
            }
            (true, false) if kept.hash.is_none() => Found::Unhashed,
            // Without the password, a hash that is lost is lost.
            _ => Found::Right,
        }
    }
}

fn generate(length: u16) -> Result<Str> {
    let mut password = Vec::with_capacity(length.into());
    while password.len() < length.into() {
        let fair = random::<64>()?.into_iter().filter(|byte| *byte < FAIR);
        let missing = usize::from(length) - password.len();
        password.extend(fair.take(missing).map(|byte| LETTERS[usize::from(byte) % LETTERS.len()]));
    }
    Ok(Str::from(password))
}

/// The hash by SHA-512, which every C library knows.
fn hashed(password: &Str) -> Result<Str> {
    // The library's errors say nothing about the password, and cannot happen with these parameters.
    let failed = |_| Error::new("cannot compute the hash of the password");
    let hasher = ShaCrypt::new(
        Algorithm::Sha512Crypt,
        Params::new(ROUNDS).map_err(|_| Error::new("too many rounds"))?,
    );
    let hash = hasher.hash_password_with_salt(password, &random::<SALT>()?).map_err(failed)?;
    Ok(Str::from(hash.as_str()))
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => {
                return Err(Error::new(format_args!("the kernel gives no random numbers: {errno}")));
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_long_enough_and_all_letters_occur() {
        let long = generate(u16::MAX).unwrap();
        assert_eq!(long.len(), usize::from(u16::MAX));
        for letter in LETTERS {
            let count = long.iter().filter(|byte| *byte == letter).count();
            // 1260 are expected, and a thousand times less likely than this is nothing that was ever seen.
            assert!((900..1700).contains(&count), "{} occurs {count} times", char::from(*letter));
        }
        assert!(long.iter().all(|byte| LETTERS.contains(byte)));
        assert_ne!(generate(64).unwrap(), generate(64).unwrap());
    }

    #[test]
    fn a_hash_is_salted_and_has_the_form_that_accounts_use() {
        let password = Str::from("correct horse");
        let (one, two) = (hashed(&password).unwrap(), hashed(&password).unwrap());
        assert_ne!(one, two);
        assert!(one.starts_with(b"$6$rounds=100000$"), "{one:?}");
    }

    #[test]
    fn what_is_kept_is_judged() {
        let kept = |password: Option<&str>, hash: Option<&str>| Kept {
            password: password.map(Secret::from),
            hash: hash.map(Secret::from),
            is_damaged: false,
        };
        let judged = |saved: bool, kept: &Kept| match (Password { saved, length: 3, check_recovery: false })
            .judge(kept, false)
        {
            Found::Right => "right",
            Found::Missing => "missing",
            Found::Unhashed => "unhashed",
            Found::Invalid(_) => "invalid",
        };
        let hash = Some("$6$a$b");
        assert_eq!(judged(true, &kept(Some("abC"), hash)), "right");
        assert_eq!(judged(true, &kept(Some("abC"), None)), "unhashed");
        assert_eq!(judged(true, &kept(Some("abCd"), hash)), "invalid");
        assert_eq!(judged(true, &kept(Some("ab1"), hash)), "invalid");
        assert_eq!(judged(true, &kept(Some(""), hash)), "missing");
        assert_eq!(judged(true, &kept(None, hash)), "missing");
        assert_eq!(judged(false, &kept(Some(""), hash)), "right");
        assert_eq!(judged(false, &kept(Some(""), None)), "right");
        assert_eq!(judged(false, &kept(Some("abC"), hash)), "invalid");
        assert_eq!(judged(false, &kept(None, None)), "missing");
        let refreshed =
            Password { saved: true, length: 3, check_recovery: false }.judge(&kept(Some("abC"), hash), true);
        assert!(matches!(refreshed, Found::Missing));
    }

    #[test]
    fn a_password_has_at_least_one_letter() {
        let none = Password { length: 0, ..Password::default() };
        assert_eq!(Kind::validate(&none, &"a".into()).unwrap_err().field, Some("length"));
        assert!(Kind::validate(&Password::default(), &"a".into()).is_ok());
    }
}
