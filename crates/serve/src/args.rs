//! The flags of a service.

use clap::Args;
use std::path::PathBuf;

// What is served, to whom and within which bounds. (Not a documentation comment: it would become the
// description of the command.)
#[derive(Args, Clone, Debug)]
#[allow(missing_docs)]
pub struct ServeArgs {
    /// Folder that --export wrote. A new export in its place is taken up, and on SIGHUP
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// Address of the service. With port 0, the operating system chooses one. Addresses that other machines
    /// can reach need --token-file
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7879")]
    pub listen: String,

    /// File with the token that requests must bring, as 'Authorization: Bearer TOKEN': 32 to 64 hexadecimal
    /// digits
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// Another name by which requests may call the service, such as that of a proxy. Repeat it for several
    #[arg(long = "allow-host", value_name = "NAME")]
    pub hosts: Vec<String>,

    /// Certificate of the service, in PEM: connections are encrypted
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// The private key of --tls-cert
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Threads that search [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,

    /// Answers that a question may ask for
    #[arg(long, value_name = "K", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_k: u32,

    /// Questions of a request
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_questions: u32,

    /// Kibibytes of a request
    #[arg(long, value_name = "KIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub max_body: u32,

    /// Connections at the same time
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub max_connections: u32,

    /// Seconds that a request may take
    #[arg(
        long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600),
    )]
    pub timeout: u32,
}
