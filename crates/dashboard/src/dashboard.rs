//! The server as a whole.

use crate::answer::Refusal;
use crate::api::{self, App};
use crate::error::DashboardError;
use crate::guarded::Guarded;
use crate::library::Library;
use crate::live::{Live, LiveAddress};
use intendant_transport::{Token, check_runtime_fits};
use intendant_web::{Clients, Ended, Gate, Limits, bind, serve};
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// The bounds of the server. A browser opens up to six connections.
const LIMITS: Limits = Limits { connections: 64, end_within: Duration::from_secs(2) };

/// The settings of a dashboard.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address to listen on, `HOST:PORT`. With port 0, the operating system chooses one.
    pub listen: String,
    /// The token that requests must bring. Without a token, only programs of this machine may send requests.
    pub token: Option<Token>,
    /// Further names under which the page may be opened.
    pub hosts: Vec<String>,
    /// Traces to show: folders of a run, files of nodes, merged files.
    pub traces: Vec<PathBuf>,
    /// The address of a node of a running cluster, which the dashboard watches.
    pub live: Option<LiveAddress>,
    /// The readers' token of that cluster: `Token::of_readers` of the cluster's token.
    pub live_token: Option<Token>,
    /// The most bytes of an upload.
    pub upload_bytes_max: u64,
    /// The most events of a run.
    pub events_max: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7878".to_owned(),
            token: None,
            hosts: Vec::new(),
            traces: Vec::new(),
            live: None,
            live_token: None,
            upload_bytes_max: 512 << 20,
            events_max: 50_000_000,
        }
    }
}

/// A dashboard that listens.
#[derive(Debug)]
pub struct Dashboard {
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App>,
    gate: Arc<Gate>,
    /// The ids of the given traces that were not tried yet.
    unread: Vec<String>,
}

/// Reads the given traces up to the first one that can be shown. Returns the ids of those that it has not
/// read.
async fn check(library: &Arc<Library>, has_more: bool) -> Result<Vec<String>, DashboardError> {
    let (mut given, mut reasons) = (library.given().into_iter(), Vec::new());
    let mut is_any = given.len() == 0 || has_more;
    for (id, path) in given.by_ref() {
        match library.open(&id).await {
            Ok(_) => {
                is_any = true;
                break;
            }
            Err(refusal) => reasons.push(reason(&path, &refusal)),
        }
    }
    if !is_any {
        return Err(DashboardError::Unusable { reasons });
    }
    reasons.iter().for_each(|reason| tracing::error!("a trace cannot be shown: {reason}"));
    Ok(given.map(|(id, _)| id).collect())
}

/// Why a trace cannot be shown, with its path.
fn reason(path: &Path, refusal: &Refusal) -> String {
    let (path, reason) = (path.display().to_string(), refusal.reason());
    if reason.contains(&path) { reason.to_owned() } else { format!("{path}: {reason}") }
}

impl Dashboard {
    /// Binds the address, and reads the given traces up to the first one that can be shown; logs why the
    /// traces before it cannot. [`Self::serve`] reads the remaining given traces. All other runs are read
    /// when a request asks for them.
    ///
    /// # Errors
    /// If the address cannot be used or needs a token, if a trace does not exist, or if none of the given
    /// traces can be shown and no cluster is watched.
    pub async fn bind(settings: Settings) -> Result<Self, DashboardError> {
        let (listener, address) = bind(&settings.listen, settings.token.is_some()).await?;
        let mut hosts = settings.hosts;
        hosts.extend(settings.listen.rsplit_once(':').map(|(host, _)| host.to_owned()));
        let system = |what| move |source| DashboardError::System { what, source };
        let gate = Gate::new(Clients::Browsers, address, hosts, settings.token)
            .map_err(|error| system("take random numbers")(std::io::Error::other(error)))?;
        let library = Arc::new(Library::new(settings.traces, settings.events_max)?);
        let live = settings.live.map(|address| Live::new(address, settings.live_token));
        let unread = check(&library, live.is_some()).await?;
        let app = App::new(library, live, settings.upload_bytes_max);
        Ok(Self { listener, address, app: Arc::new(app), gate: Arc::new(gate), unread })
    }

    /// The address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts a dashboard, calls `ready` with its address, and serves until Ctrl-C or SIGTERM.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn run(settings: Settings, ready: impl FnOnce(SocketAddr)) -> Result<(), DashboardError> {
        let system = |what| move |source| DashboardError::System { what, source };
        let runtime = check_runtime_fits()
            .and_then(|()| tokio::runtime::Builder::new_multi_thread().enable_all().build())
            .map_err(system("start the threads of the server"))?;
        let served = runtime.block_on(async {
            // Signals are caught from now on, so that none is lost before the dashboard serves.
            let mut ended = Ended::listen().map_err(system("listen for signals"))?;
            let dashboard = Self::bind(settings).await?;
            ready(dashboard.address());
            dashboard.serve(ended.wait()).await;
            Ok(())
        });
        // A normal shutdown would wait until a trace that is being read is complete.
        runtime.shutdown_background();
        served
    }

    /// Serves until `end`, and then finishes the requests under way.
    pub async fn serve(self, end: impl Future<Output = ()>) {
        let (library, unread) = (Arc::clone(self.app.library()), self.unread);
        let read = tokio::spawn(async move {
            let given = library.given();
            for (id, path) in given.into_iter().filter(|(id, _)| unread.contains(id)) {
                if let Err(refusal) = library.open(&id).await {
                    tracing::error!("a trace cannot be shown: {}", reason(&path, &refusal));
                }
            }
        });
        let watch = self.app.live().map(|live| tokio::spawn(live.clone().watch()));
        serve(self.listener, LIMITS, None, Guarded::new(api::router(self.app), self.gate), end).await;
        read.abort();
        if let Some(watch) = watch {
            watch.abort();
        }
    }
}
