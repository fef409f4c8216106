//! The program, as users run it.

use intendant_apptest::App;
use kge::{ModelKind, Scorer};
use serde_json::Value;
use std::fs;
use std::path::Path;

const KGE: App = App::new(env!("CARGO_BIN_EXE_intendant-kge"));

fn report(flags: &[&str]) -> Value {
    KGE.report(flags)
}

fn mrr(report: &Value) -> f64 {
    report["test"]["mrr_filtered"].as_f64().unwrap()
}

/// A small graph with a rule to learn: `next` is a cycle, `two` is two steps of it, `back` is its inverse.
fn cycle(folder: &Path) -> &str {
    const N: usize = 40;
    let line = |(s, r, o): (usize, &str, usize)| format!("node {s}\t{r}\tnode {o}\n");
    let all = (0..N)
        .flat_map(|i| [(i, "next", (i + 1) % N), (i, "two", (i + 2) % N), (i, "back", (i + N - 1) % N)]);
    let (mut train, mut test) = (String::new(), String::new());
    for triple in all {
        let split = if triple.1 != "next" && triple.0 % 5 == 3 { &mut test } else { &mut train };
        split.push_str(&line(triple));
    }
    fs::write(folder.join("train.txt"), train).unwrap();
    fs::write(folder.join("test.txt"), test).unwrap();
    folder.to_str().unwrap()
}

/// An untrained model has a mean reciprocal rank of about .004 on this graph; the full training reaches above
/// .45.
#[test]
fn a_few_epochs_on_codex_s_learn() {
    for flags in [
        &["--technique", "single", "--workers", "2"][..],
        &["--technique", "single", "--float", "f64"],
        &["--technique", "classic", "--nodes", "2"],
    ] {
        let report = report(&[flags, &["--epochs", "4", "--dim", "64"]].concat());
        assert!(mrr(&report) > 0.3, "{flags:?}: {}", report["test"]);
        let access = |name: &str| report["access"][name].as_u64().unwrap();
        assert_eq!(access("local") + access("remote"), access("pull_keys") + access("push_keys"));
        assert_eq!(access("sampled"), 4 * 129 * 256, "samples of all batches of all epochs");
        assert_eq!(report["epochs"][3]["examples"], 32_888);
    }
}

#[test]
fn the_papers_setting_learns() {
    let folder = tempfile::tempdir().unwrap();
    let data = cycle(folder.path());
    let flags =
        ["--data", data, "--technique", "single", "--loss", "logistic", "--negatives", "10", "--dim", "64"];
    let untrained = mrr(&report(&[&flags[..], &["--epochs", "0"]].concat()));
    let trained = report(&[&flags[..], &["--epochs", "60"]].concat());
    assert!(mrr(&trained) > 0.5 && untrained < 0.2, "{untrained} before training, then {}", trained["test"]);
    assert_eq!((&trained["config"]["batch"], &trained["config"]["reciprocal"]), (&1.into(), &false.into()));
}

/// A random ranking has a mean reciprocal rank of about .004, as with ComplEx.
#[test]
fn rescal_learns_codex_s() {
    for flags in
        [&["--technique", "single", "--workers", "2"][..], &["--technique", "classic", "--nodes", "2"]]
    {
        let report = report(&[flags, &["--model", "rescal", "--epochs", "3", "--dim", "32"]].concat());
        assert!(mrr(&report) > 0.25, "{flags:?}: {}", report["test"]);
        assert_eq!(report["model"]["keys"], 2034 + 2 * 42);
        assert_eq!(report["model"]["bytes"], (2034 * 32 + 2 * 42 * 32 * 32) * 2 * 4);
        assert_eq!((&report["config"]["n3"], &report["config"]["model"]), (&0.0.into(), &"rescal".into()));
    }
}

