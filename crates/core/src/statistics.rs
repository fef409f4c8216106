//! Types of statistics: counts that are summed over threads and nodes, and of which reports show differences.
//!
//! [`statistics!`](crate::statistics!) defines such a type. A field that readers see says in the same place
//! what they see: its doc comment is the meaning, and its [`Shown`] names the metric and the unit. Reports,
//! metrics and the tables of the documentation are made of these [`Statistic`]s.

use crate::histogram::{Distribution, Histogram};

/// The operations of statistics, and of each of their fields.
pub trait Count {
    /// Adds `other`. Counts may be those of other processes: an impossible sum must not stop this one, so it
    /// saturates.
    fn merge(&mut self, other: &Self);

    /// The difference to `before`, an earlier state.
    #[must_use]
    fn since(&self, before: &Self) -> Self;
}

/// A field that readers see.
pub trait Quantity: Count {
    /// What reports have of it.
    type Reported;

    /// How many numbers it is; 0 if it is a distribution.
    const NUMBERS: usize;

    /// The value.
    fn amount(&self) -> Amount<'_>;

    /// The value in a report.
    fn reported(&self, shown: Shown) -> Self::Reported;
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount<'a> {
    /// A number, or numbers of several kinds.
    Numbers(&'a [u64]),
    /// A distribution, in the unit in which it is recorded.
    Distribution(&'a Histogram),
}

impl<'a> Amount<'a> {
    /// The numbers; none of a distribution.
    #[must_use]
    pub const fn numbers(self) -> &'a [u64] {
        match self {
            Self::Numbers(numbers) => numbers,
            Self::Distribution(_) => &[],
        }
    }
}

/// Statistics that readers see.
pub trait Statistics: Count {
    /// The fields, in the order of their declaration.
    const SHOWN: &'static [Statistic];

    /// Their values, in the same order.
    fn amounts(&self) -> impl Iterator<Item = Amount<'_>>;
}

/// A field as readers see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistic {
    /// The member of the report.
    pub member: &'static str,
    /// The meaning: the lines of the doc comment, with the space before each.
    doc: &'static str,
    /// The metric.
    pub shown: Shown,
}

impl Statistic {
    /// # Panics
    /// If the field is not as many numbers as the metric shows: at compile time, in
    /// [`Statistics::SHOWN`].
    #[doc(hidden)]
    #[must_use]
    pub const fn new(member: &'static str, doc: &'static str, shown: Shown, numbers: usize) -> Self {
        let metric_has = match shown.form {
            Form::Number | Form::Part { .. } => 1,
            Form::Each { values, .. } => values.len(),
            Form::Durations | Form::Counts | Form::Thousandths => 0,
        };
        assert!(metric_has == numbers, "a field has another form than its metric");
        Self { member, doc, shown }
    }

    /// The meaning, without a full stop at its end.
    #[must_use]
    pub const fn meaning(&self) -> &'static str {
        let text = self.doc.trim_ascii();
        match text.as_bytes() {
            [.., b'.'] => text.split_at(text.len() - 1).0,
            _ => text,
        }
    }
}

/// How metrics show a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shown {
    /// The name of the metric.
    pub metric: &'static str,
    /// Its unit, in plural.
    pub unit: &'static str,
    /// The samples of the metric.
    pub form: Form,
}

/// The samples of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// A number.
    Number,
    /// Numbers of several kinds, each with its value of the label.
    Each {
        /// Name of the label.
        label: &'static str,
        /// Its values, in the order of the kinds.
        values: &'static [&'static str],
    },
    /// A number that is one of several samples of the metric.
    Part {
        /// Name of the label that tells the samples apart.
        label: &'static str,
        /// Its value here.
        value: &'static str,
        /// The meaning of the metric.
        of: &'static str,
    },
    /// A distribution of durations. They are recorded in microseconds; reports have milliseconds, metrics
    /// seconds.
    Durations,
    /// A distribution of counts.
    Counts,
    /// A distribution of shares, which are recorded in thousandths.
    Thousandths,
}

