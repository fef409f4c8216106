//! Random workloads: every seed is a cluster whose workers pull and push random keys, and whose values are
//! all checked.
//!
//! A [`Mode`] fixes what all runs of a set have in common, and [`Scenario::draw`] draws the rest from a seed.
//! [`run`] executes the scenario: workers make calls ([`program`](self)) and come to rest, one of them reads
//! a snapshot, and the checkers judge what the workers saw.

mod call;
mod failure;
mod mode;
mod program;
mod scenario;
mod tally;

pub use failure::Failure;
pub use mode::Mode;
pub(crate) use scenario::draw_delays;
pub use scenario::{IntentSettings, Scenario, Stop};

use crate::checker::{Checked, Checker};
use crate::history::Summary;
use crate::lanes;
use crate::registers::Registers;
use intendant_core::{Clock, Combine, Element, Key, Layout, Timing, copy_from_bytes};
use intendant_sampling::{Conformity, Distribution, Sampler, Scheme};
use intendant_sim::Violation;
use intendant_sim::cluster::{Caller, Cluster, ClusterConfig, Happened};
use intendant_sim::meeting::{Quiescence, Stream};
use intendant_sim::reach::{Marker, Reach};
use intendant_wire::SnapshotPart;
use program::Programs;
use std::sync::Arc;

/// Upper bound of events per call; the busiest runs need a twentieth of it.
const EVENTS_PER_CALL_MAX: u64 = 2_000;

/// Number of keys for which all workers signal a last intent.
const KEYS_AT_LAST: u64 = 4;

/// Duration for which an idle cluster is observed, ns.
const IDLE_NS: u64 = 10_000_000_000;

/// Result of one seed.
#[derive(Clone, Debug)]
pub struct Run {
    /// Numbers of checked operations, or the failure.
    pub result: Result<Summary, Failure>,
    /// Hash of all events and messages.
    pub hash: u64,
    /// Number of events.
    pub events: u64,
    /// Number of calls of all workers.
    pub calls: u64,
    /// Virtual time at the end, ns.
    pub virtual_ns: u64,
    /// Reach markers.
    pub reach: Reach,
    /// The readable trace; empty if it was not requested.
    pub trace: Vec<String>,
}

/// Two distributions that are drawn locally, over all keys and over some: no sample is drawn, but nodes must
/// know which keys they could draw.
fn samples(layout: &Layout) -> Sampler {
    let weights: Vec<f64> = (0..layout.keys().min(64)).map(|key| (key % 5) as f64).collect();
    let all = Distribution::uniform(0..layout.keys());
    let mut sampler = Sampler::builder();
    for distribution in [all, Distribution::weighted(Key(0), &weights)].into_iter().flatten() {
        let local = sampler.register_with(distribution, Conformity::Overall, Scheme::Local);
        local.expect("local samples have the right frequencies over all nodes");
    }
    sampler.build()
}

/// Runs one seed.
#[must_use]
pub fn run(mode: &Mode, seed: u64, trace: bool) -> Run {
    let scenario = Scenario::draw(mode, seed);
    if scenario.double { run_typed::<f64>(&scenario, trace) } else { run_typed::<f32>(&scenario, trace) }
}

fn run_typed<E: Element>(scenario: &Scenario, trace: bool) -> Run {
    let layout = scenario.layout();
    let (registers, initialised) = (scenario.registers(), scenario.clone());
    let config = ClusterConfig::<E> {
        layout: Arc::new(layout),
        init: Arc::new(move |key, value: &mut [E]| {
            value.fill(E::ZERO);
            let value = tally::visible_mut(initialised.rules.is_some(), value);
            let counted = value.len() - initialised.counted(value).len();
            let value = &mut value[counted..];
            if registers.contains(&key.0) { Registers::initial(value) } else { lanes::initial(key, value) }
        }),
        storage: scenario.storage,
        access: scenario.access,
        policy: scenario.policy,
        replication: scenario.replication.clone(),
        hosts: scenario.hosts,
        workers: scenario.workers,
        outstanding_bytes_max: scenario.outstanding_bytes_max,
        stale_hints: scenario.stale_hints,
        delays: scenario.delays,
        faults: scenario.faults.clone(),
        events_max: 10_000 + scenario.calls * EVENTS_PER_CALL_MAX,
        packing: scenario.packing,
        seed: scenario.seed,
        trace,
    };
    let sampler = samples(&config.layout);
    let checker = Checker::new(&config);
    let mut cluster = Cluster::with_probe(config, checker);
    cluster.nodes().iter().for_each(|node| node.keep_near(&sampler));
    cluster.note(|| format!("{scenario:?}"));
    let result = drive(&mut cluster, scenario);
    if scenario.double {
        cluster.reach().mark(Marker::DoublePrecision);
    }
    if scenario.combine == Combine::AdaGrad {
        cluster.reach().mark(Marker::Combined);
    }
    if scenario.is_rounded() {
        cluster.reach().mark(Marker::Rounded);
    }
    match scenario.rules {
        Some(Timing::Push) => cluster.reach().mark(Marker::Ruled),
        Some(Timing::Clock) => cluster.reach().mark(Marker::RuledAtClocks),
        None => {}
    }
    if !scenario.faults.is_none() {
        cluster.reach().mark(Marker::Faulty);
    }
    let trace = cluster.take_trace();
    Run {
        result,
        hash: cluster.hash(),
        events: cluster.events(),
        calls: scenario.calls,
        virtual_ns: cluster.now_ns(),
        reach: *cluster.reach(),
        trace,
    }
}

