//! The disk of a simulated cluster: the threads that write parts and manifests, in virtual time.
//!
//! What they write is real, in the folder that the configuration names, by the code that real runs use. When
//! a write ends is drawn, and whether the disk refuses it; when a node dies, what it was writing is left as a
//! part of a file. After every step a reader looks at the folder: it must find the newest cut that was
//! committed, and nothing half-written.

use super::config::CutConfig;
use super::failure::TaskFailure;
use super::observer::{Moment, Observer};
use crate::cluster::{Cluster, Probe};
use crate::dice::Dice;
use crate::invariants::Finding;
use intendant_checkpoint::protocol::{Unwritten, Written};
use intendant_checkpoint::{CheckpointError, Keeper, Manifest, Part, Rows};
use intendant_core::{Element, NodeId, random};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::path::Path;

/// What a thread that writes does.
enum Job<E> {
    Write { cut: u64, rows: Rows<E> },
    Commit(Box<Manifest>),
    Remove(u64),
}

/// The thread of one node.
struct Writer<E> {
    /// Jobs in order, with the time at which each ends.
    jobs: VecDeque<(u64, Job<E>)>,
    written: Option<Written>,
}

/// The threads of all nodes, and the folder into which they write.
pub(super) struct Disk<E> {
    config: CutConfig,
    /// Of node 0, if parts are written.
    keeper: Option<Keeper>,
    /// What became of the last commit.
    committed: Option<Result<(), CheckpointError>>,
    writers: Vec<Writer<E>>,
    dice: Dice,
    /// For each cut of this run, how many nodes have written their parts of it.
    complete: BTreeMap<u64, usize>,
    /// The newest cut that can be read, of this run or an earlier one.
    newest: Option<u64>,
}

impl<E: Element> Disk<E> {
    pub(super) fn new(config: &CutConfig, nodes: usize, seed: u64, newest: Option<u64>) -> Self {
        let writer = |_| Writer { jobs: VecDeque::new(), written: None };
        Self {
            config: config.clone(),
            keeper: config.folder.clone().map(|folder| Keeper::new(folder, config.kept, Vec::new())),
            committed: None,
            writers: (0..nodes).map(writer).collect(),
            dice: Dice::new(random::stream(seed, &[3])),
            complete: BTreeMap::new(),
            newest,
        }
    }

    pub(super) const fn config(&self) -> &CutConfig {
        &self.config
    }

    /// Begins a cut, with a number greater than this one.
    pub(super) fn begin(&mut self, after: u64) -> Result<u64, CheckpointError> {
        if self.refuses() {
            return Err(refused());
        }
        let cut = match &self.config.folder {
            Some(folder) => folder.begin_after(after)?,
            None => after + 1,
        };
        self.complete.insert(cut, 0);
        Ok(cut)
    }

    /// Whether the disk refuses what it is asked for now.
    fn refuses(&mut self) -> bool {
        self.config.refuses != 0 && self.dice.once_in(self.config.refuses)
    }

    fn add(&mut self, node: usize, now_ns: u64, job: Job<E>) {
        let lasts = match &job {
            Job::Write { .. } => self.config.write,
            Job::Commit(_) | Job::Remove(_) => self.config.commit,
        };
        let jobs = &mut self.writers[node].jobs;
        let from_ns = jobs.back().map_or(now_ns, |(end_ns, _)| now_ns.max(*end_ns));
        jobs.push_back((from_ns + lasts.draw(&mut self.dice), job));
    }

    pub(super) fn write(&mut self, node: usize, now_ns: u64, cut: u64, rows: Rows<E>) {
        self.add(node, now_ns, Job::Write { cut, rows });
    }

    pub(super) fn commit(&mut self, now_ns: u64, manifest: Manifest) {
        self.add(0, now_ns, Job::Commit(Box::new(manifest)));
    }

    pub(super) fn remove(&mut self, now_ns: u64, cut: u64) {
        self.add(0, now_ns, Job::Remove(cut));
    }

    /// What became of the last commit.
    pub(super) const fn take_committed(&mut self) -> Option<Result<(), CheckpointError>> {
        self.committed.take()
    }

    /// What became of a node's part of the pending cut.
    pub(super) fn written(&self, node: usize) -> Option<Written> {
        self.writers[node].written.clone()
    }

    /// The pending cut is settled.
    pub(super) fn forget(&mut self, node: usize) {
        self.writers[node].written = None;
    }

    /// When a node's jobs end, if it has some.
    pub(super) fn busy_until_ns(&self, node: usize) -> Option<u64> {
        self.writers[node].jobs.back().map(|(end_ns, _)| *end_ns)
    }

    /// Ends the jobs whose time has come, those of each node up to a time of its own. Returns the node that
    /// dies at one of these moments, if `observer` says so.
    #[inline(never)]
    pub(super) fn advance(
        &mut self,
        until_ns: &dyn Fn(usize) -> u64,
        observer: &mut dyn Observer,
    ) -> Result<Option<NodeId>, Finding> {
        loop {
            let ends = |(node, writer): (usize, &Writer<E>)| Some((writer.jobs.front()?.0, node));
            let due = self.writers.iter().enumerate().filter_map(ends);
            let Some((_, node)) = due.filter(|(end_ns, node)| *end_ns <= until_ns(*node)).min() else {
                return Ok(None);
            };
            let Some((_, job)) = self.writers[node].jobs.pop_front() else { return Ok(None) };
            let moment = if self.refuses() { self.refuse(node, job)? } else { self.end(node, job) };
            self.look()?;
            let dies = moment.and_then(|moment| observer.moment(moment));
            if dies.is_some() {
                return Ok(dies);
            }
        }
    }

