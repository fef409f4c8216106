//! A run whose nodes change (`--copies`): it goes on when nodes are lost, and others can join and leave.
//!
//! Such a run is a sequence of *views*. Each is an ordinary cluster, with ranks of its own, whose training
//! goes on at a cut of the view before, as a run does that resumes from a checkpoint on another number of
//! nodes. A view ends when a node is lost, or at a cut when another number of nodes is asked for. Then its
//! processes [muster](intendant_views), and the next view begins.
//!
//! Two kinds of processes have no view: those that want to join, until they are let in, and those that have
//! left.

use super::agreement::Terms;
use super::copies::{Copies, Loaded};
use super::origin::{Origin, Subject};
use crate::clock::now;
use crate::error::TrainError;
use crate::report::Changes;
use crate::settings::Plan;
use intendant::control::standby::{Mustered, Standby};
use intendant::{Endpoint, Lobby, NodeId, Rendezvous};
use intendant_core::{Element, Layout};
use intendant_task::Task;
use intendant_views::{Change, Course, CutName, Ended, Process, Then, View};
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

/// How long a process looks for the next view of a run that goes on.
const MUSTER: Duration = Duration::from_secs(60);

/// How long a process that leaves holds values for the others.
const LEAVE: Duration = Duration::from_secs(3600);

/// The views of a run, as one of its processes sees them.
pub(crate) struct Views<E> {
    standby: Arc<Standby>,
    pub(crate) copies: Arc<Copies<E>>,
    course: Course,
    /// Where node 0 of the next view serves the coordinator, and the socket for that at node 0.
    meets: Option<(SocketAddr, Option<TcpListener>)>,
    /// Where it wants to join.
    door: Option<SocketAddr>,
    /// As it was started.
    rendezvous: Option<Rendezvous>,
    loaded: Option<Loaded<E>>,
    changes: Changes,
    /// When the last view ended.
    ended: Option<Instant>,
}

/// What the cuts of a view need to copy parts.
#[derive(Clone)]
pub(crate) struct Copying<E> {
    pub(crate) copies: Arc<Copies<E>>,
    pub(crate) view: View,
    pub(crate) rank: usize,
    /// The values with which the view began.
    pub(crate) loaded: Option<Loaded<E>>,
    /// Whether stores make all values at the start.
    pub(crate) is_dense: bool,
}

impl<E: Element> Copying<E> {
    /// The name of a cut of this view.
    pub(crate) fn name(&self, cut: u64) -> CutName {
        CutName { view: self.view.number, number: cut }
    }

    /// All nodes hold what they should of a cut.
    pub(crate) fn settle(&self, cut: u64) {
        self.copies.settle(self.name(cut));
        if let Some(loaded) = self.loaded.as_ref().filter(|_| self.is_dense) {
            // All values have been made.
            *loaded.write().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
        }
    }
}

impl<E: Element> Views<E> {
    /// Opens what other processes ask, if the plan asks for copies. A process that wants to join is let in.
    /// `replicated` is a digest of the keys that have static replicas.
    pub(crate) fn open<T: Task<Element = E>>(
        task: &T,
        plan: &Plan,
        layout: &Layout,
        replicated: u64,
    ) -> Result<Option<Self>, TrainError> {
        if plan.copies == 0 {
            return Ok(None);
        }
        let door = plan.join.as_deref().map(resolve).transpose()?;
        let joined = if plan.rendezvous.is_none() { joining(plan)? } else { None };
        let Some(rendezvous) = plan.rendezvous.clone().or(joined) else { return Ok(None) };
        let settings = Terms::new(task, plan).digest() ^ replicated;
        let standby = intendant::open_standby(&rendezvous, settings).map_err(TrainError::Cluster)?;
        let standby = Arc::new(standby);
        let copies = Arc::new(Copies::new(layout.clone(), Arc::clone(&standby), plan.copies));
        let mut views = Self {
            course: Course::new(standby.process().id, door.is_some()),
            standby,
            copies,
            meets: None,
            door,
            rendezvous: Some(rendezvous),
            loaded: None,
            changes: Changes::default(),
            ended: None,
        };
        if door.is_some() {
            views.muster(Vec::new())?;
        }
        Ok(Some(views))
    }

