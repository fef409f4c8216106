//! The numbers of reports that real and simulated runs are compared by, and the table of the comparison.

use super::median;
use serde_json::Value;
use std::fmt::Write as _;

/// A number of a report, and how far simulation and reality may differ.
struct Quantity {
    heading: &'static str,
    read: fn(&Value) -> Option<f64>,
    /// Greatest deviation of the ratio from 1.
    within: f64,
}

/// Mean over epochs of a number at a JSON pointer.
fn per_epoch(report: &Value, pointer: &str) -> Option<f64> {
    let epochs = report["epochs"].as_array().filter(|epochs| !epochs.is_empty())?;
    let sum: Option<f64> = epochs.iter().map(|epoch| epoch.pointer(pointer)?.as_f64()).sum();
    Some(sum? / epochs.len() as f64)
}

const QUANTITIES: [Quantity; 5] = [
    Quantity { heading: "messages", read: |report| per_epoch(report, "/network/messages"), within: 0.1 },
    Quantity {
        heading: "KiB",
        read: |report| Some(per_epoch(report, "/network/bytes")? / 1024.0),
        within: 0.1,
    },
    Quantity {
        heading: "remote accesses, %",
        read: |report| Some(100.0 * report.pointer("/access/remote_share")?.as_f64()?),
        within: 0.1,
    },
    Quantity {
        heading: "relocations",
        read: |report| per_epoch(report, "/management/relocations"),
        within: 0.1,
    },
    Quantity { heading: "ms", read: |report| Some(per_epoch(report, "/seconds")? * 1e3), within: 0.25 },
];

/// A number of both worlds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Compared {
    real: f64,
    simulated: f64,
    within: f64,
}

impl Compared {
    /// Simulated over real; 1 if both are 0.
    fn ratio(self) -> f64 {
        if self.real == self.simulated { 1.0 } else { self.simulated / self.real }
    }

    fn is_within(self) -> bool {
        (self.ratio() - 1.0).abs() <= self.within
    }

    fn cell(self) -> String {
        let ratio = format!("{:.2}", self.ratio());
        let ratio = if self.is_within() { ratio } else { format!("**{ratio}**") };
        format!("{} / {} = {ratio}", shown(self.simulated), shown(self.real))
    }
}

/// The number with three significant digits, or as an integer.
fn shown(number: f64) -> String {
    let digits = match number.abs() {
        at_least if at_least >= 99.95 || at_least == 0.0 => 0,
        small => (2 - small.log10().floor() as i32).clamp(0, 6) as usize,
    };
    format!("{number:.digits$}")
}

/// A row: a task with a technique on a cluster.
pub(super) struct Row {
    name: String,
    compared: Vec<Compared>,
}

impl Row {
    /// Compares the medians of real reports with those of simulated ones.
    pub(super) fn new(name: String, real: &[Value], simulated: &[Value]) -> Result<Self, String> {
        let compared = QUANTITIES.iter().map(|quantity| {
            let of = |reports: &[Value]| {
                let numbers: Option<Vec<f64>> = reports.iter().map(quantity.read).collect();
                numbers
                    .as_deref()
                    .map(median)
                    .ok_or_else(|| format!("{name}: a report has no {}", quantity.heading))
            };
            Ok(Compared { real: of(real)?, simulated: of(simulated)?, within: quantity.within })
        });
        Ok(Self { compared: compared.collect::<Result<_, String>>()?, name })
    }

    fn line(&self) -> String {
        let cells: Vec<String> = self.compared.iter().map(|compared| compared.cell()).collect();
        format!("| {} | {} |", self.name, cells.join(" | "))
    }
}

/// The table, and per quantity how many rows are within the bounds.
pub(super) fn render(rows: &[Row]) -> String {
    let headings = QUANTITIES.map(|quantity| quantity.heading).join(" | ");
    let mut table =
        format!("| simulated / real, per epoch | {headings} |\n| --- | {}\n", "--- | ".repeat(5).trim_end());
    rows.iter().for_each(|row| {
        let _ = writeln!(table, "{}", row.line());
    });
    let within = |at: usize| {
        let count = rows.iter().filter(|row| row.compared[at].is_within()).count();
        format!("{count} of {} within {:.0} %", rows.len(), 100.0 * QUANTITIES[at].within)
    };
    let cells: Vec<String> = (0..QUANTITIES.len()).map(within).collect();
    let _ = writeln!(table, "| | {} |", cells.join(" | "));
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(messages: u32, seconds: f64) -> Value {
        let epoch = |messages| {
            json!({"seconds": seconds, "network": {"messages": messages, "bytes": 2048},
                   "management": {"relocations": 0}})
        };
        json!({"epochs": [epoch(messages), epoch(messages + 20)], "access": {"remote_share": 0.5}})
    }

    #[test]
    fn medians_are_compared_and_misses_are_bold() {
        let real = [report(90, 1.0), report(100, 1.2), report(500, 9.0)];
        let row = Row::new("kge".to_owned(), &real, &[report(110, 1.6)]).expect("numbers");
        let line = "| kge | 120 / 110 = 1.09 | 2.00 / 2.00 = 1.00 | 50.0 / 50.0 = 1.00 | 0 / 0 = 1.00 | \
                    1600 / 1200 = **1.33** |";
        assert_eq!(row.line(), line);
        let table = render(&[row]);
        assert!(table.ends_with("| 1 of 1 within 10 % | 0 of 1 within 25 % |\n"), "{table}");
        let nothing = Row::new("kge".to_owned(), &real, &[json!({"epochs": []})]).map(|row| row.name);
        assert!(nothing.expect_err("no number").contains("no messages"));
    }
}
