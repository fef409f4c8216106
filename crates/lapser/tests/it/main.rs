//! Integration tests of Lapser: one program, a module per subject.

mod declaration;
mod directory;
mod node;
mod pair;
