//! Why a model is not served.

use intendant_trained::TrainedError;
use intendant_transport::TlsFileError;
use intendant_web::{BindError, TokenFileError};
use std::io;

/// Why a model is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be used, or needs a token.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The token cannot be used.
    #[error(transparent)]
    Token(#[from] TokenFileError),
    /// The certificate or its key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsFileError),
    /// The model cannot be read.
    #[error(transparent)]
    Model(#[from] TrainedError),
    /// The files of the model changed whenever they were read.
    #[error("the model in {0} is being written: start again when that is done")]
    Unsteady(String),
    /// Another operation of the operating system failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
}
