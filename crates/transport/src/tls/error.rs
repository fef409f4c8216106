//! Why two nodes do not agree on a TLS connection.

use super::files::{TlsFiles, describe};
use rustls::{AlertDescription, Error, InvalidMessage};
use std::io;

/// What the user should do if nodes differ in whether they use TLS.
const ALL_OR_NONE: &str = "give --tls-cert, --tls-key and --tls-ca to every node of the cluster, or to none";

/// Why two nodes do not agree on a TLS connection, from the point of view of this node.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// This node uses TLS, the other does not.
    #[error("the other side does not use TLS, this node does; {ALL_OR_NONE}")]
    PlainPeer,
    /// The other node uses TLS, this one does not.
    #[error("the other side uses TLS, this node does not; {ALL_OR_NONE}")]
    TlsPeer,
    /// This node does not accept the other's certificate.
    #[error("the certificate of the other side {fault}")]
    Theirs {
        /// What is wrong with it, and what to do.
        fault: String,
    },
    /// The other side does not accept this node's certificate.
    #[error("the other side refuses the certificate {certificate} of this node: {fault}")]
    Ours {
        /// The file of this node's certificate.
        certificate: String,
        /// What the other side says about it, and what to do.
        fault: String,
    },
    /// The other side violates the protocol, or speaks another protocol.
    #[error("the TLS handshake failed: {detail}")]
    Protocol {
        /// What happened.
        detail: String,
    },
    /// The connection broke. Another attempt may succeed.
    #[error("the connection ended during the TLS handshake: {0}")]
    Io(io::Error),
}

impl TlsError {
    /// Whether another attempt would fail in the same way.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Io(_))
    }
}

/// Converts the I/O error of a handshake.
pub(super) fn of_io(error: io::Error, files: &TlsFiles) -> TlsError {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(tls) => of_tls(tls, files),
        None if error.kind() == io::ErrorKind::InvalidData => {
            TlsError::Protocol { detail: error.to_string() }
        }
        None => TlsError::Io(error),
    }
}

fn of_tls(error: &Error, files: &TlsFiles) -> TlsError {
    if let Error::InvalidCertificate(fault) = error {
        let fault =
            format!("{}; make all certificates of a cluster with one authority", describe(fault, files));
        TlsError::Theirs { fault }
    } else if matches!(error, Error::NoCertificatesPresented) {
        TlsError::Theirs { fault: "is missing; give every node --tls-cert and --tls-key".to_owned() }
    } else if let Error::AlertReceived(alert) = error {
        of_alert(*alert, files)
    } else if matches!(error, Error::InvalidMessage(InvalidMessage::InvalidContentType)) {
        TlsError::PlainPeer
    } else {
        TlsError::Protocol { detail: error.to_string() }
    }
}

/// Converts the alert with which the other side ends a handshake.
fn of_alert(alert: AlertDescription, files: &TlsFiles) -> TlsError {
    let ours = |fault: &str| TlsError::Ours {
        certificate: files.cert.display().to_string(),
        fault: fault.to_owned(),
    };
    if matches!(alert, AlertDescription::CertificateExpired) {
        ours(
            "it is not valid at this time by the other side's clock; compare the clocks, or make a new certificate",
        )
    } else if matches!(alert, AlertDescription::UnknownCA | AlertDescription::DecryptError) {
        ours("the other side does not know the authority that signed it; give every node the same --tls-ca")
    } else if matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRequired
            | AlertDescription::AccessDenied
    ) {
        ours(&format!("{alert:?}; make all certificates of a cluster with one authority"))
    } else {
        TlsError::Protocol { detail: format!("the other side ended it with the alert {alert:?}") }
    }
}
