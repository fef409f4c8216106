//! The arithmetic of [`Updates`]: from the value of a copy to its delta, and from deltas to values.
//!
//! All copies of a key, on all nodes, use these functions in the same order, so that they stay equal to the
//! bit.
//!
//! With [`Precision::Bf16`], a delta is rounded before it is sent, and both sides use the rounded one. The
//! copy keeps what rounding has left out: its updates are the difference from what was sent, so the next
//! delta contains it (*error feedback* [Seide 2014]). A delta of squares is rounded towards zero, because the
//! next one would otherwise be negative.
//!
//! With a rule, values are rows, and a delta is an operand: the sum of what a copy's workers have pushed
//! since the last delta, which the row keeps as *pending*. The main copy has no pending operands, except for
//! a rule that applies them once per clock; the owner does not send these to copies.

use intendant_core::{
    Combine, Element, Precision, SharedRule, Timing, Updates, add_bytes, copy_from_bytes, from_bf16,
};
use pulp::{Arch, Simd, WithSimd};

/// Added to sums of squares, so that nothing is divided by zero. It cancels out as long as nothing is
/// rounded.
const EPSILON: f64 = 1e-10;

/// Number of separate partial sums of squares: a processor adds to several at once, and the order of
/// additions is the same on all processors.
const LANES: usize = 16;

/// A loop that is compiled for several generations of processors; the program chooses a version at run time.
/// All versions compute the same bits. (A closure would not be compiled for each generation: the compiler may
/// call it instead of inlining it.)
trait Wide: Sized {
    /// Runs the loop. Implementations must be `#[inline(always)]`; otherwise they are compiled for the oldest
    /// processor only.
    fn run(self);

    fn dispatch(self) {
        struct Op<W>(W);
        impl<W: Wide> WithSimd for Op<W> {
            type Output = ();

            #[inline(always)]
            fn with_simd<S: Simd>(self, _simd: S) {
                self.0.run();
            }
        }
        Arch::new().dispatch(Op(self));
    }
}

/// Elements of a delta of a value with `len` elements.
#[must_use]
pub(crate) fn delta_len(updates: Updates<'_>, len: usize) -> usize {
    match updates {
        Updates::Combined(_) => len,
        Updates::Rule(rule) => rule.operand(),
    }
}

/// Whether a delta that is zero everywhere changes nothing. With a rule, it may: the rule may let the value
/// decay, or count operands.
#[must_use]
pub fn may_omit_zeros(updates: Updates<'_>) -> bool {
    matches!(updates, Updates::Combined(_))
}

/// `delta` := what turns `base` into `value`.
///
/// # Panics
/// If the lengths differ.
#[inline]
pub fn difference<E: Element>(updates: Updates<'_>, value: &[E], base: &[E], delta: &mut [E]) {
    let combine = match updates {
        Updates::Combined(combine) => combine,
        Updates::Rule(rule) => return delta.copy_from_slice(&value[rule.pending()]),
    };
    assert!(value.len() == base.len() && value.len() == delta.len(), "values differ in length");
    for ((delta, value), base) in delta.iter_mut().zip(value).zip(base) {
        *delta = *value - *base;
    }
    if combine == Combine::AdaGrad {
        let half = value.len() / 2;
        let (steps, _) = delta.split_at_mut(half);
        for (step, squares) in steps.iter_mut().zip(&value[half..]) {
            *step *= root(*squares);
        }
    }
}

/// Adds `delta` to a copy, or to what a holder knows of the main copy: the owner will merge the delta, or has
/// merged it.
///
/// # Panics
/// If the lengths differ.
#[inline]
pub fn add<E: Element>(updates: Updates<'_>, value: &mut [E], delta: &[E]) {
    match updates {
        Updates::Combined(Combine::Sum) => {
            assert_eq!(value.len(), delta.len(), "value and delta differ in length");
            value.iter_mut().zip(delta).for_each(|(value, delta)| *value += *delta);
        }
        Updates::Combined(Combine::AdaGrad) => {
            assert_eq!(value.len(), delta.len(), "value and delta differ in length");
            let (steps, more) = delta.split_at(delta.len() / 2);
            AddSteps { value, steps: steps.iter().copied(), more: more.iter().copied() }.dispatch();
        }
        Updates::Rule(rule) if rule.timing() == Timing::Push => rule.apply(value, delta),
        // The owner applies it at a clock.
        Updates::Rule(_) => {}
    }
}

