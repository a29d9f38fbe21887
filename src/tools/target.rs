//! What the file tools share: arguments to paths, refusals of what is no file, error texts with a remedy.

use super::Output;
use crate::json::{Kind as Json, Value, value::decimal};
use crate::sys::fs::{self, Kind, Meta};
use crate::text::{nearest, push_utf8_lossy};
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
        if let Some(rest) = shown.strip_prefix(b"~/")
            && fs::lstat(&fs::join(cwd, b"~")).is_err()
        {
            let home = fs::env(b"HOME").unwrap_or_else(|| b"/root".to_vec());
            let text = [b"~ is not expanded here; use ", &*fs::join(&home, rest)];
            return Err(Output::error(text.concat()));
        }
        Ok(Target { shown, path })
    }

    /// `PATH: text`, as an error.
    pub fn error(&self, text: impl AsRef<[u8]>) -> Output {
        let mut out = b"error: ".to_vec();
        push_utf8_lossy(&mut out, &self.shown);
        out.extend_from_slice(b": ");
        push_utf8_lossy(&mut out, text.as_ref());
        Output {
            ok: false,
            text: out,
        }
    }

    /// A system error about this path. For a missing file it says what is there instead.
    pub fn os_error(&self, error: &io::Error) -> Output {
        let mut text = fs::os_text(error).into_bytes();
        if error.kind() == io::ErrorKind::NotFound {
            self.push_nearest(&mut text);
        }
        self.error(text)
    }

    /// The state of the file; an error unless it is a regular file, or a directory when `dir_too`.
    ///
    /// # Errors
    /// For the model.
    pub fn stat(&self, dir_too: bool) -> Result<Meta, Output> {
        let meta = fs::stat(&self.path).map_err(|e| self.os_error(&e))?;
        let what = match meta.kind {
            Kind::Dir if !dir_too => "is a directory",
            Kind::File | Kind::Dir | Kind::Link => return Ok(meta),
            Kind::Fifo => "is a named pipe, not a file",
            Kind::Socket => "is a socket, not a file",
            Kind::Device => "is a device, not a file",
        };
        Err(self.error(what))
    }

    /// Names the nearest entry of the directory, or the first directory on the way that isn't there.
    fn push_nearest(&self, text: &mut Vec<u8>) {
        let mut dir = fs::parent(&self.path);
        let mut word = self.path.get(dir.len()..).unwrap_or_default();
        let mut missing = None;
        while fs::stat(dir).is_err() && dir.len() > 1 {
            missing = Some(dir);
            let up = fs::parent(dir);
            word = dir.get(up.len()..).unwrap_or_default();
            dir = up;
        }
        if let Some(missing) = missing {
            text.extend_from_slice(b"; there is no directory ");
            text.extend_from_slice(missing);
        }
        let word = word.strip_prefix(b"/").unwrap_or(word);
        let (Ok(word), Ok(entries)) = (std::str::from_utf8(word), std::fs::read_dir(fs::path(dir)))
        else {
            return;
        };
        let mut best: Option<String> = None;
        for entry in entries.flatten().take(10_000) {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let candidates = [best.as_deref(), Some(&name)];
            if nearest(word, candidates.into_iter().flatten()) == Some(name.as_str()) {
                best = Some(name);
            }
        }
        if let Some(best) = best {
            text.extend_from_slice(b"; did you mean ");
            text.extend_from_slice(&fs::join(dir, best.as_bytes()));
            text.push(b'?');
        }
    }
}

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

/// The advice for a write or edit of a file that changed since the model saw it.
pub const STALE: &str =
    "changed on disk since you last saw it; nothing was written. Read it again first";

/// What a failed replacement of a file that `existed` means for the model: the system's text, the room on a full
/// filesystem, and where the old content is if it could not be put back.
pub fn replace_error(
    target: &Target,
    failed: &crate::sys::replace::Failed,
    existed: bool,
) -> Output {
    let mut text = fs::os_text(&failed.error).into_bytes();
    if matches!(
        failed.error.raw_os_error(),
        Some(libc::ENOSPC | libc::EDQUOT)
    ) && let Some(free) = fs::free_bytes(&target.path)
    {
        text.extend_from_slice(b"; ");
        push_count(&mut text, free, "byte");
        text.extend_from_slice(b" free on its filesystem");
    }
    match &failed.kept {
        None if existed => text.extend_from_slice(b"; the file is as it was"),
        None => text.extend_from_slice(b"; nothing was created"),
        Some(kept) => {
            text.extend_from_slice(b"; THE FILE IS DAMAGED, its old content is in ");
            text.extend_from_slice(kept);
        }
    }
    target.error(text)
}
