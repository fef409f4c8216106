//! `intendant certs DIR`: an authority and one certificate, to try encrypted clusters.
//!
//! All nodes may use the same certificate: it proves that a process is a node of the cluster, but not which
//! node. The authority's key is not kept, so that it cannot sign further certificates.

use crate::stdout::print;
use intendant::TLS_NAME;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use time::{Duration, OffsetDateTime};

/// The files, in the order of the flags that name them.
const CERT: &str = "node.pem";
const KEY: &str = "node-key.pem";
const CA: &str = "ca.pem";

/// Certificates are valid from this long ago, because clocks of machines differ.
const BEFORE: Duration = Duration::days(1);

/// Why there are no certificates.
enum Problem {
    Exists(PathBuf),
    Write(PathBuf, io::Error),
    Make(rcgen::Error),
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exists(path) => {
                write!(f, "{} exists and is not replaced; name another folder", path.display())
            }
            Self::Write(path, error) => write!(f, "cannot write {}: {error}", path.display()),
            Self::Make(error) => write!(f, "cannot make the certificates: {error}"),
        }
    }
}

/// Certificates as text.
struct Made {
    ca: String,
    cert: String,
    key: String,
}

/// Makes the files and prints the flags that name them.
pub(crate) fn run(folder: &Path, days: u32) -> ExitCode {
    let written = make(days).map_err(Problem::Make).and_then(|made| write(folder, &made));
    match written {
        Ok(folder) => {
            let path = |name| folder.join(name).display().to_string();
            let (cert, key, ca) = (path(CERT), path(KEY), path(CA));
            let text = format!(
                "Valid for {days} days. Copy {KEY} over encrypted connections only. Give all nodes:\n\
                 --tls-cert {cert} --tls-key {key} --tls-ca {ca}\n\
                 or, in their environment:\n\
                 INTENDANT_TLS_CERT={cert} INTENDANT_TLS_KEY={key} INTENDANT_TLS_CA={ca}\n"
            );
            print(&text, 0)
        }
        Err(problem) => {
            eprintln!("intendant: {problem}");
            ExitCode::from(if matches!(problem, Problem::Exists(_)) { crate::program::USAGE } else { 1 })
        }
    }
}

fn make(days: u32) -> Result<Made, rcgen::Error> {
    let now = OffsetDateTime::now_utc();
    let (not_before, not_after) = (now - BEFORE, now + Duration::days(days.into()));
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "intendant test authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    (authority.not_before, authority.not_after) = (not_before, not_after);
    let authority_key = KeyPair::generate()?;
    let ca = authority.self_signed(&authority_key)?.pem();

    let mut node = CertificateParams::new([TLS_NAME.to_owned()])?;
    node.distinguished_name.push(DnType::CommonName, "intendant node");
    node.use_authority_key_identifier_extension = true;
    node.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    node.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    (node.not_before, node.not_after) = (not_before, not_after);
    let key = KeyPair::generate()?;
    let cert = node.signed_by(&key, &Issuer::new(authority, authority_key))?.pem();
    Ok(Made { ca, cert, key: key.serialize_pem() })
}

/// Writes the files; returns the folder's absolute path.
fn write(folder: &Path, made: &Made) -> Result<PathBuf, Problem> {
    for name in [CERT, KEY, CA] {
        let path = folder.join(name);
        if path.symlink_metadata().is_ok() {
            return Err(Problem::Exists(path));
        }
    }
    let failed = |path: &Path| {
        let path = path.to_owned();
        |error: io::Error| match error.kind() == io::ErrorKind::AlreadyExists {
            true => Problem::Exists(path),
            false => Problem::Write(path, error),
        }
    };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed(folder))?;
    // The key is written first: with the key alone, no node can start.
    for (name, text, mode) in [(KEY, &made.key, 0o600), (CERT, &made.cert, 0o644), (CA, &made.ca, 0o644)] {
        let path = folder.join(name);
        let created = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
        created.and_then(|mut file| file.write_all(text.as_bytes())).map_err(failed(&path))?;
    }
    fs::canonicalize(folder).map_err(failed(folder))
}
