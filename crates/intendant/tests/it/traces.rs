//! Traces of nodes in one process: their events add up to the counts of the nodes, also after a failure.

use intendant::{
    Clock, Error, Event, Filter, Key, Layout, Mark, NetworkStats, Node, NodeConfig, NodeId, Rendezvous,
    Technique, TraceConfig, What, Worker,
};
use intendant_trace::Trace;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

const KEYS: u64 = 60;
const NODES: usize = 3;

fn config(technique: Technique, folder: &Path, filter: &str) -> NodeConfig<f32> {
    let layout = Layout::builder().range("k", KEYS, 2).channels(2).build().unwrap();
    let mut config = NodeConfig::new(layout, Arc::new(|_, value: &mut [f32]| value.fill(0.0)));
    config.cluster.technique = technique;
    let filter: Filter = filter.parse().unwrap();
    config.trace = Some(TraceConfig {
        folder: folder.to_owned(),
        filter,
        task: "a test".to_owned(),
        settings: vec![("seed".to_owned(), "7".to_owned())],
        ..TraceConfig::default()
    });
    config
}

/// Each node in turn localizes all keys or signals intents for them, and accesses them.
fn train(worker: &mut Worker<f32>, nodes: &[Node<f32>], technique: Technique) {
    let keys: Vec<Key> = (0..KEYS).map(Key).collect();
    let mut values = vec![0.0; 2 * keys.len()];
    for round in 0..4u32 {
        if technique == Technique::Lapse {
            worker.localize(&keys).unwrap();
        } else {
            worker.intent(&keys, Clock(round)..Clock(round + 1)).unwrap();
        }
        worker.pull(&keys, &mut values).unwrap();
        worker.push(&keys, &vec![1.0; values.len()]).unwrap();
        worker.advance_clock();
        worker.barrier("round").unwrap();
        if worker.rank().0 == 0 {
            nodes[0].mark(Mark::Epoch, round.into());
        }
    }
    worker.quiesce().unwrap();
}

fn read(folder: &Path) -> Vec<Trace> {
    (0..NODES).map(|node| Trace::read(&folder.join(format!("node-{node}.trace"))).unwrap()).collect()
}

/// Bytes that the nodes have recorded as sent.
fn sent(traces: &[Trace]) -> u64 {
    let sent = |event: &Event| if let What::Sent { bytes, .. } = event.what { bytes } else { 0 };
    traces.iter().flat_map(|trace| &trace.events).map(sent).sum()
}

/// Bytes that the nodes have counted as sent.
fn counted(nodes: &[Node<f32>]) -> u64 {
    let mut network = NetworkStats::default();
    nodes.iter().for_each(|node| network.merge(&node.network()));
    network.bytes
}

fn count(traces: &[Trace], is: impl Fn(&What) -> bool) -> u64 {
    traces.iter().flat_map(|trace| &trace.events).filter(|event| is(&event.what)).count() as u64
}

#[test]
fn what_is_traced_adds_up_to_what_is_counted() {
    for technique in [Technique::Lapse, Technique::Adaptive, Technique::Classic, Technique::Ssp] {
        let folder = tempfile::tempdir().unwrap();
        let mut nodes = Node::start_local(config(technique, folder.path(), "all"), NODES).unwrap();
        let mut workers: Vec<_> = nodes.iter_mut().flat_map(Node::workers).collect();
        std::thread::scope(|scope| {
            workers.iter_mut().for_each(|worker| {
                scope.spawn(|| train(worker, &nodes, technique));
            });
        });
        let remote: u64 = workers.iter().map(|worker| worker.access().remote).sum();
        drop(workers);
        let mut management = intendant::ManagementStats::default();
        nodes.iter().for_each(|node| management.merge(&node.management().unwrap()));
        let bytes = counted(&nodes);
        Node::shutdown_all(nodes).unwrap();

        let traces = read(folder.path());
        let arrived = count(&traces, |what| matches!(what, What::Arrived { .. }));
        assert_eq!(arrived, management.relocations, "{technique}");
        assert_eq!(arrived, count(&traces, |what| matches!(what, What::Left { .. })), "{technique}");
        assert_eq!(count(&traces, |what| *what == What::ReplicaSetUp), management.replica_setups);
        assert_eq!(count(&traces, |what| *what == What::Conflict), management.localization_conflicts);
        let elsewhere = count(&traces, |what| matches!(what, What::Remote { .. }));
        let waited = count(&traces, |what| matches!(what, What::Waited { .. }));
        assert_eq!(elsewhere + waited, remote, "{technique}");
        let synced = |event: &Event| if let What::Synced { values } = event.what { values } else { 0 };
        let synced: u64 = traces.iter().flat_map(|trace| &trace.events).map(synced).sum();
        assert_eq!(synced, management.synced_keys, "{technique}");
        assert_eq!(count(&traces, |what| matches!(what, What::Marked { .. })), 4, "node 0 has marked rounds");
        // The last messages, by which the nodes leave, are not counted yet.
        assert!(sent(&traces) >= bytes && bytes > 0, "{technique}: {}, {bytes}", sent(&traces));
        let (first, runs) = (&traces[0].header, traces.iter().map(|trace| trace.header.run));
        assert!(first.run != 0 && runs.clone().all(|run| run == first.run), "all nodes are of one run");
        assert_eq!((first.technique.as_str(), first.task.as_str()), (technique.policy().name, "a test"));
        let came = |trace: &Trace| {
            let meetings = trace.events.iter().filter_map(|event| {
                if let What::Came { meeting } = event.what {
                    Some((meeting, false, event.at))
                } else if let What::WentOn { meeting } = event.what {
                    Some((meeting, true, event.at))
                } else {
                    None
                }
            });
            meetings.collect::<Vec<_>>()
        };
        for trace in &traces {
            assert_eq!((trace.dropped, trace.unknown, trace.lost_bytes), (0, 0, 0));
            let met = came(trace);
            let expected = (0..met.len() as u64 / 2).flat_map(|meeting| [(meeting, false), (meeting, true)]);
            assert!(met.iter().map(|(meeting, on, _)| (*meeting, *on)).eq(expected), "{met:?}");
            assert!(met.len() >= 10 && met.is_sorted_by_key(|(.., at)| *at), "{met:?}");
            assert_eq!(met.len(), came(&traces[0]).len());
        }
    }
}

