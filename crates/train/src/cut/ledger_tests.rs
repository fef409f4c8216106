use super::*;
use intendant_checkpoint::Part;

fn ledger(best: Option<Best>) -> Ledger {
    Ledger::new(ElementType::F32, Vec::new(), best)
}

fn refused(what: &str) -> CheckpointError {
    let source = std::io::Error::other(what.to_owned());
    CheckpointError::Io { what: "write", path: "cuts".into(), source }
}

/// The state of a run after so many epochs, whose last one is the best so far or not.
fn copied(best: Option<Best>) -> Copied {
    let state = serde_json::json!({
        "program": "test", "version": "1", "task": "test", "data": "0", "config": {}, "epochs": [],
        "made": { "count": 0, "bytes": 0, "stop_ms": 0.0, "write_ms": 0.0 },
    });
    let state = serde_json::from_value(state).expect("a state");
    Copied { state, stop: Duration::ZERO, best }
}

fn complete(cut: u64) -> Settled {
    Settled::Complete { cut, parts: Vec::<Part>::new() }
}

fn failed(cut: u64) -> Settled {
    Settled::Failed { cut, node: 1, reason: "has no room".to_owned(), is_copied: false }
}

type Done = Sender<Result<(), CheckpointError>>;

fn commit(order: Option<Order>) -> (Manifest, RunState, Done) {
    match order {
        Some(Order::Commit { manifest, state, done, .. }) => (*manifest, *state, done),
        Some(Order::Remove(cut)) => panic!("cut {cut} is removed"),
        None => panic!("nothing is ordered"),
    }
}

fn said(ledger: &mut Ledger) -> (Option<String>, Option<u64>) {
    (ledger.unsaved().map(|error| error.to_string()), ledger.saved())
}

#[test]
fn the_last_cut_is_the_one_that_counts() {
    let mut ledger = ledger(None);
    assert_eq!(ledger.begin(|last| Ok(last + 4)), Some(4));
    ledger.copied(copied(None));
    let (_, _, done) = commit(ledger.settle(complete(4)));
    assert_eq!(ledger.begin(|last| Ok(last + 1)), Some(5));
    ledger.copied(copied(None));
    done.send(Ok(())).expect("it is waited for");
    let (manifest, _, done) = commit(ledger.settle(complete(5)));
    assert_eq!((manifest.cut, ledger.saved()), (5, None), "4 is a checkpoint, and 5 is not yet");
    done.send(Ok(())).expect("it is waited for");
    ledger.await_commit();
    assert_eq!(said(&mut ledger), (None, Some(5)));
}

#[test]
fn a_cut_that_cannot_be_begun_is_not_forgotten_for_an_older_one() {
    for older in [complete(1), failed(1)] {
        // The last cut is due while an older one is pending, and cannot be begun.
        let mut ledger = ledger(None);
        ledger.begin(|last| Ok(last + 1)).expect("begun");
        ledger.copied(copied(None));
        assert_eq!(ledger.begin(|_| Err(refused("the disk is full"))), None);
        if let Some(Order::Commit { done, .. }) = ledger.settle(older) {
            done.send(Ok(())).expect("it is waited for");
        }
        ledger.await_commit();
        let (unsaved, saved) = said(&mut ledger);
        assert!(unsaved.is_some_and(|reason| reason.contains("the disk is full")));
        assert_eq!(saved, None, "the older one is not the last cut");
    }
}

#[test]
fn a_cut_that_was_given_up_counts_until_there_is_a_newer_one() {
    let mut ledger = ledger(None);
    ledger.begin(|last| Ok(last + 1)).expect("begun");
    ledger.copied(copied(None));
    assert!(matches!(ledger.settle(failed(1)), Some(Order::Remove(1))));
    let mut numbers = Vec::new();
    ledger.begin(|last| {
        numbers.push(last);
        Ok(last + 1)
    });
    assert_eq!(numbers, [1], "no number is given twice");
    ledger.copied(copied(None));
    let (_, _, done) = commit(ledger.settle(complete(2)));
    done.send(Ok(())).expect("it is waited for");
    ledger.await_commit();
    assert_eq!(said(&mut ledger), (None, Some(2)));
    ledger.begin(|last| Ok(last + 1)).expect("begun");
    ledger.copied(copied(None));
    assert!(matches!(ledger.settle(failed(3)), Some(Order::Remove(3))));
    let (unsaved, saved) = said(&mut ledger);
    assert_eq!(unsaved.as_deref(), Some("checkpoint 3 is given up: node 1 has no room"));
    assert_eq!(saved, None);
}

#[test]
fn a_best_model_counts_once_it_is_a_checkpoint() {
    let (first, second) = (Best { cut: 7, epoch: 2 }, Best { cut: 8, epoch: 5 });
    let mut ledger = ledger(Some(first));
    ledger.begin(|_| Ok(8)).expect("begun");
    ledger.copied(copied(Some(second)));
    let (manifest, state, done) = commit(ledger.settle(complete(8)));
    assert_eq!((manifest.best, state.best_epoch), (Some(8), Some(6)));
    done.send(Err(refused("the disk is full"))).expect("it is waited for");
    ledger.begin(|last| Ok(last + 1)).expect("begun");
    ledger.copied(copied(None));
    let (manifest, state, done) = commit(ledger.settle(complete(9)));
    assert_eq!((manifest.best, state.best_epoch), (Some(7), Some(3)), "the one before is the best again");
    // The thread that writes has ended.
    drop(done);
    ledger.await_commit();
    assert_eq!((ledger.best(), ledger.saved()), (Some(first), None));
}

#[test]
fn what_is_not_pending_is_not_settled() {
    assert!(ledger(None).settle(complete(1)).is_none(), "at all workers but the leader");
}
