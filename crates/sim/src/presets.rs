//! Networks and machines by name, and parsers for TOML files that describe others.
//!
//! The presets are files of this crate (`presets/`) and examples of the format. `docs/experiments.md` derives
//! every constant. A file must set all fields of its kind and no others.

use crate::machine::Machine;
use crate::network::Network;
use crate::spread::Spread;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Named networks: (name, text of the file).
pub const NETWORKS: [(&str, &str); 3] = [
    ("10gbe", include_str!("../presets/net-10gbe.toml")),
    ("100gib", include_str!("../presets/net-100gib.toml")),
    ("56gib", include_str!("../presets/net-56gib.toml")),
];

/// Named machines: (name, text of the file).
pub const MACHINES: [(&str, &str); 4] = [
    ("xeon-e5-2640v2", include_str!("../presets/machine-xeon-e5-2640v2.toml")),
    ("xeon-silver-4216", include_str!("../presets/machine-xeon-silver-4216.toml")),
    ("xeon-silver-4216-petuum", include_str!("../presets/machine-xeon-silver-4216-petuum.toml")),
    ("xeon-e5-36-cores", include_str!("../presets/machine-xeon-e5-36-cores.toml")),
];

/// Why a network or machine file is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason}", line.map_or(String::new(), |line| format!("line {line}: ")))]
pub struct PresetError {
    /// Line, from 1, if the error concerns one line.
    pub line: Option<usize>,
    /// What is wrong.
    pub reason: String,
}

/// The fields of a network's file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkFile {
    gigabits_per_second: f64,
    latency_us: f64,
    spread_us: f64,
    tail_once_in: u64,
    frame_bytes: u64,
}

/// Upper bounds: a minute for networks, a second for machines. Larger numbers have a wrong unit.
const NETWORK_US_MAX: f64 = 60e6;
const MACHINE_MAX: u64 = 1_000_000_000;

fn parse<F: DeserializeOwned>(text: &str) -> Result<F, PresetError> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
        PresetError { line, reason: error.message().trim_end().replace('\n', " ") }
    })
}

fn refuse<X>(text: &str, field: &str, reason: &str) -> Result<X, PresetError> {
    let line = text.lines().position(|line| line.trim_start().starts_with(field)).map(|at| at + 1);
    Err(PresetError { line, reason: format!("{field} {reason}") })
}

/// The network with this name.
#[must_use]
pub fn network(name: &str) -> Option<Network> {
    let (_, text) = NETWORKS.iter().find(|(known, _)| *known == name)?;
    Some(network_of(text).expect("presets are valid"))
}

/// A network from the text of a file.
///
/// # Errors
/// If a field is missing, unknown or out of range.
pub fn network_of(text: &str) -> Result<Network, PresetError> {
    let file: NetworkFile = parse(text)?;
    if !(file.gigabits_per_second >= 1e-3 && file.gigabits_per_second <= 1e5) {
        return refuse(text, "gigabits_per_second", "must be between 0.001 and 100000");
    }
    for (field, us) in [("latency_us", file.latency_us), ("spread_us", file.spread_us)] {
        if !(0.0..=NETWORK_US_MAX).contains(&us) {
            return refuse(text, field, "must be between 0 and 60000000");
        }
    }
    if file.frame_bytes > 1 << 20 {
        return refuse(text, "frame_bytes", "must not be greater than 1048576");
    }
    let min_ns = (file.latency_us * 1e3).round() as u64;
    let max_ns = min_ns + (file.spread_us * 1e3).round() as u64;
    Ok(Network {
        latency: Spread { min_ns, max_ns, tail_once_in: file.tail_once_in },
        byte_ps: Network::byte_ps_of(file.gigabits_per_second),
        frame_bytes: file.frame_bytes,
    })
}

/// The machine with this name.
#[must_use]
pub fn machine(name: &str) -> Option<Machine> {
    let (_, text) = MACHINES.iter().find(|(known, _)| *known == name)?;
    Some(machine_of(text).expect("presets are valid"))
}

