//! What sessions do when nothing breaks; locks, other layouts, lists, costs.

use super::*;
use std::os::unix::fs::MetadataExt;

#[test]
fn a_session_comes_back_as_it_was() {
    let place = Place::new();
    let store = place.store();
    let (mut session, warnings) = store.create(b"/root");
    assert_eq!(warnings, Vec::<String>::new());
    let id = session.id.clone();
    let path = session.path().unwrap().to_path_buf();
    assert_eq!(
        path,
        place.home().join("sessions").join([&id, ".json"].concat())
    );
    valid_json(&path);
    assert!(
        !place.home().join("last_session").exists(),
        "nothing was said yet"
    );
    session.set_origin("http://a/v1 m1");
    for n in 0..3 {
        turn(&mut session, n);
        assert_eq!(place.journals().len(), 1);
        assert_eq!(session.commit(), None);
        assert_eq!(place.journals().len(), 0);
        valid_json(&path);
    }
    session.set_origin("http://b/v1 m2");
    turn(&mut session, 3);
    assert_eq!(session.commit(), None);
    assert_eq!(
        std::fs::read(place.home().join("last_session")).unwrap(),
        id.as_bytes()
    );
    for (p, mode) in [
        (path.clone(), 0o600),
        (place.home(), 0o700),
        (place.home().join("sessions"), 0o700),
    ] {
        assert_eq!(std::fs::metadata(p).unwrap().mode() & 0o777, mode);
    }
    let json = valid_json(&path);
    assert_eq!(json["id"], id.as_str());
    assert_eq!(json["cwd"], "/root");
    assert_eq!(json["version"], 1);
    assert_eq!(json["messages"].as_array().unwrap().len(), 20);
    assert_eq!(json["steps"], 8);
    assert_eq!(json["total_tokens"], 4000);
    assert_eq!(json["context_tokens"], 103);
    assert_eq!(json["context_from"], 0);
    let (before, created) = (texts(&session.conversation), session.created.clone());
    drop(session);
    for name in [id.clone(), [&id, ".json"].concat(), id[..15].to_string()] {
        let (again, warnings) = store.open(&name).unwrap();
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!(texts(&again.conversation), before);
        assert_eq!(
            (again.steps, again.total_tokens, again.context_tokens),
            (8, 4000, 103)
        );
        assert_eq!(
            (again.created.as_str(), &again.cwd[..]),
            (created.as_str(), &b"/root"[..])
        );
        assert_eq!(again.origin(14), Some("http://a/v1 m1"));
        assert_eq!(again.origin(15), Some("http://b/v1 m2"));
    }
    let bytes = std::fs::read(&path).unwrap();
    let (last, _) = store.last().unwrap();
    assert_eq!(last.id, id);
    drop(last);
    assert_eq!(
        std::fs::read(&path).unwrap(),
        bytes,
        "opening writes nothing"
    );
}

#[test]
fn one_process_at_a_time() {
    let place = Place::new();
    let store = place.store();
    let (mut session, _) = store.create(b"/root");
    turn(&mut session, 0);
    session.commit();
    let id = session.id.clone();
    let error = store.open(&id).err().unwrap();
    assert!(error.what == What::InUse && error.text().contains(&id));
    turn(&mut session, 1);
    assert_eq!(session.commit(), None);
    drop(session);
    assert_eq!(store.open(&id).unwrap().0.conversation.len(), 10);
}

#[test]
fn compaction_moves_the_start_of_what_is_loaded() {
    let place = Place::new();
    let store = place.store();
    let (mut session, _) = store.create(b"/root");
    let id = session.id.clone();
    let mut system = Vec::new();
    message::system(&mut system, b"be brief");
    session.push(&system);
    session.set_origin("http://a/v1 m");
    for n in 0..4 {
        turn(&mut session, n);
        session.commit();
    }
    let at = session.conversation.len();
    session.push_user(b"summary");
    session.push_reply(&reply("", &[("z", "{}")]));
    assert!(
        !session.set_context_from(at + 1),
        "no user message from there on"
    );
    assert!(session.set_context_from(at));
    session.push_result("z", b"");
    session.set_origin("http://b/v1 m");
    session.push_reply(&reply("ok", &[]));
    assert_eq!(session.commit(), None);
    let path = session.path().unwrap().to_path_buf();
    drop(session);
    assert_eq!(valid_json(&path)["context_from"], 21);
    let bytes = std::fs::read(&path).unwrap();
    // With its trailer and without: the file's archive is not loaded.
    for cut in [
        bytes.len(),
        memchr::memmem::rfind(&bytes, b"\n],").unwrap() + 9,
    ] {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let (mut session, _) = store.open(&id).unwrap();
        let live = texts(&session.conversation);
        assert_eq!((live.len(), session.context_from()), (5, 1));
        assert!(live[0].contains("be brief") && live[1].contains("summary"));
        if cut == bytes.len() {
            assert_eq!(session.origin(3), Some("http://a/v1 m"));
            assert_eq!(session.origin(4), Some("http://b/v1 m"));
        }
        turn(&mut session, 9);
        assert_eq!(session.commit(), None);
        let json = valid_json(&path);
        assert_eq!(
            (&json["context_from"], &json["count"]),
            (&21.into(), &30.into())
        );
        assert_eq!(json["messages"].as_array().unwrap().len(), 30);
    }
}

