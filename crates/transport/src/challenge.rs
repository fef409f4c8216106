//! Challenges, with which a reader proves that it has a token without sending it.
//!
//! Readers of metrics speak HTTP in the clear, and one node tells them the addresses of all others. At an
//! address where a node listened, another program may listen now, and would learn a token that is sent there.
//! So a server that refuses a request sends a challenge, which it draws once per process, and the reader asks
//! again with the proof: the HMAC-SHA-256 of the challenge under the token. A program that relays a challenge
//! gets the answer of that one server, and no token.

use crate::Token;
use std::fmt;

/// The name of the authentication scheme in HTTP headers.
const SCHEME: &str = "Intendant";

/// The text before and after the digits of a challenge in a header.
const BEFORE: &str = "Intendant challenge=\"";
const AFTER: &str = "\"";

/// Bytes of a challenge.
const BYTES: usize = 16;

/// A challenge, as the text that a server sends in the header `WWW-Authenticate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge(String);

impl Challenge {
    /// Draws a challenge; `None` if the operating system gives no random bytes.
    pub fn draw() -> Option<Self> {
        let mut drawn = [0; BYTES];
        getrandom::fill(&mut drawn).ok()?;
        let digits: String = drawn.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Self(format!("{BEFORE}{digits}{AFTER}")))
    }

    /// Reads the header of a server. `None` if it is not a challenge, or if its digits are not as many
    /// hexadecimal digits as [`Self::draw`] draws.
    pub fn from_header(header: &str) -> Option<Self> {
        let digits = header.strip_prefix(BEFORE)?.strip_suffix(AFTER)?;
        let is_drawn = digits.len() == 2 * BYTES && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_drawn.then(|| Self(header.to_owned()))
    }

    /// The answer of a reader with `token`: the value of the header `Authorization`.
    #[must_use]
    pub fn answer(&self, token: &Token) -> String {
        format!("{SCHEME} {}", token.proof(self.0.as_bytes()).to_hex())
    }

    /// Whether the value of a header `Authorization` is the answer of a reader with `token`. The comparison
    /// takes the same time for all proofs of the right length.
    pub fn is_answered(&self, authorization: &str, token: &Token) -> bool {
        let proof = authorization.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case(SCHEME));
        let proof = proof.and_then(|(_, proof)| Token::from_hex(proof).ok());
        proof.is_some_and(|proof| proof.matches(&token.proof(self.0.as_bytes())))
    }
}

impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reader_with_the_token_answers_and_only_this_challenge() {
        let token = |byte: u8| Token::from_bytes([byte; crate::TOKEN_BYTES]);
        let (challenge, other) = (Challenge::draw().unwrap(), Challenge::draw().unwrap());
        assert_ne!(challenge, other);
        let read = Challenge::from_header(&challenge.to_string()).unwrap();
        let answer = read.answer(&token(1));
        assert!(challenge.is_answered(&answer, &token(1)));
        assert!(!answer.contains(&token(1).to_hex()));
        assert!(!challenge.is_answered(&answer, &token(2)) && !other.is_answered(&answer, &token(1)));
        for wrong in ["", "Intendant", "Intendant ", &format!("Bearer {}", token(1).to_hex())] {
            assert!(!challenge.is_answered(wrong, &token(1)), "{wrong}");
        }
    }

    #[test]
    fn a_header_that_is_no_challenge_is_not_answered() {
        let digits = "00112233445566778899aabbccddeeff";
        let header = |digits: &str| Challenge::from_header(&format!("Intendant challenge=\"{digits}\""));
        assert!(header(digits).is_some());
        for wrong in ["", &digits[1..], &format!("{digits}0"), &digits.replace('a', "x")] {
            assert_eq!(header(wrong), None, "{wrong}");
        }
        assert_eq!(Challenge::from_header("Bearer"), None);
        assert_eq!(Challenge::from_header(&format!("Digest challenge=\"{digits}\"")), None);
    }
}