/// A machine from the text of a file.
///
/// # Errors
/// If a field is missing, unknown or out of range.
pub fn machine_of(text: &str) -> Result<Machine, PresetError> {
    let machine: Machine = parse(text)?;
    if machine.nodes_per_core > 0 && machine.cores > 0 {
        return refuse(text, "nodes_per_core", "must be 0 if cores is not 0");
    }
    for (field, value) in [
        ("call_ns", machine.call_ns),
        ("key_ns", machine.key_ns),
        ("byte_ps", machine.byte_ps),
        ("multiply_add_ps", machine.multiply_add_ps),
        ("prepare_ns", machine.prepare_ns),
        ("wake_ns", machine.wake_ns),
        ("input_ns", machine.input_ns),
        ("input_key_ns", machine.input_key_ns),
        ("send_ns", machine.send_ns),
        ("channel_byte_ps", machine.channel_byte_ps),
    ] {
        if value > MACHINE_MAX {
            return refuse(text, field, "must not be greater than 1000000000");
        }
    }
    Ok(machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_valid_and_differ() {
        let networks = NETWORKS.map(|(name, _)| crate::presets::network(name).expect("it is one"));
        assert!(networks[0].byte_ps > 5 * networks[1].byte_ps);
        assert!(networks[0].latency.min_ns > networks[1].latency.max_ns);
        let machines = MACHINES.map(|(name, _)| crate::presets::machine(name).expect("it is one"));
        assert!(machines[0].multiply_add_ps > machines[1].multiply_add_ps);
        let Machine { byte_ps, channel_byte_ps, .. } = machines[2];
        assert_eq!(machines[2], Machine { byte_ps, channel_byte_ps, ..machines[1] });
        assert_eq!((crate::presets::network("10gb"), crate::presets::machine("")), (None, None));
    }

    /// Constants of chapter 4 come from those of chapter 3 by one factor. There, I/O threads copy from and to
    /// sockets, so a channel copies a byte as a worker does.
    #[test]
    fn what_a_machine_does_itself_scales_by_one_factor() {
        let constants = |name| {
            let machine = crate::presets::machine(name).expect("it is one");
            let worker = [machine.call_ns, machine.key_ns, machine.byte_ps, machine.multiply_add_ps];
            let channel = [machine.input_ns, machine.input_key_ns, machine.send_ns];
            [&worker[..], &channel, &[machine.prepare_ns]].concat()
        };
        for (old, new) in constants("xeon-e5-2640v2").into_iter().zip(constants("xeon-silver-4216")) {
            assert!((new as f64 / old as f64 - 0.6).abs() < 0.015, "{old} and {new}");
        }
        let machine = crate::presets::machine("xeon-silver-4216").expect("it is one");
        assert_eq!(machine.channel_byte_ps, machine.byte_ps);
    }

    /// [thesis Tab. 3.4], 10 m × 1 m matrix: 316,000 keys per second and thread. A step pulls and pushes two
    /// values of 100 doubles; `mf` counts 700 multiply-adds for it.
    #[test]
    fn a_thread_factorises_as_fast_as_in_the_paper() {
        let machine = crate::presets::machine("xeon-e5-2640v2").expect("it is one");
        let step_ns = 2 * machine.call(2, 2 * 800) + 700 * machine.multiply_add_ps / 1_000;
        let keys_per_second = 2e9 / step_ns as f64;
        assert!((keys_per_second / 316e3 - 1.0).abs() < 0.1, "{keys_per_second}");
    }

    #[test]
    fn errors_name_line_and_field() {
        let (_, good) = NETWORKS[0];
        let error = |text: &str| crate::presets::network_of(text).expect_err("refused").to_string();
        let line = |field: &str| 1 + good.lines().position(|l| l.starts_with(field)).expect("a field");
        let at = line("latency_us");
        let unknown = error(&good.replace("latency_us = ", "latency_ms = "));
        assert!(unknown.starts_with(&format!("line {at}: ")) && unknown.contains("latency_ms"), "{unknown}");
        let missing = error(&good.replace("latency_us = 30\n", ""));
        assert!(missing.contains("latency_us"), "{missing}");
        let text = error(&good.replace("latency_us = 30", "latency_us = \"30\""));
        assert!(text.starts_with(&format!("line {at}: ")), "{text}");
        let negative = error(&good.replace("latency_us = 30", "latency_us = -30"));
        assert!(negative.starts_with(&format!("line {at}: latency_us must be between")), "{negative}");
        for bad in ["0", "nan", "inf", "-1"] {
            let refused =
                error(&good.replace("gigabits_per_second = 9.41", &format!("gigabits_per_second = {bad}")));
            assert!(refused.contains("gigabits_per_second must be between"), "{refused}");
        }
        let (_, good) = MACHINES[0];
        let error = |text: &str| crate::presets::machine_of(text).expect_err("refused").to_string();
        assert!(error(&good.replace("cores = ", "core = ")).contains("core"));
        let huge = error(&good.replace("key_ns = 920\n", "key_ns = 9000000000\n"));
        assert!(huge.contains("key_ns must not be greater"), "{huge}");
        let both = error(&format!("{good}\nnodes_per_core = 2\n"));
        assert!(both.contains("nodes_per_core must be 0"), "{both}");
        let shared = good.replace("cores = 16", "cores = 0\nnodes_per_core = 2");
        assert_eq!(crate::presets::machine_of(&shared).map(|machine| machine.nodes_per_core), Ok(2));
    }
}
