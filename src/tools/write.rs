//! write: a file's whole content, old or new, never less.

use super::seen::Hash;
use super::target::{Target, push_count, text};
use super::{Class, Ctx, Level, Output, Tool};
use crate::json::Value;
use crate::sys::fs::{self, File};
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
        return Err(target.error(b"names a directory; give the file's name, too"));
    }
    let real = target.real()?;
    let mut made = usize::MAX;
    let old = match fs::stat(&real) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            made = fs::make_dirs(fs::parent(&real)).map_err(|e| target.failed(e))?;
            None
        }
        _ => {
            let meta = target.stat(false)?;
            target.check_fresh(ctx.seen, &real, &meta)?;
            Some(meta)
        }
    };
    let mut what: &[u8] = b", created)";
    let mut same = false;
    if let Some(meta) = &old {
        what = b", overwritten)";
        // Spares the flash, and the time of the last change.
        same = meta.size > 0 && meta.size == content.len() as u64 && holds(&real, &content);
        if same {
            what = b", unchanged)";
            let mut hash = Hash::new();
            hash.add(&content);
            ctx.seen.note(&real, meta, meta.size, Some(hash.0));
        }
    }
    if !same {
        let saved = target.save(ctx, &real, old.as_ref(), &mut |_, sink| sink(&content));
        if let Err(failed) = saved {
            fs::remove_dirs(fs::parent(&real), made);
            return Err(failed);
        }
    }
    let mut out = b"wrote ".to_vec();
    out.extend_from_slice(&target.shown);
    out.extend_from_slice(b" (");
    push_count(&mut out, content.len() as u64, "byte");
    out.extend_from_slice(what);
    Ok(Output::ok(out))
}

