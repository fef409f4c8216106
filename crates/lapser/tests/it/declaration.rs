//! Declarations as bytes.

use intendant_lapser::{Declaration, DeclarationError, Item, Want};
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_declaration_survives_its_bytes(
        incarnation: u64,
        produce in prop::collection::vec(any::<(u64, usize)>(), 0..20),
        consume in prop::collection::vec(any::<(u64, usize, u64)>(), 0..20),
    ) {
        let produce = produce.into_iter().map(|(key, words)| Item { key, words }).collect();
        let want = |(key, words, slack)| Want { item: Item { key, words }, slack };
        let declared = Declaration { incarnation, produce, consume: consume.into_iter().map(want).collect() };
        prop_assert_eq!(Declaration::from_bytes(&declared.to_bytes()), Ok(declared));
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200), head: bool) {
        if head {
            let real = Declaration::default().to_bytes();
            bytes.splice(..bytes.len().min(8), real[..8].iter().copied());
        }
        if let Ok(declared) = Declaration::from_bytes(&bytes) {
            prop_assert_eq!(declared.to_bytes(), bytes);
        }
    }
}

#[test]
fn counts_that_do_not_fit_are_refused_before_anything_is_allocated() {
    let mut bytes = Declaration::default().to_bytes();
    bytes[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    let wanted = 16 * u128::from(u64::MAX) + 32;
    let refused = DeclarationError::Length { produced: u64::MAX, consumed: 0, bytes: 32, wanted };
    assert_eq!(Declaration::from_bytes(&bytes), Err(refused));
    assert_eq!(Declaration::from_bytes(b"LAPSER"), Err(DeclarationError::Unknown { bytes: 6 }));
}

#[test]
fn bytes_are_rounded_up_to_words() {
    assert_eq!([0, 1, 8, 9].map(|bytes| Item::of_bytes(3, bytes).words), [0, 1, 1, 2]);
}
