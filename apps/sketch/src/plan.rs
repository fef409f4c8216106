//! The application's part of the plan: its flags, checked and complete.

use crate::args::{Flags, ItemsName};
use intendant_core::ElementType;
use intendant_train::{DataSource, Plan, TrainError};
use sketch::data::{COUNT_MAX, Items, Options, Stream};
use sketch::saved::{About, Saved, SavedError};
use sketch::{BLOCK_DEFAULT, Config, Hashes, Kind, Sizes};
use std::path::PathBuf;

/// The application's flags, resolved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resolved {
    /// Settings.
    pub(crate) config: Config,
    options: Options,
    /// The stream; `None` if the run only queries a sketch.
    data: Option<DataSource>,
    query: Option<PathBuf>,
    /// The initial sketch.
    base: Option<Saved>,
}

/// The stream that is counted by default.
const BUILTIN: &str = "zipf";

/// Whole numbers up to this one are exact in single precision.
const SINGLE_MAX: u64 = 1 << 24;

/// The value of a setting, from a flag or from the initial sketch. If both give one, they must agree.
fn agreed<T: PartialEq + std::fmt::Display>(
    name: &str,
    flag: Option<T>,
    saved: Option<T>,
) -> Result<Option<T>, TrainError> {
    match (flag, saved) {
        (Some(flag), Some(saved)) if flag != saved => Err(TrainError::usage(format!(
            "--{name} is {flag} here and {saved} in the sketch of --sketch: leave it out"
        ))),
        (flag, saved) => Ok(saved.or(flag)),
    }
}

const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::CountMin => "count-min",
        Kind::CountSketch => "count-sketch",
    }
}

const fn items_name(items: Items) -> &'static str {
    match items {
        Items::Words { .. } => "words",
        Items::Lines => "lines",
        Items::Integers => "integers",
    }
}

/// What an item is.
fn items(flags: &Flags, saved: Option<&About>, is_builtin: bool) -> Result<Items, TrainError> {
    let flag = flags.items.map(|items| match items {
        ItemsName::Words => "words",
        ItemsName::Lines => "lines",
        ItemsName::Integers => "integers",
    });
    let name = agreed("items", flag, saved.map(|about| items_name(about.items)))?;
    let saved_ngrams = saved.map(|about| match about.items {
        Items::Words { ngrams } => ngrams,
        Items::Lines | Items::Integers => 1,
    });
    let ngrams = agreed("ngrams", flags.ngrams, saved_ngrams)?;
    let name = name.unwrap_or(if is_builtin { "integers" } else { "words" });
    match name {
        "words" => Ok(Items::Words { ngrams: ngrams.unwrap_or(1) }),
        name if ngrams.is_some_and(|ngrams| ngrams > 1) => {
            Err(TrainError::usage(format!("--ngrams is about words, and items are {name}: leave it out")))
        }
        "lines" => Ok(Items::Lines),
        _ => Ok(Items::Integers),
    }
}

/// Refuses common flags that make no sense here, or would make cells wrong.
fn refuse(plan: &Plan) -> Result<(), TrainError> {
    if plan.test.is_some() {
        return Err(TrainError::usage(
            "--test: nothing of a stream is held out; --exact PART compares estimates with true counts",
        ));
    }
    for (flag, reason) in [
        ("clip-updates", "counts that are scaled down no longer add up; leave it out"),
        (
            "from",
            "the cells of a checkpoint are of no use without their hash functions; begin with an export by --sketch",
        ),
    ] {
        if plan.config.get(flag).is_some() {
            return Err(TrainError::usage(format!("--{flag}: {reason}")));
        }
    }
    Ok(())
}

