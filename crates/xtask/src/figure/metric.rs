//! Numbers of a report.

use serde_json::Value;

/// The report of a run.
#[derive(Clone, Debug)]
pub(crate) struct Report(Value);

impl Report {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map(Self).map_err(|error| format!("this is no report: {error}"))
    }

    /// The number at a JSON pointer.
    fn at(&self, pointer: &str) -> Result<f64, String> {
        let number = self.0.pointer(pointer).and_then(Value::as_f64);
        number.ok_or_else(|| format!("the report has no number {pointer}"))
    }

    /// Seconds of all epochs.
    fn seconds(&self) -> Result<f64, String> {
        let epochs = self.0["epochs"].as_array().filter(|epochs| !epochs.is_empty());
        let epochs = epochs.ok_or_else(|| "the report has no epochs".to_owned())?;
        epochs.iter().map(|e| e["seconds"].as_f64().ok_or_else(|| "an epoch has no seconds".to_owned())).sum()
    }

    /// A number by its name:
    ///
    /// | name | number |
    /// | --- | --- |
    /// | `seconds` | mean duration of an epoch |
    /// | `examples_per_s` | examples trained per second |
    /// | `reads_per_s` | keys pulled per second of all workers |
    /// | `remote_per_s` | remote accesses per second, reads and writes |
    /// | `relocations_per_s` | keys that moved per second |
    /// | `/…` | the number at this JSON pointer |
    pub(crate) fn metric(&self, name: &str) -> Result<f64, String> {
        match name {
            "seconds" => {
                let epochs = self.0["epochs"].as_array().map_or(0, Vec::len);
                Ok(self.seconds()? / epochs as f64)
            }
            "examples_per_s" => {
                let epochs = self.0["epochs"].as_array().map_or(&[][..], Vec::as_slice);
                let examples: f64 = epochs.iter().filter_map(|epoch| epoch["examples"].as_f64()).sum();
                Ok(examples / self.seconds()?)
            }
            "reads_per_s" => Ok(self.at("/access/pull_keys")? / self.seconds()?),
            "remote_per_s" => Ok(self.at("/access/remote")? / self.seconds()?),
            "relocations_per_s" => Ok(self.at("/management/relocations")? / self.seconds()?),
            pointer if pointer.starts_with('/') => self.at(pointer),
            other => Err(format!("there is no metric '{other}'")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_and_those_that_are_not_there_are_named() {
        let text = r#"{"epochs":[{"seconds":1.0},{"seconds":3.0}],"access":{"pull_keys":80,"remote":40},
            "management":{"relocations":8,"relocation_ms":{"mean":2.5}}}"#;
        let report = Report::parse(text).expect("a report");
        for (name, number) in [
            ("seconds", 2.0),
            ("reads_per_s", 20.0),
            ("remote_per_s", 10.0),
            ("relocations_per_s", 2.0),
            ("/management/relocation_ms/mean", 2.5),
        ] {
            assert_eq!(report.metric(name), Ok(number), "{name}");
        }
        assert_eq!(report.metric("/test/rmse"), Err("the report has no number /test/rmse".to_owned()));
        assert!(report.metric("speed").is_err());
        assert!(Report::parse("{}").expect("JSON").metric("seconds").is_err());
    }
}
