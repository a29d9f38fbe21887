//! What a call of edit asks for, in the forms models give it, and what it is told.

use super::Output;
use super::target::{Target, flag, push_count, text};
use super::textmatch::Level;
use crate::json::{Kind, Value};
use crate::text::{push_dec, push_utf8_lossy};

/// Line numbers named in a result.
pub const LINES_NAMED: usize = 10;
/// Lines shown of text that was indented otherwise than the model wrote it.
const LINES_SHOWN: usize = 12;

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
    pub count: u64,
    /// The lines of the first [`LINES_NAMED`] places.
    pub lines: Vec<u64>,
}

/// The replacements asked for: those of `edits`, after the one given directly.
///
/// # Errors
/// For the model: what is missing or makes no sense.
pub fn edits_of(args: &Value) -> Result<Vec<Edit>, Output> {
    let given = args.get("edits");
    // Models send arrays as strings of JSON, too; an empty string only fills the schema.
    let as_text = given.and_then(|v| v.text()).map(|t| t.bytes());
    let list = match &as_text {
        Some(text) => crate::json::parse(text).ok(),
        None => given,
    };
    let absent = given.is_none() || as_text.as_ref().is_some_and(Vec::is_empty);
    if !absent && list.is_none_or(|l| l.kind() != Kind::Array) {
        return Err(Output::error(
            "edits must be an array of {oldString, newString, replaceAll}",
        ));
    }
    let items: Vec<Value> = list.iter().flat_map(|l| l.items()).collect();
    let mut edits = Vec::new();
    let direct = (text(args, "oldString"), text(args, "newString"));
    // Beside a list, empty strings only fill the schema.
    let filler = direct.0.as_ref().is_none_or(|t| t.is_empty())
        && direct.1.as_ref().is_none_or(|t| t.is_empty());
    if items.is_empty() || !filler {
        edits.push(one(direct, flag(args, "replaceAll"), "")?);
    }
    for (i, item) in items.iter().enumerate() {
        let mut label = Vec::new();
        push_label(&mut label, i, items.len());
        let pair = (text(item, "oldString"), text(item, "newString"));
        let label = String::from_utf8(label).unwrap_or_default();
        edits.push(one(pair, flag(item, "replaceAll"), &label)?);
    }
    Ok(edits)
}

fn one(
    (old, new): (Option<Vec<u8>>, Option<Vec<u8>>),
    all: bool,
    label: &str,
) -> Result<Edit, Output> {
    let refuse = |text: &str| Err(Output::error([label, text].concat()));
    let Some(old) = old else {
        return refuse("oldString is missing");
    };
    let Some(new) = new else {
        return refuse("newString is missing (it may be empty)");
    };
    if old.is_empty() {
        return refuse("oldString is empty; write makes or overwrites whole files");
    }
    if old == new {
        return refuse("oldString and newString are the same");
    }
    Ok(Edit { old, new, all })
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

/// What to tell about the edits done.
#[derive(Default)]
pub struct Outcome {
    count: u64,
    lines: Vec<u64>,
    notes: Vec<Level>,
    shown: Vec<u8>,
}

impl Outcome {
    /// Adds an edit done.
    pub fn add(&mut self, found: &Found, level: Level) {
        self.count += found.count;
        self.lines.extend_from_slice(&found.lines);
        if level != Level::Exact && !self.notes.contains(&level) {
            self.notes.push(level);
        }
    }

    /// Remembers lines from `first` on to show them.
    pub fn show(&mut self, first: u64, new: &[u8]) {
        let new = new.strip_suffix(b"\n").unwrap_or(new);
        for (i, line) in new.split(|&b| b == b'\n').take(LINES_SHOWN).enumerate() {
            self.shown.push(b'\n');
            push_dec(&mut self.shown, first + i as u64);
            self.shown.extend_from_slice(b": ");
            push_utf8_lossy(&mut self.shown, line.strip_suffix(b"\r").unwrap_or(line));
        }
    }

    /// The result for the model.
    pub fn report(self, target: &Target) -> Output {
        let mut out = b"edited ".to_vec();
        out.extend_from_slice(&target.shown);
        out.extend_from_slice(b": ");
        push_count(&mut out, self.count, "replacement");
        out.extend_from_slice(b" at ");
        let found = Found {
            count: self.count,
            lines: self.lines,
        };
        push_lines(&mut out, &found);
        for note in &self.notes {
            out.extend_from_slice(b"; ");
            out.extend_from_slice(note.note().as_bytes());
        }
        out.extend_from_slice(&self.shown);
        Output::ok(out)
    }
}

/// `line 3` or `lines 3, 9, ...`.
pub fn push_lines(out: &mut Vec<u8>, found: &Found) {
    let mut lines = found.lines.clone();
    lines.truncate(LINES_NAMED);
    lines.dedup();
    out.extend_from_slice(if lines.len() == 1 {
        b"line "
    } else {
        b"lines "
    });
    for (i, &line) in lines.iter().enumerate() {
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        push_dec(out, line);
    }
    if found.count > LINES_NAMED as u64 {
        out.extend_from_slice(b", ...");
    }
}
