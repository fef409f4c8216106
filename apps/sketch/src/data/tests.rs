use super::*;
use proptest::prelude::*;

fn options(items: Items, counts: bool, piece_bytes: u64) -> Options {
    Options { items, counts, piece_bytes }
}

const WORDS: Items = Items::Words { ngrams: 1 };

/// All items of all pieces, with their counts.
fn read(text: &[u8], options: Options) -> Result<Vec<(String, u64)>, String> {
    let stream = Stream::memory("f", text.to_vec(), options);
    let mut items = Vec::new();
    for piece in 0..stream.pieces() {
        let take = |item: Item<'_>| {
            let mut name = Vec::new();
            item.text.write(&mut name);
            items.push((String::from_utf8_lossy(&name).into_owned(), item.count));
        };
        stream.read(piece, |text| text.len() as u64, take).map_err(|error| error.to_string())?;
    }
    Ok(items)
}

fn names(text: &[u8], items: Items) -> Vec<String> {
    let read = read(text, options(items, false, 1 << 20)).expect("well formed");
    assert!(read.iter().all(|(_, count)| *count == 1));
    read.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn items_are_words_lines_or_integers() {
    let text = b"\xef\xbb\xbfa  b\tc\r\n\r\n \na b\x0bc d\n\xff e";
    assert_eq!(names(text, WORDS), ["a", "b", "c", "a", "b", "c", "d", "\u{fffd}", "e"]);
    assert_eq!(names(text, Items::Words { ngrams: 2 }), ["a b", "b c", "a b", "b c", "c d", "\u{fffd} e"]);
    assert_eq!(names(text, Items::Words { ngrams: 3 }), ["a b c", "a b c", "b c d"]);
    assert_eq!(names(text, Items::Words { ngrams: 5 }), [""; 0]);
    assert_eq!(names(text, Items::Lines), ["a  b\tc", "a b\u{b}c d", "\u{fffd} e"]);
    assert_eq!(
        names(b"7\n\n 08 \r\n18446744073709551615", Items::Integers),
        ["7", "8", "18446744073709551615"]
    );
    assert_eq!(names(b"", WORDS), [""; 0]);
}

#[test]
fn counts_are_behind_the_last_tab() {
    let read = |text: &[u8], items| read(text, options(items, true, 1 << 20)).expect("well formed");
    let of = |items: &[(&str, u64)]| items.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    let expected: Vec<_> = of(&[("a b", 3), ("c\td", 9_007_199_254_740_992)]);
    assert_eq!(read(b"a b\t3\nc\td\t9007199254740992\r\n", Items::Lines), expected);
    assert_eq!(read(b"12\t 4 \n", Items::Integers), of(&[("12", 4)]));
    assert_eq!(read(b"a b\t2", Items::Words { ngrams: 2 }), of(&[("a b", 2)]));
    assert_eq!(read(b"a b\t2", WORDS), of(&[("a", 2), ("b", 2)]));
}

#[test]
fn malformed_lines_are_named() {
    let error = |text: &str, items, counts| {
        // In pieces, line numbers still count from the beginning of the file.
        read(text.as_bytes(), options(items, counts, 5)).unwrap_err()
    };
    let integers = |text: &str| error(text, Items::Integers, false);
    assert_eq!(integers("1\n2\n\nx3\n"), "f, line 4: 'x3' is no integer from 0 to 18446744073709551615");
    assert_eq!(integers("-1"), "f, line 1: '-1' is no integer from 0 to 18446744073709551615");
    assert_eq!(
        integers("18446744073709551616"),
        "f, line 1: '18446744073709551616' is no integer from 0 to 18446744073709551615"
    );
    assert_eq!(integers("1\n2 3\n"), "f, line 2: '2 3' is no integer from 0 to 18446744073709551615");
    assert!(integers(&"9".repeat(1000)).starts_with(&format!("f, line 1: '{}…' is", "9".repeat(80))));
    let lines = |text: &str| error(text, Items::Lines, true);
    assert_eq!(
        lines("a\t1\nb 2\n"),
        "f, line 2: there is no tab in 'b 2'; expected an item, a tab and a count"
    );
    assert_eq!(lines("\t2"), "f, line 1: there is no item before the tab");
    for count in ["", "0", "-1", "1.5", "9007199254740993"] {
        assert_eq!(
            lines(&format!("a\t1\na\t{count}\n")),
            format!("f, line 2: the count is '{count}'; expected an integer from 1 to 9007199254740992")
        );
    }
}

#[test]
fn records_without_an_end_are_named() {
    let word = vec![b'x'; RECORD_BYTES_MAX as usize + 100];
    let error = |items| read(&word, options(items, false, 16)).unwrap_err();
    assert_eq!(error(WORDS), "f: no word ends within 1048576 bytes from byte 15 on; is this a text?");
    assert_eq!(error(Items::Lines), "f: no line ends within 1048576 bytes from byte 15 on; is this a text?");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = |name: &str, bytes: Option<&[u8]>| {
        let path = folder.path().join(name);
        if let Some(bytes) = bytes {
            std::fs::write(&path, bytes).unwrap();
        }
        let opened = Stream::open(&path, options(WORDS, false, 100));
        opened.unwrap_err().to_string().replace(folder.path().to_str().unwrap(), "DIR")
    };
    assert!(error("no", None).starts_with("cannot read DIR/no: "));
    assert_eq!(
        error("", None),
        "cannot read DIR/: it is no regular file, whose parts several workers can read"
    );
    assert!(
        error("a.txt", Some(b"\x1f\x8b\x08\0")).starts_with("DIR/a.txt is compressed by gzip; rename it so")
    );
    assert!(error("a.zst", Some(b"no frame")).starts_with("cannot read DIR/a.zst: "));
}

#[test]
fn a_file_that_shrinks_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    std::fs::write(&path, "a b c d e f g h").unwrap();
    let stream = Stream::open(&path, options(WORDS, false, 100)).unwrap();
    std::fs::write(&path, "a b").unwrap();
    assert!(!stream.read_or_fail(0, |_| 0, |_| ()));
    let said = stream.failure().unwrap().to_string();
    assert!(said.ends_with(" changed while it was in use: it ends before byte 15; start again"), "{said}");
}

