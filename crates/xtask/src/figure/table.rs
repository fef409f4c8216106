//! The table of a figure: our numbers, and the source's in brackets.

use super::config::Figure;
use super::metric::{Number, Reports};

/// Renders the table in Markdown, which is readable on a terminal as well.
pub(crate) fn render(figure: &Figure, reports: &Reports) -> String {
    let mut rows = vec![vec!["run".to_owned()]];
    rows[0].extend(figure.columns.iter().map(|column| column.heading.clone()));
    for run in &figure.runs {
        if !reports.by_run.contains_key(&run.name) {
            continue;
        }
        let mut row = vec![run.name.clone()];
        for column in &figure.columns {
            let number = |run: &String| reports.number(run, &column.metric).and_then(Result::ok);
            let ours = number(&run.name).and_then(|ours| match &column.relative_to {
                None => Some(ours.over(Number::exact(column.divide_by))),
                Some(base) => Some(number(base)?.over(ours)),
            });
            let ours = ours.map_or_else(|| "–".to_owned(), |ours| ours.to_string());
            let paper = run.paper.get(&column.heading);
            row.push(paper.map_or(ours.clone(), |paper| format!("{ours} ({paper})")));
        }
        rows.push(row);
    }
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0))
        .collect();
    let mut lines: Vec<String> = rows
        .iter()
        .map(|row| {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            format!("| {} |", cells.join(" | "))
        })
        .collect();
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    lines.insert(1, format!("| {} |", rule.join(" | ")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::config::Scale;
    use crate::figure::metric::Report;
    use std::collections::BTreeMap;

    #[test]
    fn ours_and_the_sources() {
        let figure = Figure::parse(
            "title='t'\nsource='s'\napp='mf'\nargs=[]\n[[runs]]\nname='one'\nargs=[]\n[[runs]]\nname='two'\nargs=[]\n\
             paper={'speed-up'='2'}\n[[runs]]\nname='left out'\nargs=[]\n[[columns]]\nheading='ms'\nmetric='seconds'\n\
             divide_by=0.001\n[[columns]]\nheading='speed-up'\nmetric='seconds'\nrelative_to='one'",
        )
        .expect("a figure");
        let report =
            |seconds| Report::parse(&format!(r#"{{"epochs":[{{"seconds":{seconds}}}]}}"#)).expect("a report");
        let by_run = BTreeMap::from([("one".to_owned(), report(3)), ("two".to_owned(), report(2))]);
        let reports = Reports { by_run, ..Reports::new(Scale::Ci) };
        let expected = "| run | ms   | speed-up |\n| --- | ---- | -------- |\n| one | 3000 | 1.00     |\n\
                        | two | 2000 | 1.50 (2) |";
        assert_eq!(render(&figure, &reports), expected);
    }
}
