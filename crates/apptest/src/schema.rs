//! What `docs/report.md` says of reports, to be compared with what is in them.

use crate::technique;
use serde_json::Value;
use std::collections::BTreeSet;

/// The version of the schema.
pub const SCHEMA: &str = "intendant.report/1";

/// Members of a run but `config`, `epochs`, `test`, `simulation` and the [`COUNTS`].
const RUN: [&str; 11] = [
    "schema",
    "task",
    "technique",
    "seed",
    "nodes",
    "workers_per_node",
    "simulated",
    "data_digest",
    "model.keys",
    "model.values",
    "model.bytes",
];
/// Members of the first line of a history.
const HISTORY: [&str; 8] =
    ["schema", "task", "technique", "seed", "nodes", "workers_per_node", "simulated", "config"];
/// Members of an epoch but `quality` and the [`COUNTS`].
const EPOCH: [&str; 5] = ["epoch", "seconds", "cpu_seconds", "examples", "loss"];
/// Members of runs and of epochs beside those of [`statistics`].
const COUNTS: [&str; 3] =
    ["access.remote_share", "access.remote_share_after_5_percent", "management.syncs_per_second"];
/// Members of a run with static replicas.
const REPLICATED: [&str; 2] = ["model.replicated.keys", "model.replicated.bytes"];
/// The same, if it is known how often keys are accessed, or if all are replicated.
const SHARE: &str = "model.replicated.access_share";
/// Members of a run that draws samples, beside those of [`statistics`].
const SAMPLING: [&str; 2] = ["sampling.level", "sampling.scheme"];
/// The same, if the scheme has pools.
const POOLS: [&str; 2] = ["sampling.pool_keys", "sampling.pool_uses"];
/// Members of a run with checkpoints.
const CHECKPOINTS: [&str; 4] =
    ["checkpoints.count", "checkpoints.bytes", "checkpoints.stop_ms", "checkpoints.write_ms"];
/// Members of a run of a task with a trivial predictor.
const BASELINE: [&str; 3] = ["baseline.name", "baseline.metric", "baseline.value"];

/// Members of a run whose epochs are compared. Without any validation, there is no best one.
const VALIDATION: [&str; 3] = ["validation.metric", "validation.best_epoch", "validation.ended_early"];
/// Members of a simulated run.
const SIMULATED: [&str; 9] = [
    "simulation.net",
    "simulation.machine",
    "simulation.charge",
    "simulation.charge_compute",
    "simulation.events",
    "simulation.channel_busy",
    "simulation.channel_wait_ms",
    "simulation.nic_busy",
    "simulation.worker_busy",
];

/// Members of runs and of epochs with `--bound`; the staleness is absent if it is that of an epoch.
const BOUND: [&str; 3] = ["bound.sent_bytes", "bound.least[].bytes", "bound.least[].ratio"];
/// The same, of a staleness in milliseconds.
const STALENESS: &str = "bound.least[].staleness_ms";

/// Members of runs and of epochs of a program whose nodes exchange values.
const ONE_SIDED: [&str; 10] = [
    "one_sided.sets",
    "one_sided.gets",
    "one_sided.gets_waited",
    "one_sided.writes",
    "one_sided.written_bytes",
    "one_sided.reads",
    "one_sided.read_bytes",
    "one_sided.torn",
    "one_sided.stale",
    "one_sided.seconds",
];

fn page() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/report.md");
    std::fs::read_to_string(page).expect("docs/report.md")
}

/// The members of a section whose table is generated: the page has it between two comments. A unit with
/// `p50` is that of a distribution.
fn statistics(section: &str) -> Vec<String> {
    let page = page();
    let (_, table) = page.split_once(&format!("<!-- {section}: ")).expect("a table begins");
    let (table, _) = table.split_once("<!-- end -->").expect("a table ends");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let paths = |(member, rest): (&str, &str)| {
        let parts: &[&str] = if rest.contains("`p50`") { &[".mean", ".p50", ".p99"] } else { &[""] };
        parts.iter().map(|part| format!("{section}.{member}{part}")).collect::<Vec<_>>()
    };
    rows.flat_map(paths).collect()
}

/// Members of runs and of epochs.
fn counts() -> Vec<String> {
    let tables = ["access", "management", "network"].into_iter().flat_map(statistics);
    tables.chain(COUNTS.map(str::to_owned)).collect()
}

/// Every path below `value`, with `[]` for the elements of arrays; what is empty is a path itself.
fn paths(value: &Value, at: &str, all: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            let below = |name: &String| if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
            members.iter().for_each(|(name, value)| paths(value, &below(name), all));
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().for_each(|item| paths(item, &format!("{at}[]"), all));
        }
        Value::Object(_)
        | Value::Array(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_) => {
            all.insert(at.to_owned());
        }
    }
}

