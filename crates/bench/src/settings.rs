//! The meaning of the command line for its mode: defaults, and the refusal of what makes no sense there.

use crate::args::{Access, Args, Cores, Dist, Limit, Mode, Op};
use crate::error::BenchError;
use intendant::{ElementType, Initiator, Technique, Transport};
use std::path::PathBuf;
use std::time::Duration;

/// Everything that a measurement needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) mode: Mode,
    pub(crate) ops: Vec<Op>,
    pub(crate) len: usize,
    pub(crate) batch: usize,
    pub(crate) threads: usize,
    pub(crate) keys: u64,
    pub(crate) dist: Dist,
    pub(crate) limit: Limit,
    pub(crate) access: Access,
    pub(crate) technique: Technique,
    pub(crate) float: ElementType,
    /// Calls under way at the same time; 1 means one synchronous call after the other.
    pub(crate) in_flight: usize,
    pub(crate) transport: Transport,
    /// Whether nodes read in each other's windows.
    pub(crate) windows: bool,
    pub(crate) cores: Cores,
    pub(crate) seconds: f64,
    pub(crate) rounds: usize,
    pub(crate) json: Option<PathBuf>,
    pub(crate) resident: Option<u64>,
    /// Options that were given, although the mode does not use them.
    pub(crate) unused: Vec<&'static str>,
}

/// Bytes of values beyond which a setting is taken for a mistake.
const MODEL_BYTES_MAX: u64 = 1 << 40;

impl Settings {
    /// Interprets the command line. Options that were not given have the defaults of the mode.
    ///
    /// # Errors
    /// If the mode cannot measure what was asked for.
    pub(crate) fn new(args: Args) -> Result<Self, BenchError> {
        use Mode::{Idle, Intent, Local, Memory, Relocate, Remote, Sample, Sync, Window};
        let mode = args.mode;
        let access = args.local_access.unwrap_or(Access::Shared);
        // With `ipc`, mode local is the same measurement, of keys that the user calls local.
        let as_remote = mode == Remote || mode == Local && access == Access::Ipc;
        let unused = [
            ("--op", args.op.is_some(), matches!(mode, Local | Remote | Window)),
            ("--batch", args.batch.is_some(), mode != Memory),
            ("--dist", args.dist.is_some(), !matches!(mode, Memory | Relocate)),
            ("--limit", args.limit.is_some(), mode == Local && !as_remote),
            ("--local-access", args.local_access.is_some(), mode == Local),
            ("--in-flight", args.in_flight.is_some(), matches!(mode, Remote | Relocate)),
            ("--windows", args.windows, mode == Remote),
            ("--transport", args.transport.is_some(), as_remote || !matches!(mode, Local | Memory | Sample)),
        ];
        let unused = unused.into_iter().filter(|(_, given, used)| *given && !used).map(|(option, ..)| option);
        let threads = args.threads.unwrap_or(1) as usize;
        if threads > 1 && (as_remote || !matches!(mode, Local | Sample)) {
            return Err(BenchError::Usage(format!(
                "mode {} measures one worker per node, not --threads {threads}; local in one process and sample take more",
                mode.name()
            )));
        }
        let technique = args.technique.unwrap_or(match mode {
            Local | Remote | Memory | Window => Technique::Classic,
            Relocate | Sample => Technique::Lapse,
            Sync => Technique::FullReplication,
            Intent | Idle => Technique::Adaptive,
        });
        check_technique(if as_remote { Remote } else { mode }, technique)?;
        let batch = args.batch.unwrap_or(128) as usize;
        let settings = Self {
            mode,
            ops: args.op.map_or(vec![Op::Pull, Op::Push], |op| vec![op]),
            len: args.len.unwrap_or(if matches!(mode, Memory | Window) { 16 } else { 128 }) as usize,
            batch,
            threads,
            keys: args.keys.unwrap_or(match mode {
                Memory => 4_000_000,
                // The values fit into the nearest cache: a slower memory would hide the difference.
                Window => 128,
                Local | Remote | Relocate | Sync | Intent | Idle | Sample => 100_000,
            }),
            dist: args.dist.unwrap_or(Dist::Uniform),
            limit: args.limit.unwrap_or(Limit::Plain),
            access: if mode == Local { access } else { Access::Shared },
            technique,
            float: args.float,
            in_flight: match args.in_flight {
                _ if mode == Local => 1,
                None if mode == Remote && batch == 1 => 1,
                given => given.unwrap_or(8) as usize,
            },
            transport: args.transport.unwrap_or_default(),
            windows: args.windows && mode == Remote,
            cores: args.cores,
            seconds: args.seconds,
            rounds: args.rounds as usize,
            json: args.json,
            resident: args.resident,
            unused: unused.collect(),
        };
        settings.check_sizes()?;
        Ok(settings)
    }

