//! File formats: which files load, and which are refused with which message.

use kge::data::{Dataset, Triple, Unseen};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn triple(subject: u32, relation: u32, object: u32) -> Triple {
    Triple { subject, relation, object }
}

/// The error message, without the path of the temporary folder.
fn refused(files: &[(&str, &str)]) -> String {
    let folder = folder(files);
    let error = Dataset::read(folder.path()).unwrap_err().to_string();
    error
        .replace(&format!("{}/", folder.path().display()), "")
        .replace(&folder.path().display().to_string(), ".")
}

#[test]
fn the_builtin_graph_is_codex_s() {
    let data = Dataset::builtin("codex-s").unwrap();
    assert_eq!((data.entities.len(), data.relations.len()), (2034, 42));
    assert_eq!((data.train.len(), data.valid.len(), data.test.len()), (32_888, 1_827, 1_828));
    assert_eq!(data.entities.get(0), Some("Q7604"));
    assert_eq!(data.relations.get(0), Some("P1412"));
    assert_eq!(data.train[0], triple(0, 0, 1));
    assert_eq!(data.unseen(), Unseen::default());
    let error = Dataset::builtin("codex-x").unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no data set builtin:codex-x; there are builtin:codex-s, builtin:synthetic:ENTITIESxRELATIONSxTRIPLES and builtin:skewed:ENTITIESxRELATIONSxTRIPLES"
    );
}

/// How often each number occurs, in descending order.
fn frequencies(numbers: impl Iterator<Item = u32>) -> Vec<u64> {
    let mut counts: Vec<u64> = Vec::new();
    for number in numbers {
        counts.resize(counts.len().max(number as usize + 1), 0);
        counts[number as usize] += 1;
    }
    counts.sort_unstable();
    counts.reverse();
    counts
}

#[test]
fn a_generated_graph_has_the_size_and_the_skew_of_real_ones() {
    let data = Dataset::builtin("synthetic:20000x200x60000").unwrap();
    assert_eq!((data.entities.len(), data.relations.len()), (20_000, 200));
    assert_eq!((data.train.len(), data.valid.len(), data.test.len()), (60_000, 500, 500));
    assert_eq!((data.entities.get(19_999), data.relations.get(0)), (Some("e19999"), Some("r0")));
    let mut all = [&data.train[..], &data.valid, &data.test].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 61_000, "triples are distinct");
    assert_eq!(data.unseen(), Unseen::default(), "what is held out can be learned");
    let sparse = Dataset::builtin("synthetic:5000x50x2000").unwrap();
    assert_eq!(
        (sparse.test.len(), sparse.unseen()),
        (20, Unseen::default()),
        "even if most entities do not occur"
    );

    // Zipf's law: the first of 200 relations has 1/5.88 of all triples, ten times as many as the tenth. The
    // tolerances are 5 standard deviations.
    let relations = frequencies(data.train.iter().map(|t| t.relation));
    assert!(relations[0].abs_diff(10_207) < 5 * 92, "{relations:?}");
    assert!(relations[9].abs_diff(1_021) < 5 * 32, "{relations:?}");
    // Some entities are the object of several percent of all triples, and most are the object of hardly any.
    let objects = frequencies(data.train.iter().map(|t| t.object));
    assert!((600..3_000).contains(&objects[0]), "{:?}", &objects[..9]);
    let half: u64 = objects[..objects.len() / 20].iter().sum();
    assert!(half > 30_000, "a twentieth of the objects are in half of the triples: {half}");
    // Every entity is a subject, and no entity is the subject of very many triples.
    let subjects = frequencies(data.train.iter().map(|t| t.subject));
    assert_eq!(subjects.len(), 20_000);
    assert!(subjects[19_999] >= 1 && subjects[0] < 600, "{:?}", &subjects[..9]);
}

