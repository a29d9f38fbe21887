//! Tools on files much larger than memory: what they add to the resident set's high-water mark. A process of its own,
//! so that no other test counts.
#![allow(clippy::unwrap_used, clippy::panic)]

use cluade::sys::process::NoWatch;
use cluade::tools::{Ctx, Output, Tool, edit, output, read, seen::Seen};
use std::io::Write;
use std::path::Path;

/// The high-water mark of resident memory, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn run(dir: &Path, seen: &mut Seen, tool: &Tool, args: &str) -> Output {
    let cwd = dir.to_str().unwrap().as_bytes();
    let scratch = dir.join("scratch");
    let mut ctx = Ctx {
        cwd,
        output_limit: 16_000,
        scratch: scratch.to_str().unwrap().as_bytes(),
        bash_timeout: 30,
        seen,
        env_remove: &[],
        watch: &mut NoWatch,
    };
    let args = cluade::json::parse(args.as_bytes()).unwrap_or_else(|e| panic!("{}", e.what));
    tool.run.unwrap()(&mut ctx, &args)
}

#[test]
fn files_larger_than_memory() {
    let dir = std::env::temp_dir().join(format!("cluade-memory-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let mut seen = Seen::default();

    let mut file = std::fs::File::create(dir.join("large")).unwrap();
    let block = "a line of an ordinary log file, of ordinary length\r\n".repeat(500);
    for _ in 0..2000 {
        file.write_all(block.as_bytes()).unwrap();
    }
    file.write_all(b"THE END").unwrap();
    let size = file.metadata().unwrap().len();
    drop((file, block));
    let mut file = std::fs::File::create(dir.join("sparse")).unwrap();
    file.write_all("text\n".repeat(4000).as_bytes()).unwrap();
    file.set_len(4 << 30).unwrap();
    drop(file);

    let before = peak();
    let got = run(&dir, &mut seen, &read::TOOL, r#"{"filePath":"sparse"}"#);
    assert!(got.ok && got.text.starts_with(b"1: text\n2: text\n"));
    let got = run(
        &dir,
        &mut seen,
        &read::TOOL,
        r#"{"filePath":"large","offset":1000000}"#,
    );
    let text = String::from_utf8(got.text).unwrap();
    assert!(
        text.contains("\n1000001: THE END\n[lines 1000000-1000001 of 1000001]"),
        "{text}"
    );
    let edits = r#"{"filePath":"large","oldString":"THE END","newString":"it goes on\nand on"}"#;
    let got = run(&dir, &mut seen, &edit::TOOL, edits);
    let text = String::from_utf8(got.text).unwrap();
    assert_eq!(text, "edited large: 1 replacement at line 1000001");
    // Through the other way of writing.
    std::fs::hard_link(dir.join("large"), dir.join("other")).unwrap();
    let edits = r#"{"filePath":"large","oldString":"and on","newString":"and on and on"}"#;
    let got = run(&dir, &mut seen, &edit::TOOL, edits);
    assert!(got.ok, "{}", String::from_utf8_lossy(&got.text));
    let got = run(
        &dir,
        &mut seen,
        &edit::TOOL,
        r#"{"filePath":"large","oldString":"not there","newString":""}"#,
    );
    assert!(!got.ok);
    let mut all = output::Collector::new(16_000, dir.join("scratch").to_str().unwrap().as_bytes());
    for _ in 0..4000 {
        all.push(&[b'x'; 16 * 1024]);
    }
    assert!(all.finish().len() <= 16_000);
    let grown = peak() - before;

    let len = std::fs::metadata(dir.join("large")).unwrap().len();
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(len, size - 7 + "it goes on\r\nand on and on".len() as u64);
    assert!(grown < 1024, "{grown} KiB");
}
