//! The application's part of the plan: its flags, checked and complete.

use crate::args::Flags;
use crate::saved::{self, Settings};
use intendant_task::Split;
use intendant_train::{DataSource, Plan, TestSource, TrainError, check_predictions};
use lr::data::{
    Columns, Dataset, Format, Generator, HASH_BITS, HeldOut, Naming, Normalize, Reading, Source, Transform,
};
use lr::{Config, Optimizer, Weights};
use std::path::PathBuf;

/// The application's flags, resolved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resolved {
    /// Hyperparameters.
    pub(crate) config: Config,
    /// The file for predictions.
    pub(crate) predict: Option<PathBuf>,
    reading: Reading,
    features: u32,
    /// The data to generate, unless a file is read or there are no training rows.
    generator: Option<Generator>,
    /// The validation data, if it is not the test data.
    valid: Option<TestSource>,
    /// The initial model.
    model: Option<(PathBuf, Settings)>,
}

impl Resolved {
    /// How an exported model reads data.
    pub(crate) fn settings(&self, data: &Dataset) -> Settings {
        let is_table = self.reading.format == Format::Csv;
        Settings {
            schema: Settings::schema(),
            format: self.reading.format,
            features: data.features(),
            label: is_table.then(|| self.reading.columns.label.clone()),
            hash_bits: is_table.then_some(self.reading.hash_bits),
            categorical: self.reading.columns.categorical.clone(),
            numeric: self.reading.columns.numeric.clone(),
            transform: self.reading.transform,
            normalize: self.reading.normalize,
            intercept: self.config.intercept,
            table: data.header().cloned(),
        }
    }
}

/// The data set that is trained on by default.
const BUILTIN: &str = "sparse";

/// Default number of blocks of features.
const BLOCKS: u32 = 32;

/// The weights of the penalties.
fn penalties(flags: &Flags, plan: &mut Plan) -> Result<(f64, f64), TrainError> {
    let is_l1 = flags.optimizer.has_l1();
    let (penalty, given) = if is_l1 { ("l1", flags.l1) } else { ("l2", flags.l2) };
    if let Some(c) = flags.c {
        if !(c > 0.0 && c.is_finite() && (1.0 / c).is_finite()) {
            return Err(TrainError::usage(format!("--c is {c}; it must be a number above 0")));
        }
        if given.is_some() {
            return Err(TrainError::usage(format!("--c {c} is --{penalty} {}; give one of them", 1.0 / c)));
        }
    }
    let c = match (flags.c, flags.l1, flags.l2) {
        (None, None, None) => Some(1.0),
        (c, ..) => c,
    };
    if let Some(c) = c {
        plan.config.set("c", c);
    }
    let of_c = c.map(f64::recip);
    let (l1, l2) = if is_l1 { (flags.l1.or(of_c), flags.l2) } else { (flags.l1, flags.l2.or(of_c)) };
    Ok((l1.unwrap_or(0.0), l2.unwrap_or(0.0)))
}

/// By how many batches the values that a batch reads may lag behind other workers, for proximal steps.
fn delay(flags: &Flags, plan: &Plan) -> Result<u32, TrainError> {
    if flags.optimizer != Optimizer::Proximal {
        return Ok(0);
    }
    if plan.has_copies_without_clocks() {
        return Err(TrainError::usage(format!(
            "--optimizer proximal needs reads that see the steps of others soon, and technique {} has copies that are brought \
             in step every so many milliseconds: use ssp, essp, classic or lapse",
            plan.technique.name()
        )));
    }
    let batches = match plan.staleness() {
        None => Some(0),
        Some((staleness, Some(every))) => staleness
            .checked_add(1)
            .and_then(|clocks| clocks.checked_mul(every.get()))
            .map(|batches| batches - 1),
        Some((_, None)) => None,
    };
    batches.ok_or_else(|| {
        TrainError::usage(
            "--optimizer proximal reads the steps of others within an epoch: leave --clock-every out, or give smaller numbers",
        )
    })
}

/// The value of a setting, from a flag or from the initial model. If both give one, they must agree.
fn agreed<T: PartialEq + Clone + std::fmt::Debug>(
    name: &str,
    flag: Option<&T>,
    model: Option<&T>,
    default: T,
) -> Result<T, TrainError> {
    match (flag, model) {
        (Some(flag), Some(model)) if flag != model => Err(TrainError::usage(format!(
            "--{name} is {} here and {} in the model of --model: leave it out",
            shown(flag),
            shown(model)
        ))),
        (Some(value), _) | (None, Some(value)) => Ok(value.clone()),
        (None, None) => Ok(default),
    }
}

