//! Stores that refuse, or do not exist. Settings come from the environment, so each case is a process.

use crate::{address, manifest};
use intendant_checkpoint::{Checkpoint, CheckpointError, Folder};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

/// Runs in a process of its own, and tries all operations at the address in `TRY`.
#[test]
#[ignore = "the other tests run it"]
fn child() {
    let Some(address) = std::env::var_os("TRY").map(PathBuf::from) else { return };
    let say = |what: &str, result: Result<(), CheckpointError>| {
        eprintln!("TRIED {what}: {}", result.map_or_else(|error| error.to_string(), |()| "ok".to_owned()));
    };
    let folder = match Folder::at(&address) {
        Ok(folder) => folder,
        Err(error) => return say("at", Err(error)),
    };
    match std::env::var("ONLY").as_deref() {
        Ok("commit") => say("commit", folder.commit(&manifest(1, 3, Vec::new(), 0))),
        Ok(_) | Err(_) => {
            say("cuts", folder.cuts().map(drop));
            say("begin", folder.begin().map(drop));
            say("open", Checkpoint::open(&folder.place(1)).map(drop));
        }
    }
}

/// The messages of a process with these variables.
fn tried(address: &std::path::Path, variables: &[(&str, &str)]) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "refused::child", "--ignored", "--nocapture"]).env("TRY", address);
    let output = child.envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    // The line may begin with output of the test harness.
    said.lines().filter_map(|line| Some(line.split_once("TRIED ")?.1.to_owned())).collect()
}

/// A port at which nothing listens.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_store_that_is_not_there_is_an_error() {
    let Some(address) = address("nowhere") else { return };
    let endpoint = format!("http://127.0.0.1:{}", closed_port());
    let said = tried(&address, &[("AWS_ENDPOINT", &endpoint), ("AWS_ALLOW_HTTP", "true")]);
    let [cuts, begin, open] = &said[..] else { panic!("{said:?}") };
    let refused = format!("{endpoint}: Connection refused");
    assert!(cuts.starts_with(&format!("cuts: cannot list {}: {refused}", address.display())), "{cuts}");
    assert!(begin.contains(&refused) && open.contains(&refused), "{said:?}");
    assert!(open.contains("cut-000001/manifest.json"), "{open}");
}

#[test]
fn a_store_that_does_not_answer_is_an_error() {
    let Some(address) = address("silent") else { return };
    // The kernel accepts connections, and no process answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let said =
        tried(&address, &[("AWS_ENDPOINT", &endpoint), ("AWS_ALLOW_HTTP", "true"), ("ONLY", "commit")]);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("commit: cannot write s3://"), "{said:?}");
    assert!(said[0].contains(&endpoint), "{said:?}");
}

#[test]
fn a_bucket_that_does_not_exist_is_named() {
    if address("bucket").is_none() {
        return;
    }
    let said = tried("s3://there-is-no-such-bucket/run".as_ref(), &[]);
    let [cuts, begin, open] = &said[..] else { panic!("{said:?}") };
    // Some servers give the same answer if the bucket does not exist and if the object does not exist.
    assert!(open.contains("there is no"), "{open}");
    for line in [cuts, begin] {
        assert!(line.contains("there is no bucket there-is-no-such-bucket at http"), "{line}");
    }
}

#[test]
fn wrong_credentials_are_told() {
    let Some(address) = address("credentials") else { return };
    for wrong in [("AWS_SECRET_ACCESS_KEY", "wrong"), ("AWS_ACCESS_KEY_ID", "stranger")] {
        let said = tried(&address, &[wrong]);
        let [cuts, begin, open] = &said[..] else { panic!("{said:?}") };
        for line in [cuts, begin, open] {
            assert!(line.contains("the credentials are those of AWS_ACCESS_KEY_ID and"), "{line}");
            assert!(!line.contains("wrong"), "{line}");
        }
    }
}

#[test]
fn settings_that_are_wrong_are_told() {
    let Some(address) = address("settings") else { return };
    let plain = tried(&address, &[("AWS_ENDPOINT", "http://127.0.0.1:9"), ("AWS_ALLOW_HTTP", "false")]);
    assert!(plain[0].contains("http://127.0.0.1:9 is not encrypted; use https://, or set AWS_ALLOW_HTTP"));
    let named = tried(&address, &[("AWS_ENDPOINT", "https://key:word@host")]);
    assert!(named[0].contains("AWS_ENDPOINT has a user's name") && !named[0].contains("word@"), "{named:?}");
    for endpoint in ["localhost:9000", "http://a host", "ftp://host", "https://"] {
        let said = tried(&address, &[("AWS_ENDPOINT", endpoint)]);
        let reason = format!("at: {}: the endpoint {endpoint} is no address", address.display());
        assert!(said[0].starts_with(&reason), "{said:?}");
    }
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "AWS_REGION"] {
        let said = tried(&address, &[(name, "a\nb")]);
        assert_eq!(
            said,
            [format!(
                "at: {}: {name} has a blank or another character that it must not have",
                address.display()
            )]
        );
    }
    for bucket in ["s3://a bucket/run", "s3://büchse/run", "s3://a@b/run"] {
        let said = tried(bucket.as_ref(), &[]);
        assert!(
            said[0].starts_with(&format!("at: {bucket}: names of buckets have letters, digits")),
            "{said:?}"
        );
    }
    let said = tried("s3://".as_ref(), &[]);
    assert_eq!(said, ["at: s3://: it names no bucket; write s3://BUCKET/PREFIX"]);
    let said = tried("s3://bucket//run".as_ref(), &[]);
    assert_eq!(said, ["at: s3://bucket//run: a name in it is empty; write s3://BUCKET/PREFIX"]);
}
