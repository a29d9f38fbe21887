//! cluade: a complete coding agent for small Linux devices, in one static binary.
//!
//! The arrows point one way: `main → front → agent → {provider, tools, policy, session} → {json, sys}`.
//! Tools know the [`tools::Ctx`] handed to them and nothing of the agent; transports know bytes and nothing of chat;
//! front ends consume [`agent::event::Event`] and nothing else.
//!
//! Refused on purpose: threads (a poll loop serves), a TLS stack in the default build (the device's own client does
//! it), `HashMap` with its random state, panics as control flow: a release build aborts on panic.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod agent;
pub mod cli;
pub mod config;
pub mod front;
pub mod json;
pub mod policy;
pub mod provider;
pub mod session;
pub mod sys;
pub mod text;
pub mod tools;
