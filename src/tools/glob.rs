//! The glob tool: paths by pattern.

use super::found::{Found, SHOWN, push_path, root};
use super::globset::{Glob, SPECIAL};
use super::target::text;
use super::walk::Walk;
use super::{Class, Ctx, Level, Output, Tool};
use crate::json::Value;
use crate::sys::fs::{self, Kind};
use memchr::{memmem, memrchr};

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

/// Bytes of a path's time before it.
const KEY: usize = 12;

fn run(ctx: &mut Ctx, args: &Value) -> Output {
    glob(ctx, args).unwrap_or_else(|refused| refused)
}

fn glob(ctx: &mut Ctx, args: &Value) -> Result<Output, Output> {
    let text = text(args, "pattern").unwrap_or_default();
    let pattern = text.strip_prefix(b"./").unwrap_or(&text);
    // `name/` is directories only.
    let only_dirs = pattern.ends_with(b"/");
    let pattern = pattern.strip_suffix(b"/").unwrap_or(pattern);
    if pattern.is_empty() {
        return Err(Output::error("pattern is empty"));
    }
    // The part without wildcards is where to start.
    let plain = pattern.split(|b| SPECIAL.contains(b)).next();
    let cut = memrchr(b'/', plain.unwrap_or_default()).map_or(0, |i| i + 1);
    let (start, rest) = pattern.split_at(cut);
    let mut matcher = Glob::new("pattern", rest)?;
    let target = root(args, ctx.cwd)?;
    if start.first() != Some(&b'/') && target.stat(true)?.kind != Kind::Dir {
        return Err(target.error("is not a directory"));
    }
    let newest = args.get("sort").is_some_and(|v| v.raw() == b"\"newest\"");
    let only_files = rest.ends_with(b"**");

    let mut walk = Walk::new(&fs::join(&target.path, start));
    walk.depth = matcher.depth;
    walk.git = memmem::find(rest, b".git").is_some();
    let mut found = Found::new(ctx.output_limit);
    let mut list: Vec<Vec<u8>> = Vec::new();
    while let Some(kind) = walk.advance() {
        let dir = kind == Kind::Dir;
        if (if dir { only_files } else { only_dirs }) || !matcher.matches(walk.relative()) {
            continue;
        }
        found.total += 1;
        found.full = !newest && list.len() >= SHOWN;
        if found.stop() {
            break;
        }
        if found.full {
            continue;
        }
        // The key sorts by time, newest first, then by name.
        let (mut s, mut ns) = (0, 0);
        if newest && let Ok(meta) = fs::lstat(&walk.path) {
            (s, ns) = meta.mtime;
        }
        let s = (i64::MAX.wrapping_sub(s) as u64).to_be_bytes();
        let ns = (!ns as u32).to_be_bytes();
        let slash: &[u8] = if dir { b"/" } else { b"" };
        list.push([&s, &ns[..], &walk.path, slash].concat());
        if newest && list.len() >= 8 * SHOWN {
            list.sort_unstable();
            list.truncate(SHOWN);
        }
    }
    if newest {
        list.sort_unstable();
    }
    found.full = false;
    for key in &list {
        if found.full {
            break;
        }
        let before = found.out.len();
        push_path(&mut found.out, key.get(KEY..).unwrap_or_default(), ctx.cwd);
        found.end_line(before, true);
    }
    Ok(found.finish("more path", &[(walk.unreadable, "unreadable path")]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::scene::Scene;
    use std::os::unix::ffi::OsStringExt;
    use std::time::{Duration, SystemTime};

    fn scene() -> Scene {
        let scene = Scene::new();
        for dir in ["src/sub", "tests", ".git", "empty"] {
            std::fs::create_dir_all(scene.path(dir)).unwrap();
        }
        for file in [
            "src/a.rs",
            "src/sub/b.rs",
            "src/sub/c.c",
            "tests/a.rs",
            ".git/HEAD",
            ".profile",
            "x.rs",
        ] {
            scene.put(file, "");
        }
        std::os::unix::fs::symlink("src", scene.path("link")).unwrap();
        scene
    }

    #[test]
    fn results() {
        let mut scene = scene();
        for (args, want) in [
            (r#""**/*.rs""#, "src/a.rs\nsrc/sub/b.rs\ntests/a.rs\nx.rs\n"),
            (
                r#""*""#,
                ".git/\n.profile\nempty/\nlink\nsrc/\ntests/\nx.rs\n",
            ),
            (r#""./*/""#, ".git/\nempty/\nsrc/\ntests/\n"),
            (r#""src/**""#, "src/a.rs\nsrc/sub/b.rs\nsrc/sub/c.c\n"),
            (r#""**/sub""#, "src/sub/\n"),
            (r#""{src,tests}/*.rs""#, "src/a.rs\ntests/a.rs\n"),
            (r#""*.rs","path":"src""#, "src/a.rs\n"),
            (r#""*.rs","path":"./src/""#, "src/a.rs\n"),
            (r#""*.rs","path":".""#, "x.rs\n"),
            (r#""*.rs","path":"src/.././src""#, "src/.././src/a.rs\n"),
            (r#""*.rs","path":"link""#, "link/a.rs\n"),
            (r#""../*/x.rs","path":"src""#, "(no matches)"),
            (r#""sub/*.c","path":"src""#, "src/sub/c.c\n"),
            (r#""src/a.rs""#, "src/a.rs\n"),
            (r#""**/HEAD""#, "(no matches)"),
            (r#"".git/*""#, ".git/HEAD\n"),
            (r#""**/.git/*""#, ".git/HEAD\n"),
            (r#""nowhere/*""#, "(no matches)"),
            (r#""empty/**""#, "(no matches)"),
            (
                r#""/proc/[1]/stat{m,us}""#,
                "/proc/1/statm\n/proc/1/status\n",
            ),
        ] {
            assert_eq!(
                scene.ok(&TOOL, &format!(r#"{{"pattern":{args}}}"#)),
                want,
                "{args}"
            );
        }
        let dir = scene.dir.to_str().unwrap().to_string();
        let absolute = format!(r#"{{"pattern":"{dir}/src/*.rs","path":"nowhere"}}"#);
        assert_eq!(scene.ok(&TOOL, &absolute), "src/a.rs\n");
        for (args, want) in [
            (
                r#""*","path":"nowhere""#,
                "nowhere: No such file or directory",
            ),
            (r#""*","path":"x.rs""#, "x.rs: is not a directory"),
            (r#""a{b""#, "pattern: unbalanced {"),
            (r#""""#, "pattern is empty"),
            (r#""/""#, "pattern is empty"),
        ] {
            assert_eq!(
                scene.error(&TOOL, &format!(r#"{{"pattern":{args}}}"#)),
                want,
                "{args}"
            );
        }
    }

    #[test]
    fn names_that_are_not_text_take_a_line_each() {
        let mut scene = Scene::new();
        for name in [&b"a\nb"[..], b"c\xFF", b"d\x1b[m", "ü".as_bytes()] {
            let name = std::ffi::OsString::from_vec(name.to_vec());
            std::fs::write(scene.dir.join(name), "").unwrap();
        }
        assert_eq!(
            scene.ok(&TOOL, r#"{"pattern":"?*"}"#),
            "a\\nb\nc\u{FFFD}\nd\x1b[m\nü\n"
        );
    }

    #[test]
    fn newest_first() {
        let mut scene = Scene::new();
        let day = |n: i64| match u64::try_from(n) {
            Ok(n) => SystemTime::UNIX_EPOCH + Duration::from_millis(n),
            Err(_) => SystemTime::UNIX_EPOCH - Duration::from_millis(n.unsigned_abs()),
        };
        for (name, time) in [
            ("a", 5000),
            ("b", 7001),
            ("c", 7000),
            ("d", -1000),
            ("e", 0),
            ("f", 5000),
        ] {
            let path = scene.put(name, "");
            std::fs::File::open(path)
                .unwrap()
                .set_modified(day(time))
                .unwrap();
        }
        let args = r#"{"pattern":"*","sort":"newest"}"#;
        assert_eq!(scene.ok(&TOOL, args), "b\nc\na\nf\ne\nd\n");
        for i in 0..1000 {
            let path = scene.put(&format!("g{i}"), "");
            std::fs::File::open(path)
                .unwrap()
                .set_modified(day(-2000 - i))
                .unwrap();
        }
        let text = scene.ok(&TOOL, args);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[5], lines[99]), ("d", "g93"));
        assert_eq!(lines[100..], ["[906 more paths]"]);
    }

    #[test]
    fn a_hundred_and_no_more_than_fits() {
        let mut scene = Scene::new();
        for i in 0..100 {
            scene.put(&format!("{i:03}"), "");
        }
        let args = r#"{"pattern":"*"}"#;
        assert_eq!(scene.ok(&TOOL, args).lines().count(), 100);
        scene.put("100", "");
        let text = scene.ok(&TOOL, args);
        assert!(text.ends_with("\n099\n[1 more path]"), "{text}");
        scene.output_limit = 200;
        let text = scene.ok(&TOOL, args);
        assert!(text.ends_with("\n009\n[91 more paths]"), "{text}");
        scene.output_limit = 0;
        assert_eq!(scene.ok(&TOOL, args), "\n[101 more paths]");
    }
}
