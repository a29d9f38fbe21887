//! What ends the trust in a project, and what can never have it.

use super::*;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

enum State {
    Nothing,
    Trusted(Project),
    Untrusted(Project),
}

fn state(home: Option<&[u8]>, dir: &[u8]) -> State {
    match look(home, dir) {
        None => State::Nothing,
        Some(p) if p.agreed => State::Trusted(p),
        Some(p) => State::Untrusted(p),
    }
}

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("cluade-trust-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.join("p")).unwrap();
        Dir(path)
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        self.0.join(name).as_os_str().as_bytes().to_vec()
    }

    fn state(&self) -> State {
        state(Some(&self.bytes("home")), &self.bytes("p"))
    }

    fn trusted(&self) -> bool {
        matches!(self.state(), State::Trusted(_))
    }

    fn trust(&self) {
        match self.state() {
            State::Untrusted(p) => remember(Some(&self.bytes("home")), &p).unwrap(),
            _ => panic!("nothing to trust"),
        }
        assert!(self.trusted());
    }
}

fn text(p: &Project) -> String {
    String::from_utf8(p.summary()).unwrap()
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn text_and_empty_directories_need_no_trust() {
    let dir = Dir::new("nothing");
    assert!(matches!(dir.state(), State::Nothing));
    dir.file("p/skills/x/SKILL.md", "x");
    dir.file("p/rules/a.md", "x");
    dir.file("p/AGENTS.md", "x");
    std::fs::create_dir(dir.0.join("p/hooks")).unwrap();
    assert!(matches!(dir.state(), State::Nothing));
    assert!(matches!(state(None, b"/no/such/dir"), State::Nothing));
    dir.file("p/hooks/pre.sh", "x");
    assert!(matches!(dir.state(), State::Untrusted(_)));
    assert!(matches!(state(None, &dir.bytes("p")), State::Untrusted(_)));
}

#[test]
fn any_change_ends_the_trust() {
    let dir = Dir::new("change");
    dir.file("p/config.json", "{}");
    dir.file("p/hooks/deep/pre.sh", "true");
    dir.file("outside", "v1");
    std::os::unix::fs::symlink(dir.0.join("outside"), dir.0.join("p/hooks/link")).unwrap();
    std::os::unix::fs::symlink("/no/such/file", dir.0.join("p/hooks/dangling")).unwrap();
    dir.trust();
    let changes: &[(&str, &str)] = &[
        ("p/config.json", "{ }"),
        ("p/hooks/deep/pre.sh", "fals"),
        ("p/hooks/deep/new.sh", ""),
        ("p/mcp.json", "{}"),
        ("p/hooks.json", "{}"),
        ("p/tools/t", "x"),
        ("outside", "v2"),
    ];
    for (name, text) in changes {
        dir.file(name, text);
        assert!(!dir.trusted(), "{name}");
        dir.trust();
    }
    // Text that needs no trust changes nothing.
    dir.file("p/skills/a/SKILL.md", "new");
    assert!(dir.trusted());
    // The same bytes under another name, and the same tree in another place.
    std::fs::rename(dir.0.join("p/tools/t"), dir.0.join("p/tools/u")).unwrap();
    assert!(!dir.trusted());
    dir.trust();
    std::fs::rename(dir.0.join("p"), dir.0.join("q")).unwrap();
    let moved = state(Some(&dir.bytes("home")), &dir.bytes("q"));
    assert!(matches!(moved, State::Untrusted(_)));
}

#[test]
fn contents_can_not_move_between_files() {
    let dir = Dir::new("split");
    dir.file("p/hooks/a", "xy");
    dir.file("p/hooks/b", "z");
    dir.trust();
    dir.file("p/hooks/a", "x");
    dir.file("p/hooks/b", "yz");
    assert!(!dir.trusted());
}

#[test]
fn what_can_not_be_read_whole_is_never_trusted() {
    let dir = Dir::new("limits");
    dir.file("p/config.json", "{}");
    dir.file("p/tools/big", &"x".repeat(5 << 20));
    let State::Untrusted(big) = dir.state() else {
        panic!("5 MiB were trusted");
    };
    assert!(!big.complete && remember(Some(&dir.bytes("home")), &big).is_err());
    dir.file("p/tools/big", "small");
    dir.trust();
    // A ring of links ends.
    std::os::unix::fs::symlink(dir.0.join("p/hooks"), dir.0.join("p/tools/hooks")).unwrap();
    std::fs::create_dir(dir.0.join("p/hooks")).unwrap();
    std::os::unix::fs::symlink(dir.0.join("p/tools"), dir.0.join("p/hooks/tools")).unwrap();
    let State::Untrusted(ring) = dir.state() else {
        panic!("a ring was trusted");
    };
    assert!(!ring.complete);
    std::fs::remove_file(dir.0.join("p/hooks/tools")).unwrap();
    for i in 0..600 {
        dir.file(&format!("p/hooks/{i}"), "");
    }
    assert!(matches!(dir.state(), State::Untrusted(p) if !p.complete));
}

#[test]
fn a_fifo_is_not_waited_for() {
    let dir = Dir::new("fifo");
    std::fs::create_dir(dir.0.join("p/hooks")).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(dir.0.join("p/hooks/f"))
        .status();
    assert!(made.is_ok_and(|s| s.success()));
    assert!(matches!(dir.state(), State::Untrusted(p) if !p.complete));
}

#[test]
fn the_summary_names_what_would_change() {
    let dir = Dir::new("summary");
    dir.file(
        "p/config.json",
        r#"{"base_url": "http://e/\"", "permissions": {"bash": "allow"}, "base_url": "http://f"}"#,
    );
    dir.file("p/hooks/pre.sh", "");
    dir.file("p/mcp.json", "");
    let State::Untrusted(p) = dir.state() else {
        panic!("trusted");
    };
    assert_eq!(
        text(&p),
        "config.json (base_url \"http://e/\"\", permissions, base_url \"http://f\"), hooks/pre.sh, mcp.json"
    );
    dir.file("p/config.json", "{");
    for i in 0..10 {
        dir.file(&format!("p/tools/{i}"), "");
    }
    let State::Untrusted(p) = dir.state() else {
        panic!("trusted");
    };
    assert!(text(&p).starts_with("config.json (not valid JSON), hooks/pre.sh, mcp.json"));
    assert!(text(&p).ends_with("tools/5, 4 more files"));
    assert_eq!(p.config.as_deref(), Some(&b"{"[..]));
}

#[test]
fn damaged_stores_trust_nothing_and_are_written_anew() {
    let dir = Dir::new("damage");
    dir.file("p/mcp.json", "{}");
    dir.trust();
    let good = std::fs::read(dir.0.join("home/trust.json")).unwrap();
    let texts: &[&[u8]] = &[
        b"",
        b"{",
        b"[]",
        b"{\"projects\": {}}",
        b"{\"projects\": [,]}",
        b"{\"x\": ,}",
        b"{\"x\": [",
        b"{\"x\": {\"a\": [1, 2",
        b"{\"x\": NaN}",
        b"{\"x\": -1e5}",
        b"{\"projects\": [{\"path\": 1, \"size\": \"a\"}]}",
        b"{\"projects\": [{\"size\": 99999999999999999999999999}]}",
        b"{\"projects\": [{\"path\": \"\\ud800\"}]}",
        b"{\"projects\": null}",
        b"{\"a\0\": \"\0\"}",
        b"\xff\xfe{}",
        &good[..good.len() / 2],
    ];
    for text in texts {
        std::fs::write(dir.0.join("home/trust.json"), text).unwrap();
        assert!(!dir.trusted(), "{}", String::from_utf8_lossy(text));
        dir.trust();
    }
    for cut in 0..good.len() {
        std::fs::write(dir.0.join("home/trust.json"), &good[..cut]).unwrap();
        assert!(!dir.trusted(), "{cut}");
    }
    // Members of a later version are passed over.
    let text = String::from_utf8(good).unwrap();
    let text = text.replacen('{', r#"{"version":2,"x":{"y":[true,null]},"#, 1);
    std::fs::write(dir.0.join("home/trust.json"), text).unwrap();
    assert!(dir.trusted());
}

#[test]
fn the_store_is_private_small_and_takes_any_path() {
    use std::os::unix::fs::PermissionsExt;
    let dir = Dir::new("store");
    for name in ["p", "we\"ird\n\u{1}é"] {
        dir.file(&format!("{name}/mcp.json"), "{}");
        let home = dir.bytes("home");
        let State::Untrusted(p) = state(Some(&home), &dir.bytes(name)) else {
            panic!("trusted");
        };
        remember(Some(&home), &p).unwrap();
        remember(Some(&home), &p).unwrap();
        assert!(matches!(
            state(Some(&home), &dir.bytes(name)),
            State::Trusted(_)
        ));
    }
    assert!(dir.trusted());
    assert_eq!(read(&dir.bytes("home")).projects.len(), 2);
    let mode = |n: &str| {
        std::fs::metadata(dir.0.join(n))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!((mode("home"), mode("home/trust.json")), (0o700, 0o600));
    let State::Trusted(mut p) = dir.state() else {
        panic!("untrusted");
    };
    for i in 0..MAX_REMEMBERED {
        p.path = format!("/other/{i}").into_bytes();
        remember(Some(&dir.bytes("home")), &p).unwrap();
    }
    assert_eq!(read(&dir.bytes("home")).projects.len(), MAX_REMEMBERED);
    assert_eq!(std::fs::read_dir(dir.0.join("home")).unwrap().count(), 1);
}