impl Form {
    /// The label of a number that is the k-th of its field, and its value.
    #[must_use]
    pub fn label(self, k: usize) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Each { label, values } => values.get(k).map(|value| (label, *value)),
            Self::Part { label, value, of: _ } => Some((label, value)),
            Self::Number | Self::Durations | Self::Counts | Self::Thousandths => None,
        }
    }
}

impl Shown {
    /// A number.
    #[must_use]
    pub const fn count(metric: &'static str, unit: &'static str) -> Self {
        Self { metric, unit, form: Form::Number }
    }

    /// Numbers of several kinds; a label has the kind.
    #[must_use]
    pub const fn each(
        metric: &'static str,
        unit: &'static str,
        label: &'static str,
        values: &'static [&'static str],
    ) -> Self {
        Self { metric, unit, form: Form::Each { label, values } }
    }

    /// A number that is one of several samples of the metric, all of which mean `of`.
    #[must_use]
    pub const fn part(
        (metric, of): (&'static str, &'static str),
        unit: &'static str,
        (label, value): (&'static str, &'static str),
    ) -> Self {
        Self { metric, unit, form: Form::Part { label, value, of } }
    }

    /// A distribution of durations, recorded in microseconds.
    #[must_use]
    pub const fn durations(metric: &'static str) -> Self {
        Self { metric, unit: "seconds", form: Form::Durations }
    }

    /// A distribution of counts.
    #[must_use]
    pub const fn counts(metric: &'static str, unit: &'static str) -> Self {
        Self { metric, unit, form: Form::Counts }
    }

    /// A distribution of shares, recorded in thousandths.
    #[must_use]
    pub const fn thousandths(metric: &'static str) -> Self {
        Self { metric, unit: "", form: Form::Thousandths }
    }

    /// The unit of reports, in that of what is recorded; `None` of what is no distribution.
    #[must_use]
    pub const fn reported_unit(&self) -> Option<f64> {
        match self.form {
            Form::Durations | Form::Thousandths => Some(1e3),
            Form::Counts => Some(1.0),
            Form::Number | Form::Each { .. } | Form::Part { .. } => None,
        }
    }
}

impl Count for u64 {
    fn merge(&mut self, other: &Self) {
        *self = self.saturating_add(*other);
    }

    fn since(&self, before: &Self) -> Self {
        self.saturating_sub(*before)
    }
}

impl Quantity for u64 {
    type Reported = Self;

    const NUMBERS: usize = 1;

    fn amount(&self) -> Amount<'_> {
        Amount::Numbers(std::slice::from_ref(self))
    }

    fn reported(&self, _shown: Shown) -> Self {
        *self
    }
}

impl Count for f64 {
    fn merge(&mut self, other: &Self) {
        *self += other;
    }

