//! Files of documents: what is read, and the errors for wrong files.

use super::*;
use proptest::prelude::*;
use std::fs;

fn entry(word: u32, count: u32) -> Entry {
    Entry { word, count }
}

/// Reads a file with this name and text. Of each ten documents, the first is held out; the others are for
/// training.
fn read_file(name: &str, text: &str, min_count: u64) -> Result<Corpus, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    let format = Format::of(&path);
    let source = Source::File { path, format, vocabulary: None, min_count };
    let shown = folder.path().display().to_string();
    Corpus::open(&source, &HeldOut::Every(10))
        .map_err(|error| error.to_string().replace(&format!("{shown}/"), ""))
}

fn bag(text: &str) -> Result<(Vec<Vec<Entry>>, u32), String> {
    let read = bag::read("f", text.as_bytes());
    read.map(|(documents, words)| (documents.iter().map(<[Entry]>::to_vec).collect(), words))
        .map_err(|error| error.to_string())
}

proptest! {
    /// Documents without words, words without documents, words of a document in any order.
    #[test]
    fn a_bag_of_words_is_read_as_it_was_written(
        documents in proptest::collection::vec(
            proptest::collection::btree_map(0u32..20, 1u32..1000, 0..6), 0..12,
        ),
        reversed: bool,
    ) {
        let lines = documents.iter().enumerate().flat_map(|(document, entries)| {
            let line = move |(word, count): (&u32, &u32)| format!("{} {} {count}\n", document + 1, word + 1);
            let mut lines: Vec<String> = entries.iter().map(line).collect();
            if reversed {
                lines.reverse();
            }
            lines
        });
        let lines: Vec<String> = lines.collect();
        let text = format!("{}\n20\n{}\n{}", documents.len(), lines.len(), lines.concat());
        let (read, words) = bag(&text).unwrap();
        prop_assert_eq!(words, 20);
        let expected: Vec<Vec<Entry>> =
            documents.iter().map(|d| d.iter().map(|(word, count)| entry(*word, *count)).collect()).collect();
        prop_assert_eq!(read, expected);
    }

    /// Any file gives an error or documents, never a panic; an error names a line.
    #[test]
    fn any_bag_is_read_or_refused(text in "[0-9 \\-a\n]{0,60}", header: bool) {
        let text = if header { format!("3\n4\n2\n{text}") } else { text };
        if let Err(error) = bag(&text) {
            prop_assert!(error.starts_with("f, line "), "{}", error);
        }
    }

    #[test]
    fn words_of_a_text_are_counted(text in "[abc \t\r\n]{0,80}") {
        let Collection { words, documents } = text::read("f", text.as_bytes()).unwrap();
        let lines: Vec<Vec<&str>> = text
            .split('\n')
            .map(|line| line.split([' ', '\t', '\r']).filter(|word| !word.is_empty()).collect())
            .collect();
        let expected = (1..).zip(&lines).filter(|(_, words)| !words.is_empty());
        let expected: Vec<(u64, &Vec<&str>)> = expected.collect();
        prop_assert_eq!(documents.len(), expected.len());
        for (place, (line, of_line)) in expected.into_iter().enumerate() {
            prop_assert_eq!(documents.name(place), line);
            prop_assert_eq!(documents.tokens_of(place), of_line.len() as u64);
            for entry in documents.get(place) {
                let word = words.get(entry.word as usize).unwrap();
                prop_assert_eq!(of_line.iter().filter(|other| **other == word).count(), entry.count as usize);
            }
        }
    }
}

