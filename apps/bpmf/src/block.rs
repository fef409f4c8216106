//! A block: the part of a chain that one node computes.

mod state;

use crate::data::{Entries, Model};
use crate::error::{BpmfError, What};
use crate::hyper::{self, Hyper, Prior};
use crate::item::{Item, Need, Side};
use crate::moments::Moments;
use crate::predict::{Forecast, Held, Outlook, Posterior, Prediction, Sums, average};
use crate::random::{Use, generator};
use crate::row::{self, Scratch, View};
use pulp::{Simd, WithSimd};
use rand_distr::{Distribution, StandardNormal};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// A step of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Block 0 draws the hyperparameters of both sides, given the rows of the previous iteration.
    Hyperparameters,
    /// The block draws its rows of one side, given the rows of the other side: first V, then U.
    Rows(Side),
    /// The block predicts the held-out entries of its rows, and computes its statistics of both sides. No
    /// block begins the next iteration before every block has done this, because that iteration needs the
    /// statistics of all blocks.
    Predict,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Produced {
    /// The items, whose values [`Block::value`] has.
    pub items: Vec<Item>,
    /// Their clock.
    pub clock: u64,
}

/// A block: some rows of both sides.
///
/// Methods to call, in this order:
///
/// 1. [`Block::produced`] and [`Block::consumed`] declare the items; [`Block::begin`] names those that have
///    a value from the start, at clock 1.
/// 2. While [`Block::step`] names a step: [`Block::needs`] names the items that the step needs, and
///    [`Block::put`] takes each of them; [`Block::work`] divides the step into tasks, which run in any
///    order, on any threads; [`Block::finish`] ends the step and returns what it produced.
/// 3. Between steps, [`Block::sums`], [`Block::forecasts`] and [`Block::posterior`] return the results so
///    far.
#[derive(Clone, Debug)]
pub struct Block {
    pub(crate) model: Arc<Model>,
    index: u32,
    /// From 1.
    pub(crate) iteration: u32,
    /// `None` after the last iteration.
    step: Option<Step>,
    pub(crate) sides: [Part; 2],
    /// Predictions of the held-out entries of the block's rows, for each [`Held`].
    pub(crate) predictions: [Vec<Prediction>; 2],
    /// Squared errors of the training entries of each leaf of U.
    losses: Vec<f64>,
    /// Hyperparameters that are being drawn.
    drawn: [Option<Hyper>; 2],
}

/// A block's part of one side.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    leaves: Range<u32>,
    pub(crate) rows: Range<u32>,
    pub(crate) own: Vec<f64>,
    /// Rows of other blocks that this block consumes, ascending; and the subsets that training and
    /// predictions use.
    consumed: Vec<u32>,
    trained: Vec<u32>,
    tested: Vec<u32>,
    /// For each row of the side, the place of its copy. Empty if the block consumes no rows.
    places: Vec<u32>,
    copies: Vec<f64>,
    hyper: Hyper,
    /// Statistics of each leaf.
    moments: Vec<Moments>,
    /// Statistics of the nodes that cover the leaves; in block 0 also those of the other blocks' nodes.
    pub(crate) known: BTreeMap<u32, Moments>,
    /// Nodes of other blocks, in block 0.
    of_others: Vec<u32>,
    pub(crate) means: Vec<f64>,
    pub(crate) squares: Vec<f64>,
}

/// The place of a row that is not consumed.
const NOWHERE: u32 = u32::MAX;

impl Part {
    fn new(model: &Model, side: Side, index: u32, blocks: u32) -> Self {
        let (data, rank) = (model.side(side), model.config.rank);
        let leaves = data.tree.share(index, blocks);
        let rows = data.rows(leaves.clone());
        // The product of a row and a column has a variance of 1.
        let scale = (rank as f64).powf(-0.25);
        let mut own = Vec::with_capacity(rows.len() * rank);
        for row in rows.clone() {
            let mut random = generator(model.config.seed, Use::Initial, side, 0, row);
            own.extend((0..rank).map(|_| {
                let x: f64 = StandardNormal.sample(&mut random);
                scale * x
            }));
        }
        let others = (0..blocks).filter(|block| index == 0 && *block != index);
        let of_others = others.flat_map(|block| data.tree.cover(data.tree.share(block, blocks))).collect();
        let (means, squares) = (vec![0.0; own.len()], vec![0.0; own.len()]);
        Self {
            moments: vec![Moments::new(rank); leaves.len()],
            leaves,
            rows,
            own,
            consumed: Vec::new(),
            trained: Vec::new(),
            tested: Vec::new(),
            places: Vec::new(),
            copies: Vec::new(),
            hyper: Hyper::new(rank),
            known: BTreeMap::new(),
            of_others,
            means,
            squares,
        }
    }

