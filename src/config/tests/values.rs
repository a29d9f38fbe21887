//! What keys take, what is said about what they do not take, and what is derived from them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::super::keys::{KEYS, position};
use super::*;
use crate::tools::Level;

#[test]
fn every_kind_of_key_is_read() {
    let world = World::new("kinds");
    let loaded = world
        .home(
            r#"{
  "base_url": " http://10.0.0.2:8080/v1 ", "api_key": "sk-1 ", "api_keys": ["a", "b"], "key_strategy": "least_used",
  "fallback": [{"base_url": "https://b/v1", "model": "m2", "api_key": "k"}],
  "models": {"fast": "big-model-flash", "f": "fast"}, "model": "f", "compact_model": "fast",
  "prices": {"m": {"input": 0.28, "output": 1.1, "cached": 0.028}, "n": {"input": 1, "output": 2}},
  "max_steps": 1e3, "max_tokens": 0, "request_timeout": 5.0, "idle_timeout": 7, "offline_wait": 8, "thinking": 0,
  "reasoning_effort": "", "stream": false, "context_limit": 8192, "compact_threshold": 0.5, "danger_patterns": "x",
  "redact": false, "env_remove": ["T"], "roots": ["/srv"], "guard": 30, "repeat_threshold": 5, "error_threshold": 6,
  "bash_timeout": 11, "tool_output_limit": 2000, "stdin_wait": 0, "subagent_parallel": 3, "rules": "all",
  "session_dir": "/tmp/s", "history_file": "", "checkpoint_max": 9, "search_url": "http://s/?q=", "hooks": {},
  "profiles": {}, "permissions": {"bash(git log*)": "allow"}
}"#,
        )
        .load(&Args::default());
    assert_eq!(texts(loaded.warnings), Vec::<String>::new());
    let c = loaded.config;
    assert_eq!(
        (&c.base_url[..], &c.api_key[..]),
        ("http://10.0.0.2:8080/v1", "sk-1")
    );
    assert_eq!(c.api_key_source, world.path("user/.cluade/config.json"));
    assert_eq!(
        (&c.api_keys.join(" ")[..], c.key_strategy),
        ("a b", KeyStrategy::LeastUsed)
    );
    let f = &c.fallback[0];
    assert_eq!(
        [&f.base_url, &f.model, &f.api_key],
        ["https://b/v1", "m2", "k"]
    );
    assert_eq!(
        (&c.model[..], &c.compact_model[..]),
        ("big-model-flash", "big-model-flash")
    );
    let prices = c
        .prices
        .iter()
        .map(|p| (&p.model[..], p.input, p.output, p.cached));
    let expected = [
        ("m", 280_000, 1_100_000, 28_000),
        ("n", 1_000_000, 2_000_000, 1_000_000),
    ];
    assert!(prices.eq(expected));
    assert_eq!((c.max_steps, c.max_tokens, c.request_timeout), (1000, 0, 5));
    assert_eq!((c.idle_timeout, c.offline_wait, c.thinking), (7, 8, true));
    assert_eq!(
        (&c.reasoning_effort[..], c.stream, c.context_limit),
        ("", false, 8192)
    );
    assert_eq!((c.compact_threshold, c.redact, c.guard), (500, false, 30));
    assert_eq!(
        (c.danger_patterns, c.env_remove, c.roots),
        (vec!["x".into()], vec!["T".into()], vec!["/srv".into()])
    );
    assert_eq!(
        (c.repeat_threshold, c.error_threshold, c.bash_timeout),
        (5, 6, 11)
    );
    assert_eq!(
        (c.tool_output_limit, c.stdin_wait, c.subagent_parallel),
        (2000, 0, 3)
    );
    assert_eq!(
        (c.rules_all, &c.session_dir[..], &c.history_file[..]),
        (true, "/tmp/s", "")
    );
    assert_eq!((c.checkpoint_max, &c.search_url[..]), (9, "http://s/?q="));
    assert_eq!(c.permissions, [("bash(git log*)".to_owned(), Level::Allow)]);
    for (i, a) in KEYS.iter().enumerate() {
        assert!(KEYS[..i].iter().all(|b| a.name != b.name), "{}", a.name);
    }
}