    fn since(&self, before: &Self) -> Self {
        self - before
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

impl<const N: usize> Quantity for [u64; N] {
    type Reported = Self;

    const NUMBERS: usize = N;

    fn amount(&self) -> Amount<'_> {
        Amount::Numbers(self)
    }

    fn reported(&self, _shown: Shown) -> Self {
        *self
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

impl Quantity for Histogram {
    type Reported = Distribution;

    const NUMBERS: usize = 0;

    fn amount(&self) -> Amount<'_> {
        Amount::Distribution(self)
    }

    fn reported(&self, shown: Shown) -> Distribution {
        self.distribution(shown.reported_unit().expect("a distribution is shown as one"))
    }
}

/// Defines a type of statistics with public fields. Its `merge` and `since` apply to every field; a field is
/// a [`Count`]: a number, an array of numbers, a [`Histogram`], or statistics.
///
/// If each field has a doc comment and, after `=>`, a [`Shown`], the type is [`Statistics`] that readers see.
/// Reports have a field by its name, or by the name after `as`. With a second name after that of the type,
/// `reported` makes a value of that type, in which a [`Distribution`] stands for each histogram:
///
/// ```
/// use intendant_core::{Histogram, Shown, Statistics, statistics};
/// use serde::{Deserialize, Serialize};
///
/// statistics! {
///     /// What a kitchen did.
///     #[derive(Default)]
///     Kitchen as ReportedKitchen {
///         /// Meals cooked.
///         meals: u64 => Shown::count("kitchen_meals_total", "meals"),
///         /// Time from the order to the meal.
///         waits: Histogram as "wait_ms" => Shown::durations("kitchen_wait_seconds"),
///     }
/// }
///
/// let mut kitchen = Kitchen { meals: 1, ..Kitchen::default() };
/// kitchen.waits.record(2_000);
/// let report = serde_json::to_value(kitchen.reported()).expect("JSON");
/// assert_eq!(report["wait_ms"]["mean"], 2.0);
/// assert_eq!(Kitchen::SHOWN[0].meaning(), "Meals cooked");
/// ```
#[macro_export]
macro_rules! statistics {
    // What readers see, with a type for reports.
    ($(#[$meta:meta])* $name:ident as $reported:ident {
        $($(#[doc = $doc:literal])+ $field:ident: $type:ty $(as $member:literal)? => $shown:expr,)*
    }) => {
        $crate::statistics! {
            $(#[$meta])*
            $name { $($(#[doc = $doc])+ $field: $type $(as $member)? => $shown,)* }
        }

        #[doc = concat!("[`", stringify!($name), "`], as reports have them: distributions instead of histograms.")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $reported {
            $(
                $(#[doc = $doc])+
                $(#[serde(rename = $member)])?
                pub $field: <$type as $crate::Quantity>::Reported,
            )*
        }

        impl $name {
            /// These counts, as reports have them.
            #[must_use]
            pub fn reported(&self) -> $reported {
                $reported { $($field: $crate::Quantity::reported(&self.$field, $shown),)* }
            }
        }
    };

    // What readers see.
    ($(#[$meta:meta])* $name:ident {
        $($(#[doc = $doc:literal])+ $field:ident: $type:ty $(as $member:literal)? => $shown:expr,)+
    }) => {
        $crate::statistics! { $(#[$meta])* $name { $($(#[doc = $doc])+ $field: $type,)+ } }

        impl $crate::Statistics for $name {
            const SHOWN: &'static [$crate::Statistic] = &[$(
                $crate::Statistic::new(
                    [$($member,)? stringify!($field)][0],
                    concat!($($doc),+),
                    $shown,
                    <$type as $crate::Quantity>::NUMBERS,
                )
            ),+];

            fn amounts(&self) -> impl Iterator<Item = $crate::Amount<'_>> {
                [$($crate::Quantity::amount(&self.$field)),+].into_iter()
            }
        }
    };

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
    use super::*;

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

    statistics! {
        /// Shown.
        #[derive(Clone, Debug, Default, PartialEq)]
        Post as ReportedPost {
            /// Letters that
            /// were sent.
            letters: u64 => Shown::count("letters_total", "letters"),
            /// Parcels, by size.
            parcels: [u64; 2] => Shown::each("parcels_total", "parcels", "size", &["small", "large"]),
            /// Time on the way.
            way: Histogram as "way_ms" => Shown::durations("way_seconds"),
        }
    }

    #[test]
    fn a_declaration_names_what_readers_see() {
        let members: Vec<_> = Post::SHOWN.iter().map(|shown| (shown.member, shown.meaning())).collect();
        let documented = [
            ("letters", "Letters that were sent"),
            ("parcels", "Parcels, by size"),
            ("way_ms", "Time on the way"),
        ];
        assert_eq!(members, documented);
        let mut post = Post { letters: 3, parcels: [1, 2], ..Post::default() };
        post.way.record(5_000);
        let way = post.way.clone();
        let amounts: Vec<_> = post.amounts().collect();
        assert_eq!(amounts, [Amount::Numbers(&[3]), Amount::Numbers(&[1, 2]), Amount::Distribution(&way)]);
        let reported = post.reported();
        assert_eq!((reported.letters, reported.parcels, reported.way.mean), (3, [1, 2], 5.0));
        let json = serde_json::to_value(reported).expect("JSON");
        assert_eq!(json["way_ms"]["mean"], 5.0);
        assert_eq!(serde_json::from_value::<ReportedPost>(json).expect("a report"), reported);
    }

    #[test]
    #[should_panic(expected = "another form than its metric")]
    fn a_metric_of_another_form_is_refused() {
        let _ = Statistic::new("letters", " Letters.", Shown::durations("letters_seconds"), u64::NUMBERS);
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