    /// Makes room for the rows of other blocks that training and predictions use.
    fn consume(&mut self, trained: BTreeSet<u32>, tested: BTreeSet<u32>, rows: u32, rank: usize) {
        self.consumed = trained.union(&tested).copied().collect();
        if !self.consumed.is_empty() {
            self.places = vec![NOWHERE; rows as usize];
            (0..).zip(&self.consumed).for_each(|(at, row)| self.places[*row as usize] = at);
            self.copies = vec![0.0; self.consumed.len() * rank];
        }
        (self.trained, self.tested) = (trained.into_iter().collect(), tested.into_iter().collect());
    }

    fn view(&self, rank: usize) -> View<'_> {
        View { rank, own_rows: &self.rows, own: &self.own, places: &self.places, copies: &self.copies }
    }
}

impl Block {
    /// Block `index` of `blocks`, with initial rows.
    ///
    /// # Errors
    /// [`BpmfError::NoSuchBlock`].
    pub fn new(model: Arc<Model>, index: u32, blocks: u32) -> Result<Self, BpmfError> {
        let blocks_max = model.blocks_max();
        if !(1..=blocks_max).contains(&blocks) || index >= blocks {
            return Err(BpmfError::NoSuchBlock { block: index, blocks, blocks_max });
        }
        let rank = model.config.rank;
        let mut sides = Side::BOTH.map(|side| Part::new(&model, side, index, blocks));
        for side in Side::BOTH {
            let own = sides[side.other() as usize].rows.clone();
            let here = &sides[side as usize].rows;
            let foreign = |others: &[u32]| -> BTreeSet<u32> {
                others.iter().copied().filter(|row| !here.contains(row)).collect()
            };
            let entries = &model.side(side.other()).entries;
            let trained = foreign(&entries.others[entries.places(own.clone())]);
            let tested = match side {
                // The block that has the row of an entry predicts it.
                Side::Columns => {
                    let tested = model.held.iter().map(|held| &held.others[held.places(own.clone())]);
                    foreign(&tested.flatten().copied().collect::<Vec<_>>())
                }
                Side::Rows => BTreeSet::new(),
            };
            sides[side as usize].consume(trained, tested, model.rows(side), rank);
        }
        let predictions = Held::BOTH.map(|held| {
            let entries = &model.held[held as usize];
            vec![Prediction::default(); entries.places(sides[0].rows.clone()).len()]
        });
        let losses = vec![0.0; sides[0].leaves.len()];
        let mut block =
            Self { model, index, iteration: 0, step: None, sides, predictions, losses, drawn: [None, None] };
        block.begin_after(0);
        Ok(block)
    }

    /// Begins the next iteration after `iterations` ones, with the rows that the block has.
    pub(crate) fn begin_after(&mut self, iterations: u32) {
        Scratch::new().arch.dispatch(Measure(self));
        self.add_up();
        self.iteration = iterations;
        self.begin_iteration();
    }

    /// The block's number.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The items that this block produces.
    pub fn produced(&self) -> Vec<Item> {
        self.model.produced(self.index, |side| self.part(side).leaves.clone())
    }

    /// The items of other blocks that this block needs, each once.
    pub fn consumed(&self) -> Vec<Item> {
        let mut items = Vec::new();
        for side in Side::BOTH {
            let part = self.part(side);
            items.extend(part.consumed.iter().map(|row| Item::Row(side, *row)));
            items.extend(part.of_others.iter().map(|node| Item::Statistics(side, *node)));
            if self.index != 0 {
                items.push(Item::Hyperparameters(side));
            }
        }
        items
    }

    /// The items that have a value from the start: rows and their statistics. Their clock is 1, unless the
    /// block continues after some iterations ([`Block::restore`]).
    pub fn begin(&self) -> Produced {
        let mut items = self.produced();
        items.retain(|item| !matches!(item, Item::Hyperparameters(_)));
        Produced { items, clock: u64::from(self.complete()) + 1 }
    }

    /// Complete iterations.
    pub fn complete(&self) -> u32 {
        if self.step.is_some() { self.iteration - 1 } else { self.iteration }
    }

