//! Commands that ask trained word vectors: `intendant word2vec similar`, `analogy`, `evaluate` and `serve`.

use crate::ask::{self, WORDS};
use crate::serve;
use clap::Args;
use intendant_core::{Element, ElementType};
use intendant_train::{TopArgs, TrainError, Use, measure, print};
use intendant_trained::{Export, asked, measures, words};
use std::path::{Path, PathBuf};
use word2vec::{Trained, read_analogies, read_similarities};

pub(crate) fn all() -> [Use; 4] {
    [
        Use::new("similar", "The words with the most similar vectors", |args: SimilarArgs| {
            act(&args.common.model.clone(), args)
        }),
        Use::new("analogy", "A is to B as C is to which word?", |args: AnalogyArgs| {
            act(&args.common.model.clone(), args)
        }),
        Use::new("evaluate", "Tests on analogies and similarities of words", |args: EvaluateArgs| {
            act(&args.model.clone(), args)
        }),
        serve::serve(),
    ]
}

#[derive(Args, Clone, Debug)]
struct SimilarArgs {
    #[command(flatten)]
    common: TopArgs,

    /// Words. Without any, standard input has one per line
    #[arg(value_name = "WORD")]
    words: Vec<String>,
}

#[derive(Args, Clone, Debug)]
struct AnalogyArgs {
    #[command(flatten)]
    common: TopArgs,

    /// A is to B as C is to which word? Without them, standard input has three words per line, separated by
    /// tabs
    #[arg(value_names = ["A", "B", "C"], num_args = 3)]
    words: Vec<String>,
}

#[derive(Args, Clone, Debug)]
struct EvaluateArgs {
    /// Folder that --export wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// Analogies: lines of four words, in sections that begin with ': NAME'
    #[arg(long, value_name = "FILE", required_unless_present = "similarity")]
    analogies: Option<PathBuf>,

    /// Skip analogies with words that are not among the WORDS most frequent words; answers are among these,
    /// too
    #[arg(long, value_name = "WORDS", default_value_t = 30_000, value_parser = clap::value_parser!(u32).range(1..))]
    analogies_words: u32,

    /// Similarities: lines of two words and a number, the larger the more similar
    #[arg(long, value_name = "FILE")]
    similarity: Option<PathBuf>,

    /// Print a JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// What a command does with word vectors.
trait Act {
    fn act<E: Element>(self, model: &Trained<E>) -> Result<(), TrainError>;
}

/// Opens the model, and acts on it in its element type.
fn act(folder: &Path, command: impl Act) -> Result<(), TrainError> {
    let export = Export::open(folder, "word2vec").map_err(TrainError::usage)?;
    match export.element().map_err(TrainError::usage)? {
        ElementType::F32 => command.act(&Trained::<f32>::read(&export).map_err(TrainError::usage)?),
        ElementType::F64 => command.act(&Trained::<f64>::read(&export).map_err(TrainError::usage)?),
    }
}

impl Act for SimilarArgs {
    fn act<E: Element>(self, model: &Trained<E>) -> Result<(), TrainError> {
        let asked = asked(&self.words, |word| model.find(word)).map_err(TrainError::usage)?;
        let found = ask::similar(model, &asked, self.common.top, self.common.threads());
        print(|out| found.iter().try_for_each(|found| WORDS.show(out, self.common.json, found)))
    }
}

impl Act for AnalogyArgs {
    fn act<E: Element>(self, model: &Trained<E>) -> Result<(), TrainError> {
        let asked = match &self.words[..] {
            [a, b, c] => ask::find(model, [a, b, c]).map(|words| vec![words]),
            _ => asked(&[], |line| ask::find(model, words(line, "three words")?)),
        };
        let asked = asked.map_err(TrainError::usage)?;
        let found = ask::analogies(model, &asked, self.common.top, self.common.threads());
        print(|out| found.iter().try_for_each(|found| WORDS.show(out, self.common.json, found)))
    }
}

impl Act for EvaluateArgs {
    fn act<E: Element>(self, model: &Trained<E>) -> Result<(), TrainError> {
        let (vocabulary, words) = (model.vocabulary(), self.analogies_words);
        let analogies = self.analogies.as_ref().map(|file| read_analogies(file, vocabulary, words));
        let similarities = self.similarity.as_ref().map(|file| read_similarities(file, vocabulary));
        let (quality, value) = model.quality(
            analogies.transpose().map_err(TrainError::usage)?,
            similarities.transpose().map_err(TrainError::usage)?,
        );
        let measured = measure(Box::new(quality), value);
        print(|out| measures(out, self.json, &measured))
    }
}