/// [thesis Tab. 4.4]: shares of reads that go to the given numbers of most frequent keys. With 100 negatives
/// for each side, a triple reads its relation 201 times, each of its entities 101 times, and 200 samples. The
/// graph has a tenth of the entities and far fewer triples, but as many relations.
#[test]
fn a_skewed_graph_has_the_skew_of_wikidata5m() {
    const TABLE: [(usize, f64); 5] = [(14, 23.0), (56, 33.0), (225, 38.0), (900, 41.0), (3600, 44.0)];
    let shares = |spec: &str| {
        let data = Dataset::builtin(spec).unwrap();
        let (triples, entities) = (data.train.len() as f64, data.entities.len() as f64);
        let of_relations = frequencies(data.train.iter().map(|t| t.relation));
        let of_entities = frequencies(data.train.iter().flat_map(|t| [t.subject, t.object]));
        let of_relations = of_relations.iter().map(|n| 201.0 * *n as f64);
        let of_entities = of_entities.iter().map(|n| 101.0 * *n as f64 + 200.0 * triples / entities);
        let mut reads: Vec<f64> = of_relations.chain(of_entities).collect();
        reads.sort_unstable_by(|a, b| b.total_cmp(a));
        TABLE.map(|(keys, _)| 100.0 * reads[..keys].iter().sum::<f64>() / (603.0 * triples))
    };
    let skewed = shares("skewed:500000x828x150000");
    for ((keys, percent), here) in TABLE.into_iter().zip(skewed) {
        assert!((here - percent).abs() < 4.0, "{keys} keys: {here:.1} %, {percent} % in the table");
    }
    let moderate = shares("synthetic:500000x828x150000");
    assert!(moderate.iter().zip(skewed).all(|(moderate, skewed)| *moderate < skewed - 2.0), "{moderate:?}");
}

/// Adjacent hot keys would all be at one node.
#[test]
fn popular_entities_of_a_generated_graph_are_scattered() {
    let data = Dataset::builtin("synthetic:10000x50x30000").unwrap();
    for parts in [2u32, 7, 64] {
        let of_range = |part: u32| {
            let range = 10_000 * part / parts..10_000 * (part + 1) / parts;
            data.train.iter().filter(|t| range.contains(&t.object)).count()
        };
        let most = (0..parts).map(of_range).max().unwrap();
        assert!(most < 30_000 / parts as usize + 3_000, "{most} of 30000 objects in one of {parts} ranges");
    }
}

#[test]
fn the_same_specification_gives_the_same_graph() {
    let generate = |spec| Dataset::builtin(spec).unwrap();
    let (small, again, large) = ("synthetic:500x9x2000", "synthetic:500x9x2000", "synthetic:500x9x4000");
    assert_eq!(generate(small).digest(), generate(again).digest());
    assert_eq!(generate(large).train[..2000], generate(small).train, "a smaller graph is a part of it");
    let other = generate("synthetic:500x8x2000");
    assert_ne!(other.train, generate(small).train);
}

/// If the graph had no structure to learn, the best guess for an object would be the most popular entities.
#[test]
fn objects_of_a_generated_graph_follow_from_subject_and_relation() {
    let data = Dataset::builtin("synthetic:2000x10x40000").unwrap();
    let of = |relation: u32, subject: u32| {
        let objects = data.train.iter().filter(move |t| t.relation == relation && t.subject == subject);
        objects.map(|t| t.object).collect::<Vec<_>>()
    };
    // How often a popular relation's objects of one subject recur with another subject: the share would be
    // 1.0 if objects were independent of the subject.
    let relation = (0..10).max_by_key(|r| data.train.iter().filter(|t| t.relation == *r).count()).unwrap();
    let subjects: Vec<Vec<u32>> = (0..2000).map(|s| of(relation, s)).filter(|o| o.len() >= 4).collect();
    let overlap = |a: &[u32], b: &[u32]| a.iter().filter(|o| b.contains(o)).count() as f64 / a.len() as f64;
    let overlaps: Vec<f64> = subjects.windows(2).map(|w| overlap(&w[0], &w[1])).collect();
    let alike = overlaps.iter().filter(|o| **o > 0.3).count() as f64 / overlaps.len() as f64;
    let unlike = overlaps.iter().filter(|o| **o == 0.0).count() as f64 / overlaps.len() as f64;
    assert!(alike > 0.1 && unlike > 0.2, "{alike} of the pairs share objects, {unlike} share none");
}

