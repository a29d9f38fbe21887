//! Sessions through the real binary: resume, list, crashes, full disks, locks, sessions of other programs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::process::Command;
use support::{Answer, Dir, Place, Server, finish, run, run_with_input, wait_for};

#[test]
fn continue_and_resume() {
    let p = Place::new("resume");
    let s = Server::new(vec![
        Answer::text("one"),
        Answer::text("two"),
        Answer::text("three"),
        Answer::text("four"),
    ]);
    let none = run(&mut p.cluade(&s, &["-q", "-c", "x"])).expect(1);
    assert!(none.stderr.contains("no session"), "{}", none.stderr);
    run(&mut p.cluade(&s, &["-q", "first"])).expect(0);
    run(&mut p.cluade(&s, &["-q", "-c", "second"])).expect(0);
    let id = std::fs::read_to_string(p.home.path(".cluade/last_session")).unwrap();
    run(&mut p.cluade(&s, &["-q", "-r", &format!("{id}.json"), "third"])).expect(0);
    let messages = s.requests()[2].messages();
    let roles: Vec<&str> = messages
        .iter()
        .map(|m| m["role"].as_str().unwrap())
        .collect();
    assert_eq!(
        roles,
        ["system", "user", "assistant", "user", "assistant", "user"]
    );
    assert_eq!(p.sessions().len(), 1);
    let ran = run(&mut p.cluade(&s, &["-q", "-r", "20991231", "x"])).expect(1);
    assert!(
        ran.stderr.contains("20991231") && ran.stderr.contains(&id),
        "{}",
        ran.stderr
    );
    let list = run(p.command().arg("--list-sessions")).expect(0);
    assert!(
        list.out().contains(&id) && list.out().contains(p.work.0.to_str().unwrap()),
        "{}",
        list.out()
    );
    let file: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&p.sessions()[0]).unwrap()).unwrap();
    for field in [
        "id",
        "cwd",
        "created",
        "messages",
        "steps",
        "total_tokens",
        "context_tokens",
    ] {
        assert!(file.get(field).is_some(), "{field}");
    }
    s.check();
}

