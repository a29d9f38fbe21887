//! The command line: one table of flags.
