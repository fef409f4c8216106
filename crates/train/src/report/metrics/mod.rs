//! The metrics of a node while it trains: what its threads publish, and the endpoint that serves it.
//!
//! `board` has what threads publish, `catalogue` names the metrics, and `reading` makes them of the board and
//! of the node. If metrics are neither served nor pushed, there is no board, and threads publish nothing.

mod board;
mod catalogue;
mod observe;
mod place;
mod reading;

pub(crate) use board::{Before, Board, Costs, Queues, Watch};
pub(crate) use observe::Observe;
pub(crate) use place::Place;

use super::schema::Made;
use crate::error::TrainError;
use crate::settings::Plan;
use intendant::{NodeId, Rendezvous, Token};
use intendant_core::lock;
use intendant_metrics::{Address, Endpoint, EndpointError, Server, process};
use reading::{Reading, Run};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// The token of the cluster, or of the environment. Readers from other machines bring one that is made of it.
fn token(plan: &Plan) -> Result<Option<Token>, TrainError> {
    match &plan.rendezvous {
        Some(rendezvous) => Ok(rendezvous.cluster_token().cloned()),
        None => Rendezvous::token_from_env().map_err(TrainError::usage),
    }
}

fn resolve(address: &Address) -> Result<SocketAddr, TrainError> {
    address.resolve().map_err(|error| TrainError::usage(format!("--metrics {address}: {error}")))
}

fn without_token(address: &Address) -> TrainError {
    TrainError::usage(format!(
        "--metrics {address} can be reached from other machines, and there is no token from which that of readers is \
         made; set INTENDANT_TOKEN or INTENDANT_TOKEN_FILE (openssl rand -hex 32 makes a token), or name a loopback \
         address"
    ))
}

/// The address of the node that is the k-th of its machine.
fn nth(first: &Address, k: usize) -> Result<Address, TrainError> {
    first.nth(k).ok_or_else(|| {
        TrainError::usage(format!(
            "--metrics {first}: node {k} of this machine serves at port {} + {k}, and there is no such port; name a \
             smaller one",
            first.port()
        ))
    })
}

/// Checks the addresses of nodes that this process will start. Returns the cluster's token if they need one
/// for their metrics.
///
/// # Errors
/// If they need a token, and there is none: a token that the launcher makes is known to no reader.
pub(crate) fn token_of_launched(plan: &Plan) -> Result<Option<Token>, TrainError> {
    let Some(first) = &plan.metrics else { return Ok(None) };
    nth(first, plan.nodes - 1)?;
    if resolve(first)?.ip().is_loopback() {
        return Ok(None);
    }
    token(plan)?.map(Some).ok_or_else(|| without_token(first))
}

/// Whether metrics are pushed: a flag names the collector, or the environment.
fn is_pushed(plan: &Plan) -> bool {
    #[cfg(feature = "otlp")]
    let is_in_environment = intendant_metrics::otlp::is_in_environment();
    #[cfg(not(feature = "otlp"))]
    let is_in_environment = false;
    plan.otlp.is_some() || is_in_environment
}

/// Where this process serves its metrics. While it does not train, requests are answered with the status 503.
pub(crate) struct Site {
    /// Taken when nothing is trained any more.
    server: Mutex<Option<Server>>,
    /// Where they are served.
    address: Option<SocketAddr>,
    host: String,
    /// Whether the nodes may change: then it serves again, in another view.
    stays: bool,
    /// The last pushes of views, for which the process waits at its end.
    #[cfg(feature = "otlp")]
    pushes: Mutex<Vec<std::thread::JoinHandle<()>>>,
}

#[cfg(feature = "otlp")]
impl Drop for Site {
    fn drop(&mut self) {
        for push in lock(&self.pushes).drain(..) {
            // If it panicked, it has said so.
            let _ = push.join();
        }
    }
}

/// The metrics of this node, in a view.
pub(crate) struct Monitor {
    board: Arc<Board>,
    site: Arc<Site>,
}

/// Metrics that are served and pushed until this is dropped. The last push follows the last answer.
pub(crate) struct Serving {
    site: Arc<Site>,
    #[cfg(feature = "otlp")]
    push: Option<intendant_metrics::otlp::Push>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        #[cfg(feature = "otlp")]
        if self.site.stays
            && let Some(push) = self.push.take()
        {
            // The others do not wait until this node's collector has answered.
            let last = std::thread::Builder::new().name("otlp-last".to_owned()).spawn(move || drop(push));
            lock(&self.site.pushes).extend(last.ok());
        }
        let mut server = lock(&self.site.server);
        match &*server {
            Some(server) if self.site.stays => server.hide(),
            Some(_) | None => drop(server.take()),
        }
    }
}

impl Site {
    /// Listens at the address that the plan names for this node; `None` if metrics are neither served nor
    /// pushed.
    pub(crate) fn listen(plan: &Plan) -> Result<Option<Arc<Self>>, TrainError> {
        let endpoint = match &plan.metrics {
            None if !is_pushed(plan) => return Ok(None),
            None => None,
            Some(first) => Some(bind(first, plan)?),
        };
        let address = endpoint.as_ref().map(Endpoint::address);
        let server = endpoint.map(Endpoint::open).transpose().map_err(not_served)?;
        if let Some(address) = address {
            tracing::info!("metrics: http://{address}/metrics");
        }
        let (server, host) = (Mutex::new(server), process::host_name());
        Ok(Some(Arc::new(Self {
            server,
            address,
            host,
            stays: plan.copies > 0,
            #[cfg(feature = "otlp")]
            pushes: Mutex::default(),
        })))
    }