    fn end(&mut self, node: usize, job: Job<E>) -> Option<Moment> {
        match job {
            Job::Write { cut, rows } => {
                let written = match &self.config.folder {
                    Some(folder) => folder.write(cut, &part_name(node), &rows),
                    None => {
                        Ok(Part { file: part_name(node), bytes: 0, keys: rows.keys(), blocks: Vec::new() })
                    }
                };
                if written.is_ok() {
                    *self.complete.entry(cut).or_default() += 1;
                }
                let unwritten = |reason: String| Unwritten { reason, is_copied: false };
                self.writers[node].written = Some(written.map_err(|error| unwritten(error.to_string())));
                Some(Moment::Written(NodeId(node as u16)))
            }
            Job::Commit(manifest) => {
                let committed = match &mut self.keeper {
                    Some(keeper) => keeper.commit(&manifest).and_then(|()| keeper.tidy()),
                    None => Ok(()),
                };
                if committed.is_ok() {
                    self.newest = Some(manifest.cut);
                }
                self.committed = Some(committed);
                Some(Moment::Committed(manifest.cut))
            }
            Job::Remove(cut) => {
                if let Some(keeper) = &self.keeper {
                    keeper.give_up(cut);
                }
                None
            }
        }
    }

    /// The disk refuses to write. Something may be left of it; of a manifest also all, if only the answer was
    /// lost.
    fn refuse(&mut self, node: usize, job: Job<E>) -> Result<Option<Moment>, Finding> {
        let unreadable = |error: std::io::Error| ("readable", error.to_string());
        match job {
            Job::Write { .. } => {
                self.tear(node, job).map_err(unreadable)?;
                let unwritten = Unwritten { reason: "has no room".to_owned(), is_copied: true };
                self.writers[node].written = Some(Err(unwritten));
            }
            Job::Commit(manifest) => {
                let cut = manifest.cut;
                if self.dice.once_in(2) {
                    if let Some(folder) = &self.config.folder {
                        folder.commit(&manifest).map_err(|error| ("readable", error.to_string()))?;
                    }
                } else {
                    self.tear(node, Job::Commit(manifest)).map_err(unreadable)?;
                }
                if let Some(keeper) = &mut self.keeper {
                    keeper.refused(cut);
                }
                self.committed = Some(Err(refused()));
            }
            // It stays.
            Job::Remove(_) => {}
        }
        Ok(None)
    }

    /// Reads the folder as a run that resumes does.
    pub(super) fn look(&self) -> Result<(), Finding> {
        let found = |what: String| Err(("readable", what));
        let Some(folder) = &self.config.folder else { return Ok(()) };
        let listed = match folder.cuts() {
            Ok(listed) => listed,
            Err(error) => return found(error.to_string()),
        };
        for cut in listed {
            let Some(complete) = self.complete.get(&cut) else { continue };
            if *complete < self.writers.len() {
                return found(format!(
                    "cut {cut} is committed, and {complete} of {} parts are written",
                    self.writers.len()
                ));
            }
        }
        match folder.latest() {
            Err(error) => found(error.to_string()),
            Ok(None) if self.newest.is_none() => Ok(()),
            Ok(Some(latest)) => {
                let cut = latest.checkpoint.manifest().cut;
                match latest.skipped.first() {
                    Some(error) => found(format!("a committed cut cannot be read: {error}")),
                    None if Some(cut) == self.newest => Ok(()),
                    None => found(format!("cut {cut} is read, and {:?} was committed last", self.newest)),
                }
            }
            Ok(None) => found(format!("no cut can be read, and {:?} was committed", self.newest)),
        }
    }

    /// A node dies. The others live on for a while, until they hear of it: their threads go on with what they
    /// have to write. What is being written when a node ends is torn.
    #[inline(never)]
    pub(super) fn crash(&mut self, node: NodeId, now_ns: u64) -> Result<(), Finding> {
        let ends_ns: Vec<u64> = (0..self.writers.len())
            .map(|at| now_ns + if at == node.index() { 0 } else { self.config.linger.draw(&mut self.dice) })
            .collect();
        self.advance(&|at| ends_ns[at], &mut ())?;
        for at in 0..self.writers.len() {
            if let Some((_, job)) = self.writers[at].jobs.pop_front() {
                self.tear(at, job).map_err(|error| ("readable", error.to_string()))?;
            }
        }
        self.look()
    }

    /// Leaves a part of what a job writes: nothing, some bytes, or all of them; never another name.
    fn tear(&mut self, node: usize, job: Job<E>) -> std::io::Result<()> {
        let tear = |dice: &mut Dice, path: &Path| {
            let file = File::options().write(true).open(path)?;
            let bytes = file.metadata()?.len();
            file.set_len(dice.between(0, bytes))
        };
        let Some(folder) = &self.config.folder else { return Ok(()) };
        match job {
            Job::Write { cut, rows } => {
                if folder.write(cut, &part_name(node), &rows).is_ok() {
                    let path = folder.place(cut).join(format!("{}.safetensors", part_name(node)));
                    tear(&mut self.dice, &path)?;
                }
                Ok(())
            }
            Job::Commit(manifest) => {
                let path = folder.place(manifest.cut).join("manifest.json.partial");
                fs::write(&path, manifest.to_file())?;
                tear(&mut self.dice, &path)
            }
            Job::Remove(_) => Ok(()),
        }
    }
}

fn refused() -> CheckpointError {
    let source = std::io::Error::other("no room is left");
    CheckpointError::Io { what: "write", path: "cuts".into(), source }
}

fn part_name(node: usize) -> String {
    format!("part-{node}")
}

/// Adds time and event to what was found.
pub(super) fn violation<E: Element, P: Probe<E>>(
    cluster: &Cluster<E, P>,
) -> impl Fn(Finding) -> TaskFailure + '_ {
    |finding| cluster.violation(finding).into()
}
