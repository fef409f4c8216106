//! Descriptors that other processes send: which are opened, which are refused, and which are left over.

use intendant_segment::{Segment, SegmentError};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

fn memfd(bytes: u64, seals: SealFlags) -> OwnedFd {
    let fd =
        rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a memfd");
    rustix::fs::ftruncate(&fd, bytes).expect("a length");
    rustix::fs::fcntl_add_seals(&fd, seals).expect("seals");
    fd
}

const SEALS: SealFlags = SealFlags::GROW.union(SealFlags::SHRINK);

fn refusal(fd: impl Into<OwnedFd>) -> SegmentError {
    Segment::open(fd.into()).expect_err("this is no segment")
}

#[test]
fn a_segment_is_opened_by_its_descriptor() {
    let made = Segment::shared(24).expect("shared memory");
    let opened = Segment::open(made.fd().expect("shared").try_clone_to_owned().expect("a descriptor"))
        .expect("a segment that was shared");
    assert_eq!(opened.words(), 24);
    opened.store(23, 7, Relaxed);
    assert_eq!(made.load(23, Relaxed), 7);
    drop(made);
    assert_eq!(opened.load(23, Relaxed), 7);
}

#[test]
fn what_could_shrink_is_refused() {
    for seals in [SealFlags::empty(), SealFlags::GROW, SealFlags::SHRINK] {
        assert!(matches!(refusal(memfd(64, seals)), SegmentError::Unsealed), "{seals:?}");
    }
    let sealed = Segment::shared(8).expect("shared memory");
    let fd = sealed.fd().expect("shared");
    assert!(rustix::fs::ftruncate(fd, 0).is_err() && rustix::fs::ftruncate(fd, 128).is_err());
    assert!(rustix::fs::fcntl_add_seals(fd, SealFlags::WRITE).is_err(), "the seals are final");
}

#[test]
fn what_is_no_memory_is_refused() {
    let (pipe, _writer) = rustix::pipe::pipe().expect("a pipe");
    let null = File::open("/dev/null").expect("/dev/null");
    let file = File::open(std::env::current_exe().expect("this test")).expect("this test");
    for fd in [pipe, null.into(), file.into()] {
        let error = refusal(fd);
        // A file of tmpfs has the seal that forbids seals.
        assert!(matches!(error, SegmentError::NotMemory { .. } | SegmentError::Unsealed), "{error}");
    }
    let path = rustix::fs::openat(rustix::fs::CWD, "/", OFlags::PATH, Mode::empty()).expect("a path");
    assert!(matches!(refusal(path), SegmentError::NotMemory { .. }));
}

#[test]
fn lengths_that_are_no_segments_are_refused() {
    for bytes in [0, 1, 8, 63, 65, 4095] {
        let error = refusal(memfd(bytes, SEALS));
        assert!(matches!(error, SegmentError::Length { bytes: found } if found == bytes), "{error}");
    }
}

#[test]
fn memory_that_cannot_be_written_is_refused() {
    let error = refusal(memfd(64, SEALS | SealFlags::WRITE));
    assert!(matches!(error, SegmentError::ReadOnly { .. }), "{error}");
    let error = refusal(memfd(64, SEALS | SealFlags::FUTURE_WRITE));
    assert!(matches!(error, SegmentError::ReadOnly { .. }), "{error}");
    let fd = memfd(64, SEALS);
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
    let error = refusal(File::open(path).expect("the memory, to be read"));
    assert!(matches!(error, SegmentError::ReadOnly { .. }), "{error}");
}

/// The memory is a hole: it has 64 TiB of addresses, and no pages.
#[test]
fn more_than_the_machine_has_is_refused() {
    let fd = memfd(1 << 46, SEALS);
    let error = refusal(fd);
    assert!(matches!(error, SegmentError::Memory { bytes, .. } if bytes == 1 << 46), "{error}");
}

#[test]
fn refusals_say_what_is_wrong() {
    let (pipe, _writer) = rustix::pipe::pipe().expect("a pipe");
    for (fd, text) in [
        (pipe, "not a memfd"),
        (memfd(64, SealFlags::empty()), "not sealed"),
        (memfd(4, SEALS), "has 4 bytes"),
        (memfd(64, SEALS | SealFlags::WRITE), "sealed against writing"),
    ] {
        let error = refusal(fd).to_string();
        assert!(error.contains(text), "{error}");
    }
}

/// This runs in a process of its own, because other tests open descriptors at the same time.
#[test]
fn nothing_is_left_of_segments_that_were_dropped() {
    crate::processes::alone("descriptors::count_what_is_left");
}

#[test]
#[ignore = "a process of `nothing_is_left_of_segments_that_were_dropped`"]
fn count_what_is_left() {
    let mapped =
        || std::fs::read_to_string("/proc/self/maps").expect("maps").matches("intendant-segment").count();
    let open = || std::fs::read_dir("/proc/self/fd").expect("descriptors").count();
    let (maps, descriptors) = (mapped(), open());
    let made = Segment::shared(8).expect("shared memory");
    let clone = made.clone();
    let sent = || made.fd().expect("shared").as_fd().try_clone_to_owned().expect("a descriptor");
    let opened = Segment::open(sent()).expect("a segment");
    assert_eq!((mapped(), open()), (maps + 2, descriptors + 2));
    // Refused descriptors are closed as well.
    drop(refusal(memfd(4, SEALS)));
    assert_eq!((mapped(), open()), (maps + 2, descriptors + 2));
    drop(made);
    assert_eq!((mapped(), open()), (maps + 2, descriptors + 2), "a clone is left");
    drop((clone, opened));
    assert_eq!((mapped(), open()), (maps, descriptors));
}
