//! Tests of [`super`]: results by table, limits, buffer borders, and a search line by line to agree with.

use super::*;
use crate::sys::fs::{Op, fault};
use crate::tools::scene::Scene;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

fn grep(scene: &mut Scene, args: &str) -> String {
    scene.ok(&TOOL, &format!(r#"{{"pattern":{args}}}"#))
}

#[test]
fn a_tree() {
    let mut scene = Scene::new();
    for dir in ["src/sub", ".git", "t"] {
        std::fs::create_dir_all(scene.path(dir)).unwrap();
    }
    scene.put("src/a.rs", "fn a() {}\n// Main\nfn main() {}");
    scene.put("src/sub/b.c", "int main;\r\n\r\nx;\r\n");
    scene.put(".git/config", "main");
    scene.put("t/bin", "main\0");
    scene.put("t/.hidden", "\u{FEFF}main\nmain\n");
    std::os::unix::fs::symlink("..", scene.path("t/up")).unwrap();
    std::os::unix::fs::symlink("../src/a.rs", scene.path("t/link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(scene.path("main")).unwrap();
    let binary = "[skipped 1 binary file]";
    for (args, want) in [
        (
            r#""^(int )?main""#,
            "src/sub/b.c:1:int main;\nt/.hidden:1:main\nt/.hidden:2:main\n[skipped 1 binary file]",
        ),
        (r#""MAIN() {""#, "(no matches)\n[skipped 1 binary file]"),
        (
            r#""MAIN","path":"src","ignoreCase":true,"include":"*.rs""#,
            "src/a.rs:2:// Main\nsrc/a.rs:3:fn main() {}\n",
        ),
        (r#""main","include":"*.{c,h}""#, "src/sub/b.c:1:int main;\n"),
        (
            r#""main","include":"src/**""#,
            "src/a.rs:3:fn main() {}\nsrc/sub/b.c:1:int main;\n",
        ),
        (
            r#""main","include":"sub/*","path":"src""#,
            "src/sub/b.c:1:int main;\n",
        ),
        (r#""main","path":".git""#, ".git/config:1:main\n"),
        (
            r#""main","path":"t/bin""#,
            "(no matches)\n[skipped 1 binary file]",
        ),
        (r#""main","path":"t/link""#, "t/link:3:fn main() {}\n"),
        (
            r#""main","path":"t/up/src","include":"""#,
            "t/up/src/a.rs:3:fn main() {}\nt/up/src/sub/b.c:1:int main;\n",
        ),
        (
            r#"";$","path":"src""#,
            "src/sub/b.c:1:int main;\nsrc/sub/b.c:3:x;\n",
        ),
        (
            r#""\\r$","path":"src","context":0"#,
            "src/sub/b.c:1:int main;\nsrc/sub/b.c:2:\nsrc/sub/b.c:3:x;\n",
        ),
        (r#""^$","path":"src""#, "src/sub/b.c:2:\n"),
        (r#""}\n// M""#, "(no matches)\n[skipped 1 binary file]"),
        (r#""}\\s+// M""#, "(no matches)\n[skipped 1 binary file]"),
        (
            r#""[^x]*\\(\\)","path":"src","context":"1""#,
            "src/a.rs:1:fn a() {}\nsrc/a.rs-2-// Main\nsrc/a.rs:3:fn main() {}\n",
        ),
    ] {
        let args = args.replace("MAIN() {", "MAIN\\\\(\\\\) \\\\{");
        assert_eq!(grep(&mut scene, &args), want, "{args}");
    }
    assert!(grep(&mut scene, r#""zzz""#).ends_with(binary));
    let cwd = scene.dir.to_str().unwrap().to_string();
    assert_eq!(
        grep(&mut scene, &format!(r#""a\\(","path":"{cwd}/src""#)),
        "src/a.rs:1:fn a() {}\n"
    );
    let status = grep(&mut scene, r#""^Name:","path":"/proc/self/status""#);
    assert!(
        status.starts_with("/proc/self/status:1:Name:\t"),
        "{status}"
    );
}

#[test]
fn errors() {
    let mut scene = Scene::new();
    let _socket = std::os::unix::net::UnixListener::bind(scene.path("s")).unwrap();
    for (args, want) in [
        (r#""(a""#, "pattern: unbalanced ("),
        (r#""(?=a)""#, "pattern: look-ahead (?= is not supported"),
        (r#""a","include":"[""#, "include: unbalanced ["),
        (
            r#""a","path":"nowhere""#,
            "nowhere: No such file or directory",
        ),
        (r#""a","path":"s""#, "s: is a socket"),
        (r#""a","path":"/dev/null""#, "/dev/null: is a device"),
        (r#""a","context":"x""#, "context must be"),
        (r#""a","path":"/proc/self/mem""#, "/proc/self/mem: "),
    ] {
        let error = scene.error(&TOOL, &format!(r#"{{"pattern":{args}}}"#));
        assert!(error.starts_with(want), "{args}: {error}");
    }
}

#[test]
fn files_that_cannot_be_read_are_counted() {
    let mut scene = Scene::new();
    for name in ["a", "b", "c"] {
        scene.put(name, "x\n");
    }
    for (only, at) in [(Op::Open, 2), (Op::Read, 2)] {
        let plan = fault::Plan {
            at,
            only: Some(only),
            errno: libc::EACCES,
            forever: false,
        };
        let (text, failed) = fault::during(plan, || grep(&mut scene, r#""x""#));
        assert!(failed);
        assert_eq!(text, "a:1:x\nc:1:x\n[skipped 1 unreadable path]");
    }
}

#[test]
fn what_is_not_text_stays_on_its_line() {
    let mut scene = Scene::new();
    let name = std::ffi::OsString::from_vec(b"a\n\xFF".to_vec());
    std::fs::write(scene.dir.join(name), b"\xFFx\x1b\xE2\x82\n").unwrap();
    assert_eq!(
        grep(&mut scene, r#""x""#),
        "a\\n\u{FFFD}:1:\u{FFFD}x\x1b\u{FFFD}\n"
    );
}

#[test]
fn limits() {
    let mut scene = Scene::new();
    scene.put("f", "x\ny\n".repeat(150));
    scene.put("g", "x\n");
    let text = grep(&mut scene, r#""x""#);
    assert!(
        text.ends_with("\nf:199:x\n[51 more matching lines]"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 101);
    // The context of the last one shown is shown.
    let text = grep(&mut scene, r#""x","context":1"#);
    assert!(
        text.ends_with("\nf:199:x\nf-200-y\n[51 more matching lines]"),
        "{text}"
    );
    scene.output_limit = 200;
    let text = grep(&mut scene, r#""x""#);
    assert!(
        text.ends_with("\nf:11:x\n[145 more matching lines]"),
        "{text}"
    );
    assert!(text.len() <= 200);
}

#[test]
fn long_lines_are_cut_around_the_match() {
    let mut scene = Scene::new();
    let (a, e) = ("a".repeat(1000), "é".repeat(500));
    scene.put(
        "f",
        format!("{a}X{a}\n{e}X{e}\nX{a}\n{a}X\n{}\n", "b".repeat(500)),
    );
    let text = grep(&mut scene, r#""X|bb$""#);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        format!("f:1:…{}X{}…", "a".repeat(125), "a".repeat(374))
    );
    assert_eq!(
        lines[1],
        format!("f:2:…{}X{}…", "é".repeat(62), "é".repeat(187))
    );
    assert_eq!(lines[2], format!("f:3:X{}…", "a".repeat(499)));
    assert_eq!(lines[3], format!("f:4:…{}X", "a".repeat(499)));
    assert_eq!(lines[4], format!("f:5:{}", "b".repeat(500)));
}

#[test]
fn lines_longer_than_the_buffer() {
    let mut scene = Scene::new();
    for (before, after) in [
        (BUF - 3, 0),
        (BUF, 9),
        (LINE_MAX - 5, 9),
        (LINE_MAX - 3, 3 * LINE_MAX),
        (3 * LINE_MAX, 5),
    ] {
        let (before, after) = ("a".repeat(before), "b".repeat(after));
        scene.put(
            "f",
            format!("one\n{before}NEEDLE{after}NEEDLE\ntwo\nNEEDLE\nthree\n"),
        );
        let text = grep(&mut scene, r#""NEED[K-L]E","context":1"#);
        let lines: Vec<&str> = text.lines().collect();
        // A piece that had no match is gone, and so is what came before it.
        assert_eq!(lines[0] == "f-1-one", before.len() + 10 <= LINE_MAX);
        let lines = lines.strip_prefix(&["f-1-one"]).unwrap_or(&lines);
        assert!(lines[0].starts_with("f:2:…aaa") && lines[0].contains("aNEEDLE"));
        assert_eq!(lines[1..], ["f-3-two", "f:4:NEEDLE", "f-5-three"]);
    }
}

/// What the tool must show of one file, line by line.
fn naive(name: &str, text: &[u8], pattern: &str, context: usize) -> String {
    let re = regex::bytes::Regex::new(pattern).unwrap();
    let mut lines: Vec<&[u8]> = text.split(|&b| b == b'\n').collect();
    lines.pop_if(|l| l.is_empty());
    let hits: Vec<bool> = lines.iter().map(|l| re.is_match(l)).collect();
    let (mut out, mut last) = (String::new(), None);
    for (i, line) in lines.iter().enumerate() {
        let near = i.saturating_sub(context)..(i + context + 1).min(lines.len());
        if !hits[near].contains(&true) {
            continue;
        }
        if context > 0 && last.is_some_and(|l| l + 1 < i) {
            out.push_str("--\n");
        }
        last = Some(i);
        let mark = if hits[i] { ':' } else { '-' };
        out.push_str(&format!(
            "{name}{mark}{}{mark}{}\n",
            i + 1,
            String::from_utf8_lossy(line)
        ));
    }
    if out.is_empty() {
        "(no matches)".into()
    } else {
        out
    }
}

#[test]
fn agrees_with_a_search_line_by_line_whatever_the_buffer() {
    let scene = Scene::new();
    let cwd = scene.dir.as_os_str().as_bytes();
    let mut seed = 1u32;
    let mut pick = |n: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 16) % n
    };
    let patterns = [
        "ab", "a", "^a", "b$", "^$", "^", "a.*b", "[^c]*b", r"a\s*b", r"\bab\b", r"c\s|x",
        r"[^a]c$", "(a|b)c+", "", r"^\s+a", r"\w\W*$", "x*",
    ];
    for round in 0..600 {
        let text: Vec<u8> = (0..pick(80))
            .map(|_| b"aabbc \n\n"[pick(8) as usize])
            .collect();
        let path = scene.put("f", &text);
        let pattern = patterns[round % patterns.len()];
        let context = pick(4) as usize;
        let re = Regex::new(pattern, false).unwrap_or_else(|e| panic!("{e}"));
        let mut search = Search::new(re, context, 1 << 20);
        search.buf.truncate(1 + pick(40) as usize);
        search.path(path.as_os_str().as_bytes(), cwd).unwrap();
        let out = search.found.finish("", &[]);
        let got = String::from_utf8(out.text).unwrap();
        let want = naive("f", &text, pattern, context);
        assert_eq!(
            got,
            want,
            "{pattern} in {:?}",
            String::from_utf8_lossy(&text)
        );
    }
}

#[test]
fn groups_of_several_files_are_apart() {
    let mut scene = Scene::new();
    scene.put("a", "1\nx\n");
    scene.put("b", "x\n2\n3\n4\n5\nx");
    assert_eq!(
        grep(&mut scene, r#""x","context":1"#),
        "a-1-1\na:2:x\n--\nb:1:x\nb-2-2\n--\nb-5-5\nb:6:x\n"
    );
}