    /// The iteration that is under way, from 1, or the last one.
    pub fn iteration(&self) -> u32 {
        self.iteration
    }

    /// The step that comes next; `None` after the last iteration.
    pub fn step(&self) -> Option<Step> {
        self.step
    }

    /// The items of other blocks that the next step needs. Items of slack 0 come first.
    pub fn needs(&self) -> Vec<Need> {
        let clock = u64::from(self.iteration);
        let row = |side: Side, clock: u64| {
            let slack = u64::from(self.model.config.slack);
            move |row: &u32| Need { item: Item::Row(side, *row), clock, slack }
        };
        match self.step {
            None => Vec::new(),
            Some(Step::Hyperparameters) => {
                let of = |side: Side| {
                    let nodes = self.part(side).of_others.iter();
                    nodes.map(move |node| Need { item: Item::Statistics(side, *node), clock, slack: 0 })
                };
                Side::BOTH.into_iter().flat_map(of).collect()
            }
            Some(Step::Rows(side)) => {
                let hyper = Need { item: Item::Hyperparameters(side), clock: clock + 1, slack: 0 };
                // V is drawn given U of the previous iteration, U given V of this one.
                let clock = if side == Side::Columns { clock } else { clock + 1 };
                let other = side.other();
                let rows = self.part(other).trained.iter().map(row(other, clock));
                (self.index != 0).then_some(hyper).into_iter().chain(rows).collect()
            }
            Some(Step::Predict) => {
                self.part(Side::Columns).tested.iter().map(row(Side::Columns, clock + 1)).collect()
            }
        }
    }

    /// Takes the value of a consumed item.
    ///
    /// # Errors
    /// [`BpmfError::Unwanted`] if the block does not consume the item, or the value has another length.
    pub fn put(&mut self, item: Item, value: &[f64]) -> Result<(), BpmfError> {
        let rank = self.model.config.rank;
        let unwanted =
            |expected| Err(BpmfError::Unwanted { block: self.index, item, words: value.len(), expected });
        let words = self.model.words(item);
        match item {
            Item::Row(side, row) => {
                let part = &mut self.sides[side as usize];
                match part.places.get(row as usize).filter(|place| **place != NOWHERE) {
                    Some(place) if value.len() == words => {
                        part.copies[*place as usize * rank..][..rank].copy_from_slice(value);
                        Ok(())
                    }
                    found => unwanted(found.map_or(0, |_| words)),
                }
            }
            Item::Statistics(side, node) => {
                let part = &mut self.sides[side as usize];
                match part.of_others.contains(&node) {
                    true if value.len() == words => {
                        part.known.insert(node, Moments::unpack(value, rank));
                        Ok(())
                    }
                    found => unwanted(if found { words } else { 0 }),
                }
            }
            Item::Hyperparameters(side) => match self.index != 0 {
                true if value.len() == words => {
                    self.sides[side as usize].hyper = Hyper::unpack(value, rank);
                    Ok(())
                }
                found => unwanted(if found { words } else { 0 }),
            },
        }
    }

    /// Appends the value of an item that this block produces.
    ///
    /// # Panics
    /// If it does not.
    pub fn value(&self, item: Item, out: &mut Vec<f64>) {
        let rank = self.model.config.rank;
        match item {
            Item::Row(side, row) => {
                let part = self.part(side);
                assert!(part.rows.contains(&row), "block {} does not produce {item:?}", self.index);
                out.extend_from_slice(part.view(rank).row(row));
            }
            Item::Statistics(side, node) => {
                let own =
                    self.part(side).known.get(&node).filter(|_| self.cover(side).any(|own| own == node));
                own.unwrap_or_else(|| panic!("block {} does not produce {item:?}", self.index))
                    .pack(rank, out);
            }
            Item::Hyperparameters(side) => {
                assert_eq!(self.index, 0, "block {} does not produce {item:?}", self.index);
                self.part(side).hyper.pack(out);
            }
        }
    }