#[test]
fn graphs_that_cannot_be_generated_are_refused() {
    let refused = |spec: &str| Dataset::builtin(&format!("synthetic:{spec}")).unwrap_err().to_string();
    let expected =
        "expected ENTITIESxRELATIONSxTRIPLES, three numbers above 0 and below 2^31, such as 1000x20x10000";
    for spec in ["", "10", "10x2", "10x2x", "10x2x5x1", "0x2x5", "10x-2x5", "10x2x5000000000", "axbxc"] {
        assert_eq!(refused(spec), format!("builtin:synthetic:{spec}: {expected}"));
    }
    assert_eq!(
        refused("4x1x1000"),
        "builtin:synthetic:4x1x1000: so few entities and relations hardly have as many distinct triples"
    );
    let skewed = Dataset::builtin("skewed:10x5").unwrap_err().to_string();
    assert_eq!(skewed, format!("builtin:skewed:10x5: {expected}"));
    let tiny = Dataset::builtin("synthetic:4x1x3").unwrap();
    assert_eq!((tiny.train.len(), tiny.valid.len(), tiny.test.len()), (3, 1, 1));
}

#[test]
fn a_folder_of_tab_separated_files_loads() {
    let folder = folder(&[
        // A byte order mark, Windows line endings, and no line ending after the last line.
        ("train.tsv", "\u{feff}ann\tknows\tbob\r\nbob\tlikes\tann lee"),
        ("valid.txt", "bob\tknows\tann\n"),
        ("test.txt", "carl\tknows\tann\nann\tlikes\tbob\nann\thates\tbob\n"),
    ]);
    let mut data = Dataset::read(folder.path()).unwrap();
    assert_eq!(data.entities.iter().collect::<Vec<_>>(), ["ann", "bob", "ann lee", "carl"]);
    assert_eq!(data.relations.iter().collect::<Vec<_>>(), ["knows", "likes", "hates"]);
    assert_eq!(data.train, [triple(0, 0, 1), triple(1, 1, 2)]);
    assert_eq!(data.valid, [triple(1, 0, 0)]);
    assert_eq!(data.test, [triple(3, 0, 0), triple(0, 1, 1), triple(0, 2, 1)]);
    assert_eq!(data.unseen(), Unseen { valid: 0, test: 2 });
    data.skip_unseen();
    assert_eq!(data.test, [triple(0, 1, 1)]);
    assert_eq!(data.entities.len(), 4, "keys stay as they are");
}

#[test]
fn a_libkge_folder_loads() {
    let folder = folder(&[
        ("entity_ids.del", "1\tbob\n0\tann\n2\tcarl\n"),
        ("relation_ids.del", "0\tknows\n"),
        ("train.del", "0\t0\t1\n1\t0\t2\n"),
        ("valid.del", "2\t0\t1\n"),
        ("test.del", "0\t0\t2\n"),
    ]);
    let mut data = Dataset::read(folder.path()).unwrap();
    assert_eq!(data.entities.iter().collect::<Vec<_>>(), ["ann", "bob", "carl"]);
    assert_eq!(
        (&data.train[..], &data.test[..]),
        (&[triple(0, 0, 1), triple(1, 0, 2)][..], &[triple(0, 0, 2)][..])
    );
    let other = folder.path().join("other.del");
    fs::write(&other, "2\t0\t0\n").unwrap();
    data.test_from(&other).unwrap();
    assert_eq!(data.test, [triple(2, 0, 0)]);
}

