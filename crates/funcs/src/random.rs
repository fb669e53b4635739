//! Chance.

use crate::Failure;

/// Bytes that nobody can foresee.
pub(crate) fn bytes(count: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![0; count];
    let mut filled = 0;
    while filled < count {
        let got = rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty());
        match got {
            Ok(got) => filled += got,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Failure::fatal(format!("the system gives no random bytes: {error}"))),
        }
    }
    Ok(bytes)
}

/// A number of 64 random bits.
pub(crate) fn word() -> Result<u64, Failure> {
    let bytes = bytes(8)?;
    Ok(bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)))
}
