//! Charts: the numbers and labels that a picture shows.

/// A number with the least and the greatest of all seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mark {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

/// A line of marks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) marks: Vec<Mark>,
    /// The source's numbers, by the same `x`.
    pub(crate) source: Vec<(f64, f64)>,
}

/// What a reader compares with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reference {
    /// `y = x`.
    Linear,
    /// A number on the vertical axis, with its meaning.
    Level(f64, String),
}

/// Numbers over numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lines {
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    pub(crate) log: (bool, bool),
    /// Whether `x` is labelled at the marks only.
    pub(crate) few: bool,
    pub(crate) lines: Vec<Line>,
    pub(crate) references: Vec<Reference>,
    /// Whether what lies below one is shaded: slower than one node.
    pub(crate) shade_below_one: bool,
}

/// A number of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    /// What is written beside it.
    pub(crate) text: String,
    /// The source's number, or both ends of its range.
    pub(crate) source: Vec<f64>,
    /// Drawn in grey: slower than one node.
    pub(crate) slower: bool,
}

/// A number of each run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bars {
    pub(crate) label: String,
    pub(crate) log: bool,
    /// Where bars begin if the axis is logarithmic; at its lower end by default.
    pub(crate) base: Option<f64>,
    pub(crate) bars: Vec<Bar>,
}

/// What is drawn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Chart {
    Bars(Bars),
    /// One beside the other, with one legend.
    Lines(Vec<Lines>),
}
