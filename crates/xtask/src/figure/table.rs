//! The table of a figure: our numbers, and the source's in brackets.

use super::config::Figure;
use super::metric::Reports;

/// Renders the table in Markdown, which is readable on a terminal as well. Of several seeds, it has the
/// median, the least and the greatest number.
pub(crate) fn render(figure: &Figure, reports: &Reports) -> String {
    let mut rows = vec![vec!["run".to_owned()]];
    rows[0].extend(figure.columns.iter().map(|column| column.heading.clone()));
    for run in &figure.runs {
        if !reports.by_run.contains_key(&run.name) {
            continue;
        }
        let mut row = vec![run.name.clone()];
        for column in &figure.columns {
            let ours = reports.column(column, &run.name).and_then(Result::ok);
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

/// The same numbers as comma-separated values: a line for each run and column.
pub(crate) fn csv(figure: &Figure, reports: &Reports) -> String {
    let mut text = "run,column,median,least,most,source\n".to_owned();
    for run in &figure.runs {
        for column in &figure.columns {
            let Some(Ok(spread)) = reports.column(column, &run.name) else { continue };
            let (least, most) = spread.ends();
            let source = run.paper.get(&column.heading).map(String::as_str).unwrap_or_default();
            let [name, heading, source] = [&run.name[..], &column.heading, source].map(quoted);
            let [median, least, most] = [spread.median(), least, most].map(|ratio| ratio.value());
            text.push_str(&format!("{name},{heading},{median},{least},{most},{source}\n"));
        }
    }
    text
}

/// A field of comma-separated values (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::config::Scale;
    use crate::figure::metric::Report;
    use std::collections::BTreeMap;

    fn figure() -> Figure {
        Figure::parse(
            "title='t'\nsource='s'\napp='mf'\nargs=[]\n[[runs]]\nname='one'\nargs=[]\n[[runs]]\nname='two'\nargs=[]\n\
             paper={'speed-up, raw'='2'}\n[[runs]]\nname='left out'\nargs=[]\n[[columns]]\nheading='ms'\n\
             metric='seconds'\ndivide_by=0.001\n[[columns]]\nheading='speed-up, raw'\nmetric='seconds'\n\
             relative_to='one'",
        )
        .expect("a figure")
    }

    fn reports(one: &[u32], two: &[u32]) -> Reports {
        let report = |seconds: &u32| {
            Report::parse(&format!(r#"{{"epochs":[{{"seconds":{seconds}}}]}}"#)).expect("a report")
        };
        let all = |seconds: &[u32]| seconds.iter().map(report).collect();
        let by_run = BTreeMap::from([("one".to_owned(), all(one)), ("two".to_owned(), all(two))]);
        Reports { by_run, ..Reports::new(Scale::Ci) }
    }

    #[test]
    fn ours_and_the_sources() {
        let expected = "| run | ms   | speed-up, raw |\n| --- | ---- | ------------- |\n\
                        | one | 3000 | 1.00          |\n| two | 2000 | 1.50 (2)      |";
        assert_eq!(render(&figure(), &reports(&[3], &[2])), expected);
    }

    #[test]
    fn all_seeds_as_values() {
        let expected = "run,column,median,least,most,source\none,ms,4000,3000,5000,\n\
                        one,\"speed-up, raw\",1,1,1,\ntwo,ms,2000,2000,2000,\n\
                        two,\"speed-up, raw\",2,1.5,2.5,2\n";
        assert_eq!(csv(&figure(), &reports(&[3, 5, 4], &[2, 2, 2])), expected);
    }
}
