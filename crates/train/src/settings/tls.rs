//! The flags of TLS, which encrypts the connections between hosts.
//!
//! The files are those of a machine. So neither the effective configuration nor the report names them, and
//! nodes do not compare them: a node that uses TLS and one that does not refuse each other when they connect.

use super::flag;
use super::headings::CLUSTER;
use crate::error::TrainError;
use intendant::launch::is_readable_by_others;
use intendant::{Tls, TlsFiles};
use std::path::PathBuf;

// (Not a documentation comment: it would become the description of the program.)
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct TlsArgs {
    /// Encrypt the connections between hosts: this node's certificate, in PEM, signed by the authority of
    /// --tls-ca for the DNS name 'intendant'. All nodes use TLS, or none
    #[arg(
        long, group = flag::MACHINE, value_name = "FILE", conflicts_with = "simulate",
        help_heading = CLUSTER,
    )]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The private key of --tls-cert, in PEM
    #[arg(
        long, group = flag::MACHINE, value_name = "FILE", conflicts_with = "simulate",
        help_heading = CLUSTER,
    )]
    pub(crate) tls_key: Option<PathBuf>,

    /// The authority that signs the certificates of all nodes, in PEM
    #[arg(
        long, group = flag::MACHINE, value_name = "FILE", conflicts_with = "simulate",
        help_heading = CLUSTER,
    )]
    pub(crate) tls_ca: Option<PathBuf>,
}

impl TlsArgs {
    /// The files, of which a user gives all or none.
    pub(crate) fn files(&self) -> Result<Option<TlsFiles>, TrainError> {
        let paths =
            [("--tls-cert", &self.tls_cert), ("--tls-key", &self.tls_key), ("--tls-ca", &self.tls_ca)];
        match paths.map(|(_, path)| path.as_ref()) {
            [None, None, None] => Ok(None),
            [Some(cert), Some(key), Some(ca)] => {
                Ok(Some(TlsFiles { cert: cert.clone(), key: key.clone(), ca: ca.clone() }))
            }
            some => {
                let named = |given: bool| {
                    let flags = paths.iter().filter(|(_, path)| path.is_some() == given);
                    flags.map(|(flag, _)| *flag).collect::<Vec<_>>().join(" and ")
                };
                let needs = if some.iter().flatten().count() == 1 { "needs" } else { "need" };
                Err(TrainError::usage(format!(
                    "{} {needs} {} as well: TLS takes a certificate, its key and the authority",
                    named(true),
                    named(false)
                )))
            }
        }
    }
}

/// Reads the files and verifies the certificate. Warns of a key that others can read.
pub(crate) fn load(files: &TlsFiles) -> Result<Tls, TrainError> {
    let loaded = Tls::load(files).map_err(TrainError::usage)?;
    if is_readable_by_others(&files.key) {
        tracing::warn!(
            "--tls-key {}: other users of this machine can read the key; chmod 600 it",
            files.key.display()
        );
    }
    Ok(loaded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_given_together() {
        let path = || Some(PathBuf::from("x.pem"));
        let args = |cert, key, ca| TlsArgs { tls_cert: cert, tls_key: key, tls_ca: ca };
        assert!(matches!(args(None, None, None).files(), Ok(None)));
        assert!(matches!(args(path(), path(), path()).files(), Ok(Some(_))));
        let error = args(path(), None, None).files().expect_err("two are missing");
        assert!(error.to_string().starts_with("--tls-cert needs --tls-key and --tls-ca"), "{error}");
        let error = args(path(), None, path()).files().expect_err("one is missing");
        assert!(error.to_string().starts_with("--tls-cert and --tls-ca need --tls-key"), "{error}");
        assert_eq!(error.exit_code(), crate::exit::USAGE);
    }
}
