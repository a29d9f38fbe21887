//! What the file tools share: arguments to paths, refusals of what is no file, error texts with a remedy.

use super::seen::{HASH_MAX, Hash, Seen};
use super::{Ctx, Output};
use crate::json::{Kind as Json, Value, value::decimal};
use crate::sys::fs::{self, File, Kind, Meta};
use crate::sys::replace::replace;
use crate::text::push_utf8_lossy;
use std::io;

/// A path a tool was given.
pub struct Target {
    /// As the model wrote it, for results.
    pub shown: Vec<u8>,
    /// Absolute, unless the working directory isn't.
    pub path: Vec<u8>,
}

impl Target {
    /// The string argument `name`; relative paths start at `cwd`.
    ///
    /// # Errors
    /// For the model: nothing given, or a `~` that no shell has expanded.
    pub fn new(args: &Value, name: &str, cwd: &[u8]) -> Result<Target, Output> {
        let shown = match args.get(name).and_then(|v| v.text()) {
            Some(text) => text.bytes(),
            None => return Err(Output::error([name.as_bytes(), b" is missing"].concat())),
        };
        if shown.is_empty() {
            return Err(Output::error([name.as_bytes(), b" is empty"].concat()));
        }
        let path = fs::join(cwd, shown.strip_prefix(b"./").unwrap_or(&shown));
        let target = Target { shown, path };
        if target.shown.starts_with(b"~/") {
            return Err(target.error(b"~ is not expanded here; give the whole path"));
        }
        Ok(target)
    }

    /// `PATH: text`, as an error.
    pub fn error(&self, text: impl AsRef<[u8]>) -> Output {
        self.refuse(text.as_ref())
    }

    #[inline(never)]
    fn refuse(&self, text: &[u8]) -> Output {
        let mut out = b"error: ".to_vec();
        push_utf8_lossy(&mut out, &self.shown);
        out.extend_from_slice(b": ");
        push_utf8_lossy(&mut out, text);
        Output {
            ok: false,
            text: out,
        }
    }

    /// As [`Target::os_error`], when nobody needs the error any more.
    #[inline(never)]
    pub fn failed(&self, error: io::Error) -> Output {
        self.os_error(&error)
    }

    /// A system error about this path.
    pub fn os_error(&self, error: &io::Error) -> Output {
        self.error(fs::os_text(error))
    }

    /// The state of the file; an error unless it is a regular file, or a directory when `dir_too`.
    ///
    /// # Errors
    /// For the model.
    pub fn stat(&self, dir_too: bool) -> Result<Meta, Output> {
        let meta = fs::stat(&self.path).map_err(|e| self.failed(e))?;
        let what: &[u8] = match meta.kind {
            Kind::Dir if !dir_too => b"is a directory",
            Kind::File | Kind::Dir | Kind::Link => return Ok(meta),
            Kind::Fifo => b"is a named pipe, not a file",
            Kind::Socket => b"is a socket, not a file",
            Kind::Device => b"is a device, not a file",
        };
        Err(self.error(what))
    }

    /// The file's name with links followed.
    ///
    /// # Errors
    /// For the model.
    pub fn real(&self) -> Result<Vec<u8>, Output> {
        fs::resolve(&self.path).map_err(|e| self.failed(e))
    }

    /// Refuses to change the file `real`, in the state `meta`, when somebody else did since the model saw it.
    ///
    /// # Errors
    /// For the model.
    pub fn check_fresh(&self, seen: &Seen, real: &[u8], meta: &Meta) -> Result<(), Output> {
        match seen.is_stale(real, meta) {
            Ok(false) => Ok(()),
            Ok(true) => Err(self.error(
                b"changed on disk since you last saw it; nothing was written. Read it again first",
            )),
            Err(e) => Err(self.failed(e)),
        }
    }

    /// Gives the file `real`, in the state `old` if it exists, the content `fill` writes, and remembers that the model
    /// knows it.
    ///
    /// # Errors
    /// For the model: the system's text, the room on a full filesystem, and where the old content is if it could not be
    /// put back.
    pub fn save(
        &self,
        ctx: &mut Ctx,
        real: &[u8],
        old: Option<&Meta>,
        fill: &mut Fill,
    ) -> Result<(), Output> {
        let mut hash = Hash::new();
        let mut size = 0;
        let written = replace(real, old, ctx.scratch, &mut |from, to| {
            hash = Hash::new();
            size = 0;
            fill(from, &mut |bytes| {
                size += bytes.len() as u64;
                if size <= HASH_MAX {
                    hash.add(bytes);
                }
                to.write(bytes)
            })
        });
        let failed = match written {
            Ok(()) => {
                if let Ok(meta) = fs::stat(real) {
                    let hash = (size <= HASH_MAX).then_some(hash.0);
                    ctx.seen.note(real, &meta, size, hash);
                }
                return Ok(());
            }
            Err(failed) => failed,
        };
        let mut text = fs::os_text(&failed.error).into_bytes();
        if let Some(libc::ENOSPC | libc::EDQUOT) = failed.error.raw_os_error()
            && let Some(free) = fs::free_bytes(&self.path)
        {
            text.extend_from_slice(b"; ");
            push_count(&mut text, free, "byte");
            text.extend_from_slice(b" free on its filesystem");
        }
        text.extend_from_slice(match (&failed.kept, old) {
            (Some(_), _) => b"; THE FILE IS DAMAGED, its old content is in ",
            (_, Some(_)) => b"; the file is as it was",
            _ => b"; nothing was created",
        });
        text.extend_from_slice(&failed.kept.unwrap_or_default());
        Err(self.error(&text))
    }
}

/// Writes the new content of a file to its second argument; the first is the old content, if there is any. Called again
/// from the start when the first way of saving turns out impossible.
pub type Fill<'a> =
    dyn FnMut(Option<&mut File>, &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> + 'a;

/// The non-negative number `name`. Models write numbers as strings, too.
///
/// # Errors
/// For the model, when it is something else.
pub fn number(args: &Value, name: &str) -> Result<Option<u64>, Output> {
    let Some(value) = args.get(name) else {
        return Ok(None);
    };
    let number = match value.text() {
        Some(text) if text.raw().is_empty() => return Ok(None),
        Some(text) => decimal(text.raw(), 0),
        None => value.u64(),
    };
    match number {
        Some(n) => Ok(Some(n)),
        None => Err(Output::error(
            [name.as_bytes(), b" must be a whole number from 1"].concat(),
        )),
    }
}

/// The boolean `name`, false when absent; `"true"` counts too.
pub fn flag(args: &Value, name: &str) -> bool {
    args.get(name)
        .is_some_and(|v| v.bool() == Some(true) || v.text().is_some_and(|t| t.is("true")))
}

/// The text `name`. A value that is JSON itself (a model writing a JSON file) counts as its text.
pub fn text(args: &Value, name: &str) -> Option<Vec<u8>> {
    let value = args.get(name)?;
    Some(match (value.text(), value.kind()) {
        (Some(text), _) => text.bytes(),
        (None, Json::Object | Json::Array) => value.raw().to_vec(),
        _ => return None,
    })
}

/// `n` and a word, with an `s` unless it is one.
pub fn push_count(out: &mut Vec<u8>, n: u64, word: &str) {
    crate::text::push_dec(out, n);
    out.push(b' ');
    out.extend_from_slice(word.as_bytes());
    if n != 1 {
        out.push(b's');
    }
}
