//! A small task for the tests of [`intendant_sim::run_task`]: factorises a user × item matrix with sampled
//! negatives.
//!
//! Users and items belong to groups, and a user likes the items of its group. An example is a (user, item)
//! pair; its negatives are sampled items. A held-out pair counts as ranked correctly if it scores above an
//! item of another group.

use intendant_core::random::{stream, unit};
use intendant_core::{Element, Key};
use intendant_sampling::{Conformity, Distribution, DistributionId, Sampler};
use intendant_task::{
    BatchAt, Cost, EpochOrder, Evaluation, Model, ModelRange, Partition, Prepared, Pulled, Reduction,
    SampleRequest, Split, StepReport, Subepoch, Task, Update,
};
use std::ops::Range;
use std::sync::Arc;

const USERS: u64 = 40;
const ITEMS: u64 = 60;
const GROUPS: u64 = 4;
const DIM: usize = 6;
const BATCH: u64 = 8;
const NEGATIVES: usize = 2;
const RATE: f64 = 0.2;

pub(crate) struct Likes<E> {
    seed: u64,
    pairs: Vec<(Key, Key)>,
    held_out: Vec<(Key, Key, Key)>,
    model: Model<E>,
    negatives: DistributionId,
}

impl<E: Element> Likes<E> {
    pub(crate) fn new(seed: u64) -> Self {
        let item = |at: u64| Key(USERS + at % ITEMS);
        // All users of a group like the same items. One in five pairs is held out, at positions that differ
        // per user.
        let likes = (0..USERS).flat_map(|user| {
            (0..ITEMS / GROUPS).map(move |nth| {
                (Key(user), item(nth * GROUPS + user % GROUPS), (user / GROUPS + nth).is_multiple_of(5))
            })
        });
        let (held_out, trained): (Vec<_>, Vec<_>) = likes.partition(|(.., held_out)| *held_out);
        let pairs = trained.into_iter().map(|(user, liked, _)| (user, liked)).collect();
        let held_out =
            held_out.into_iter().map(|(user, liked, _)| (user, liked, item(liked.0 - USERS + 1))).collect();
        let mut sampler = Sampler::builder();
        let items = Distribution::uniform(USERS..USERS + ITEMS).expect("there are items");
        let negatives = sampler.register(items, Conformity::Conform);
        let init = move |key: Key, value: &mut [E]| {
            for (at, element) in value.iter_mut().enumerate() {
                *element = E::from_f64(unit(stream(seed, &[key.0, at as u64])) - 0.5);
            }
        };
        let ranges = vec![
            ModelRange::new("user", USERS, DIM),
            // One unused element, so that the two ranges have different lengths.
            ModelRange::new("item", ITEMS, DIM + 1),
        ];
        let model = Model { ranges, init: Arc::new(init), sampler: sampler.build() };
        Self { seed, pairs, held_out, model, negatives }
    }

    fn order(&self, epoch: u32) -> EpochOrder {
        EpochOrder::new(self.seed, epoch, self.pairs.len() as u64, BATCH)
    }
}

fn score<E: Element>(user: &[E], item: &[E]) -> f64 {
    user[..DIM].iter().zip(&item[..DIM]).map(|(u, i)| u.to_f64() * i.to_f64()).sum()
}

impl<E: Element> Task for Likes<E> {
    type Element = E;
    type Batch = usize;
    type Scratch = ();

