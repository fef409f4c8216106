//! Clipping of updates to static replicas.
//!
//! Rounds of an all-reduce deliver the updates of all nodes at once, which can make gradients explode. NuPS
//! therefore scales down an update whose norm exceeds a multiple of the average norm [thesis §4.4.1; Pascanu
//! 2013].

use intendant_core::Element;

/// Scales down updates whose norm exceeds a multiple of the average norm.
///
/// The average is over all updates so far, each with the norm that it had before it was scaled, the newest
/// included. So a factor of 1 or more never scales the first update down.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clip {
    norms: f64,
    count: f64,
}

impl Clip {
    /// Scales `update` down to `factor` times the average norm if its norm exceeds that. Returns whether it
    /// did. An update whose norm is not finite is left as it is.
    pub fn apply<E: Element>(&mut self, update: &mut [E], factor: f64) -> bool {
        let norm = update.iter().map(|element| element.to_f64() * element.to_f64()).sum::<f64>().sqrt();
        let scale = self.scale(norm, factor);
        let clips = scale < 1.0;
        if clips {
            update.iter_mut().for_each(|element| *element *= E::from_f64(scale));
        }
        clips
    }

    /// The number to multiply an update of norm `norm` with, so that its norm is at most `factor` times the
    /// average norm. A norm that is not finite does not enter the average, and its update is not scaled: the
    /// application checks what it pushes.
    pub fn scale(&mut self, norm: f64, factor: f64) -> f64 {
        if !norm.is_finite() {
            return 1.0;
        }
        (self.norms, self.count) = (self.norms + norm, self.count + 1.0);
        let longest = factor * self.norms / self.count;
        if norm > longest { longest / norm } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_norm_includes_the_newest_update() {
        let mut clip = Clip::default();
        assert_eq!(clip.scale(1.0, 1.5), 1.0, "the first update is the average");
        assert_eq!(clip.scale(3.0, 1.5), 1.0, "1.5 × the average of 1 and 3 is 3; 1.5 × 1 is not");
        assert_eq!(clip.scale(14.0, 1.5), 9.0 / 14.0, "1.5 × the average of 1, 3 and 14 is 9");
    }

    #[test]
    fn norms_enter_the_average_as_they_were_before_scaling() {
        let mut clip = Clip::default();
        assert_eq!(clip.scale(1.0, 1.0), 1.0);
        assert_eq!(clip.scale(5.0, 1.0), 3.0 / 5.0);
        assert_eq!(clip.scale(6.0, 1.0), 4.0 / 6.0, "the average is that of 1, 5 and 6");
    }

    #[test]
    fn an_update_is_scaled_down_to_the_longest_that_is_allowed() {
        let mut clip = Clip::default();
        let mut short = [0.0f32, 2.0];
        assert!(!clip.apply(&mut short, 1.0));
        assert_eq!(short, [0.0, 2.0]);
        let mut long = [6.0f32, 8.0];
        assert!(clip.apply(&mut long, 1.0), "10 exceeds the average of 2 and 10");
        assert_eq!(long, [6.0f32 * 0.6, 8.0f32 * 0.6]);
    }

    #[test]
    fn a_norm_that_is_not_finite_changes_nothing() {
        let mut clip = Clip::default();
        assert_eq!(clip.scale(2.0, 1.0), 1.0);
        for norm in [f64::INFINITY, f64::NAN] {
            assert_eq!(clip.scale(norm, 1.0), 1.0);
        }
        let mut update = [f32::MAX, f32::INFINITY];
        assert!(!clip.apply(&mut update, 1.0));
        assert_eq!(update, [f32::MAX, f32::INFINITY]);
        assert_eq!(clip.scale(6.0, 1.0), 4.0 / 6.0, "the average is that of 2 and 6");
    }

    #[test]
    fn zero_updates_are_left_alone() {
        let mut clip = Clip::default();
        assert_eq!(clip.scale(0.0, 2.0), 1.0);
        assert_eq!(clip.scale(1.0, 2.0), 1.0, "2 × the average of 0 and 1 is 1");
        assert_eq!(clip.scale(0.0, 2.0), 1.0);
    }
}
