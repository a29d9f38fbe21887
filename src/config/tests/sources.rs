//! Which source wins, and what happens to sources that are broken, missing or not trusted.

use super::*;
use crate::tools::Level;

#[test]
fn defaults_are_the_specification_s() {
    let world = World::new("defaults");
    let Loaded {
        config: c,
        warnings,
        home,
        project_trusted,
        untrusted,
    } = world.load(&Args::default());
    assert_eq!(c.base_url, "https://api.deepseek.com/v1");
    assert_eq!(c.model, "deepseek-v4-pro");
    assert_eq!((c.max_steps, c.max_tokens), (100, 131_072));
    assert_eq!((c.request_timeout, c.context_limit), (600, 200_000));
    assert_eq!((c.thinking, &c.reasoning_effort[..]), (true, "max"));
    assert_eq!(c.compact_threshold, 850);
    assert!(c.api_key.is_empty() && warnings.is_empty() && !project_trusted && untrusted.is_none());
    assert_eq!(home, Some(world.path("user/.cluade").into_bytes()));
}

#[test]
fn each_source_beats_the_one_below() {
    let mut world = World::new("precedence");
    world.home(
        r#"{"model": "home", "max_steps": 1, "permissions": {"bash": "ask", "write": "deny"},
            "profiles": {"p": {"model": "profile", "permissions": {"read": "ask"}}}, "danger_patterns": ["a"]}"#,
    );
    assert_eq!(world.load(&args(&[])).config.model, "home");
    world.project(
        r#"{"model": "project", "permissions": {"bash": "allow"}, "profiles": {"p": {"max_steps": 9}},
            "danger_patterns": ["b", "a"]}"#,
    );
    assert_eq!(world.load(&args(&[])).config.model, "home");
    let c = world.load(&args(&["--trust"])).config;
    assert_eq!((&c.model[..], c.max_steps), ("project", 1));
    let expected = [
        ("bash".to_owned(), Level::Allow),
        ("write".to_owned(), Level::Deny),
    ];
    assert_eq!(c.permissions, expected);
    assert_eq!(c.danger_patterns, ["a", "b"]);
    world.env.push(("CLUADE_MODEL", "env".into()));
    assert_eq!(world.load(&args(&[])).config.model, "env");
    let c = world.load(&args(&["--profile", "p"])).config;
    assert_eq!((&c.model[..], c.max_steps), ("profile", 9));
    assert_eq!(c.permissions.len(), 3);
    let c = world.load(&args(&["--profile=p", "-m", "flag", "--max-steps", "3"]));
    assert_eq!((&c.config.model[..], c.config.max_steps), ("flag", 3));
    // --config stands in for both files.
    world.file("other.json", r#"{"max_steps": 42}"#);
    let c = world.load(&args(&["--config", &world.path("other.json")]));
    assert_eq!((&c.config.model[..], c.config.max_steps), ("env", 42));
    assert!(c.config.permissions.is_empty() && c.project_trusted);
}

#[test]
fn broken_files_are_named_with_line_and_column() {
    let world = World::new("broken");
    let place = world.path("user/.cluade/config.json");
    let table = [
        (
            "{\n  \"model\": \"x\"\n  \"api_key\": \"sk-secret\"\n}",
            "3:3: expected ',' or '}'",
        ),
        ("{\n  \"é\": \"€\" x}", "2:12: expected ',' or '}'"),
        (
            "{\"model\": \"x\",\n}",
            "2:1: expected a name in quotes (a comma too many before it)",
        ),
        (
            "{\n// key\n\"model\": 1}",
            "2:1: expected a name in quotes (JSON has no comments)",
        ),
        (
            "{'model': 1}",
            "1:2: expected a name in quotes (JSON wants double quotes)",
        ),
        ("{\"model\": sk-secret}", "1:11: expected a value"),
        ("", "1:1: unexpected end (the file is empty)"),
        ("{\"a\": 1", "1:8: unexpected end"),
        ("{} {}", "1:4: unexpected text after the value"),
    ];
    for (text, expected) in table {
        let loaded = world.home(text).load(&Args::default());
        let expected = format!("{place}:{expected}; the file is left out");
        assert_eq!(texts(loaded.warnings), [expected], "{text}");
        assert_eq!(loaded.config.max_steps, 100);
    }
    assert_eq!(
        world.warnings("[]"),
        [format!("{place}:1: must be an object")]
    );
    assert!(world.warnings("\u{FEFF}{\"model\": \"x\"}").is_empty());
    let deep = "[".repeat(100_000);
    assert!(world.warnings(&deep)[0].contains("nested too deeply"));
    // A file named on the command line must be good.
    let path = world.path("bad.json");
    let with = args(&["--config", &path]);
    let missing = world.try_load(&with).err().unwrap();
    assert!(
        missing.starts_with(&format!("{path}: No such file")),
        "{missing}"
    );
    world.file("bad.json", "{\n\"a\" 1}");
    assert_eq!(
        world.try_load(&with).err().unwrap(),
        format!("{path}:2:5: expected ':'")
    );
    // So must the user's own be readable.
    std::fs::remove_file(world.root.join("user/.cluade/config.json")).unwrap();
    std::fs::create_dir(world.root.join("user/.cluade/config.json")).unwrap();
    let directory = world.try_load(&Args::default()).err().unwrap();
    assert!(directory.starts_with(&place), "{directory}");
}

