//! Bands: how far a count may be from the recorded one.

/// What to say if a count is outside of its band.
pub(super) fn outside(what: &str, of: &str, now: f64, recorded: f64, percent: f64) -> Option<String> {
    let tolerated = recorded * percent / 100.0;
    let is_within = (now - recorded).abs() <= tolerated;
    (!is_within).then(|| {
        format!(
            "{what}: {now:.0} instructions per {of}, {:+.0} %; recorded {recorded:.0}, accepted {:.0} to {:.0}",
            (now / recorded - 1.0) * 100.0,
            recorded - tolerated,
            recorded + tolerated
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_compared() {
        let outside = |now| outside("push", "key", now, 100.0, 10.0);
        assert_eq!((outside(110.0), outside(90.0)), (None, None));
        let more = "push: 111 instructions per key, +11 %; recorded 100, accepted 90 to 110";
        assert_eq!(outside(111.0).as_deref(), Some(more));
        let fewer = "push: 89 instructions per key, -11 %; recorded 100, accepted 90 to 110";
        assert_eq!(outside(89.0).as_deref(), Some(fewer), "fewer instructions are a difference as well");
    }
}
