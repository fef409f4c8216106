//! Allocation over time, at the width of a picture: changes within a pixel are summarised.

use super::Allocation;
use crate::track::{Track, owner_of, switch_of};
use serde::Serialize;

/// A window of time, and how many pixels it is wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Window {
    from_us: u64,
    to_us: u64,
    pixels: u32,
}

impl Window {
    /// The width of the widest picture that is drawn.
    pub const PIXELS_MAX: u32 = 1 << 14;

    /// The time from `from_us` to `to_us`, at least a microsecond, in 1 to [`Window::PIXELS_MAX`] pixels.
    #[must_use]
    pub fn new(from_us: u64, to_us: u64, pixels: u32) -> Self {
        Self {
            from_us,
            to_us: to_us.max(from_us.saturating_add(1)),
            pixels: pixels.clamp(1, Self::PIXELS_MAX),
        }
    }

    /// Its beginning, in microseconds.
    #[must_use]
    pub fn from_us(&self) -> u64 {
        self.from_us
    }

    /// Its end, in microseconds.
    #[must_use]
    pub fn to_us(&self) -> u64 {
        self.to_us
    }

    /// Its width.
    #[must_use]
    pub fn pixels(&self) -> u32 {
        self.pixels
    }

    /// The exact position of a time, in parts of pixels: a pixel has as many parts as the window has
    /// microseconds.
    fn position(&self, at_us: u64) -> u128 {
        let at = at_us.clamp(self.from_us, self.to_us) - self.from_us;
        u128::from(at) * u128::from(self.pixels)
    }

    fn parts(&self) -> u128 {
        u128::from(self.to_us - self.from_us)
    }

    /// The pixel of a time. The end of the window belongs to the last pixel.
    #[must_use]
    pub fn pixel(&self, at_us: u64) -> u32 {
        ((self.position(at_us) / self.parts()) as u32).min(self.pixels - 1)
    }

    /// The pixel of the moment just before a time.
    fn pixel_before(&self, at_us: u64) -> u32 {
        (self.position(at_us).saturating_sub(1) / self.parts()) as u32
    }
}

/// Neighbouring pixels of a row that show the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stretch {
    /// The first pixel.
    pub from: u32,
    /// The pixel after the last.
    pub to: u32,
    /// What they show.
    pub value: i32,
}

/// The value of a pixel in which a key is on its way most of the time.
pub const MOVING: i32 = -1;
/// The value of a pixel in which the owner of a key is not known most of the time.
pub const UNKNOWN: i32 = -2;

/// Allocation of a key over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The key.
    pub key: u64,
    /// The node that owns the key for the longest part of each pixel, [`MOVING`] or [`UNKNOWN`].
    pub owners: Vec<Stretch>,
    /// The most nodes that hold a replica at any moment of each pixel; stretches without replicas are left
    /// out.
    pub replicas: Vec<Stretch>,
}

/// Management of a key at a node, over time. The values of stretches are 1; other stretches are left out. A
/// state that holds at any moment of a pixel is shown for the whole pixel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeRow {
    /// The node.
    pub node: u16,
    /// When it owns the key.
    pub owner: Vec<Stretch>,
    /// When it holds a replica.
    pub replica: Vec<Stretch>,
    /// When it has active intent.
    pub intent: Vec<Stretch>,
}

impl Allocation {
    /// Allocation of keys over time.
    #[must_use]
    pub fn rows(&self, keys: &[u64], window: Window) -> Vec<Row> {
        keys.iter().map(|key| self.row(*key, window)).collect()
    }

    fn row(&self, key: u64, window: Window) -> Row {
        let position = self.position(key);
        let owner = |code: Option<u16>| match code {
            None => self.run().home(key).map_or(UNKNOWN, i32::from),
            Some(code) => owner_of(code).map_or(MOVING, i32::from),
        };
        let mut longest = Longest::new(window);
        let (times, codes) = position.map_or((&[][..], &[][..]), |at| self.owners.of(at));
        // Of the changes before the window, only the last one matters.
        let first = times.partition_point(|at| *at <= window.from_us);
        let (mut now, mut since) = (owner(first.checked_sub(1).map(|last| codes[last])), window.from_us);
        for (at, code) in times[first..].iter().zip(&codes[first..]) {
            if *at >= window.to_us {
                break;
            }
            longest.add(since, *at, now);
            (now, since) = (owner(Some(*code)), *at);
        }
        longest.add(since, window.to_us, now);
        let replicas = if self.run().is_static_replica(key) {
            let others = i32::from(self.run().header().nodes) - 1;
            whole(window, others)
        } else {
            position.map_or_else(Vec::new, |at| most(&self.replicas, at, window))
        };
        Row { key, owners: stretches(&longest.cells, None), replicas }
    }

