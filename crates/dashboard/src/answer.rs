//! Answers to requests.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::json;

/// The refusal of a request: a status, and the reason in words. The body is `{"error": …}`.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    reason: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self { status, reason: reason.into() }
    }

    /// The reason, in words.
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    /// The request is wrong.
    pub(crate) fn wrong(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, reason)
    }

    /// There is no such thing.
    pub(crate) fn missing(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, reason)
    }

    /// The trace cannot be used.
    pub(crate) fn unusable(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, reason)
    }

    /// A fault of this program.
    pub(crate) fn fault() -> Self {
        let reason = "this is a fault of the program: the request could not be processed; its log says more";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, reason)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "error": self.reason }))).into_response()
    }
}
