//! Word vectors over HTTP.

use crate::ask::{WORD2VEC, train, words};
use intendant_apptest::Service;
use serde_json::{Value, json};

#[test]
fn answers_are_those_of_the_commands() {
    for flags in [&[][..], &["--float", "f64"]] {
        let folder = tempfile::tempdir().unwrap();
        train(folder.path(), flags);
        let (words, model) = (words(folder.path()), folder.path().join("model"));
        let model = model.to_str().unwrap();
        let service = Service::start(WORD2VEC, &[model]);
        let command = |name: &str, input: &str| {
            Value::Array(WORD2VEC.answers(&[name, model, "-k", "4", "--json"], input))
        };
        assert_eq!(service.get("/v1/model").json()["sizes"], json!({ "words": words.len(), "dim": 16 }));

        let batch: Vec<Value> = words.iter().map(|word| json!({ "word": word, "k": 4 })).collect();
        let expected = command("similar", &(words.join("\n") + "\n"));
        assert_eq!(service.ask("/v1/similar", &batch[5]), expected[5], "{flags:?}");
        assert_eq!(service.ask("/v1/similar", &Value::Array(batch)), expected, "{flags:?}");

        let three = || words.windows(3).take(200);
        let lines: String = three().map(|three| three.join("\t") + "\n").collect();
        let batch = three().map(|three| json!({ "a": three[0], "b": three[1], "c": three[2], "k": 4 }));
        let found = service.ask("/v1/analogy", &Value::Array(batch.collect()));
        assert_eq!(found, command("analogy", &lines), "{flags:?}");

        let refused = service.post("/v1/similar", &json!({ "word": "no such word" }));
        assert_eq!(refused.status, 422);
        assert!(refused.error().contains("there is no word 'no such word'"), "{}", refused.error());
        let refused = service.post("/v1/analogy", &json!({ "a": words[0], "b": words[1] }));
        assert!(refused.error().contains("missing field `c`"), "{}", refused.error());
        assert_eq!(service.end(), (Some(0), String::new()));
    }
}
