//! The scenario of a run: what is drawn from its seed.

use super::Mode;
use intendant_lapser::{Declaration, Item, Pace, Settings, Variant, Want};
use intendant_sim::onesided::OneSidedConfig;
use intendant_sim::{Dice, Network, Spread};

/// Slacks that are drawn: those of [Lapser §5].
pub(super) const SLACKS: [u64; 4] = [0, 1, 4, 8];

/// Longest value, in words: with its header, it takes nine lines.
const VALUE_WORDS_MAX: u64 = 64;

/// All parameters of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scenario {
    pub(super) seed: u64,
    pub(super) settings: Settings,
    pub(super) pace: Pace,
    pub(super) declarations: Vec<Declaration>,
    /// Workers of each node.
    pub(super) workers: usize,
    /// Iterations of each worker.
    pub(super) iterations: u64,
    /// How often an iteration sets an item: its clocks are that far apart.
    pub(super) sets: u64,
    /// Slack of all gets, if it is fixed.
    pub(super) slack: Option<u64>,
    pub(super) nodes: Vec<NodeScenario>,
    pub(super) network: OneSidedConfig,
    /// A node that dies, and when.
    pub(super) death: Option<(usize, u64)>,
    /// A node that gets values at the end that are never set.
    pub(super) beyond: Option<usize>,
    /// Whether it dies in the middle of an operation, if there is one soon.
    pub(super) inside: bool,
}

/// How the workers of a node behave.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NodeScenario {
    /// Whether an iteration begins with gets of the previous clock, instead of ending with gets of its own.
    pub(super) gets_first: bool,
    /// Calls outstanding at most.
    pub(super) outstanding: usize,
    /// One in so many items is got in an iteration.
    pub(super) gets_once_in: u64,
    /// One in so many gets is preceded by a prefetch; 0 if none is.
    pub(super) prefetches_once_in: u64,
    /// A worker's pause between calls.
    pub(super) pause: Spread,
    /// How long a set takes until it is visible.
    pub(super) set: Spread,
    /// Whether a worker sets its items in a batch.
    pub(super) batches: bool,
}

impl Scenario {
    pub(super) fn draw(mode: &Mode, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let dice = &mut dice;
        let nodes = mode.nodes.unwrap_or_else(|| dice.between(2, 9) as usize);
        let variant =
            mode.variant.unwrap_or_else(|| dice.pick(&[Variant::Push, Variant::PushBySlack, Variant::Pull]));
        let settings =
            Settings { variant, hints: dice.pick(&[1, 2, 3, 1 << 15]), head_words: dice.pick(&[0, 8, 64]) };
        let workers = dice.between(1, 2) as usize;
        let declarations = draw_declarations(dice, nodes, mode.slack);
        let items: usize = declarations.iter().map(|d| d.produce.len() + d.consume.len() * workers).sum();
        // Half of what is declared is got in an iteration, about.
        let iterations = (mode.calls / (items as u64 / 2).max(1)).clamp(3, 40);
        let faults = mode.faults.unwrap_or_else(|| dice.once_in(2));
        let latency_ns = dice.pick(&[200, 2_000, 20_000]);
        let pause_ns = dice.pick(&[100, 2_000, 30_000]);
        let network = OneSidedConfig {
            network: Network {
                latency: Spread {
                    min_ns: latency_ns / 2,
                    max_ns: latency_ns * 2,
                    tail_once_in: dice.pick(&[0, 50]),
                },
                byte_ps: dice.pick(&[0, 143, 8_000]),
                frame_bytes: 58,
            },
            line: Spread::even(0, dice.pick(&[20, 500, 5_000])),
            hints_lost_once_in: if faults { dice.pick(&[0, 1, 2, 8]) } else { 0 },
            detect: Spread::even(latency_ns, latency_ns * 50),
            seed: dice.word(),
            trace: false,
        };
        let least_ns = dice.pick(&[0, 500, 5_000]);
        let pace = Pace {
            reread_ns_min: least_ns,
            reread_ns_max: least_ns.max(1) * dice.pick(&[1, 8, 64]),
            recheck_ns: dice.pick(&[2_000, 20_000, 200_000]),
            torn_reads_max: 1_000,
        };
        let mut own: Vec<_> = (0..nodes).map(|_| NodeScenario::draw(dice, pause_ns)).collect();
        let sets = dice.pick(&[1, 1, 2]);
        if sets > 1 {
            // The next set of an item may not begin while one waits.
            own.iter_mut().for_each(|node| node.outstanding = 1);
        }
        let span_ns = iterations * (items as u64).max(1) * (pause_ns + latency_ns) / nodes as u64;
        let death = (faults && dice.once_in(2))
            .then(|| (dice.below(nodes as u64) as usize, dice.between(0, span_ns)));
        Self {
            seed,
            settings,
            pace,
            declarations,
            workers,
            iterations,
            sets,
            slack: mode.slack,
            nodes: own,
            network,
            death,
            inside: dice.once_in(2),
            // One only: two would wait for each other to finish.
            beyond: dice.once_in(3).then(|| dice.below(nodes as u64) as usize),
        }
    }
}

impl NodeScenario {
    fn draw(dice: &mut Dice, pause_ns: u64) -> Self {
        // Some nodes are slower than others.
        let pause_ns = pause_ns * dice.pick(&[1, 1, 1, 4]);
        let set_ns = dice.pick(&[50, 1_000, 10_000]);
        Self {
            gets_first: dice.once_in(2),
            outstanding: dice.between(1, 4) as usize,
            gets_once_in: dice.pick(&[1, 1, 2, 4]),
            prefetches_once_in: dice.pick(&[0, 2, 8]),
            pause: Spread { min_ns: 0, max_ns: pause_ns, tail_once_in: 20 },
            set: Spread::even(set_ns / 4, set_ns),
            batches: dice.once_in(2),
        }
    }
}

/// Random items with random consumers. Some declarations name items that the node produces itself, and some
/// name items twice.
fn draw_declarations(dice: &mut Dice, nodes: usize, slack: Option<u64>) -> Vec<Declaration> {
    let items = dice.between(1, 3 * nodes as u64);
    let words_max = dice.pick(&[4, 12, VALUE_WORDS_MAX]);
    let shared = dice.pick(&[1, 2, 4]);
    let mut declarations: Vec<Declaration> =
        (0..nodes).map(|_| Declaration { incarnation: dice.word(), ..Declaration::default() }).collect();
    for number in 0..items {
        // Keys are neither dense nor in the order of the producers.
        let item =
            Item::new(number.wrapping_mul(0x9e37_79b9) % 1_000_003, dice.between(1, words_max) as usize);
        let producer = dice.below(nodes as u64) as usize;
        declarations[producer].produce.push(item);
        for declared in &mut declarations {
            let slack = slack.unwrap_or_else(|| dice.pick(&SLACKS));
            if dice.once_in(shared) {
                declared.consume.push(Want { item, slack });
            }
            if dice.once_in(8) {
                declared.consume.push(Want { item, slack });
            }
        }
    }
    declarations
}
