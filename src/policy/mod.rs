//! What may run: the shell-command reader, the danger gate, permissions, trust.

pub mod danger;
mod grammar;
mod hazard;
pub mod permission;
pub mod redact;
pub mod shell;
pub mod trust;
mod words;
mod wrapper;

#[cfg(test)]
mod danger_cases;
#[cfg(test)]
mod shell_cases;
