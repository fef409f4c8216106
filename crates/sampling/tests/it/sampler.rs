//! The registration of distributions, the schemes that the system picks, and the counts of managers.

use crate::common::{Holds, keys};
use intendant_core::{Key, Movement};
use intendant_sampling::{
    Conformity, Distribution, Everything, Manager, Pooling, SampleError, Sampler, SamplingStats, Scheme,
};
use std::num::NonZeroU32;

fn pooling(keys: u32, uses: u32) -> Pooling {
    Pooling { keys: NonZeroU32::new(keys).unwrap(), uses: NonZeroU32::new(uses).unwrap() }
}

fn uniform(keys: std::ops::Range<u64>) -> Distribution {
    Distribution::uniform(keys).unwrap()
}

/// A sampler with all schemes, each once picked by the system (where it picks that scheme) and once named.
fn all_schemes() -> Sampler {
    let mut builder = Sampler::builder();
    for level in Conformity::ALL {
        builder.register(uniform(0..10), level);
    }
    for scheme in Scheme::ALL {
        builder.register_with(uniform(0..10), scheme.offers(), scheme).unwrap();
    }
    builder.build()
}

#[test]
fn distributions_keep_their_numbers() {
    assert!(Sampler::default().is_empty());
    assert_eq!(Sampler::default().len(), 0);
    let mut builder = Sampler::builder();
    let ids = [0, 100, 200].map(|from| builder.register(uniform(from..from + 10), Conformity::Conform));
    let sampler = builder.build();
    assert_eq!((sampler.len(), sampler.is_empty()), (3, false));
    let manager = Manager::new(sampler, 1, 0);
    for (id, from) in ids.into_iter().zip([0, 100, 200]) {
        let drawn = keys(&manager, id, 20, 3, &Everything);
        assert!(drawn.iter().all(|key| (from..from + 10).contains(&key.0)), "{from}: {drawn:?}");
    }
    let fewer = Manager::new(Sampler::default(), 1, 0);
    let error = fewer.prepare(ids[2], 1, 0, &Everything).err();
    assert_eq!(error, Some(SampleError::UnknownDistribution { index: 2, registered: 0 }));
}

/// Where keys do not move, postponing and local sampling make no sense, unless the application named them.
#[test]
fn schemes_that_need_keys_to_move_are_replaced_where_they_do_not() {
    let schemes =
        |sampler: &Sampler| -> Vec<Scheme> { sampler.schemes().map(|(_, scheme)| scheme).collect() };
    let sampler = all_schemes();
    let picked = Conformity::ALL.map(Conformity::scheme);
    assert_eq!(schemes(&sampler), [&picked[..], &Scheme::ALL].concat());
    assert_eq!(schemes(&sampler.settled(Movement::Intended)), schemes(&sampler));

    let needs = |scheme| matches!(scheme, Scheme::Postponing(_) | Scheme::Local);
    assert_eq!(picked.iter().filter(|scheme| needs(**scheme)).count(), 3);
    let overall =
        |level, other: Scheme| if level == Conformity::Overall { Scheme::Independent } else { other };
    let stays = Conformity::ALL.map(|level| {
        let scheme = level.scheme();
        overall(level, if needs(scheme) { Scheme::Reuse(Pooling::DEFAULT) } else { scheme })
    });
    assert_eq!(schemes(&sampler.settled(Movement::Never)), [&stays[..], &Scheme::ALL].concat());

    let requested = Conformity::ALL.map(|level| overall(level, level.scheme()));
    assert_eq!(schemes(&sampler.settled(Movement::Requested)), [&requested[..], &Scheme::ALL].concat());

    // One level for all distributions: first the system picks the scheme, then the application names it.
    let level = Conformity::NonConform;
    let picked = sampler.with(level, None).unwrap();
    assert!(picked.schemes().eq(std::iter::repeat_n((level, level.scheme()), sampler.len())));
    assert!(
        picked
            .settled(Movement::Never)
            .schemes()
            .all(|(_, scheme)| scheme == Scheme::Reuse(Pooling::DEFAULT))
    );
    let named = sampler.with(level, Some(Scheme::Local)).unwrap();
    assert!(named.settled(Movement::Never).schemes().all(|(_, scheme)| scheme == Scheme::Local));
    assert!(sampler.with(Conformity::Conform, Some(Scheme::Local)).is_err());
}

#[test]
fn pools_change_where_there_are_some() {
    let changed = all_schemes().pooling(pooling(7, 3));
    assert_eq!(changed.len(), all_schemes().len());
    for (before, after) in all_schemes().schemes().zip(changed.schemes()) {
        let pools = before.1.pooling().map(|_| pooling(7, 3));
        assert_eq!(before.0, after.0);
        assert_eq!(after.1.pooling(), pools);
        assert_eq!(after.1.portions(), before.1.portions());
    }
    assert_eq!(Scheme::ALL.map(|scheme| scheme.pooling().is_some()), [false, true, true, false, false]);
    // The largest number that one of them asks for.
    assert_eq!(all_schemes().portions(), Scheme::Postponing(Pooling::DEFAULT).portions());
    assert!(all_schemes().portions() > NonZeroU32::MIN);
    assert_eq!(Sampler::default().portions(), NonZeroU32::MIN);
}