    /// The plan of the view that is next.
    #[inline(never)]
    pub(crate) fn plan(&self, plan: &Plan) -> Plan {
        let mut plan = plan.clone();
        if let (Some(next), Some((coordinator, listener)), Some(rendezvous)) =
            (self.course.next(), &self.meets, &self.rendezvous)
        {
            let members = &next.view.members;
            let own = self.standby.process();
            let rank = next.view.rank(own.id).unwrap_or_default();
            let here: Vec<usize> =
                (0..members.len()).filter(|at| members[*at].address.ip() == own.address.ip()).collect();
            let local = here.iter().position(|at| *at == rank).unwrap_or_default();
            let coordinator = Endpoint { host: coordinator.ip().to_string(), port: coordinator.port() };
            let listener = listener.as_ref().and_then(|listener| listener.try_clone().ok());
            let later =
                rendezvous.later(NodeId(rank as u16), members.len(), (local, here.len()), coordinator);
            let later = later.deadline(Duration::from_micros(self.course.meet_us()));
            plan.rendezvous = Some(match listener {
                Some(listener) => later.listener(listener),
                None => later,
            });
            plan.nodes = members.len();
            plan.names = Some(next.view.names.clone());
            plan.config.set("nodes", members.len() as i64);
        }
        plan
    }

    /// The process enters the view, together with all others.
    #[inline(never)]
    pub(crate) fn enter(&mut self, lobby: &Lobby<E>) -> Result<(), TrainError> {
        let own = postcard::to_stdvec(&self.standby.process()).expect("a process can be serialised");
        let told = lobby.gather("standby", own)?;
        let members: Result<Vec<Process>, _> = told.iter().map(|told| postcard::from_bytes(told)).collect();
        let members =
            members.map_err(|error| TrainError::Stopped(format!("a node cannot be read: {error}")))?;
        let view = self.course.enter(members).map_err(TrainError::Stopped)?.clone();
        self.standby.entered(&view);
        if let Some(rank) = view.rank(self.standby.process().id) {
            crate::logging::rank_is(rank as u16);
        }
        self.tell(&view);
        self.changes.count += 1;
        Ok(())
    }

    /// Node 0 tells of a view that follows another one.
    fn tell(&self, view: &View) {
        if self.course.next().is_none() || view.rank(self.standby.process().id) != Some(0) {
            return;
        }
        let nodes = view.members.len();
        let place = match view.begins {
            Some(cut) => format!("cut {} of view {}", cut.number, cut.view),
            None => "the start of the run".to_owned(),
        };
        let lost = match self.course.change(view).lost {
            0 => String::new(),
            1 => ", without one that is lost".to_owned(),
            lost => format!(", without {lost} that are lost"),
        };
        tracing::warn!("view {} has {nodes} nodes{lost}; it goes on at {place}", view.number);
    }

