//! Questions by name, and their answers: for the commands and for the service.

use intendant_core::Element;
use intendant_trained::{Answered, Hit, Style};
use word2vec::Trained;

/// How words are shown.
pub(crate) const WORDS: Style = Style { answer: "word", number: "similarity" };

/// Finds the words of an analogy.
pub(crate) fn find<E: Element>(model: &Trained<E>, [a, b, c]: [&str; 3]) -> Result<[u32; 3], String> {
    Ok([model.find(a)?, model.find(b)?, model.find(c)?])
}

/// The words with the most similar vectors.
pub(crate) fn similar<E: Element>(
    model: &Trained<E>,
    words: &[u32],
    count: usize,
    threads: usize,
) -> Vec<Answered> {
    let found = model.similar(words, count, threads);
    let answered = |(word, hits): (&u32, Vec<Hit>)| {
        let asked = vec![("word", model.word(*word).into_owned())];
        Answered { asked, found: named(model, &hits) }
    };
    words.iter().zip(found).map(answered).collect()
}

/// Answers to "a is to b as c is to which word?".
pub(crate) fn analogies<E: Element>(
    model: &Trained<E>,
    asked: &[[u32; 3]],
    count: usize,
    threads: usize,
) -> Vec<Answered> {
    let found = model.analogies(asked, count, threads);
    let answered = |(words, hits): (&[u32; 3], Vec<Hit>)| {
        let [a, b, c] = words.map(|word| model.word(word).into_owned());
        Answered { asked: vec![("a", a), ("b", b), ("c", c)], found: named(model, &hits) }
    };
    asked.iter().zip(found).map(answered).collect()
}

fn named<E: Element>(model: &Trained<E>, hits: &[Hit]) -> Vec<(String, f64)> {
    hits.iter().map(|hit| (model.word(hit.row).into_owned(), hit.score)).collect()
}
