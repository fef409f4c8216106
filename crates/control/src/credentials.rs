//! The metadata of requests to the coordinator: the token and the name of a node; and errors of such
//! requests.

use intendant_transport::Token;
use tonic::Request;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};

/// Name of the metadata entry with the token.
const TOKEN_HEADER: &str = "authorization";

/// The problem of a node with a token in a cluster without one.
pub(super) const NO_TOKEN_HERE: &str = "a token, but the cluster has none";

/// The text before the token's digits.
const TOKEN_PREFIX: &str = "Bearer ";

/// Metadata entries in which a node names itself, and the number of nodes that it expects.
pub(super) const RANK_HEADER: &str = "intendant-rank";
pub(super) const NODES_HEADER: &str = "intendant-nodes";

/// A request with the cluster's token.
pub(super) fn authorised<T>(message: T, token: Option<&Token>) -> Request<T> {
    let mut request = Request::new(message);
    let value =
        token.map(|token| format!("{TOKEN_PREFIX}{}", token.to_hex()).parse::<MetadataValue<Ascii>>());
    if let Some(Ok(mut value)) = value {
        value.set_sensitive(true);
        request.metadata_mut().insert(TOKEN_HEADER, value);
    }
    request
}

/// The token of a request, if it has a readable one.
pub(super) fn given_token(metadata: &MetadataMap) -> Option<Token> {
    let text = metadata.get(TOKEN_HEADER)?.to_str().ok()?;
    Token::from_hex(text.strip_prefix(TOKEN_PREFIX)?).ok()
}

/// The innermost source of an error; the outer ones say "transport error".
pub(super) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    innermost(error).to_string()
}

pub(super) fn innermost<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> &'a (dyn std::error::Error + 'static) {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause
}
