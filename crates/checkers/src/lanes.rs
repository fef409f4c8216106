//! Version lanes: values that are version vectors, so that a pull shows exactly which pushes it saw.
//!
//! A value of at least [`len_min`] elements has one *lane* per worker of the cluster, which counts that
//! worker's pushes. Longer values repeat the lanes, which makes torn reads visible. The last element
//! identifies the key, which makes misplaced values visible. All numbers are small integers, which floats add
//! exactly. Where a key has replicas, its last element but one gathers *dust*: fractions of very different
//! sizes, whose sum depends on the order of additions, so that copies that were computed differently differ.

use intendant_core::{Element, Key};

/// Minimum number of elements of a value with `workers` lanes.
#[must_use]
pub const fn len_min(workers: usize) -> usize {
    workers + 1
}

/// The number that identifies `key` in its values.
fn name(key: Key) -> f64 {
    // Exact in `f32`, and different for neighbouring keys.
    (key.0 % (1 << 20) + 1) as f64
}

/// Fills `value` with the initial value of `key`: no pushes.
///
/// # Panics
/// If `value` is empty.
pub fn initial<E: Element>(key: Key, value: &mut [E]) {
    value.fill(E::ZERO);
    *value.last_mut().expect("a value has elements") = E::from_f64(name(key));
}

/// Appends the update of `len` elements that `worker` of `workers` pushes: 1 in each copy of its lane.
pub fn push<E: Element>(worker: usize, workers: usize, len: usize, update: &mut Vec<E>) {
    let start = update.len();
    update.resize(start + len, E::ZERO);
    for element in update[start..start + len - 1].iter_mut().skip(worker).step_by(workers) {
        *element = E::ONE;
    }
}

/// A unit of counts that a bfloat16, which has eight bits, cannot have: it has nine. So each rounding leaves
/// something out, and sums of it are exact only if all that was left out has arrived.
pub const LONG_UNIT: f64 = 257.0;

/// Multiplies an update of 1 by `unit`.
pub fn scale<E: Element>(update: &mut [E], unit: f64) {
    update.iter_mut().for_each(|element| *element *= E::from_f64(unit));
}

/// Divides the counts of a value, which has `others` elements behind them, by `unit`, so that [`read`] can
/// read it. If elements may be `rounded`, counts are the nearest ones.
///
/// # Errors
/// If an element is no count, or too far from one for what rounding can have done.
pub fn in_units<E: Element>(
    key: Key,
    value: &[E],
    others: usize,
    unit: f64,
    rounded: bool,
) -> Result<Vec<E>, BadValue> {
    let mut value = value.to_vec();
    let counts = value.len() - others;
    for element in &mut value[..counts] {
        let sum = element.to_f64();
        let count = (sum / unit).round();
        // A value as bfloat16 is off by 2^-9 of it, and lacks up to 2^-7 of a delta, which may be all of it.
        let slack = if rounded { sum.abs() * (1.0 / 512.0 + 1.0 / 128.0) } else { 0.0 };
        if !sum.is_finite() || (sum - count * unit).abs() > slack {
            return Err(BadValue { key, what: format!("has {sum}, which is not {count} pushes of {unit}") });
        }
        *element = E::from_f64(count);
    }
    Ok(value)
}

/// Upper bound of the absolute sum of dust.
const DUST_MAX: f64 = 1e3;

/// Puts dust into an update: on the last element but one, in place of a lane.
///
/// # Panics
/// If the update has fewer than two elements.
pub fn scatter<E: Element>(update: &mut [E], dust: f64) {
    let at = update.len().checked_sub(2).expect("there is room for dust");
    update[at] = E::from_f64(dust);
}

/// Removes the dust, which is the last of `counts`, and checks its size.
fn without_dust<E: Element>(key: Key, counts: &[E]) -> Result<&[E], BadValue> {
    let (dust, counts) = counts.split_last().expect("there is room for dust");
    check_dust(key, std::slice::from_ref(dust))?;
    Ok(counts)
}

/// Checks elements of a value that are dust.
///
/// # Errors
/// If one is out of bounds.
pub fn check_dust<E: Element>(key: Key, dust: &[E]) -> Result<(), BadValue> {
    match dust.iter().find(|dust| !(-DUST_MAX..=DUST_MAX).contains(&dust.to_f64())) {
        None => Ok(()),
        Some(dust) => {
            Err(BadValue { key, what: format!("has {dust} where dust of at most {DUST_MAX} is expected") })
        }
    }
}

/// Like [`read`] for a value with dust, which has one more element.
///
/// # Errors
/// As [`read`].
///
/// # Panics
/// As [`read`].
pub fn read_dusty<E: Element>(key: Key, value: &[E], lanes: &mut [u32]) -> Result<(), BadValue> {
    assert!(value.len() > len_min(lanes.len()), "a value of {} elements has no room for dust", value.len());
    read_parts(key, value, lanes, true)
}

