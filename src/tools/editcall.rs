//! What a call of edit asks for, in the forms models give it, and what it is told.

use super::Output;
use super::target::{flag, text};
use crate::json::{Kind, Value};
use crate::text::push_dec;

/// Line numbers named in a result.
pub const LINES_NAMED: usize = 10;

/// One replacement asked for.
pub struct Edit {
    /// What to find, not empty.
    pub old: Vec<u8>,
    /// What to put there.
    pub new: Vec<u8>,
    /// In every place.
    pub all: bool,
}

/// What became of an edit.
#[derive(Default)]
pub struct Found {
    /// Places.
    pub count: usize,
    /// The lines of the first [`LINES_NAMED`] places.
    pub lines: Vec<u64>,
}

/// The replacements asked for: those of `edits`, after the one given directly.
///
/// # Errors
/// For the model: what is missing or makes no sense.
pub fn edits_of(args: &Value) -> Result<Vec<Edit>, Output> {
    let given = args.get("edits");
    let mut items = Vec::new();
    match given {
        Some(list) if list.kind() == Kind::Array => items.extend(list.items()),
        None => {}
        // An empty string only fills the schema.
        Some(v) if v.text().is_some_and(|t| t.raw().is_empty()) => {}
        _ => {
            return Err(Output::error(
                "edits must be an array of {oldString, newString, replaceAll}",
            ));
        }
    }
    let mut edits = Vec::new();
    // Beside a list, empty strings only fill the schema.
    let filler = |name| text(args, name).is_none_or(|t| t.is_empty());
    if items.is_empty() || !(filler("oldString") && filler("newString")) {
        push_edit(&mut edits, args, 0, 1)?;
    }
    for (i, item) in items.iter().enumerate() {
        push_edit(&mut edits, item, i, items.len())?;
    }
    Ok(edits)
}

fn push_edit(edits: &mut Vec<Edit>, args: &Value, i: usize, of: usize) -> Result<(), Output> {
    let what = match (text(args, "oldString"), text(args, "newString")) {
        (None, _) => "oldString is missing",
        (_, None) => "newString is missing (it may be empty)",
        (Some(old), Some(new)) => {
            if old.is_empty() {
                "oldString is empty; write makes or overwrites whole files"
            } else if old == new {
                "oldString and newString are the same"
            } else {
                let all = flag(args, "replaceAll");
                edits.push(Edit { old, new, all });
                return Ok(());
            }
        }
    };
    let mut out = Vec::new();
    push_label(&mut out, i, of);
    out.extend_from_slice(what.as_bytes());
    Err(Output::error(&out))
}

/// `edit N of M: `, when there are several.
pub fn push_label(out: &mut Vec<u8>, i: usize, of: usize) {
    if of > 1 {
        out.extend_from_slice(b"edit ");
        push_dec(out, i as u64 + 1);
        out.extend_from_slice(b" of ");
        push_dec(out, of as u64);
        out.extend_from_slice(b": ");
    }
}

/// ` at line 3` or ` at lines 3, 9, ...`.
pub fn push_lines(out: &mut Vec<u8>, found: &mut Found) {
    found.lines.truncate(LINES_NAMED);
    found.lines.dedup();
    let mut before: &[u8] = match found.lines.len() {
        1 => b" at line ",
        _ => b" at lines ",
    };
    for &line in &found.lines {
        out.extend_from_slice(before);
        push_dec(out, line);
        before = b", ";
    }
    if found.count > LINES_NAMED {
        out.extend_from_slice(b", ...");
    }
}