#[track_caller]
fn has(found: &Value, documented: impl IntoIterator<Item = String>, what: &str) {
    let mut members = BTreeSet::new();
    paths(found, "", &mut members);
    assert_eq!(members, documented.into_iter().collect(), "{what}: members here, members documented");
}

/// The report has the documented members and no others. What a run is tested by are the members `quality`; so
/// is an epoch if it is one after which `--valid-every` asks for a validation, and no other (0: none is).
///
/// # Panics
/// If not.
#[track_caller]
pub fn check(report: &Value, quality: &[&str], valid_every: usize) {
    assert_eq!(report["schema"], SCHEMA);
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let of = |place: &str| quality.iter().map(|name| format!("{place}.{name}")).collect::<Vec<_>>();

    let mut run = report.clone();
    let members = run.as_object_mut().expect("an object");
    assert!(members.remove("config").is_some_and(|config| config.is_object()), "config");
    let epochs = members.remove("epochs").expect("epochs");
    let technique = technique::named(report["technique"].as_str().expect("a name"));
    let mut documented = [owned(&RUN), counts(), of("test")].concat();
    if let Some(technique) = technique.filter(|technique| technique.has_static_replicas) {
        documented.extend(owned(&REPLICATED));
        // What a user names need not be what the task counts.
        if technique.replicates_all || report["model"]["replicated"].get("access_share").is_some() {
            documented.push(SHARE.to_owned());
        }
    }
    if let Some(sampling) = report.get("sampling") {
        documented.extend(owned(&SAMPLING));
        documented.extend(statistics("sampling"));
        if ["reuse", "postponing"].contains(&sampling["scheme"].as_str().expect("a name")) {
            documented.extend(owned(&POOLS));
        }
    }
    if report.get("checkpoints").is_some() {
        documented.extend(owned(&CHECKPOINTS));
    }
    if report.get("baseline").is_some() {
        documented.extend(owned(&BASELINE));
    }
    if report.get("validation").is_some() {
        documented.extend(owned(&VALIDATION));
        if report["config"]["keep"] == "best" {
            documented.push("validation.model_epoch".to_owned());
        }
    }
    if report["simulated"] == true {
        documented.extend(owned(&SIMULATED));
    }
    let mut bound = Vec::new();
    if let Some(found) = report.get("bound") {
        bound = owned(&BOUND);
        if found["least"].as_array().expect("bounds").iter().any(|least| least.get("staleness_ms").is_some())
        {
            bound.push(STALENESS.to_owned());
        }
    }
    documented.extend(bound.iter().cloned());
    let one_sided = if report.get("one_sided").is_some() { owned(&ONE_SIDED) } else { Vec::new() };
    documented.extend(one_sided.iter().cloned());
    has(&run, documented, "the run");

    for (number, epoch) in (1..).zip(epochs.as_array().expect("an array")) {
        let validated = valid_every > 0 && number % valid_every == 0;
        let quality = if validated { of("quality") } else { owned(&["quality"]) };
        // A run that was resumed can have epochs of a single node.
        let one_sided = if epoch.get("one_sided").is_some() { one_sided.clone() } else { Vec::new() };
        let documented = [owned(&EPOCH), counts(), quality, bound.clone(), one_sided].concat();
        has(epoch, documented, &format!("epoch {number}"));
        assert_eq!(epoch["epoch"], number);
    }
}

/// The lines of the history of a run that has come to its end: the run, the report's epochs, and the test.
///
/// # Panics
/// If they are others, or not as documented.
#[track_caller]
pub fn check_history(lines: &str, report: &Value) {
    let lines = lines.lines().map(|line| serde_json::from_str(line).expect("a line is JSON"));
    let lines: Vec<Value> = lines.collect();
    let (first, last) = (lines.first().expect("a first line"), lines.last().expect("a last line"));
    let members =
        |line: &Value| line.as_object().expect("an object").keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(members(first), HISTORY.map(str::to_owned).into(), "the first line");
    assert_eq!(first["schema"], "intendant.history/1");
    assert!(HISTORY.iter().all(|name| *name == "schema" || first[name] == report[name]), "{first}");
    assert_eq!(&lines[1..lines.len() - 1], report["epochs"].as_array().expect("an array"), "the epochs");
    assert_eq!(*last, serde_json::json!({"test": report["test"]}), "the last line");
}