#[test]
fn no_handle_yields_more_than_was_prepared() {
    let mut builder = Sampler::builder();
    let ids =
        Scheme::ALL.map(|scheme| builder.register_with(uniform(0..100), scheme.offers(), scheme).unwrap());
    let manager = Manager::new(builder.build(), 1, 0);
    manager.observe(&[Key(3)]);
    for (id, scheme) in ids.into_iter().zip(Scheme::ALL) {
        let before = manager.stats();
        let mut handle = manager.prepare(id, 10, 5, &Everything).unwrap();
        let (mut drawn, mut near) = (Vec::new(), Vec::new());
        for (wanted, left) in [(3, 7), (0, 7), (6, 1), (1, 0)] {
            manager.draw(&mut handle, wanted, &Everything, &mut drawn, &mut near).unwrap();
            assert_eq!(handle.left(), left, "{scheme}");
        }
        let error = manager.draw(&mut handle, 1, &Everything, &mut drawn, &mut near);
        assert_eq!(error, Err(SampleError::HandleExhausted { wanted: 1, left: 0 }), "{scheme}");
        assert_eq!((drawn.len(), near.len()), (10, 0), "{scheme}");
        // All keys are here, and refused draws do not count.
        let counted = manager.stats().since(&before);
        let expected = SamplingStats { drawn: 10, pools: counted.pools, ..SamplingStats::default() };
        assert_eq!(counted, expected, "{scheme}");
    }
}

/// Three distributions with pools of 5 keys, which are used once or twice.
#[test]
fn pools_are_counted_over_all_distributions() {
    let mut builder = Sampler::builder();
    let mut register = |uses| {
        let scheme = Scheme::Reuse(pooling(5, uses));
        builder.register_with(uniform(0..1_000), scheme.offers(), scheme).unwrap()
    };
    let (once, again, twice) = (register(1), register(1), register(2));
    let manager = Manager::new(builder.build(), 1, 0);
    let pools = || {
        let stats = manager.stats();
        (stats.pools, stats.late_pools)
    };
    // The rest of the pool suffices for as many samples as this call wanted.
    drop(manager.prepare(twice, 5, 0, &Everything).unwrap());
    assert_eq!(pools(), (1, 0));
    // Three pools are made when their samples are wanted. The first one of all is not late, the other two
    // are. One more is made ahead.
    drop(manager.prepare(once, 12, 0, &Everything).unwrap());
    assert_eq!(pools(), (5, 2));
    drop(manager.prepare(again, 12, 0, &Everything).unwrap());
    assert_eq!(pools(), (9, 4));
}

/// A node that owns less than its share chooses the rest ahead, from all keys.
#[test]
fn a_node_that_owns_little_draws_little_of_it() {
    let mut builder = Sampler::builder();
    let id = builder.register_with(uniform(0..6_400), Conformity::NonConform, Scheme::Local).unwrap();
    // An even share is 100 keys: one node owns 25, and another one owns 300.
    for (owned, share) in [(25, 0.275), (300, 1.0)] {
        let manager = Manager::new(builder.clone().build(), 1, 0);
        let place = Holds(|key: Key| key.0 < owned);
        let (mut here, mut ahead) = (0, 0);
        for stream in 0..3_000 {
            let handle = manager.prepare(id, 10, stream, &place).unwrap();
            ahead += if stream < 1_000 { 0 } else { handle.ahead().count() };
            let drawn = keys(&manager, id, 10, stream, &place);
            here += if stream < 1_000 { 0 } else { drawn.iter().filter(|key| key.0 < owned).count() };
        }
        let (here, ahead) = (here as f64 / 20_000.0, ahead as f64 / 20_000.0);
        assert!((here - share).abs() < 0.04, "{here} of the samples are from {owned} keys");
        assert!((ahead - (1.0 - share)).abs() < 0.04, "{ahead} of the samples are chosen ahead");
    }
}

#[test]
fn repurposing_remembers_the_latest_1024_keys() {
    let mut builder = Sampler::builder();
    let id = builder.register_with(uniform(0..10_000), Conformity::NonConform, Scheme::Repurposing).unwrap();
    let manager = Manager::new(builder.build(), 1, 0);
    for from in [0, 2_000, 4_000] {
        (from..from + 1_024).for_each(|key| manager.observe(&[Key(key)]));
        let drawn = keys(&manager, id, 50_000, from, &Everything);
        assert!(drawn.iter().all(|key| (from..from + 1_024).contains(&key.0)), "{from}");
        let distinct: std::collections::BTreeSet<_> = drawn.iter().collect();
        assert_eq!(distinct.len(), 1_024, "all of them are drawn");
    }
}
