#![doc = include_str!("../README.md")]
//!
//! Start at [`Rendezvous`]. `placement` decides what an environment means, as a function of its variables;
//! `locate` asks Slurm for addresses; [`Launch`] starts processes and supervises them.
//!
//! Not in this crate: the cluster itself (`intendant::control`) and parameters.
#![deny(unsafe_code)]

mod error;
mod locate;
mod placement;
mod processes;
mod rendezvous;
mod variable;

pub use error::RendezvousError;
pub use intendant_transport::is_readable_by_others;
pub use placement::Launcher;
pub use processes::{
    Launch, LaunchError, REPEATED_SIGNAL, ask_for_another, ignores_hang_up, is_launched, tell_done,
    tell_saved, token_is_unknown,
};
pub use rendezvous::{Endpoint, JOIN_DEADLINE_DEFAULT, Listener, Rendezvous};
pub use variable::VARIABLES;
