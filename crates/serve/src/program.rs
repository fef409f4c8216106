//! What an application declares: its endpoints, and how its models are loaded and answer.

use intendant_trained::{Export, TrainedError};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Answers to a question that does not say how many it wants.
pub const K_DEFAULT: usize = 10;

/// An application whose models are served.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name, as in `export.json`.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// What its models answer.
    pub endpoints: &'static [Endpoint],
    /// Loads a model, and prepares all that its answers need.
    pub load: fn(&Export) -> Result<Box<dyn Model>, TrainedError>,
}

/// A kind of question: `POST /v1/NAME`.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// Its path, `/v1/NAME`.
    pub path: &'static str,
    /// What it answers, in a line.
    pub about: &'static str,
    /// The members of a question, without `k`.
    pub members: &'static [Member],
    /// What an answer has beside the members of its question.
    pub found: Found,
}

impl Endpoint {
    /// The last part of its path, by which models know it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Whether a question says how many answers it wants.
    pub(crate) fn takes_k(&self) -> bool {
        matches!(self.found, Found::List { .. })
    }
}

/// A member of a question.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Its name.
    pub name: &'static str,
    /// What it means, in a line.
    pub about: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Whether a question must have it.
    pub required: bool,
}

/// The type of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// A list of texts.
    Texts,
}

/// What an answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The list `answers`, best first. A question says by `k` how long it is.
    List {
        /// What each of them is, as in "entity".
        answer: &'static str,
        /// What its number is, as in "similarity".
        number: &'static str,
    },
    /// A number of this name.
    Number(&'static str),
}

/// A question.
#[derive(Clone, Debug)]
pub struct Question {
    members: Map<String, Value>,
    k: usize,
}

impl Question {
    /// A question with these members that wants `k` answers.
    #[must_use]
    pub const fn new(members: Map<String, Value>, k: usize) -> Self {
        Self { members, k }
    }

    /// Its members.
    ///
    /// # Errors
    /// If they are not those of `T`: a text for people.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        T::deserialize(Value::Object(self.members.clone())).map_err(|error| error.to_string())
    }

    /// How many answers it wants.
    #[must_use]
    pub const fn k(&self) -> usize {
        self.k
    }
}

/// A trained model that answers questions. Several threads ask it at the same time.
pub trait Model: Send + Sync {
    /// What it holds, and how much of it: `entities`, `dim`.
    fn sizes(&self) -> Vec<(&'static str, usize)>;

    /// The answers to questions of the endpoint of this name, one for each, or why there is none: a text for
    /// people. Uses up to `threads` threads.
    fn answer(&self, endpoint: &str, questions: &[Question], threads: usize) -> Vec<Result<Value, String>>;
}

/// Answers those of `questions` that `find` finds what they ask for. `answer` is told the largest number of
/// answers that one of them wants; `finish` makes of an answer what a question with this `k` gets.
pub fn each<T, A>(
    questions: &[Question],
    find: impl Fn(&Question) -> Result<T, String>,
    answer: impl FnOnce(&[T], usize) -> Vec<A>,
    finish: impl Fn(A, usize) -> Value,
) -> Vec<Result<Value, String>> {
    let (mut asked, mut k_max) = (Vec::with_capacity(questions.len()), 0);
    let mut found: Vec<Result<usize, String>> = Vec::with_capacity(questions.len());
    for question in questions {
        found.push(find(question).map(|ask| {
            asked.push(ask);
            k_max = k_max.max(question.k);
            question.k
        }));
    }
    let mut answers = answer(&asked, k_max).into_iter();
    let mut next =
        |k| answers.next().map(|answer| finish(answer, k)).ok_or_else(|| "there is no answer".to_owned());
    found.into_iter().map(|found| found.and_then(&mut next)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn question(text: &str, k: usize) -> Question {
        Question::new(json!({ "word": text }).as_object().cloned().unwrap_or_default(), k)
    }

    #[test]
    fn questions_that_cannot_be_answered_leave_the_others_in_order() {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Asked {
            word: String,
        }
        let questions = [question("aa", 1), question("", 9), question("bbb", 2)];
        let find = |question: &Question| {
            let Asked { word } = question.read()?;
            if word.is_empty() { Err("it is empty".to_owned()) } else { Ok(word) }
        };
        let answer = |words: &[String], k: usize| words.iter().map(|word| (word.len(), k)).collect();
        let found = each(&questions, find, answer, |(len, k_max), k| json!([len, k_max, k]));
        assert_eq!(found, [Ok(json!([2, 2, 1])), Err("it is empty".to_owned()), Ok(json!([3, 2, 2]))]);
        let other = Question::new(json!({ "words": "a" }).as_object().cloned().unwrap_or_default(), 1);
        assert!(other.read::<Asked>().is_err_and(|error| error.contains("unknown field `words`")));
    }
}