const LUA_PRETTY: &str = r#"{
  "id": "20260529-201630-1000",
  "cwd": "/root",
  "created": "2026-05-29 20:16:30",
  "messages": [
    {"role": "system", "content": "You are cluade..."},
    {"role": "user", "content": "fix the bug in foo.lua"},
    {
      "role": "assistant",
      "content": "",
      "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\"p\":1}"}},
        {"id": "c2", "type": "function", "function": {"name": "read", "arguments": "{}"}}]
    },
    {"role": "tool", "tool_call_id": "c1", "content": "{\"ok\":true}"},
    {"role": "tool", "tool_call_id": "zz", "content": "nobody asked"},
    {"role": "user", "content": "and?"},
    {"role": "assistant", "content": "done"}
  ],
  "mood": {"a": [1,
    2]},
  "steps": 5,
  "total_tokens": 12345,
  "context_tokens": 8200
}
"#;

#[test]
fn files_of_the_lua_program_open_and_become_ours() {
    let single: serde_json::Value = serde_json::from_str(LUA_PRETTY).unwrap();
    for text in [LUA_PRETTY.to_string(), single.to_string()] {
        let place = Place::new();
        let dir = place.home().join("sessions");
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("20260529-201630-1000.json");
        std::fs::write(&path, &text).unwrap();
        let store = place.store();
        let mut list = Vec::new();
        store.list_text(&mut list);
        assert_eq!(
            String::from_utf8(list).unwrap(),
            "20260529-201630-1000  2026-05-29 20:16:30  7 messages  /root\n"
        );
        let (mut session, _) = store.open("20260529-2").unwrap();
        assert_eq!(
            (session.steps, session.total_tokens, session.context_tokens),
            (5, 12_345, 8200)
        );
        assert_eq!(
            (session.created.as_str(), &session.cwd[..]),
            ("2026-05-29 20:16:30", &b"/root"[..])
        );
        message::check(session.conversation.iter()).unwrap();
        assert_eq!(
            session.conversation.len(),
            7,
            "one result added, one dropped"
        );
        assert_eq!(session.commit(), None);
        assert_eq!(
            std::fs::read(&path).unwrap(),
            text.as_bytes(),
            "only opened"
        );
        turn(&mut session, 1);
        session.step();
        assert_eq!(session.commit(), None);
        assert!(
            store.open("20260529-2").is_err(),
            "the lock holds over the conversion"
        );
        let json = valid_json(&path);
        assert_eq!(json["mood"], single["mood"]);
        assert_eq!(json["messages"].as_array().unwrap().len(), 12);
        assert_eq!(
            json["messages"][2]["tool_calls"],
            single["messages"][2]["tool_calls"]
        );
        assert_eq!(
            std::fs::read(path.with_extension("damaged")).unwrap(),
            text.as_bytes()
        );
        turn(&mut session, 2);
        assert_eq!(session.commit(), None);
        assert_eq!(valid_json(&path)["count"], 17);
        let before = texts(&session.conversation);
        drop(session);
        assert_eq!(texts(&store.open("2026").unwrap().0.conversation), before);
    }
}

