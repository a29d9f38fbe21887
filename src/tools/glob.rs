//! The glob tool: paths by pattern.

use super::found::{Found, SHOWN, push_path, root};
use super::globset::{Glob, SPECIAL};
use super::walk::Walk;
use super::{Class, Ctx, Level, Output, Tool};
use crate::json::Value;
use crate::sys::fs::{self, Kind};

/// The table's row.
pub static TOOL: Tool = Tool {
    name: "glob",
    description: "Find files by pattern: * ? [a-z] {a,b}, and ** for any depth. At most 100.",
    properties: r#"{"pattern":{"type":"string"},"path":{"type":"string","description":"default: the working directory"},"sort":{"type":"string","enum":["name","newest"]}}"#,
    required: &["pattern"],
    class: Class::ReadOnly,
    level: Level::Allow,
    writes: None,
    label: "pattern",
    run: Some(run),
};

fn run(ctx: &mut Ctx, args: &Value) -> Output {
    glob(ctx, args).unwrap_or_else(|refused| refused)
}

fn glob(ctx: &mut Ctx, args: &Value) -> Result<Output, Output> {
    let text = args.get_string("pattern").unwrap_or_default();
    let pattern = text.strip_prefix("./").unwrap_or(&text);
    // `name/` is directories only.
    let (pattern, only_dirs) = match pattern.strip_suffix('/') {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    if pattern.is_empty() {
        return Err(Output::error("pattern is empty"));
    }
    // The part without wildcards is where to start.
    let plain = pattern.bytes().position(|b| SPECIAL.contains(&b));
    let plain = pattern.as_bytes().get(..plain.unwrap_or(pattern.len()));
    let cut = memchr::memrchr(b'/', plain.unwrap_or_default()).map_or(0, |i| i + 1);
    let (start, rest) = pattern.split_at(cut);
    let mut matcher = Glob::new(rest).map_err(|e| Output::error(["pattern: ", &e].concat()))?;
    let target = root(args, ctx.cwd)?;
    if !start.starts_with('/') && target.stat(true)?.kind != Kind::Dir {
        return Err(target.error("is not a directory"));
    }
    let newest = args.get_string("sort").as_deref() == Some("newest");
    let only_files = rest.ends_with("**");

    let mut walk = Walk::new(&fs::join(&target.path, start.as_bytes()));
    walk.depth = matcher.depth;
    walk.git = rest.contains(".git");
    let mut found = Found::new(ctx.output_limit);
    let mut newest_first: Vec<Vec<u8>> = Vec::new();
    while let Some(kind) = walk.next() {
        let dir = kind == Kind::Dir;
        if (if dir { only_files } else { only_dirs }) || !matcher.matches(walk.relative()) {
            continue;
        }
        found.total += 1;
        if newest {
            // The key sorts by time, newest first, then by name.
            let (s, ns) = fs::lstat(&walk.path).map_or((0, 0), |m| m.mtime);
            let mut key = (i64::MAX.wrapping_sub(s) as u64).to_be_bytes().to_vec();
            key.extend_from_slice(&(!ns as u32).to_be_bytes());
            key.extend_from_slice(&walk.path);
            if dir {
                key.push(b'/');
            }
            newest_first.push(key);
            if newest_first.len() as u64 >= 8 * SHOWN {
                newest_first.sort_unstable();
                newest_first.truncate(SHOWN as usize);
            }
            continue;
        }
        show(&mut found, &walk.path, ctx.cwd, dir);
        if found.stop() {
            break;
        }
    }
    newest_first.sort_unstable();
    for key in &newest_first {
        show(
            &mut found,
            key.get(12..).unwrap_or_default(),
            ctx.cwd,
            false,
        );
    }
    found.stop();
    Ok(found.finish("more path", &[(walk.unreadable, "unreadable path")]))
}

fn show(found: &mut Found, path: &[u8], cwd: &[u8], dir: bool) {
    if found.full {
        return;
    }
    let before = found.out.len();
    push_path(&mut found.out, path, cwd);
    if dir {
        found.out.push(b'/');
    }
    if found.end_line(before) {
        found.show();
    }
}
