//! Arguments, configuration and what goes where before any turn begins.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::{Answer, Dir, Place, Server, run, run_with_input};

#[test]
fn unknown_options_name_the_nearest_and_exit_2() {
    let p = Place::new("unknown");
    let ran = run(p.command().arg("--modle").arg("x")).expect(2);
    assert_eq!(ran.out(), "");
    assert!(
        ran.stderr.contains("--modle") && ran.stderr.contains("--model"),
        "{}",
        ran.stderr
    );
}

#[test]
fn help_and_version_exit_0() {
    let p = Place::new("help");
    let help = run(p.command().arg("--help")).expect(0);
    for word in ["--model", "--quiet", "130", "OPENAI_API_KEY"] {
        assert!(help.out().contains(word), "{word} is not in --help");
    }
    assert!(
        help.out().lines().all(|l| l.chars().count() <= 80),
        "a line of --help is over 80 columns"
    );
    let version = run(p.command().arg("-V")).expect(0);
    assert!(version.out().contains(env!("CARGO_PKG_VERSION")));
}

#[test]
fn without_a_key_three_lines_say_what_to_set() {
    let p = Place::new("nokey");
    let ran = run(p.command().arg("hello")).expect(2);
    assert_eq!(
        (ran.stderr.trim_end().lines().count(), ran.out().as_str()),
        (3, "")
    );
    assert!(ran.stderr.contains("OPENAI_API_KEY") && ran.stderr.contains("--base-url"));
}

#[test]
fn init_writes_once_and_for_us_alone() {
    use std::os::unix::fs::PermissionsExt;
    let p = Place::new("init");
    run(p.command().arg("--init")).expect(0);
    let file = p.home.path(".cluade/config.json");
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    std::fs::write(&file, "{\"model\":\"mine\"}").unwrap();
    let ran = run(p.command().arg("--init"));
    assert_ne!(ran.status, 0);
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "{\"model\":\"mine\"}"
    );
}

