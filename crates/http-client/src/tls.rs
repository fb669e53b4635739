//! TLS settings: trusted authorities, revocation lists, client certificate.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::{Connector, Error};

/// Whom a client trusts, and which certificate it presents. The files are in PEM.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The authorities that the host trusts are trusted.
    pub trusts_system: bool,
    /// Other authorities that are trusted.
    pub authorities: Vec<PathBuf>,
    /// A list of revoked certificates; ignored if it does not exist.
    pub revoked: Option<PathBuf>,
    /// The certificate of the client.
    pub identity: Option<Identity>,
}

/// A certificate with its private key.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate, with those between it and its authority.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

impl Tls {
    /// Trust in the authorities that the host trusts, and others.
    pub fn of_host(authorities: &[PathBuf]) -> Tls {
        Tls { trusts_system: true, authorities: authorities.to_vec(), ..Tls::default() }
    }

    /// Reads the files.
    pub fn connector(&self) -> Result<Connector, Error> {
        let mut roots = RootCertStore::empty();
        if self.trusts_system {
            // One that cannot be read is one less.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        for file in &self.authorities {
            add_authorities(&mut roots, file)?;
        }
        if roots.is_empty() {
            return Err(Error("this host trusts no authority; install `ca-certificates`".to_owned()));
        }
        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let mut verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        if let Some(path) = self.revoked.as_deref().filter(|path| path.is_file()) {
            let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_file_iter(path)
                .map_err(|error| at(path, &error))?
                .collect();
            verifier = verifier
                .with_crls(lists.map_err(|error| at(path, &error))?)
                .allow_unknown_revocation_status();
        }
        let configuration = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_webpki_verifier(verifier.build()?);
        let configuration = match &self.identity {
            None => configuration.with_no_client_auth(),
            Some(Identity { certificate, key }) => {
                let private = PrivateKeyDer::from_pem_file(key).map_err(|error| at(key, &error))?;
                let chain = certificates(certificate)?;
                configuration
                    .with_client_auth_cert(chain, private)
                    .map_err(|error| at(certificate, &error))?
            }
        };
        Ok(Connector(TlsConnector::from(Arc::new(configuration))))
    }
}

fn at(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error(format!("{}: {error}", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(|error| at(path, &error))?.collect();
    found.map_err(|error| at(path, &error))
}

/// Checks that a file with authorities can be used.
pub fn check_authorities(file: &Path) -> Result<(), Error> {
    add_authorities(&mut RootCertStore::empty(), file)
}

fn add_authorities(roots: &mut RootCertStore, file: &Path) -> Result<(), Error> {
    if !file.metadata().map_err(|error| at(file, &error))?.is_file() {
        return Err(at(file, &"not a regular file"));
    }
    let found = certificates(file)?;
    if found.is_empty() {
        return Err(at(file, &"no certificate in it"));
    }
    for certificate in found {
        roots.add(certificate).map_err(|error| at(file, &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn files_that_hold_no_authority_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let empty = directory.path().join("empty.pem");
        std::fs::write(&empty, "nothing\n").unwrap();
        for (path, expected) in [
            (empty.clone(), "no certificate in it"),
            (directory.path().to_owned(), "not a regular file"),
            (directory.path().join("missing"), "No such file"),
        ] {
            let error = check_authorities(&path).unwrap_err();
            assert!(error.0.starts_with(&*path.to_string_lossy()) && error.0.contains(expected), "{error}");
        }
        assert!(Tls { authorities: vec![empty], ..Tls::default() }.connector().is_err());
        let error = Tls::default().connector().err().unwrap();
        assert!(error.0.contains("trusts no authority"), "{error}");
    }
}
