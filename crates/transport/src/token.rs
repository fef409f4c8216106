//! The secret that all nodes of a cluster share.

use ring::hmac;
use std::fmt;
use subtle::ConstantTimeEq;

/// Bytes of a token on the wire.
pub const TOKEN_BYTES: usize = 32;

/// The text that is hashed under a token to derive the token of readers.
const READERS: &[u8] = b"intendant: read the metrics of a cluster";

/// The text that is hashed under a token to derive the secret of memory windows; the number of the cluster
/// follows.
const WINDOWS: &[u8] = b"intendant: windows of the memory of a host";

/// The text that is hashed under a token to derive a proof; the challenge follows.
const PROOF: &[u8] = b"intendant: answer to a challenge: ";

/// The fewest bytes of a token that is given as text: 128 bits cannot be guessed.
pub const TOKEN_BYTES_MIN: usize = 16;

/// The secret that all nodes of a cluster share. It is compared in constant time and never printed:
/// [`fmt::Debug`] shows only whether there is a token.
#[derive(Clone)]
pub struct Token([u8; TOKEN_BYTES]);

/// Why a text is not a token. The text itself is never repeated: it may be a secret with a typing error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// A character that is not a hexadecimal digit.
    #[error("the token has a character that is no hexadecimal digit at position {position} (from 1)")]
    NotHexadecimal {
        /// Position of the character, from 1.
        position: usize,
    },
    /// Too few or too many digits, or an odd number of them.
    #[error(
        "the token has {digits} hexadecimal digits; it needs an even number from {} to {}",
        2 * TOKEN_BYTES_MIN,
        2 * TOKEN_BYTES
    )]
    Length {
        /// Digits given.
        digits: usize,
    },
    /// Only zeros, which stand for the absence of a token.
    #[error("the token is all zeros; use random digits")]
    Zero,
}

impl Token {
    /// The token with these bytes. All zeros are the [open](Token::open) token.
    pub const fn from_bytes(bytes: [u8; TOKEN_BYTES]) -> Self {
        Self(bytes)
    }

    /// The token of a cluster that has none. Every process that reaches the port may join, so such a cluster
    /// listens on loopback addresses only.
    pub const fn open() -> Self {
        Self([0; TOKEN_BYTES])
    }

    /// Whether this is the token of a cluster that has none.
    pub fn is_open(&self) -> bool {
        self.matches(&Self::open())
    }

    /// The token of programs that read the metrics of a cluster with this token: the HMAC-SHA-256 of a fixed
    /// text under this token. It travels unencrypted, and a process that has only this derived token may
    /// neither join the cluster nor stop it. From the open token, the open token is derived.
    #[must_use]
    pub fn of_readers(&self) -> Self {
        if self.is_open() {
            return Self::open();
        }
        Self(self.hash(READERS, &[]))
    }

    /// A proof of having this token that does not reveal it: the HMAC-SHA-256 of a text and a challenge under
    /// this token.
    pub(crate) fn proof(&self, challenge: &[u8]) -> Self {
        Self(self.hash(PROOF, challenge))
    }

    /// The secret of processes of one host that map each other's memory, for cluster `cluster` of this token:
    /// the HMAC-SHA-256 of a text and that number under this token. It travels through a socket of the host,
    /// and a process that has only this secret may not join the cluster.
    #[must_use]
    pub fn of_windows(&self, cluster: u64) -> [u8; TOKEN_BYTES] {
        self.hash(WINDOWS, &cluster.to_le_bytes())
    }