/// A setting as a user types it.
fn shown(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase().replace(['[', ']', '"', ' '], "")
}

/// How files are read.
fn reading(flags: &Flags, plan: &Plan, model: Option<&Settings>) -> Result<Reading, TrainError> {
    let file = |source: &Option<TestSource>| match source {
        Some(TestSource::File(file)) => Some(file.clone()),
        Some(TestSource::Fraction(_)) | None => None,
    };
    let data = match &plan.data {
        Some(DataSource::Path(path)) => Some(path.clone()),
        Some(DataSource::Builtin(_)) | None => None,
    };
    let is_generated = data.is_none() && flags.model.is_none();
    let named = data.or_else(|| file(&plan.test)).or_else(|| file(&flags.valid));
    let by_name = named.filter(|_| !is_generated).map_or(Format::Libsvm, |path| Format::of(&path));
    let format = agreed("format", flags.format.as_ref(), model.map(|model| &model.format), by_name)?;
    if is_generated && format == Format::Csv {
        return Err(TrainError::usage("--format is csv, but generated rows are as those of libsvm files"));
    }
    let of_tables = [
        ("label", flags.label.is_some()),
        ("categorical", flags.categorical.is_some()),
        ("numeric", flags.numeric.is_some()),
        ("hash-bits", flags.hash_bits.is_some()),
    ];
    if let Some((flag, _)) = of_tables.iter().find(|(_, given)| *given && format == Format::Libsvm) {
        return Err(TrainError::usage(format!(
            "--{flag} is about tables, and the format is libsvm: leave it out, or add --format csv"
        )));
    }
    if flags.features.is_some() && format == Format::Csv {
        return Err(TrainError::usage(
            "--features is about libsvm files; a table has 2^B features, see --hash-bits",
        ));
    }
    let columns = Columns {
        // Other tables may have the label in another column.
        label: flags
            .label
            .clone()
            .or_else(|| model.and_then(|model| model.label.clone()))
            .unwrap_or_else(|| Columns::default().label),
        categorical: agreed(
            "categorical",
            flags.categorical.as_ref(),
            model.map(|model| &model.categorical),
            Vec::new(),
        )?,
        numeric: agreed("numeric", flags.numeric.as_ref(), model.map(|model| &model.numeric), Vec::new())?,
        trained: None,
    };
    let bits = model.and_then(|model| model.hash_bits.as_ref());
    let (transform, normalize) = (model.map(|model| &model.transform), model.map(|model| &model.normalize));
    Ok(Reading {
        format,
        columns,
        hash_bits: agreed("hash-bits", flags.hash_bits.as_ref(), bits, HASH_BITS)?,
        transform: agreed("transform", flags.transform.as_ref(), transform, Transform::None)?,
        normalize: agreed("normalize", flags.normalize.as_ref(), normalize, Normalize::None)?,
    })
}

/// Fills in the defaults that depend on other flags; records them, so that the effective configuration is
/// complete.
pub(crate) fn resolve(flags: &Flags, plan: &mut Plan) -> Result<Resolved, TrainError> {
    let (l1, l2) = penalties(flags, plan)?;
    let settings = flags.model.as_ref().map(|folder| saved::settings(folder).map_err(usage_of_model));
    let settings = settings.transpose()?;
    let reading = reading(flags, plan, settings.as_ref())?;
    let intercept = agreed(
        "intercept",
        flags.intercept.as_ref(),
        settings.as_ref().map(|model| &model.intercept),
        false,
    )?;
    let rate = match flags.optimizer {
        Optimizer::Ftrl => 0.2,
        Optimizer::AdaGrad => 0.1,
        Optimizer::Sgd => 0.01,
        Optimizer::Proximal => 1.0,
    };
    let of_blocks = [("blocks", flags.blocks.is_some()), ("kkt", flags.kkt.is_some())];
    if let Some((flag, _)) =
        of_blocks.iter().find(|(_, given)| *given && flags.optimizer != Optimizer::Proximal)
    {
        return Err(TrainError::usage(format!(
            "--{flag} is about blocks of features: leave it out, or add --optimizer proximal"
        )));
    }
    let config = Config {
        optimizer: flags.optimizer,
        learning_rate: flags.lr.unwrap_or(rate),
        beta: flags.beta,
        l1,
        l2,
        intercept,
        batch: flags.batch,
        blocks: flags.blocks.unwrap_or(BLOCKS),
        delay: delay(flags, plan)?,
        kkt: flags.kkt,
        reliability: flags.reliability,
        seed: plan.seed,
    };
    config.check()?;
    plan.config.set("lr", config.learning_rate);
    if config.optimizer == Optimizer::Proximal {
        plan.config.set("blocks", i64::from(config.blocks));
    }
    plan.config.set("intercept", config.intercept);
    plan.config.set("transform", shown(&reading.transform));
    plan.config.set("normalize", shown(&reading.normalize));
    let generator = match &plan.data {
        None if flags.model.is_some() => {
            if plan.epochs > 0 {
                return Err(TrainError::usage(
                    "--model without --data: there is nothing to train on; add --data, or --epochs 0 to test and predict",
                ));
            }
            None
        }
        None => Some(BUILTIN),
        Some(DataSource::Builtin(name)) => Some(name.as_str()),
        Some(DataSource::Path(_)) => None,
    };
    let generator = generator.map(Generator::named).transpose().map_err(TrainError::usage)?;
    if generator.is_none() {
        plan.config.set("format", shown(&reading.format));
        if reading.format == Format::Csv {
            plan.config.set("hash-bits", i64::from(reading.hash_bits));
            plan.config.set("label", reading.columns.label.as_str());
        }
    }
    if let Some(path) = &flags.predict {
        let valid = match &flags.valid {
            Some(TestSource::File(path)) => Some(("--valid", path.clone())),
            Some(TestSource::Fraction(_)) | None => None,
        };
        let of_model =
            flags.model.iter().flat_map(|folder| [saved::settings_path(folder), saved::weights_path(folder)]);
        let inputs = valid.into_iter().chain(of_model.map(|path| ("--model", path)));
        check_predictions(path, plan, inputs)?;
    }
    let features = flags.features.unwrap_or(0).max(settings.as_ref().map_or(0, |model| model.features));
    Ok(Resolved {
        config,
        predict: flags.predict.clone(),
        reading,
        features,
        generator,
        valid: flags.valid.clone(),
        model: flags.model.clone().zip(settings),
    })
}

