//! Samples that the system draws, through the facade: `prepare_sample` and `pull_sample` on several nodes,
//! with every scheme.

use intendant::{
    Conformity, Distribution, DistributionId, Error, Key, Layout, Node, NodeConfig, Sampler, Scheme,
    Technique, Worker,
};
use std::collections::BTreeSet;
use std::sync::Arc;

const KEYS: u64 = 3_000;

fn config(technique: Technique, scheme: Scheme) -> (NodeConfig<f32>, DistributionId) {
    let layout = Layout::builder().range("short", 1_000, 3).range("long", 2_000, 5).build().unwrap();
    let init = Arc::new(|key: Key, value: &mut [f32]| value.fill(key.0 as f32));
    let mut builder = Sampler::builder();
    let uniform = Distribution::uniform(500..KEYS).unwrap();
    let id = builder.register_with(uniform, Conformity::NonConform, scheme).unwrap();
    let mut config = NodeConfig::new(layout, init);
    (config.cluster.technique, config.sampler, config.seed) = (technique, builder.build(), 11);
    (config, id)
}

/// The samples that one worker of each of three nodes draws, in portions of 7. Each worker pulls its own keys
/// as well.
fn draw(technique: Technique, scheme: Scheme) -> Vec<Vec<Key>> {
    let (config, id) = config(technique, scheme);
    let layout = config.layout.clone();
    let mut nodes = Node::start_local(config, 3).unwrap();
    let work = |worker: &mut Worker<f32>| -> Result<Vec<Key>, Error> {
        let mut all = Vec::new();
        let (mut keys, mut values) = (vec![Key(0); 5], vec![1.0]);
        for round in 0..20 {
            let own: Vec<Key> =
                (0..60).map(|i| Key(1_000 * u64::from(worker.rank().0) + 500 + 7 * round + i)).collect();
            let own: Vec<Key> = own.into_iter().filter(|key| key.0 < KEYS).collect();
            worker.localize(&own)?;
            let mut read = vec![0.0; own.iter().map(|key| layout.len(*key)).sum()];
            worker.pull(&own, &mut read)?;
            let mut handle = worker.prepare_sample(id, 28)?;
            for _ in 0..4 {
                worker.pull_sample(&mut handle, 7, &mut keys, &mut values)?;
                assert_eq!((keys.len(), values.len()), (7, keys.iter().map(|key| layout.len(*key)).sum()));
                let expected: Vec<f32> =
                    keys.iter().flat_map(|key| vec![key.0 as f32; layout.len(*key)]).collect();
                assert_eq!(values, expected, "each key's own value");
                all.extend_from_slice(&keys);
            }
            assert!(matches!(
                worker.pull_sample(&mut handle, 1, &mut keys, &mut values),
                Err(Error::Sample(_))
            ));
        }
        assert_eq!(worker.access().sampled, 20 * 28);
        worker.quiesce()?;
        Ok(all)
    };
    let drawn = std::thread::scope(|scope| {
        let threads: Vec<_> = nodes
            .iter_mut()
            .flat_map(Node::workers)
            .map(|mut worker| scope.spawn(move || work(&mut worker).unwrap()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    for (node, keys) in nodes.iter().zip(&drawn) {
        assert_eq!(node.sampling().drawn, keys.len() as u64);
        assert!(keys.iter().all(|key| (500..KEYS).contains(&key.0)));
    }
    Node::shutdown_all(nodes).unwrap();
    drawn
}

#[test]
fn every_scheme_draws_with_every_technique() {
    for technique in Technique::ALL {
        for scheme in Scheme::ALL {
            let drawn = draw(technique, scheme);
            assert_ne!(drawn[0], drawn[1], "{technique}, {scheme}: nodes draw for themselves");
        }
    }
}

#[test]
fn independent_samples_replay_and_the_others_are_what_they_say() {
    let independent = draw(Technique::Lapse, Scheme::Independent);
    assert_eq!(independent, draw(Technique::Classic, Scheme::Independent), "wherever keys are");
    let own = |node: usize| (1_000 * node as u64 + 500)..(1_000 * node as u64 + 700);
    let share = |drawn: &[Vec<Key>]| {
        let hits = drawn
            .iter()
            .enumerate()
            .map(|(node, keys)| keys.iter().filter(|key| own(node).contains(&key.0)).count());
        hits.sum::<usize>() as f64 / (3.0 * 560.0)
    };
    // If each node drew from all of these ranges, the share would be 600 of 2,500 keys, a fourth; it is a
    // twelfth.
    assert!(share(&independent) < 0.15, "{}", share(&independent));
    let repurposed = draw(Technique::Lapse, Scheme::Repurposing);
    assert!(share(&repurposed) > 0.9, "{}", share(&repurposed));
    let distinct: BTreeSet<Key> = draw(Technique::Lapse, Scheme::ALL[1])[0].iter().copied().collect();
    assert!(distinct.len() <= 250, "560 samples of a pool: {} keys", distinct.len());
    assert!(independent[0].iter().collect::<BTreeSet<_>>().len() > 400);
}

/// Every level gets a scheme that makes sense: if keys stay where they are, the scheme does not draw samples
/// from the keys of the node.
#[test]
fn the_system_picks_by_level_and_technique() {
    let picked = |technique| {
        let (mut config, _) = config(technique, Scheme::Independent);
        let mut builder = Sampler::builder();
        let id = builder.register(Distribution::uniform(0..KEYS).unwrap(), Conformity::NonConform);
        config.sampler = builder.build();
        let mut nodes = Node::start_local(config, 2).unwrap();
        let mut workers: Vec<_> = nodes.iter_mut().flat_map(Node::workers).collect();
        let _handle = workers[0].prepare_sample(id, 4).unwrap();
        drop(workers);
        let pools = nodes[0].sampling().pools;
        Node::shutdown_all(nodes).unwrap();
        pools > 0
    };
    assert!(picked(Technique::Classic), "reuse");
    assert!(!picked(Technique::Lapse), "local");
}

/// A key leaves between the call and the loan of its row. The sample is skipped if any other key would do as
/// well, and pulled if the scheme promises this key.
#[test]
fn a_near_sample_that_has_left_is_skipped() {
    for scheme in Scheme::ALL {
        let (config, _) = config(Technique::Lapse, scheme);
        let mut nodes = Node::start_local(config, 2).unwrap();
        let mut workers: Vec<_> = nodes.iter_mut().flat_map(Node::workers).collect();
        let keys = [Key(600), Key(601)];
        workers[0].localize(&keys).unwrap();
        let [first, second] = &mut workers[..] else { panic!("one worker per node") };
        let mut rows = first.rows(&keys).unwrap();
        second.localize(&keys[1..]).unwrap();
        assert_eq!(rows.sample(0).expect("it is here")[0], 600.0, "{scheme}");
        let skipped = rows.sample(1).is_none_or(|mut row| {
            assert_eq!(row[0], 601.0, "{scheme}");
            row[0] = 1.0;
            false
        });
        assert_eq!(
            rows.row(1)[0],
            if skipped { 601.0 } else { 1.0 },
            "{scheme}: a row is pulled in any case"
        );
        rows.finish().unwrap();
        first.flush().unwrap();
        let mut value = [0.0; 3];
        second.pull(&keys[1..], &mut value).unwrap();
        assert_eq!((skipped, value[0]), if scheme == Scheme::Local { (true, 601.0) } else { (false, 1.0) });
        assert_eq!(nodes[0].sampling().strayed, u64::from(skipped));
        drop(workers);
        Node::shutdown_all(nodes).unwrap();
    }
}