/// Whether the file holds exactly `content`, whose length it has.
fn holds(path: &[u8], content: &[u8]) -> bool {
    let mut rest = content;
    let done = File::open(path).and_then(|mut file| {
        file.each_chunk(&mut |chunk| match rest.strip_prefix(chunk) {
            Some(more) => {
                rest = more;
                Ok(())
            }
            None => Err(io::ErrorKind::InvalidData.into()),
        })
    });
    done.is_ok() && rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::scene::Scene;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn args(path: &str, content: &str) -> String {
        let mut w = crate::json::Writer::new();
        w.open(b'{').key("filePath").str(path);
        w.key("content").str(content).close(b'}');
        String::from_utf8(w.out).unwrap()
    }

    #[test]
    fn creates_with_parents_and_overwrites() {
        let mut scene = Scene::new();
        let got = scene.ok(&TOOL, &args("a/b/c.txt", "one\r\n\u{FEFF}é"));
        assert_eq!(got, "wrote a/b/c.txt (10 bytes, created)");
        assert_eq!(scene.get("a/b/c.txt"), "one\r\n\u{FEFF}é".as_bytes());
        let got = scene.ok(&TOOL, &args("./a/b/../b/c.txt", ""));
        assert_eq!(got, "wrote ./a/b/../b/c.txt (0 bytes, overwritten)");
        assert_eq!(scene.get("a/b/c.txt"), b"");
        let whole = scene.path("d").display().to_string();
        assert_eq!(
            scene.ok(&TOOL, &args(&whole, "x")),
            format!("wrote {whole} (1 byte, created)")
        );
        assert_eq!(scene.names(), ["a", "d"]);
    }

    #[test]
    fn a_new_file_has_the_usual_mode() {
        let mut scene = Scene::new();
        scene.put("usual", "");
        scene.ok(&TOOL, &args("new", "x"));
        let mode = |name| scene.path(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode("new"), mode("usual"));
    }

    #[test]
    fn the_same_content_is_not_written_again() {
        let mut scene = Scene::new();
        let path = scene.put("f", "same");
        let before = fs::stat(path.to_str().unwrap().as_bytes()).unwrap();
        assert_eq!(
            scene.ok(&TOOL, &args("f", "same")),
            "wrote f (4 bytes, unchanged)"
        );
        let after = fs::stat(path.to_str().unwrap().as_bytes()).unwrap();
        assert_eq!(before, after);
    }

    #[test]
    fn json_given_as_json_is_written_as_text() {
        let mut scene = Scene::new();
        scene.ok(&TOOL, r#"{"filePath":"f","content":{"a": [1]}}"#);
        assert_eq!(scene.get("f"), br#"{"a": [1]}"#);
        let got = scene.error(&TOOL, r#"{"filePath":"f","content":5}"#);
        assert_eq!(got, "content must be a string");
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let mut scene = Scene::new();
        std::fs::create_dir(scene.path("dir")).unwrap();
        scene.put("file", "x");
        symlink("loop", scene.path("loop")).unwrap();
        for (path, want) in [
            ("dir", "dir: is a directory"),
            ("dir/", "dir/: names a directory; give the file's name, too"),
            ("new/", "new/: names a directory; give the file's name, too"),
            ("/dev/null", "/dev/null: is a device, not a file"),
            ("file/x", "file/x: Not a directory"),
            ("loop", "loop: Too many levels of symbolic links"),
        ] {
            let got = scene.error(&TOOL, &args(path, "y"));
            let got = got.replace("Symbolic link loop", "Too many levels of symbolic links");
            assert_eq!(got, want);
        }
        assert_eq!(scene.names(), ["dir", "file", "loop"]);
    }

    #[test]
    fn a_link_that_leads_nowhere_makes_its_target() {
        let mut scene = Scene::new();
        symlink("sub/target", scene.path("link")).unwrap();
        scene.ok(&TOOL, &args("link", "x"));
        assert!(scene.path("link").is_symlink());
        assert_eq!(scene.get("sub/target"), b"x");
    }

    #[test]
    fn a_change_by_somebody_else_is_not_overwritten() {
        let mut scene = Scene::new();
        let read = &crate::tools::read::TOOL;
        // Never seen: nothing to compare with.
        scene.put("f", "theirs");
        scene.ok(&TOOL, &args("f", "one"));
        // Our own writes are no surprise, under any name.
        symlink("f", scene.path("link")).unwrap();
        scene.ok(&TOOL, &args("link", "two"));
        scene.ok(&TOOL, &args("f", "three"));
        // The same size, the same time.
        let time = scene.path("f").metadata().unwrap().modified().unwrap();
        let path = scene.put("f", "THREE");
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(time).unwrap();
        let got = scene.error(&TOOL, &args("f", "four"));
        assert_eq!(
            got,
            "f: changed on disk since you last saw it; nothing was written. Read it again first"
        );
        assert_eq!(scene.get("f"), b"THREE");
        scene.ok(read, r#"{"filePath":"f"}"#);
        scene.ok(&TOOL, &args("f", "four"));
        // Another time, the same content: no change.
        scene.put("f", "four");
        scene.ok(&TOOL, &args("f", "five"));
        // Gone: nothing is lost by making it anew.
        std::fs::remove_file(scene.path("f")).unwrap();
        scene.ok(&TOOL, &args("f", "six"));
    }

    #[test]
    fn a_setting_of_the_kernel_can_be_written_again_and_again() {
        let mut scene = Scene::new();
        for name in ["first", "other", "other", "a third"] {
            scene.ok(&TOOL, &args("/proc/thread-self/comm", name));
            let got = scene.ok(
                &crate::tools::read::TOOL,
                r#"{"filePath":"/proc/thread-self/comm"}"#,
            );
            assert_eq!(got, format!("1: {name}"));
        }
    }

    #[test]
    fn large_files_changed_or_only_touched() {
        let mut scene = Scene::new();
        let mut text = "line\n".repeat(400_000);
        scene.put("f", &text);
        scene.ok(&crate::tools::read::TOOL, r#"{"filePath":"f","limit":1}"#);
        scene.put("f", &text);
        scene.ok(&TOOL, &args("f", &text));
        text.replace_range(0..1, "X");
        scene.put("f", &text);
        let got = scene.error(&TOOL, &args("f", "y"));
        assert!(got.starts_with("f: changed on disk"), "{got}");
    }

    #[test]
    fn a_full_disk_loses_nothing() {
        use fs::{Op, fault};
        let plan = fault::Plan {
            at: 1,
            only: Some(Op::Write),
            errno: libc::ENOSPC,
            forever: false,
        };
        let mut scene = Scene::new();
        scene.put("f", "old");
        let (got, failed) = fault::during(plan, || scene.error(&TOOL, &args("f", "new content")));
        assert!(failed);
        assert!(got.starts_with("f: No space left on device; "), "{got}");
        assert!(
            got.ends_with(" bytes free on its filesystem; the file is as it was"),
            "{got}"
        );
        let (got, _) = fault::during(plan, || scene.error(&TOOL, &args("a/b/new", "x")));
        assert!(got.ends_with("; nothing was created"), "{got}");
        assert_eq!(scene.get("f"), b"old");
        assert_eq!(scene.names(), ["f"]);
    }

    #[test]
    fn a_disk_that_is_really_full() {
        let mut scene = Scene::new();
        let disk = scene.path("disk");
        std::fs::create_dir(&disk).unwrap();
        crate::sys::signal::install();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k", "none"])
            .arg(&disk)
            .status();
        // Only root may; the test before this one covers the rest.
        if !mounted.is_ok_and(|s| s.success()) {
            return;
        }
        scene.put("disk/f", vec![b'x'; 40_000]);
        let results = [
            scene.run(&TOOL, &args("disk/f", &"y".repeat(50_000))),
            scene.run(&TOOL, &args("disk/g", &"y".repeat(50_000))),
        ];
        let content = scene.get("disk/f");
        let names = std::fs::read_dir(&disk).unwrap().count();
        let ended = std::process::Command::new("umount").arg(&disk).status();
        assert!(ended.unwrap().success());
        for result in results {
            let text = String::from_utf8(result.text).unwrap();
            assert!(
                !result.ok && text.contains("No space left on device; "),
                "{text}"
            );
            assert!(text.contains(" bytes free on its filesystem"), "{text}");
        }
        assert!(content == vec![b'x'; 40_000]);
        assert_eq!(names, 1);
    }
}