    /// The tasks of the next step. All of them must run before [`Block::finish`].
    ///
    /// # Errors
    /// [`BpmfError::Missing`] if the statistics of other blocks were not put.
    pub fn work(&mut self) -> Result<Vec<Task<'_>>, BpmfError> {
        let (model, iteration) = (&*self.model, self.iteration);
        let rank = model.config.rank;
        // The number of samples after the burn-in, including that of this iteration.
        let samples = iteration.saturating_sub(model.config.burn_in);
        let mut tasks = Vec::new();
        match self.step {
            None => {}
            Some(Step::Hyperparameters) => {
                for ((side, part), drawn) in Side::BOTH.into_iter().zip(&self.sides).zip(&mut self.drawn) {
                    let missing = BpmfError::Missing { block: self.index, iteration };
                    let moments = model.side(side).tree.root(&part.known).ok_or(missing)?;
                    tasks.push(Task(Kind::Hyper { model, side, iteration, moments, drawn }));
                }
            }
            Some(Step::Rows(side)) => {
                let [u, v] = &mut self.sides;
                let (part, other) = if side == Side::Rows { (u, &*v) } else { (v, &*u) };
                let other = other.view(rank);
                let (mut own, mut means, mut squares) =
                    (part.own.as_mut_slice(), part.means.as_mut_slice(), part.squares.as_mut_slice());
                let mut losses = self.losses.as_mut_slice();
                for (leaf, moments) in part.leaves.clone().zip(&mut part.moments) {
                    let rows = model.side(side).leaf(leaf);
                    let loss = if side == Side::Rows { losses.split_off_first_mut() } else { None };
                    let len = rows.len() * rank;
                    let task = RowsTask {
                        model,
                        side,
                        iteration,
                        samples,
                        rows: rows.clone(),
                        hyper: &part.hyper,
                        other,
                        own: split(&mut own, len),
                        means: split(&mut means, len),
                        squares: split(&mut squares, len),
                        moments,
                        loss,
                    };
                    if !rows.is_empty() {
                        tasks.push(Task(Kind::Rows(task)));
                    }
                }
            }
            Some(Step::Predict) => {
                let [u, v] = &self.sides;
                for (entries, predictions) in model.held.iter().zip(&mut self.predictions) {
                    let mut predictions = predictions.as_mut_slice();
                    for leaf in u.leaves.clone() {
                        let rows = model.side(Side::Rows).leaf(leaf);
                        let count = entries.places(rows.clone()).len();
                        let predictions = split(&mut predictions, count);
                        let (u, v) = (u.view(rank), v.view(rank));
                        if count > 0 {
                            tasks.push(Task(Kind::Predict { entries, rows, u, v, samples, predictions }));
                        }
                    }
                }
            }
        }
        Ok(tasks)
    }

    /// Ends the step, after its tasks have run; returns what it produced.
    pub fn finish(&mut self) -> Produced {
        let clock = u64::from(self.iteration) + 1;
        let items = match self.step {
            None => Vec::new(),
            Some(Step::Hyperparameters) => {
                for (part, drawn) in self.sides.iter_mut().zip(&mut self.drawn) {
                    part.hyper = drawn.take().unwrap_or_else(|| panic!("a task of the step has not run"));
                }
                self.step = Some(Step::Rows(Side::Columns));
                Side::BOTH.map(Item::Hyperparameters).to_vec()
            }
            Some(Step::Rows(side)) => {
                let next = match side {
                    Side::Columns => Step::Rows(Side::Rows),
                    Side::Rows => Step::Predict,
                };
                self.step = Some(next);
                self.part(side).rows.clone().map(|row| Item::Row(side, row)).collect()
            }
            Some(Step::Predict) => {
                self.add_up();
                self.begin_iteration();
                let of = |side| self.cover(side).map(move |node| Item::Statistics(side, node));
                Side::BOTH.into_iter().flat_map(of).collect()
            }
        };
        Produced { items, clock }
    }

    /// Sums over training entries and over the held-out entries of `held`, by node of a fixed tree.
    /// [`Model::total`] adds up the sums of all blocks. The errors of training entries are those of the last
    /// iteration.
    pub fn sums(&self, held: Option<Held>) -> Vec<(u32, Sums)> {
        let (model, part) = (&self.model, self.part(Side::Rows));
        let data = model.side(Side::Rows);
        let outlook = Outlook::new(&model.config, model.mean, self.samples());
        let held = held.map(|held| (&model.held[held as usize], &self.predictions[held as usize]));
        let mut predictions = held.map_or(&[][..], |(_, predictions)| predictions);
        let of_leaf = |(leaf, loss): (u32, &f64)| {
            let rows = data.leaf(leaf);
            let examples = data.entries.places(rows.clone()).len() as f64;
            let mut sums = Sums { examples, loss: *loss, ..Sums::default() };
            if let Some((entries, _)) = held {
                let count = entries.places(rows.clone()).len();
                let of_leaf = predictions.split_off(..count).unwrap_or_default();
                let forecasts = tested(entries, rows).zip(of_leaf);
                forecasts.for_each(|(cell, of)| sums.add(&outlook.forecast(cell, of)));
            }
            sums
        };
        let leaves: Vec<Sums> = part.leaves.clone().zip(&self.losses).map(of_leaf).collect();
        let known = |node: u32| {
            let leaf = node.checked_sub(data.tree.leaves() + part.leaves.start)?;
            leaves.get(leaf as usize).copied()
        };
        self.cover(Side::Rows).filter_map(|node| Some((node, data.tree.sum(node, &known)?))).collect()
    }

    /// The test entries of the block's rows, row by row.
    pub fn forecasts(&self) -> impl Iterator<Item = Forecast> {
        let outlook = Outlook::new(&self.model.config, self.model.mean, self.samples());
        let test = Held::Test as usize;
        let cells = tested(&self.model.held[test], self.part(Side::Rows).rows.clone());
        cells.zip(&self.predictions[test]).map(move |(cell, of)| outlook.forecast(cell, of))
    }

    /// Mean and variance of the block's rows of a side, over the samples after the burn-in. (A rotation of
    /// all rows of both sides turns a sample into an equivalent one. In a long chain, samples may slowly
    /// rotate.)
    pub fn posterior(&self, side: Side) -> Posterior {
        self.posterior_of(side, self.part(side).rows.clone())
    }

    /// The same for some of the block's rows.
    ///
    /// # Panics
    /// If a row is not the block's.
    pub fn posterior_of(&self, side: Side, rows: Range<u32>) -> Posterior {
        let (part, samples, rank) = (self.part(side), self.samples(), self.model.config.rank);
        let places =
            (rows.start - part.rows.start) as usize * rank..(rows.end - part.rows.start) as usize * rank;
        let variance = |squares: &f64| if samples > 1 { squares / f64::from(samples - 1) } else { 0.0 };
        let means = if samples > 0 { &part.means } else { &part.own };
        Posterior {
            first: rows.start,
            means: means[places.clone()].to_vec(),
            variances: part.squares[places].iter().map(variance).collect(),
        }
    }

    /// Samples of complete iterations after the burn-in.
    pub fn samples(&self) -> u32 {
        self.complete().saturating_sub(self.model.config.burn_in)
    }

    fn part(&self, side: Side) -> &Part {
        &self.sides[side as usize]
    }

    fn cover(&self, side: Side) -> impl Iterator<Item = u32> + use<> {
        self.model.side(side).tree.cover(self.part(side).leaves.clone()).into_iter()
    }

    fn begin_iteration(&mut self) {
        if self.iteration >= self.model.config.iterations {
            self.step = None;
            return;
        }
        self.iteration += 1;
        let draws = self.index == 0;
        self.step = Some(if draws { Step::Hyperparameters } else { Step::Rows(Side::Columns) });
    }

    /// Sums the statistics of the leaves.
    fn add_up(&mut self) {
        for side in Side::BOTH {
            let (tree, cover) = (self.model.side(side).tree, self.cover(side));
            let part = &mut self.sides[side as usize];
            let (first, moments) = (tree.leaves() + part.leaves.start, &part.moments);
            let of_leaf = |node: u32| moments.get(node.checked_sub(first)? as usize).cloned();
            part.known.extend(cover.filter_map(|node| Some((node, tree.sum(node, &of_leaf)?))));
        }
    }
}