/// The quality comes from knowing the most popular objects, of the whole graph or of the group that type and
/// relation determine.
#[test]
fn a_generated_graph_can_be_learned() {
    let flags = ["--data", "builtin:synthetic:1000x20x20000", "--technique", "single", "--dim", "32"];
    let untrained = mrr(&report(&[&flags[..], &["--epochs", "0"]].concat()));
    let trained = report(&[&flags[..], &["--epochs", "5"]].concat());
    assert!(untrained < 0.02 && mrr(&trained) > 0.1, "{untrained} before training, then {}", trained["test"]);
}

#[test]
fn what_is_trained_does_not_depend_on_who_trains_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = cycle(folder.path());
    let digest = |flags: &[&str]| {
        let report =
            report(&[&["--data", data, "--epochs", "3", "--dim", "16", "--batch", "8"], flags].concat());
        report["data_digest"].as_str().unwrap().to_owned()
    };
    let one = digest(&["--technique", "single"]);
    assert_eq!(one, digest(&["--technique", "single", "--workers", "3"]));
    assert_eq!(one, digest(&["--technique", "classic", "--workers", "2", "--float", "f64"]));
    assert_eq!(one, digest(&["--nodes", "2", "--workers", "2"]));
    assert_ne!(one, digest(&["--technique", "single", "--seed", "2"]));

    // Batches of clustered triples differ from other batches, but all batches together have the same triples.
    let clustered = |flags: &[&str]| digest(&[&["--cluster", "relations"], flags].concat());
    let one = clustered(&["--technique", "single"]);
    assert_eq!(one, clustered(&["--nodes", "2", "--workers", "2"]));
    assert_eq!(one, clustered(&["--nodes", "3", "--technique", "lapse", "--localize-ahead", "2"]));
    assert_ne!(one, clustered(&["--technique", "single", "--seed", "2"]));
    // If each triple has negatives of its own, even the negatives are the same.
    let logistic = |flags: &[&str]| digest(&[&["--loss", "logistic", "--negatives", "3"], flags].concat());
    assert_eq!(
        logistic(&["--technique", "single"]),
        logistic(&[
            "--nodes",
            "2",
            "--technique",
            "lapse",
            "--cluster",
            "relations",
            "--localize-ahead",
            "1"
        ])
    );
}

#[test]
fn one_worker_gives_the_same_model_every_time() {
    let folder = tempfile::tempdir().unwrap();
    let data = cycle(folder.path());
    let flags = ["--data", data, "--epochs", "5", "--dim", "16", "--batch", "8", "--technique"];
    let run = |technique| {
        let report = report(&[&flags[..], &[technique]].concat());
        (report["epochs"][4]["loss"].as_f64().unwrap().to_bits(), mrr(&report).to_bits())
    };
    assert_eq!(run("single"), run("single"));
    assert_eq!(run("single"), run("classic"), "with one worker, the server is exactly a shared array");
}

#[test]
fn an_export_can_be_read_by_others() {
    for (float, bytes) in [("f32", 4), ("f64", 8)] {
        let folder = tempfile::tempdir().unwrap();
        let data = cycle(folder.path());
        let export = folder.path().join("model");
        let export_flag = export.to_str().unwrap();
        let flags =
            ["--data", data, "--epochs", "2", "--dim", "10", "--technique", "single", "--float", float];
        report(&[&flags[..], &["--export", export_flag]].concat());

        let mut files: Vec<String> =
            fs::read_dir(&export).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        let expected = [
            "entities.w2v.txt",
            "entity.npy",
            "entity_ids.txt",
            "export.json",
            "reciprocal.npy",
            "relation.npy",
            "relation_ids.txt",
        ];
        assert_eq!(files, expected);
        assert_eq!(fs::read_to_string(export.join("relation_ids.txt")).unwrap(), "next\ntwo\nback\n");

        let matrix = |name: &str| matrix(&export, name);
        assert_eq!(matrix("relation.npy").0, [3, 10]);
        assert_eq!(matrix("reciprocal.npy").0, [3, 10]);
        let (shape, entities) = matrix("entity.npy");
        assert_eq!(shape, [40, 10]);
        // Accumulators are sums of squares, whereas embeddings have both signs in every row.
        assert!(entities.chunks(10).all(|row| row.iter().any(|x| *x < 0.0) && row.iter().any(|x| *x > 0.0)));

        let names = fs::read_to_string(export.join("entity_ids.txt")).unwrap();
        let text = fs::read_to_string(export.join("entities.w2v.txt")).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("40 10"));
        for ((line, name), row) in lines.zip(names.lines()).zip(entities.chunks(10)) {
            let mut words = line.split(' ');
            assert_eq!(words.next(), Some(&*name.replace(' ', "_")));
            let numbers: Vec<f64> = words
                .map(|w| if bytes == 4 { f64::from(w.parse::<f32>().unwrap()) } else { w.parse().unwrap() })
                .collect();
            assert_eq!(numbers, row);
        }
        assert_eq!(text.lines().count(), 41);
    }
}