    /// The HMAC-SHA-256, under this token, of a text that names the purpose and of the bytes that follow it.
    fn hash(&self, purpose: &[u8], rest: &[u8]) -> [u8; TOKEN_BYTES] {
        let hash = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.0), &[purpose, rest].concat());
        let mut bytes = [0; TOKEN_BYTES];
        bytes.copy_from_slice(hash.as_ref());
        bytes
    }

    /// Parses hexadecimal digits, from 128 to 256 bits; white space around them (a file's last line break) is
    /// ignored. Fewer than 256 bits are padded with zeros.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn from_hex(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        let mut digits = Vec::with_capacity(2 * TOKEN_BYTES);
        for (position, character) in text.chars().enumerate() {
            let digit =
                character.to_digit(16).ok_or(TokenError::NotHexadecimal { position: position + 1 })?;
            digits.push(digit as u8);
        }
        let allowed = 2 * TOKEN_BYTES_MIN..=2 * TOKEN_BYTES;
        if !allowed.contains(&digits.len()) || digits.len() % 2 != 0 {
            return Err(TokenError::Length { digits: digits.len() });
        }
        let mut bytes = [0; TOKEN_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        let token = Self(bytes);
        if token.is_open() { Err(TokenError::Zero) } else { Ok(token) }
    }

    /// The token as hexadecimal digits, for the environment of a child process. It is the secret itself: do
    /// not log it.
    pub fn to_hex(&self) -> String {
        self.0
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .map(|d| char::from(b"0123456789abcdef"[d as usize]))
            .collect()
    }

    /// Whether both are the same, in a time that does not depend on where they differ.
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// The bytes, for the handshake.
    pub(crate) const fn bytes(&self) -> &[u8; TOKEN_BYTES] {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_open() { "Token(none)" } else { "Token(secret)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00112233445566778899AABBCCDDEEFF";

    #[test]
    fn text_and_token_round_trip() {
        let token = Token::from_hex(&format!(" {TEXT}\n")).unwrap();
        assert_eq!(token.to_hex(), format!("{}{}", TEXT.to_lowercase(), "0".repeat(32)));
        assert!(Token::from_hex(&token.to_hex()).unwrap().matches(&token));
    }

    #[test]
    fn each_cluster_has_a_secret_of_windows_of_its_own() {
        let (one, other) =
            (Token::from_hex(TEXT).unwrap(), Token::from_hex(&TEXT.replace('0', "1")).unwrap());
        let secrets = [one.of_windows(1), one.of_windows(2), other.of_windows(1), one.of_readers().0, one.0];
        for (at, secret) in secrets.iter().enumerate() {
            assert!(!secrets[..at].contains(secret), "{at}");
        }
        assert_eq!(one.of_windows(1), secrets[0]);
    }

    #[test]
    fn every_bit_counts() {
        let token = Token::from_hex(TEXT).unwrap();
        for bit in 0..8 * TOKEN_BYTES {
            let mut bytes = token.0;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!Token::from_bytes(bytes).matches(&token), "bit {bit} is not compared");
        }
    }

    #[test]
    fn unusable_texts_are_refused_without_repeating_them() {
        let refused = |text: &str| Token::from_hex(text).unwrap_err();
        assert_eq!(refused(""), TokenError::Length { digits: 0 });
        assert_eq!(refused(&TEXT[2..]), TokenError::Length { digits: 30 });
        assert_eq!(refused(&format!("{TEXT}1")), TokenError::Length { digits: 33 });
        assert_eq!(refused(&TEXT.repeat(3)), TokenError::Length { digits: 96 });
        assert_eq!(refused(&TEXT.replace('A', "x")), TokenError::NotHexadecimal { position: 21 });
        assert_eq!(refused(&"0".repeat(64)), TokenError::Zero);
        assert!(!refused(&TEXT.replace("AA", "ä")).to_string().contains('ä'));
    }

    #[test]
    fn readers_have_a_token_of_their_own() {
        let token = Token::from_hex(TEXT).unwrap();
        // printf 'intendant: read the metrics of a cluster' |
        //     openssl mac -digest SHA256 -macopt hexkey:TEXT HMAC
        let expected = "4d7f0f826f9ceb439daae5e989609f159118e41877cfeef0d1c18e6e77f0e729";
        assert_eq!(token.of_readers().to_hex(), expected);
        assert!(!token.of_readers().matches(&token) && !token.of_readers().of_readers().matches(&token));
        assert!(Token::open().of_readers().is_open());
    }

    #[test]
    fn a_token_is_never_shown() {
        let shown = format!("{:?}", Token::from_hex(TEXT).unwrap());
        assert_eq!(shown, "Token(secret)");
        assert_eq!(format!("{:?}", Token::open()), "Token(none)");
    }
}