#[test]
fn hostile_files_give_a_valid_conversation_or_an_error() {
    let place = Place::new();
    for cut in 0..LUA_PRETTY.len() {
        load_bytes(place.dir.path(), &LUA_PRETTY.as_bytes()[..cut]);
    }
    let deep = ["{\"messages\":[", &"[".repeat(5000)].concat();
    let cases: &[(&str, usize)] = &[
        ("", 0),
        ("\0\0\0\0", 0),
        ("not json at all", 0),
        (&deep, 0),
        (
            "{\"messages\":[1,null,\"x\",{},{\"role\":5},{\"role\":\"user\",\"content\":\"u\"}]}",
            1,
        ),
        (
            "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"u\"}]}",
            1,
        ),
        (
            "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"system\",\"content\":\"s\"}]}",
            2,
        ),
        (
            "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"\",\"function\":{}}]},{\"role\":\"tool\",\"tool_call_id\":\"\",\"content\":\"\"}]}",
            3,
        ),
        (
            "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\"r\",\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":\"x\",\"arguments\":\"{\"}}]}]}",
            3,
        ),
        (
            "{\"id\":\"x\",\"messages\":[\n{\"role\":\"user\",\"content\":\"u\"}\n],\"steps\":1,\"total_tokens\":1,\"context_tokens\":1,\"context_from\":99,\"count\":1,\"origins\":[[99999999999,\"x\"],7]\n}\n",
            1,
        ),
        (
            "{\"id\":\"x\",\"messages\":[\n{\"role\":\"user\",\"content\":\"u\"}\n],\"steps\":1,\"total_tokens\":1,\"context_tokens\":1,\"context_from\":1,\"count\":1,\"origins\":[]\n}\n",
            1,
        ),
    ];
    for (text, want) in cases {
        assert_eq!(
            load_bytes(place.dir.path(), text.as_bytes()).len(),
            *want,
            "{text}"
        );
    }
    let path = place.dir.path().join("probe");
    for text in ["{}", "[]", "7", "{\"messages\":7}"] {
        std::fs::write(&path, text).unwrap();
        assert!(load::load(&File::open(&path).unwrap()).is_err(), "{text}");
    }
}

#[test]
fn ephemeral_sessions_and_stores_leave_no_trace() {
    let place = Place::new();
    let store = place.store();
    let mut session = Session::ephemeral(b"/root");
    turn(&mut session, 0);
    assert_eq!((session.step(), session.commit()), (None, None));
    assert_eq!((session.id.as_str(), session.path()), ("", None));
    drop(session);
    assert_eq!(store.last().err().map(|e| e.what), Some(What::Empty));
    assert_eq!(store.ids(), Vec::<String>::new());
    assert_eq!(std::fs::read_dir(place.dir.path()).unwrap().count(), 0);
}

#[test]
fn a_session_in_which_nothing_was_said_is_not_kept() {
    let place = Place::new();
    let store = place.store();
    let (mut session, _) = store.create(b"/root");
    let path = session.path().unwrap().to_path_buf();
    assert!(path.exists());
    let mut system = Vec::new();
    message::system(&mut system, b"be brief");
    session.push(&system);
    session.step();
    session.commit();
    drop(session);
    assert!(!path.exists() && place.journals().is_empty());
    assert!(!place.home().join("last_session").exists());
}

#[test]
fn without_a_home_sessions_go_to_scratch() {
    let place = Place::new();
    std::fs::write(place.home(), b"a file").unwrap();
    for store in [
        place.store(),
        Store::new(None, None, place.scratch().to_str().unwrap().as_bytes()),
    ] {
        let (mut session, warnings) = store.create(b"/root");
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("reboot"), "{warnings:?}");
        turn(&mut session, 0);
        assert_eq!(session.commit(), None);
        let id = session.id.clone();
        drop(session);
        assert_eq!(store.last().unwrap().0.id, id);
    }
    // A session directory of its own.
    let dir = place.dir.path().join("elsewhere");
    let home = place.dir.path().join("h2");
    let store = Store::new(
        Some(home.to_str().unwrap().as_bytes()),
        dir.to_str(),
        place.scratch().to_str().unwrap().as_bytes(),
    );
    let (mut session, warnings) = store.create(b"/root");
    assert_eq!(warnings, Vec::<String>::new());
    turn(&mut session, 0);
    session.commit();
    assert!(session.path().unwrap().starts_with(&dir) && home.join("last_session").exists());
    assert!(!place.scratch().join("last_session").exists());
}

