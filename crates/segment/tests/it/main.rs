//! Segments and slots as their users see them.

mod descriptors;
mod mirrors;
mod processes;
mod segments;
mod slots;
