//! Why a request is refused.

use http::StatusCode;
use intendant_web::Denied;

/// The refusal of a request: a status, and the reason in words. The body is `{"error": …}`.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) reason: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self { status, reason: reason.into() }
    }
}

impl From<Denied> for Refusal {
    fn from(Denied { status, reason }: Denied) -> Self {
        Self::new(status, reason)
    }
}
