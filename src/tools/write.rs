//! write: a file's whole content, old or new, never less.

use super::seen::Hash;
use super::target::{STALE, Target, push_count, replace_error, text};
use super::{Class, Ctx, Level, Output, Tool};
use crate::json::Value;
use crate::sys::fs::{self, File};
use crate::sys::replace::replace;
use std::io;

/// The tool.
pub static TOOL: Tool = Tool {
    name: "write",
    description: "Create or overwrite a file, with its directories.",
    properties: r#"{"filePath":{"type":"string"},"content":{"type":"string"}}"#,
    required: &["filePath", "content"],
    class: Class::WritesPath,
    level: Level::Allow,
    writes: Some("filePath"),
    label: "filePath",
    run: Some(run),
};

fn run(ctx: &mut Ctx, args: &Value) -> Output {
    write(ctx, args).unwrap_or_else(|refused| refused)
}

fn write(ctx: &mut Ctx, args: &Value) -> Result<Output, Output> {
    let target = Target::new(args, "filePath", ctx.cwd)?;
    let Some(content) = text(args, "content") else {
        return Err(Output::error("content must be a string"));
    };
    if target.path.ends_with(b"/") {
        return Err(target.error("names a directory; give the file's name, too"));
    }
    let real = fs::resolve(&target.path).map_err(|e| target.os_error(&e))?;
    let old = match fs::stat(&real) {
        Ok(_) => Some(target.stat(false)?),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(target.os_error(&e)),
    };
    let mut made = Vec::new();
    match &old {
        Some(old) => {
            let stale = ctx.seen.is_stale(&real, old, &mut || {
                File::open(&real).and_then(|mut f| Hash::of_file(&mut f))
            });
            if stale.map_err(|e| target.os_error(&e))? {
                return Err(target.error(STALE));
            }
            // Spares the flash, and the time of the last change.
            if old.size > 0
                && old.size == content.len() as u64
                && holds(&real, &content).unwrap_or(false)
            {
                ctx.seen.note(&real, old, old.size, Some(hash_of(&content)));
                return Ok(done(&target, content.len(), "unchanged"));
            }
        }
        None => {
            let dir = fs::parent(&real);
            made = fs::make_dirs(dir).map_err(|e| {
                let text = ["can't make its directory: ", &fs::os_text(&e)].concat();
                target.error(text)
            })?;
        }
    }
    let result = replace(&real, old.as_ref(), ctx.scratch, &mut |_, out| {
        out.write(&content)
    });
    match result {
        Err(failed) => {
            fs::remove_dirs(&made);
            Err(replace_error(&target, &failed, old.is_some()))
        }
        Ok(meta) => {
            let size = content.len() as u64;
            ctx.seen.note(&real, &meta, size, Some(hash_of(&content)));
            let what = if old.is_some() {
                "overwritten"
            } else {
                "created"
            };
            Ok(done(&target, content.len(), what))
        }
    }
}

fn hash_of(content: &[u8]) -> u64 {
    let mut hash = Hash::new();
    hash.add(content);
    hash.finish()
}

/// Whether the file holds exactly `content`, whose length it has.
fn holds(path: &[u8], mut content: &[u8]) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let mut buf = vec![0; 32 * 1024];
    loop {
        let n = file.read(&mut buf)?;
        if n == 0 {
            return Ok(content.is_empty());
        }
        match content.strip_prefix(buf.get(..n).unwrap_or_default()) {
            Some(rest) => content = rest,
            None => return Ok(false),
        }
    }
}

fn done(target: &Target, size: usize, what: &str) -> Output {
    let mut out = b"wrote ".to_vec();
    out.extend_from_slice(&target.shown);
    out.extend_from_slice(b" (");
    push_count(&mut out, size as u64, "byte");
    out.extend_from_slice(b", ");
    out.extend_from_slice(what.as_bytes());
    out.push(b')');
    Output::ok(out)
}