    /// The metrics of a view.
    pub(crate) fn monitor(self: &Arc<Self>, plan: &Plan) -> Monitor {
        Monitor { board: Arc::new(Board::new(plan.workers, plan.nodes)), site: Arc::clone(self) }
    }
}

impl Monitor {
    pub(crate) const fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// What a person reads to find the metrics, if they are served.
    pub(crate) fn announcement(&self, rank: u16) -> Option<String> {
        let address = self.site.address?;
        let hint = if address.ip().is_loopback() { "" } else { " (token: intendant metrics-token)" };
        Some(format!("metrics of node {rank}: http://{address}/metrics{hint}"))
    }

    /// Where this node serves its metrics, for the other nodes.
    pub(crate) fn place(&self) -> Option<Place> {
        let Site { address, host, .. } = &*self.site;
        let address = (*address)?;
        let is_local = address.ip().is_loopback();
        let text = if address.ip().is_unspecified() {
            format!("{host}:{}", address.port())
        } else {
            address.to_string()
        };
        Some(Place { address: text, only_on: is_local.then(|| host.clone()) })
    }

    /// Nodes have told where they serve their metrics.
    pub(crate) fn meet(&self, places: &[Option<Place>]) {
        self.board.meet(places, &self.site.host);
    }

    /// Serves and pushes the metrics until what is returned is dropped.
    pub(crate) fn serve(
        &self,
        (plan, task, rank): (&Plan, &str, u16),
        node: Arc<dyn Observe>,
        made: Made,
    ) -> Result<Serving, TrainError> {
        if rank == 0 && plan.checkpoints.folder.is_some() {
            self.board.begin_checkpoints(made);
        }
        let run = Run {
            program: plan.program.clone(),
            version: plan.version.clone(),
            technique: plan.technique.name(),
            task: task.to_owned(),
            rank,
            nodes: plan.nodes,
            workers: plan.workers,
            epochs: plan.epochs,
        };
        let reading = Arc::new(Reading::new(run, Arc::clone(&self.board), node));
        #[cfg(feature = "otlp")]
        let push = is_pushed(plan).then(|| {
            let source = Arc::clone(&reading) as Arc<dyn intendant_metrics::Source>;
            intendant_metrics::otlp::Push::start(source, "intendant", plan.otlp.as_deref())
        });
        if let Some(server) = &*lock(&self.site.server) {
            server.show(reading);
        }
        Ok(Serving {
            site: Arc::clone(&self.site),
            #[cfg(feature = "otlp")]
            push: push.transpose().map_err(|error| TrainError::usage(format!("--otlp: {error}")))?,
        })
    }
}

fn not_served(error: EndpointError) -> TrainError {
    TrainError::Stopped(format!("metrics cannot be served: {error}"))
}

/// Binds the address of this node; `first` is that of the first node of the machine. A node that joins a run
/// does not know how many are here: it takes the first address that is free.
fn bind(first: &Address, plan: &Plan) -> Result<Endpoint, TrainError> {
    let here = plan.rendezvous.as_ref().map_or(0, |rendezvous| rendezvous.local().0);
    let of_readers = token(plan)?.map(|token| token.of_readers());
    let is_taken = |error: &EndpointError| {
        let kind = match error {
            EndpointError::Bind { source, .. } => Some(source.kind()),
            EndpointError::NoToken { .. } | EndpointError::Start(_) => None,
        };
        kind == Some(io::ErrorKind::AddrInUse)
    };
    let mut k = here;
    let (own, endpoint) = loop {
        let own = nth(first, k)?;
        let endpoint = Endpoint::bind(resolve(&own)?, of_readers.as_ref());
        if plan.join.is_none() || !endpoint.as_ref().is_err_and(is_taken) {
            break (own, endpoint);
        }
        k += 1;
    };
    let endpoint = endpoint.map_err(|error| match error {
        EndpointError::NoToken { .. } => without_token(&own),
        error @ EndpointError::Bind { .. } => {
            TrainError::usage(format!("--metrics: {error}; name another address"))
        }
        error @ EndpointError::Start(_) => not_served(error),
    })?;
    let is_first = plan.rendezvous.as_ref().is_none_or(|rendezvous| rendezvous.rank() == NodeId(0));
    let is_encrypted = plan.rendezvous.as_ref().is_some_and(|rendezvous| rendezvous.cluster_tls().is_some());
    if is_first && is_encrypted && !endpoint.address().ip().is_loopback() {
        tracing::warn!(
            "--metrics {own}: TLS encrypts the connections between nodes, and not the metrics: the numbers and the \
             token of readers, as `intendant metrics-token` prints it, can be read on the way"
        );
    }
    Ok(endpoint)
}

#[cfg(test)]
mod pages_tests;
#[cfg(test)]
mod tests;
