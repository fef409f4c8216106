//! Values that are version vectors.
//!
//! A value of at least [`len_min`] elements has one *lane* per worker of the cluster, which counts that worker's pushes.
//! Longer values repeat the lanes, so that a torn read shows; the last element names the key, so that a value that went to
//! the wrong place shows. All numbers are small integers, which floats add exactly.

use intendant_core::{Element, Key};

/// Elements that a value of `workers` lanes needs.
#[must_use]
pub const fn len_min(workers: usize) -> usize {
    workers + 1
}

fn name(key: Key) -> f64 {
    // Below 2^20 and exact; neighbours differ.
    (key.0 % (1 << 20) + 1) as f64
}

/// The initial value of `key`: no pushes.
///
/// # Panics
/// If `value` is empty.
pub fn initial<E: Element>(key: Key, value: &mut [E]) {
    value.fill(E::ZERO);
    *value.last_mut().expect("a value has elements") = E::from_f64(name(key));
}

/// Appends the update of `len` elements by which `worker` of `workers` pushes.
pub fn push<E: Element>(worker: usize, workers: usize, len: usize, update: &mut Vec<E>) {
    let start = update.len();
    update.resize(start + len, E::ZERO);
    for element in update[start..start + len - 1].iter_mut().skip(worker).step_by(workers) {
        *element = E::ONE;
    }
}

/// A value that no sequence of pushes makes.
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
    let bad = |what| Err(BadValue { key, what });
    assert!(value.len() >= len_min(lanes.len()), "a value of {} elements has no room for lanes", value.len());
    let (last, counts) = value.split_last().expect("checked above");
    if last.to_f64() != name(key) {
        return bad(format!("is named {last} instead of {}", name(key)));
    }
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
