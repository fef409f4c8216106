//! The generic functions of [`Cluster`] that are compiled with this crate, so that programs do not compile
//! them again.

use super::Cluster;

intendant_core::instances! {
    E:
    Cluster::<E>::new as fn(_) -> _,
    Cluster::<E, ()>::management as fn(_) -> _,
    Cluster::<E, ()>::load as fn(_) -> _,
    Cluster::<E, ()>::values as fn(_) -> _,
    Cluster::<E, ()>::violation as fn(_, _) -> _,
    Cluster::<E, ()>::stuck as fn(_, _) -> _,
    Cluster::<E, ()>::admits as fn(_, _, _) -> _,
    Cluster::<E, ()>::find_absent as fn(_, _, _) -> _,
    Cluster::<E, ()>::pull_into as fn(_, _, _, _, _) -> _,
    Cluster::<E, ()>::push as fn(_, _, _, _) -> _,
    Cluster::<E, ()>::localize as fn(_, _, _) -> _,
    Cluster::<E, ()>::take_pulled as fn(_, _, _) -> _,
    Cluster::<E, ()>::meeting_ns as fn(_) -> _,
    Cluster::<E, ()>::ask_reports as fn(_) -> _,
    Cluster::<E, ()>::work as fn(_, _, _) -> _,
    Cluster::<E, ()>::wake as fn(_, _, _) -> _,
    Cluster::<E, ()>::wake_loader as fn(_, _, _) -> _,
    Cluster::<E, ()>::elements as fn(_, _) -> _,
    Cluster::<E, ()>::advance_clock as fn(_, _, _) -> _,
    Cluster::<E, ()>::rest as fn(_, _) -> _,
    Cluster::<E, ()>::synchronize as fn(_, _) -> _,
    Cluster::<E, ()>::admits_synchronize as fn(_, _) -> _,
    Cluster::<E, ()>::next as fn(_) -> _,
    Cluster::<E, ()>::explain as fn(_, _, _) -> _,
    Cluster::<E, ()>::intend as fn(_, _, _, _, _) -> _,
    Cluster::<E, ()>::retire as fn(_, _) -> _,
    Cluster::<E, ()>::resume as fn(_, _) -> _,
    Cluster::<E, ()>::check_quiescent as fn(_) -> _,
    Cluster::<E, ()>::record as fn(_, _) -> _,
    Cluster::<E, ()>::take_events as fn(_) -> _,
}
