//! The functions of the engine that are compiled with this crate, and not again in every program.

use crate::{Channel, Local, Shared};

intendant_core::instances! {
    E:
    Shared::<E>::new as fn(_) -> _,
    Shared::<E>::pull as fn(_, _, _, _) -> _,
    Shared::<E>::push as fn(_, _, _, _) -> _,
    Shared::<E>::set as fn(_, _, _, _) -> _,
    Shared::<E>::pull_if_local as fn(_, _, _, _, _) -> _,
    Shared::<E>::localize as fn(_, _, _, _) -> _,
    Shared::<E>::synchronize as fn(_, _) -> _,
    Shared::<E>::intend as fn(_, _, _, _) -> _,
    Shared::<E>::advance_clock as fn(_, _, _) -> _,
    Shared::<E>::retire as fn(_, _) -> _,
    Shared::<E>::resume as fn(_) -> _,
    Shared::<E>::learn as fn(_, _, _, _) -> _,
    Shared::<E>::held as fn(_) -> _,
    Shared::<E>::peek as fn(_, _) -> _,
    Shared::<E>::peek_into as fn(_, _, _) -> _,
    Shared::<E>::peek_copy as fn(_, _) -> _,
    Shared::<E>::inspect as fn(_, _) -> _,
    Local::<E>::complete as fn(_, _, _, _) -> _,
    Local::<E>::take as fn(_, _, _, _) -> _,
    Local::<E>::abandon as fn(_, _) -> _,
    Channel::<E>::new as fn(_, _) -> _,
    Channel::<E>::handle as fn(_, _, _, _) -> _,
    Channel::<E>::report as fn(_) -> _,
    Channel::<E>::explain as fn(_, _) -> _,
}
