//! Questions by name, and their answers: for the commands and for the service.

use intendant_core::Element;
use intendant_trained::{Answered, Hit, Style};
use kge::{Question, Side, Trained};

/// Stands for the entity that is asked for.
const ASKED: &str = "?";

/// How predictions are shown.
pub(crate) const PREDICTED: Style = Style { answer: "entity", number: "score" };

/// How neighbours are shown.
pub(crate) const NEAR: Style = Style { answer: "entity", number: "similarity" };

/// A triple of which an entity is asked for, in words.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    words: [String; 3],
    pub(crate) question: Question,
}

/// Finds what a triple asks for.
pub(crate) fn find<E: Element>(model: &Trained<E>, words: [&str; 3]) -> Result<Asked, String> {
    let [subject, relation, object] = words;
    let (side, entity) = match (subject == ASKED, object == ASKED) {
        (false, true) => (Side::Object, subject),
        (true, false) => (Side::Subject, object),
        _ => return Err(format!("subject or object must be '{ASKED}', and not both")),
    };
    let (entity, relation) = (model.entities().find(entity)?, model.relations().find(relation)?);
    Ok(Asked { words: words.map(str::to_owned), question: Question { side, entity, relation } })
}

/// The most probable entities of triples.
pub(crate) fn predict<E: Element>(
    model: &Trained<E>,
    asked: &[Asked],
    count: usize,
    left_out: &[&[u32]],
    threads: usize,
) -> Vec<Answered> {
    let questions: Vec<Question> = asked.iter().map(|asked| asked.question).collect();
    let found = model.predict(&questions, count, left_out, threads);
    let answered = |(asked, hits): (&Asked, Vec<Hit>)| {
        let [subject, relation, object] = asked.words.clone();
        let asked = vec![("subject", subject), ("relation", relation), ("object", object)];
        Answered { asked, found: named(model, &hits) }
    };
    asked.iter().zip(found).map(answered).collect()
}

/// The nearest neighbours of entities.
pub(crate) fn neighbors<E: Element>(
    model: &Trained<E>,
    entities: &[u32],
    count: usize,
    threads: usize,
) -> Vec<Answered> {
    let found = model.neighbors(entities, count, threads);
    let answered = |(entity, hits): (&u32, Vec<Hit>)| {
        let asked = vec![("entity", model.entities().name(*entity).to_owned())];
        Answered { asked, found: named(model, &hits) }
    };
    entities.iter().zip(found).map(answered).collect()
}

fn named<E: Element>(model: &Trained<E>, hits: &[Hit]) -> Vec<(String, f64)> {
    hits.iter().map(|hit| (model.entities().name(hit.row).to_owned(), hit.score)).collect()
}