/// Adds `delta` to a copy, whose next delta is to contain it.
///
/// # Panics
/// If the lengths differ.
#[inline]
pub fn add_unsent<E: Element>(updates: Updates<'_>, value: &mut [E], delta: &[E]) {
    match updates {
        Updates::Combined(_) => add(updates, value, delta),
        Updates::Rule(rule) => rule.push(value, delta, true),
    }
}

/// Makes a copy the main copy: updates that were not sent need not be sent any more.
#[inline]
pub fn promote<E: Element>(updates: Updates<'_>, value: &mut [E]) {
    if let Updates::Rule(rule) = updates
        && rule.timing() == Timing::Push
    {
        value[rule.pending()].fill(E::ZERO);
    }
}

/// Adds steps and squares to a value that AdaGrad trains. Each step is divided by the root of its new sum of
/// squares.
struct AddSteps<'a, E, I, J> {
    value: &'a mut [E],
    steps: I,
    more: J,
}

impl<E: Element, I: Iterator<Item = E>, J: Iterator<Item = E>> Wide for AddSteps<'_, E, I, J> {
    #[inline(always)]
    fn run(self) {
        let (parameters, squares) = self.value.split_at_mut(self.value.len() / 2);
        let steps = self.steps.zip(self.more);
        for ((parameter, squares), (step, more)) in parameters.iter_mut().zip(squares).zip(steps) {
            *squares += more;
            *parameter += step / root(*squares);
        }
    }
}

/// Merges a copy's delta, whose elements are written with `precision`, into the main copy.
///
/// # Panics
/// If the lengths differ. If the value has a rule and the delta is not exact.
#[inline]
pub fn merge<E: Element>(updates: Updates<'_>, precision: Precision, value: &mut [E], delta: &[u8]) {
    if precision == Precision::Bf16 {
        return merge_bf16(updates, value, delta);
    }
    match updates {
        Updates::Combined(Combine::Sum) => add_bytes(value, delta),
        Updates::Combined(Combine::AdaGrad) => {
            assert_eq!(delta.len(), size_of_val(value), "value and delta differ in length");
            let (steps, more) = delta.split_at(delta.len() / 2);
            let [steps, more] = [steps, more].map(|bytes| bytes.chunks_exact(size_of::<E>()).map(E::read_le));
            AddSteps { value, steps, more }.dispatch();
        }
        Updates::Rule(rule) => push_message(rule, value, delta, false),
    }
}

/// As [`merge`], of elements that are bfloat16.
fn merge_bf16<E: Element>(updates: Updates<'_>, value: &mut [E], delta: &[u8]) {
    let expected = Precision::Bf16.bytes::<E>(size_of_val(value));
    assert_eq!(delta.len(), expected, "value and delta differ in length");
    match updates {
        Updates::Combined(Combine::Sum) => AddAll { value, delta: from_bf16(delta) }.dispatch(),
        Updates::Combined(Combine::AdaGrad) => {
            let (steps, more) = delta.split_at(delta.len() / 2);
            AddSteps { value, steps: from_bf16(steps), more: from_bf16(more) }.dispatch();
        }
        Updates::Rule(_) => unreachable!("operands of rules travel exactly"),
    }
}

/// Adds elements to a value.
struct AddAll<'a, E, I> {
    value: &'a mut [E],
    delta: I,
}

impl<E: Element, I: Iterator<Item = E>> Wide for AddAll<'_, E, I> {
    #[inline(always)]
    fn run(self) {
        self.value.iter_mut().zip(self.delta).for_each(|(value, delta)| *value += delta);
    }
}

