//! The table of models in this application's page is that of the declarations.

use super::ModelKind;
use intendant_apptest::pages;
use std::fmt::Write as _;

#[test]
fn pages_have_the_models() {
    let mut table =
        "| `--model` | model | entities, relations, score | `--dim` | numbers of a relation | order in an \
                     export |\n| --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
    for facts in ModelKind::ALL.iter().map(|model| model.facts()) {
        let step =
            if facts.dim_step == 1 { String::new() } else { format!(", in steps of {}", facts.dim_step) };
        let (default, max) = (facts.defaults.dim, facts.dim_max);
        writeln!(
            table,
            "| `{}` | {} | {} | {default}; at most {max}{step} | {} | {} |",
            facts.name, facts.title, facts.meaning, facts.relation, facts.order
        )
        .expect("memory");
    }
    pages::compare("apps/kge/README.md", "models", &table);
}
