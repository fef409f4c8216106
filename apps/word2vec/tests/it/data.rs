//! Valid files, and invalid ones.

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::fs;
use std::path::Path;
use word2vec::data::{Corpus, Options, UNKNOWN};

fn options() -> Options {
    Options { min_count: Some(1), ..Options::default() }
}

/// Writes `bytes` to a file called `name` and opens it.
fn open(name: &str, bytes: &[u8], options: Options) -> Result<Corpus, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    fs::write(&file, bytes).unwrap();
    // The path is deleted; the open file stays readable.
    Corpus::open(&file, options)
        .map_err(|error| error.to_string().replace(folder.path().to_str().unwrap(), "DIR"))
}

/// All pieces, those of held-out blocks included, in the order of the text.
fn pieces(corpus: &Corpus) -> Vec<Vec<String>> {
    let mut blocks = [corpus.training(), corpus.held_out()].concat();
    blocks.sort_unstable();
    let mut pieces = Vec::new();
    for block in blocks {
        let words = corpus.read(block).unwrap();
        assert_eq!(words.words.len() as u64, corpus.block_words(block));
        let mut start = 0;
        for end in &words.ends {
            let word = |id: &u32| match *id {
                UNKNOWN => "?".to_owned(),
                id => String::from_utf8_lossy(corpus.vocabulary().word(id)).into_owned(),
            };
            pieces.push(words.words[start..*end].iter().map(word).collect());
            start = *end;
        }
    }
    pieces
}

#[test]
fn words_are_bytes_between_blanks_and_lines_are_pieces() {
    let text = b"The cat\tsat\r\n\n \nthe\x0bcat\x0csat \xff\xfe\ncat the\xc3\xa9";
    let corpus = open("t.txt", text, options()).unwrap();
    assert_eq!(
        pieces(&corpus),
        [&["The", "cat", "sat"][..], &["the", "cat", "sat", "\u{fffd}\u{fffd}"], &["cat", "the\u{e9}"]]
    );
    let words: Vec<&[u8]> = corpus.vocabulary().words().collect();
    assert_eq!(words, [&b"cat"[..], b"sat", b"The", b"the", b"the\xc3\xa9", b"\xff\xfe"]);
    assert_eq!(
        (corpus.vocabulary().counts(), corpus.words(), corpus.pieces()),
        (&[3, 2, 1, 1, 1, 1][..], 9, 3)
    );
}

#[test]
fn what_is_compressed_is_named() {
    let error = |name, bytes: &[u8]| open(name, bytes, options()).unwrap_err();
    let of = |program| {
        format!(
            "DIR/t.txt is compressed by {program}; decompress it, or compress it by zstd instead: {program} --decompress --stdout \
             DIR/t.txt | zstd > NAME.zst"
        )
    };
    for (bytes, program) in [(&b"BZh91AY&SY\x01"[..], "bzip2"), (b"\xfd7zXZ\0\0\x04", "xz")] {
        assert_eq!(error("t.txt", bytes), of(program));
    }
    let zstd = compress_to_vec(&b"a b a b\n"[..], CompressionLevel::Fastest);
    let renamed = "DIR/t.txt is compressed by zstd; rename it so that its name ends in .zst";
    assert_eq!(error("t.txt", &zstd), renamed);
    let renamed = "DIR/t.txt is compressed by gzip; rename it so that its name ends in .gz";
    assert_eq!(error("t.txt", b"\x1f\x8b\x08\0abc"), renamed);
    open("t.txt", b"BZh is a word\nthat is all\n", options()).unwrap();
}

#[test]
fn long_lines_are_cut_and_nothing_is_lost() {
    let text: String = (0..5000).map(|i| format!("{} ", i % 77)).collect();
    for piece_words_max in [1, 7, 1000, 4999] {
        let corpus = open("t", text.as_bytes(), Options { piece_words_max, ..options() }).unwrap();
        let pieces = pieces(&corpus);
        assert!(pieces[..pieces.len() - 1].iter().all(|piece| piece.len() as u64 == piece_words_max));
        assert!(
            pieces.concat().iter().eq((0..5000).map(|i| (i % 77).to_string()).collect::<Vec<_>>().iter())
        );
    }
}

#[test]
fn rare_words_are_unknown_but_count_as_words() {
    let text = "a b a\n".repeat(3) + "c a b\n";
    let corpus = open("t", text.as_bytes(), Options { min_count: Some(2), ..options() }).unwrap();
    assert_eq!(pieces(&corpus)[3], ["?", "a", "b"]);
    assert_eq!((corpus.words(), corpus.vocabulary().total()), (12, 11));
    let error = open("t", text.as_bytes(), Options { min_count: Some(8), ..options() }).unwrap_err();
    assert_eq!(
        error,
        "no word of DIR/t occurs 8 times (distinct words: 3, the largest count: 7); lower --min-count"
    );
}