/// Applies a push of little-endian elements to a row; see [`SharedRule::push`].
///
/// # Panics
/// If the lengths are wrong.
#[cold]
pub(crate) fn push_message<E: Element>(rule: &SharedRule, row: &mut [E], operand: &[u8], pends: bool) {
    let mut elements = vec![E::ZERO; rule.operand()];
    copy_from_bytes(&mut elements, operand);
    rule.push(row, &elements, pends);
}

/// The norm of the change from `base` to `value`, relative to the norm of `value`: of all elements, or of the
/// parameters if others are known not to be parameters.
#[must_use]
pub fn change<E: Element>(updates: Updates<'_>, value: &[E], base: &[E]) -> f64 {
    let parameters = match updates {
        Updates::Combined(Combine::Sum) => value.len(),
        Updates::Combined(Combine::AdaGrad) => value.len() / 2,
        Updates::Rule(rule) => rule.visible(),
    };
    let mut norms = Norms::new();
    for (value, base) in value[..parameters].chunks(LANES).zip(base.chunks(LANES)) {
        norms.add(value, base);
    }
    norms.change()
}

/// The sums of squares by which a change is measured: of the differences, and of the whole value.
struct Norms<E> {
    changed: [E; LANES],
    whole: [E; LANES],
}

impl<E: Element> Norms<E> {
    fn new() -> Self {
        Self { changed: [E::ZERO; LANES], whole: [E::ZERO; LANES] }
    }

    /// Adds up to [`LANES`] elements. `base` has their former values, and may be longer.
    #[inline(always)]
    fn add(&mut self, value: &[E], base: &[E]) {
        // As many elements as there are lanes are a loop that the compiler turns into wide instructions.
        if let (Ok(value), Some(base)) = (<&[E; LANES]>::try_from(value), base.first_chunk::<LANES>()) {
            for lane in 0..LANES {
                let change = value[lane] - base[lane];
                self.changed[lane] += change * change;
                self.whole[lane] += value[lane] * value[lane];
            }
        } else {
            for (lane, (value, base)) in value.iter().zip(base).enumerate() {
                let change = *value - *base;
                self.changed[lane] += change * change;
                self.whole[lane] += *value * *value;
            }
        }
    }

    fn change(&self) -> f64 {
        let sum = |lanes: &[E]| lanes.iter().fold(0.0, |sum, lane| sum + lane.to_f64());
        let (changed, whole) = (sum(&self.changed), sum(&self.whole));
        if changed == 0.0 { 0.0 } else { (changed / whole).sqrt() }
    }
}

/// Computes [`difference`] and [`change`] of a copy. The copy becomes what the main copy will be: `base` plus
/// the delta.
///
/// # Panics
/// If the lengths differ.
pub fn collect<E: Element>(updates: Updates<'_>, value: &mut [E], base: &[E], delta: &mut [E]) -> f64 {
    let combine = match updates {
        Updates::Combined(combine) => combine,
        Updates::Rule(_) => {
            let change = change(updates, value, base);
            difference(updates, value, base, delta);
            value.copy_from_slice(base);
            add(updates, value, delta);
            return change;
        }
    };
    assert!(value.len() == base.len() && value.len() == delta.len(), "values differ in length");
    let mut norms = Norms::new();
    let collect = Collect { value, base, delta, norms: &mut norms };
    match combine {
        Combine::Sum => CollectSum(collect).dispatch(),
        Combine::AdaGrad => CollectAdaGrad(collect).dispatch(),
    }
    norms.change()
}

/// As [`collect`], for a delta that is rounded to bfloat16. The copy stays as it is: `base`, plus the rounded
/// delta, plus what rounding has left out. Also returns whether anything is left out.
///
/// # Panics
/// If the lengths differ. If the value has a rule.
pub(crate) fn collect_rounded<E: Element>(
    updates: Updates<'_>,
    value: &[E],
    base: &[E],
    delta: &mut [E],
) -> (f64, bool) {
    let Updates::Combined(combine) = updates else { unreachable!("operands of rules travel exactly") };
    assert!(value.len() == base.len() && value.len() == delta.len(), "values differ in length");
    let (mut norms, mut remains) = (Norms::new(), false);
    let collect = CollectRounded { value, base, delta, norms: &mut norms, remains: &mut remains };
    match combine {
        Combine::Sum => RoundSum(collect).dispatch(),
        Combine::AdaGrad => RoundAdaGrad(collect).dispatch(),
    }
    (norms.change(), remains)
}

