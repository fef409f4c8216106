//! The generic functions of simulated runs that are compiled with this crate, and not again in every program:
//! those that do not depend on the task.

use super::loading::NodeLocality;
use super::with_cluster;
use crate::meeting::Quiescence;
use crate::shell::cuts::Cuts;
use crate::shell::disk::Disk;
use crate::shell::rows::Copies;
use intendant_sampling::Manager;

intendant_core::instances! {
    E:
    Copies::<E>::lend_others as fn(_, _, _) -> _,
    Cuts::<E>::new as fn(_, _, _, _, _) -> _,
    Disk::<E>::advance as fn(_, _, _) -> _,
    Disk::<E>::crash as fn(_, _, _) -> _,
    Manager::draw::<NodeLocality<'_, E, ()>> as fn(_, _, _, _, _, _) -> _,
    Manager::prepare::<NodeLocality<'_, E, ()>> as fn(_, _, _, _, _) -> _,
    with_cluster::<E, ()> as fn(_, _, _) -> _,
    Quiescence::reported::<E, ()> as fn(_, _, _) -> _,
}