fn matrix(folder: &Path, name: &str) -> (Vec<u64>, Vec<f64>) {
    let bytes = fs::read(folder.join(name)).unwrap();
    let npy = npyz::NpyFile::new(&bytes[..]).unwrap();
    assert_eq!(npy.order(), npyz::Order::C);
    let shape = npy.shape().to_vec();
    let numbers = match npy.dtype().descr().as_str() {
        "'<f4'" => npy.into_vec::<f32>().unwrap().into_iter().map(f64::from).collect(),
        "'<f8'" => npy.into_vec::<f64>().unwrap(),
        other => panic!("{name} has elements of type {other}"),
    };
    (shape, numbers)
}

/// The exported files and the description of the model suffice to compute the reported ranks.
#[test]
fn exported_models_score_as_they_were_evaluated() {
    const DIM: usize = 6;
    for scorer in ModelKind::ALL.iter().map(|model| Scorer { model: *model, dim: DIM }) {
        let (model, columns) = (scorer.model.facts().name, scorer.relation_len());
        let folder = tempfile::tempdir().unwrap();
        let data = cycle(folder.path());
        let export = folder.path().join("model");
        let flags =
            ["--data", data, "--epochs", "8", "--dim", "6", "--float", "f64", "--technique", "single"];
        let own = ["--model", model, "--reciprocal", "false", "--export", export.to_str().unwrap()];
        let reported = mrr(&report(&[&flags[..], &own].concat()));

        let ((entities, e), (relations, r)) =
            (matrix(&export, "entity.npy"), matrix(&export, "relation.npy"));
        assert_eq!((entities, relations), (vec![40, DIM as u64], vec![3, columns as u64]));
        let score = |subject: usize, relation: usize, object: usize| -> f64 {
            let (s, o) = (&e[subject * DIM..][..DIM], &e[object * DIM..][..DIM]);
            scorer.score(s, &r[relation * columns..][..columns], o)
        };
        // Every question about the cycle has one answer, so that only the answer itself is filtered.
        let number = |name: &str| name.strip_prefix("node ").unwrap().to_owned();
        let names = fs::read_to_string(export.join("entity_ids.txt")).unwrap();
        let entity: Vec<String> = names.lines().map(number).collect();
        let place = |name: &str| entity.iter().position(|n| *n == number(name)).unwrap();
        let test = fs::read_to_string(folder.path().join("test.txt")).unwrap();
        let (mut sum, mut count) = (0.0, 0.0);
        for line in test.lines() {
            let columns: Vec<&str> = line.split('\t').collect();
            let relation = ["next", "two", "back"].iter().position(|r| *r == columns[1]).unwrap();
            let (subject, object) = (place(columns[0]), place(columns[2]));
            let answer = score(subject, relation, object);
            let objects = (0..40).filter(|o| score(subject, relation, *o) > answer).count();
            let subjects = (0..40).filter(|s| score(*s, relation, object) > answer).count();
            sum += 1.0 / (1 + objects) as f64 + 1.0 / (1 + subjects) as f64;
            count += 2.0;
        }
        assert!(
            (reported - sum / count).abs() < 1e-9,
            "{model}: {reported} is reported, {} is right",
            sum / count
        );
    }
}

