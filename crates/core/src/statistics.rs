//! Types of statistics: counts that are summed over threads and nodes, and of which reports show differences.

use crate::Histogram;

/// The operations of statistics, and of each of their fields.
pub trait Count {
    /// Adds `other`. Counts may be those of other processes: an impossible sum must not stop this one, so it
    /// saturates.
    fn merge(&mut self, other: &Self);

    /// The difference to `before`, an earlier state.
    #[must_use]
    fn since(&self, before: &Self) -> Self;
}

impl Count for u64 {
    fn merge(&mut self, other: &Self) {
        *self = self.saturating_add(*other);
    }

    fn since(&self, before: &Self) -> Self {
        self.saturating_sub(*before)
    }
}

impl<const N: usize> Count for [u64; N] {
    fn merge(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(count, more)| count.merge(more));
    }

    fn since(&self, before: &Self) -> Self {
        std::array::from_fn(|at| self[at].since(&before[at]))
    }
}

impl Count for Histogram {
    fn merge(&mut self, other: &Self) {
        Histogram::merge(self, other);
    }

    fn since(&self, before: &Self) -> Self {
        Histogram::since(self, before)
    }
}

/// Defines a type of statistics with public fields. Its `merge` and `since` apply to every field; a field is
/// a [`Count`]: a number, an array of numbers, a [`Histogram`], or statistics.
#[macro_export]
macro_rules! statistics {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl $name {
            /// Adds the counts of `other`. Sums saturate.
            pub fn merge(&mut self, other: &Self) {
                $($crate::Count::merge(&mut self.$field, &other.$field);)*
            }

            /// The difference to `before`, an earlier state of these counts.
            #[must_use]
            pub fn since(&self, before: &Self) -> Self {
                Self { $($field: $crate::Count::since(&self.$field, &before.$field),)* }
            }
        }

        impl $crate::Count for $name {
            fn merge(&mut self, other: &Self) {
                $name::merge(self, other);
            }

            fn since(&self, before: &Self) -> Self {
                $name::since(self, before)
            }
        }
    };
}

#[cfg(test)]
#[allow(unreachable_pub, reason = "the macro makes public types")]
mod tests {
    use crate::Histogram;

    statistics! {
        #[derive(Clone, Debug, Default, PartialEq)]
        Inner { count: u64, by_kind: [u64; 2], }
    }

    statistics! {
        #[derive(Clone, Debug, Default, PartialEq)]
        Outer { inner: Inner, times: Histogram, }
    }

    #[test]
    fn what_came_since_and_what_was_before_are_the_whole() {
        let mut before = Outer { inner: Inner { count: 3, by_kind: [1, 2] }, ..Outer::default() };
        before.times.record(7);
        let mut after = before.clone();
        after.inner.count += 2;
        after.inner.by_kind[1] += 5;
        after.times.record(9);
        let mut since = after.since(&before);
        assert_eq!(since.inner, Inner { count: 2, by_kind: [0, 5] });
        assert_eq!(since.times.count(), 1);
        since.merge(&before);
        assert_eq!(since, after);
    }

    #[test]
    fn impossible_counts_saturate() {
        let one = Inner { count: 1, by_kind: [1, 0] };
        let mut count = Inner { count: u64::MAX, by_kind: [0, u64::MAX] };
        count.merge(&one);
        assert_eq!(count, Inner { count: u64::MAX, by_kind: [1, u64::MAX] });
        assert_eq!(Inner::default().since(&one), Inner::default());
    }
}