#[test]
fn a_single_file_is_training_data_from_which_a_part_can_be_held_out() {
    let text: String = (0..40).map(|i| format!("e{i}\tr\te{}\n", i + 1)).collect();
    let folder = folder(&[("graph.tsv", &text), ("test.tsv", "e1\tr\tnew\n")]);
    let mut data = Dataset::read(&folder.path().join("graph.tsv")).unwrap();
    assert_eq!((data.train.len(), data.valid.len(), data.test.len()), (40, 0, 0));
    data.test_from(&folder.path().join("test.tsv")).unwrap();
    assert_eq!(data.test, [triple(1, 0, 41)]);
    assert_eq!(data.entities.get(41), Some("new"));

    let hold_out = |seed| {
        let mut data = Dataset::read(&folder.path().join("graph.tsv")).unwrap();
        data.hold_out(0.25, seed).unwrap();
        data
    };
    let (a, b, c) = (hold_out(1), hold_out(1), hold_out(2));
    assert_eq!((a.train.len(), a.test.len()), (30, 10));
    assert_eq!(a.test, b.test);
    assert_ne!(a.test, c.test);
    let mut all = [a.train, a.test].concat();
    all.sort_unstable();
    assert_eq!(all, data.train);

    // Every line occurs twice: whichever triples are held out, both of their lines leave training.
    let twice = [data.train.clone(), data.train.clone()].concat();
    let mut twice =
        Dataset::new(data.entities.clone(), data.relations.clone(), twice, Vec::new(), Vec::new());
    twice.hold_out(0.25, 1).unwrap();
    assert_eq!((twice.train.len(), twice.test.len()), (60, 10));
    assert!(twice.test.iter().all(|triple| !twice.train.contains(triple)), "tested triples are not trained");
    assert!(data.hold_out(0.001, 1).unwrap_err().to_string().contains("leaves nothing"));
}

#[test]
fn the_digest_tells_data_sets_apart() {
    let digest = |files: &[(&str, &str)]| Dataset::read(folder(files).path()).unwrap().digest();
    let (train, valid, test) =
        (("train.txt", "a\tr\tb\nb\tr\ta\n"), ("valid.txt", "a\tr\ta\n"), ("test.txt", "b\tr\tb\n"));
    let all = digest(&[train, valid, test]);
    assert_eq!(all, digest(&[train, valid, test]));
    let others = [
        vec![train, test],
        vec![train, valid],
        vec![train, ("valid.txt", test.1), ("test.txt", valid.1)],
        vec![train, valid, ("test.txt", "b\tr\ta\n")],
        vec![("train.txt", "a\tr\tc\nc\tr\ta\n"), valid, ("test.txt", "c\tr\tc\n")],
        vec![("train.txt", "a\tr\tb\na\tr\tb\n"), valid, test],
    ];
    let mut digests: Vec<u64> = others.iter().map(|files| digest(files)).chain([all]).collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), 7);
}

#[test]
fn lines_that_are_not_in_the_format_are_refused_with_file_and_line() {
    let expected = "expected 3 separated by tabs: subject, relation, object";
    let train = |text| refused(&[("train.txt", text)]);
    assert_eq!(train("a\tr\tb\na\tr\n"), format!("train.txt, line 2: found 2 columns, {expected}"));
    assert_eq!(train("a r b\n"), format!("train.txt, line 1: found 1 column, {expected}"));
    assert_eq!(train("a\tr\tb\tc\n"), format!("train.txt, line 1: found 4 columns, {expected}"));
    assert_eq!(train("a\tr\tb\n\nb\tr\ta\n"), format!("train.txt, line 2: the line is empty, {expected}"));
    assert_eq!(train("a\t\tb\n"), "train.txt, line 1: column 2 is empty, expected subject, relation, object");
    assert_eq!(train(""), "train.txt holds no triples; remove it if there are none, or copy it again");
    let long = "a".repeat(70_000);
    assert_eq!(train(&long), "train.txt, line 1: the line is longer than 65536 bytes");
    let good = ("train.txt", "a\tr\tb\n");
    assert!(refused(&[good, ("test.txt", "")]).starts_with("test.txt holds no triples"));
    assert!(refused(&[good, ("valid.txt", "a\tr\tb\nr")]).starts_with("valid.txt, line 2: found 1 column"));
    assert_eq!(refused(&[good, ("train.tsv", "")]), "both train.txt and train.tsv exist; remove one of them");
    assert!(refused(&[]).starts_with(". holds neither train.del (LibKGE) nor train.txt"));
    let missing = Dataset::read(Path::new("does-not-exist")).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read does-not-exist: "), "{missing}");

    let binary = folder(&[]);
    fs::write(binary.path().join("train.txt"), b"a\tr\tb\na\xff\tr\tb\n").unwrap();
    let error = Dataset::read(binary.path()).unwrap_err().to_string();
    assert!(error.ends_with("train.txt, line 2: the line is not UTF-8 text"), "{error}");
}