/// The entries of some rows: row, column, centred value.
fn tested(entries: &Entries, rows: Range<u32>) -> impl Iterator<Item = (u32, u32, f64)> {
    rows.flat_map(|row| {
        let (columns, values) = entries.of(row);
        columns.iter().zip(values).map(move |(column, value)| (row, *column, *value))
    })
}

/// Takes the first `len` elements off a slice.
fn split<'a, T>(rest: &mut &'a mut [T], len: usize) -> &'a mut [T] {
    rest.split_off_mut(..len).unwrap_or_default()
}

/// A part of a step; parts of a step are independent of each other.
#[derive(Debug)]
pub struct Task<'a>(Kind<'a>);

#[derive(Debug)]
enum Kind<'a> {
    Hyper {
        model: &'a Model,
        side: Side,
        iteration: u32,
        moments: Moments,
        drawn: &'a mut Option<Hyper>,
    },
    Rows(RowsTask<'a>),
    Predict {
        entries: &'a Entries,
        rows: Range<u32>,
        u: View<'a>,
        v: View<'a>,
        samples: u32,
        predictions: &'a mut [Prediction],
    },
}

/// The rows of a leaf.
#[derive(Debug)]
struct RowsTask<'a> {
    model: &'a Model,
    side: Side,
    iteration: u32,
    samples: u32,
    rows: Range<u32>,
    hyper: &'a Hyper,
    other: View<'a>,
    own: &'a mut [f64],
    means: &'a mut [f64],
    squares: &'a mut [f64],
    moments: &'a mut Moments,
    loss: Option<&'a mut f64>,
}