struct CollectRounded<'a, E> {
    value: &'a [E],
    base: &'a [E],
    delta: &'a mut [E],
    norms: &'a mut Norms<E>,
    remains: &'a mut bool,
}

#[inline(always)]
fn nearest<E: Element>(element: E) -> E {
    E::from_bf16(element.to_bf16())
}

struct RoundSum<'a, E>(CollectRounded<'a, E>);

impl<E: Element> Wide for RoundSum<'_, E> {
    #[inline(always)]
    fn run(self) {
        let CollectRounded { value, base, delta, norms, remains } = self.0;
        let mut differ = false;
        for ((value, base), delta) in value.chunks(LANES).zip(base.chunks(LANES)).zip(delta.chunks_mut(LANES))
        {
            norms.add(value, base);
            for ((value, base), delta) in value.iter().zip(base).zip(delta) {
                *delta = nearest(*value - *base);
                differ |= *value != *base + *delta;
            }
        }
        *remains = differ;
    }
}

struct RoundAdaGrad<'a, E>(CollectRounded<'a, E>);

impl<E: Element> Wide for RoundAdaGrad<'_, E> {
    #[inline(always)]
    fn run(self) {
        let CollectRounded { value, base, delta, norms, remains } = self.0;
        let half = value.len() / 2;
        let ((value, squares), (base, before)) = (value.split_at(half), base.split_at(half));
        for (value, base) in value.chunks(LANES).zip(base.chunks(LANES)) {
            norms.add(value, base);
        }
        let (steps, more) = delta.split_at_mut(half);
        let copies = value.iter().zip(squares).zip(base.iter().zip(before));
        let mut differ = false;
        for (((value, squares), (base, before)), (step, more)) in copies.zip(steps.iter_mut().zip(more)) {
            *step = nearest((*value - *base) * root(*squares));
            // Sums of squares only grow. The difference of a copy that has nothing new may be negative by a
            // rounding error, which waits for a delta that is exact.
            let grown = *squares - *before;
            let grown = if grown < E::ZERO { E::ZERO } else { grown };
            *more = E::from_bf16(grown.truncate_bf16());
            let known = *before + *more;
            differ |= *squares != known || *value != *base + *step / root(known);
        }
        *remains = differ;
    }
}

/// What [`difference`], [`add`] and [`change`] compute, to the bit, in one pass.
struct Collect<'a, E> {
    value: &'a mut [E],
    base: &'a [E],
    delta: &'a mut [E],
    norms: &'a mut Norms<E>,
}

struct CollectSum<'a, E>(Collect<'a, E>);

impl<E: Element> Wide for CollectSum<'_, E> {
    #[inline(always)]
    fn run(self) {
        let Collect { value, base, delta, norms } = self.0;
        // These sums stay in registers.
        let mut sums = Norms::new();
        for ((value, base), delta) in
            value.chunks_mut(LANES).zip(base.chunks(LANES)).zip(delta.chunks_mut(LANES))
        {
            sums.add(value, base);
            for ((value, base), delta) in value.iter_mut().zip(base).zip(delta) {
                *delta = *value - *base;
                *value = *base + *delta;
            }
        }
        *norms = sums;
    }
}

struct CollectAdaGrad<'a, E>(Collect<'a, E>);

impl<E: Element> Wide for CollectAdaGrad<'_, E> {
    #[inline(always)]
    fn run(self) {
        let Collect { value, base, delta, norms } = self.0;
        let half = value.len() / 2;
        let ((value, squares), (base, before)) = (value.split_at_mut(half), base.split_at(half));
        let mut sums = Norms::new();
        for (value, base) in value.chunks(LANES).zip(base.chunks(LANES)) {
            sums.add(value, base);
        }
        *norms = sums;
        let (steps, more) = delta.split_at_mut(half);
        let copies = value.iter_mut().zip(squares).zip(base.iter().zip(before));
        for (((value, squares), (base, before)), (step, more)) in copies.zip(steps.iter_mut().zip(more)) {
            *step = (*value - *base) * root(*squares);
            *more = *squares - *before;
            *squares = *before + *more;
            *value = *base + *step / root(*squares);
        }
    }
}