/// The phase of a run.
enum Phase {
    /// Workers make calls.
    Working,
    /// All workers have waited for their operations, and channel reports are collected. Afterwards workers
    /// continue, or the snapshot begins.
    Resting(Quiescence),
    /// Worker 0 reads a snapshot of all keys.
    Reading(Stream),
    Over,
}

fn drive<E: Element>(cluster: &mut Checked<E>, scenario: &Scenario) -> Result<Summary, Failure> {
    let mut programs = Programs::<E>::new(scenario, cluster);
    let mut phase = Phase::Working;
    while let Some(happened) = cluster.next()? {
        match happened {
            Happened::Internal => {}
            Happened::Loaded(worker) => programs.load(cluster, worker)?,
            Happened::Awake(worker) => programs.step(cluster, worker)?,
            Happened::Answered { worker, op, done } => {
                if done {
                    programs.answered(cluster, worker, op)?;
                }
            }
            Happened::Reported(report) => {
                if let Phase::Resting(quiescence) = &mut phase
                    && quiescence.reported(cluster, report)?
                {
                    programs.rested();
                    phase = if programs.stop().is_some() {
                        programs.resume_all(cluster);
                        Phase::Working
                    } else {
                        let keys = 0..cluster.layout().keys();
                        Phase::Reading(Stream::begin(cluster, 0, keys, scenario.snapshot_bytes_max))
                    };
                }
            }
            Happened::Part { part, .. } => {
                record_part(cluster, &mut programs, &part)?;
                if let Phase::Reading(stream) = &mut phase
                    && stream.part(cluster, &part)?
                {
                    phase = Phase::Over;
                }
            }
        }
        if matches!(phase, Phase::Working) && programs.all_wait() {
            match programs.stop() {
                Some(Stop::Meeting) => programs.resume_all(cluster),
                Some(Stop::Rest | Stop::Synchronisation) | None if cluster.pending_decisions() > 0 => {}
                Some(Stop::Rest | Stop::Synchronisation) | None => {
                    let mut quiescence = Quiescence::default();
                    quiescence.begin(cluster);
                    phase = Phase::Resting(quiescence);
                }
            }
        }
    }
    match phase {
        Phase::Over => {}
        Phase::Working => return Err(cluster.stuck(&programs.waiting()).into()),
        Phase::Resting(_) => return Err(cluster.stuck("the cluster has not come to rest").into()),
        Phase::Reading(_) => return Err(cluster.stuck("a part of the snapshot is missing").into()),
    }
    cluster.check_quiescent()?;
    if cluster.acts_on_intents() {
        check_wind_down(cluster, scenario)?;
    }
    programs.check()
}

/// Checks intents after the last call, when clocks no longer advance. First, channels must act on all
/// signalled intents and then fall asleep. Then all workers signal intents without end for the same keys,
/// which must wake the channels. At last all workers retire, and no intent may remain active.
fn check_wind_down<E: Element>(cluster: &mut Checked<E>, scenario: &Scenario) -> Result<(), Failure> {
    let run_to_rest = |cluster: &mut Checked<E>| {
        while cluster.next()?.is_some() {}
        // Copies that rounds alone have brought in step are rounded. Nodes that continue may act on intents
        // that were held at rest, after which nothing is left to act on.
        for _ in 0..if scenario.is_rounded() { 2 } else { 0 } {
            settle(cluster)?;
            (0..cluster.layout().nodes()).for_each(|node| cluster.resume(node));
            while cluster.next()?.is_some() {}
        }
        cluster.check_quiescent()?;
        cluster.idle(IDLE_NS)
    };
    run_to_rest(cluster)?;
    (0..cluster.layout().nodes()).for_each(|node| cluster.resume(node));
    run_to_rest(cluster)?;
    check_settled(cluster)?;
    let keys: Vec<Key> = (0..cluster.layout().keys().min(KEYS_AT_LAST)).map(Key).collect();
    for worker in 0..cluster.workers() {
        cluster.intend(worker, &keys, Clock(0)..Clock(u32::MAX), Caller::Loader)?;
    }
    run_to_rest(cluster)?;
    check_settled(cluster)?;
    (0..cluster.workers()).for_each(|worker| cluster.retire(worker));
    run_to_rest(cluster)?;
    Ok(check_settled(cluster)?)
}

/// Checks that channels have acted on all intents.
fn check_settled<E: Element>(cluster: &Checked<E>) -> Result<(), Violation> {
    cluster.probe().check_settled().map_err(|finding| cluster.violation(finding))
}

/// Brings all copies in step.
fn settle<E: Element>(cluster: &mut Checked<E>) -> Result<(), Violation> {
    let mut quiescence = Quiescence::default();
    quiescence.begin(cluster);
    while let Some(happened) = cluster.next()? {
        if let Happened::Reported(report) = happened
            && quiescence.reported(cluster, report)?
        {
            return Ok(());
        }
    }
    Err(cluster.stuck("the cluster has not come to rest"))
}

/// Records a part of the snapshot as final values.
fn record_part<E: Element>(
    cluster: &mut Checked<E>,
    programs: &mut Programs<E>,
    part: &SnapshotPart,
) -> Result<(), Failure> {
    let mut value = Vec::new();
    let mut at = 0;
    for key in &part.keys {
        value.resize(cluster.layout().len(*key), E::ZERO);
        let end = at + size_of_val(&value[..]);
        copy_from_bytes(&mut value, &part.values[at..end]);
        at = end;
        programs.record_final(cluster, *key, &value)?;
    }
    Ok(())
}
