//! The files of a node: its certificate, its key, and the authority of the cluster.

use crate::check_is_file;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CertificateError, Error, RootCertStore};
use std::io;
use std::path::{Path, PathBuf};

/// The name that the certificate of every node has among its alternative names (DNS).
pub const TLS_NAME: &str = "intendant";

/// The files that a node needs for TLS, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the node, followed by certificates between it and the authority, if there are any.
    pub cert: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The certificate of the authority that signs the certificates of all nodes, or the certificates of
    /// several authorities.
    pub ca: PathBuf,
}

/// Why files cannot be used for TLS. The contents of the key are never repeated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFileError {
    /// A file cannot be read.
    #[error("cannot read {path} ({flag}): {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The flag that names it.
        flag: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// A file does not contain what it should.
    #[error("{path} ({flag}) contains no {wanted} in PEM: {detail}")]
    NotPem {
        /// The file.
        path: PathBuf,
        /// The flag that names it.
        flag: &'static str,
        /// What it should contain.
        wanted: &'static str,
        /// What is wrong.
        detail: String,
    },
    /// The key belongs to another certificate.
    #[error(
        "the key in {key} (--tls-key) does not belong to the certificate in {cert} (--tls-cert); give both \
         files of one node"
    )]
    KeyMismatch {
        /// The file of the key.
        key: PathBuf,
        /// The file of the certificate.
        cert: PathBuf,
    },
    /// The key is of a kind that cannot be used.
    #[error("the key in {key} (--tls-key) cannot be used: {detail}")]
    Key {
        /// The file.
        key: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// Peers would refuse the certificate.
    #[error(
        "the certificate in {cert} (--tls-cert) {fault}; make a new one with the cluster's authority \
         (`intendant certs DIR` makes an authority and a certificate for tests)"
    )]
    Certificate {
        /// The file.
        cert: PathBuf,
        /// What is wrong.
        fault: String,
    },
    /// The authority cannot be used.
    #[error("the authority in {ca} (--tls-ca) cannot be used: {detail}")]
    Authority {
        /// The file.
        ca: PathBuf,
        /// What is wrong.
        detail: String,
    },
}

impl TlsFiles {
    /// The certificates of the node.
    pub(super) fn chain(&self) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
        certificates(&self.cert, "--tls-cert")
    }

    pub(super) fn key(&self) -> Result<PrivateKeyDer<'static>, TlsFileError> {
        let read = || {
            check_is_file(&self.key).map_err(pem::Error::Io)?;
            PrivateKeyDer::from_pem_file(&self.key)
        };
        read().map_err(|error| unreadable(&self.key, "--tls-key", "private key", error))
    }

    /// The authorities that sign certificates of nodes.
    pub(super) fn roots(&self) -> Result<RootCertStore, TlsFileError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.ca, "--tls-ca")? {
            roots.add(certificate).map_err(|error| self.unusable_authority(&error))?;
        }
        Ok(roots)
    }

    pub(super) fn unusable_authority(&self, error: &impl std::fmt::Display) -> TlsFileError {
        TlsFileError::Authority { ca: self.ca.clone(), detail: error.to_string() }
    }

    pub(super) fn unusable_certificate(&self, error: &Error) -> TlsFileError {
        let fault = if let Error::InvalidCertificate(fault) = error {
            describe(fault, self)
        } else {
            format!("cannot be used: {error}")
        };
        TlsFileError::Certificate { cert: self.cert.clone(), fault }
    }

    pub(super) fn unusable_key(&self, error: &Error) -> TlsFileError {
        if matches!(error, Error::InconsistentKeys(_)) {
            TlsFileError::KeyMismatch { key: self.key.clone(), cert: self.cert.clone() }
        } else {
            TlsFileError::Key { key: self.key.clone(), detail: error.to_string() }
        }
    }
}

/// The rest of a sentence whose subject is a certificate.
pub(super) fn describe(fault: &CertificateError, files: &TlsFiles) -> String {
    let days = |from: u64, to: u64| to.saturating_sub(from) / (24 * 3600);
    if let CertificateError::ExpiredContext { time, not_after } = fault {
        format!("has expired, {} days ago", days(not_after.as_secs(), time.as_secs()))
    } else if matches!(fault, CertificateError::Expired) {
        "has expired".to_owned()
    } else if let CertificateError::NotValidYetContext { time, not_before } = fault {
        format!("becomes valid in {} days; compare the clocks", days(time.as_secs(), not_before.as_secs()))
    } else if matches!(fault, CertificateError::NotValidYet) {
        "is not valid yet; compare the clocks".to_owned()
    } else if matches!(fault, CertificateError::UnknownIssuer | CertificateError::BadSignature) {
        format!("is not signed by an authority in {}", files.ca.display())
    } else if matches!(
        fault,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
    ) {
        format!("does not have the DNS name '{TLS_NAME}' among its alternative names")
    } else if format!("{fault:?}").contains("CaUsedAsEndEntity") {
        // The verifier's own error; rustls exposes nothing of its type.
        "is that of an authority, and not of a node".to_owned()
    } else {
        format!("cannot be used: {fault}")
    }
}

fn certificates(path: &Path, flag: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    const WANTED: &str = "certificate";
    let read = || {
        check_is_file(path).map_err(pem::Error::Io)?;
        CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()
    };
    let found = read().map_err(|error| unreadable(path, flag, WANTED, error))?;
    if found.is_empty() {
        return Err(unreadable(path, flag, WANTED, pem::Error::NoItemsFound));
    }
    Ok(found)
}

fn unreadable(path: &Path, flag: &'static str, wanted: &'static str, error: pem::Error) -> TlsFileError {
    let path = path.to_owned();
    if let pem::Error::Io(source) = error {
        return TlsFileError::Read { path, flag, source };
    }
    let detail = if matches!(error, pem::Error::NoItemsFound) {
        format!("there is no section of a {wanted}")
    } else {
        error.to_string()
    };
    TlsFileError::NotPem { path, flag, wanted, detail }
}
