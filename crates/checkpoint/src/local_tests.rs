//! A model of a disk: when the machine stops, a change that is not durable may be lost or may be there.

use super::{COMMIT, Step};

/// A name that is not durable yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    /// A part, in the folder of the cut, which was written before the commit.
    Part,
    /// The manifest, in the same folder.
    Manifest,
    /// The folder of the cut.
    Place,
}

/// The state of the disk after some steps.
#[derive(Default)]
struct Disk {
    /// The manifest is written under its first name, and its content is durable.
    is_written: bool,
    is_durable: bool,
    /// Changes that a stop may undo, each on its own.
    loose: Vec<Named>,
    firm: Vec<Named>,
}

impl Disk {
    fn after(steps: &[Step]) -> Self {
        let mut disk = Self { loose: vec![Named::Part, Named::Place], ..Self::default() };
        for step in steps {
            match step {
                Step::Write => disk.is_written = true,
                Step::SyncManifest => disk.is_durable |= disk.is_written,
                Step::Rename => disk.loose.push(Named::Manifest),
                Step::SyncPlace => disk.make_firm(|change| *change != Named::Place),
                Step::SyncParent => disk.make_firm(|change| *change == Named::Place),
            }
        }
        disk
    }

    fn make_firm(&mut self, which: impl Fn(&Named) -> bool) {
        self.firm.extend(self.loose.extract_if(.., |change| which(change)));
    }

    /// The fault if the machine stops now, and those loose changes survive whose bits are set in `kept`.
    fn fault(&self, kept: usize, is_committed: bool) -> Option<&'static str> {
        let loose = self.loose.iter().enumerate().filter(|(at, _)| kept >> at & 1 == 1);
        let there: Vec<Named> = self.firm.iter().copied().chain(loose.map(|(_, change)| *change)).collect();
        let has = |change: Named| there.contains(&change);
        let is_checkpoint = has(Named::Place) && has(Named::Manifest);
        if is_checkpoint && !self.is_durable {
            return Some("the manifest has its name and no content");
        }
        if is_checkpoint && !has(Named::Part) {
            return Some("the manifest names a part that is not there");
        }
        (is_committed && !is_checkpoint).then_some("a commit was told, and there is no checkpoint")
    }
}

/// The first fault among all places where the machine may stop and all changes that may survive.
fn fault(steps: &[Step]) -> Option<&'static str> {
    (0..=steps.len()).find_map(|done| {
        let disk = Disk::after(&steps[..done]);
        (0..1 << disk.loose.len()).find_map(|kept| disk.fault(kept, done == steps.len()))
    })
}

#[test]
fn a_stop_at_any_time_leaves_a_whole_checkpoint_or_none() {
    assert_eq!(fault(&COMMIT), None);
}

#[test]
fn no_step_of_a_commit_is_needless() {
    for at in 0..COMMIT.len() {
        let mut steps = COMMIT.to_vec();
        let left_out = steps.remove(at);
        assert!(fault(&steps).is_some(), "{at}: without {left_out:?} nothing is lost");
    }
    // The folder is made durable too early.
    let (mut before, mut without) = (COMMIT, COMMIT);
    before.swap(3, 4);
    assert_eq!(fault(&before), Some("a commit was told, and there is no checkpoint"));
    without.swap(2, 3);
    assert_eq!(fault(&without), Some("the manifest names a part that is not there"));
}