    /// Where the view begins, if not at the start of the run. `layout` is that of the view, `replicated` has
    /// the keys that every node holds.
    pub(crate) fn origin(
        &mut self,
        (subject, plan): (&Subject<'_>, &Plan),
        layout: &Layout,
        replicated: impl FnOnce() -> BTreeSet<u64>,
    ) -> Result<Option<(Origin, Loaded<E>)>, TrainError> {
        let Some(next) = self.course.next() else { return Ok(None) };
        let Some(cut) = next.view.begins else { return Ok(None) };
        let (state, table) = self.copies.load((next, cut), usize::from(plan.rank()), layout, replicated())?;
        let origin = Origin::of_copies(subject, plan, state)?;
        let loaded: Loaded<E> = Arc::new(RwLock::new(Some(table)));
        self.loaded = Some(Arc::clone(&loaded));
        Ok(Some((origin, loaded)))
    }

    /// The training of the view begins: how the nodes have changed so far.
    pub(crate) fn begins(&mut self) -> Changes {
        if let Some(ended) = self.ended.take() {
            let changes = (self.changes.count - 1) as f64;
            let ms = (now() - ended).as_secs_f64() * 1e3;
            self.changes.change_ms += (ms - self.changes.change_ms) / changes.max(1.0);
        }
        if let Some(next) = self.course.next() {
            self.standby.began(next);
        }
        let Change { lost, joined, left } = self.course.begin();
        self.changes.lost += lost;
        self.changes.joined += joined;
        self.changes.left += left;
        self.changes
    }

    /// What cuts of the view need.
    #[inline(never)]
    pub(crate) fn copying(&self, rank: u16, is_dense: bool) -> Option<Copying<E>> {
        let (copies, loaded) = (Arc::clone(&self.copies), self.loaded.clone());
        self.course.entered().cloned().map(|view| Copying {
            copies,
            view,
            rank: rank.into(),
            loaded,
            is_dense,
        })
    }

    /// The view has ended with this error: finds the next one, if there can be one.
    ///
    /// # Errors
    /// The error, or why there is none.
    #[inline(never)]
    pub(crate) fn follow(&mut self, error: TrainError, plan: &Plan) -> Result<(), TrainError> {
        self.loaded = None;
        // An attempt that fails is a part of the same change.
        self.ended.get_or_insert_with(now);
        let ended = ended(&error);
        if let Some(signal) = plan.interrupt.delivered().filter(|_| self.course.goes_on(ended)) {
            // All nodes may have got it, and lose each other.
            tracing::warn!("{error}");
            return Err(TrainError::Interrupted(signal));
        }
        self.standby.failed(&self.course.blamed(ended));
        match self.course.end(ended) {
            Then::Ends => Err(error),
            Then::Leaves => {
                self.standby.leave(LEAVE);
                Err(TrainError::Left)
            }
            Then::Musters(gone) => {
                if !matches!(ended, Ended::Regroups(_)) {
                    tracing::warn!("{error}; looking for the nodes that are left");
                }
                self.muster(gone)
            }
        }
    }

    fn muster(&mut self, gone: Vec<u64>) -> Result<(), TrainError> {
        let Mustered { next, coordinator, listener } = self.standby.muster(&gone, self.door, MUSTER)?;
        self.course.find(next);
        self.meets = Some((coordinator, listener));
        Ok(())
    }

    /// Says where others join the run, if they can show its token.
    pub(crate) fn invite(&self) {
        if !intendant::launch::token_is_unknown() {
            let address = self.standby.process().address;
            crate::logging::say(&format!("nodes can join this run: --join {address}"));
        } else if self.changes.count == 1 {
            crate::logging::say(
                "no other nodes can join this run: set INTENDANT_TOKEN to let them (openssl rand -hex 32)",
            );
        }
    }
}

/// Why a view has ended.
fn ended(error: &TrainError) -> Ended {
    match (error, error.lost_node(), error.ended_by()) {
        (TrainError::Regroups { nodes }, _, _) => Ended::Regroups(usize::from(*nodes)),
        (TrainError::Unloaded(_), _, _) => Ended::Unloaded,
        (_, lost, _) if error.loses_node() => Ended::Lost(lost.map(NodeId::index)),
        (_, _, Some(node)) => Ended::By(node.index()),
        (_, _, None) => Ended::Other,
    }
}

/// The rendezvous of a process that joins a run later, as far as it is known.
fn joining(plan: &Plan) -> Result<Option<Rendezvous>, TrainError> {
    let place = plan.join.as_deref().and_then(|door| {
        let (host, port) = door.rsplit_once(':')?;
        Some((host.trim_start_matches('[').trim_end_matches(']'), port.parse().ok()?))
    });
    let Some((host, port)) = place else { return Ok(None) };
    let rendezvous = Rendezvous::new(NodeId(0), plan.nodes, host, port).tls(plan.tls.clone());
    Ok(Some(match Rendezvous::token_from_env().map_err(TrainError::usage)? {
        Some(token) => rendezvous.token(token),
        None => rendezvous,
    }))
}

fn resolve(door: &str) -> Result<SocketAddr, TrainError> {
    let unknown = |what: String| TrainError::usage(format!("--join {door}: {what}; it is HOST:PORT"));
    let mut addresses = door.to_socket_addrs().map_err(|error| unknown(error.to_string()))?;
    addresses.next().ok_or_else(|| unknown("it has no address".to_owned()))
}
