//! The operating system: processes, files, signals, clocks, terminals. All `unsafe` code of the program is here.

// The program's own, as its start.rs: see main.rs.
#[cfg(test)]
mod alloc;
pub mod dir;
pub mod fs;
pub mod hash;
pub mod out;
pub mod process;
pub mod replace;
pub mod selfexe;
pub mod signal;
pub mod storage;
pub mod system;
pub mod time;
pub mod tty;
