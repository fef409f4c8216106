//! Checks whether a node fits into this machine, before it takes memory and starts threads.
//!
//! An allocation that fails aborts the process, and the kernel kills processes of a control group that is
//! full: neither message mentions the model. So a node first computes the minimum that it needs, and compares
//! it with the limits.
//!
//! The estimate is a lower bound: values, slots and stacks of threads. Buffers, the application's data and
//! values that move or are copied to this machine are not included. A node that passes can still fail; a node
//! that is refused could not have worked.

use intendant_core::{Element, Layout};
use intendant_engine::Storage;
use intendant_techniques::{Assignment, Policy, StaticReplicas};
use rustix::process::{Resource, getrlimit};
use std::fmt;
use std::path::Path;

/// Bytes of a slot of a dense store.
const SLOT_BYTES: u64 = 16;

/// Stack of a thread, unless RUST_MIN_STACK says otherwise.
const STACK_BYTES: u64 = 2 << 20;

/// The minimum that a node needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    /// Memory that is written at the start: values and slots.
    pub(crate) model_bytes: u64,
    /// Threads, each of which reserves a stack.
    pub(crate) threads: u64,
}

/// Why a node does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CapacityError {
    /// There is not enough memory for the values.
    #[error(
        "the model does not fit: it needs at least {} in {nodes} node(s) of this machine, but {limit} leaves \
         {}; use fewer or shorter values, more machines, or raise the limit",
        Bytes(*needed),
        Bytes(*available)
    )]
    Memory {
        /// Bytes that all nodes to which the limit applies need together.
        needed: u64,
        /// Number of these nodes.
        nodes: u64,
        /// The limit, e.g. "the free memory of this machine".
        limit: String,
        /// Bytes that it leaves.
        available: u64,
    },
    /// There are not enough threads, or not enough address space for their stacks.
    #[error("{threads} threads do not fit: {limit} leaves {available}; use fewer workers or raise the limit")]
    Threads {
        /// Threads of all nodes to which the limit applies.
        threads: u64,
        /// The limit.
        limit: String,
        /// What it leaves, with its unit.
        available: String,
    },
}

