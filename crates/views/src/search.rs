//! How a process finds the next view: which processes it asks, when it leads, and when it gives up.
//!
//! A process asks the members of the last view that it knows, those of lower rank first. The first of them
//! that lives leads: it collects offers, and has the members vote. The others ask it until it tells which
//! view was chosen. A process that wants to join asks at the address that it was given, where it learns the
//! last view. A process that is asked answers by its [`Muster`].
//!
//! The functions of this module are programs in the order of their steps. [`World`] provides all that they
//! need from outside: sockets and clocks in real runs, a simulated network in checks. They depend on no
//! runtime.

use crate::message::Answer;
use crate::muster::{Decision, Muster};
use crate::view::{Next, Process};
use intendant_core::Tick;
use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::task::Poll;

/// Pause between two offers to a process that answered.
const PAUSE_US: u64 = 50_000;

/// Pause between two attempts of the leader to decide, and between two offers while the leader counts votes.
const LOOK_US: u64 = 20_000;

/// Number of offers after a vote before a process makes the longer pause again.
const QUICK: u32 = 10;

/// How long an answer may take.
const ANSWER_US: u64 = 1_000_000;

/// How often in a row there may be no answer before another process is asked.
const SILENCES: u32 = 3;

/// How often in a row a process may be sent elsewhere.
const REDIRECTIONS: u32 = 40;

/// Time after which the leader asks again whether a process lives that would lead instead.
const PROBE_US: u64 = 500_000;

/// How long the leader hopes for more processes, if those that are there cannot go on.
const HOPE_US: u64 = 6_000_000;

/// How long a process tells others that the run cannot go on, before it ends. Processes that muster ask every
/// [`PAUSE_US`]; a process that does not ask in time finds this out by itself, later.
const TELL_US: u64 = 500_000;

/// A process that wants to join reports that it waits after this time.
const MENTION_US: u64 = 3_000_000;

/// The reason for which there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// No process is at the address.
    #[error("no process is there")]
    Gone,
    /// The answer has taken too long.
    #[error("it does not answer")]
    Late,
    /// The request failed for this reason, which may pass.
    #[error("{0}")]
    Failed(String),
}

/// A message to the user while a process searches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The process waits to be let into the run. The text is the last obstacle.
    WaitsOutside(String),
    /// The process gets answers at this address, and waits to join the run.
    WaitsAt(SocketAddr),
    /// The run has gone on without the process. It asks to join again.
    StartsOver,
}

/// The outside world of a process that searches.
#[expect(async_fn_in_trait, reason = "a program is executed by one thread")]
pub trait World {
    /// The process's own clock.
    fn now(&self) -> Tick;

    /// Accesses the state from which the process answers others, at any time.
    fn muster<R>(&self, act: impl FnOnce(&mut Muster) -> R) -> R;

    /// Waits for `us` microseconds.
    async fn sleep(&self, us: u64);

    /// Sends the process's offer, as it is now, to another process. Returns that process's answer, if it
    /// comes within `within_us` microseconds.
    async fn offer(&self, at: SocketAddr, within_us: u64) -> Result<Answer, NoAnswer>;

    /// Opens the socket where the next view would meet, if this process is its node 0.
    ///
    /// # Errors
    /// If the operating system refuses.
    fn listen(&self) -> io::Result<SocketAddr>;

    /// Reports a notice to the user.
    fn say(&self, notice: Notice);
}

/// A place in the next view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The view, and where it begins.
    pub next: Next,
    /// The address at which its node 0 serves the coordinator.
    pub coordinator: SocketAddr,
    /// Whether this process is its node 0, and has the socket.
    pub is_here: bool,
}

/// The reason for which there is no next view for a process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The processes that are left cannot go on.
    #[error("the run cannot go on: {0}")]
    Stuck(String),
    /// Another process refuses this process.
    #[error("{address} refuses this process: {reason}")]
    Refused {
        /// The process that refuses.
        address: SocketAddr,
        /// Its reason.
        reason: String,
    },
    /// The run has ended before the process was let in, or has lost all nodes that it knows.
    #[error("no process is at {address} any more: the run has ended, or has lost that node")]
    Over {
        /// The address at which a process was.
        address: SocketAddr,
    },
    /// There was no answer, or no decision.
    #[error("no run could be joined within {seconds} s: {detail}")]
    Late {
        /// How long the process tried.
        seconds: u64,
        /// The last obstacle.
        detail: String,
    },
    /// The operating system refused a socket.
    #[error("cannot open a socket: {0}")]
    Socket(#[from] io::Error),
}

