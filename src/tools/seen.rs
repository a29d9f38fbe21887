//! What the model has seen of which file, so that a write over somebody else's change is refused.

/// The files the model has read or written.
#[derive(Default)]
pub struct Seen {}
