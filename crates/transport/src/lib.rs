//! Fabrics.
#![forbid(unsafe_code)]

mod token;

pub use token::{TOKEN_BYTES, TOKEN_BYTES_MIN, Token, TokenError};
