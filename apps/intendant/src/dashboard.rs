//! `intendant dashboard`: shows traces and running clusters in a browser.

use crate::stdout::print;
use clap::Args;
use intendant::{Rendezvous, Token};
use intendant_dashboard::{Dashboard, LiveAddress, Settings};
use intendant_web::token_in;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Show in a browser how parameters move: traces, and the numbers of a running cluster.
///
/// Prints the address of the page, and serves it until Ctrl-C. Prepared traces of the three training
/// programs are always there. The page works offline. It changes nothing on this machine and in the cluster;
/// the newest four uploads are kept in the folder for temporary files, until the dashboard ends.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  intendant dashboard\n  intendant dashboard --trace run1/trace --trace run2/trace\n  \
                        intendant kge --nodes 2 --metrics 9100, and in another terminal: intendant dashboard --live 9100\n\n\
                        Exit codes: 0 ended by Ctrl-C or SIGTERM, 1 failed, 2 wrong usage, no trace that can be shown, or an address that cannot be used."
)]
pub(crate) struct DashboardArgs {
    /// A trace: the folder of a run (as given to --trace of the training programs), a file of it, or a
    /// merged file. Repeat it for several. What is wrong with one is said at the start; if none can be
    /// shown, the program ends, unless it watches a cluster
    #[arg(long = "trace", value_name = "FILE|DIR")]
    traces: Vec<PathBuf>,

    /// A running cluster: the address of --metrics of one of its nodes. The token of its readers is made of
    /// that of the cluster (INTENDANT_TOKEN or INTENDANT_TOKEN_FILE), or in --live-token-file
    #[arg(long, value_name = "PORT|HOST:PORT")]
    live: Option<LiveAddress>,

    /// File with what 'intendant metrics-token' prints, where the token of the cluster is not known
    #[arg(long, value_name = "FILE", requires = "live")]
    live_token_file: Option<PathBuf>,

    /// Address of the page. With port 0, the operating system chooses one. Addresses that other machines can
    /// reach need --token-file
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7878")]
    listen: String,

    /// File with the token that opens the page: 32 to 64 hexadecimal digits. Open the address with
    /// ?token=TOKEN once; programs send 'Authorization: Bearer TOKEN'
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Another name under which the page may be opened, such as that of a proxy. Repeat it for several
    #[arg(long = "allow-host", value_name = "NAME")]
    hosts: Vec<String>,

    /// Mebibytes of an upload
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    upload_max: u64,

    /// Events of a trace; each takes about 50 bytes of memory
    #[arg(long, value_name = "N", default_value_t = 50_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    max_events: u64,

    /// Open the page in a browser
    #[arg(long)]
    open: bool,
}

/// Serves until a signal ends it.
pub(crate) fn run(args: DashboardArgs) -> ExitCode {
    let (code, message) = match serve(args) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(problem) => problem,
    };
    eprintln!("intendant: {message}");
    ExitCode::from(code)
}

/// Exit code of wrong usage.
const USAGE: u8 = crate::program::USAGE;

fn serve(args: DashboardArgs) -> Result<(), (u8, String)> {
    let read = |path: &Option<PathBuf>| {
        path.as_deref().map(read_token).transpose().map_err(|message| (USAGE, message))
    };
    let token = read(&args.token_file)?;
    let live_token = match (read(&args.live_token_file)?, &args.live) {
        (None, Some(_)) => {
            let token = Rendezvous::token_from_env().map_err(|error| (USAGE, error.to_string()))?;
            token.map(|token| token.of_readers())
        }
        (given, _) => given,
    };
    let hint = if token.is_some() { "?token=TOKEN" } else { "" };
    let settings = Settings {
        listen: args.listen,
        token,
        hosts: args.hosts,
        traces: args.traces,
        live: args.live,
        live_token,
        upload_bytes_max: args.upload_max << 20,
        events_max: args.max_events,
    };
    let ready = |address: SocketAddr| {
        // The unspecified address stands for all addresses of the machine; a browser cannot open it.
        let place = if address.ip().is_unspecified() {
            format!("ADDRESS-OF-THIS-MACHINE:{}", address.port())
        } else {
            address.to_string()
        };
        let line = format!("http://{place}/{hint}\n");
        // Users can open the page without this line, too.
        let _ = print(&line, 0);
        if args.open && !hint.is_empty() {
            // Other users of the machine can see the arguments of programs.
            eprintln!(
                "intendant: no browser was opened, because it would need the token: open the address yourself"
            );
        } else if args.open {
            open(&format!("http://{address}/"));
        }
    };
    Dashboard::run(settings, ready)
        .map_err(|error| (if error.is_usage() { USAGE } else { 1 }, error.to_string()))
}

/// Reads a token from a file, and tells if others can.
fn read_token(path: &Path) -> Result<Token, String> {
    let (token, exposed) = token_in(path).map_err(|error| error.to_string())?;
    exposed.into_iter().for_each(|exposed| eprintln!("intendant: {exposed}"));
    Ok(token)
}

/// Opens a page. Without a desktop, users open the printed address.
fn open(address: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let opened = Command::new(program)
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(error) = opened {
        eprintln!("intendant: cannot open a browser by {program}: {error}; open {address} yourself");
    }
}
