//! A batch: a piece of the stream, converted to the amounts that it adds to the blocks of the sketch.

use crate::config::Config;
use crate::data::{Item, Stream};
use hashbrown::HashTable;
use intendant_core::random::mix;
use intendant_core::{Element, Key, lock};
use std::sync::Mutex;

/// An item of a batch that may be a heavy hitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// The number that identifies it.
    pub(crate) x: u64,
    pub(crate) count: u64,
    /// The end of its name among the names. Its name begins where the previous item's name ends.
    pub(crate) name_end: usize,
}

/// A piece of the stream, prepared for counting.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch<E> {
    /// The amounts to add to the block of each key, concatenated.
    pub(crate) cells: Vec<E>,
    /// The amounts to add to the value of the last key ([`crate::Shape::inserted_len`] elements).
    pub(crate) inserted: Vec<E>,
    /// The items, if heavy hitters are wanted.
    pub(crate) items: Vec<Counted>,
    pub(crate) names: Vec<u8>,
    /// The sum of the counts.
    pub(crate) count: u64,
    /// Whether the piece could not be read; the stream has the reason.
    pub(crate) failed: bool,
}

impl<E> Batch<E> {
    /// The items that may be heavy hitters, with their names.
    pub(crate) fn named_items(&self) -> impl Iterator<Item = (Counted, &[u8])> {
        let mut start = 0;
        self.items.iter().map(move |item| {
            let from = std::mem::replace(&mut start, item.name_end);
            (*item, &self.names[from..item.name_end])
        })
    }
}

/// Marks blocks that a batch has not touched.
const UNTOUCHED: u32 = u32::MAX;

/// Memory in which batches are made, for reuse.
#[derive(Debug, Default)]
struct Workspace {
    /// The place of each block among those of the batch.
    places: Vec<u32>,
    /// Places among the items, found by the items' numbers.
    found: HashTable<u32>,
}

/// Makes batches.
#[derive(Debug, Default)]
pub(crate) struct Maker(Mutex<Vec<Workspace>>);

/// A batch that is being made.
struct Making<'a, E> {
    config: &'a Config,
    places: &'a mut [u32],
    keys: Vec<Key>,
    cells: Vec<E>,
    inserted: Vec<E>,
    items: Vec<Counted>,
    names: Vec<u8>,
    count: u64,
    digest: u64,
}

impl<E: Element> Making<'_, E> {
    /// Adds an item to its cells.
    #[inline]
    fn add(&mut self, x: u64, count: u64) {
        let Config { shape, hashes, .. } = self.config;
        let count = E::from_f64(count as f64);
        for (row, functions) in hashes.rows.iter().enumerate() {
            let (key, at) = shape.place(row, functions.cell(x, shape.width));
            let place = &mut self.places[key as usize];
            if *place == UNTOUCHED {
                *place = self.keys.len() as u32;
                self.keys.push(Key(key));
                self.cells.resize(self.cells.len() + shape.block, E::ZERO);
            }
            let signed = if functions.is_negative(x) { -count } else { count };
            self.cells[*place as usize * shape.block + at] += signed;
            if functions.sign.is_some() {
                self.inserted[1 + row] += signed;
            }
        }
        self.inserted[0] += count;
    }

    /// Counts an item, before it is added or instead.
    #[inline]
    fn note(&mut self, item: &Item<'_>) {
        // The sum is checked against the limit before any part of the batch is used.
        self.count = self.count.saturating_add(item.count);
        // These sums are the same however the stream is divided.
        self.digest = self.digest.wrapping_add(mix(item.x).wrapping_mul(item.count));
    }

    fn keep(&mut self, item: &Item<'_>, named: bool) {
        if named {
            item.text.write(&mut self.names);
        }
        self.items.push(Counted { x: item.x, count: item.count, name_end: self.names.len() });
    }
}