#[test]
fn mistakes_end_with_exit_code_2_and_say_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("train.txt"), "a\tr\tb\na\tr\n").unwrap();
    let broken = folder.path().to_str().unwrap();
    for (flags, message) in [
        (&["--data", broken][..], "train.txt, line 2: found 2 columns, expected 3"),
        (&["--data", "does/not/exist"], "cannot read does/not/exist: "),
        (&["--data", "builtin:other"], "there are builtin:codex-s, builtin:synthetic:"),
        (
            &["--data", "builtin:synthetic:10x5"],
            "builtin:synthetic:10x5: expected ENTITIESxRELATIONSxTRIPLES",
        ),
        (&["--dim", "7"], "--dim is 7; it must be an even number"),
        (&["--model", "rescal", "--dim", "600"], "--dim is 600; it must be a number from 1 to 512"),
        (&["--model", "rescal", "--n3", "0.1"], "--n3 is 0.1; it must be 0 with RESCAL"),
        (&["--model", "transe"], "[possible values: complex"),
        (&["--cluster", "entities"], "[possible values: none, relations]"),
        (&["--lr", "0"], "--lr is 0; it must be a number above 0"),
        (&["--lr", "-1"], "--lr is -1; it must be a number above 0"),
        (&["--init-scale", "1e300"], "it must be a number above 0 and at most 1000"),
        (&["--resume"], "the following required arguments were not provided"),
        (
            &["--batch", "1000000"],
            "--batch is 1000000 with 256 negatives and dim 256; it must be so small that",
        ),
        (&["--test", "0.00001"], "leaves nothing to train on or to test"),
        (&["--loss", "hinge"], "[possible values: softmax, logistic]"),
    ] {
        let output = KGE.output(&[flags, &["--technique", "single"]].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {error}");
        assert!(error.contains(message), "{flags:?}: {error}");
    }
}

#[test]
fn the_command_of_the_page_on_metrics_runs() {
    let page = include_str!("../../../../docs/metrics.md");
    let command = page.lines().find_map(|line| line.strip_prefix("intendant kge ")).expect("a command");
    let mut words: Vec<&str> = command.split_whitespace().collect();
    // Any free port, and no training.
    for (flag, value) in [("--metrics", "0"), ("--epochs", "0")] {
        let at = words.iter().position(|word| *word == flag).expect("a flag of the command");
        words[at + 1] = value;
    }
    let output = KGE.output(&words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {said}");
    assert!(said.contains("metrics of node 0: http://127.0.0.1:"), "{said}");
}

#[test]
fn an_absurd_learning_rate_ends_with_exit_code_3() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--data", cycle(folder.path()), "--lr", "1e30", "--technique", "single", "-q"];
    let output = KGE.output(&flags);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("diverged in epoch "), "{error}");
}

/// A learning rate that is far too high need not lead to infinite values, but the result is worthless.
#[test]
fn a_model_that_learnt_nothing_is_worth_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let said = |flags: &[&str]| {
        let data = ["--data", cycle(folder.path()), "--dim", "16", "--epochs", "3", "-q"];
        let output = KGE.output(&[&data, flags].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        said
    };
    for how in [&["--technique", "single"][..], &["--nodes", "2"], &["--nodes", "2", "--simulate"]] {
        let warned = said(&[how, &["--lr", "1000"]].concat());
        assert!(
            warned.contains("nothing was learnt: the loss is ") && warned.contains("lower learning rate"),
            "{warned}"
        );
        assert_eq!(said(how), "");
        // A batch is one of the scores of a triple, so that its loss says nothing about learning.
        let scores = ["--loss", "logistic", "--negatives", "4", "--batch", "1", "--separate"];
        assert_eq!(said(&[how, &scores].concat()), "");
    }
}

