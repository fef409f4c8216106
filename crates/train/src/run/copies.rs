//! Copies of what nodes own, in the memory of other nodes, so that a run goes on when a node is lost
//! (`--copies`).
//!
//! At each cut, while the cluster rests, a node copies the values that it owns: a *part* of the cut. When
//! training goes on, its thread that writes also fetches the parts of the `k` nodes before it. When all nodes
//! have theirs, the cut is *settled*, and older ones are dropped. A view that follows begins with the newest
//! cut of which no part is missing: each node loads the values of its own keys from the parts that it holds,
//! and fetches the others.
//!
//! Parts are those of [`crate::run::cut`]; this module holds and moves them. [`crate::run::views`] says when.
//!
//! What travels: a request ([`Wanted`]) and pieces. A piece of a part is its number of keys (u32), the keys
//! (u64) and their rows, one after the other, little-endian.

use super::origin::RunState;
use crate::clock::now;
use crate::error::TrainError;
use hashbrown::HashMap;
use intendant::control::standby::{Holder, Pieces, Standby};
use intendant_core::{Element, Initialiser, Key, Layout, NodeId, copy_from_bytes, copy_to_bytes, lock};
use intendant_views::{CutName, Fetch, Missing, Next, Process, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

/// Replicated keys that are listed in a request, at most.
const LISTED_MAX: usize = 1 << 16;

/// Keys that are looked at for a piece, at most: others wait for their answers meanwhile.
const LOOKED_AT_MAX: usize = 1 << 17;

/// Bytes of rows in a piece, about.
const PIECE_BYTES: usize = 1 << 20;

/// The rows that a node owned at a cut.
#[derive(Debug)]
pub(crate) struct Part<E> {
    keys: Vec<Key>,
    values: Vec<E>,
}

impl<E: Element> Part<E> {
    pub(crate) const fn new() -> Self {
        Self { keys: Vec::new(), values: Vec::new() }
    }

    /// Adds keys and their rows, concatenated.
    pub(crate) fn add(&mut self, keys: &[Key], values: &[E]) {
        self.keys.extend_from_slice(keys);
        self.values.extend_from_slice(values);
    }

    /// The keys, and where their rows are.
    fn rows<'a>(&'a self, layout: &'a Layout) -> impl Iterator<Item = (Key, Range<usize>)> + 'a {
        let mut at = 0;
        self.keys.iter().map(move |key| {
            let row = at..at + layout.len(*key);
            at = row.end;
            (*key, row)
        })
    }
}

/// What this node holds.
type Holdings<E> = intendant_views::Holdings<Arc<Part<E>>, Arc<RunState>>;

/// What another node asks for.
#[derive(Debug, Serialize, Deserialize)]
enum Wanted {
    /// What was trained until a cut.
    State(CutName),
    /// A part of a cut, or some of its keys.
    Part { cut: CutName, part: usize, only: Option<Needed> },
}

/// The keys that a node needs at the start.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Needed {
    /// Those whose home is node `rank` of the nodes with these names,
    rank: u16,
    names: Vec<u64>,
    /// and these.
    replicated: BTreeSet<u64>,
}

impl Needed {
    fn filter<'a>(&'a self, layout: &'a Layout) -> impl Fn(Key) -> bool + 'a {
        move |key| layout.home(key) == NodeId(self.rank) || self.replicated.contains(&key.0)
    }
}

/// The copies that a node holds.
pub(crate) struct Copies<E> {
    held: Arc<Held<E>>,
    standby: Arc<Standby>,
    /// Parts of other nodes that each node holds.
    count: usize,
    starting: Mutex<Option<Starting>>,
}

/// Processes were asked for.
#[derive(Clone, Copy, Debug)]
struct Starting {
    /// So many nodes the run will have with them.
    nodes: usize,
    since: Instant,
}

impl Starting {
    /// How many processes a run with `nodes` nodes lacks that is to have `wanted`. Those that were asked for
    /// `before` and have not joined are not asked for again for a while.
    fn missing(before: Option<Self>, wanted: usize, nodes: usize, now: Instant) -> usize {
        let starting = before.filter(|starting| now - starting.since < START);
        wanted.saturating_sub(starting.map_or(nodes, |starting| starting.nodes.max(nodes)))
    }
}

/// A process that was asked for and has not joined for so long is not expected any more.
const START: Duration = Duration::from_secs(60);

struct Held<E> {
    layout: Layout,
    cuts: Mutex<Holdings<E>>,
}