#[test]
fn names_that_fit_nothing_or_too_much() {
    let place = Place::new();
    let store = place.store();
    let error = store.find("x").unwrap_err();
    assert_eq!(
        (error.what, error.text().as_str()),
        (What::Missing, "no session 'x': there are no sessions yet")
    );
    let dir = place.home().join("sessions");
    std::fs::create_dir_all(&dir).unwrap();
    for id in [
        "20260101-000000-1000",
        "20260101-000000-1001",
        "20260202-000000-1000",
    ] {
        std::fs::write(dir.join([id, ".json"].concat()), LUA_PRETTY).unwrap();
    }
    assert_eq!(store.find("202602").as_deref(), Ok("20260202-000000-1000"));
    assert_eq!(
        store.find("20260101-000000-1001.json").as_deref(),
        Ok("20260101-000000-1001")
    );
    let error = store.find("20260101").unwrap_err();
    assert_eq!(error.what, What::Ambiguous);
    assert_eq!(
        error.text(),
        "'20260101' could be 20260101-000000-1001, 20260101-000000-1000"
    );
    let Err(error) = store.find("20260102-000000-1000") else {
        panic!("none fits")
    };
    assert!(
        error.text().contains("20260202-000000-1000"),
        "{}",
        error.text()
    );
    for name in ["", "../x", "/etc/passwd", "2026*"] {
        assert!(store.open(name).is_err(), "{name}");
    }
    // Two sessions of one second, and the list.
    let (mut a, _) = store.create(b"/a\x1b[2J");
    let (b, _) = store.create(b"/b");
    assert!(a.id < b.id);
    assert!(a.id.as_str() > "20260202-000000-1000");
    turn(&mut a, 0);
    a.commit();
    let mut text = Vec::new();
    store.list_text(&mut text);
    let text = String::from_utf8(text).unwrap();
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows.len(), 4, "empty sessions are not listed: {text}");
    assert_eq!(
        rows[0],
        format!("{}  {}  5 messages  /a^[[2J", a.id, a.created)
    );
    assert!(rows[3].starts_with("20260101-000000-1000  2026-05-29 20:16:30  7 messages  /root"));
}

#[test]
fn pruning_deletes_what_is_old_and_unused() {
    let place = Place::new();
    let store = place.store();
    let mut text = Vec::new();
    store.list_text(&mut text);
    assert!(text.starts_with(b"No sessions yet"));
    let (mut sessions, mut paths) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let (mut s, _) = store.create(b"/");
        turn(&mut s, 0);
        s.commit();
        paths.push(s.path().unwrap().to_path_buf());
        sessions.push(s);
    }
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(10 * 86_400);
    for path in &paths[..2] {
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(old)
            .unwrap();
    }
    let checkpoints = sessions[0].directory().unwrap();
    std::fs::create_dir(&checkpoints).unwrap();
    std::fs::write(checkpoints.join("x"), b"").unwrap();
    sessions.remove(0);
    assert_eq!(store.prune(11).map(|p| (p.deleted, p.kept)), Ok((0, 0)));
    let pruned = store.prune(9).unwrap();
    assert_eq!((pruned.deleted, pruned.kept), (1, 1));
    assert!(pruned.bytes > 500);
    assert_eq!(
        paths.iter().map(|p| p.exists()).collect::<Vec<_>>(),
        [false, true, true]
    );
    assert!(!checkpoints.exists());
}

#[test]
fn what_a_turn_costs() {
    let place = Place::new();
    let (mut session, _) = place.store().create(b"/root");
    session.set_origin("https://api.example.com/v1 some-model");
    turn(&mut session, 0);
    session.commit();
    // A long archive.
    let big = vec![b'x'; 100_000];
    for _ in 0..50 {
        session.push_user(&big);
    }
    session.commit();
    let mut spent = std::time::Duration::MAX;
    for n in 1..20 {
        let before = session.conversation.bytes().len();
        turn(&mut session, n);
        if n % 3 == 0 {
            session.push_user(&big[..n * 1000]);
        }
        let new = (session.conversation.bytes().len() - before) as u64;
        fault::clear();
        let start = std::time::Instant::now();
        assert_eq!(session.commit(), None);
        spent = spent.min(start.elapsed());
        assert!(
            fault::bytes() <= new + new / 20 + 4096,
            "{} for {new}",
            fault::bytes()
        );
        assert_eq!(fault::others(), 1, "one flush");
    }
    assert!(spent.as_millis() < 20, "{spent:?}");
    // And a step.
    turn(&mut session, 99);
    fault::clear();
    session.step();
    assert!(fault::bytes() < 4096 && fault::others() == 0);
    valid_json(session.path().unwrap());
}
