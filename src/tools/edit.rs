//! edit: exact text replaced by other text; only the matched bytes change.

use super::nearlines::{Nearest, report_difference};
use super::seen::{HASH_MAX, Hash};
use super::target::{STALE, Target, flag, push_count, replace_error, text};
use super::textmatch::{self, Level as Match, Miss};
use super::{Class, Ctx, Level, Output, Tool, bigedit};
use crate::json::{Kind, Value};
use crate::sys::fs::{self, File, Meta};
use crate::sys::replace::replace;
use crate::text::{push_dec, push_utf8_lossy};
use std::io;

/// The tool.
pub static TOOL: Tool = Tool {
    name: "edit",
    description: "Replace text in a file. oldString must match exactly one place (or set replaceAll). edits: several replacements, all or none.",
    properties: r#"{"filePath":{"type":"string"},"oldString":{"type":"string"},"newString":{"type":"string"},"replaceAll":{"type":"boolean"},"edits":{"type":"array","items":{"type":"object","properties":{"oldString":{"type":"string"},"newString":{"type":"string"},"replaceAll":{"type":"boolean"}},"required":["oldString","newString"]}}}"#,
    required: &["filePath"],
    class: Class::WritesPath,
    level: Level::Allow,
    writes: Some("filePath"),
    label: "filePath",
    run: Some(run),
};

/// Files up to this size are matched in memory, at all levels; larger ones only exactly, as a stream.
const SMALL: u64 = 1 << 20;
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

fn run(ctx: &mut Ctx, args: &Value) -> Output {
    edit(ctx, args).unwrap_or_else(|refused| refused)
}

fn edit(ctx: &mut Ctx, args: &Value) -> Result<Output, Output> {
    let target = Target::new(args, "filePath", ctx.cwd)?;
    let edits = edits_of(args)?;
    let meta = match fs::stat(&target.path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let mut out = target.os_error(&e);
            out.text.extend_from_slice(b" (write makes new files)");
            return Err(out);
        }
        _ => target.stat(false)?,
    };
    let real = fs::resolve(&target.path).map_err(|e| target.os_error(&e))?;
    let failed = |e: io::Error| target.os_error(&e);
    let stale = ctx.seen.is_stale(&real, &meta, &mut || {
        File::open(&real).and_then(|mut f| Hash::of_file(&mut f))
    });
    if stale.map_err(failed)? {
        return Err(target.error(STALE));
    }
    let job = Job {
        target: &target,
        edits: &edits,
    };
    let mut result = Outcome::default();
    let mut hash = Hash::new();
    let mut size = 0;
    let written = if meta.size > SMALL {
        let mut file = File::open(&real).map_err(failed)?;
        let found = bigedit::find(&mut file, &edits).map_err(failed)?;
        for (i, found) in found.iter().enumerate() {
            job.check(i, found, &real)?;
            result.add(found, Match::Exact);
        }
        let mut overlap = false;
        let written = replace(&real, Some(&meta), ctx.scratch, &mut |old, out| {
            hash = Hash::new();
            size = 0;
            let Some(old) = old else { return Ok(()) };
            let done = bigedit::rewrite(old, &edits, &mut |bytes| {
                size += bytes.len() as u64;
                if size <= HASH_MAX {
                    hash.add(bytes);
                }
                out.write(bytes)
            })?;
            overlap = done != found.iter().map(|f| f.count).collect::<Vec<_>>();
            match overlap {
                true => Err(io::ErrorKind::InvalidData.into()),
                false => Ok(()),
            }
        });
        if overlap {
            return Err(target.error("the edits overlap; nothing was changed. Merge them into one"));
        }
        written
    } else {
        let old = load(&real).map_err(failed)?;
        let new = job.apply(&old, &mut result)?;
        if new == old {
            return Err(target.error("the edit changes nothing: the text is so already"));
        }
        drop(old);
        hash.add(&new);
        size = new.len() as u64;
        replace(&real, Some(&meta), ctx.scratch, &mut |_, out| {
            out.write(&new)
        })
    };
    let meta: Meta = written.map_err(|f| replace_error(&target, &f, true))?;
    let hash = (size <= HASH_MAX).then(|| hash.finish());
    ctx.seen.note(&real, &meta, size, hash);
    Ok(result.report(&target))
}

/// The replacements asked for: those of `edits`, after the one given directly.
fn edits_of(args: &Value) -> Result<Vec<Edit>, Output> {
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
fn push_label(out: &mut Vec<u8>, i: usize, of: usize) {
    if of > 1 {
        out.extend_from_slice(b"edit ");
        push_dec(out, i as u64 + 1);
        out.extend_from_slice(b" of ");
        push_dec(out, of as u64);
        out.extend_from_slice(b": ");
    }
}

fn load(path: &[u8]) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    // One byte more shows the end of the file without growing.
    let size = file.meta()?.size.min(SMALL) as usize;
    let mut out = vec![0; (size + 1).max(4096)];
    let mut len = 0;
    loop {
        len += file.read(out.get_mut(len..).unwrap_or_default())?;
        if len < out.len() {
            out.truncate(len);
            return Ok(out);
        }
        if len as u64 > 2 * SMALL {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        out.resize(2 * len, 0);
    }
}

struct Job<'a> {
    target: &'a Target,
    edits: &'a [Edit],
}

