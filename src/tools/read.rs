//! read: a window of a file as numbered lines, or a directory's entries. Streams: any size costs the same memory.

use super::target::{Target, number, push_count};
use super::window::{LINE_KEPT, NOTES, Notes, Window, feed};
use super::{Class, Ctx, Level, Output, Tool};
use crate::json::Value;
use crate::sys::dir;
use crate::sys::fs::{File, Kind};
use crate::text::{push_dec, push_utf8_lossy};

/// The tool.
pub static TOOL: Tool = Tool {
    name: "read",
    description: "Read a file as numbered lines (N: text), or list a directory.",
    properties: r#"{"filePath":{"type":"string"},"offset":{"type":"integer","description":"first line, from 1"},"limit":{"type":"integer","description":"number of lines"}}"#,
    required: &["filePath"],
    class: Class::ReadOnly,
    level: Level::Allow,
    writes: None,
    label: "filePath",
    run: Some(run),
};

/// Lines shown unless `limit` says otherwise.
const LINES: u32 = 2000;
/// Bytes shown when `limit` is given.
const BYTES_ASKED: usize = 64 * 1024;
/// Entries of a directory shown.
const ENTRIES: usize = 1000;

fn run(ctx: &mut Ctx, args: &Value) -> Output {
    read(ctx, args).unwrap_or_else(|refused| refused)
}

fn read(ctx: &mut Ctx, args: &Value) -> Result<Output, Output> {
    let target = Target::new(args, "filePath", ctx.cwd)?;
    let offset = small(args, "offset")?.unwrap_or(1).max(1);
    let limit = small(args, "limit")?.filter(|&n| n > 0);
    // Asked before opening: opening a device may already do something.
    let meta = target.stat(true)?;
    if meta.kind == Kind::Dir {
        return list(&target, ctx.output_limit);
    }
    let budget = match limit {
        Some(_) => ctx.output_limit.max(BYTES_ASKED),
        None => ctx.output_limit,
    };
    let end = offset.saturating_add(limit.unwrap_or(LINES));
    let mut window = Window::new(offset, end, budget);
    File::open(&target.path)
        .and_then(|mut file| feed(&mut file, LINE_KEPT, &mut window))
        .map_err(|e| target.failed(e))?;
    if window.binary {
        let mut text = b"is a binary file, ".to_vec();
        push_count(&mut text, meta.size.max(window.bytes), "byte");
        return Err(target.error(&text));
    }
    let size = match window.complete {
        true => window.bytes,
        false => meta.size,
    };
    ctx.seen.note(&target.path, &meta, size, window.hash());
    window.finish(&target)
}

/// A line number or a count of lines.
fn small(args: &Value, name: &str) -> Result<Option<u32>, Output> {
    let n = number(args, name)?;
    Ok(n.map(|n| u32::try_from(n).unwrap_or(u32::MAX)))
}

