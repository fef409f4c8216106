//! A complete application around a small task: `cargo run --example regression -- --technique single
//! --workers 2`.

mod task;

use intendant_core::{Element, Key, KeyRange};
use intendant_train::{App, AppError, Application, Exporter, Outcome, Plan, TrainError};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use task::{Regression, Settings};

#[derive(clap::Args)]
struct Flags {
    /// Features, each with a weight to learn
    #[arg(long, value_name = "F", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    features: u64,

    /// Training examples; a tenth as many each are generated for validation and test
    #[arg(
        long, value_name = "N", default_value_t = 20_000,
        value_parser = clap::value_parser!(u64).range(10..),
    )]
    examples: u64,

    /// Examples per batch
    #[arg(long, value_name = "B", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,

    /// Learning rate
    #[arg(long, value_name = "RATE", default_value_t = 0.1)]
    rate: f64,
}

struct RegressionApp;

impl Application for RegressionApp {
    type Flags = Flags;
    type Resolved = Flags;

    fn resolve(flags: Flags, plan: &mut Plan) -> Result<Flags, TrainError> {
        if plan.data.is_some() || plan.test.is_some() {
            return Err(TrainError::usage("the data is generated; leave --data and --test out"));
        }
        if flags.rate > 0.0 {
            Ok(flags)
        } else {
            Err(TrainError::usage(format!("--rate is {}; it must be greater than 0", flags.rate)))
        }
    }

    fn train<E: Element>(flags: Flags, plan: &Plan) -> Result<Outcome, TrainError> {
        let Flags { features, examples, batch, rate } = flags;
        let settings = Settings { seed: plan.seed, features, examples, batch, rate };
        let task = Arc::new(Regression::<E>::new(settings).map_err(TrainError::usage)?);
        intendant_train::run(&task, plan, Some(&mut Text::default()))
    }
}

/// One line per key: the key and its value.
#[derive(Default)]
struct Text {
    file: Option<BufWriter<File>>,
    ranges: Vec<KeyRange>,
}

impl<E: Element> Exporter<E> for Text {
    fn begin(&mut self, folder: &Path, ranges: &[KeyRange]) -> Result<(), AppError> {
        self.file = Some(BufWriter::new(File::create(folder.join("model.txt"))?));
        self.ranges = ranges.to_vec();
        Ok(())
    }

    fn part(&mut self, keys: &[Key], values: &[E]) -> Result<(), AppError> {
        let file = self.file.as_mut().ok_or("the export has not begun")?;
        let mut rest = values;
        for key in keys {
            let range =
                self.ranges.iter().find(|r| r.keys.contains(&key.0)).ok_or("a key outside of all ranges")?;
            let (value, after) = rest.split_at_checked(range.len).ok_or("a value is missing")?;
            writeln!(file, "{} {key} {value:?}", range.name)?;
            rest = after;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), AppError> {
        Ok(self.file.as_mut().map_or(Ok(()), BufWriter::flush)?)
    }
}

fn main() -> ExitCode {
    let command = clap::Command::new("regression")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Sparse linear regression on generated data");
    App::new(command).default("epochs", 8).main::<RegressionApp>()
}
