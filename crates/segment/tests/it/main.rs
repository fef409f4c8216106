//! Segments and slots as their users see them.

mod descriptors;
mod processes;
mod segments;
mod slots;