/// A search that is under way.
struct Search<'a, W> {
    world: &'a W,
    own: Process,
    limit: Limit,
    /// The address at which it asks to join.
    door: Option<SocketAddr>,
    /// Whether a process has answered there.
    was_there: bool,
    /// The last obstacle.
    detail: String,
    /// The time until which it hopes for more processes, if those that are there cannot go on.
    hopes_until: Option<Tick>,
    /// The reason for which the run cannot go on, from a process that has led before.
    verdict: Option<String>,
    /// Members of the last view that answered while this process led, but that do not follow it.
    elsewhere: Vec<u64>,
}

/// How long a process looks for the next view. A process that wants to join waits as long as others answer
/// it.
struct Limit {
    deadline: Tick,
    within_us: u64,
}

impl Limit {
    const fn new(now: Tick, within_us: u64) -> Self {
        Self { deadline: now.after(within_us), within_us }
    }

    const fn renew(&mut self, now: Tick) {
        self.deadline = now.after(self.within_us);
    }
}

/// The result when a process has led.
enum Led {
    Found(Found),
    /// Another process leads, or should.
    Other,
}

/// Finds the next view, together with the others. A process that wants to join asks at `door`.
///
/// # Errors
/// See [`SearchError`].
pub async fn find<W: World>(
    world: &W,
    door: Option<SocketAddr>,
    within_us: u64,
) -> Result<Found, SearchError> {
    let search = Search {
        world,
        own: world.muster(|muster| muster.me().process),
        limit: Limit::new(world.now(), within_us),
        door,
        was_there: false,
        detail: "no process answers".to_owned(),
        hopes_until: None,
        verdict: None,
        elsewhere: Vec::new(),
    };
    search.find().await
}

/// The program of a process that leaves. It holds its values until the others do not need them any more or
/// are gone, or until the time is over.
pub async fn leave<W: World>(world: &W, within_us: u64) {
    world.muster(Muster::leave);
    let own = world.muster(|muster| muster.me().process);
    let mut limit = Limit::new(world.now(), within_us);
    let mut turn = 0;
    while world.now() < limit.deadline {
        let others = candidates(world, None).into_iter().filter(|(id, _)| *id != Some(own.id));
        let others: Vec<(Option<u64>, SocketAddr)> = others.collect();
        if others.is_empty() {
            return;
        }
        let (id, address) = others[turn % others.len()];
        match ask_until(world, address, &mut limit, &mut false).await {
            Ok(Answer::Released) => return,
            // The node is lost and another process has its address, or the run has ended, or the node leaves
            // as well.
            Ok(Answer::Refused(_) | Answer::Stuck(_)) | Err(NoAnswer::Gone) => {
                world.muster(|muster| muster.lose(id));
            }
            // The node may be stopped, and need the values when it continues.
            Ok(_) | Err(NoAnswer::Late | NoAnswer::Failed(_)) => {
                turn += 1;
                world.sleep(PAUSE_US).await;
            }
        }
    }
}