/// Fills in the defaults that depend on other flags; records them, so that the effective configuration is
/// complete.
pub(crate) fn resolve(flags: &Flags, plan: &mut Plan) -> Result<Resolved, TrainError> {
    refuse(plan)?;
    let base = flags.sketch.as_deref().map(Saved::read).transpose();
    let base = base.map_err(|error: SavedError| TrainError::usage(format!("--sketch: {error}")))?;
    let about = base.as_ref().map(|base| &base.about);
    let data = match (&plan.data, &base) {
        (None, None) => Some(DataSource::Builtin(BUILTIN.to_owned())),
        (None, Some(_)) => None,
        (Some(data), _) => Some(data.clone()),
    };
    if data.is_none() {
        // There is nothing to count.
        plan.epochs = 0;
        plan.config.set("epochs", 0);
    }
    let is_builtin = matches!(&data, Some(DataSource::Builtin(_)));
    let items = items(flags, about, is_builtin)?;
    let shape = match about {
        None => {
            let sizes = Sizes {
                kind: flags.kind.unwrap_or(Kind::CountMin),
                epsilon: flags.epsilon,
                delta: flags.delta,
                width: flags.width,
                depth: flags.depth,
                block: flags.block.unwrap_or(BLOCK_DEFAULT),
            };
            sizes.shape()?
        }
        Some(About { shape, .. }) => {
            if let Some(flag) = [("epsilon", flags.epsilon), ("delta", flags.delta)]
                .iter()
                .find_map(|(flag, value)| value.map(|_| flag))
            {
                return Err(TrainError::usage(format!(
                    "--{flag}: the sketch of --sketch has its size: leave it out"
                )));
            }
            agreed("kind", flags.kind.map(kind_name), Some(kind_name(shape.kind)))?;
            agreed("width", flags.width, Some(shape.width))?;
            agreed("depth", flags.depth, Some(shape.depth))?;
            agreed("block", flags.block, Some(shape.block))?;
            *shape
        }
    };
    let exact = flags.exact.unwrap_or(if is_builtin && base.is_none() { 1.0 } else { 0.0 });
    if exact > 0.0 && base.is_some() {
        return Err(TrainError::usage(
            "--exact: the true counts of what the sketch of --sketch has counted are not known: leave it out",
        ));
    }
    let hashes = about.map_or_else(|| Hashes::new(plan.seed, &shape), |about| about.hashes.clone());
    let (aggregate, top, epochs) = (flags.aggregate, flags.top, plan.epochs);
    let config = Config { shape, hashes, items, aggregate, top, exact, epochs };
    config.check(flags.batch_bytes)?;
    plan.config.set("kind", kind_name(shape.kind));
    plan.config.set("width", shape.width as i64);
    plan.config.set("depth", shape.depth as i64);
    plan.config.set("block", shape.block as i64);
    plan.config.set("items", items_name(items));
    plan.config.set("exact", exact);
    if let Items::Words { ngrams } = items {
        plan.config.set("ngrams", i64::from(ngrams));
    }
    let options = Options { items, counts: flags.counts, piece_bytes: flags.batch_bytes };
    Ok(Resolved { config, options, data, query: flags.query.clone(), base })
}

/// The stream to count, the query, and the initial sketch.
pub(crate) type Opened = (Option<Stream>, Option<Stream>, Option<Saved>);

/// Opens the stream and the query.
pub(crate) fn open(resolved: &Resolved, plan: &Plan) -> Result<Opened, TrainError> {
    let Resolved { options, data, query, base, .. } = resolved;
    let stream = match data {
        None => None,
        Some(DataSource::Builtin(name)) => Some(Stream::builtin(name, *options)),
        Some(DataSource::Path(path)) => Some(Stream::open(path, *options)),
    };
    let stream = stream.transpose().map_err(TrainError::usage)?;
    let before = base.as_ref().map_or(0, |base| base.inserted[0] as u64);
    check_exact(stream.as_ref(), before, plan)?;
    let query = query.as_ref().map(|path| Stream::open(path, Options { counts: false, ..*options }));
    let query = query.transpose().map_err(|error| TrainError::usage(format!("--query: {error}")))?;
    if let Some(query) = &query {
        // The query is evaluated at the end, but checked now.
        let check = |piece| query.read(piece, |_| 0, |_| ());
        let checked = (0..query.pieces()).try_for_each(check);
        checked.map_err(|error| TrainError::usage(format!("--query: {error}")))?;
    }
    if plan.rank() == 0 {
        let shape = &resolved.config.shape;
        let (epsilon, delta) = (shape.kind.epsilon(shape.width), shape.kind.delta(shape.depth));
        tracing::info!(rows = shape.depth, cells = shape.width, epsilon, delta, "sketch");
        if let Some(stream) = &stream {
            tracing::info!(batches = stream.pieces(), "data");
        }
    }
    Ok((stream, query, base.clone()))
}

/// Refuses element types in which cells may become too large to be exact.
fn check_exact(stream: Option<&Stream>, before: u64, plan: &Plan) -> Result<(), TrainError> {
    let max = match plan.float {
        ElementType::F32 => SINGLE_MAX,
        ElementType::F64 => COUNT_MAX,
    };
    let (name, items) = match stream {
        None => ("the sketch".to_owned(), Some(0)),
        Some(stream) => (stream.name().to_owned(), stream.items_max()),
    };
    let items = items.map(|items| items.saturating_mul(plan.epochs.into()).saturating_add(before));
    let advice = match plan.float {
        ElementType::F32 => "leave --float out",
        ElementType::F64 => "count fewer",
    };
    match items {
        Some(items) if items > max => Err(TrainError::usage(format!(
            "--float {} counts exactly up to {max}, and {name} may have {items} items in {}; {advice}",
            plan.float,
            match plan.epochs {
                0 | 1 => "all".to_owned(),
                epochs => format!("{epochs} epochs"),
            }
        ))),
        None if plan.float == ElementType::F32 => Err(TrainError::usage(format!(
            "--float f32 counts exactly up to {max}, and the counts of {name} may add up to more; {advice}"
        ))),
        Some(_) | None => Ok(()),
    }
}
