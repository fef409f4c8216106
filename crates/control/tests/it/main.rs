//! Tests of the control plane that need no parameters. Those with processes and nodes are in `intendant`.

mod generated;
