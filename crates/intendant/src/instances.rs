//! The generic functions of nodes and workers that are compiled with this crate, and not again in every
//! program.

use crate::worker::rows::Rows;
use crate::{Lobby, Node, Preparer, Worker};

intendant_core::instances! {
    E:
    Lobby::<E>::leave as fn(_) -> _,
    Node::<E>::start_alone as fn(_) -> _,
    Node::<E>::start_local as fn(_, _) -> _,
    Node::<E>::join as fn(_, _) -> _,
    Node::<E>::workers as fn(_) -> _,
    Node::<E>::management as fn(_) -> _,
    Node::<E>::held as fn(_) -> _,
    Node::<E>::network as fn(_) -> _,
    Node::<E>::shutdown as fn(_) -> _,
    Node::<E>::shutdown_all as fn(_) -> _,
    Rows::<'_, E>::finish as fn(_) -> _,
    Worker::<E>::fetch as fn(_, _) -> _,
    Worker::<E>::lend_arrived as fn(_, _) -> _,
    Worker::<E>::localize as fn(_, _) -> _,
    Worker::<E>::localize_async as fn(_, _) -> _,
    Worker::<E>::pull_async as fn(_, _) -> _,
    Worker::<E>::push_async as fn(_, _, _) -> _,
    Worker::<E>::set_async as fn(_, _, _) -> _,
    Worker::<E>::wait as fn(_, _) -> _,
    Worker::<E>::wait_pull as fn(_, _, _) -> _,
    Worker::<E>::wait_all as fn(_) -> _,
    Worker::<E>::flush as fn(_) -> _,
    Worker::<E>::snapshot as fn(_, _, _) -> _,
    Worker::<E>::pull as fn(_, _, _) -> _,
    Worker::<E>::push as fn(_, _, _) -> _,
    Worker::<E>::set as fn(_, _, _) -> _,
    Worker::<E>::intent as fn(_, _, _) -> _,
    Worker::<E>::explain as fn(_, _) -> _,
    Worker::<E>::prepare_sample as fn(_, _, _) -> _,
    Worker::<E>::pull_sample as fn(_, _, _, _, _) -> _,
    Worker::<E>::draw as fn(_, _, _, _) -> _,
    Worker::<E>::advance_clock as fn(_) -> _,
    Worker::<E>::synchronize as fn(_) -> _,
    Worker::<E>::barrier as fn(_, _) -> _,
    Worker::<E>::gather as fn(_, _, _) -> _,
    Worker::<E>::quiesce as fn(_) -> _,
    Worker::<E>::set_staleness_bound as fn(_, _) -> _,
    Preparer::<E>::prepare_sample as fn(_, _, _, _) -> _,
    Preparer::<E>::intent as fn(_, _, _, _) -> _,
}