#[test]
fn sources_are_merged_in_order() {
    let p = Place::new("merge");
    let s = Server::new(vec![
        Answer::text("ok"),
        Answer::text("ok"),
        Answer::text("ok"),
        Answer::text("ok"),
    ]);
    p.home.write(
        ".cluade/config.json",
        r#"{"model":"from-home","max_tokens":11,"profiles":{"p":{"model":"from-profile"}}}"#,
    );
    p.work
        .write(".cluade/config.json", r#"{"model":"from-project"}"#);
    let model = |n: usize| {
        s.requests()[n].json()["model"]
            .as_str()
            .unwrap()
            .to_string()
    };
    let ran = run(&mut p.cluade(&s, &["-q", "hi"])).expect(0);
    assert_eq!(
        model(0),
        "from-home",
        "a project nobody trusted must not count"
    );
    assert!(ran.stderr.contains("--trust"), "{}", ran.stderr);
    run(&mut p.cluade(&s, &["-q", "--trust", "hi"])).expect(0);
    assert_eq!(model(1), "from-project");
    run(&mut p.cluade(&s, &["-q", "--profile", "p", "hi"])).expect(0);
    assert_eq!(model(2), "from-profile");
    run(&mut p.cluade(&s, &["-q", "-m", "from-flag", "hi"])).expect(0);
    assert_eq!(model(3), "from-flag");
    assert_eq!(s.requests()[3].json()["max_tokens"], 11);
    s.check();
}

#[test]
fn broken_json_is_told_with_line_and_column_and_defaults_are_used() {
    let p = Place::new("broken");
    let s = Server::new(vec![Answer::text("ok"), Answer::text("ok")]);
    p.home.write(
        ".cluade/config.json",
        "{\n  \"model\": \"x\",\n  \"max_steps\" 3\n}",
    );
    let ran = run(&mut p.cluade(&s, &["-q", "hi"])).expect(0);
    assert!(ran.stderr.contains("config.json:3:15"), "{}", ran.stderr);
    assert_eq!(s.requests()[0].json()["model"], "deepseek-v4-pro");
    let file = p.home.write("other.json", "{,}");
    let ran = run(p
        .command()
        .arg("--config")
        .arg(&file)
        .args(["--base-url", &s.url(), "hi"]))
    .expect(2);
    assert!(ran.stderr.contains("other.json:1:2"), "{}", ran.stderr);
}

#[test]
fn unknown_keys_and_bad_values_warn() {
    let p = Place::new("warn");
    let s = Server::new(vec![Answer::text("ok")]);
    p.home.write(
        ".cluade/config.json",
        r#"{"max_step": 5, "compact_threshold": 3, "thinking": "yes"}"#,
    );
    let ran = run(&mut p.cluade(&s, &["-q", "hi"])).expect(0);
    assert!(
        ran.stderr.contains("max_step") && ran.stderr.contains("max_steps"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("compact_threshold") && ran.stderr.contains("0.95"),
        "{}",
        ran.stderr
    );
    assert_eq!(s.requests()[0].json()["thinking"]["type"], "enabled");
}

#[test]
fn the_request_has_the_fields_of_the_specification_and_no_others() {
    let p = Place::new("fields");
    let s = Server::new(vec![Answer::text("ok")]);
    run(p
        .cluade(&s, &["-q", "hi"])
        .env("OPENAI_API_KEY", " sk-test \n"))
    .expect(0);
    let body = s.requests()[0].json();
    let mut names: Vec<&str> = body
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    names.sort_unstable();
    let want = "max_tokens messages model reasoning_effort stream stream_options thinking tool_choice tools";
    assert_eq!(names.join(" "), want);
    assert_eq!(
        (&body["reasoning_effort"], &body["tool_choice"]),
        (&"max".into(), &"auto".into())
    );
    let request = &s.requests()[0];
    assert_eq!(request.header("authorization"), Some("Bearer sk-test"));
    assert_eq!(request.header("accept-encoding"), Some("identity"));
    let system = body["messages"][0]["content"].as_str().unwrap().len();
    let tools = body["tools"].to_string().len();
    assert!(
        system + tools <= 8 * 1024 * 7 / 12 + 2048,
        "system {system}, tools {tools}"
    );
}

#[test]
fn no_key_no_authorization_header() {
    let p = Place::new("nobearer");
    let s = Server::new(vec![Answer::text("ok")]);
    run(&mut p.cluade(&s, &["-q", "hi"])).expect(0);
    assert_eq!(s.requests()[0].header("authorization"), None);
}

#[test]
fn reserved_words_and_how_to_escape_them() {
    let p = Place::new("reserved");
    let ran = run(p.command().args(["sessions", "frobnicate"])).expect(2);
    assert!(
        ran.stderr.contains("frobnicate") && ran.stderr.contains("quotes"),
        "{}",
        ran.stderr
    );
    let s = Server::new(vec![Answer::text("ok")]);
    run(&mut p.cluade(&s, &["-q", "--", "sessions", "frobnicate"])).expect(0);
    assert!(s.requests()[0].last().ends_with("sessions frobnicate"));
}

#[test]
fn a_missing_attachment_is_status_2() {
    let p = Place::new("attach");
    let s = Server::new(vec![]);
    let ran = run(&mut p.cluade(&s, &["-f", "nowhere.txt", "hi"])).expect(2);
    assert!(
        ran.stderr.contains("nowhere.txt") && s.count() == 0,
        "{}",
        ran.stderr
    );
}

#[test]
fn launched_through_a_link_the_working_directory_counts() {
    let p = Place::new("link");
    let bin = Dir::new("bin");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_cluade"), bin.path("c")).unwrap();
    let s = Server::new(vec![Answer::bash("pwd"), Answer::text("ok")]);
    let mut c = std::process::Command::new(bin.path("c"));
    c.current_dir(&p.work.0)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", &p.home.0);
    c.stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    run_with_input(
        c.args(["-q", "--no-session", "--base-url", &s.url(), "hi"]),
        b"",
    )
    .expect(0);
    assert_eq!(s.requests()[1].last().trim(), p.work.0.to_string_lossy());
}

#[test]
fn files_the_user_names_may_be_pipes() {
    let p = Place::new("pipes");
    let s = Server::new(vec![Answer::text("ok")]);
    let script = r#"exec "$0" -q --base-url "$1" --config c -f a hi"#;
    for name in ["c", "a"] {
        assert!(
            std::process::Command::new("mkfifo")
                .arg(p.work.path(name))
                .status()
                .unwrap()
                .success()
        );
    }
    let mut c = std::process::Command::new("sh");
    c.current_dir(&p.work.0)
        .env("HOME", &p.home.0)
        .env("TMPDIR", &p.scratch.0);
    c.stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let child = c
        .args(["-c", script, env!("CARGO_BIN_EXE_cluade"), &s.url()])
        .spawn()
        .unwrap();
    for (name, text) in [("c", r#"{"model":"piped"}"#), ("a", "late words")] {
        std::fs::write(p.work.path(name), text).unwrap();
    }
    support::finish(child).expect(0);
    assert_eq!(s.requests()[0].json()["model"], "piped");
    assert!(s.requests()[0].last().contains("late words"));
}
