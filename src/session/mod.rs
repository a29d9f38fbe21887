//! Sessions: the conversation in memory and its append-only file.

pub mod message;
pub mod store;