#[test]
fn compressed_files_are_read() {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.zst");
    std::fs::write(&path, compress_to_vec(&b"a b\na"[..], CompressionLevel::Fastest)).unwrap();
    let stream = Stream::open(&path, options(WORDS, false, 2)).unwrap();
    let mut items = 0;
    (0..stream.pieces()).for_each(|piece| stream.read(piece, |_| 0, |_| items += 1).unwrap());
    assert_eq!((stream.pieces(), items), (3, 3));
}

#[test]
fn streams_that_differ_have_different_digests() {
    let digest = |text: &[u8], options| Stream::memory("f", text.to_vec(), options).digest().unwrap();
    let words = options(WORDS, false, 100);
    let first = digest(b"a b", words);
    assert_eq!(first, digest(b"a b", words));
    for other in [
        digest(b"a c", words),
        digest(b"a b ", words),
        digest(b"a b", options(Items::Lines, false, 100)),
        digest(b"a b", options(Items::Words { ngrams: 2 }, false, 100)),
        digest(b"a b", options(WORDS, true, 100)),
        digest(b"a b", options(WORDS, false, 101)),
    ] {
        assert_ne!(first, other);
    }
}

#[test]
fn generated_streams_have_their_counts() {
    for (name, items, distinct) in [
        ("zipf", 1_000_000, 50_000),
        ("zipf:7x3", 7, 3),
        ("zipf:3x100", 3, 100),
        ("zipf:1000x50x0", 1000, 50),
    ] {
        let stream = Stream::builtin(name, options(Items::Integers, false, 800)).unwrap();
        let zipf = stream.generator().unwrap();
        let expected: Vec<u64> = zipf.counts().collect();
        assert_eq!((expected.iter().sum::<u64>(), expected.len()), (items, distinct));
        let mut counts = vec![0; distinct];
        for piece in 0..stream.pieces() {
            stream.read(piece, |_| unreachable!(), |item| counts[item.x as usize] += item.count).unwrap();
        }
        assert_eq!(counts, expected, "{name}");
        assert_eq!((stream.items_max(), stream.items_estimate()), (Some(items), items));
    }
    let uniform = Zipf::named("zipf:1000x50x0").unwrap();
    assert!(uniform.counts().all(|count| count == 20));
    let zipf = Zipf::named("zipf:1000000x1000x1").unwrap();
    let counts: Vec<u64> = zipf.counts().collect();
    assert!((counts[0] as f64 / counts[9] as f64 - 10.0).abs() < 0.01, "{counts:?}");
    for wrong in
        ["", "zip", "zipf:", "zipf:5", "zipf:0x5", "zipf:5x0", "zipf:5x5x-1", "zipf:5x5x1x1", "zipf:axb"]
    {
        let error = Stream::builtin(wrong, options(Items::Integers, false, 800)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("there is no builtin:{wrong}; there is builtin:zipf")), "{error}");
    }
    let error = Stream::builtin("zipf", options(WORDS, false, 800)).unwrap_err().to_string();
    assert!(error.starts_with("builtin streams are of integers without counts"), "{error}");
}

proptest! {
    /// For any size of pieces, the pieces' items are those of the text as a whole, in order.
    #[test]
    fn pieces_have_every_item_exactly_once(
        text in "([ab]{1,4}(\n| |\r\n|\t| \n\n){1,2}){0,40}[ab]{0,4}",
        piece_bytes in 1u64..50,
        items in prop_oneof![
            Just(WORDS), Just(Items::Words { ngrams: 2 }), Just(Items::Words { ngrams: 3 }),
            Just(Items::Lines),
        ],
    ) {
        let whole = read(text.as_bytes(), options(items, false, 1 << 20)).unwrap();
        prop_assert_eq!(read(text.as_bytes(), options(items, false, piece_bytes)).unwrap(), whole.clone());
        if items == WORDS {
            prop_assert!(whole.iter().map(|(name, _)| name.as_str()).eq(text.split_ascii_whitespace()));
        }
        let stream = Stream::memory("f", text.clone().into_bytes(), options(items, false, piece_bytes));
        prop_assert!(whole.len() as u64 <= stream.items_max().unwrap(), "{} items", whole.len());
    }

    #[test]
    fn integers_with_counts_are_those_of_their_lines(
        numbers in proptest::collection::vec((any::<u64>(), 1u64..1000), 0..40), piece_bytes in 1u64..90,
    ) {
        let text: String = numbers.iter().map(|(x, count)| format!("{x}\t{count}\n")).collect();
        let stream = Stream::memory("f", text.into_bytes(), options(Items::Integers, true, piece_bytes));
        let mut read = Vec::new();
        for piece in 0..stream.pieces() {
            stream.read(piece, |_| 0, |item| read.push((item.x, item.count))).unwrap();
        }
        prop_assert_eq!(read, numbers);
    }
}