#[test]
fn compressed_text_is_the_same_text() {
    let text: String = (0..3000).map(|i| format!("word{} {}\n", i % 300, i % 7)).collect();
    let plain = open("t.txt", text.as_bytes(), options()).unwrap();
    let bytes = compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
    let compressed = open("t.txt.zst", &bytes, options()).unwrap();
    assert_eq!(pieces(&plain), pieces(&compressed));
    assert_eq!(plain.digest(), compressed.digest());
    let error = open("t.zst", &bytes[..bytes.len() / 2], options()).unwrap_err();
    assert!(error.starts_with("cannot read DIR/t.zst: "), "{error}");
}

#[test]
fn blocks_are_held_out_whatever_the_seed() {
    let text: String = (0..40_000).map(|i| format!("{} {}\n", i % 300, i % 7)).collect();
    let held = |held_out| open("t", text.as_bytes(), Options { held_out, ..options() }).unwrap();
    let quarter = held(Some(0.25));
    let (training, held_out) = (quarter.training(), quarter.held_out());
    let blocks = training.len() + held_out.len();
    assert!(blocks > 50 && (held_out.len() as f64 / blocks as f64 - 0.25).abs() < 0.02);
    assert!(training.iter().all(|block| !held_out.contains(block)));
    let words: u64 = held_out.iter().map(|block| quarter.block_words(*block)).sum();
    assert_eq!(words + quarter.training_words(), quarter.words());
    assert_eq!(held_out, held(Some(0.25)).held_out());
    assert_ne!(quarter.digest(), held(None).digest());
    assert_eq!(held(None).held_out().len(), 1, "one of a hundred, but at least one");
    assert_eq!(held(Some(0.9999)).training().len(), 1);
}

#[test]
fn the_digest_sees_words_and_their_order() {
    let digest = |text: &str| open("t", text.as_bytes(), options()).unwrap().digest();
    let digests = ["a b\nc d\n", "b a\nc d\n", "a b\nc\nd\n", "c d\na b\n", "a b\nc e\n"].map(digest);
    for (at, one) in digests.iter().enumerate() {
        assert!(digests[..at].iter().all(|other| other != one), "{at}");
    }
    assert_eq!(digest("a b\nc d\n"), digests[0]);
}

#[test]
fn what_cannot_be_used_is_refused() {
    let error = |bytes: &[u8]| open("t", bytes, options()).unwrap_err();
    assert_eq!(
        error(b""),
        "no word of DIR/t occurs 1 times (distinct words: 0, the largest count: 0); lower --min-count"
    );
    assert!(
        error(b"one line only")
            .starts_with("DIR/t is one block of pieces (lines, or 1000 words of a longer line)")
    );
    let word = "x".repeat(5000);
    let text = format!("a b\nc {word} d\n");
    assert_eq!(
        error(text.as_bytes()),
        "DIR/t: the word that starts at byte 6 is longer than 4096 bytes; is this a text?"
    );
    let missing = Corpus::open(Path::new("does/not/exist"), options()).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read does/not/exist: "), "{missing}");
    let missing = Corpus::open(Path::new("does/not/exist.zst"), options()).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read does/not/exist.zst: "), "{missing}");
    let folder = Corpus::open(&std::env::temp_dir(), options()).unwrap_err().to_string();
    assert!(folder.contains("it is no regular file"), "{folder}");
    for name in ["other", "topics:", "topics:10", "topics:10x5"] {
        let error = Corpus::builtin(name, options()).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("there is no builtin:{name}; there are builtin:wiki ")),
            "{error}"
        );
    }
}

#[test]
fn the_built_in_text_is_wikipedia() {
    let corpus = Corpus::builtin("wiki", Options::default()).unwrap();
    assert_eq!((corpus.words(), pieces(&corpus).len() as u64), (259_931, corpus.pieces()));
    assert!((0.04..0.06).contains(&(1.0 - corpus.training_words() as f64 / 259_931.0)));
    for word in ["the", "vienna", "oxygen", "leopard"] {
        assert!(corpus.vocabulary().find(word.as_bytes()).is_some(), "{word}");
    }
    assert!(corpus.vocabulary().counts().iter().all(|count| *count >= 5));
}

#[test]
fn all_words_of_generated_text_are_kept() {
    let corpus = Corpus::builtin("topics:5000x20000", Options::default()).unwrap();
    assert_eq!(
        (corpus.vocabulary().len(), corpus.vocabulary().total(), corpus.words()),
        (5000, 20_000, 20_000)
    );
    assert!(corpus.vocabulary().counts().is_sorted_by(|a, b| a >= b));
    let few = Options { min_count: Some(5), ..Options::default() };
    let few = Corpus::builtin("topics:5000x20000", few).unwrap();
    assert!(few.vocabulary().len() < 1500 && few.vocabulary().counts().iter().all(|count| *count >= 5));
    let again = Corpus::builtin("topics:5000x20000", Options::default()).unwrap();
    assert_eq!((pieces(&corpus), corpus.digest()), (pieces(&again), again.digest()));
    assert_ne!(corpus.digest(), Corpus::builtin("topics:5000x20001", Options::default()).unwrap().digest());
}