#[test]
fn a_bag_that_is_wrong_is_refused_with_its_line() {
    let error = |text: &str| bag(text).unwrap_err();
    let header = "2\n3\n2\n";
    let of = |lines: &str| error(&format!("{header}{lines}"));
    assert_eq!(error(""), "f, line 1: the file ends here; expected the number of documents");
    assert_eq!(error("2\n"), "f, line 1: the file ends here; expected the number of words");
    assert_eq!(error("two\n3\n2\n"), "f, line 1: found 'two', expected the number of documents");
    assert_eq!(error("2\n3 4\n2\n"), "f, line 2: found '3 4', expected the number of words");
    assert_eq!(error("2\n-3\n2\n"), "f, line 2: found '-3', expected the number of words");
    assert_eq!(
        error("2\n4294967295\n2\n"),
        "f, line 2: found 4294967295; the number of words must be at most 4294967294"
    );
    let gaps = "of which at most 1 occur; number them without large gaps (at most 16777233 of them here)";
    assert_eq!(error("4294967295\n1\n1\n1 1 1\n"), format!("f, line 4: 4294967295 documents, {gaps}"));
    assert_eq!(
        error("4294967295\n1\n1\n4294967295 1 1\n"),
        format!("f, line 4: 4294967295 documents, {gaps}")
    );
    assert_eq!(error("1\n4294967294\n1\n1 1 1\n"), format!("f, line 4: 4294967294 words, {gaps}"));
    assert_eq!(error("1\n4294967294\n1\n1 4294967294 1\n"), format!("f, line 4: 4294967294 words, {gaps}"));
    let three = "expected three numbers: a document, a word, and how often it occurs there";
    assert_eq!(of("1 2\n"), format!("f, line 4: found '1 2', {three}"));
    assert_eq!(of("1 2 3 4\n"), format!("f, line 4: found '1 2 3 4', {three}"));
    assert_eq!(of("1 2 1.5\n"), format!("f, line 4: found '1 2 1.5', {three}"));
    assert_eq!(of("1 1 1\n3 1 1\n"), "f, line 5: document 3 is not between 1 and 2, as line 1 says");
    assert_eq!(of("0 1 1\n"), "f, line 4: document 0 is not between 1 and 2, as line 1 says");
    assert_eq!(of("1 4 1\n"), "f, line 4: word 4 is not between 1 and 3, as line 2 says");
    assert_eq!(of("1 3 0\n"), "f, line 4: word 3 occurs 0 times; expected 1 to 4294967295");
    assert_eq!(of("1 3 4294967296\n"), "f, line 4: word 3 occurs 4294967296 times; expected 1 to 4294967295");
    assert_eq!(
        of("2 3 1\n1 3 1\n"),
        "f, line 5: document 1 comes after document 2; sort the lines that follow the first three by their first number"
    );
    assert_eq!(
        of("1 3 1\n1 3 2\n"),
        "f, line 5: word 3 of document 1 has a second line; add up its occurrences"
    );
    assert_eq!(of("1 1 1\n1 2 1\n1 3 1\n"), "f, line 6: this is line 3 of those that line 3 says are 2");
    assert_eq!(of("1 1 1\n"), "f, line 4: the file ends after 1 of the 2 lines that line 3 announces");
    assert_eq!(bag("2\n3\n1\n\n2 3 1\n\n").unwrap(), (vec![vec![], vec![entry(2, 1)]], 3));
}

#[test]
fn tokens_may_be_more_than_32_bits_count() {
    let mut documents = Documents::default();
    documents.push(1, vec![entry(1, u32::MAX), entry(0, u32::MAX)]);
    assert_eq!(documents.tokens(), 2 * u64::from(u32::MAX));
}

#[test]
fn a_text_that_is_wrong_is_refused_with_its_line() {
    let error = |text: &[u8]| text::read("f", text).unwrap_err().to_string();
    assert_eq!(error(b"a b\n\xff\n"), "f, line 2: the line is not UTF-8 text");
    let long = format!("a\n{} b", "x".repeat(4097));
    assert_eq!(error(long.as_bytes()), "f, line 2: a word is longer than 4096 bytes; is this a text?");
}

#[test]
fn rare_words_are_left_out_and_frequent_ones_come_first() {
    let corpus = read_file("t.txt", "rare c\nb b a a c b\n\na c\n", 2).unwrap();
    assert_eq!(corpus.words().iter().collect::<Vec<_>>(), ["a", "b", "c"]);
    let training: Vec<_> = corpus.training().iter().map(<[Entry]>::to_vec).collect();
    assert_eq!(training, [vec![entry(0, 2), entry(1, 3), entry(2, 1)], vec![entry(0, 1), entry(2, 1)]]);
    let names: Vec<u64> = (0..2).map(|document| corpus.training().name(document)).collect();
    assert_eq!(names, [2, 4], "lines");
    assert_eq!(corpus.test().get(0), [entry(2, 1)]);
    let error = read_file("t.txt", "a b\na\n", 3).unwrap_err();
    let expected =
        "no word of t.txt occurs 3 times (distinct words: 2, the largest count: 2); lower --min-count";
    assert_eq!(error, expected);
    let expected =
        "no word of t.txt occurs 1 times (distinct words: 0, the largest count: 0); lower --min-count";
    assert_eq!(read_file("t.txt", "\n", 0).unwrap_err(), expected);
    // Words of a bag keep their order and their names.
    let corpus = read_file("docword.t.txt", "2\n3\n4\n1 1 1\n1 3 4\n2 2 2\n2 3 1\n", 2).unwrap();
    assert_eq!(corpus.words().iter().collect::<Vec<_>>(), ["2", "3"]);
    assert_eq!(corpus.training().get(0), [entry(0, 2), entry(1, 1)]);
}