/// What a copy knows of the main copy, and what the main copy lacks.
pub(crate) struct Known<'a, E> {
    /// The main copy when the copy got it last.
    pub(crate) base: &'a [E],
    /// The delta in flight, if there is one.
    pub(crate) sent: Option<&'a [E]>,
    /// Whether the new main copy lacks that delta.
    pub(crate) lacks: bool,
}

/// `value` := `main`, plus the delta in flight if `main` lacks it, plus the updates since. The copy must have
/// such updates.
///
/// # Panics
/// If the lengths differ.
pub(crate) fn rebase<E: Element>(combine: Combine, known: &Known<'_, E>, main: &[E], value: &mut [E]) {
    match (known.sent, known.lacks) {
        // Each case has a loop without branches.
        (None, _) => rebase_as::<E, false, false>(combine, known.base, known.base, main, value),
        (Some(sent), false) => rebase_as::<E, true, false>(combine, known.base, sent, main, value),
        (Some(sent), true) => rebase_as::<E, true, true>(combine, known.base, sent, main, value),
    }
}

fn rebase_as<E: Element, const SENDING: bool, const LACKS: bool>(
    combine: Combine,
    base: &[E],
    sent: &[E],
    main: &[E],
    value: &mut [E],
) {
    let len = value.len();
    assert!(base.len() == len && sent.len() == len && main.len() == len, "values differ in length");
    let rebase = Rebase::<E, SENDING, LACKS> { base, sent, main, value };
    match combine {
        Combine::Sum => RebaseSum(rebase).dispatch(),
        Combine::AdaGrad => RebaseAdaGrad(rebase).dispatch(),
    }
}

struct Rebase<'a, E, const SENDING: bool, const LACKS: bool> {
    base: &'a [E],
    sent: &'a [E],
    main: &'a [E],
    value: &'a mut [E],
}

struct RebaseSum<'a, E, const SENDING: bool, const LACKS: bool>(Rebase<'a, E, SENDING, LACKS>);

impl<E: Element, const SENDING: bool, const LACKS: bool> Wide for RebaseSum<'_, E, SENDING, LACKS> {
    #[inline(always)]
    fn run(self) {
        let Rebase { base, sent, main, value } = self.0;
        let copies = value.iter_mut().zip(base);
        for ((value, base), (sent, main)) in copies.zip(sent.iter().zip(main)) {
            let known = if SENDING { *base + *sent } else { *base };
            let main = if LACKS { *main + *sent } else { *main };
            *value = main + (*value - known);
        }
    }
}

struct RebaseAdaGrad<'a, E, const SENDING: bool, const LACKS: bool>(Rebase<'a, E, SENDING, LACKS>);

impl<E: Element, const SENDING: bool, const LACKS: bool> Wide for RebaseAdaGrad<'_, E, SENDING, LACKS> {
    #[inline(always)]
    fn run(self) {
        let Rebase { base, sent, main, value } = self.0;
        let half = value.len() / 2;
        let (value, squares) = value.split_at_mut(half);
        let [base, sent, main] = [base, sent, main].map(|all| {
            let (parameters, squares) = all.split_at(half);
            parameters.iter().copied().zip(squares.iter().copied())
        });
        let after = |(parameter, squares): (E, E), (step, more): (E, E)| {
            let squares = squares + more;
            (parameter + step / root(squares), squares)
        };
        for (((value, squares), base), (sent, main)) in
            value.iter_mut().zip(squares).zip(base).zip(sent.zip(main))
        {
            let known = if SENDING { after(base, sent) } else { base };
            let since = ((*value - known.0) * root(*squares), *squares - known.1);
            let main = if LACKS { after(main, sent) } else { main };
            (*value, *squares) = after(main, since);
        }
    }
}