impl<E: Element> Copies<E> {
    /// None yet, of a model with this layout; `standby` answers others from now on.
    #[inline(never)]
    pub(crate) fn new(layout: Layout, standby: Arc<Standby>, count: usize) -> Self {
        let held = Arc::new(Held { layout, cuts: Mutex::default() });
        standby.hold(Arc::clone(&held) as Arc<dyn Holder>);
        Self { held, standby, count, starting: Mutex::default() }
    }

    /// How many of the nodes stay, if another number of nodes was asked for, or processes want to join; to be
    /// called at node 0. Processes that are missing are asked for.
    pub(crate) fn asked(&self, nodes: usize) -> Option<u16> {
        let wanted = self.standby.take_wanted();
        let mut starting = lock(&self.starting);
        // They have come, or are not wanted any more.
        let is_fewer = wanted.is_some_and(|wanted| usize::from(wanted) < nodes);
        starting.take_if(|starting| is_fewer || nodes >= starting.nodes);
        let missing = wanted.map_or(0, |wanted| Starting::missing(*starting, wanted.into(), nodes, now()));
        let address = self.standby.process().address;
        if let Some(wanted) = wanted.filter(|wanted| missing == 0 && usize::from(*wanted) > nodes) {
            tracing::info!("{wanted} nodes are asked for, and that many are starting already");
        }
        let starts = (0..missing).all(|_| intendant::launch::ask_for_another(address.port()));
        if let Some(wanted) = wanted.filter(|_| missing > 0 && starts) {
            *starting = Some(Starting { nodes: wanted.into(), since: now() });
        }
        if !starts {
            tracing::warn!(
                "{missing} more nodes are asked for, and this run's launcher starts none: start the program with --join \
                 {address} {missing} times"
            );
        }
        let fewer = wanted.filter(|wanted| usize::from(*wanted) < nodes && *wanted > 0);
        fewer.or_else(|| (self.standby.joining() > 0).then(|| u16::try_from(nodes).unwrap_or(u16::MAX)))
    }

    /// This node has copied its part of a cut.
    pub(crate) fn publish(&self, name: CutName, place: (usize, usize), part: Part<E>) {
        lock(&self.held.cuts).publish(name, place, Arc::new(part));
    }

    /// All nodes have copied their parts; this was trained until then.
    pub(crate) fn copied(&self, name: CutName, state: RunState) {
        lock(&self.held.cuts).copied(name, Arc::new(state));
        self.tell();
    }

    /// Fetches the parts of the nodes before this one.
    ///
    /// # Errors
    /// A sentence that says which part is missing.
    pub(crate) fn fetch(&self, name: CutName, view: &View, rank: usize) -> Result<(), String> {
        let keep = |part, content| lock(&self.held.cuts).add(name, part, content);
        let held = intendant_views::hold(&mut Others::all(self), name, (view, rank, self.count), keep);
        held.map_err(|missing| format!("cannot copy {}", describe(&missing)))?;
        self.tell();
        Ok(())
    }

    /// All nodes hold what they should of a cut: older ones are not needed any more.
    pub(crate) fn settle(&self, name: CutName) {
        lock(&self.held.cuts).settle(name);
        self.tell();
        self.standby.settle(name.view);
    }

    /// A cut is given up.
    pub(crate) fn forget(&self, name: CutName) {
        lock(&self.held.cuts).forget(name);
        self.tell();
    }

    /// Tells what this node holds to those who ask.
    fn tell(&self) {
        let held = lock(&self.held.cuts).held();
        self.standby.holds(held);
    }

    /// Loads what node `rank` of a view needs at the start: what was trained until the cut at which the view
    /// begins, and the values of the keys whose home the node is, and of those that all nodes have.
    ///
    /// # Errors
    /// If a process that holds a part is lost meanwhile.
    #[inline(never)]
    pub(crate) fn load(
        &self,
        (next, cut): (&Next, CutName),
        rank: usize,
        layout: &Layout,
        replicated: BTreeSet<u64>,
    ) -> Result<(RunState, Table<E>), TrainError> {
        let needed = Needed { rank: rank as u16, names: layout.names().to_vec(), replicated };
        let is_needed = needed.filter(layout);
        let mut table = Table { index: HashMap::default(), parts: Vec::new() };
        // A long list takes as long as what it leaves out.
        let only = (needed.replicated.len() <= LISTED_MAX).then(|| needed.clone());
        // Others are answered while this node fetches.
        let holdings = lock(&self.held.cuts).clone();
        let keep = |_, part| table.add(part, layout, &is_needed);
        let loaded =
            intendant_views::load(&mut Others { copies: self, only }, &holdings, (next, cut, rank), keep);
        let state =
            loaded.map_err(|missing| TrainError::Unloaded(format!("cannot fetch {}", describe(&missing))))?;
        let expected = (0..layout.keys()).filter(|key| is_needed(Key(*key))).count();
        if table.index.len() < expected {
            let missing = expected - table.index.len();
            return Err(TrainError::Stopped(format!(
                "{missing} keys of node {rank} are in no part of cut {} of view {}",
                cut.number, cut.view
            )));
        }
        Ok(((*state).clone(), table))
    }
}

