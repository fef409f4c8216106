//! Processes at the other end that are not nodes, or send what no node sends.

use crate::cluster::{LONG, SECRET, host, next, polled};
use intendant_onesided::{ConnectError, Event, Host, MappedWindow, Name, Window};
use intendant_segment::{Segment, SegmentError};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{Errno, IoSlice};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use rustix::process::{Uid, geteuid};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

fn socket() -> OwnedFd {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .expect("a socket")
}

fn address(name: Name) -> SocketAddrUnix {
    SocketAddrUnix::new_abstract_name(format!("intendant-window-{name}").as_bytes()).expect("an address")
}

fn dial(name: Name) -> OwnedFd {
    let socket = socket();
    rustix::net::connect(&socket, &address(name)).expect("the node listens");
    socket
}

/// An introduction, built by hand: the magic, the secret, the rank and the number of nodes.
fn introduction(secret: [u8; 32], rank: u32, nodes: u32) -> Vec<u8> {
    [&b"ITDWIN01"[..], &secret, &rank.to_le_bytes(), &nodes.to_le_bytes()].concat()
}

fn send(socket: &OwnedFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::empty()).expect("sent");
}

/// Strangers call before the other node does, and do not prevent its connection.
#[test]
fn strangers_are_hung_up_on() {
    let hosts = [Host::listen().expect("a socket"), Host::listen().expect("a socket")];
    let names = [hosts[0].name(), hosts[1].name()];
    let mut strangers: Vec<OwnedFd> = (0..300).map(|_| dial(names[1])).collect();
    let fd = memfd_create("stranger", MemfdFlags::CLOEXEC).expect("a memfd");
    let sent = [fd.as_fd()];
    // Some send nothing, some hang up, some send something else.
    for (at, stranger) in strangers.iter().enumerate().skip(200) {
        let text = match at % 5 {
            0 => b"GET / HTTP/1.1".to_vec(),
            1 => introduction([8; 32], 0, 2),
            2 => introduction([9; 32], 0, 2)[..47].to_vec(),
            3 => [introduction([9; 32], 0, 2), vec![0]].concat(),
            _ => vec![0; 10_000],
        };
        send(stranger, &text, if at % 2 == 0 { &[] } else { &sent });
    }
    strangers.drain(..50);
    let segment = || Segment::shared(8).expect("shared memory");
    let mut windows: Vec<MappedWindow> = thread::scope(|scope| {
        let connect = |(rank, host): (usize, Host)| {
            scope.spawn(move || {
                host.connect(segment(), rank, &names, SECRET, LONG).expect("the other connects")
            })
        };
        let threads: Vec<_> = hosts.into_iter().enumerate().map(connect).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    windows[0].write(1, 0, 0, 8, Some(1), 1).expect("these words exist");
    assert_eq!(polled(&mut windows[1]), [Event::Hint(1)]);
}

/// The error of node 0 if node 1 answers its call with `bytes` and `descriptors`.
fn answered(bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> ConnectError {
    let host = Host::listen().expect("a socket");
    let name: Name = {
        let other = Host::listen().expect("a socket");
        // The name of a node that has ended: another process may take it.
        other.name()
    };
    let listener = socket();
    rustix::net::bind(&listener, &address(name)).expect("a free name");
    rustix::net::listen(&listener, 1).expect("a listener");
    let names = [host.name(), name];
    thread::scope(|scope| {
        let node = scope
            .spawn(move || host.connect(Segment::shared(8).expect("shared memory"), 0, &names, SECRET, LONG));
        let call = rustix::net::accept(&listener).expect("node 0 calls");
        send(&call, bytes, descriptors);
        node.join().expect("no panic").expect_err("this is no node")
    })
}

#[test]
fn what_is_no_answer_of_a_node_is_refused() {
    let good = Segment::shared(4096).expect("shared memory");
    let small = Segment::shared(8).expect("shared memory");
    let loose = memfd_create("unsealed", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a memfd");
    let [good, small] = [&good, &small].map(|segment| segment.fd().expect("shared"));
    let own = introduction([9; 32], 1, 2);
    let refusal = |bytes: &[u8], sent: &[BorrowedFd<'_>]| answered(bytes, sent).to_string();
    assert!(refusal(b"hello", &[good, good]).contains("does not know the secret"));
    assert!(refusal(&introduction([8; 32], 1, 2), &[good, good]).contains("does not know the secret"));
    assert!(refusal(&introduction([9; 32], 0, 2), &[good, good]).contains("it says that it is node 0"));
    assert!(refusal(&introduction([9; 32], 1, 3), &[good, good]).contains("one of 3 nodes"));
    assert!(refusal(&own, &[]).contains("0 descriptors instead of 2"));
    assert!(refusal(&own, &[good]).contains("1 descriptors instead of 2"));
    assert!(refusal(&own, &[good, good, good, good]).contains("descriptors"));
    assert!(refusal(&own, &[good, small]).contains("mailbox has 8 words"));
    for sent in [[loose.as_fd(), good], [good, loose.as_fd()]] {
        let error = answered(&own, &sent);
        let unsealed = matches!(error, ConnectError::Memory { node: 1, source: SegmentError::Unsealed });
        assert!(unsealed, "{error}");
    }
}

#[test]
fn a_node_that_hangs_up_is_named() {
    let host = Host::listen().expect("a socket");
    let name = Host::listen().expect("a socket").name();
    let listener = socket();
    rustix::net::bind(&listener, &address(name)).expect("a free name");
    rustix::net::listen(&listener, 1).expect("a listener");
    let names = [host.name(), name];
    let error = thread::scope(|scope| {
        let segment = Segment::shared(8).expect("shared memory");
        let node = scope.spawn(move || host.connect(segment, 0, &names, SECRET, LONG));
        drop(rustix::net::accept(&listener).expect("node 0 calls"));
        node.join().expect("no panic").expect_err("this is no node")
    });
    assert!(matches!(error, ConnectError::Ended { node: 1 }), "{error}");
}

/// A process that does not know the secret receives nothing, and the node still waits for the process that it
/// expects.
#[test]
fn a_caller_without_the_secret_receives_no_memory() {
    let hosts = [Host::listen().expect("a socket"), Host::listen().expect("a socket")];
    let names = [hosts[0].name(), hosts[1].name()];
    let [_first, host] = hosts;
    let call = dial(names[1]);
    send(&call, &introduction([8; 32], 0, 2), &[]);
    let segment = Segment::shared(8).expect("shared memory");
    let timeout = Duration::from_millis(100);
    let error = host.connect(segment, 1, &names, SECRET, timeout).expect_err("node 0 does not call");
    assert!(matches!(error, ConnectError::Late { node: 0, .. }), "{error}");
    let mut answer = [0; 64];
    let received = rustix::net::recv(&call, &mut answer, RecvFlags::empty());
    // The end of the connection, or a reset, which shows that the introduction was never read.
    assert!(matches!(received, Ok((_, 0)) | Err(Errno::CONNRESET)), "{received:?}");
}

/// Runs `act` on a thread that belongs to another user. Only root may start such a thread; otherwise there is
/// no result.
fn as_stranger<T: Send>(act: impl FnOnce() -> T + Send) -> Option<T> {
    if !geteuid().is_root() {
        return None;
    }
    let stranger = Uid::from_raw(65_534);
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            rustix::thread::set_thread_res_uid(stranger, stranger, stranger).expect("root may");
            act()
        });
        Some(thread.join().expect("no panic"))
    })
}

#[test]
fn processes_of_other_users_are_refused_although_they_know_the_secret() {
    let Some(theirs) = as_stranger(|| Host::listen().expect("a socket")) else { return };
    let host = Host::listen().expect("a socket");
    let names = [host.name(), theirs.name()];
    let segment = || Segment::shared(8).expect("shared memory");
    let error = host.connect(segment(), 0, &names, SECRET, LONG).expect_err("another user");
    assert!(matches!(error, ConnectError::User { node: 1, ours: 0, theirs: 65_534 }), "{error}");

    let hosts = [Host::listen().expect("a socket"), Host::listen().expect("a socket")];
    let names = [hosts[0].name(), hosts[1].name()];
    let [_first, host] = hosts;
    let call = as_stranger(|| dial(names[1])).expect("as before");
    send(&call, &introduction([9; 32], 0, 2), &[]);
    let error = host.connect(segment(), 1, &names, SECRET, Duration::from_millis(100)).expect_err("no call");
    assert!(matches!(error, ConnectError::Late { node: 0, .. }), "{error}");
}

#[test]
fn callers_that_know_the_secret_and_do_not_fit_are_errors() {
    for (rank, nodes, text) in [
        (0, 2, "it is one of 2 nodes, this one is one of 3"),
        (1, 3, "it has no lower number than this one, 1: 1"),
        (u32::MAX, 3, "it has no lower number than this one, 1: 4294967295"),
    ] {
        let hosts = [Host::listen().expect("a socket"), Host::listen().expect("a socket")];
        let third = "00000000000000000000000000000001".parse().expect("a name");
        let names = [hosts[0].name(), hosts[1].name(), third];
        let [_first, host] = hosts;
        let call = dial(names[1]);
        send(&call, &introduction([9; 32], rank, nodes), &[]);
        let segment = Segment::shared(8).expect("shared memory");
        let error =
            host.connect(segment, 1, &names, SECRET, LONG).expect_err("no node of this run").to_string();
        assert!(error.contains(text), "{error}");
    }
}

/// A node writes nonsense into a mailbox, and sends packets that no node sends.
#[test]
fn nonsense_from_a_node_makes_hints_or_its_end_and_no_panic() {
    let hosts = [Host::listen().expect("a socket"), Host::listen().expect("a socket")];
    let names = [hosts[0].name(), hosts[1].name()];
    let [_, host] = hosts;
    let (mut window, call, mailbox) = thread::scope(|scope| {
        let node = scope.spawn(move || {
            host.connect(Segment::shared(8).expect("shared memory"), 1, &names, SECRET, LONG)
                .expect("node 0 calls")
        });
        // This thread is node 0: it introduces itself, takes the memory and sends its own.
        let call = dial(names[1]);
        send(&call, &introduction([9; 32], 0, 2), &[]);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = rustix::net::RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 64];
        let mut parts = [rustix::io::IoSliceMut::new(&mut bytes)];
        rustix::net::recvmsg(&call, &mut parts, &mut control, RecvFlags::empty()).expect("an answer");
        let mut received = Vec::new();
        for message in control.drain() {
            if let rustix::net::RecvAncillaryMessage::ScmRights(sent) = message {
                received.extend(sent);
            }
        }
        let mailbox = Segment::open(received.pop().expect("a mailbox")).expect("a segment");
        let own = [8, 4096].map(|words| Segment::shared(words).expect("shared memory"));
        let sent = [0, 1].map(|at: usize| own[at].fd().expect("shared"));
        send(&call, &introduction([9; 32], 0, 2), &sent);
        (node.join().expect("no panic"), call, mailbox)
    });
    for at in 0..mailbox.words() {
        mailbox.store(at, u64::MAX, Relaxed);
    }
    let hints = polled(&mut window);
    assert_eq!(hints.len(), intendant_onesided::HINTS as usize);
    // The highest level announces hints that the other levels do not hold.
    mailbox.store(8, u64::MAX, Relaxed);
    assert_eq!(polled(&mut window), []);
    rustix::net::send(&call, b"nonsense", SendFlags::empty()).expect("sent");
    assert!(matches!(next(&mut window)[..], [Event::Closed { node: 0, .. }]));
    window.read(0, 0, 0, 1, 5).expect("the words existed");
    assert!(matches!(polled(&mut window)[..], [Event::Failed { id: 5, node: 0, .. }]));
}

/// No node waits for a node that does not take its wake-ups.
#[test]
fn a_node_that_does_not_look_holds_no_other_one_up() {
    let mut windows = host(2, 8);
    for round in 0..10_000 {
        windows[0].write(1, 0, 0, 8, Some(round % 7), u64::from(round)).expect("these words exist");
    }
    assert_eq!(polled(&mut windows[0]).len(), 10_000);
    assert_eq!(polled(&mut windows[1]).len(), 7);
}
