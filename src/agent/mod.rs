//! The agent: the turn loop and what surrounds it.

pub mod event;
