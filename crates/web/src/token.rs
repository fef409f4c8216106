//! The token of a server, in a file.

use intendant_transport::{Token, TokenError, is_readable_by_others};
use std::io;
use std::path::{Path, PathBuf};

/// Why a file has no token. Errors never repeat its text.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// The file cannot be read.
    #[error("cannot read the token from {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Its text is no token.
    #[error("{}: {source}", file.display())]
    Token {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        source: TokenError,
    },
}

/// The token in a file, and what its owner should hear: that others can read the file.
///
/// # Errors
/// See [`TokenFileError`].
pub fn token_in(file: &Path) -> Result<(Token, Option<String>), TokenFileError> {
    let text = std::fs::read_to_string(file)
        .map_err(|source| TokenFileError::Read { file: file.to_owned(), source })?;
    let token =
        Token::from_hex(&text).map_err(|source| TokenFileError::Token { file: file.to_owned(), source })?;
    let exposed = is_readable_by_others(file).then(|| {
        let file = file.display();
        format!("all users of this machine can read the token file {file}; run `chmod 600 {file}`")
    });
    Ok((token, exposed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_token_is_read_and_its_text_is_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "00112233445566778899aabbccddeeff\n").unwrap();
        for (mode, is_told) in [(0o600, false), (0o644, true)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            let (token, exposed) = token_in(&file).unwrap();
            assert!(token.matches(&Token::from_hex("00112233445566778899aabbccddeeff").unwrap()));
            assert_eq!(exposed.is_some(), is_told, "{exposed:?}");
        }
        std::fs::write(&file, "a secret").unwrap();
        let refused = token_in(&file).unwrap_err().to_string();
        assert!(refused.contains("hexadecimal") && !refused.contains("a secret"), "{refused}");
        assert!(token_in(folder.path()).unwrap_err().to_string().contains("cannot read the token"));
    }
}
