//! What may run: the shell-command reader, the danger gate, permissions, trust.

pub mod danger;
pub mod permission;
pub mod redact;
pub mod shell;
pub mod trust;
