//! The service as a whole: it starts, takes up new models, and ends.

use crate::args::ServeArgs;
use crate::body::Bounds;
use crate::counts::Counts;
use crate::current::Current;
use crate::desk::Desk;
use crate::error::ServeError;
use crate::openapi;
use crate::program::Program;
use crate::site::Site;
use intendant_transport::{ServerTls, check_runtime_fits};
use intendant_web::{Clients, Ended, Gate, Limits, bind, serve, token_in};
use rustix::process::{Resource, getrlimit};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;

/// How often the files of the model are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// How much longer than a request the end of the service may take.
const END_SLACK: Duration = Duration::from_secs(1);

/// File descriptors that are no connections.
const OTHER_FILES: u64 = 64;

/// Serves a model until Ctrl-C or SIGTERM, and then finishes the requests under way. Prints the address to
/// standard output once it is served.
///
/// # Errors
/// If the model cannot be read, or the service cannot be started.
pub fn run(program: &'static Program, args: &ServeArgs) -> Result<(), ServeError> {
    let system = |what| move |source| ServeError::System { what, source };
    let token = args.token_file.as_deref().map(token_in).transpose()?;
    let token = token.map(|(token, exposed)| {
        exposed.into_iter().for_each(|exposed| tracing::warn!("{exposed}"));
        token
    });
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(cert), Some(key)) => Some(ServerTls::load(cert, key)?),
        _ => None,
    };
    let counts = Arc::new(Counts::new(program.endpoints));
    let runtime = check_runtime_fits()
        .and_then(|()| tokio::runtime::Builder::new_multi_thread().enable_all().build())
        .map_err(system("start the threads of the server"))?;
    let served = runtime.block_on(async {
        // Signals are caught from now on, so that none is lost before the service answers.
        let mut ended = Ended::listen().map_err(system("listen for signals"))?;
        let renew = signal(SignalKind::hangup()).map_err(system("listen for SIGHUP"))?;
        let (listener, address) = bind(&args.listen, token.is_some()).await?;
        let bounds = Bounds {
            bytes: (args.max_body as usize) << 10,
            questions: args.max_questions as usize,
            k: args.max_k as usize,
        };
        let within = Duration::from_secs(args.timeout.into());
        let described = openapi::describe(program, bounds, token.is_some());
        let mut hosts = args.hosts.clone();
        hosts.extend(args.listen.rsplit_once(':').map(|(host, _)| host.to_owned()));
        let gate = Gate::new(Clients::Programs, address, hosts, token)
            .map_err(|error| system("take random numbers")(io::Error::other(error)))?;
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = args.threads.map_or_else(cores, usize::from);
        let (folder, counted) = (args.model.clone(), Arc::clone(&counts));
        let loading = tokio::task::spawn_blocking(move || Current::open(&folder, program, counted));
        let loaded = tokio::select! {
            loaded = loading => loaded,
            () = ended.wait() => return Ok(()),
        };
        let current = Arc::new(loaded.map_err(|error| system("read the model")(io::Error::other(error)))??);
        let desks: io::Result<Vec<Desk>> = (0..)
            .zip(program.endpoints)
            .map(|(at, endpoint)| Desk::open(at, endpoint, threads, Arc::clone(&counts)))
            .collect();
        let desks = desks.map_err(system("start a thread"))?;
        let site =
            Site::new(gate, (program, Arc::clone(&current)), (desks, counts), (bounds, within), &described);
        let watch = tokio::spawn(watch(current, renew));
        tell(address, tls.is_some());
        let limits =
            Limits { connections: connections(args.max_connections), end_within: within + END_SLACK };
        serve(listener, limits, tls, site, ended.wait()).await;
        watch.abort();
        Ok(())
    });
    // A normal shutdown would wait for a model that is being read.
    runtime.shutdown_background();
    served
}

/// The connections that this process may have: those that it is told to, if it may open as many files.
fn connections(told: u32) -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let most = files.saturating_sub(OTHER_FILES).max(1);
    usize::try_from(most.min(told.into())).unwrap_or(usize::MAX)
}

/// Prints the address.
fn tell(address: SocketAddr, is_encrypted: bool) {
    let scheme = if is_encrypted { "https" } else { "http" };
    // The unspecified address stands for all addresses of the machine; clients cannot call it.
    let place = match address.ip().is_unspecified() {
        true => format!("ADDRESS-OF-THIS-MACHINE:{}", address.port()),
        false => address.to_string(),
    };
    let mut out = io::stdout().lock();
    // Clients can use the address without this line, too.
    let _ = writeln!(out, "{scheme}://{place}/").and_then(|()| out.flush());
}

/// Reads the model again on SIGHUP, and when its files have changed.
async fn watch(current: Arc<Current>, mut renew: tokio::signal::unix::Signal) {
    let mut timer = tokio::time::interval(LOOK);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_asked = tokio::select! {
            _ = timer.tick() => false,
            _ = renew.recv() => true,
        };
        let current = Arc::clone(&current);
        let look = move || {
            if is_asked || current.has_changed() {
                current.renew();
            }
        };
        if let Err(error) = tokio::task::spawn_blocking(look).await {
            tracing::error!("the new model cannot be read, and the last one stays: {error}");
        }
    }
}