/// The other processes, which send what they hold.
struct Others<'a, E> {
    copies: &'a Copies<E>,
    /// The keys of parts that are needed; all if `None`.
    only: Option<Needed>,
}

impl<'a, E> Others<'a, E> {
    const fn all(copies: &'a Copies<E>) -> Self {
        Self { copies, only: None }
    }
}

impl<E: Element> Fetch for Others<'_, E> {
    type Part = Arc<Part<E>>;
    type State = Arc<RunState>;
    type Error = String;

    fn part(&mut self, from: Process, cut: CutName, part: usize) -> Result<Self::Part, String> {
        let wanted = Wanted::Part { cut, part, only: self.only.clone() };
        let (mut part, mut malformed) = (Part::new(), false);
        let layout = &self.copies.held.layout;
        self.fetch(from, &wanted, &mut |piece| malformed |= add_piece(&mut part, layout, piece).is_none())?;
        if malformed {
            Err(format!("{} sends rows that cannot be read", from.address))
        } else {
            Ok(Arc::new(part))
        }
    }

    fn state(&mut self, from: Process, cut: CutName) -> Result<Self::State, String> {
        let mut bytes = Vec::new();
        self.fetch(from, &Wanted::State(cut), &mut |piece| bytes.extend_from_slice(piece))?;
        let state = serde_json::from_slice(&bytes);
        state
            .map(Arc::new)
            .map_err(|error| format!("{} sends a state that cannot be read: {error}", from.address))
    }
}

impl<E: Element> Others<'_, E> {
    fn fetch(&self, from: Process, wanted: &Wanted, each: &mut dyn FnMut(&[u8])) -> Result<(), String> {
        let request = postcard::to_stdvec(wanted).expect("a request can be serialised");
        self.copies.standby.fetch(from.address, &request, each).map_err(|error| error.to_string())
    }
}

/// What is missing, and why, in words.
fn describe(missing: &Missing<String>) -> String {
    let what = match missing.part {
        Some(part) => format!("the values of node {part}"),
        None => "the state of the training".to_owned(),
    };
    match &missing.error {
        Some(error) => format!("{what}: {error}"),
        None => format!("{what}: no process holds it"),
    }
}

/// Adds the rows of a piece; `None` if it is malformed.
fn add_piece<E: Element>(part: &mut Part<E>, layout: &Layout, piece: &[u8]) -> Option<()> {
    let (count, rest) = piece.split_first_chunk::<4>()?;
    let (keys, rows) = rest.split_at_checked((u32::from_le_bytes(*count) as usize).checked_mul(8)?)?;
    let (keys, []) = keys.as_chunks::<8>() else { return None };
    let keys: Vec<Key> = keys.iter().map(|key| Key(u64::from_le_bytes(*key))).collect();
    if keys.iter().any(|key| !layout.contains(*key)) {
        return None;
    }
    let elements: usize = keys.iter().map(|key| layout.len(*key)).sum();
    if rows.len() != elements.checked_mul(size_of::<E>())? {
        return None;
    }
    let from = part.values.len();
    part.values.resize(from + elements, E::ZERO);
    copy_from_bytes(&mut part.values[from..], rows);
    part.keys.extend_from_slice(&keys);
    Some(())
}

/// The pieces of a part, made one by one.
struct Cutting<E> {
    part: Arc<Part<E>>,
    layout: Layout,
    only: Option<Needed>,
    /// The next key, and its row.
    next: usize,
    row: usize,
}

impl<E: Element> Iterator for Cutting<E> {
    type Item = bytes::Bytes;

