//! Signatures of deploys, as they are stored, and the trait of whoever makes them.
//!
//! The store keeps a signature as plain data and knows no cryptography: keys, statements and the order among them are the crate
//! `signing`, which implements [`DeploySigner`].

use serde::{Deserialize, Serialize};

use crate::deploy::{Deploy, Program};
use crate::tree::Blob;

/// The signature of a deploy: a statement about it, and the proof who has made the statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// The statement, exactly as it was signed.
    pub statement: String,
    /// The public key, in base64.
    pub key: String,
    /// The signature of the statement, in base64.
    pub signature: String,
}

/// The part of a deploy that is signed.
#[derive(Clone, Copy, Debug)]
pub struct SignedContent<'a> {
    /// How the program is to be run.
    pub program: &'a Program,
    /// The commit that the deploy was made from.
    pub hash: Option<&'a String>,
    /// The digests of all files.
    pub files: &'a Blob,
}

/// Signs deploys.
pub trait DeploySigner: Send + Sync {
    /// Signs what is about to be deployed under this number, after the deploys that are in the store.
    fn sign(
        &self,
        content: SignedContent<'_>,
        number: u64,
        stored: &mut dyn Iterator<Item = &Deploy>,
    ) -> Signature;

    /// Whether a deploy is one that the same key has signed, as it is.
    fn has_signed(&self, deploy: &Deploy) -> bool;
}
