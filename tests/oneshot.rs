//! One turn and out: streams, exit statuses, interrupts, standard input.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::process::Stdio;
use std::time::{Duration, Instant};
use support::{Answer, Place, Server, Split, finish, run, run_with_input, signal, wait_for};

#[test]
fn quiet_prints_the_answer_byte_for_byte() {
    for (answer, want) in [
        ("plain", "plain\n"),
        ("two\n\n\n", "two\n"),
        ("a\nb\n", "a\nb\n"),
        (
            "  spaced \u{1b}[31mred\t日本 😀  ",
            "  spaced \u{1b}[31mred\t日本 😀  \n",
        ),
    ] {
        let p = Place::new("quiet");
        let s = Server::new(vec![Answer::text(answer)]);
        let ran = run(&mut p.cluade(&s, &["--quiet", "hi"])).expect(0);
        assert_eq!(ran.out(), want);
        s.check();
    }
}

#[test]
fn an_empty_answer_is_status_1_with_a_reason() {
    let p = Place::new("empty");
    let s = Server::new(vec![Answer::text("")]);
    let ran = run(&mut p.cluade(&s, &["--quiet", "hi"])).expect(1);
    assert_eq!(ran.out(), "");
    assert!(ran.stderr.contains("no answer"), "{}", ran.stderr);
}

#[test]
fn a_megabyte_of_answer() {
    let p = Place::new("mega");
    let text = "0123456789abcdef".repeat(65_536);
    let s = Server::new(vec![
        Answer::text(text.clone()),
        Answer::text(text.clone()).split(Split::Random(7)),
    ]);
    for _ in 0..2 {
        let ran = run(&mut p.cluade(&s, &["--quiet", "hi"])).expect(0);
        assert!(ran.stdout == (text.clone() + "\n").as_bytes());
    }
}

#[test]
fn invalid_utf8_from_the_server_becomes_a_replacement_character() {
    let p = Place::new("utf8");
    let body = b"data: {\"choices\":[{\"delta\":{\"content\":\"a\xff\xfeb\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let s = Server::new(vec![Answer::raw([&head[..], body].concat())]);
    let ran = run(&mut p.cluade(&s, &["--quiet", "hi"])).expect(0);
    assert_eq!(ran.out(), "a\u{FFFD}\u{FFFD}b\n");
}

#[test]
fn a_reader_that_leaves_is_a_quiet_end() {
    let p = Place::new("head");
    let s = Server::new(vec![Answer::text("x".repeat(1 << 20))]);
    let mut c = p.cluade(&s, &["--quiet", "hi"]);
    let mut child = c.spawn().unwrap();
    // The command holds the pipe's reading end until it is dropped.
    let head = {
        let mut head = std::process::Command::new("head");
        head.args(["-c", "1"])
            .stdin(child.stdout.take().unwrap())
            .stdout(Stdio::piped())
            .output()
            .unwrap()
    };
    assert_eq!(head.stdout, b"x");
    let ran = finish(child);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    assert_eq!(p.sessions().len(), 1);
}