/// Nodes that are connected by sockets.
fn joined(config: &NodeConfig<f32>) -> Vec<Node<f32>> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut listener = Some(listener);
    let place = |rank: usize| {
        let place = Rendezvous::new(NodeId(rank as u16), NODES, "127.0.0.1", port);
        match listener.take() {
            Some(listener) => place.listener(listener),
            None => place,
        }
    };
    let join = |place| {
        let config = config.clone();
        std::thread::spawn(move || Node::join(config, place).unwrap())
    };
    let joining: Vec<_> = (0..NODES).map(place).map(join).collect();
    joining.into_iter().map(|node| node.join().unwrap()).collect()
}

#[test]
fn nodes_that_rest_have_recorded_exactly_the_bytes_that_they_count() {
    for (technique, over_sockets) in
        [(Technique::Classic, false), (Technique::Lapse, true), (Technique::Adaptive, true)]
    {
        let folder = tempfile::tempdir().unwrap();
        let config = config(technique, folder.path(), "0");
        let mut nodes =
            if over_sockets { joined(&config) } else { Node::start_local(config, NODES).unwrap() };
        let mut workers: Vec<_> = nodes.iter_mut().flat_map(Node::workers).collect();
        std::thread::scope(|scope| {
            workers.iter_mut().for_each(|worker| {
                scope.spawn(|| train(worker, &nodes, technique));
            });
        });
        // No more messages come that would make a channel record.
        let is_recorded = || {
            let (_keep, nothing) = mpsc::channel::<()>();
            let _ = nothing.recv_timeout(Duration::from_millis(10));
            sent(&read(folder.path())) == counted(&nodes)
        };
        let recorded = (0..3_000).any(|_| is_recorded());
        let bytes = (sent(&read(folder.path())), counted(&nodes));
        assert!(recorded && bytes.0 > 0, "{technique}: {bytes:?}");
        drop(workers);
        Node::shutdown_all(nodes).unwrap();
    }
}

#[test]
fn only_the_named_keys_are_traced_and_earlier_traces_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut runs = Vec::new();
    for filter in ["all", "5", "3,10..12"] {
        let config = config(Technique::Lapse, folder.path(), filter);
        let mut nodes = Node::start_local(config, NODES).unwrap();
        let mut worker = nodes[1].workers().remove(0);
        worker.localize(&(0..KEYS).map(Key).collect::<Vec<_>>()).unwrap();
        drop(worker);
        Node::shutdown_all(nodes).unwrap();
        let traces = read(folder.path());
        let arrived = traces.iter().flat_map(|trace| &trace.events).filter(|event| event.key.is_some());
        let mut keys: Vec<u64> = arrived.map(|event| event.key.unwrap().0).collect();
        keys.sort_unstable();
        keys.dedup();
        if filter == "all" {
            let home = |key: &u64| traces[0].header.layout().unwrap().home(Key(*key)).0;
            assert_eq!(keys, (0..KEYS).filter(|key| home(key) != 1).collect::<Vec<_>>());
        } else {
            let named: Filter = filter.parse().unwrap();
            assert!(!keys.is_empty() && keys.iter().all(|key| named.accepts(Key(*key))), "{keys:?}");
        }
        runs.push((traces[0].header.run, filter));
    }
    // This is the case of a run that restarts twice: its first trace is that of the crash, and must be kept.
    for (run, filter) in &runs[..2] {
        let kept = read(&folder.path().join(format!("run-{run:016x}")));
        assert!(kept.iter().all(|trace| (trace.header.run, trace.header.filter.as_str()) == (*run, *filter)));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), NODES + 2);
}

#[test]
fn a_trace_that_cannot_be_begun_is_an_error_before_the_node_starts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let Err(error) = Node::start_local(config(Technique::Lapse, &file.join("x"), "all"), 2) else {
        panic!("a file is no folder");
    };
    assert!(matches!(error, Error::Trace(_)), "{error}");
    assert!(error.to_string().contains("cannot create the folder"), "{error}");
    assert_eq!(error.exit_code(), 1);
}

#[test]
fn a_cluster_that_fails_leaves_its_traces() {
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = Node::start_local(config(Technique::Lapse, folder.path(), "all"), NODES).unwrap();
    let mut worker = nodes[1].workers().remove(0);
    worker.localize(&(0..KEYS).map(Key).collect::<Vec<_>>()).unwrap();
    // The channels have just recorded what they sent, and send more.
    worker.pull(&[Key(0)], &mut [0.0; 2]).unwrap();
    let before = counted(&nodes);
    nodes[2].abort("the test says so");
    drop((worker, nodes));
    let traces = read(folder.path());
    let arrived = count(&traces, |what| matches!(what, What::Arrived { .. }));
    assert!(arrived > 0);
    assert!(sent(&traces) >= before && before > 0, "{}, {before}", sent(&traces));
}