/// Every member that [`check`] asks for, and each of `quality`, is described in `docs/report.md`.
///
/// # Panics
/// If not.
#[track_caller]
pub fn described(quality: &[&str]) {
    let page = page();
    let members = [
        &RUN[..],
        &EPOCH,
        &COUNTS,
        &REPLICATED,
        &[SHARE],
        &SAMPLING,
        &POOLS,
        &CHECKPOINTS,
        &VALIDATION,
        &SIMULATED,
        &BOUND,
        &[STALENESS],
        &ONE_SIDED,
        quality,
    ]
    .concat();
    // Each part of a path is a member: relocation_ms as well as p50.
    for name in members.iter().flat_map(|path| path.split('.').map(|part| part.trim_end_matches("[]"))) {
        assert!(page.contains(&format!("`{name}`")), "docs/report.md lacks {name}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    fn put(value: &mut Map<String, Value>, path: &str) {
        match path.split_once('.') {
            None if path.ends_with("[]") => {
                drop(value.insert(path.trim_end_matches("[]").to_owned(), json!([0])))
            }
            None => drop(value.entry(path).or_insert(json!(0))),
            Some((name, rest)) => {
                put(value.entry(name).or_insert(json!({})).as_object_mut().expect("an object"), rest);
            }
        }
    }

    /// A report of three epochs, of which the second is validated.
    fn report() -> Value {
        let mut run = Map::new();
        [&RUN[..], &["test.rank"]].concat().iter().for_each(|path| put(&mut run, path));
        counts().iter().for_each(|path| put(&mut run, path));
        let epoch = |number: u32| {
            let mut epoch = Map::new();
            EPOCH.iter().for_each(|path| put(&mut epoch, path));
            counts().iter().for_each(|path| put(&mut epoch, path));
            epoch.insert("epoch".into(), json!(number));
            epoch.insert("quality".into(), if number == 2 { json!({"rank": 0.5}) } else { json!({}) });
            Value::Object(epoch)
        };
        run.insert("epochs".into(), (1..=3).map(epoch).collect());
        run.insert("config".into(), json!({"anything": 1}));
        run.insert("schema".into(), json!(SCHEMA));
        run.insert("technique".into(), json!("lapse"));
        Value::Object(run)
    }

    fn is_refused(report: &Value, quality: &[&str], valid_every: usize) -> bool {
        std::panic::catch_unwind(|| check(report, quality, valid_every)).is_err()
    }

    #[test]
    fn a_lost_or_unknown_member_or_validation_is_noticed() {
        check(&report(), &["rank"], 2);
        for valid_every in [0, 1, 3] {
            assert!(is_refused(&report(), &["rank"], valid_every), "{valid_every}");
        }
        assert!(is_refused(&report(), &["rank", "other"], 2));
        let with = |change: &dyn Fn(&mut Value)| {
            let mut report = report();
            change(&mut report);
            is_refused(&report, &["rank"], 2)
        };
        assert!(!with(&|_| ()));
        assert!(with(&|r| drop(r["epochs"][2]["access"].as_object_mut().expect("here").remove("local"))));
        assert!(with(&|r| r["management"]["relocation_ms"]["p75"] = json!(1)));
        assert!(with(&|r| r["test"] = json!({})));
        assert!(with(&|r| r["simulated"] = json!(true)), "more is told of simulations");
        assert!(with(&|r| r["technique"] = json!("nups")), "what is replicated is told");
        assert!(with(&|r| r["schema"] = json!("intendant.report/2")));
    }

    #[test]
    fn a_history_without_an_epoch_or_with_one_twice_is_noticed() {
        let report = report();
        let mut first: Map<String, Value> =
            HISTORY.iter().map(|name| ((*name).to_owned(), report[name].clone())).collect();
        first.insert("schema".to_owned(), json!("intendant.history/1"));
        let (first, epochs) = (Value::Object(first), report["epochs"].as_array().expect("an array"));
        let history = |epochs: &[Value]| {
            let lines = [std::slice::from_ref(&first), epochs, &[json!({"test": report["test"]})]].concat();
            lines.iter().map(|line| format!("{line}\n")).collect::<String>()
        };
        check_history(&history(epochs), &report);
        for wrong in [&epochs[1..], &[epochs, &epochs[2..]].concat()] {
            let lines = history(wrong);
            assert!(std::panic::catch_unwind(|| check_history(&lines, &report)).is_err(), "{lines}");
        }
    }

    #[test]
    fn all_members_are_described() {
        described(&[]);
        assert!(std::panic::catch_unwind(|| described(&["no_such_member"])).is_err());
    }
}