#[test]
fn every_tenth_document_is_held_out_from_the_first_on() {
    // Documents without words count when documents are held out.
    let lines: String = (1..=25).filter(|d| *d != 12).map(|d| format!("{d} 1 1\n")).collect();
    let corpus = read_file("docword.t", &format!("25\n1\n24\n{lines}"), 1).unwrap();
    let names = |documents: &Documents| (0..documents.len()).map(|d| documents.name(d)).collect::<Vec<_>>();
    assert_eq!(names(corpus.test()), [1, 11, 21]);
    assert_eq!(corpus.training().len(), 22);
    assert_eq!(corpus.training().tokens_of(9), 0);
    let error = read_file("docword.t", "1\n1\n1\n1 1 1\n", 1).unwrap_err();
    assert_eq!(error, "holding out every 10th of 1 documents leaves nothing to train on");
    let error = read_file("docword.t", "2\n1\n1\n2 1 1\n", 1).unwrap_err();
    assert_eq!(error, "holding out every 10th of 2 documents leaves nothing to test on");
}

#[test]
fn words_of_test_documents_are_found_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let (data, test) = (file("train.txt", "b a b\nb c\n"), file("test.txt", "c d b c\n"));
    let source = Source::File { path: data, format: Format::Text, vocabulary: None, min_count: 1 };
    let corpus = Corpus::open(&source, &HeldOut::File(test)).unwrap();
    assert_eq!((corpus.test().get(0), corpus.unknown()), (&[entry(0, 1), entry(2, 2)][..], 1));
    assert_eq!(corpus.training().len(), 2);
    // A bag of words with the same words as the text.
    let bag = file("docword.test", "1\n2\n2\n1 1 3\n1 2 1\n");
    let error = Corpus::to_test(corpus.words().clone(), &bag, Format::Bag, None).unwrap_err().to_string();
    assert!(error.ends_with(
        "docword.test has none of the 3 words of the model; words of a bag of words are their numbers, unless --vocab names them"
    ));
    let vocabulary = file("vocab.txt", "d\nc\n");
    let corpus = Corpus::to_test(corpus.words().clone(), &bag, Format::Bag, Some(&vocabulary)).unwrap();
    assert_eq!((corpus.test().get(0), corpus.unknown()), (&[entry(2, 1)][..], 3));
}

#[test]
fn a_vocabulary_that_is_wrong_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("docword.t");
    fs::write(&data, "2\n2\n3\n1 1 1\n1 2 1\n2 2 1\n").unwrap();
    let vocabulary = folder.path().join("vocab.t");
    let read = |text: &str| {
        fs::write(&vocabulary, text).unwrap();
        let vocabulary = Some(vocabulary.clone());
        let source = Source::File { path: data.clone(), format: Format::Bag, vocabulary, min_count: 1 };
        let shown = format!("{}/", folder.path().display());
        Corpus::open(&source, &HeldOut::Every(10)).map_err(|error| error.to_string().replace(&shown, ""))
    };
    assert_eq!(read("one\ntwo\n").unwrap().words().iter().collect::<Vec<_>>(), ["one", "two"]);
    let expected = "vocab.t has 1 words, but docword.t has 2: one word per line is needed";
    assert_eq!(read("one\n").unwrap_err(), expected);
    assert_eq!(read("one\n\n").unwrap_err(), "vocab.t, line 2: found '', expected a word");
    assert_eq!(read("one two\n").unwrap_err(), "vocab.t, line 1: found 'one two', expected a word");
    assert_eq!(read("one\none\n").unwrap_err(), "vocab.t, line 2: 'one' is the word of line 1 as well");
}

#[test]
fn generated_documents_are_those_of_their_topics() {
    for refused in
        ["other", "topics:", "topics:10x5", "topics:10x5x3", "topics:0x9x3", "topics:9x9x0", "topics:1x2x3x4"]
    {
        let error = Generator::named(refused).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("there is no builtin:{refused}; there is builtin:topics, or")),
            "{error}"
        );
    }
    assert_eq!(Generator::named("topics").unwrap(), Generator::named("topics:1000x1000x20").unwrap());
    let generator = Generator::named("topics:400x60x4").unwrap();
    let Collection { words, documents } = generator.generate();
    assert_eq!((words.len(), documents.len(), generator.topics()), (60, 400, 4));
    assert_eq!(generator.generate().documents, documents);
    let topics: Vec<Vec<f64>> = (0..4).map(|topic| generator.topic(topic)).collect();
    topics.iter().for_each(|topic| assert!((topic.iter().sum::<f64>() - 1.0).abs() < 1e-12));
    // Compares counts with their expectations, with a bound of six standard deviations.
    let mut expected = vec![0.0; 60];
    for document in 0..400 {
        let mixture = generator.mixture(document);
        let tokens = documents.tokens_of(document as usize) as f64;
        for (topic, part) in topics.iter().zip(mixture) {
            topic.iter().zip(&mut expected).for_each(|(p, sum)| *sum += tokens * part * p);
        }
    }
    for (word, count) in documents.counts(60).into_iter().enumerate() {
        let off = count as f64 - expected[word];
        assert!(off.abs() < 6.0 * expected[word].sqrt(), "word {word}: {count}, not {}", expected[word]);
    }
}
