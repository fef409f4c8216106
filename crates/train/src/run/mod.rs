//! The run: what the threads of a node do, and how the nodes begin, stop, save and go on.
//!
//! `node` runs the threads of one node. `worker` interprets the programs of `intendant-task`, with blocking
//! calls on `parameters`: those of a `cluster` or, for technique `single`, of one array that the threads
//! share. `origin` says where a run begins, `cut` and `best` make checkpoints of it, `copies` and `views` let
//! it go on when nodes are lost. `simulated` trains in a simulated cluster instead. `program` runs programs
//! that train without parameters that are managed.

mod agreement;
mod ahead;
mod best;
mod cluster;
mod copies;
mod cut;
mod explain;
mod instances;
pub(crate) mod meter;
mod node;
mod nodes;
mod origin;
mod outcome;
pub(crate) mod parameters;
mod program;
mod replication;
mod sampling;
mod saved;
mod shell;
mod simulated;
pub(crate) mod single;
mod traced;
mod views;
mod worker;

pub use node::run;
pub use outcome::Outcome;
pub use program::{About, Computed, Costs, Program, Saved, State, run_program, terms};
pub use saved::{SavedRun, UnderWay};