#[test]
fn streams_split_at_every_byte_and_at_random_give_the_same() {
    let p = Place::new("split");
    p.work.write("f.txt", "alpha\n");
    let turn = |split: Split| {
        vec![
            Answer::calls(&[
                ("read", r#"{"filePath":"f.txt"}"#),
                ("bash", r#"{"command":"echo 'é😀'"}"#),
            ])
            .with_text("Zuerst „lesen“ 日本.")
            .reasoning("hm…")
            .split(split),
            Answer::text("fertig 😀 — done").split(split),
        ]
    };
    let script: Vec<Answer> = [Split::Whole, Split::Bytes]
        .into_iter()
        .chain((0..12).map(|i| Split::Random(i * 7919 + 3)))
        .flat_map(turn)
        .collect();
    let runs = script.len() / 2;
    let s = Server::new(script);
    let mut first = None;
    for _ in 0..runs {
        let ran = run(&mut p.cluade(&s, &["--json", "--no-session", "hi"])).expect(0);
        let events: Vec<serde_json::Value> = ran
            .out()
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .filter(|e: &serde_json::Value| e["type"] != "chunk" && e["type"] != "reasoning")
            .map(|mut e| {
                let o = e.as_object_mut().unwrap();
                o.remove("seconds");
                // Ids and counts carry the number of the request.
                for key in ["id", "total_tokens", "context_tokens", "prompt_tokens"] {
                    o.remove(key);
                }
                e
            })
            .collect();
        assert!(
            events
                .iter()
                .any(|e| e["type"] == "done" && e["answer"] == "fertig 😀 — done"),
            "{events:#?}"
        );
        match &first {
            None => first = Some(events),
            Some(first) => assert_eq!(first, &events),
        }
    }
    s.check();
}

#[test]
fn exit_statuses() {
    let p = Place::new("status");
    let case = |script: Vec<Answer>, args: &[&str], status: i32, out: &str| {
        let s = Server::new(script);
        let ran = run(&mut p.cluade(&s, args));
        assert_eq!(
            (ran.status, ran.out().as_str()),
            (status, out),
            "{args:?}\n{}",
            ran.stderr
        );
        s.check();
        ran.stderr
    };
    case(vec![Answer::text("fine")], &["-q", "x"], 0, "fine\n");
    let e = case(
        vec![Answer::status(
            401,
            r#"{"error":{"message":"no such key"}}"#,
        )],
        &["-q", "x"],
        1,
        "",
    );
    assert!(e.contains("no such key"), "{e}");
    let two = || {
        vec![
            Answer::bash("echo 1"),
            Answer::bash("echo 2"),
            Answer::text("never"),
        ]
    };
    let e = case(two(), &["-q", "--max-steps", "2", "x"], 3, "");
    assert!(e.contains("2 steps"), "{e}");
    let loops = vec![Answer::bash("echo same"); 6];
    let e = case(loops, &["-q", "x"], 3, "");
    assert!(e.contains("continue"), "{e}");
    let danger = || vec![Answer::bash("rm -rf /etc"), Answer::text("refused")];
    let e = case(danger(), &["-q", "x"], 4, "refused\n");
    assert!(e.contains("approve"), "{e}");
    case(danger(), &["-q", "-y", "x"], 4, "refused\n");
    case(vec![Answer::text("no block")], &["-x", "x"], 1, "");
    case(
        vec![Answer::text("a\n```sh\nuptime\n```\nb")],
        &["-x", "x"],
        0,
        "uptime\n",
    );
    case(
        vec![Answer::bash("sleep 60")],
        &["-q", "--timeout", "1", "x"],
        3,
        "",
    );
}

#[test]
fn a_denied_tool_is_no_matter_of_approval() {
    let p = Place::new("deny");
    p.home
        .write(".cluade/config.json", r#"{"permissions":{"bash":"deny"}}"#);
    let s = Server::new(vec![Answer::bash("touch made"), Answer::text("ok")]);
    run(&mut p.cluade(&s, &["-q", "x"])).expect(0);
    assert!(s.requests()[1].last().contains("bash") && !p.work.path("made").exists());
    let s = Server::new(vec![Answer::bash("touch made"), Answer::text("ok")]);
    run(&mut p.cluade(&s, &["-q", "-y", "x"])).expect(0);
    assert!(
        p.work.path("made").exists(),
        "-y stands above the configuration"
    );
}

#[test]
fn output_goes_to_the_file_too() {
    let p = Place::new("out");
    let s = Server::new(vec![Answer::text("to both\n\n"), Answer::text("x")]);
    let ran = run(&mut p.cluade(&s, &["-q", "-o", "answer.txt", "x"])).expect(0);
    assert_eq!(
        (ran.out().as_str(), p.work.read("answer.txt").as_str()),
        ("to both\n", "to both\n")
    );
    let ran = run(&mut p.cluade(&s, &["-q", "-o", "no/such/dir/a", "x"])).expect(2);
    assert!(
        ran.stderr.contains("no/such/dir") && s.count() == 1,
        "{}",
        ran.stderr
    );
}

#[test]
fn json_prints_one_event_a_line() {
    let p = Place::new("json");
    let s = Server::new(vec![
        Answer::bash("exit 3").reasoning("think"),
        Answer::text("done"),
    ]);
    let ran = run(&mut p.cluade(&s, &["--json", "x"])).expect(0);
    let events: Vec<serde_json::Value> = ran
        .out()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let types: Vec<&str> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert!(ran.out().lines().all(|l| l.starts_with("{\"type\":")));
    assert_eq!(types.first(), Some(&"session"));
    for t in [
        "step",
        "reasoning",
        "tool_call",
        "tool_result",
        "round_info",
        "chunk",
        "done",
    ] {
        assert!(types.contains(&t), "{t} is missing in {types:?}");
    }
    let find = |t: &str| events.iter().find(|e| e["type"] == t).unwrap();
    assert_eq!(find("tool_call")["arguments"]["command"], "exit 3");
    assert_eq!(
        (&find("tool_result")["ok"], &find("done")["exit"]),
        (&false.into(), &0.into())
    );
    assert_eq!(find("done")["answer"], "done");
    let s = Server::new(vec![Answer::status(403, "{}")]);
    let ran = run(&mut p.cluade(&s, &["--json", "x"])).expect(1);
    let error = ran
        .out()
        .lines()
        .map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap())
        .find(|e| e["type"] == "error");
    assert_eq!(error.unwrap()["class"], "auth");
}

#[test]
fn standard_input_is_prompt_or_attachment() {
    let p = Place::new("stdin");
    let s = Server::new(vec![Answer::text("ok"); 6]);
    let mut n = 0;
    let mut asked = |args: &[&str], input: Option<&[u8]>| {
        let mut c = p.cluade(&s, args);
        match input {
            Some(input) => run_with_input(&mut c, input).expect(0),
            None => run(&mut c).expect(0),
        };
        n += 1;
        s.requests()[n - 1].last()
    };
    assert!(asked(&["-q"], Some(b"from the pipe\n")).contains("from the pipe"));
    let both = asked(&["-q", "what is this?"], Some(b"line 1\nline 2\n"));
    assert!(both.contains("what is this?") && both.contains("line 1\nline 2\n"));
    p.work.write("a.txt", "attached");
    let files = asked(
        &["-q", "-f", "a.txt", "-f", "-", "compare"],
        Some(b"second"),
    );
    assert!(files.find("attached").unwrap() < files.find("second").unwrap());
    assert!(asked(&["-q", "nothing there"], None).ends_with("nothing there"));
    let big = "long line of a log\n".repeat(100_000);
    let cut = asked(&["-q", "big"], Some(big.as_bytes()));
    assert!(
        cut.len() < 500_000 && cut.contains(p.scratch.0.to_str().unwrap()),
        "{} {}",
        cut.len(),
        &cut[..300]
    );
    let ran = run_with_input(&mut p.cluade(&s, &["-q"]), b" \n");
    assert_eq!(ran.status, 2);
    let ran = run(&mut p.cluade(&s, &["-q"]));
    assert_eq!(ran.status, 2, "{}", ran.stderr);
}

#[test]
fn a_pipe_on_which_nothing_comes_is_said_and_given_up() {
    let p = Place::new("mute");
    p.home.write(".cluade/config.json", r#"{"stdin_wait": 2}"#);
    let s = Server::new(vec![Answer::text("ok")]);
    let start = Instant::now();
    let mut c = p.cluade(&s, &["-q", "hi"]);
    let mut child = c.stdin(Stdio::piped()).spawn().unwrap();
    let held = child.stdin.take();
    let ran = finish(child).expect(0);
    drop(held);
    assert!(start.elapsed() >= Duration::from_millis(1900));
    assert!(
        ran.stderr.contains("</dev/null") && ran.stderr.contains("stdin_wait"),
        "{}",
        ran.stderr
    );
}

#[test]
fn an_interrupt_ends_with_130_and_a_valid_conversation() {
    let p = Place::new("int");
    for (i, name) in ["INT", "TERM", "HUP"].into_iter().enumerate() {
        let s = Server::new(vec![Answer::calls(&[
            ("bash", r#"{"command":"echo up > up; sleep 60"}"#),
            ("bash", r#"{"command":"touch never"}"#),
        ])]);
        let _ = std::fs::remove_file(p.work.path("up"));
        let child = p.cluade(&s, &["-q", "hi"]).spawn().unwrap();
        wait_for("the command to run", || p.work.path("up").exists());
        let start = Instant::now();
        signal(child.id(), name);
        let ran = finish(child).expect([130, 143, 129][i]);
        assert!(
            start.elapsed() < Duration::from_millis(1500),
            "{:?}",
            start.elapsed()
        );
        assert_eq!(ran.out(), "");
        s.then(vec![Answer::text("went on")]);
        let ran = run(&mut p.cluade(&s, &["-q", "-c", "go on"])).expect(0);
        assert_eq!(ran.out(), "went on\n");
        let messages = s.requests().last().unwrap().messages();
        assert!(
            messages.iter().any(
                |m| m["role"] == "tool" && m["content"].as_str().unwrap().contains("cancelled")
            )
        );
        s.check();
        assert!(!p.work.path("never").exists());
    }
}

#[test]
fn an_interrupt_while_the_server_is_silent() {
    let p = Place::new("intwait");
    let s = Server::new(vec![Answer::silence()]);
    let child = p.cluade(&s, &["-q", "hi"]).spawn().unwrap();
    wait_for("the request", || s.count() == 1);
    let start = Instant::now();
    signal(child.id(), "INT");
    finish(child).expect(130);
    assert!(
        start.elapsed() < Duration::from_millis(1000),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn failures_are_retried_as_their_class_wants() {
    let p = Place::new("retry");
    let s = Server::new(vec![Answer::status(500, "{}"), Answer::text("second try")]);
    let ran = run(&mut p.cluade(&s, &["-q", "hi"])).expect(0);
    assert_eq!((ran.out().as_str(), s.count()), ("second try\n", 2));
    let s = Server::new(vec![
        Answer::status(429, r#"{"error":{"message":"slow down"}}"#).header("Retry-After: 1"),
        Answer::text("after a second"),
    ]);
    let start = Instant::now();
    run(&mut p.cluade(&s, &["-q", "hi"])).expect(0);
    assert!(start.elapsed() >= Duration::from_millis(1000) && s.count() == 2);
    let s = Server::new(vec![
        Answer::status(
            400,
            r#"{"error":{"message":"Unknown name \"thinking\": Cannot find field."}}"#,
        ),
        Answer::text("without it"),
        Answer::text("still without"),
    ]);
    run(&mut p.cluade(&s, &["-q", "hi"])).expect(0);
    assert!(
        s.requests()[0].json().get("thinking").is_some()
            && s.requests()[1].json().get("thinking").is_none()
    );
    run(&mut p.cluade(&s, &["-q", "again"])).expect(0);
    assert!(
        s.requests()[2].json().get("thinking").is_none(),
        "it is remembered"
    );
    let ran = run(&mut p.cluade(&Server::new(vec![Answer::status(401, "{}")]), &["-q", "hi"]));
    assert_eq!(ran.status, 1);
}

#[test]
fn a_stalled_server_ends_in_the_configured_time() {
    let p = Place::new("stall");
    p.home.write(
        ".cluade/config.json",
        r#"{"idle_timeout": 1, "stream": true}"#,
    );
    let s = Server::new(vec![Answer::text("half").stall(); 6]);
    let ran = run(&mut p.cluade(&s, &["-q", "--timeout", "20", "hi"]));
    assert!(ran.status == 1 || ran.status == 3, "{}", ran.status);
    assert!(s.count() >= 2, "{}", s.count());
}

#[test]
fn context_overflow_compacts_and_goes_on() {
    let p = Place::new("context");
    let s = Server::new(vec![
        Answer::bash("echo fact-one"),
        Answer::status(
            400,
            r#"{"error":{"code":"context_length_exceeded","message":"maximum context length is 100 tokens"}}"#,
        ),
        Answer::text("SUMMARY of it"),
        Answer::text("went on"),
    ]);
    let ran = run(&mut p.cluade(&s, &["-q", "the task"])).expect(0);
    assert_eq!(ran.out(), "went on\n");
    assert!(!ran.stderr.contains("context_length"), "{}", ran.stderr);
    let last = s.requests()[3].last();
    assert!(last.contains("SUMMARY of it") && last.contains("the task"));
    assert!(s.requests()[2].last().contains("fact-one"));
    s.check();
}

#[test]
fn compact_called_by_the_model_replaces_the_history() {
    let p = Place::new("compact");
    let s = Server::new(vec![
        Answer::bash("echo old-detail"),
        Answer::calls(&[("compact", r#"{"summary":"we did things"}"#)]),
        Answer::text("fin"),
        Answer::text("later"),
    ]);
    run(&mut p.cluade(&s, &["-q", "first task"])).expect(0);
    let after = s.requests()[2].messages();
    assert_eq!(after.len(), 2, "{after:#?}");
    let text = after[1]["content"].as_str().unwrap();
    assert!(text.contains("we did things") && !text.contains("old-detail"));
    run(&mut p.cluade(&s, &["-q", "-c", "next"])).expect(0);
    let resumed = s.requests()[3].messages();
    assert!(
        resumed.len() == 4
            && resumed[1]["content"]
                .as_str()
                .unwrap()
                .contains("we did things"),
        "{resumed:#?}"
    );
    assert!(
        std::fs::read_to_string(&p.sessions()[0])
            .unwrap()
            .contains("old-detail"),
        "the file is the archive"
    );
    s.check();
}

#[test]
fn show_tools_json_shows_the_raw_reply_and_the_calls() {
    let p = Place::new("debug");
    let s = Server::new(vec![
        Answer::calls(&[("bash", r#"{"workdir":"/","command":"true"}"#)]).reasoning("hm"),
        Answer::text("ok"),
    ]);
    let ran = run(&mut p.cluade(&s, &["-q", "--show-tools-json", "x"])).expect(0);
    assert_eq!(ran.out(), "ok\n");
    assert!(ran.stderr.contains("data: {"), "the raw body");
    assert!(
        ran.stderr.contains("1 tool calls, 2 bytes of reasoning"),
        "{}",
        ran.stderr
    );
    let pretty = "bash {\n  \"command\": \"true\",\n  \"workdir\": \"/\"\n}\n";
    let compact = "bash {\"command\":\"true\",\"workdir\":\"/\"}\n";
    assert!(
        ran.stderr.contains(pretty) && ran.stderr.contains(compact),
        "{}",
        ran.stderr
    );
}
