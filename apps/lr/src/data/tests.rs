//! Data sets by themselves: which rows are held out, and what the digest depends on.

use super::*;

fn rows(rows: &[(bool, &[(u32, f32)])]) -> Rows {
    let mut all = Rows::default();
    rows.iter().for_each(|(label, entries)| all.push(*label, entries.iter().copied()));
    all
}

fn dataset(train: Rows, test: Rows) -> Dataset {
    Dataset::new(9, Naming::Numbers, train, Rows::default(), test)
}

/// A hundred distinct rows.
fn hundred() -> Dataset {
    let mut train = Rows::default();
    (0..100u16).for_each(|i| train.push(i % 3 == 0, [(u32::from(i % 9), f32::from(i) + 1.0)]));
    dataset(train, rows(&[(true, &[(8, 1.0)])]))
}

#[test]
fn rows_are_as_they_were_pushed() {
    let all = rows(&[(true, &[(0, 1.0), (3, 0.0), (8, -2.0)]), (false, &[])]);
    assert_eq!((all.len(), all.entries(), all.positives()), (2, 2, 1));
    assert_eq!(all.row(0), Row { label: true, features: &[0, 8], values: &[1.0, -2.0] });
    assert_eq!(all.row(1), Row { label: false, features: &[], values: &[] });
    assert_eq!(all.iter().count(), 2);
}

#[test]
fn what_is_held_out_is_no_longer_trained() {
    let whole = hundred();
    let mut data = whole.clone();
    data.hold_out(Split::Test, 0.3, 5).unwrap();
    assert_eq!(data.train().len() + data.test().len(), 100, "the old test row is gone");
    assert!((15..45).contains(&data.test().len()), "{} of 100", data.test().len());
    assert!(data.test().iter().all(|row| data.train().iter().all(|other| other != row)));
    assert_eq!(data.uses().iter().sum::<u32>() as usize, data.train().len());
    assert_eq!(data.hash(0), data.train().row(0).hash());
    let test = data.test().clone();
    data.hold_out(Split::Valid, 0.3, 5).unwrap();
    assert_eq!(*data.test(), test, "the test rows are the same with and without validation");
    assert_eq!(data.train().len() + data.valid().len() + test.len(), 100);
    let again = |seed| {
        let mut data = whole.clone();
        data.hold_out(Split::Test, 0.3, seed).unwrap();
        data.test().clone()
    };
    assert_eq!(again(5), test);
    assert_ne!(again(6), test);
    for useless in [1e-9, 1.0 - 1e-9] {
        let error = whole.clone().hold_out(Split::Test, useless, 1).unwrap_err().to_string();
        assert!(error.contains("of 100 rows leaves nothing to train on or to evaluate"), "{error}");
    }
}

#[test]
fn the_digest_sees_everything() {
    let data = |value, label, test: &[(bool, &[(u32, f32)])]| {
        dataset(rows(&[(label, &[(1, value)]), (true, &[(2, 1.0)])]), rows(test))
    };
    let mut widened = data(1.0, true, &[]);
    widened.widen(10);
    let mut validated = data(1.0, true, &[]);
    validated.valid = rows(&[(true, &[(1, 1.0)])]);
    let swapped = dataset(rows(&[(true, &[(2, 1.0)]), (true, &[(1, 1.0)])]), Rows::default());
    let digests = [
        data(1.0, true, &[]),
        data(1.5, true, &[]),
        data(1.0, false, &[]),
        data(1.0, true, &[(true, &[(1, 1.0)])]),
        widened,
        validated,
        swapped,
    ]
    .map(|data| data.digest());
    for (i, one) in digests.iter().enumerate() {
        assert!(digests[..i].iter().all(|other| other != one), "{i}");
    }
    assert_eq!(digests[0], data(1.0, true, &[]).digest());
}

#[test]
fn uses_and_unseen_rows_are_counted() {
    let train = rows(&[(true, &[(0, 1.0), (2, 1.0)]), (false, &[(2, 3.0)])]);
    let data = dataset(train, rows(&[(true, &[(0, 1.0)]), (true, &[(0, 1.0), (1, 1.0)]), (false, &[])]));
    assert_eq!(data.uses()[..3], [1, 0, 2]);
    assert_eq!(data.unseen(), 1);
}