    fn name(&self) -> &'static str {
        "likes"
    }

    fn model(&self) -> &Model<E> {
        &self.model
    }

    fn batches(&self, subepoch: Subepoch, partition: Partition) -> u64 {
        partition.share(self.order(subepoch.epoch).batches())
    }

    fn prepare(&self, at: BatchAt) -> Prepared<usize> {
        let word = |example: u64| stream(self.seed, &[u64::from(at.subepoch.epoch), example]);
        let examples: Vec<u64> = self.order(at.subepoch.epoch).batch(at.global()).collect();
        let pair = |example: &u64| self.pairs[*example as usize];
        Prepared {
            batch: examples.len(),
            keys: examples.iter().flat_map(|e| [pair(e).0, pair(e).1]).collect(),
            near: examples.iter().flat_map(|e| [pair(e).0, pair(e).1]).collect(),
            samples: examples
                .iter()
                .map(|e| SampleRequest { distribution: self.negatives, samples: NEGATIVES, stream: word(*e) })
                .collect(),
            handles: Vec::new(),
            digest: examples.iter().fold(0, |sum, e| sum.wrapping_add(word(*e))),
        }
    }

    fn scratch(&self) {}

    fn compute(
        &self,
        (): &mut (),
        batch: &usize,
        pulled: Pulled<'_, E>,
        update: &mut Update<'_, E>,
    ) -> StepReport {
        let mut loss = 0.0;
        let rows = pulled.values.chunks_exact(2 * DIM + 1).zip(update.values.chunks_exact_mut(2 * DIM + 1));
        let samples = pulled.sample_values.chunks_exact(NEGATIVES * (DIM + 1));
        let sample_updates = update.sample_values.chunks_exact_mut(NEGATIVES * (DIM + 1));
        for ((row, change), (negatives, negative_changes)) in rows.zip(samples.zip(sample_updates)) {
            let (user, item) = row.split_at(DIM);
            let (user_change, item_change) = change.split_at_mut(DIM);
            let mut learn = |item: &[E], item_change: &mut [E], label: f64| {
                let margin = score(user, item) * label;
                loss += (-margin).exp().ln_1p();
                let slope = RATE * label / (1.0 + margin.exp());
                for at in 0..DIM {
                    user_change[at] += E::from_f64(slope * item[at].to_f64());
                    item_change[at] += E::from_f64(slope * user[at].to_f64());
                }
            };
            learn(item, item_change, 1.0);
            let negatives = negatives.chunks_exact(DIM + 1).zip(negative_changes.chunks_exact_mut(DIM + 1));
            negatives.for_each(|(item, change)| learn(item, change, -1.0));
        }
        let examples = *batch as u64;
        StepReport { loss, examples, cost: Cost(examples * (1 + NEGATIVES as u64) * 3 * DIM as u64) }
    }

    fn evaluation(&self, _: Split, partition: Partition) -> Option<Box<dyn Evaluation<E>>> {
        let share = self.held_out.len() / partition.workers as usize + 1;
        let pairs: Vec<_> =
            self.held_out.iter().skip(partition.worker as usize * share).take(share).copied().collect();
        let keys = pairs.iter().map(|(user, ..)| *user).collect();
        Some(Box::new(Ranked {
            pairs,
            keys,
            users: Vec::new(),
            items: vec![E::ZERO; ITEMS as usize * (DIM + 1)],
        }))
    }
}

struct Ranked<E> {
    /// (user, liked item, item of another group).
    pairs: Vec<(Key, Key, Key)>,
    keys: Vec<Key>,
    users: Vec<E>,
    items: Vec<E>,
}

impl<E: Element> Evaluation<E> for Ranked<E> {
    fn keys(&self) -> &[Key] {
        &self.keys
    }

    fn take(&mut self, values: &[E]) {
        self.users = values.to_vec();
    }

    fn range(&self) -> Range<u64> {
        USERS..USERS + ITEMS
    }

    fn part(&mut self, keys: &[Key], values: &[E]) {
        for (key, value) in keys.iter().zip(values.chunks_exact(DIM + 1)) {
            let at = (key.0 - USERS) as usize * (DIM + 1);
            self.items[at..at + DIM + 1].copy_from_slice(value);
        }
    }

    fn finish(self: Box<Self>) -> Reduction {
        let item = |key: Key| &self.items[(key.0 - USERS) as usize * (DIM + 1)..];
        let right = |((_, liked, other), user): (&(Key, Key, Key), &[E])| {
            score(user, item(*liked)) > score(user, item(*other))
        };
        let ranked = self.pairs.iter().zip(self.users.chunks_exact(DIM)).filter(|pair| right(*pair)).count();
        let mut reduction = Reduction::default();
        reduction.add("quality.ranked_right", ranked as f64);
        reduction.add("quality.count", self.pairs.len() as f64);
        reduction
    }
}