/// A user's value may have anything where squares are expected.
#[inline(always)]
fn root<E: Element>(squares: E) -> E {
    let squares = if squares > E::ZERO { squares } else { E::ZERO };
    (squares + E::from_f64(EPSILON)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SUM: Updates<'static> = Updates::Combined(Combine::Sum);
    const ADAGRAD: Updates<'static> = Updates::Combined(Combine::AdaGrad);

    /// A step of AdaGrad with rate 1.
    fn step(value: &mut [f64], gradients: &[f64]) {
        let half = value.len() / 2;
        for (at, gradient) in gradients.iter().enumerate() {
            value[half + at] += gradient * gradient;
            value[at] -= gradient / (value[half + at] + EPSILON).sqrt();
        }
    }

    fn close(a: &[f64], b: &[f64]) -> bool {
        a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-6 * (1.0 + a.abs()))
    }

    fn after(base: &[f64], steps: &[Vec<f64>]) -> Vec<f64> {
        let mut value = base.to_vec();
        steps.iter().for_each(|gradients| step(&mut value, gradients));
        value
    }

    fn gradients() -> impl Strategy<Value = Vec<Vec<f64>>> {
        let gradient = prop_oneof![Just(0.0), -3.0..3.0f64];
        proptest::collection::vec(proptest::collection::vec(gradient, 3), 0..6)
    }

    fn base() -> impl Strategy<Value = Vec<f64>> {
        let squares = prop_oneof![Just(0.0), 0.0..9.0f64];
        (proptest::collection::vec(-2.0..2.0f64, 3), proptest::collection::vec(squares, 3))
            .prop_map(|(parameters, squares)| [parameters, squares].concat())
    }

    proptest! {
        /// If no other node has changed the value, a delta leads to the value of the copy.
        #[test]
        fn a_delta_leads_from_the_base_to_the_value(base in base(), steps in gradients()) {
            for combine in [SUM, ADAGRAD] {
                let value = after(&base, &steps);
                let mut delta = vec![0.0; 6];
                difference(combine, &value, &base, &mut delta);
                let mut found = base.clone();
                add(combine, &mut found, &delta);
                prop_assert!(close(&found, &value), "{combine:?}: {found:?} instead of {value:?}");
                let mut bytes = Vec::new();
                intendant_core::copy_to_bytes(&delta, &mut bytes);
                let mut same = base.clone();
                merge(combine, Precision::Exact, &mut same, &bytes);
                prop_assert_eq!(&same, &found);
            }
        }

        /// Squares are the sum of all nodes' squares. Parameters do not depend on the order of deltas if they
        /// are summed first, as the all-reduce does.
        #[test]
        fn squares_of_all_copies_are_added(base in base(), one in gradients(), other in gradients()) {
            let deltas = [&one, &other].map(|steps| {
                let mut delta = vec![0.0; 6];
                difference(ADAGRAD, &after(&base, steps), &base, &mut delta);
                delta
            });
            let mut both = base.clone();
            deltas.iter().for_each(|delta| add(ADAGRAD, &mut both, delta));
            let squares = after(&after(&base, &one), &other);
            prop_assert!(close(&both[3..], &squares[3..]));
            let sum: Vec<f64> = deltas[0].iter().zip(&deltas[1]).map(|(a, b)| a + b).collect();
            let mut at_once = base.clone();
            add(ADAGRAD, &mut at_once, &sum);
            prop_assert!(close(&at_once[3..], &squares[3..]));
        }
    }

    fn bits(values: &[f64]) -> Vec<u64> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    proptest! {
        /// One pass computes what the owner computes from the delta, to the bit.
        #[test]
        fn one_pass_collects_what_several_do(base in base(), steps in gradients()) {
            for combine in [SUM, ADAGRAD] {
                let (mut value, mut delta) = (after(&base, &steps), vec![0.0; 6]);
                let (mut expected, change) = (vec![0.0; 6], change(combine, &value, &base));
                difference(combine, &value, &base, &mut expected);
                let mut main = base.clone();
                add(combine, &mut main, &expected);
                let measured = collect(combine, &mut value, &base, &mut delta);
                prop_assert_eq!(bits(&delta), bits(&expected));
                prop_assert_eq!(bits(&value), bits(&main));
                prop_assert_eq!(measured.to_bits(), change.to_bits());
            }
        }

        /// One pass rebases a copy on a new main copy as several passes do, to the bit.
        #[test]
        fn one_pass_rebases_as_several_do(
            base in base(),
            sent in gradients(),
            since in gradients(),
            main in base(),
            lacks: bool,
            is_sending: bool,
        ) {
            for combine in [Combine::Sum, Combine::AdaGrad] {
                let updates = Updates::Combined(combine);
                let delta_of = |value: &[f64], base: &[f64]| {
                    let mut delta = vec![0.0; 6];
                    difference(updates, value, base, &mut delta);
                    delta
                };
                let in_flight = delta_of(&after(&base, &sent), &base);
                let mut known = base.clone();
                if is_sending {
                    add(updates, &mut known, &in_flight);
                }
                let mut value = after(&known, &since);
                let unsent = delta_of(&value, &known);
                let mut expected = main.clone();
                if is_sending && lacks {
                    add(updates, &mut expected, &in_flight);
                }
                add(updates, &mut expected, &unsent);
                let sent = is_sending.then_some(&in_flight[..]);
                rebase(combine, &Known { base: &base, sent, lacks }, &main, &mut value);
                prop_assert_eq!(bits(&value), bits(&expected));
            }
        }
    }

    /// An update of `f32`: parameters change by anything, squares grow.
    fn changes() -> impl Strategy<Value = Vec<Vec<f32>>> {
        let change = prop_oneof![Just(0.0), -3.0..3.0f32, (-20..20i32).prop_map(|power| 1.7f32.powi(power))];
        proptest::collection::vec(proptest::collection::vec(change, 6), 1..8)
    }

    proptest! {
        /// What the owner merges is what the holder takes to be merged, to the bit, and what the copy has in
        /// addition goes with the next delta: nothing is lost, and nothing is sent twice.
        #[test]
        fn what_rounding_leaves_out_goes_with_the_next_delta(changes in changes()) {
            for updates in [SUM, ADAGRAD] {
                let mut copy = [0.5f32, -1.0, 3.0, 0.0, 0.25, 40.0];
                let (mut base, mut main) = (copy, copy);
                // The exact sums; where squares are expected, sums of absolute values.
                let mut exact = copy.map(f64::from);
                for change in &changes {
                    for (at, change) in change.iter().enumerate() {
                        let squares = updates == ADAGRAD && at >= 3;
                        let change = if squares { change.abs() } else { *change };
                        copy[at] += change;
                        exact[at] += f64::from(change);
                    }
                    let (before, mut delta) = (copy, [0.0; 6]);
                    let (_, remains) = collect_rounded(updates, &copy, &base, &mut delta);
                    prop_assert_eq!(copy, before, "the copy keeps what is left out");
                    let mut bytes = Vec::new();
                    Precision::Bf16.write(&delta, &mut bytes);
                    let mut decoded = [0.0f32; 6];
                    Precision::Bf16.read(&mut decoded, &bytes);
                    prop_assert_eq!(decoded, delta, "the delta has been rounded");
                    add(updates, &mut base, &delta);
                    merge(updates, Precision::Bf16, &mut main, &bytes);
                    prop_assert_eq!(main.map(f32::to_bits), base.map(f32::to_bits));
                    prop_assert_eq!(remains, copy != base);
                    if updates == ADAGRAD {
                        prop_assert!(delta[3..].iter().all(|more| *more >= 0.0), "{delta:?}");
                    }
                }
                // The last delta is exact.
                let mut delta = [0.0; 6];
                collect(updates, &mut copy, &base, &mut delta);
                let mut bytes = Vec::new();
                Precision::Exact.write(&delta, &mut bytes);
                merge(updates, Precision::Exact, &mut main, &bytes);
                prop_assert_eq!(main.map(f32::to_bits), copy.map(f32::to_bits));
                let sums = if updates == ADAGRAD { 3..6 } else { 0..6 };
                for at in sums {
                    let sizes = changes.iter().map(|change| f64::from(change[at].abs()));
                    let size = 1.0 + exact[at].abs() + sizes.sum::<f64>();
                    prop_assert!((f64::from(main[at]) - exact[at]).abs() <= 1e-5 * size);
                }
            }
        }

        /// Integers are added without rounding errors, so nothing at all may be missing.
        #[test]
        fn deltas_and_remainder_are_the_updates(changes in proptest::collection::vec(-4000..4000i32, 1..40)) {
            let (mut copy, mut base, mut main, mut sum) = ([0.0f32], [0.0], [0.0f32], 0);
            for change in changes {
                copy[0] += change as f32;
                sum += change;
                let mut delta = [0.0];
                let (_, remains) = collect_rounded(SUM, &copy, &base, &mut delta);
                let mut bytes = Vec::new();
                Precision::Bf16.write(&delta, &mut bytes);
                merge(SUM, Precision::Bf16, &mut main, &bytes);
                add(SUM, &mut base, &delta);
                let remainder = copy[0] - base[0];
                prop_assert_eq!(main[0] + remainder, sum as f32);
                prop_assert_eq!(remains, remainder != 0.0);
                prop_assert!(remainder.abs() <= delta[0].abs() / 256.0, "{remainder} of {delta:?}");
            }
        }
    }

    #[test]
    fn squares_that_have_not_grown_are_not_sent() {
        // The base has one unit in the last place more than the copy.
        let (copy, base) = ([1.0f32, 1.0], [1.0, 1.0 + f32::EPSILON]);
        let mut delta = [7.0; 2];
        let (_, remains) = collect_rounded(ADAGRAD, &copy, &base, &mut delta);
        assert_eq!((delta, remains), ([0.0, 0.0], true));
        let (mut copy, base) = ([1.0f32, f32::NAN], [1.0, 0.0]);
        collect_rounded(ADAGRAD, &copy, &base, &mut delta);
        assert!(delta[1].is_nan(), "what is broken shows");
        copy[1] = f32::INFINITY;
        collect_rounded(ADAGRAD, &copy, &base, &mut delta);
        assert_eq!(delta[1], f32::INFINITY);
    }

    /// The reason for the rule: steps of equal size from a fresh accumulator.
    #[test]
    fn first_steps_of_many_nodes_do_not_add_up() {
        let base = [0.0, 0.0];
        let value = after(&base, &[vec![1.0]]);
        assert!((value[0] + 1.0).abs() < 1e-9);
        let lengths = [SUM, ADAGRAD].map(|combine| {
            let mut delta = [0.0; 2];
            difference(combine, &value, &base, &mut delta);
            let mut main = base;
            (0..100).for_each(|_| add(combine, &mut main, &delta));
            assert!((main[1] - 100.0).abs() < 1e-9);
            -main[0]
        });
        // A single node that takes 100 steps moves by Σ 1/√n = 18.6.
        assert!((lengths[0] - 100.0).abs() < 1e-6 && (18.0..19.0).contains(&lengths[1]), "{lengths:?}");
    }

    #[test]
    fn a_change_is_relative_to_the_parameters() {
        assert_eq!(change(SUM, &[3.0, 4.0], &[3.0, 4.0]), 0.0);
        assert_eq!(change(SUM, &[0.0, 0.0], &[0.0, 0.0]), 0.0);
        assert_eq!(change(SUM, &[3.0, 4.0], &[0.0, 4.0]), 0.6);
        assert_eq!(change(ADAGRAD, &[2.0, 900.0], &[1.0, 0.0]), 0.5);
        assert!(change(SUM, &[0.0], &[1.0]).is_infinite());
    }

    #[test]
    fn negative_squares_are_none() {
        let mut value = [1.0f32, -5.0];
        add(ADAGRAD, &mut value, &[0.0, 1.0]);
        assert_eq!(value, [1.0, -4.0]);
    }
}