/// The resources that the operating system leaves; `None` if there is no limit or it is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Limits {
    /// Bytes that this process can still map: the tightest limit and its name.
    address_space: Option<(u64, &'static str)>,
    /// Memory that processes can still take, in bytes: the tightest limit and its name.
    memory: Option<(u64, String)>,
    /// Threads that processes can still start: the tightest limit and its name.
    threads: Option<(u64, &'static str)>,
}

impl Demand {
    /// The minimum that one node needs for its part of the model.
    pub(crate) fn new<E: Element>(
        layout: &Layout,
        storage: Storage,
        policy: &Policy,
        assignment: &Assignment,
        threads: u64,
    ) -> Self {
        let value_bytes = |len: usize| (len * size_of::<E>()) as u64;
        let nodes = layout.nodes() as u64;
        let mut model_bytes = 0;
        if storage == Storage::Dense {
            model_bytes = layout.keys().saturating_mul(SLOT_BYTES);
            for range in layout.ranges() {
                let keys = range.keys.end - range.keys.start;
                model_bytes += (keys / nodes).saturating_mul(value_bytes(range.len));
            }
        }
        // A static replica has a value and a base, the value that all nodes have in common.
        if nodes > 1 {
            let replica_bytes: u64 = match policy.static_replicas {
                Some(StaticReplicas::All) => layout
                    .ranges()
                    .iter()
                    .map(|range| (range.keys.end - range.keys.start).saturating_mul(value_bytes(range.len)))
                    .fold(0, u64::saturating_add),
                Some(StaticReplicas::Assigned) => assignment
                    .resolve(layout)
                    .iter()
                    .map(|key| value_bytes(layout.len(*key)))
                    .fold(0, u64::saturating_add),
                None => 0,
            };
            model_bytes = model_bytes.saturating_add(replica_bytes);
        }
        Self { model_bytes, threads }
    }

    /// Compares the demand with what this machine leaves to `here` nodes in this process and to `machine`
    /// nodes on this machine.
    ///
    /// # Errors
    /// If it does not fit.
    pub(crate) fn check(&self, here: u64, machine: u64) -> Result<(), CapacityError> {
        self.compare(here, machine, stack_bytes(), &Limits::of_this_process())
    }

    fn compare(&self, here: u64, machine: u64, stack: u64, limits: &Limits) -> Result<(), CapacityError> {
        let (model, threads) = (|nodes| self.model_bytes.saturating_mul(nodes), self.threads * here);
        if let Some((available, limit)) = limits.address_space {
            let needed = model(here);
            if needed > available {
                return Err(CapacityError::Memory {
                    needed,
                    nodes: here,
                    limit: limit.to_owned(),
                    available,
                });
            }
            let stacks = threads.saturating_mul(stack);
            if stacks > available - needed {
                let available = format!("{} for stacks of {}", Bytes(available - needed), Bytes(stack));
                return Err(CapacityError::Threads { threads, limit: limit.to_owned(), available });
            }
        }
        if let Some((available, limit)) = &limits.memory
            && model(machine) > *available
        {
            let (needed, limit, available) = (model(machine), limit.clone(), *available);
            return Err(CapacityError::Memory { needed, nodes: machine, limit, available });
        }
        match limits.threads {
            Some((available, limit)) if self.threads * machine > available => Err(CapacityError::Threads {
                threads: self.threads * machine,
                limit: limit.to_owned(),
                available: available.to_string(),
            }),
            Some(_) | None => Ok(()),
        }
    }
}

/// Checks that `bytes` of memory that this process will write, and `threads` threads, fit into the limits of
/// this machine. This is for programs that keep values outside of a [`crate::Node`]; a node checks its own
/// demand.
///
/// # Errors
/// If they do not fit.
pub fn check_capacity(bytes: u64, threads: u64) -> Result<(), CapacityError> {
    Demand { model_bytes: bytes, threads }.check(1, 1)
}

fn stack_bytes() -> u64 {
    std::env::var("RUST_MIN_STACK").ok().and_then(|bytes| bytes.parse().ok()).unwrap_or(STACK_BYTES)
}

impl Limits {
    fn of_this_process() -> Self {
        let mut limits = Self::below(Path::new("/"));
        let used = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let used = |field: usize| {
            let pages: u64 = used.split_whitespace().nth(field).and_then(|pages| pages.parse().ok())?;
            Some(pages * rustix::param::page_size() as u64)
        };
        // Fields of proc_pid_statm(5): all mappings; those that count as data.
        for (resource, field, name) in [
            (Resource::As, 0, "the limit of the address space (ulimit -v)"),
            (Resource::Data, 5, "the limit of data (ulimit -d)"),
        ] {
            if let Some(most) = getrlimit(resource).current {
                let left = most.saturating_sub(used(field).unwrap_or(0));
                tighten(&mut limits.address_space, left, name);
            }
        }
        // The kernel does not enforce this limit for root. The check does not count threads that already run.
        if !rustix::process::geteuid().is_root()
            && let Some(most) = getrlimit(Resource::Nproc).current
        {
            tighten(&mut limits.threads, most, "the limit of processes (ulimit -u)");
        }
        limits
    }

    /// The limits according to the files below `root`, which is `/` outside of tests.
    fn below(root: &Path) -> Self {
        let text = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
        let mut limits = Self { memory: intendant_segment::memory::free(root), ..Self::default() };
        for line in text("proc/self/cgroup").lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            let path = Path::new(path.trim_start_matches('/'));
            let unified = controllers.is_empty();
            if !unified && !controllers.split(',').any(|listed| listed == "pids") {
                continue;
            }
            let mount = root.join("sys/fs/cgroup").join(if unified { "" } else { "pids" });
            // Limits of all groups around this one apply, as for memory.
            for group in path.ancestors() {
                if let Some(left) = threads_of_group(&mount.join(group)) {
                    tighten(&mut limits.threads, left, "the control group (pids.max)");
                }
            }
        }
        limits
    }
}