impl Maker {
    /// The batch of a piece, its keys and its digest.
    pub(crate) fn make<E: Element>(
        &self,
        config: &Config,
        stream: &Stream,
        piece: u64,
    ) -> (Batch<E>, Vec<Key>, u64) {
        let shape = &config.shape;
        let mut workspace = lock(&self.0).pop().unwrap_or_default();
        workspace.places.resize(shape.blocks() as usize, UNTOUCHED);
        let Workspace { places, found } = &mut workspace;
        found.clear();
        let mut making = Making {
            config,
            places,
            keys: Vec::new(),
            cells: Vec::new(),
            inserted: vec![E::ZERO; shape.inserted_len()],
            items: Vec::new(),
            names: Vec::new(),
            count: 0,
            digest: 0,
        };
        let named = config.top > 0;
        let number = |text: &[u8]| config.hashes.of_text(text);
        let read = if config.aggregate {
            stream.read_or_fail(piece, number, |item| {
                making.note(&item);
                let hash = mix(item.x);
                let items = &mut making.items;
                if let Some(place) = found.find(hash, |place| items[*place as usize].x == item.x) {
                    let counted = &mut items[*place as usize];
                    counted.count = counted.count.saturating_add(item.count);
                    return;
                }
                let place = items.len() as u32;
                found.insert_unique(hash, place, |place| mix(items[*place as usize].x));
                making.keep(&item, named);
            })
        } else {
            stream.read_or_fail(piece, number, |item| {
                making.note(&item);
                making.add(item.x, item.count);
                if named {
                    making.keep(&item, named);
                }
            })
        };
        if config.aggregate {
            for at in 0..making.items.len() {
                let Counted { x, count, .. } = making.items[at];
                making.add(x, count);
            }
            if !named {
                making.items = Vec::new();
            }
        }
        let Making { mut keys, cells, inserted, items, names, count, digest, .. } = making;
        keys.iter().for_each(|key| workspace.places[key.index()] = UNTOUCHED);
        lock(&self.0).push(workspace);
        if !keys.is_empty() {
            keys.push(shape.inserted_key());
        }
        (Batch { cells, inserted, items, names, count, failed: !read }, keys, digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Items, Options};
    use crate::hash::Hashes;
    use crate::shape::{Kind, Shape};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn config(kind: Kind, aggregate: bool, top: usize) -> Config {
        let shape = Shape { kind, depth: 3, width: 20, block: 4 };
        let hashes = Hashes::new(1, &shape);
        Config { shape, hashes, items: Items::Integers, aggregate, top, exact: 0.0, epochs: 1 }
    }

    fn stream(numbers: &[u64]) -> Stream {
        let text: String = numbers.iter().map(|number| format!("{number}\n")).collect();
        let options = Options { items: Items::Integers, counts: false, piece_bytes: 1 << 20 };
        Stream::memory("f", text.into_bytes(), options)
    }

    proptest! {
        /// The cells equal those of a naive sketch; adding up equal items first makes no difference.
        #[test]
        fn a_batch_adds_what_a_naive_sketch_adds(numbers in proptest::collection::vec(0u64..40, 0..80)) {
            for kind in [Kind::CountMin, Kind::CountSketch] {
                let mut naive = vec![0.0; 60];
                let (Config { shape, hashes, .. }, maker) = (config(kind, true, 0), Maker::default());
                let mut sums = vec![0.0; shape.inserted_len()];
                for x in &numbers {
                    sums[0] += 1.0;
                    for (row, functions) in hashes.rows.iter().enumerate() {
                        let sign = if functions.is_negative(*x) { -1.0 } else { 1.0 };
                        naive[row * 20 + functions.cell(*x, 20) as usize] += sign;
                        if kind == Kind::CountSketch {
                            sums[1 + row] += sign;
                        }
                    }
                }
                let mut digests = Vec::new();
                for aggregate in [true, false, true] {
                    let config = config(kind, aggregate, 0);
                    let (batch, keys, digest) = maker.make::<f64>(&config, &stream(&numbers), 0);
                    digests.push(digest);
                    let mut cells = vec![0.0; 60];
                    let blocks = keys.iter().zip(batch.cells.chunks(4));
                    blocks.for_each(|(key, block)| cells[key.index() * 4..][..4].copy_from_slice(block));
                    prop_assert_eq!(&cells, &naive);
                    prop_assert_eq!(&batch.inserted, &sums);
                    prop_assert_eq!((batch.count, batch.failed), (numbers.len() as u64, false));
                    let mut distinct = keys.clone();
                    distinct.sort_unstable();
                    distinct.dedup();
                    prop_assert_eq!(distinct.len(), keys.len());
                    let expected = (!numbers.is_empty()).then_some(Key(15));
                    prop_assert_eq!(keys.last().copied(), expected);
                    prop_assert_eq!((batch.items.len(), batch.names.len()), (0, 0));
                }
                prop_assert!(digests.iter().all(|digest| *digest == digests[0]));
            }
        }
    }

    #[test]
    fn candidates_come_with_their_names() {
        let options = Options { items: Items::Words { ngrams: 1 }, counts: false, piece_bytes: 1 << 20 };
        let stream = Stream::memory("f", b"b a b cc".to_vec(), options);
        let counts = |aggregate| {
            let config = config(Kind::CountMin, aggregate, 5);
            let (batch, ..) = Maker::default().make::<f32>(&config, &stream, 0);
            let mut counts = BTreeMap::new();
            for (item, name) in batch.named_items() {
                assert_eq!(item.x, config.hashes.of_text(name));
                *counts.entry(String::from_utf8_lossy(name).into_owned()).or_insert(0) += item.count;
            }
            (batch.items.len(), counts)
        };
        let expected =
            BTreeMap::from([("a", 1), ("b", 2), ("cc", 1)].map(|(name, count)| (name.to_owned(), count)));
        assert_eq!(counts(true), (3, expected.clone()));
        assert_eq!(counts(false), (4, expected));
    }

    #[test]
    fn a_piece_that_cannot_be_read_fails_its_batch() {
        let options = Options { items: Items::Integers, counts: false, piece_bytes: 100 };
        let stream = Stream::memory("f", b"1\nx\n".to_vec(), options);
        let (batch, ..) = Maker::default().make::<f64>(&config(Kind::CountMin, true, 0), &stream, 0);
        assert!(batch.failed);
        let failure = stream.failure().unwrap().to_string();
        assert_eq!(failure, "f, line 2: 'x' is no integer from 0 to 18446744073709551615");
    }
}
