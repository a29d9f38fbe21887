//! What glob and grep collect: results within their limits, a count of the rest, a note of what was skipped.

use super::Output;
use super::target::{Target, push_count};
use super::window::Notes;
use crate::json::Value;
use crate::sys::{signal, time};
use crate::text::push_utf8_lossy;

/// Results shown.
pub const SHOWN: usize = 100;
/// How long further ones are counted, in ms.
const COUNT_TIME: u64 = 2000;
/// Room for the notes at the end.
const NOTES: usize = 160;

/// Results so far.
pub struct Found {
    /// Their text.
    pub out: Vec<u8>,
    /// How many are in it.
    pub shown: usize,
    /// How many there are.
    pub total: usize,
    /// No more will be shown.
    pub full: bool,
    limit: usize,
    give_up: Option<u64>,
    stopped: bool,
}

impl Found {
    /// Nothing yet, and never more than about `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Found {
            out: Vec::new(),
            shown: 0,
            total: 0,
            full: false,
            limit: limit.saturating_sub(NOTES),
            give_up: None,
            stopped: false,
        }
    }

    /// Ends the line that `out` got after its first `before` bytes, or takes it back when there is no room for it. A
    /// `result` is counted. False when it was taken back.
    pub fn end_line(&mut self, before: usize, result: bool) -> bool {
        self.out.push(b'\n');
        if self.out.len() > self.limit {
            self.out.truncate(before);
            self.full = true;
            return false;
        }
        if result {
            self.shown += 1;
            self.full |= self.shown >= SHOWN;
        }
        true
    }

    /// Whether to leave off: cancelled, or counted on for long enough.
    pub fn stop(&mut self) -> bool {
        if self.full {
            let now = time::monotonic_ms();
            self.stopped |= now >= *self.give_up.get_or_insert(now + COUNT_TIME);
        }
        self.stopped |= signal::cancelled();
        self.stopped
    }

    /// The result for the model: `more` names further results, `skipped` is how many of what were left out.
    pub fn finish(self, more: &str, skipped: &[(usize, &str)]) -> Output {
        let mut notes = Notes { out: self.out };
        if self.total == 0 {
            notes.out.extend_from_slice(b"(no matches)");
        }
        let rest = self.total.saturating_sub(self.shown);
        if rest > 0 || self.stopped {
            let n = notes.start(if self.stopped {
                "stopped; at least "
            } else {
                ""
            });
            push_count(n, rest as u64, more);
            n.push(b']');
        }
        for &(count, what) in skipped {
            if count > 0 {
                push_count(notes.start("skipped "), count as u64, what);
                notes.out.push(b']');
            }
        }
        Output::ok(notes.out)
    }
}

/// An error about the parameter `what`.
pub fn wrong(what: &str, error: &str) -> Output {
    Output::error([what, ": ", error].concat())
}

/// Where to search: the argument `path`, else the working directory.
///
/// # Errors
/// For the model.
pub fn root(args: &Value, cwd: &[u8]) -> Result<Target, Output> {
    match args.get("path").and_then(|v| v.text()) {
        Some(path) if !path.raw().is_empty() => Target::new(args, "path", cwd),
        _ => Ok(Target {
            shown: b".".to_vec(),
            path: cwd.to_vec(),
        }),
    }
}

/// Appends `path`, from `cwd` when it is below, on one line whatever its name.
pub fn push_path(out: &mut Vec<u8>, path: &[u8], cwd: &[u8]) {
    let below = path.strip_prefix(cwd.strip_suffix(b"/").unwrap_or(cwd));
    let shown = below.and_then(|p| p.strip_prefix(b"/")).unwrap_or(path);
    for (i, part) in shown.split(|&b| b == b'\n').enumerate() {
        if i > 0 {
            out.extend_from_slice(b"\\n");
        }
        push_utf8_lossy(out, part);
    }
}
