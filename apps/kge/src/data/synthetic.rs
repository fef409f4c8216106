//! Generated graphs: the shape of a real one, at any size, for experiments in which only accesses count.
//!
//! Frequencies are those of real graphs. Relations follow Zipf's law. So do the objects of a relation
//! (countries, genres), so that some entities are the object of several percent of all triples. Subjects are
//! less skewed, and every entity is the subject of a triple if there are twice as many triples as entities.
//! As in real graphs, uniform negatives therefore are other keys than the most accessed ones. The skew of
//! relations and objects is a parameter, because graphs differ in it.
//!
//! The graph can be learned, so that a quality above chance shows that training works: entities have one of a
//! few types and belong to one of many groups, and for most triples the type of the subject and the relation
//! determine the group of the object. The number of an entity does not depend on its popularity: with
//! neighbouring keys, all popular entities would have the same home.
//!
//! The same specification gives the same graph, which does not depend on the seed of the training. A graph
//! with fewer triples has the first triples of a larger graph. Triples are distinct; memory is a multiple of
//! their number.

use super::error::DataError;
use super::{Dataset, Names, Triple};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use intendant_core::random::{Permutation, stream};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64Mcg;
use std::hash::BuildHasher;

/// How skewed a graph is: the exponents of Zipf's law for its relations and for its objects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Skew {
    relations: f64,
    objects: f64,
}

impl Skew {
    /// The skew of words.
    pub(super) const MODERATE: Self = Self { relations: 1.0, objects: 1.0 };

    /// The skew of Wikidata5M: with as many entities, relations and triples, keys have the shares of accesses
    /// of [thesis Tab. 4.4], within four percentage points.
    pub(super) const HIGH: Self = Self { relations: 1.3, objects: 1.1 };
}

/// The size of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    entities: u32,
    relations: u32,
    /// Training triples; held-out triples are generated in addition.
    triples: u32,
}

/// Every subject has one type; each type is half as frequent as the previous one.
const TYPES: u32 = 8;

/// Maximum number of groups of objects; small graphs have fewer, so that a group has at least 16 entities.
const GROUPS_MAX: u32 = 64;

/// Share of objects that follow from the type of the subject and the relation. The others may be any entity.
const REGULAR: f64 = 0.8;

/// Share of subjects that are chosen in turn, as long as there are entities whose turn has not come.
const BY_TURN: f64 = 0.5;

/// The exponent of Zipf's law for subjects: they are less skewed.
const SUBJECT_SKEW: f64 = 0.5;

/// For this many training triples, one triple is held out for validation and another one for the test, up to
/// `HELD_MAX`: ranking all entities for a triple takes time.
const TRIPLES_PER_HELD: u32 = 100;
const HELD_MAX: u32 = 500;

/// Maximum number of draws per triple, on average: nearly complete graphs would take forever. Held-out
/// triples are few and have a higher maximum: if most entities have no triple, it takes many draws until all
/// parts of a triple occur in training.
const DRAWS_PER_TRIPLE_MAX: u64 = 16;
const DRAWS_PER_HELD_MAX: u64 = 1 << 14;

/// The graph that `spec` describes: `ENTITIESxRELATIONSxTRIPLES`. `name` is the kind of graph.
pub(super) fn generate(name: &'static str, spec: &str, skew: Skew) -> Result<Dataset, DataError> {
    let refuse =
        |problem: &str| DataError::Synthetic { name, spec: spec.to_owned(), problem: problem.to_owned() };
    let shape = parse(spec).ok_or_else(|| {
        refuse("expected ENTITIESxRELATIONSxTRIPLES, three numbers above 0 and below 2^31, such as 1000x20x10000")
    })?;
    let held = (shape.triples / TRIPLES_PER_HELD).clamp(1, HELD_MAX);
    let crowded = || refuse("so few entities and relations hardly have as many distinct triples");
    let mut generator = Generator::new(shape, skew);
    let train = generator.take(shape.triples, DRAWS_PER_TRIPLE_MAX, |_| true).ok_or_else(crowded)?;
    let mut seen = (vec![false; shape.entities as usize], vec![false; shape.relations as usize]);
    for triple in &train {
        seen.0[triple.subject as usize] = true;
        seen.0[triple.object as usize] = true;
        seen.1[triple.relation as usize] = true;
    }
    let known =
        |t: &Triple| seen.0[t.subject as usize] && seen.0[t.object as usize] && seen.1[t.relation as usize];
    let valid = generator.take(held, DRAWS_PER_HELD_MAX, known).ok_or_else(crowded)?;
    let test = generator.take(held, DRAWS_PER_HELD_MAX, known).ok_or_else(crowded)?;
    let names = |prefix: &str, count: u32| {
        let mut names = Names::default();
        (0..count).for_each(|number| names.push(&format!("{prefix}{number}")));
        names
    };
    Ok(Dataset::new(names("e", shape.entities), names("r", shape.relations), train, valid, test))
}