#[test]
fn where_the_key_comes_from() {
    let mut world = World::new("keys");
    let source = |world: &World, line: &[&str]| {
        let c = world.load(&args(line)).config;
        (c.api_key, c.api_key_source)
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    world.env.push(("ANTHROPIC_API_KEY", "ant".into()));
    assert_eq!(source(&world, &[]), pair("", ""));
    let own = ["--base-url", "https://proxy.example/v1"];
    assert_eq!(source(&world, &own), pair("ant", "ANTHROPIC_API_KEY"));
    world.home(r#"{"api_key": "file"}"#);
    assert_eq!(source(&world, &own).0, "file");
    world.env.push(("OPENAI_API_KEY", " env\n".into()));
    assert_eq!(source(&world, &own), pair("env", "OPENAI_API_KEY"));
    let host = ["--base-url", "https://api.anthropic.com/v1"];
    assert_eq!(source(&world, &host), pair("ant", "ANTHROPIC_API_KEY"));
    let fake = ["--base-url", "https://anthropic.com.evil.example/v1"];
    assert_eq!(source(&world, &fake).0, "env");
    assert_eq!(
        source(&world, &["--api-key", "flag"]),
        pair("flag", "--api-key")
    );
    let path = world.path("key");
    world.file("key", "  from-file\n\n");
    assert_eq!(
        source(&world, &["--api-key-file", &path]),
        pair("from-file", &path)
    );
    world.file("key", "\n");
    let with = args(&["--api-key-file", &path]);
    let empty = world.try_load(&with).err().unwrap();
    assert_eq!(empty, format!("--api-key-file {path}: the file is empty"));
    world.file("key", "a\nX-Evil: 1");
    let evil = world.try_load(&with).err().unwrap();
    assert!(
        evil.contains("line break") && !evil.contains("Evil"),
        "{evil}"
    );
    std::fs::remove_file(&path).unwrap();
    assert!(
        world
            .try_load(&with)
            .err()
            .unwrap()
            .contains("No such file")
    );
    world.home(r#"{"api_keys": ["a b", "good"]}"#);
    let loaded = world.load(&args(&[]));
    assert_eq!(
        (&loaded.config.api_keys[..], loaded.warnings.len()),
        (&["good".to_owned()][..], 1)
    );
}

#[test]
fn base_url_from_the_environment() {
    let mut world = World::new("url");
    let url = |world: &World| {
        let c = world.load(&args(&[])).config;
        [c.base_url, c.base_url_source].join(" ")
    };
    world.env.push(("OPENAI_BASE_URL", "http://a/v1".into()));
    assert_eq!(url(&world), "http://a/v1 OPENAI_BASE_URL");
    world.env.push(("CLUADE_BASE_URL", "http://b/v1".into()));
    assert_eq!(url(&world), "http://b/v1 CLUADE_BASE_URL");
}

#[test]
fn a_key_over_plain_http_is_told() {
    let world = World::new("plain");
    for (url, warned) in [
        ("http://api.example.com/v1", true),
        ("http://192.168.1.2/v1", false),
        ("https://api.example.com/v1", false),
    ] {
        let loaded = world.load(&args(&["--api-key", "sk-secret", "--base-url", url]));
        assert_eq!(loaded.warnings.len(), usize::from(warned), "{url}");
        let warnings = texts(loaded.warnings);
        assert!(warnings.iter().all(|w| !w.contains("sk-secret")));
    }
}

#[test]
fn colour() {
    let mut world = World::new("colour");
    assert!(world.load(&args(&[])).config.color);
    assert!(!world.load(&args(&["--no-color"])).config.color);
    world.env.push(("TERM", "dumb".into()));
    assert!(!world.load(&args(&[])).config.color);
    world.env.push(("TERM", "xterm".into()));
    world.env.push(("NO_COLOR", "".into()));
    assert!(world.load(&args(&[])).config.color);
    world.env.push(("NO_COLOR", "1".into()));
    assert!(!world.load(&args(&[])).config.color);
}

#[test]
fn unknown_profiles() {
    let world = World::new("profiles");
    let error = |line: &[&str]| world.try_load(&args(line)).err().unwrap();
    assert_eq!(
        error(&["--profile", "x"]),
        "there is no profile \"x\"; the config has none (key \"profiles\")"
    );
    world.home(r#"{"profiles": {"local": {}, "remote": {}}}"#);
    assert_eq!(
        error(&["--profile", "locla"]),
        "there is no profile \"locla\"; did you mean \"local\"?"
    );
    assert_eq!(
        error(&["--profile", "x"]),
        "there is no profile \"x\"; there are: local, remote"
    );
}

#[test]
fn a_project_counts_only_once_trusted_and_unchanged() {
    let world = World::new("trust");
    world.home(r#"{"model": "mine"}"#);
    world.project(r#"{"base_url": "http://evil.example/v1", "permissions": {"bash": "allow"}}"#);
    let loaded = world.load(&args(&[]));
    assert_eq!(loaded.config.base_url, DEFAULT_BASE_URL);
    assert!(!loaded.project_trusted);
    let summary = "config.json (base_url \"http://evil.example/v1\", permissions)";
    assert_eq!(
        loaded.untrusted.map(|p| text(p.summary())).as_deref(),
        Some(summary)
    );
    let note = "this directory's .cluade/ is left out until you trust it (--trust): ";
    assert_eq!(texts(loaded.warnings), [[note, summary].concat()]);

    let loaded = world.load(&args(&["--trust"]));
    assert!(loaded.project_trusted && loaded.untrusted.is_none());
    assert_eq!(loaded.config.base_url, "http://evil.example/v1");
    assert!(world.load(&args(&[])).project_trusted);

    world.project(r#"{"base_url": "http://evil2.example/v1"}"#);
    let loaded = world.load(&args(&[]));
    assert!(!loaded.project_trusted && loaded.config.base_url == DEFAULT_BASE_URL);
    // A broken one is left out like any other.
    world.project("{");
    let loaded = world.load(&args(&["--trust"]));
    assert_eq!(
        texts(loaded.warnings),
        [".cluade/config.json:1:2: unexpected end; the file is left out"]
    );
}

#[test]
fn trust_without_a_place_to_remember_it_holds_for_the_run() {
    let mut world = World::new("readonly");
    world.project(r#"{"model": "project"}"#);
    world.file("blocker", "");
    world.env.push(("CLUADE_HOME", world.path("blocker/home")));
    let error = world.try_load(&args(&["--trust"])).err();
    assert_eq!(error, None);
    let loaded = world.load(&args(&["--trust"]));
    assert_eq!(loaded.config.model, "project");
    assert!(loaded.warnings[0].starts_with(b"the trust can't be remembered: "));
    assert!(!world.load(&args(&[])).project_trusted);
}

#[test]
fn the_home_directory_s_own_dot_cluade_needs_no_trust() {
    let mut world = World::new("home");
    world.home(r#"{"model": "mine"}"#);
    let loaded = world
        .load_in("user", &args(&[]))
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        (&loaded.config.model[..], loaded.warnings.len()),
        ("mine", 0)
    );
    assert!(loaded.untrusted.is_none());
    // With the program's home elsewhere, ~/.cluade is a second file of the user's own.
    world.env.push(("CLUADE_HOME", world.path("elsewhere")));
    let loaded = world
        .load_in("user", &args(&[]))
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        (&loaded.config.model[..], loaded.project_trusted),
        ("mine", true)
    );
    // A link to it doesn't make another directory of it.
    std::os::unix::fs::symlink(world.root.join("user"), world.root.join("link")).unwrap();
    let loaded = world
        .load_in("link", &args(&[]))
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(loaded.project_trusted);
}

#[test]
fn where_home_is() {
    let mut world = World::new("where");
    let home = |world: &World| {
        world
            .load(&args(&[]))
            .home
            .map(|h| String::from_utf8(h).unwrap())
    };
    world.env.push(("CLUADE_HOME", "rel/dir".into()));
    assert_eq!(home(&world), Some(world.path("project/rel/dir")));
    world.env.clear();
    // Without HOME the password file decides; whoever runs this has a line there or is root.
    assert!(home(&world).is_none_or(|h| h.starts_with('/') && h.ends_with("/.cluade")));
    let passwd =
        b"daemon:*:1:1:d:/var:/bin/false\nroot:x:0:0:root:/root:/bin/ash\nbad:x:7\nrel:x:8:8::x:\n";
    assert_eq!(load::home_in(passwd, 0).as_deref(), Some(&b"/root"[..]));
    assert_eq!(load::home_in(passwd, 1).as_deref(), Some(&b"/var"[..]));
    for uid in [7, 8, 9] {
        assert_eq!(load::home_in(passwd, uid), None);
    }
}