fn usage_of_model(error: saved::SavedError) -> TrainError {
    TrainError::usage(format!("--model: {error}"))
}

/// Reads or generates the data that the flags name, and reads the initial model.
pub(crate) fn open(resolved: &Resolved, plan: &Plan) -> Result<(Dataset, Weights), TrainError> {
    let source = match (&resolved.generator, &plan.data) {
        (Some(generator), _) => Source::Generated(*generator),
        (None, Some(DataSource::Path(path))) => Source::File(path),
        (None, _) => Source::None,
    };
    let mut held_out = Vec::new();
    for (split, source) in [(Split::Test, &plan.test), (Split::Valid, &resolved.valid)] {
        match source {
            None => {}
            Some(TestSource::File(file)) => held_out.push((split, HeldOut::File(file))),
            Some(TestSource::Fraction(fraction)) => {
                held_out.push((split, HeldOut::Fraction(*fraction, plan.seed)));
            }
        }
    }
    let mut data = Dataset::open(&source, &held_out, &resolved.reading).map_err(TrainError::usage)?;
    let weights = match &resolved.model {
        None => Weights::default(),
        Some((folder, settings)) => saved::weights(folder, settings).map_err(usage_of_model)?,
    };
    data.widen(resolved.features);
    if data.features() == 0 {
        return Err(TrainError::usage("no row has a feature: there is nothing to learn from"));
    }
    if resolved.predict.is_some() && data.test().is_empty() {
        return Err(TrainError::usage("--predict is about the test data, and there is none: add --test"));
    }
    if plan.rank() == 0 {
        tell(&data, plan);
    }
    Ok((data, weights))
}

/// Logs properties of the data, and warns of those that may be unintended.
fn tell(data: &Dataset, plan: &Plan) {
    let (train, valid, test) = (data.train().len(), data.valid().len(), data.test().len());
    let (features, entries) = (data.features(), data.train().entries());
    tracing::info!(train, valid, test, features, entries, positives = data.train().positives(), "data");
    if let Naming::Hashed(hashed) = data.naming() {
        match hashed.collisions() {
            Some((names, shared)) => tracing::info!(
                names,
                "{shared} names share a slot of {} bits with an earlier one",
                hashed.bits()
            ),
            None => tracing::info!("there are more names than exports can tell: later ones have none"),
        }
    }
    let positives = data.train().positives();
    if train > 0 && (positives == 0 || positives == train) {
        tracing::warn!("all training rows have the same label: there is nothing to tell apart");
    }
    if test == 0 {
        tracing::warn!(
            "predictions are not measured, as there is no test data: --test 0.1 holds out a tenth of the training data, --test FILE \
             names a file"
        );
    } else if train > 0 && data.unseen() == test && matches!(plan.test, Some(TestSource::File(_))) {
        tracing::warn!("every test row has features that no training row has; their weights are zero");
    }
}