#[test]
fn thinking_is_on_unless_false() {
    let world = World::new("thinking");
    for (text, on) in [
        ("{}", true),
        (r#"{"thinking": false}"#, false),
        (r#"{"thinking": true}"#, true),
        (r#"{"thinking": "no"}"#, true),
        (r#"{"thinking": {"type": "disabled"}}"#, true),
        (r#"{"thinking": null}"#, true),
    ] {
        let loaded = world.home(text).load(&Args::default());
        assert_eq!(
            (loaded.config.thinking, loaded.warnings.len()),
            (on, 0),
            "{text}"
        );
    }
}

#[test]
fn wrong_values_are_named_with_range_and_what_is_used() {
    let world = World::new("ranges");
    let place = world.path("user/.cluade/config.json");
    let table = [
        (
            r#"{"max_steps": 0}"#,
            "max_steps is 0, must be a whole number from 1 to 1000000; using 100",
        ),
        (
            r#"{"max_steps": -3}"#,
            "max_steps is -3, must be a whole number from 1 to 1000000; using 100",
        ),
        (
            r#"{"max_steps": 1.5}"#,
            "max_steps is 1.5, must be a whole number from 1 to 1000000; using 100",
        ),
        (
            r#"{"max_steps": "sk-secret"}"#,
            "max_steps is a text, must be a whole number from 1 to 1000000; using 100",
        ),
        (
            r#"{"max_steps": 1e99}"#,
            "max_steps is 1e99, must be a whole number from 1 to 1000000; using 100",
        ),
        (
            r#"{"compact_threshold": 85}"#,
            "compact_threshold is 85, must be a number from 0.1 to 0.95; using 0.85",
        ),
        (
            r#"{"compact_threshold": 0.951}"#,
            "compact_threshold is 0.951, must be a number from 0.1 to 0.95; using 0.85",
        ),
        (
            r#"{"stream": 1}"#,
            "stream is 1, must be true or false; using true",
        ),
        (
            r#"{"model": ""}"#,
            "model is a text, must be a text that is not empty; using deepseek-v4-pro",
        ),
        (
            r#"{"base_url": 5}"#,
            "base_url is 5, must be a text that is not empty; using https://api.deepseek.com/v1",
        ),
        (
            r#"{"api_key": ["sk-secret"]}"#,
            "api_key is a list, must be a text",
        ),
        (
            r#"{"key_strategy": "sk-secret"}"#,
            "key_strategy is a text, must be one of fill_first, round_robin, least_used",
        ),
        (
            r#"{"api_keys": {"a": "sk-secret"}}"#,
            "api_keys is an object, must be a list of texts",
        ),
        (
            r#"{"checkpoint_max": "x"}"#,
            "checkpoint_max is a text, must be a whole number from 0 to 1073741824; using the default",
        ),
        (
            r#"{"guard": 5}"#,
            "guard is 5, must be true, false or a whole number of seconds from 10 to 3600; using 90",
        ),
        (
            r#"{"permissions": []}"#,
            "permissions is a list, must be an object",
        ),
        (
            r#"{"permissions": {"bash": "never"}}"#,
            r#"permissions.bash is a text, must be "allow", "ask" or "deny"; using ask"#,
        ),
        (
            r#"{"prices": {"m": 3}}"#,
            "prices.m is 3, must be {input, output, cached}: prices a million tokens",
        ),
        (
            r#"{"fallback": [5]}"#,
            "fallback is 5, must be {base_url, model, api_key}; using the others",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(
            world.warnings(text),
            [format!("{place}:1: {expected}")],
            "{text}"
        );
    }
    let c = world
        .home(r#"{"permissions": {"bash": "never"}}"#)
        .load(&Args::default())
        .config;
    assert_eq!(c.permissions, [("bash".to_owned(), Level::Ask)]);
    // The layer below counts, not the built-in default.
    world
        .home(r#"{"max_steps": 7}"#)
        .project(r#"{"max_steps": 0}"#);
    let loaded = world.load(&args(&["--trust"]));
    assert_eq!(loaded.config.max_steps, 7);
    assert!(loaded.warnings[0].ends_with(b"using 7"));
}

#[test]
fn unknown_keys_are_named_once_with_line_and_near_key() {
    let world = World::new("unknown");
    let place = world.path("user/.cluade/config.json");
    let text = "{\n  \"modle\": \"x\",\n\n  \"extra_body\": {\"reasoning_effort\": 1}, \"baseUrl\": \"y\",\n\"modle\": 1}";
    let expected = [
        ":2: unknown key \"modle\"; did you mean \"model\"?",
        ":4: unknown key \"extra_body\"",
        ":4: unknown key \"baseUrl\"; did you mean \"base_url\"?",
        ":5: unknown key \"modle\"; did you mean \"model\"?",
    ];
    assert_eq!(world.warnings(text), expected.map(|e| [&place, e].concat()));
    // A misspelt tool would leave a rule without effect; patterns and servers' tools are nobody's typing error.
    let text = r#"{"permissions": {"raed": "deny", "bahs(ls*)": "ask", "mcp__x__y": "deny", "bash(ls)": "ask"}}"#;
    let expected = [("raed", "read"), ("bahs", "bash")];
    let expected = expected
        .map(|(a, b)| format!("{place}:1: no tool is called \"{a}\"; did you mean \"{b}\"?"));
    assert_eq!(world.warnings(text), expected);
    let text = "{\"profiles\": {\"p\": {\n\"strem\": true}}}";
    let loaded = world.home(text).load(&args(&["--profile", "p"]));
    let expected = ":2: unknown key \"profiles.p.strem\"; did you mean \"stream\"?";
    assert_eq!(texts(loaded.warnings), [[&place, expected].concat()]);
}

#[test]
fn positions_count_lines_and_characters() {
    assert_eq!(position(b"ab\nc", 0), (1, 1));
    assert_eq!(position(b"ab\nc", 2), (1, 3));
    assert_eq!(position(b"ab\nc", 3), (2, 1));
    assert_eq!(position("é\nöx".as_bytes(), 5), (2, 2));
    assert_eq!(position(b"", 10), (1, 1));
}

#[test]
fn init_writes_the_defaults_once() {
    let world = World::new("init");
    let home = world.path("new/deep");
    let path = match init(home.as_bytes()) {
        Ok(path) => String::from_utf8(path).unwrap(),
        Err(e) => panic!("{}", text(e)),
    };
    let mode = |p: &str| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&home), mode(&path)), (0o700, 0o600));
    std::fs::write(&path, "mine").unwrap();
    let again = text(init(home.as_bytes()).err().unwrap());
    assert_eq!(again, format!("{path} exists and was left as it is"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    let blocked = init(world.path("new/deep/config.json/x").as_bytes());
    let blocked = text(blocked.err().unwrap());
    assert!(blocked.contains("config.json/x"), "{blocked}");

    let loaded = world.home(DEFAULT_FILE).load(&Args::default());
    assert_eq!(texts(loaded.warnings), Vec::<String>::new());
    let (c, d) = (loaded.config, Config::default());
    assert_eq!(
        (c.base_url, c.model, c.api_key),
        (d.base_url, d.model, d.api_key)
    );
    assert_eq!(
        (c.max_steps, c.max_tokens, c.request_timeout),
        (d.max_steps, d.max_tokens, d.request_timeout)
    );
    assert_eq!(
        (c.thinking, c.reasoning_effort, c.context_limit),
        (d.thinking, d.reasoning_effort, d.context_limit)
    );
    assert_eq!(c.compact_threshold, d.compact_threshold);
}

#[test]
fn aliases_end() {
    let models = [("a", "b"), ("b", "c"), ("x", "y"), ("y", "x")];
    let config = Config {
        models: models.map(|(a, b)| (a.into(), b.into())).to_vec(),
        ..Config::default()
    };
    assert_eq!(config.resolve_model("a"), "c");
    assert_eq!(config.resolve_model("other"), "other");
    assert!(["x", "y"].contains(&&config.resolve_model("x")[..]));
}

#[test]
fn a_value_can_be_set_by_hand() {
    let mut config = Config::default();
    let table = [
        ("max_steps", "5", ""),
        ("model", "qwen3", ""),
        ("model", "123", ""),
        ("reasoning_effort", "\"high\"", ""),
        ("stream", "false", ""),
        ("rules", "all", ""),
        ("api_key", "sk-x", ""),
        ("roots", "/srv", ""),
        ("compact_threshold", "0.5", ""),
        (
            "max_steps",
            "0",
            "max_steps is 0, must be a whole number from 1 to 1000000; using 5",
        ),
        (
            "max_steps",
            "many",
            "max_steps is a text, must be a whole number from 1 to 1000000; using 5",
        ),
        (
            "modle",
            "x",
            "unknown key \"modle\"; did you mean \"model\"?",
        ),
        ("zzzzzz", "x", "unknown key \"zzzzzz\""),
    ];
    for (key, value, error) in table {
        let result = keys::set(&mut config, key, value).err().unwrap_or_default();
        assert_eq!(text(result), error, "{key}");
    }
    assert_eq!(
        (config.max_steps, &config.model[..], config.stream),
        (5, "123", false)
    );
    assert_eq!(
        (&config.reasoning_effort[..], config.rules_all),
        ("high", true)
    );
    assert_eq!(
        (
            &config.api_key[..],
            &config.roots[0][..],
            config.compact_threshold
        ),
        ("sk-x", "/srv", 500)
    );
}

#[test]
fn local_hosts() {
    let table = [
        ("localhost", true),
        ("127.9.9.9", true),
        ("10.1.2.3", true),
        ("172.16.0.1", true),
        ("172.32.0.1", false),
        ("192.168.1.10", true),
        ("169.254.1.1", true),
        ("100.64.0.1", true),
        ("100.128.0.1", false),
        ("8.8.8.8", false),
        ("::1", true),
        ("fe80::1%br-lan", true),
        ("fd00::1", true),
        ("2001:db8::1", false),
        ("::ffff:192.168.1.1", true),
        ("::ffff:8.8.8.8", false),
        ("0:0:0:0:0:0:0:1", true),
        ("::", false),
        ("::10", false),
        ("1::", false),
        ("fd:1:2::", false),
        ("64:ff9b::10.0.0.1", false),
        ("febf::1", true),
        ("fec0::1", false),
        ("10.0.0.1.example.com", false),
        ("10.0.0.256", false),
        ("010.0.0.1", false),
        ("1.10.0.0", false),
        ("ollama", true),
        ("NAS.lan.", true),
        ("api.deepseek.com", false),
        ("lan.example.com", false),
        ("3232235777", false),
        ("", false),
    ];
    for (host, local) in table {
        assert_eq!(is_local_host(host), local, "{host}");
    }
}

#[test]
fn what_to_set_when_there_is_nothing() {
    let mut config = Config::default();
    let text = text(missing_key(&config, Some(b"/root/.cluade")).unwrap_or_default());
    assert_eq!(text.lines().count(), 3);
    for part in [
        "OPENAI_API_KEY",
        "/root/.cluade/config.json",
        "--init",
        "--base-url http://192.168.",
    ] {
        assert!(text.contains(part), "{part}");
    }
    config.base_url = "http://192.168.1.2:8080/v1".into();
    assert_eq!(missing_key(&config, None), None);
    // The client says better what is wrong with this one.
    config.base_url = "localhost:8080".into();
    assert_eq!(missing_key(&config, None), None);
    config = Config::default();
    config.api_keys = vec!["k".into()];
    assert_eq!(missing_key(&config, None), None);
}

#[test]
fn no_config_text_breaks_the_loader() {
    let world = World::new("fuzz");
    let parts = [
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"model\"",
        "\"permissions\"",
        "\"prices\"",
        "\"fallback\"",
        "1e999",
        "-0",
        "null",
        "\"\\ud800\"",
        "\"profiles\"",
        "\"p\"",
        "NaN",
        " ",
        "\n",
        "\"input\"",
        "0.1",
        "\"api_keys\"",
        "true",
        "\"guard\"",
    ];
    let mut seed = 7u32;
    for _ in 0..2000 {
        let mut text = String::from("{");
        for _ in 0..12 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            text.push_str(parts[(seed >> 16) as usize % parts.len()]);
        }
        world.file("user/.cluade/config.json", &text);
        assert!(world.try_load(&args(&[])).is_ok(), "{text}");
    }
    // Sound JSON with every kind of value under every key.
    for key in KEYS {
        for value in [
            "{}",
            "[]",
            "[[]]",
            "{\"a\":{}}",
            "\"\"",
            "0",
            "-1",
            "1e9",
            "true",
            "[null]",
            "{\"a\":null}",
        ] {
            world.file(
                "user/.cluade/config.json",
                &format!("{{\"{}\": {value}}}", key.name),
            );
            assert!(world.try_load(&args(&[])).is_ok(), "{} {value}", key.name);
        }
    }
    assert!(Path::new(&world.path("user")).is_dir());
}