    fn next(&mut self) -> Option<bytes::Bytes> {
        let (mut keys, mut rows) = (Vec::new(), Vec::new());
        let is_needed = self.only.as_ref().map(|needed| needed.filter(&self.layout));
        let until = self.next.saturating_add(LOOKED_AT_MAX);
        while let Some(key) = self.part.keys.get(self.next)
            && rows.len() < PIECE_BYTES
            && self.next < until
        {
            let row = self.row..self.row + self.layout.len(*key);
            (self.next, self.row) = (self.next + 1, row.end);
            if is_needed.as_ref().is_none_or(|is_needed| is_needed(*key)) {
                keys.push(*key);
                copy_to_bytes(&self.part.values[row], &mut rows);
            }
        }
        if keys.is_empty() && self.next == self.part.keys.len() {
            return None;
        }
        let mut piece = Vec::with_capacity(4 + 8 * keys.len() + rows.len());
        piece.extend((keys.len() as u32).to_le_bytes());
        keys.iter().for_each(|key| piece.extend(key.0.to_le_bytes()));
        piece.extend_from_slice(&rows);
        Some(piece.into())
    }
}

impl<E: Element> Holder for Held<E> {
    fn hold(&self, wanted: &[u8]) -> Result<Pieces, String> {
        let wanted: Wanted = postcard::from_bytes(wanted).map_err(|error| error.to_string())?;
        match wanted {
            Wanted::State(name) => {
                let state = lock(&self.cuts).state(name).cloned();
                let state = state.ok_or("this process does not know the cut")?;
                let state = serde_json::to_vec(&*state).map_err(|error| error.to_string())?;
                let pieces: Vec<bytes::Bytes> =
                    state.chunks(PIECE_BYTES).map(bytes::Bytes::copy_from_slice).collect();
                Ok(Box::new(pieces.into_iter()))
            }
            Wanted::Part { cut, part, only } => {
                let part = lock(&self.cuts).part(cut, part).cloned();
                let part = part.ok_or("this process does not hold that part")?;
                let layout = match &only {
                    Some(needed) => self.layout.over(&needed.names).map_err(|error| error.to_string())?,
                    None => self.layout.clone(),
                };
                Ok(Box::new(Cutting { part, layout, only, next: 0, row: 0 }))
            }
        }
    }
}

/// The rows with which a node begins.
#[derive(Debug)]
pub(crate) struct Table<E> {
    /// Per key, its part and where its row begins.
    index: HashMap<u64, (u32, usize), foldhash::fast::FixedState>,
    parts: Vec<Arc<Part<E>>>,
}

impl<E: Element> Table<E> {
    fn add(&mut self, part: Arc<Part<E>>, layout: &Layout, is_needed: impl Fn(Key) -> bool) {
        let number = self.parts.len() as u32;
        for (key, row) in part.rows(layout).filter(|(key, _)| is_needed(*key)) {
            self.index.insert(key.0, (number, row.start));
        }
        self.parts.push(part);
    }

    fn read(&self, key: Key, row: &mut [E]) -> bool {
        let Some((part, at)) = self.index.get(&key.0) else { return false };
        let values = &self.parts[*part as usize].values;
        row.copy_from_slice(&values[*at..*at + row.len()]);
        true
    }
}

/// A [`Table`] that is dropped when all values have been read from it.
pub(crate) type Loaded<E> = Arc<RwLock<Option<Table<E>>>>;

/// Initial values from a table. Keys that are not in it belong to other nodes.
pub(crate) fn init<E: Element>(loaded: &Loaded<E>, initial: &Initialiser<E>) -> Initialiser<E> {
    let (loaded, initial) = (Arc::clone(loaded), Arc::clone(initial));
    Arc::new(move |key: Key, row: &mut [E]| {
        let table = loaded.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !table.as_ref().is_some_and(|table| table.read(key, row)) {
            initial(key, row);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_are_starting_are_not_asked_for_again() {
        let start = now();
        let two_more = Some(Starting { nodes: 4, since: start });
        let missing = |wanted, nodes, seconds| {
            Starting::missing(two_more, wanted, nodes, start + Duration::from_secs(seconds))
        };
        assert_eq!(Starting::missing(None, 4, 2, start), 2);
        assert_eq!(missing(4, 2, 1), 0);
        assert_eq!(missing(4, 3, 1), 0, "one has joined");
        assert_eq!((missing(5, 2, 1), missing(3, 2, 1), missing(1, 2, 1)), (1, 0, 0));
        assert_eq!(missing(6, 5, 1), 1, "another one has joined");
        assert_eq!(missing(4, 2, 60), 2, "they have not come");
    }
}
