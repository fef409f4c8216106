//! Certificates for tests: good ones, and ones that must be refused.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use std::path::{Path, PathBuf};

/// An authority, which signs certificates of nodes. Two authorities have the same name and different keys.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// Whether a certificate is good, and what is wrong with it if not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// Nothing is wrong.
    Good,
    /// It was valid in the past.
    Expired,
    /// It has another name than nodes have.
    OtherName,
}

/// The files of a node.
#[derive(Clone, Debug)]
pub struct NodeFiles {
    /// Its certificate.
    pub cert: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
    /// The authority.
    pub ca: PathBuf,
}

impl NodeFiles {
    /// The flags of applications that name them.
    #[must_use]
    pub fn flags(&self) -> Vec<String> {
        let Self { cert, key, ca } = self;
        [("--tls-cert", cert), ("--tls-key", key), ("--tls-ca", ca)]
            .iter()
            .flat_map(|(flag, path)| [(*flag).to_owned(), path.display().to_string()])
            .collect()
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// A new authority.
    ///
    /// # Panics
    /// If the system has no random numbers.
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Writes a certificate, its key and this authority to `folder`, in files whose names start with `stem`.
    ///
    /// # Panics
    /// If they cannot be written.
    #[must_use]
    pub fn issue(&self, folder: &Path, stem: &str, certificate: Certificate) -> NodeFiles {
        let name = if certificate == Certificate::OtherName { "other.example" } else { "intendant" };
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        if certificate == Certificate::Expired {
            (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
        }
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, &self.issuer).expect("a certificate");
        let write = |suffix: &str, text: &str| {
            let path = folder.join(format!("{stem}-{suffix}.pem"));
            std::fs::write(&path, text).expect("a file");
            path
        };
        NodeFiles {
            cert: write("cert", &signed.pem()),
            key: write("key", &key.serialize_pem()),
            ca: write("ca", &self.pem),
        }
    }
}