impl Job<'_> {
    /// An error about edit `i`, after which nothing is changed.
    fn refuse(&self, i: usize, text: &[u8]) -> Output {
        let mut out = Vec::new();
        push_label(&mut out, i, self.edits.len());
        out.extend_from_slice(text);
        self.target.error(out)
    }

    /// All edits one after the other, each on what the one before made.
    fn apply(&self, file: &[u8], result: &mut Outcome) -> Result<Vec<u8>, Output> {
        let mut changed: Option<Vec<u8>> = None;
        for (i, edit) in self.edits.iter().enumerate() {
            let text = changed.as_deref().unwrap_or(file);
            let matches = match textmatch::find(text, &edit.old, edit.all) {
                Ok(matches) => matches,
                Err(Miss::Several(level, count, lines)) => {
                    let found = Found {
                        count: count as u64,
                        lines,
                    };
                    return Err(self.several(i, &found, level));
                }
                Err(Miss::Nowhere) => {
                    let mut nearest = Nearest::new(&edit.old);
                    nearest.text(text);
                    let mut out = b"oldString was not found".to_vec();
                    if text.starts_with(b"\xFF\xFE") || text.starts_with(b"\xFE\xFF") {
                        out.extend_from_slice(b": the file is UTF-16, which edit can't change");
                        return Err(self.refuse(i, &out));
                    }
                    nearest.report(&mut out);
                    report_difference(text, &edit.old, &mut out);
                    return Err(self.refuse(i, &out));
                }
            };
            let mut found = Found {
                count: matches.spans.len() as u64,
                lines: Vec::new(),
            };
            let mut out = Vec::with_capacity(text.len() + edit.new.len() + 64);
            let mut from = 0;
            for (nth, &(start, end)) in matches.spans.iter().enumerate() {
                out.extend_from_slice(text.get(from..start).unwrap_or_default());
                if nth < LINES_NAMED {
                    found.lines.push(textmatch::line_of(text, start));
                }
                let new = matches.fit(text, start, &edit.old, &edit.new);
                out.extend_from_slice(&new);
                if matches.level == Match::Indent {
                    result.show(textmatch::line_of(text, start), &new);
                }
                from = end;
            }
            out.extend_from_slice(text.get(from..).unwrap_or_default());
            result.add(&found, matches.level);
            changed = Some(out);
        }
        Ok(changed.unwrap_or_default())
    }

    fn several(&self, i: usize, found: &Found, level: Match) -> Output {
        let mut out = b"oldString matches ".to_vec();
        push_dec(&mut out, found.count);
        out.extend_from_slice(b" places, at ");
        push_lines(&mut out, found);
        if level != Match::Exact {
            out.extend_from_slice(b" (");
            out.extend_from_slice(level.note().as_bytes());
            out.push(b')');
        }
        out.extend_from_slice(b"; add lines around it to name one");
        if level <= Match::Newlines {
            out.extend_from_slice(b", or set replaceAll");
        }
        self.refuse(i, &out)
    }

    /// Whether a large file has the places edit `i` needs.
    fn check(&self, i: usize, found: &Found, real: &[u8]) -> Result<(), Output> {
        let Some(edit) = self.edits.get(i) else {
            return Ok(());
        };
        if found.count > 1 && !edit.all {
            return Err(self.several(i, found, Match::Exact));
        }
        if found.count > 0 {
            return Ok(());
        }
        let mut nearest = Nearest::new(&edit.old);
        if let Ok(mut file) = File::open(real) {
            let _ = nearest.file(&mut file);
        }
        let mut out = b"oldString was not found (files over 1 MiB are matched exactly, all edits against the file as it is)".to_vec();
        nearest.report(&mut out);
        Err(self.refuse(i, &out))
    }
}

/// What to tell about the edits done.
#[derive(Default)]
struct Outcome {
    count: u64,
    lines: Vec<u64>,
    notes: Vec<Match>,
    shown: Vec<u8>,
}

impl Outcome {
    fn add(&mut self, found: &Found, level: Match) {
        self.count += found.count;
        self.lines.extend_from_slice(&found.lines);
        if level != Match::Exact && !self.notes.contains(&level) {
            self.notes.push(level);
        }
    }

    /// Remembers lines from `first` on to show them.
    fn show(&mut self, first: u64, new: &[u8]) {
        for (i, line) in new.split(|&b| b == b'\n').take(LINES_SHOWN).enumerate() {
            self.shown.push(b'\n');
            push_dec(&mut self.shown, first + i as u64);
            self.shown.extend_from_slice(b": ");
            push_utf8_lossy(&mut self.shown, line.strip_suffix(b"\r").unwrap_or(line));
        }
    }

    fn report(self, target: &Target) -> Output {
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
fn push_lines(out: &mut Vec<u8>, found: &Found) {
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
