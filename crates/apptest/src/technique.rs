//! What `docs/report.md` says of techniques.

/// The mechanisms of a technique: a row of the table in the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Technique {
    /// `--technique`.
    pub name: String,
    /// Whether keys move to nodes that use them.
    pub moves: bool,
    /// Whether replicas come by reads, and have a bound of staleness.
    pub is_clocked: bool,
    /// Whether some keys have static replicas, or all.
    pub has_static_replicas: bool,
    /// Whether all keys have static replicas.
    pub replicates_all: bool,
    /// Whether it acts on intents.
    pub acts_on_intents: bool,
}

/// The techniques in the order of the page. `single`, which has no server, is not among them.
///
/// # Panics
/// If the page has another table.
#[must_use]
pub fn all() -> Vec<Technique> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/report.md");
    let page = std::fs::read_to_string(page).expect("docs/report.md");
    let (_, table) = page.split_once("<!-- techniques: ").expect("a table begins");
    let (table, _) = table.split_once("<!-- end -->").expect("a table ends");
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let technique = |row: &str| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, moves, replicas, of_keys, intents, _order] = cells[..] else { panic!("six cells: {row}") };
        Technique {
            name: name.trim_matches('`').to_owned(),
            moves: !moves.is_empty(),
            is_clocked: replicas.starts_with("by reads"),
            has_static_replicas: !of_keys.is_empty(),
            replicates_all: of_keys == "of all keys",
            acts_on_intents: !intents.is_empty(),
        }
    };
    rows.map(technique).collect()
}

/// The technique with a name; `None` if the page does not have it, as `single`.
#[must_use]
pub fn named(name: &str) -> Option<Technique> {
    all().into_iter().find(|technique| technique.name == name)
}