impl<W: World> Search<'_, W> {
    async fn find(mut self) -> Result<Found, SearchError> {
        let world = self.world;
        let mut mention = Some(world.now().after(MENTION_US));
        loop {
            if let Some(found) = self.round().await? {
                return Ok(found);
            }
            world.sleep(PAUSE_US).await;
            self.check_time()?;
            let joins = !world.muster(|muster| muster.is_member());
            if joins && mention.take_if(|at| world.now() >= *at).is_some() {
                world.say(Notice::WaitsOutside(self.detail.clone()));
            }
        }
    }

    fn check_time(&mut self) -> Result<(), SearchError> {
        if self.world.now() < self.limit.deadline {
            return Ok(());
        }
        let (seconds, detail) = (self.limit.within_us / 1_000_000, self.detail.clone());
        Err(self.ends(SearchError::Late { seconds, detail }))
    }

    /// The reason for which the process ends: `why`, unless another process has said that the run cannot go
    /// on.
    fn ends(&mut self, why: SearchError) -> SearchError {
        self.verdict.take().map_or(why, SearchError::Stuck)
    }

    /// Asks all processes that may know the next view, and leads if no member of lower rank lives.
    async fn round(&mut self) -> Result<Option<Found>, SearchError> {
        let world = self.world;
        let asked = candidates(world, self.door);
        if asked.is_empty() {
            let address = self.door.unwrap_or(self.own.address);
            return Err(self.ends(SearchError::Over { address }));
        }
        let mut silent: Option<BTreeSet<SocketAddr>> = None;
        for (place, (id, address)) in asked.iter().copied().enumerate() {
            if silent.as_ref().is_some_and(|silent| silent.contains(&address)) {
                continue;
            }
            self.check_time()?;
            if id == Some(self.own.id) {
                return Ok(match self.lead().await? {
                    Led::Found(found) => Some(found),
                    Led::Other => None,
                });
            }
            let knew = known(world);
            let answer = ask_until(world, address, &mut self.limit, &mut self.was_there).await;
            let joins = !world.muster(|muster| muster.is_member());
            // A process that wants to join may have learned meanwhile which member is at its door.
            let id = id.or_else(|| world.muster(|muster| muster.member_at(address)));
            match answer {
                Ok(Answer::Go(next, coordinator)) => {
                    if world.muster(|muster| muster.go(&next)) {
                        return Ok(Some(Found { next, coordinator, is_here: false }));
                    }
                    self.detail = format!("{address}: a view of which this process is no member");
                }
                Ok(Answer::Refused(reason)) if id.is_none() => {
                    return Err(SearchError::Refused { address, reason });
                }
                // A process of another run has the address of a node that is lost.
                Ok(Answer::Refused(reason)) => self.detail = format!("{address}: {reason}"),
                // Other members may be there that the process at this address does not reach. If they are
                // not, this process does not hope for more processes.
                Ok(Answer::Stuck(reason)) => {
                    self.verdict.get_or_insert(reason);
                    if joins {
                        world.muster(|muster| muster.lose(id));
                        if candidates(world, None).is_empty() {
                            return Err(self.ends(SearchError::Over { address }));
                        }
                    } else {
                        self.hopes_until.get_or_insert(world.now());
                    }
                }
                Ok(
                    Answer::Wait
                    | Answer::Promise(_)
                    | Answer::Accept(..)
                    | Answer::Chosen(_)
                    | Answer::Elsewhere(_)
                    | Answer::Scaling { .. }
                    | Answer::Released,
                ) => {}
                Err(NoAnswer::Gone) => {
                    self.detail = format!("no process is at {address}");
                    world.muster(|muster| muster.lose(id));
                    if self.was_there && joins && candidates(world, None).is_empty() {
                        return Err(self.ends(SearchError::Over { address }));
                    }
                }
                Err(silence @ (NoAnswer::Late | NoAnswer::Failed(_))) => {
                    self.detail = format!("{address}: {silence}");
                    if silent.is_none() {
                        let next = asked[place + 1..].iter();
                        let next = next.take_while(|(id, _)| *id != Some(self.own.id));
                        let next: Vec<SocketAddr> = next.map(|(_, address)| *address).collect();
                        silent = Some(self.silent(&next).await);
                    }
                }
            }
            if known(world) > knew {
                // A later view is known, which has other members: the next round asks those.
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// The addresses at which no process answers. All are asked at the same time, so that it takes as long as
    /// asking one of them.
    async fn silent(&self, addresses: &[SocketAddr]) -> BTreeSet<SocketAddr> {
        let answers = offer_all(self.world, addresses, ANSWER_US, SILENCES).await;
        let silent = addresses.iter().zip(answers).filter(|(_, answer)| *answer == Err(NoAnswer::Late));
        silent.map(|(address, _)| *address).collect()
    }

    /// Leads until there is a decision, or another process leads, or is in a later view of the run.
    async fn lead(&mut self) -> Result<Led, SearchError> {
        let world = self.world;
        let coordinator = world.listen()?;
        let began = world.now();
        world.muster(|muster| muster.lead(began));
        let has_lower = world.muster(|muster| muster.others().iter().any(|(_, is_before)| *is_before));
        // The process takes members of lower rank for lost, so it asks them at once whether they live.
        let mut probe = if has_lower { began } else { began.after(PROBE_US) };
        loop {
            let now = world.now();
            match world.muster(|muster| muster.decide(now, coordinator)) {
                Decision::Go(next) => return Ok(Led::Found(Found { next, coordinator, is_here: true })),
                Decision::Wait => {
                    self.check_time()?;
                    if self.verdict.is_none() {
                        self.hopes_until = None;
                    }
                }
                // The members of the last view are elsewhere, and this process may join them.
                Decision::Stuck(_) if !world.muster(|muster| muster.is_member()) => return Ok(Led::Other),
                Decision::Stuck(reason) => {
                    let until = *self.hopes_until.get_or_insert(now.after(HOPE_US));
                    let may_come = now < self.limit.deadline && self.may_come();
                    if now >= until && !may_come {
                        // The verdict of a process that led before comes first: a process that leads later
                        // knows less, because the earlier one is lost for it.
                        let reason = self.verdict.take().unwrap_or(reason);
                        world.muster(|muster| muster.give_up(reason.clone()));
                        world.sleep(TELL_US).await;
                        return Err(SearchError::Stuck(reason));
                    }
                }
            }
            if now >= probe {
                if let Some(led) = self.probe().await {
                    return Ok(led);
                }
                probe = world.now().after(PROBE_US);
            }
            world.sleep(LOOK_US).await;
        }
    }

    /// Whether some members of the last view have answered but not come, and are a quorum together with those
    /// that have come. They may be at the place where that view was to meet.
    fn may_come(&self) -> bool {
        !self.elsewhere.is_empty() && self.world.muster(|muster| muster.is_quorum(&self.elsewhere))
    }

    /// Finds out whether another process leads, or is in a later view.
    async fn probe(&mut self) -> Option<Led> {
        self.elsewhere.clear();
        let others = self.world.muster(|muster| muster.others());
        let addresses: Vec<SocketAddr> = others.iter().map(|(process, _)| process.address).collect();
        let answers = offer_all(self.world, &addresses, PROBE_US, 1).await;
        for ((process, is_before), answer) in others.into_iter().zip(answers) {
            if let Ok(answer) = &answer
                && !matches!(answer, Answer::Refused(_) | Answer::Stuck(_))
            {
                self.world.muster(|muster| muster.revive(process.address));
                if *answer != Answer::Elsewhere(self.own.address) {
                    self.elsewhere.push(process.id);
                }
            }
            match answer {
                // The run is in another view.
                Ok(answer @ Answer::Chosen(_)) if hear(self.world, &answer) => return Some(Led::Other),
                // That process leads, or does not know yet that the view has ended.
                Ok(Answer::Wait | Answer::Promise(_) | Answer::Accept(..)) if is_before => {
                    return Some(Led::Other);
                }
                Ok(Answer::Go(next, coordinator)) if self.world.muster(|muster| muster.go(&next)) => {
                    return Some(Led::Found(Found { next, coordinator, is_here: false }));
                }
                Err(NoAnswer::Gone) => self.world.muster(|muster| muster.lose([process.id])),
                Ok(_) | Err(NoAnswer::Late | NoAnswer::Failed(_)) => {}
            }
        }
        None
    }
}

/// The number of the last view that the process knows.
fn known<W: World>(world: &W) -> u64 {
    world.muster(|muster| muster.me().last.as_ref().map_or(0, |view| view.number))
}

/// The process gets an answer. Returns whether the process's offer has changed.
fn hear<W: World>(world: &W, answer: &Answer) -> bool {
    let was_member = world.muster(|muster| muster.is_member());
    let has_heard = world.muster(|muster| muster.hear(answer));
    if was_member && !world.muster(|muster| muster.is_member()) {
        world.say(Notice::StartsOver);
    }
    has_heard
}

/// The addresses to ask, in this order. An address has an id if it is that of a member of the last view.
fn candidates<W: World>(world: &W, door: Option<SocketAddr>) -> Vec<(Option<u64>, SocketAddr)> {
    world.muster(|muster| {
        let me = muster.me();
        match (&me.last, door) {
            (Some(view), _) => {
                let lives = |member: &&Process| !me.gone.contains(&member.id);
                view.members.iter().filter(lives).map(|member| (Some(member.id), member.address)).collect()
            }
            (None, Some(door)) => vec![(None, door)],
            (None, None) => Vec::new(),
        }
    })
}

/// Sends the process's offer to several processes at the same time. Returns the answer of each. A process
/// that does not answer is asked up to `tries` times.
async fn offer_all<W: World>(
    world: &W,
    at: &[SocketAddr],
    within_us: u64,
    tries: u32,
) -> Vec<Result<Answer, NoAnswer>> {
    let one = |at: SocketAddr| async move {
        for _ in 1..tries {
            let answer = world.offer(at, within_us).await;
            if answer != Err(NoAnswer::Late) {
                return answer;
            }
        }
        world.offer(at, within_us).await
    };
    let mut asked: Vec<_> = at.iter().map(|at| (Box::pin(one(*at)), None)).collect();
    poll_fn(|context| {
        for (asked, answer) in asked.iter_mut().filter(|(_, answer)| answer.is_none()) {
            if let Poll::Ready(ready) = asked.as_mut().poll(context) {
                *answer = Some(ready);
            }
        }
        if asked.iter().all(|(_, answer)| answer.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    asked.into_iter().filter_map(|(_, answer)| answer).collect()
}

/// Asks the process at `first`, and the processes to which it refers, again and again until there is
/// something new.
async fn ask_until<W: World>(
    world: &W,
    first: SocketAddr,
    limit: &mut Limit,
    was_there: &mut bool,
) -> Result<Answer, NoAnswer> {
    let (mut at, mut silences, mut redirections, mut quick) = (first, 0, 0, 0);
    let own = world.muster(|muster| muster.me().process.address);
    let mut mention = world.now().after(MENTION_US);
    // This process refers others to the process that it asks.
    let follow = |at| world.muster(|muster| muster.follow(at));
    follow(at);
    let joins = || !world.muster(|muster| muster.is_member());
    while world.now() < limit.deadline {
        let answer = world.offer(at, ANSWER_US).await;
        if let Ok(answer) = &answer
            && !matches!(answer, Answer::Refused(_))
        {
            world.muster(|muster| muster.revive(at));
            if joins() {
                limit.renew(world.now());
            }
        }
        match answer {
            Ok(answer @ (Answer::Wait | Answer::Promise(_) | Answer::Accept(..) | Answer::Chosen(_))) => {
                (silences, redirections, *was_there) = (0, 0, true);
                // The process that leads waits for the vote that it has asked for.
                if hear(world, &answer) {
                    quick = QUICK;
                    continue;
                }
                if world.now() >= mention && joins() {
                    world.say(Notice::WaitsAt(at));
                    mention = mention.after(MENTION_US * 4);
                }
            }
            Ok(Answer::Elsewhere(next)) if next == own => return Ok(Answer::Wait),
            Ok(Answer::Elsewhere(next)) => {
                redirections += 1;
                if redirections > REDIRECTIONS {
                    return Ok(Answer::Wait);
                }
                at = next;
                follow(at);
            }
            // The process that leads may be lost, and another process may have its address.
            Ok(Answer::Refused(reason)) if at != first => {
                silences += 1;
                if silences >= SILENCES {
                    return Err(NoAnswer::Failed(format!("{at}: {reason}")));
                }
                at = first;
                follow(at);
            }
            Ok(answer) => return Ok(answer),
            Err(NoAnswer::Gone) if at == first => return Err(NoAnswer::Gone),
            Err(error) => {
                silences += 1;
                if silences >= SILENCES {
                    let is_gone = error == NoAnswer::Gone;
                    let gone = || NoAnswer::Failed("the process that leads is gone".to_owned());
                    return Err(if is_gone { gone() } else { error });
                }
                at = first;
                follow(at);
            }
        }
        world.sleep(if quick > 0 { LOOK_US } else { PAUSE_US }).await;
        quick = quick.saturating_sub(1);
    }
    Ok(Answer::Wait)
}
