//! Problems of checkpoints: on standard error, and as an exit code.

use intendant_train::exit;

/// Reports a problem on standard error.
pub(super) fn say(what: &impl std::fmt::Display) {
    eprintln!("intendant: {what}");
}

/// The exit code of the most serious of several problems: damage before all others.
pub(super) fn worst(codes: impl IntoIterator<Item = u8>) -> u8 {
    let rank =
        |code: &u8| [0, exit::OTHER, exit::USAGE, exit::DAMAGED].iter().position(|known| known == code);
    codes.into_iter().max_by_key(rank).unwrap_or(0)
}