    /// Management of a key at each node, over time.
    #[must_use]
    pub fn node_rows(&self, key: u64, window: Window) -> Vec<NodeRow> {
        let (nodes, home) = (self.run().header().nodes, self.run().home(key));
        let is_static = self.run().is_static_replica(key);
        let mut rows: Vec<[Vec<i32>; 3]> = (0..nodes).map(|_| std::array::from_fn(|_| Vec::new())).collect();
        let mut mark = |node: u16, what: usize, from: u64, to: u64| {
            // A state that begins and ends at the same time is visible as well.
            let is_before = to < window.from_us || (to == window.from_us && from < to);
            if from >= window.to_us || is_before {
                return;
            }
            let Some(row) = rows.get_mut(usize::from(node)) else { return };
            row[what].resize(window.pixels as usize, 0);
            let first = window.pixel(from);
            row[what][first as usize..=window.pixel_before(to).max(first) as usize].fill(1);
        };
        let (times, codes) = self.position(key).map_or((&[][..], &[][..]), |at| self.owners.of(at));
        let (mut owner, mut since) = (home, 0);
        for (at, code) in times.iter().zip(codes) {
            if let Some(node) = owner {
                mark(node, 0, since, *at);
            }
            (owner, since) = (owner_of(*code), *at);
        }
        if let Some(node) = owner {
            mark(node, 0, since, u64::MAX);
        }
        for (what, track) in [(1, &self.replicas), (2, &self.intents)] {
            let (times, codes) = self.position(key).map_or((&[][..], &[][..]), |at| track.of(at));
            let mut since: Vec<Option<u64>> = vec![None; nodes.into()];
            for (at, code) in times.iter().zip(codes) {
                let (node, is_on) = switch_of(*code);
                let Some(before) = since.get_mut(usize::from(node)) else { continue };
                match before.take() {
                    Some(began) if !is_on => mark(node, what, began, *at),
                    Some(_) | None => *before = is_on.then_some(*at),
                }
            }
            for (node, began) in (0..nodes).zip(since) {
                if let Some(began) = began {
                    mark(node, what, began, u64::MAX);
                }
            }
        }
        if is_static {
            (0..nodes).filter(|node| Some(*node) != home).for_each(|node| mark(node, 1, 0, u64::MAX));
        }
        let row = |(node, [owner, replica, intent]): (u16, [Vec<i32>; 3])| NodeRow {
            node,
            owner: stretches(&owner, Some(0)),
            replica: stretches(&replica, Some(0)),
            intent: stretches(&intent, Some(0)),
        };
        (0..nodes).zip(rows).map(row).collect()
    }
}

/// Finds the value that holds for the longest part of each pixel.
struct Longest {
    window: Window,
    cells: Vec<i32>,
    /// For the current pixel: each value, and for how many parts of the pixel it held.
    tally: Vec<(i32, u128)>,
    pixel: u32,
}

impl Longest {
    fn new(window: Window) -> Self {
        Self { window, cells: vec![UNKNOWN; window.pixels as usize], tally: Vec::new(), pixel: 0 }
    }

    /// Adds that `value` holds from one time to another. Calls must be in the order of time.
    fn add(&mut self, from_us: u64, to_us: u64, value: i32) {
        let (mut from, to, parts) =
            (self.window.position(from_us), self.window.position(to_us), self.window.parts());
        while from < to {
            let pixel = (from / parts) as u32;
            if pixel != self.pixel {
                self.tally.clear();
                self.pixel = pixel;
            }
            let end = (u128::from(pixel) + 1) * parts;
            if from % parts == 0 && to >= end {
                // The value fills this pixel and those after it, up to `last`.
                let last = (to / parts) as usize;
                self.cells[pixel as usize..last].fill(value);
                from = last as u128 * parts;
                continue;
            }
            let share = end.min(to) - from;
            match self.tally.iter_mut().find(|(other, _)| *other == value) {
                Some((_, sum)) => *sum += share,
                None => self.tally.push((value, share)),
            }
            if let Some((longest, _)) = self.tally.iter().max_by_key(|(_, share)| *share) {
                self.cells[pixel as usize] = *longest;
            }
            from = end.min(to);
        }
    }
}

/// The most nodes whose switch is on at any moment of each pixel.
fn most(track: &Track, key: usize, window: Window) -> Vec<Stretch> {
    let (times, codes) = track.of(key);
    let mut cells = vec![0i32; window.pixels as usize];
    let (mut count, mut pixel) = (0i32, 0usize);
    for (at, code) in times.iter().zip(codes) {
        if *at >= window.to_us {
            break;
        }
        let here = window.pixel(*at) as usize;
        if *at > window.from_us && count > 0 {
            let last = window.pixel_before(*at) as usize;
            for cell in &mut cells[pixel..=last.max(pixel)] {
                *cell = (*cell).max(count);
            }
        }
        count += if switch_of(*code).1 { 1 } else { -1 };
        pixel = here;
        if *at >= window.from_us {
            cells[here] = cells[here].max(count);
        }
    }
    if count > 0 {
        for cell in &mut cells[pixel..] {
            *cell = (*cell).max(count);
        }
    }
    stretches(&cells, Some(0))
}

fn whole(window: Window, value: i32) -> Vec<Stretch> {
    let all = Stretch { from: 0, to: window.pixels, value };
    if value > 0 { vec![all] } else { Vec::new() }
}

/// Groups neighbouring cells that are equal; cells with the value `without` are left out.
fn stretches(cells: &[i32], without: Option<i32>) -> Vec<Stretch> {
    let mut found = Vec::new();
    let mut from = 0;
    for same in cells.chunk_by(|a, b| a == b) {
        let to = from + same.len() as u32;
        if Some(same[0]) != without {
            found.push(Stretch { from, to, value: same[0] });
        }
        from = to;
    }
    found
}
