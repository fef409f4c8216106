//! The functions of the engine that are compiled with this crate, and not again in every program.

use crate::{Channel, Clocks, Inspection, Local, Shared};

intendant_core::instances! {
    E:
    Shared::<E>::new as fn(_) -> _,
    Shared::<E>::pull as fn(_, _, _, _) -> _,
    Shared::<E>::push as fn(_, _, _, _) -> _,
    Shared::<E>::set as fn(_, _, _, _) -> _,
    Shared::<E>::pull_if_local as fn(_, _, _, _, _) -> _,
    Shared::<E>::localize as fn(_, _, _, _) -> _,
    Shared::<E>::synchronize as fn(_, _) -> _,
    Clocks::advance::<E> as fn(_, _, _) -> _,
    Shared::<E>::learn as fn(_, _, _, _) -> _,
    Inspection::<'_, E>::held as fn(_) -> _,
    Inspection::<'_, E>::value as fn(_, _) -> _,
    Inspection::<'_, E>::value_into as fn(_, _, _) -> _,
    Inspection::<'_, E>::copy as fn(_, _) -> _,
    Inspection::<'_, E>::role as fn(_, _) -> _,
    Local::<E>::complete as fn(_, _, _, _) -> _,
    Local::<E>::take as fn(_, _, _, _) -> _,
    Local::<E>::abandon as fn(_, _) -> _,
    Channel::<E>::new as fn(_, _) -> _,
    Channel::<E>::handle as fn(_, _, _, _) -> _,
    Channel::<E>::report as fn(_) -> _,
    Channel::<E>::explain as fn(_, _) -> _,
}