/// Checks a value whose updates were clipped: each lane is between 0 and the number of pushes in `most`.
///
/// # Errors
/// If the value belongs to another key, or is out of bounds.
///
/// # Panics
/// As [`read`].
pub fn read_scaled<E: Element>(key: Key, value: &[E], most: &[u32]) -> Result<(), BadValue> {
    let bad = |what| Err(BadValue { key, what });
    let (last, counts) = value.split_last().expect("a value has elements");
    if last.to_f64() != name(key) {
        return bad(format!("identifies its key as {last} instead of {}", name(key)));
    }
    let counts = without_dust(key, counts)?;
    for (element, most) in counts.iter().zip(most.iter().cycle()) {
        let (count, most) = (element.to_f64(), f64::from(*most));
        // Sums of clipped updates have rounding errors.
        if !(-1e-3..=most + 1e-3 * (1.0 + most)).contains(&count) {
            return bad(format!("has {count} where at most {most} were pushed"));
        }
    }
    Ok(())
}

/// A value that no sequence of pushes produces.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a value of {key:?} {what}")]
pub struct BadValue {
    /// The key.
    pub key: Key,
    /// What is wrong.
    pub what: String,
}

/// Reads the version vector of a value into `lanes`, one element per worker.
///
/// # Errors
/// If the value belongs to another key, is torn, or has elements that are not counts.
///
/// # Panics
/// If the value is shorter than [`len_min`].
pub fn read<E: Element>(key: Key, value: &[E], lanes: &mut [u32]) -> Result<(), BadValue> {
    read_parts(key, value, lanes, false)
}

fn read_parts<E: Element>(key: Key, value: &[E], lanes: &mut [u32], dusty: bool) -> Result<(), BadValue> {
    let bad = |what| Err(BadValue { key, what });
    assert!(value.len() >= len_min(lanes.len()), "a value of {} elements has no room for lanes", value.len());
    let (last, counts) = value.split_last().expect("checked above");
    if last.to_f64() != name(key) {
        return bad(format!("identifies its key as {last} instead of {}", name(key)));
    }
    let counts = if dusty { without_dust(key, counts)? } else { counts };
    let (first, rest) = counts.split_at(lanes.len());
    for (lane, element) in lanes.iter_mut().zip(first) {
        let count = element.to_f64();
        *lane = count as u32;
        if f64::from(*lane) != count {
            return bad(format!("has {element} where a count should be"));
        }
    }
    for (at, element) in rest.iter().enumerate() {
        if *element != first[at % first.len()] {
            let lane = at % first.len();
            return bad(format!("is torn: lane {lane} is {} and, repeated, {element}", first[lane]));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dust_and_scaling_stay_within_bounds() {
        let mut value = vec![0.0f64; 6];
        initial(Key(5), &mut value);
        let mut update = Vec::new();
        push(1, 2, 6, &mut update);
        scatter(&mut update, 0.1);
        value.iter_mut().zip(&update).for_each(|(v, u)| *v += u);
        let mut lanes = [0; 2];
        assert!(read(Key(5), &value, &mut lanes).is_err(), "dust where a count should be");
        assert_eq!(read_dusty(Key(5), &value, &mut lanes), Ok(()));
        assert_eq!(lanes, [0, 1]);
        assert!(read_dusty(Key(6), &value, &mut lanes).is_err());
        value[1] = 0.7;
        value[3] = 0.7;
        assert_eq!(read_scaled(Key(5), &value, &[0, 1]), Ok(()));
        assert!(read_scaled(Key(5), &value, &[1, 0]).is_err(), "no worker pushed that");
        assert!(read_scaled(Key(6), &value, &[0, 1]).is_err());
    }

    #[test]
    fn long_units_show_what_rounding_left_out() {
        let mut value = [3.0 * 257.0f32, 257.0, 6.0];
        assert_eq!(in_units(Key(5), &value, 1, LONG_UNIT, false), Ok(vec![3.0, 1.0, 6.0]));
        value[0] -= 1.0;
        assert!(in_units(Key(5), &value, 1, LONG_UNIT, false).is_err(), "the remainder is missing");
        assert_eq!(in_units(Key(5), &value, 1, LONG_UNIT, true), Ok(vec![3.0, 1.0, 6.0]));
        value[1] -= 8.0;
        assert!(in_units(Key(5), &value, 1, LONG_UNIT, true).is_err(), "rounding does not explain it");
        value[1] = f32::NAN;
        assert!(in_units(Key(5), &value, 1, LONG_UNIT, true).is_err());
    }

    #[test]
    fn pushes_count_and_defects_show() {
        let mut value = vec![0.0f32; 8];
        initial(Key(5), &mut value);
        for worker in [0, 1, 1] {
            let mut update = Vec::<f32>::new();
            push(worker, 3, 8, &mut update);
            value.iter_mut().zip(update).for_each(|(v, u)| *v += u);
        }
        let mut lanes = [9; 3];
        assert_eq!(read(Key(5), &value, &mut lanes), Ok(()));
        assert_eq!(lanes, [1, 2, 0]);
        assert!(read(Key(6), &value, &mut lanes).is_err(), "the value of another key");
        let mut torn = value.clone();
        torn[4] = 1.0;
        assert!(read(Key(5), &torn, &mut lanes).is_err(), "one half is older");
        value[2] = 0.5;
        assert!(read(Key(5), &value, &mut lanes).is_err(), "half a push");
    }
}
