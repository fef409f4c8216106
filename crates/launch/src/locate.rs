//! The address of a Slurm node: its name, or else the address in Slurm's configuration.
//!
//! Names in Slurm's configuration need not be names of the network: clusters in clouds and several nodes on
//! one machine have addresses of their own (`NodeAddr`). `scontrol` knows them. This module asks it only if
//! the name has no address, because `scontrol` asks Slurm's controller, and a thousand tasks would ask at
//! once.

use crate::error::RendezvousError;
use std::io::Read;
use std::net::ToSocketAddrs;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long `scontrol` may take. It gives up by itself after a few times Slurm's message timeout of 10 s.
const PATIENCE: Duration = Duration::from_secs(30);

/// A name or address under which `node` is known here.
pub(crate) fn locate(node: String) -> Result<String, RendezvousError> {
    let known = |host: &str| (host, 0).to_socket_addrs().map(|_| ());
    let Err(unknown) = known(&node) else { return Ok(node) };
    let found = ask_slurm(&node).and_then(|address| match known(&address) {
        Ok(()) => Ok(address),
        Err(error) => Err(format!("its NodeAddr {address}: {error}")),
    });
    found.map_err(|detail| RendezvousError::Nowhere { detail: format!("{unknown}; {detail}"), host: node })
}

/// The address of a node in Slurm's configuration.
fn ask_slurm(node: &str) -> Result<String, String> {
    let mut command = Command::new("scontrol");
    command.args(["--oneliner", "show", "node", node]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("scontrol cannot be started: {error}"))?;
    let mut output = child.stdout.take().ok_or("scontrol says nothing")?;
    let (done, waiting) = mpsc::channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        let read = output.read_to_end(&mut text).map(|_| String::from_utf8_lossy(&text).into_owned());
        // The receiver is gone if the command took too long.
        let _ = done.send(read);
    });
    let text = waiting.recv_timeout(PATIENCE);
    // The command's output is complete or not wanted any more. If the command has ended, there is nothing to
    // kill.
    let _ = child.kill();
    let _ = child.wait();
    match text {
        Ok(Ok(text)) => address(&text).ok_or_else(|| "scontrol names no NodeAddr".to_owned()),
        Ok(Err(error)) => Err(format!("scontrol cannot be read: {error}")),
        Err(_) => Err(format!("scontrol did not answer within {} s", PATIENCE.as_secs())),
    }
}

fn address(text: &str) -> Option<String> {
    let address = text.split_whitespace().find_map(|word| word.strip_prefix("NodeAddr="))?;
    Some(address.to_owned()).filter(|address| !address.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_network_knows_is_taken_as_it_is() {
        assert_eq!(locate("127.0.0.1".to_owned()).expect("known"), "127.0.0.1");
    }

    #[test]
    fn an_unknown_name_is_an_error_that_says_what_to_set() {
        let error = locate("no-such-host.invalid".to_owned()).expect_err("unknown").to_string();
        for part in ["no-such-host.invalid", "scontrol", "MASTER_ADDR"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn the_address_is_found_among_what_scontrol_says() {
        let line = "NodeName=n1 Arch=x86_64 CPUTot=2 NodeAddr=127.0.0.1 NodeHostName=vm Port=16821";
        assert_eq!(address(line).as_deref(), Some("127.0.0.1"));
        assert_eq!(address("Node n9 not found"), None);
        assert_eq!(address("NodeName=n1 NodeAddr= Port=1"), None);
    }
}
