use super::*;

fn refused(what: &str) -> CheckpointError {
    let source = std::io::Error::other(what.to_owned());
    CheckpointError::Io { what: "write", path: "cuts".into(), source }
}

fn complete(cut: u64) -> Settled {
    Settled::Complete { cut, parts: Vec::<Part>::new() }
}

fn failed(cut: u64) -> Settled {
    Settled::Failed { cut, node: 1, reason: "has no room".to_owned(), is_copied: false }
}

/// Begins a cut of this number, which all nodes copy.
fn copied(ledger: &mut Ledger, cut: u64, best: Option<Best>) {
    assert_eq!(ledger.begun(Ok(cut)), Some(cut));
    ledger.copied(best);
}

/// The cut that is to be committed, and the best model with that cut.
fn commit(order: Option<Order>) -> (u64, Option<Best>) {
    match order {
        Some(Order::Commit { cut, best, .. }) => (cut, best),
        Some(Order::GiveUp { cut, .. }) => panic!("cut {cut} is given up"),
        None => panic!("nothing is ordered"),
    }
}

fn said(ledger: &mut Ledger) -> (Option<String>, Option<u64>) {
    (ledger.unsaved().map(|error| error.to_string()), ledger.saved())
}

#[test]
fn the_last_cut_is_the_one_that_counts() {
    let mut ledger = Ledger::new(None);
    copied(&mut ledger, 4, None);
    assert_eq!(commit(ledger.settle(complete(4))), (4, None));
    copied(&mut ledger, 5, None);
    ledger.committed(Some(Ok(())));
    assert_eq!(commit(ledger.settle(complete(5))), (5, None));
    assert_eq!(ledger.saved(), None, "4 is a checkpoint, and 5 is not yet");
    ledger.committed(Some(Ok(())));
    assert_eq!(said(&mut ledger), (None, Some(5)));
}

#[test]
fn a_cut_that_cannot_be_begun_is_not_forgotten_for_an_older_one() {
    for older in [complete(1), failed(1)] {
        // The last cut is due while an older one is pending, and cannot be begun.
        let mut ledger = Ledger::new(None);
        copied(&mut ledger, 1, None);
        assert_eq!(ledger.begun(Err(refused("the disk is full"))), None);
        if let Some(Order::Commit { .. }) = ledger.settle(older) {
            ledger.committed(Some(Ok(())));
        }
        let (unsaved, saved) = said(&mut ledger);
        assert!(unsaved.is_some_and(|reason| reason.contains("the disk is full")));
        assert_eq!(saved, None, "the older one is not the last cut");
    }
}

#[test]
fn a_cut_that_was_given_up_counts_until_there_is_a_newer_one() {
    let mut ledger = Ledger::new(None);
    copied(&mut ledger, 1, None);
    assert!(matches!(ledger.settle(failed(1)), Some(Order::GiveUp { cut: 1, .. })));
    assert_eq!(ledger.newest(), 1, "no number is given twice");
    copied(&mut ledger, 2, None);
    commit(ledger.settle(complete(2)));
    ledger.committed(Some(Ok(())));
    assert_eq!(said(&mut ledger), (None, Some(2)));
    copied(&mut ledger, 3, None);
    assert!(matches!(ledger.settle(failed(3)), Some(Order::GiveUp { cut: 3, .. })));
    let (unsaved, saved) = said(&mut ledger);
    assert_eq!(unsaved.as_deref(), Some("checkpoint 3 is given up: node 1 has no room"));
    assert_eq!(saved, None);
}

#[test]
fn a_best_model_counts_once_it_is_a_checkpoint() {
    let (first, second) = (Best { cut: 7, epoch: 2 }, Best { cut: 8, epoch: 5 });
    let mut ledger = Ledger::new(Some(first));
    copied(&mut ledger, 8, Some(second));
    assert_eq!(commit(ledger.settle(complete(8))), (8, Some(second)));
    ledger.committed(Some(Err(refused("the disk is full"))));
    copied(&mut ledger, 9, None);
    assert_eq!(commit(ledger.settle(complete(9))), (9, Some(first)), "the one before is the best again");
    // The thread that writes has ended.
    ledger.committed(None);
    assert_eq!((ledger.best(), ledger.saved()), (Some(first), None));
}

#[test]
fn what_is_not_pending_is_not_settled() {
    assert!(Ledger::new(None).settle(complete(1)).is_none(), "at all workers but the leader");
}
