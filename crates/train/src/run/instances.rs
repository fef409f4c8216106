//! The generic functions of a run that are compiled with this crate, and not again in every program: those
//! that do not depend on the task.

use super::cluster::{ClusterNode, ClusterWorker};
use super::copies::Copies;
use super::cut::{Cuts, Cutter, Writer};
use super::shell::Shell;
use super::single::SingleWorker;
use super::views::Views;
use super::{cluster, explain, node, simulated, single};

intendant_core::instances! {
    E:
    ClusterNode::<E>::workers as fn(_) -> _,
    ClusterNode::<E>::shutdown as fn(_) -> _,
    Copies::<E>::new as fn(_, _, _) -> _,
    Copies::<E>::load as fn(_, _, _, _, _) -> _,
    Cuts::<E>::new as fn(_, _, _, _, _, _) -> _,
    Cutter::<'_, E>::new as fn(_, _, _, _) -> _,
    Cutter::<'_, E>::meet::<ClusterWorker<E>> as fn(_, _, _, _, _) -> _,
    Cutter::<'_, E>::meet::<SingleWorker<E>> as fn(_, _, _, _, _) -> _,
    Cutter::<'_, E>::end::<ClusterWorker<E>> as fn(_, _) -> _,
    Cutter::<'_, E>::end::<SingleWorker<E>> as fn(_, _) -> _,
    Cutter::<'_, E>::choose::<ClusterWorker<E>> as fn(_, _, _) -> _,
    Cutter::<'_, E>::choose::<SingleWorker<E>> as fn(_, _, _) -> _,
    Shell::<'_, E>::run as fn(_, _, _, _) -> _,
    Views::<E>::copying as fn(_, _, _) -> _,
    Views::<E>::enter as fn(_, _) -> _,
    Views::<E>::follow as fn(_, _, _) -> _,
    Views::<E>::plan as fn(_, _) -> _,
    Writer::<E>::run as fn(_, _, _, _) -> _,
    cluster::start::<E> as fn(_, _, _, _, _, _) -> _,
    explain::tell::<E, ClusterWorker<E>> as fn(_, _, _, _) -> _,
    explain::tell::<E, SingleWorker<E>> as fn(_, _, _, _) -> _,
    node::export::<E, ClusterWorker<E>> as fn(_, _, _, _, _) -> _,
    node::export::<E, SingleWorker<E>> as fn(_, _, _, _, _) -> _,
    simulated::export::<E> as fn(_, _, _, _) -> _,
    simulated::totals::<E> as fn(_) -> _,
    single::start::<E> as fn(_, _, _, _, _) -> _,
}
