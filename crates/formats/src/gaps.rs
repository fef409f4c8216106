//! Numbers that a file leaves out.

/// Numbers that a file may leave out, besides [`GAPS_PER_USE`] for each that it uses.
const GAPS_MAX: u64 = 1 << 24;

/// Numbers that a file may leave out for each that it uses.
const GAPS_PER_USE: u64 = 16;

/// Checks that a file does not leave out too many numbers. The file numbers `numbers` things and mentions
/// `used` of them. Things that do not occur take memory as well, so that otherwise a few bytes could fill the
/// memory.
///
/// # Errors
/// If it leaves out too many. The message calls the numbered things `what`.
pub fn check_gaps(what: &str, numbers: u64, used: u64) -> Result<(), String> {
    let most = used.saturating_mul(1 + GAPS_PER_USE).saturating_add(GAPS_MAX);
    if numbers <= most {
        return Ok(());
    }
    Err(format!(
        "{numbers} {what}, of which at most {used} occur; number them without large gaps (at most {most} of them here)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_bounded_by_what_is_there() {
        assert_eq!(check_gaps("words", 1 << 24, 0), Ok(()));
        assert_eq!(check_gaps("words", 3_000_000_000, 200_000_000), Ok(()));
        let refused = check_gaps("words", u64::from(u32::MAX), 1).expect_err("one of four milliards");
        assert!(refused.starts_with("4294967295 words, of which at most 1 occur; "), "{refused}");
        assert_eq!(check_gaps("words", u64::MAX, u64::MAX), Ok(()));
    }
}