/// The entries of a directory: sorted, directories with a slash, links with an @.
fn list(target: &Target, limit: usize) -> Result<Output, Output> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut total: u64 = 0;
    let shrink = |names: &mut Vec<Vec<u8>>| {
        names.sort_unstable();
        names.truncate(ENTRIES);
    };
    dir::each(&target.path, &mut |name, kind| {
        let mut name = name.to_vec();
        match kind {
            Kind::Dir => name.push(b'/'),
            Kind::Link => name.push(b'@'),
            _ => {}
        }
        total += 1;
        names.push(name);
        // Of a huge directory only the first names are kept.
        if names.len() >= 4 * ENTRIES {
            shrink(&mut names);
        }
    })
    .map_err(|e| target.failed(e))?;
    if total == 0 {
        return Ok(Output::ok(&b"(empty directory)"[..]));
    }
    shrink(&mut names);
    let mut out = Vec::new();
    let mut shown: u64 = 0;
    for name in &names {
        let before = out.len();
        push_utf8_lossy(&mut out, name);
        out.push(b'\n');
        if out.len() + NOTES > limit && shown > 0 {
            out.truncate(before);
            break;
        }
        shown += 1;
    }
    let mut notes = Notes { out };
    let n = notes.start("directory, ");
    if shown < total {
        n.extend_from_slice(b"the first ");
        push_dec(n, shown);
        n.extend_from_slice(b" of ");
    }
    push_dec(n, total);
    n.extend_from_slice(if total == 1 { b" entry]" } else { b" entries]" });
    Ok(Output::ok(notes.out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{fs, signal, time};
    use crate::tools::scene::Scene;
    use std::os::unix::fs::symlink;

    fn read(content: impl AsRef<[u8]>, more: &str) -> String {
        let mut scene = Scene::new();
        scene.put("f", content);
        scene.ok(&TOOL, &format!(r#"{{"filePath":"f"{more}}}"#))
    }

    #[test]
    fn a_small_file_is_numbered_lines_and_nothing_else() {
        for (content, want) in [
            ("one\n\n  two\t\n", "1: one\n2: \n3:   two\t"),
            ("no end", "1: no end"),
            ("a\nb", "1: a\n2: b"),
            ("\n", "1: "),
            ("", "(empty file)"),
            ("ümläut €\n", "1: ümläut €"),
            ("a\rb\n", "1: a\rb"),
        ] {
            assert_eq!(read(content, ""), want, "{content:?}");
        }
    }

    #[test]
    fn windows() {
        let five = "a\nb\nc\nd\ne\n";
        for (more, want) in [
            (
                r#","offset":2,"limit":2"#,
                "2: b\n3: c\n[lines 2-3 of 5; go on with offset 4]",
            ),
            (r#","offset":4"#, "4: d\n5: e\n[lines 4-5 of 5]"),
            (r#","limit":5"#, "1: a\n2: b\n3: c\n4: d\n5: e"),
            (
                r#","offset":0,"limit":1"#,
                "1: a\n[lines 1-1 of 5; go on with offset 2]",
            ),
            (r#","offset":"5","limit":"9""#, "5: e\n[lines 5-5 of 5]"),
            (
                r#","offset":5,"limit":18446744073709551615"#,
                "5: e\n[lines 5-5 of 5]",
            ),
        ] {
            assert_eq!(read(five, more), want, "{more}");
        }
        let mut scene = Scene::new();
        scene.put("f", "a\nb");
        for (offset, want) in [
            ("3", "f: has only 2 lines"),
            ("18446744073709551615", "f: has only 2 lines"),
            ("-1", "offset must be a whole number from 1"),
            ("[]", "offset must be a whole number from 1"),
        ] {
            let args = format!(r#"{{"filePath":"f","offset":{offset}}}"#);
            assert_eq!(scene.error(&TOOL, &args), want);
        }
    }

    #[test]
    fn windows_deep_in_a_file_of_many_chunks() {
        let text: String = (1..=60_000).map(|i| format!("line {i}\n")).collect();
        for at in [1, 7000, 7001, 33_333, 59_999, 60_000] {
            let got = read(&text, &format!(r#","offset":{at},"limit":1"#));
            let first = got.lines().next().unwrap();
            assert_eq!(first, format!("{at}: line {at}"));
            assert!(got.contains(&format!("[lines {at}-{at} of 60000")), "{got}");
        }
        let unfinished = read(text.trim_end(), r#","offset":60000"#);
        assert_eq!(
            unfinished,
            "60000: line 60000\n[lines 60000-60000 of 60000]"
        );
    }

    #[test]
    fn the_limits_say_so_when_they_bite() {
        let short = "x\n".repeat(3000);
        let got = read(&short, "");
        assert!(got.ends_with("2000: x\n[lines 1-2000 of 3000; go on with offset 2001]"));
        let wide = format!("{}\n", "y".repeat(99)).repeat(1000);
        let got = read(&wide, "");
        assert!(got.len() <= 16_000 && got.len() > 15_500, "{}", got.len());
        assert!(got.contains(" of 1000, cut at 16000 bytes; go on with offset 1"));
        let got = read(&wide, r#","limit":1000"#);
        assert!(got.len() <= 65_536 && got.len() > 65_000, "{}", got.len());
        assert!(got.contains("cut at 65536 bytes"));
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        let got = read(format!("{}\nb\n", "é".repeat(5000)), "");
        let want = format!(
            "1: {} [+8000 bytes]\n2: b\n[lines over 2000 bytes are cut: [+N bytes]]",
            "é".repeat(1000)
        );
        assert_eq!(got, want);
        let got = read(format!("x{}\n", "é".repeat(5000)), "");
        assert!(got.starts_with(&format!("1: x{} [+8002 bytes]", "é".repeat(999))));
        // Just not too long, with either line end.
        for end in ["\n", "\r\n", ""] {
            let got = read(format!("{}{end}", "x".repeat(2000)), "");
            assert!(!got.contains("+"), "{end:?}: {got}");
        }
        // A line over several chunks.
        let got = read(format!("{}\nend", "x".repeat(200_000)), "");
        assert!(got.contains("[+198000 bytes]\n2: end"), "{got}");
    }

    #[test]
    fn line_ends_and_encodings_are_told() {
        for (content, want) in [
            (&b"a\r\nb\r\n"[..], "1: a\n2: b\n[lines end in CRLF]"),
            (
                b"a\r\nb\nc",
                "1: a\n2: b\n3: c\n[some of these lines end in CRLF, some in LF]",
            ),
            (
                b"\xEF\xBB\xBFa\n",
                "1: a\n[starts with a UTF-8 byte order mark]",
            ),
            (
                b"caf\xE9\n",
                "1: caf\u{FFFD}\n[not UTF-8: other bytes are shown as \u{FFFD}]",
            ),
            (b"init\0-x\0", "1: init␀-x␀\n[NUL bytes are shown as ␀]"),
        ] {
            assert_eq!(read(content, ""), want, "{content:?}");
        }
    }

    #[test]
    fn binary_is_said_with_its_size() {
        let mut scene = Scene::new();
        scene.put("f", b"\x7FELF\x02\x01\x01\0\0\0");
        scene.put("h", b"\xFF\xFEa\0\r\0\n\0");
        let h = scene.error(&TOOL, r#"{"filePath":"h"}"#);
        assert_eq!(h, "h: is a binary file, 8 bytes");
        scene.put("g", [b"text\n".repeat(1000), vec![0; 5000]].concat());
        let f = scene.error(&TOOL, r#"{"filePath":"f"}"#);
        assert_eq!(f, "f: is a binary file, 10 bytes");
        let g = scene.error(&TOOL, r#"{"filePath":"g"}"#);
        assert_eq!(g, "g: is a binary file, 10000 bytes");
    }

    #[test]
    fn files_of_the_kernel() {
        let mut scene = Scene::new();
        let status = scene.ok(&TOOL, r#"{"filePath":"/proc/self/status"}"#);
        assert!(status.starts_with("1: Name:\t"), "{status}");
        assert!(!status.contains("[lines"), "{status}");
        let line = scene.ok(&TOOL, r#"{"filePath":"/proc/self/cmdline"}"#);
        assert!(line.contains("␀"), "{line}");
    }

    #[test]
    fn what_is_no_file_is_refused_without_opening_it() {
        let mut scene = Scene::new();
        signal::install();
        let made = std::process::Command::new("mkfifo")
            .arg(scene.path("fifo"))
            .status();
        assert!(made.unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(scene.path("socket")).unwrap();
        for (path, want) in [
            ("fifo", "fifo: is a named pipe, not a file"),
            ("socket", "socket: is a socket, not a file"),
            ("/dev/zero", "/dev/zero: is a device, not a file"),
            ("", "filePath is empty"),
            (
                "fi\\u0000fo",
                "fi\0fo: file name contained an unexpected NUL byte",
            ),
            ("fifo/x", "fifo/x: Not a directory"),
        ] {
            assert_eq!(
                scene.error(&TOOL, &format!(r#"{{"filePath":"{path}"}}"#)),
                want
            );
        }
    }

    #[test]
    fn a_missing_file_is_told_in_the_systems_words() {
        let mut scene = Scene::new();
        for path in ["zzz", "confg/network"] {
            let got = scene.error(&TOOL, &format!(r#"{{"filePath":"{path}"}}"#));
            assert_eq!(got, format!("{path}: No such file or directory"));
        }
        let home = scene.error(&TOOL, r#"{"filePath":"~/.profile"}"#);
        assert!(
            home.starts_with("~/.profile: ~ is not expanded here"),
            "{home}"
        );
        symlink("loop", scene.path("loop")).unwrap();
        let got = scene.error(&TOOL, r#"{"filePath":"loop"}"#);
        assert!(
            got.starts_with("loop: Too many levels") || got.contains("Symbolic link loop"),
            "{got}"
        );
    }

    #[test]
    fn directories_list() {
        let mut scene = Scene::new();
        assert_eq!(scene.ok(&TOOL, r#"{"filePath":"."}"#), "(empty directory)");
        scene.put("b", "");
        scene.put(".hidden", "");
        std::fs::create_dir(scene.path("a")).unwrap();
        symlink("/tmp/x", scene.path("link")).unwrap();
        let want = ".hidden\na/\nb\nlink@\n[directory, 4 entries]";
        assert_eq!(scene.ok(&TOOL, r#"{"filePath":"."}"#), want);
        for i in 0..4500 {
            scene.put(&format!("a/{i:05}"), "");
        }
        let got = scene.ok(&TOOL, r#"{"filePath":"a"}"#);
        assert!(
            got.starts_with("00000\n00001\n") && got.contains("\n00999\n"),
            "{got}"
        );
        assert!(
            got.ends_with("[directory, the first 1000 of 4500 entries]"),
            "{got}"
        );
        scene.output_limit = 500;
        let got = scene.ok(&TOOL, r#"{"filePath":"a"}"#);
        assert!(
            got.len() <= 500 && got.contains("of 4500 entries]"),
            "{got}"
        );
    }

    #[test]
    fn four_gigabytes_cost_little_time() {
        let mut scene = Scene::new();
        let path = scene.put("f", "line\n".repeat(5000));
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(4 << 30).unwrap();
        let before = time::monotonic_ms();
        let got = scene.ok(&TOOL, r#"{"filePath":"f","limit":2}"#);
        assert!(got.starts_with("1: line\n2: line\n[lines 1-2 of "), "{got}");
        assert!(
            got.contains("5001; go on") || got.contains("more than 5000; go on"),
            "{got}"
        );
        assert!(time::monotonic_ms() - before < 20_000);
    }

    #[test]
    fn permission_errors_have_the_systems_text() {
        let mut scene = Scene::new();
        scene.put("f", "x");
        let plan = fs::fault::Plan {
            at: 1,
            only: Some(fs::Op::Open),
            errno: libc::EACCES,
            forever: false,
        };
        let (got, _) = fs::fault::during(plan, || scene.error(&TOOL, r#"{"filePath":"f"}"#));
        assert_eq!(got, "f: Permission denied");
    }
}