    fn check_sizes(&self) -> Result<(), BenchError> {
        let Self { mode, keys, len, batch, .. } = self;
        if keys.saturating_mul(self.value_bytes() as u64) > MODEL_BYTES_MAX {
            return Err(BenchError::Usage(format!(
                "--keys {keys} --len {len}: values of more than {MODEL_BYTES_MAX} bytes; ask for fewer or shorter ones"
            )));
        }
        let least = match mode {
            // The nodes exchange at least a batch each, or each node adds to a batch of different keys.
            Mode::Relocate => 2 * *batch as u64,
            Mode::Sync => *batch as u64,
            // Two sizes, one four times the other.
            Mode::Memory => 4,
            // Some keys must be at home on either node.
            Mode::Remote | Mode::Intent | Mode::Idle => 16,
            Mode::Local if self.access == Access::Ipc => 16,
            Mode::Local | Mode::Sample | Mode::Window => 1,
        };
        if *keys < least {
            let mode = mode.name();
            return Err(BenchError::Usage(format!(
                "mode {mode} with --batch {batch} needs a model of at least {least} keys; --keys is {keys}"
            )));
        }
        Ok(())
    }

    /// Bytes of a value.
    pub(crate) fn value_bytes(&self) -> usize {
        self.len
            * match self.float {
                ElementType::F32 => size_of::<f32>(),
                ElementType::F64 => size_of::<f64>(),
            }
    }

    /// The time of one turn, of the limit or of the measurement. There are two turns in each round, and one
    /// more round to warm up.
    pub(crate) fn turn(&self) -> Duration {
        Duration::from_secs_f64(self.seconds / (2 * (self.rounds + 1)) as f64)
    }
}

/// Checks that the technique does what the mode measures.
fn check_technique(mode: Mode, technique: Technique) -> Result<(), BenchError> {
    let does = |technique: &Technique| {
        let policy = technique.policy();
        match mode {
            Mode::Relocate => policy.relocation == Some(Initiator::Requester),
            Mode::Sync => policy.static_replicas.is_some(),
            Mode::Intent => policy.intents.is_some(),
            Mode::Remote => {
                policy.static_replicas.is_none() && !policy.replicas.is_some_and(|r| r.is_clocked())
            }
            Mode::Local | Mode::Idle | Mode::Memory | Mode::Sample | Mode::Window => true,
        }
    };
    if does(&technique) {
        return Ok(());
    }
    let what = match mode {
        Mode::Relocate => "move parameters on request",
        Mode::Sync => "have static replicas",
        Mode::Intent => "act on intents",
        Mode::Remote | Mode::Local | Mode::Idle | Mode::Memory | Mode::Sample | Mode::Window => {
            "ask the owner at every access"
        }
    };
    let others: Vec<_> =
        Technique::ALL.into_iter().filter(|t| does(t)).map(|technique| technique.to_string()).collect();
    Err(BenchError::Usage(format!(
        "mode {}: technique {technique} does not {what}; these do: {}",
        mode.name(),
        others.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn settings(line: &str) -> Result<Settings, BenchError> {
        Settings::new(Args::parse_from(std::iter::once("intendant-bench").chain(line.split(' '))))
    }

    #[test]
    fn modes_have_defaults_of_their_own() {
        let memory = settings("memory").expect("sensible");
        assert_eq!((memory.len, memory.keys), (16, 4_000_000));
        assert_eq!(settings("sync").expect("sensible").technique, Technique::FullReplication);
        assert_eq!(settings("remote --batch 1").expect("sensible").in_flight, 1);
        assert_eq!(settings("remote --batch 1 --in-flight 3").expect("sensible").in_flight, 3);
        assert_eq!(settings("remote").expect("sensible").in_flight, 8);
        let local = settings("local --local-access ipc").expect("sensible");
        assert_eq!((local.access, local.in_flight, local.batch), (Access::Ipc, 1, 128));
    }

    #[test]
    fn what_a_mode_does_not_use_is_known() {
        assert_eq!(
            settings("memory --op pull --batch 3 --len 4").expect("sensible").unused,
            ["--op", "--batch"]
        );
        let unused = |line| settings(line).expect("sensible").unused;
        assert_eq!(unused("remote --local-access queue"), ["--local-access"]);
        assert_eq!(unused("local --local-access ipc --limit plain --transport tcp"), ["--limit"]);
        assert_eq!(unused("local --local-access queue --limit plain --transport tcp"), ["--transport"]);
        assert!(
            settings("remote --op pull --batch 3 --dist zipf --in-flight 2")
                .expect("sensible")
                .unused
                .is_empty()
        );
    }

    #[test]
    fn what_a_mode_cannot_measure_is_refused_by_name() {
        for (line, part) in [
            ("relocate --technique classic", "lapse"),
            ("local --local-access ipc --technique ssp", "classic"),
            ("local --local-access ipc --threads 2", "--threads 2"),
            ("local --local-access ipc --keys 15", "--keys is 15"),
            ("sync --technique lapse", "nups"),
            ("intent --technique ssp", "adaptive"),
            ("remote --technique full-replication", "classic"),
            ("remote --threads 2", "--threads 2"),
            ("relocate --keys 255", "--keys is 255"),
            ("memory --keys 4294967296 --len 100000", "--len 100000"),
        ] {
            let error = settings(line).expect_err(line);
            assert!(error.to_string().contains(part), "{line}: {error}");
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }
}