#[test]
fn without_test_triples_a_hint_tells_how_to_measure_quality() {
    let folder = tempfile::tempdir().unwrap();
    cycle(folder.path());
    let file = folder.path().join("train.txt");
    let flags =
        ["--data", file.to_str().unwrap(), "--technique", "single", "--dim", "8", "--epochs", "1", "-q"];
    let said = |more: &[&str]| String::from_utf8(KGE.output(&[&flags, more].concat()).stderr).unwrap();
    assert!(said(&[]).contains("there is no test data: --test 0.1 holds out a tenth"), "{}", said(&[]));
    assert_eq!(said(&["--test", "0.1"]), "");
}

#[test]
fn parameters_are_explained_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--data", cycle(folder.path()), "--dim", "8", "--epochs", "1", "-q", "--nodes", "2"];
    let explained = |what: &str| KGE.output(&[&flags, &["--explain", what][..]].concat());
    let output = explained("node 7,two,3");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    // The 40 entities and 3 relations come before the reciprocals. Names are numbered by first appearance in
    // the file.
    for line in ["key 3, node 0: ", " (node 7, entity), node 1: ", "key 41 (two, relation), node 0: "] {
        assert!(said.lines().any(|found| found.contains(line)), "{line}: {said}");
    }
    assert!(said.contains("key 44 (two, reciprocal), node 1: "), "{said}");
    let output = explained("virus");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--explain names 'virus', and the model has no parameter of this name"), "{said}");
}

/// Held-out triples with entities that do not occur in training count, unless they are left out. They are
/// true in both cases: triples that are not evaluated are filtered as well.
#[test]
fn unseen_entities_are_ranked_or_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let data = cycle(folder.path());
    let test = folder.path().join("test.txt");
    let known = fs::read_to_string(&test).unwrap();
    // Another answer to the question of a test triple: which entity is two steps before node 5?
    let stranger = "stranger\ttwo\tnode 5\n";
    fs::write(&test, format!("{known}{stranger}")).unwrap();
    let alone = folder.path().join("stranger.tsv");
    fs::write(&alone, stranger).unwrap();
    let flags = ["--data", data, "--epochs", "3", "--dim", "16", "--float", "f64", "--technique", "single"];
    let evaluated = |more: &[&str]| mrr(&report(&[&flags[..], more].concat()));
    let (ranked, skipped) = (evaluated(&["--unseen", "rank"]), evaluated(&["--unseen", "skip"]));
    let only = evaluated(&["--test", alone.to_str().unwrap()]);
    let triples = known.lines().count() as f64;
    let expected = (triples * skipped + only) / (triples + 1.0);
    assert!((ranked - expected).abs() < 1e-12, "{ranked}, not {expected}: {skipped} and {only}");

    for (policy, message) in [("rank", "are evaluated with"), ("skip", "are left out")] {
        let output = KGE.output(&[&flags[..], &["--unseen", policy, "-q"]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("1 test triples") && said.contains(message), "{said}");
    }
}

#[test]
fn a_process_that_may_open_few_files_says_so() {
    for limit in 4..17 {
        let mut command = std::process::Command::new("sh");
        command.args([
            "-c",
            "ulimit -n $0 && exec \"$@\"",
            &limit.to_string(),
            env!("CARGO_BIN_EXE_intendant-kge"),
        ]);
        command.args(["--data", "builtin:synthetic:50x3x200", "--nodes", "2", "--epochs", "1", "-q"]);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some_and(|code| (1..=4).contains(&code)), "{limit}: {said}");
        assert!(said.contains("Too many open files") && !said.contains("panicked"), "{limit}: {said}");
    }
}

/// A vector of 262,144 numbers and as many accumulators for each of 2,085 parameters: at least 4 GiB.
#[test]
fn a_model_that_does_not_fit_is_refused_before_it_takes_memory() {
    for technique in [&["--technique", "single"][..], &["--nodes", "2", "--simulate"], &[]] {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "ulimit -v 3000000 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_intendant-kge")]);
        command.args(["--dim", "262144", "--batch", "16", "--negatives", "16"]).args(technique);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{technique:?}: {said}");
        assert!(said.contains("the model does not fit: it needs at least 4.1 GiB"), "{technique:?}: {said}");
    }
}