impl Task<'_> {
    /// Runs the task.
    ///
    /// # Errors
    /// [`BpmfError::Diverged`].
    pub fn run(self, scratch: &mut Scratch) -> Result<(), BpmfError> {
        let arch = scratch.arch;
        arch.dispatch(Compiled(self.0, scratch))
    }
}

/// A task, compiled for the processor at hand. (A closure would not work: the compiler inlines callees into
/// the closure, but not the closure into the code that is compiled for a processor.)
struct Compiled<'a, 'b>(Kind<'a>, &'b mut Scratch);

impl WithSimd for Compiled<'_, '_> {
    type Output = Result<(), BpmfError>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Self::Output {
        let Self(kind, scratch) = self;
        match kind {
            Kind::Hyper { model, side, iteration, moments, drawn } => {
                let config = &model.config;
                let mut random = generator(config.seed, Use::Hyperparameters, side, iteration, 0);
                let prior = Prior { beta: config.beta, nu: config.degrees() };
                let found = hyper::draw(prior, &moments, config.rank, &mut random);
                let diverged = |_| BpmfError::Diverged { side, what: What::Hyperparameters, iteration };
                *drawn = Some(found.map_err(diverged)?);
                Ok(())
            }
            Kind::Rows(task) => task.run(scratch),
            Kind::Predict { entries, rows, u, v, samples, predictions } => {
                for ((row, column, _), prediction) in tested(entries, rows).zip(predictions) {
                    let product = crate::linalg::dot(u.row(row), v.row(column));
                    prediction.current = product;
                    if samples > 0 {
                        average(&mut prediction.mean, &mut prediction.squares, product, samples.into());
                    }
                }
                Ok(())
            }
        }
    }
}

/// Computes the statistics of a block's leaves from its rows.
struct Measure<'a>(&'a mut Block);

impl WithSimd for Measure<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Self::Output {
        let Block { model, sides, .. } = self.0;
        let (rank, mut scratch) = (model.config.rank, Vec::new());
        for side in Side::BOTH {
            let (data, part) = (model.side(side), &mut sides[side as usize]);
            for (leaf, moments) in part.leaves.clone().zip(&mut part.moments) {
                let rows = data.leaf(leaf);
                let from = (rows.start - part.rows.start) as usize * rank;
                moments.measure(data.entries.of_trained(rows, &part.own[from..], rank), rank, &mut scratch);
            }
        }
    }
}

impl RowsTask<'_> {
    #[inline(always)]
    fn run(self, scratch: &mut Scratch) -> Result<(), BpmfError> {
        let (config, side, iteration) = (&self.model.config, self.side, self.iteration);
        let (rank, entries) = (config.rank, &self.model.side(side).entries);
        let (mut loss, rows) = (0.0, self.rows);
        for (row, out) in rows.clone().zip(self.own.chunks_exact_mut(rank)) {
            let mut random = generator(config.seed, Use::Row, side, iteration, row);
            let (others, values) = entries.of(row);
            row::draw(self.hyper, config.alpha, (others, values), self.other, &mut random, scratch, out)
                .map_err(|_| BpmfError::Diverged { side, what: What::Row(row), iteration })?;
            if self.loss.is_some() {
                for (other, value) in others.iter().zip(values) {
                    let error = value - crate::linalg::dot(out, self.other.row(*other));
                    loss = error.mul_add(error, loss);
                }
            }
        }
        if let Some(to) = self.loss {
            *to = loss;
        }
        self.moments.measure(entries.of_trained(rows, self.own, rank), rank, &mut scratch.rows);
        if self.samples > 0 {
            let samples = f64::from(self.samples);
            for ((value, mean), squares) in self.own.iter().zip(self.means).zip(self.squares) {
                average(mean, squares, *value, samples);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "block_tests.rs"]
mod tests;
