//! The generic functions of this crate that are compiled with it, and not again in every program.

use crate::{Checkpoint, Folder, Rows};

intendant_core::instances! {
    E:
    Folder::write::<E> as fn(_, _, _, _) -> _,
    Checkpoint::read::<E> as fn(_, _, _) -> _,
    Rows::<E>::add as fn(_, _, _) -> _,
    Rows::<E>::make_room as fn(_, _) -> _,
}