#[test]
fn numbers_that_do_not_exist_are_refused() {
    let with = |entities, train| {
        refused(&[("entity_ids.del", entities), ("relation_ids.del", "0\tr\n"), ("train.del", train)])
    };
    let ids = "0\ta\n1\tb\n";
    let error = with(ids, "0\t0\t1\n0\t0\t2\n");
    assert_eq!(error, "train.del, line 2: entity 2 does not exist: entity_ids.del lists 2");
    assert_eq!(
        with(ids, "0\t1\t1\n"),
        "train.del, line 1: relation 1 does not exist: relation_ids.del lists 1"
    );
    assert_eq!(with(ids, "0\tr\t1\n"), "train.del, line 1: 'r' is not the number of a relation");
    assert_eq!(with(ids, "-1\t0\t1\n"), "train.del, line 1: '-1' is not the number of an entity");
    assert_eq!(with("0\ta\n0\tb\n", "0\t0\t1\n"), "entity_ids.del, line 2: number 0 is given twice");
    assert!(
        with("0\ta\n2\tb\n", "0\t0\t1\n")
            .starts_with("entity_ids.del, line 2: number 2 is given, but 1 is not")
    );
    assert!(with("0 a\n", "0\t0\t1\n").starts_with("entity_ids.del, line 1: found 1 column, expected 2"));
    let missing = refused(&[("train.del", "0\t0\t1\n")]);
    assert!(missing.starts_with("cannot read entity_ids.del: "), "{missing}");
}

fn builtin_file(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("data/codex-s").join(name)).unwrap()
}

/// Tools that compress in parallel write several frames; all of them must be read.
#[test]
fn compressed_files_of_several_frames_load_completely() {
    let folder = folder(&[]);
    let skippable = [&0x184D_2A50u32.to_le_bytes()[..], &3u32.to_le_bytes(), b"abc"].concat();
    let frames = [builtin_file("valid.txt.zst"), skippable, builtin_file("test.txt.zst")].concat();
    fs::write(folder.path().join("train.txt.zst"), frames).unwrap();
    assert_eq!(Dataset::read(folder.path()).unwrap().train.len(), 1_827 + 1_828);
}

#[test]
fn damaged_compressed_files_are_refused() {
    let folder = folder(&[]);
    let file = folder.path().join("train.txt.zst");
    let good = builtin_file("test.txt.zst");
    let mut damaged =
        vec![good[..good.len() / 2].to_vec(), good[..good.len() - 2].to_vec(), b"no frame".to_vec()];
    for at in [good.len() / 3, good.len() - 1] {
        let mut flipped = good.clone();
        flipped[at] ^= 0x10;
        damaged.push(flipped);
    }
    for bytes in damaged {
        fs::write(&file, bytes).unwrap();
        let error = Dataset::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("train.txt.zst"), "{error}");
    }
}

/// Real data sets that are not part of the project. An environment variable names their folder.
fn shared(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("INTENDANT_TEST_DATA").map(PathBuf::from);
    let folder = root.map(|root| root.join("kg").join(name)).filter(|folder| folder.is_dir());
    if folder.is_none() {
        eprintln!("skipped: no kg/{name}; set INTENDANT_TEST_DATA to the folder with the data sets");
    }
    folder
}

#[test]
fn published_graphs_have_their_sizes() {
    for (name, entities, relations, train, valid, test) in [
        ("nations", 14, 55, 1_592, 199, 201),
        ("kinship", 104, 25, 8_544, 1_068, 1_074),
        ("fb15k-237", 14_541, 237, 272_115, 17_535, 20_466),
        ("wn18rr", 40_943, 11, 86_835, 3_034, 3_134),
    ] {
        let Some(folder) = shared(name) else { continue };
        let data = Dataset::read(&folder).unwrap();
        let sizes = (data.train.len(), data.valid.len(), data.test.len());
        assert_eq!(
            (data.entities.len(), data.relations.len(), sizes),
            (entities, relations, (train, valid, test))
        );
    }
    // Another tool's format, with the number of triples in the first line.
    if let Some(folder) = shared("wn18") {
        let error = Dataset::read(&folder).unwrap_err().to_string();
        assert!(error.contains("line 1: found 1 column"), "{error}");
    }
}
