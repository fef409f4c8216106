//! What techniques combine, and what combinations are refused.

use super::*;
use intendant_core::{Movement, Tick};

#[test]
fn techniques_combine_what_works_together() {
    for technique in Technique::ALL {
        for order in [None, Some(Order::Fifo), Some(Order::Chain)] {
            for caches in [None, Some(false), Some(true)] {
                assert_eq!(technique.policy().with(order, caches).check(), Ok(()), "{technique}");
            }
        }
    }
}

#[test]
fn operations_are_chained_with_caches_unless_the_user_says_otherwise() {
    let lapse = Technique::Lapse.policy();
    let orders = |order, caches| {
        let policy = lapse.with(order, caches);
        (policy.order, policy.caches())
    };
    assert_eq!(orders(None, None), (Order::Fifo, false));
    assert_eq!(orders(None, Some(true)), (Order::Chain, true));
    assert_eq!(orders(Some(Order::Fifo), Some(true)), (Order::Fifo, true));
    assert_eq!(orders(Some(Order::Chain), None), (Order::Chain, false));
}

#[test]
fn keys_on_request_are_found_in_every_way_and_all_others_by_their_homes() {
    for technique in Technique::ALL {
        let requested = technique.policy().relocation == Some(Initiator::Requester);
        for location in Location::ALL {
            let policy = technique.policy().located(Some(location)).with(None, None);
            let works = requested || matches!(location, Location::Home { .. });
            assert_eq!(policy.check().is_ok(), works, "{technique}, {location}");
            if requested {
                assert_eq!(policy.order == Order::Fifo, location.keeps_order(), "{technique}, {location}");
            }
        }
    }
    let request = Technique::Lapse.policy().located(Some(Location::Request));
    assert_eq!(request.with(None, Some(true)).location, Location::Request, "caches are those of homes");
    assert_eq!(Technique::Lapse.policy().located(None), Technique::Lapse.policy());
}

#[test]
fn operations_are_always_chained_with_replicas_that_come_and_go() {
    for technique in [Technique::Ssp, Technique::Essp, Technique::Adaptive] {
        for order in [None, Some(Order::Fifo), Some(Order::Chain)] {
            for caches in [false, true] {
                let policy = technique.policy().with(order, Some(caches));
                assert_eq!((policy.order, policy.caches()), (Order::Chain, caches), "{technique}");
            }
        }
    }
}

#[test]
fn keys_move_where_a_technique_relocates_and_are_all_here_on_one_node() {
    for technique in Technique::ALL {
        let policy = technique.policy();
        assert_eq!(policy.movement(1), Movement::Intended, "{technique}");
        assert_eq!(policy.movement(2) != Movement::Never, policy.relocation.is_some(), "{technique}");
    }
    assert_eq!(Technique::Nups.policy().movement(2), Movement::Requested);
    assert_eq!(Technique::Adaptive.policy().movement(2), Movement::Intended);
    let moves = |technique: &Technique| technique.policy().movement(2) != Movement::Never;
    let moving: Vec<_> = Technique::ALL.into_iter().filter(moves).collect();
    let expected = [
        Technique::Lapse,
        Technique::Nups,
        Technique::Adaptive,
        Technique::RelocateOnIntent,
        Technique::ImmediateAction,
        Technique::HomeDecides,
        Technique::NaiveIntents,
    ];
    assert_eq!(moving, expected);
}

#[test]
fn intents_need_directed_replicas_and_owners_that_relocate_if_keys_are_to_move() {
    let adaptive = Technique::Adaptive.policy();
    let powerless = Err(PolicyError::Powerless("adaptive"));
    for (relocation, replicas) in [
        (None, adaptive.replicas),
        (Some(Initiator::Requester), adaptive.replicas),
        (Some(Initiator::Owner), None),
        (Some(Initiator::Owner), Some(Replicas::Lazy)),
    ] {
        assert_eq!(Policy { relocation, replicas, ..adaptive }.check(), powerless);
    }
    let replicate = Technique::ReplicateOnIntent.policy();
    let moving = Policy { relocation: Some(Initiator::Owner), ..replicate };
    assert_eq!(moving.check(), Err(PolicyError::Powerless("replicate-on-intent")));
}

#[test]
fn a_technique_is_found_by_its_name() {
    for technique in Technique::ALL {
        assert_eq!(technique.to_string().parse(), Ok(technique));
    }
    let error = "adaptiv".parse::<Technique>().unwrap_err().to_string();
    assert!(error.contains("'adaptiv'") && error.contains("classic, full-replication, "), "{error}");
    for order in [Order::Fifo, Order::Chain] {
        assert_eq!(order.to_string().parse(), Ok(order));
    }
    let error = "lifo".parse::<Order>().unwrap_err().to_string();
    assert!(error.contains("'lifo'") && error.contains("fifo or chain"), "{error}");
}

#[test]
fn homes_decide_as_adaptive_does_or_not_at_all() {
    let own = Technique::HomeDecides.policy();
    let intents = IntentPolicy { choice: Choice::Relocate, ..own.intents.expect("it acts on them") };
    let wrong = Policy { intents: Some(intents), ..own };
    assert_eq!(wrong.check(), Err(PolicyError::Misplaced("home-decides")));
    assert_eq!(own.check(), Ok(()));
    let deciders: Vec<_> = Technique::ALL.into_iter().filter(|t| t.policy().homes_decide()).collect();
    assert_eq!(deciders, [Technique::HomeDecides, Technique::NaiveIntents]);
}

#[test]
fn what_would_lose_updates_is_refused_and_what_owners_decide_is_not() {
    let base = Policy { name: "test", order: Order::Chain, ..classic::TECHNIQUE.policy };
    let directed = Some(Replicas::Directed { every: Tick(5) });
    let check = |relocation, replicas, static_replicas| {
        Policy { relocation, replicas, static_replicas, ..base }.check()
    };
    for relocation in [None, Some(Initiator::Owner)] {
        assert_eq!(check(relocation, directed, None), Ok(()));
    }
    let requested = Some(Initiator::Requester);
    assert_eq!(check(requested, directed, None), Err(PolicyError::Requested("test")));
    for clocked in [Replicas::Lazy, Replicas::Eager] {
        for relocation in [requested, Some(Initiator::Owner)] {
            assert_eq!(check(relocation, Some(clocked), None), Err(PolicyError::Clocked("test")));
        }
        assert_eq!(check(None, Some(clocked), Some(StaticReplicas::All)), Err(PolicyError::Both("test")));
    }
    assert_eq!(check(None, directed, Some(StaticReplicas::Assigned)), Err(PolicyError::Both("test")));
    let fifo = Policy { order: Order::Fifo, replicas: directed, ..base };
    assert_eq!(fifo.check(), Err(PolicyError::Unchained("test")));
    assert!(fifo.check().unwrap_err().to_string().contains("order chain"));
}