#[test]
fn no_session_leaves_no_trace() {
    let p = Place::new("none");
    let s = Server::new(vec![Answer::bash("echo x"), Answer::text("one")]);
    run(&mut p.cluade(&s, &["-q", "--no-session", "first"])).expect(0);
    assert!(!p.home.path(".cluade").exists());
    let left: Vec<_> = std::fs::read_dir(p.scratch.0.join(format!("cluade-{}", id_of_user())))
        .into_iter()
        .flatten()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

fn id_of_user() -> String {
    String::from_utf8(Command::new("id").arg("-u").output().unwrap().stdout)
        .unwrap()
        .trim()
        .to_string()
}

#[test]
fn a_second_process_is_told_or_gets_its_own() {
    let p = Place::new("lock");
    let s = Server::new(vec![
        Answer::text("one"),
        Answer::bash("touch up; while [ ! -e go ]; do sleep 0.05; done"),
        Answer::text("two"),
    ]);
    run(&mut p.cluade(&s, &["-q", "first"])).expect(0);
    let child = p.cluade(&s, &["-q", "-c", "long"]).spawn().unwrap();
    wait_for("the command", || p.work.path("up").exists());
    let ran = run(&mut p.cluade(&s, &["-q", "-c", "me too"])).expect(1);
    assert!(ran.stderr.contains("in use"), "{}", ran.stderr);
    p.work.write("go", "");
    finish(child).expect(0);
}

/// kill -9 at 30 moments of a 20-step run: each time the session loads, goes on with a valid conversation, and has lost
/// no step that was sent.
#[test]
fn killed_at_any_moment_the_session_goes_on() {
    for moment in 0..30u64 {
        let p = Place::new("kill");
        let script: Vec<Answer> = (0..20)
            .map(|i| Answer::bash(&format!("echo step-{i}; echo {i} >> log")))
            .collect();
        let s = Server::new(script);
        let mut child = p.cluade(&s, &["-q", "do it"]).spawn().unwrap();
        // Each moment waits for another request and then a little longer, so that the kill falls into different places.
        let wanted = (moment * 2 / 3) as usize;
        wait_for("requests", || s.count() > wanted.min(19));
        std::thread::sleep(std::time::Duration::from_micros((moment * 977) % 4000));
        child.kill().unwrap();
        let _ = child.wait();
        let sent = s.requests();
        let go_on = Server::new(vec![Answer::text("resumed")]);
        let ran = run(&mut p.cluade(&go_on, &["-q", "-c", "go on"]));
        assert_eq!(
            (ran.status, ran.out().as_str()),
            (0, "resumed\n"),
            "moment {moment}: {}",
            ran.stderr
        );
        go_on.check();
        let before = sent.last().unwrap().messages();
        let after = go_on.requests()[0].messages();
        for (i, (a, b)) in before.iter().zip(&after).enumerate() {
            // A prompt without a reply yet is joined with the next one on its way out.
            let text =
                |m: &serde_json::Value| m["content"].as_str().unwrap_or_default().to_string();
            let joined =
                a["role"] == "user" && b["role"] == "user" && text(b).starts_with(&text(a));
            assert!(a == b || joined, "moment {moment}, message {i}: {a} {b}");
        }
        assert!(
            after.last().unwrap()["content"]
                .as_str()
                .unwrap()
                .ends_with("go on")
        );
        assert!(after.len() >= before.len(), "moment {moment}");
    }
}

/// On a file system of 64 KiB that fills up, no turn ends early, and what was saved before stays.
#[test]
fn a_full_disk_loses_no_turn_in_progress_and_no_earlier_one() {
    let p = Place::new("full");
    let disk = Dir::new("disk");
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=400k", "tmpfs"])
        .arg(&disk.0)
        .status();
    if !mount.is_ok_and(|s| s.success()) {
        return support::skip("root, to mount a small file system");
    }
    let home = disk.path("home");
    for fill in (0..24).map(|i| 400 - i * 17) {
        let _ = std::fs::remove_dir_all(&home);
        let filler = disk.path("filler");
        let _ = std::fs::remove_file(&filler);
        let s = Server::new(vec![
            Answer::text("first answer"),
            Answer::bash("head -c 9000 /dev/zero | tr '\\0' y"),
            Answer::text("second answer"),
        ]);
        run(p.cluade(&s, &["-q", "one"]).env("CLUADE_HOME", &home)).expect(0);
        // Fill up, so that less and less room is left for the second turn.
        let _ = std::fs::write(&filler, vec![b'x'; 1024 * fill]);
        let ran = run(p.cluade(&s, &["-q", "-c", "two"]).env("CLUADE_HOME", &home));
        assert_eq!(
            (ran.status, ran.out().as_str()),
            (0, "second answer\n"),
            "{fill}: {}",
            ran.stderr
        );
        s.check();
        let _ = std::fs::remove_file(&filler);
        let s = Server::new(vec![Answer::text("third")]);
        run(p
            .cluade(&s, &["-q", "-c", "three"])
            .env("CLUADE_HOME", &home))
        .expect(0);
        s.check();
        let body = String::from_utf8_lossy(&s.requests()[0].body).into_owned();
        assert!(
            body.contains("first answer") && body.contains("second answer"),
            "{fill}"
        );
    }
    assert!(
        Command::new("umount")
            .arg(&disk.0)
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn a_session_of_the_lua_program_goes_on() {
    let p = Place::new("lua");
    p.home.write(
        ".cluade/sessions/20260529-201630-1000.json",
        r#"{"id":"20260529-201630-1000","cwd":"/root","created":"2026-05-29 20:16:30","messages":[{"role":"system","content":"old"},{"role":"user","content":"fix foo"},{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"{\"status\":\"ok\"}"},{"role":"assistant","content":"fixed"}],"steps":5,"total_tokens":12345,"context_tokens":8200}"#,
    );
    let s = Server::new(vec![Answer::text("and more"), Answer::text("again")]);
    let ran = run(&mut p.cluade(&s, &["-q", "-r", "20260529", "more"])).expect(0);
    assert!(ran.stderr.contains("/root"), "{}", ran.stderr);
    run(&mut p.cluade(&s, &["-q", "-c", "again"])).expect(0);
    let messages = s.requests()[1].messages();
    assert_eq!(messages.iter().filter(|m| m["role"] == "system").count(), 1);
    assert!(
        messages.iter().any(|m| m["content"] == "fixed") && messages.len() == 8,
        "{messages:#?}"
    );
    s.check();
}

#[test]
fn odd_environments() {
    let p = Place::new("odd");
    let s = Server::new(vec![Answer::text("ok"); 3]);
    let mut c = p.cluade(&s, &["-q", "x"]);
    run(c
        .env_remove("HOME")
        .env("CLUADE_HOME", p.home.path("elsewhere")))
    .expect(0);
    assert!(p.home.path("elsewhere/last_session").exists());
    let file = p.home.write("file", "not a directory");
    let ran = run(p
        .cluade(&s, &["-q", "x"])
        .env("CLUADE_HOME", file.join("below")))
    .expect(0);
    assert!(ran.stderr.contains("warning"), "{}", ran.stderr);
}

#[test]
fn several_lines_through_a_pipe_are_a_conversation() {
    let p = Place::new("repl");
    let s = Server::new(vec![
        Answer::bash("rm -rf /etc"),
        Answer::text("as you like"),
        Answer::text("hello again"),
    ]);
    let input = b"/help\n/modle x\nfirst\nn\nsecond\n/cost\n/exit\nnever\n";
    let ran = run_with_input(&mut p.cluade(&s, &["--repl"]), input).expect(0);
    let out = ran.out();
    assert!(
        out.contains("/resume") && out.contains("did you mean /model"),
        "{out}"
    );
    assert!(
        out.contains("as you like") && out.contains("hello again") && out.contains("% context"),
        "{out}"
    );
    assert!(
        s.requests()[1].last().contains("declined"),
        "the next line of a pipe answers the question"
    );
    assert_eq!(s.count(), 3);
    assert!(!out.contains('\u{1b}'), "no colour into a pipe");
    s.check();
}

#[test]
fn stop_answers_every_open_call() {
    let p = Place::new("stop");
    let s = Server::new(vec![
        Answer::calls(&[
            ("bash", r#"{"command":"rm -rf /usr"}"#),
            ("bash", r#"{"command":"touch made"}"#),
            ("read", r#"{"filePath":"x"}"#),
        ]),
        Answer::text("next turn"),
    ]);
    let ran = run_with_input(&mut p.cluade(&s, &["--repl"]), b"go\ns\nand now?\n").expect(0);
    assert!(
        ran.out().contains("next turn") && !p.work.path("made").exists(),
        "{}",
        ran.out()
    );
    s.check();
}

#[test]
fn modes_are_enforced_at_the_call() {
    let p = Place::new("modes");
    let s = Server::new(vec![
        Answer::calls(&[
            ("write", r#"{"filePath":"made.rs","content":"x"}"#),
            ("bash", r#"{"command":"touch made2"}"#),
        ]),
        Answer::text("ok"),
        Answer::calls(&[
            ("write", r#"{"filePath":"plan.md","content":"x"}"#),
            ("write", r#"{"filePath":"made3.rs","content":"x"}"#),
        ]),
        Answer::text("ok"),
    ]);
    run(&mut p.cluade(&s, &["-q", "--mode", "ask", "x"])).expect(0);
    run(&mut p.cluade(&s, &["-q", "--mode", "architect", "x"])).expect(0);
    let made: Vec<_> = std::fs::read_dir(&p.work.0)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(made, ["plan.md"]);
    let names = |n: usize| {
        s.requests()[n].json()["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| t["function"]["name"].as_str().unwrap().to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(0), ["read", "glob", "grep", "compact"]);
    assert!(!names(2).contains(&"bash".to_string()));
}

#[test]
fn each_request_is_a_prefix_of_the_next() {
    let p = Place::new("prefix");
    let mut script: Vec<Answer> = (0..15)
        .map(|i| Answer::bash(&format!("echo {i}")).reasoning("r"))
        .collect();
    script.push(Answer::text("done"));
    script.extend((0..10).map(|i| Answer::bash(&format!("echo more {i}"))));
    script.push(Answer::text("done again"));
    let s = Server::new(script);
    run(&mut p.cluade(&s, &["-q", "x"])).expect(0);
    run(&mut p.cluade(&s, &["-q", "-c", "y"])).expect(0);
    let requests = s.requests();
    assert_eq!(requests.len(), 27);
    for pair in requests.windows(2) {
        let end = |body: &[u8]| memchr::memmem::find(body, b"],\"tools\":").unwrap();
        let (a, b) = (
            &pair[0].body[..end(&pair[0].body)],
            &pair[1].body[..end(&pair[1].body)],
        );
        assert!(b.starts_with(a) && b.len() > a.len());
    }
    s.check();
}

#[test]
fn record_and_replay() {
    let p = Place::new("record");
    let s = Server::new(vec![
        Answer::bash("echo recorded > f"),
        Answer::text("the end"),
    ]);
    let mut c = p.cluade(
        &s,
        &[
            "-q",
            "--record",
            "tape.jsonl",
            "--api-key",
            "sk-verysecretkey0123456789",
            "x",
        ],
    );
    let live = run(&mut c).expect(0);
    let tape = p.work.read("tape.jsonl");
    assert!(
        tape.lines().count() == 2 && !tape.contains("verysecret"),
        "{tape}"
    );
    std::fs::remove_file(p.work.path("f")).unwrap();
    let replayed = run(p.command().args(["-q", "--replay", "tape.jsonl", "x"])).expect(0);
    assert_eq!(live.stdout, replayed.stdout);
    assert_eq!(p.work.read("f"), "recorded\n");
    let over = run(p.command().args(["-q", "-c", "--replay", "/dev/null", "x"])).expect(1);
    assert!(over.stderr.contains("recording"), "{}", over.stderr);
}