/// Replaces a limit by one that leaves less.
fn tighten(limit: &mut Option<(u64, &'static str)>, left: u64, name: &'static str) {
    if limit.is_none_or(|(least, _)| left < least) {
        *limit = Some((left, name));
    }
}

/// Threads that a control group of either version leaves. "max" is no limit.
fn threads_of_group(folder: &Path) -> Option<u64> {
    let number = |file: &str| std::fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
    Some(number("pids.max")?.saturating_sub(number("pids.current")?))
}

/// A number of bytes that prints with a unit.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = self.0 as f64 / f64::from(1 << 20);
        if mib < 1024.0 { write!(f, "{mib:.1} MiB") } else { write!(f, "{:.1} GiB", mib / 1024.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_techniques::Technique;

    fn demand(nodes: usize, technique: Technique, storage: Storage) -> u64 {
        let builder = Layout::builder().nodes(nodes).range("a", 1000, 8).range("b", 10, 4);
        let layout = builder.build().expect("a layout");
        let assignment = Assignment::default();
        Demand::new::<f64>(&layout, storage, &technique.policy(), &assignment, 3).model_bytes
    }

    #[test]
    fn the_demand_is_slots_of_all_keys_and_values_of_what_a_node_holds() {
        let (slots, all) = (1010 * 16, 1000 * 64 + 10 * 32);
        assert_eq!(demand(1, Technique::Adaptive, Storage::Dense), slots + all);
        assert_eq!(demand(2, Technique::Adaptive, Storage::Dense), slots + all / 2);
        assert_eq!(demand(2, Technique::FullReplication, Storage::Dense), slots + all / 2 + all);
        assert_eq!(demand(2, Technique::Adaptive, Storage::Sparse), 0);
    }

    #[test]
    fn every_limit_refuses_what_is_beyond_it_and_nothing_else() {
        let demand = Demand { model_bytes: 100 << 20, threads: 10 };
        let check =
            |limits: Limits| demand.compare(1, 2, 2 << 20, &limits).map_err(|error| error.to_string());
        assert_eq!(check(Limits::default()), Ok(()));
        let address = |mib: u64| Limits { address_space: Some((mib << 20, "A")), ..Limits::default() };
        assert_eq!(check(address(120)), Ok(()));
        let text = check(address(119)).expect_err("no room for stacks");
        assert!(text.contains("10 threads") && text.contains("A leaves"), "{text}");
        let text = check(address(99)).expect_err("no room for values");
        assert!(text.contains("at least 100.0 MiB") && text.contains("leaves 99.0 MiB"), "{text}");
        let memory = |mib: u64| Limits { memory: Some((mib << 20, "M".to_owned())), ..Limits::default() };
        assert_eq!(check(memory(200)), Ok(()), "both nodes of this machine");
        let text = check(memory(199)).expect_err("no room");
        assert!(text.contains("200.0 MiB in 2 node(s)") && text.contains("M leaves 199.0 MiB"), "{text}");
        let threads = |threads| Limits { threads: Some((threads, "T")), ..Limits::default() };
        assert_eq!(check(threads(20)), Ok(()));
        assert!(
            check(threads(19)).is_err_and(|text| text.contains("20 threads") && text.contains("T leaves 19"))
        );
    }

    /// Files as the kernel shows them, below a folder.
    fn limits(files: &[(&str, &str)]) -> Limits {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
            std::fs::write(path, text).expect("written");
        }
        let mut limits = Limits::below(root.path());
        if let Some((_, name)) = &mut limits.memory {
            *name = name.replace(&root.path().display().to_string(), "");
        }
        limits
    }

    #[test]
    fn the_tightest_limit_counts() {
        let meminfo = "MemTotal: 9000 kB\nMemAvailable:    2000 kB\nSwapFree: 48 kB\n";
        assert_eq!(limits(&[]), Limits::default());
        let free = limits(&[("proc/meminfo", meminfo)]);
        assert_eq!(free.memory, Some((2048 << 10, "the free memory of this machine".to_owned())));
        // The outer group's limit is tighter; of its memory, 100 bytes are files that can be dropped.
        let unified = limits(&[
            ("proc/meminfo", meminfo),
            ("proc/self/cgroup", "0::/outer/inner\n"),
            ("sys/fs/cgroup/outer/inner/memory.max", "max\n"),
            ("sys/fs/cgroup/outer/inner/memory.current", "400\n"),
            ("sys/fs/cgroup/outer/inner/pids.max", "50\n"),
            ("sys/fs/cgroup/outer/inner/pids.current", "8\n"),
            ("sys/fs/cgroup/outer/memory.max", "1000\n"),
            ("sys/fs/cgroup/outer/memory.current", "400\n"),
            ("sys/fs/cgroup/outer/memory.stat", "anon 300\ninactive_file 100\n"),
        ]);
        let name = "the memory limit of control group /sys/fs/cgroup/outer".to_owned();
        assert_eq!(
            (unified.memory, unified.threads),
            (Some((700, name)), Some((42, "the control group (pids.max)")))
        );
        let first = limits(&[
            ("proc/self/cgroup", "4:memory:/a\n3:cpu,pids:/a\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000"),
            ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "300"),
            ("sys/fs/cgroup/pids/a/pids.max", "max"),
            ("sys/fs/cgroup/pids/a/pids.current", "3"),
        ]);
        let name = "the memory limit of control group /sys/fs/cgroup/memory/a".to_owned();
        assert_eq!((first.memory, first.threads), (Some((700, name)), None));
    }
}
