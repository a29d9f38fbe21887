//! JSON for the wire and for files that outsiders write: a check of the grammar, a lazy view of one document, a writer that appends to a buffer, and a lenient reader for tool arguments.
//!
//! Numbers stay text: nothing here uses floating point. Strings are decoded only on request, always into valid UTF-8
//! (lone surrogates and invalid bytes become U+FFFD). Source: RFC 8259.

pub mod join;
pub mod lenient;
pub mod tokenizer;
pub mod value;
pub mod write;

pub use join::Joiner;
pub use tokenizer::{Error, Text};
pub use value::{Kind, Value, parse, parse_prefix};
pub use write::Writer;

#[cfg(test)]
mod tests;