fn parse(spec: &str) -> Option<Shape> {
    let mut numbers = spec.split('x').map(|number| match number.parse() {
        Ok(number @ 1..=0x7fff_ffff) => Some(number),
        Ok(_) | Err(_) => None,
    });
    let mut next = || numbers.next().flatten();
    let shape = Shape { entities: next()?, relations: next()?, triples: next()? };
    numbers.next().is_none().then_some(shape)
}

/// An endless source of distinct triples.
struct Generator {
    rng: Pcg64Mcg,
    shape: Shape,
    groups: u32,
    /// Maps ranks by popularity to numbers.
    entities: Permutation,
    relations: Permutation,
    /// The order in which entities are subjects in turn, and how many have been.
    turns: Permutation,
    turn: u64,
    popular_relation: Zipf<f64>,
    popular_subject: Zipf<f64>,
    popular_object: Zipf<f64>,
    /// Ranks within a group. The law is that of the smallest group.
    popular_in_group: Zipf<f64>,
    /// All triples so far, and their places, found by hash.
    triples: Vec<Triple>,
    index: HashTable<u32>,
    hasher: FixedState,
}

/// Names of the uses of random words.
const ENTITIES: u64 = 1;
const RELATIONS: u64 = 2;
const TURNS: u64 = 3;
const TYPE: u64 = 4;
const GROUP: u64 = 5;
const DRAWS: u64 = 6;

/// The seed of all generated graphs.
const SEED: u64 = 0x5359_4e54_4845_5449;

fn zipf(ranks: u32, exponent: f64) -> Zipf<f64> {
    Zipf::new(f64::from(ranks), exponent).expect("at least one rank and a positive exponent")
}

/// A rank by popularity, from 0.
fn rank(zipf: &Zipf<f64>, rng: &mut Pcg64Mcg) -> u32 {
    zipf.sample(rng) as u32 - 1
}

impl Generator {
    fn new(shape: Shape, skew: Skew) -> Self {
        let (entities, relations) = (u64::from(shape.entities), u64::from(shape.relations));
        let groups = (shape.entities / 16).clamp(1, GROUPS_MAX);
        Self {
            rng: Pcg64Mcg::seed_from_u64(stream(SEED, &[DRAWS, entities, relations])),
            shape,
            groups,
            entities: Permutation::new(entities, stream(SEED, &[ENTITIES])),
            relations: Permutation::new(relations, stream(SEED, &[RELATIONS])),
            turns: Permutation::new(entities, stream(SEED, &[TURNS])),
            turn: 0,
            popular_relation: zipf(shape.relations, skew.relations),
            popular_subject: zipf(shape.entities, SUBJECT_SKEW),
            popular_object: zipf(shape.entities, skew.objects),
            popular_in_group: zipf(shape.entities / groups, skew.objects),
            triples: Vec::with_capacity(shape.triples as usize),
            index: HashTable::new(),
            hasher: FixedState::default(),
        }
    }

    /// The next `count` triples that are `wanted` and differ from all earlier ones; `None` if they would take
    /// more than `draws_max` draws each, on average.
    fn take(&mut self, count: u32, draws_max: u64, wanted: impl Fn(&Triple) -> bool) -> Option<Vec<Triple>> {
        let start = self.triples.len();
        let end = start + count as usize;
        let mut draws = u64::from(count) * draws_max;
        while self.triples.len() < end {
            draws = draws.checked_sub(1)?;
            let triple = self.draw();
            if wanted(&triple) {
                self.add(triple);
            }
        }
        Some(self.triples[start..].to_vec())
    }

    fn add(&mut self, triple: Triple) {
        let Self { triples, index, hasher, .. } = self;
        let hash = |triple: &Triple| hasher.hash_one(triple);
        if index.find(hash(&triple), |at| triples[*at as usize] == triple).is_none() {
            index.insert_unique(hash(&triple), triples.len() as u32, |at| hash(&triples[*at as usize]));
            triples.push(triple);
        }
    }

    fn draw(&mut self) -> Triple {
        let rng = &mut self.rng;
        let relation = rank(&self.popular_relation, rng);
        let by_turn = rng.random_bool(BY_TURN);
        let subject = if by_turn && self.turn < u64::from(self.shape.entities) {
            self.turn += 1;
            self.turns.apply(self.turn - 1)
        } else {
            self.entities.apply(rank(&self.popular_subject, rng).into())
        };
        let object = if rng.random_bool(REGULAR) {
            let kind = stream(SEED, &[TYPE, subject]).trailing_ones().min(TYPES - 1);
            let group = stream(SEED, &[GROUP, relation.into(), kind.into()]) % u64::from(self.groups);
            // Entities are dealt out to the groups in the order of popularity.
            u64::from(rank(&self.popular_in_group, rng)) * u64::from(self.groups) + group
        } else {
            rank(&self.popular_object, rng).into()
        };
        Triple {
            subject: subject as u32,
            relation: self.relations.apply(relation.into()) as u32,
            object: self.entities.apply(object) as u32,
        }
    }
}
