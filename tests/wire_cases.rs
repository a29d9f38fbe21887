//! Replays the corpus of server replies at library level. Each case is `tests/wire/NNN-name/` with the bytes of the
//! reply (`response.http`) and what must be concluded from them (`expect.json`). Every case is fed whole, one byte at a
//! time and in random splits: the conclusion must be the same.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cluade::provider::reply::Assembler;
use cluade::provider::transport::{Error, Head};
use cluade::provider::{Adapt, Class, Delta, Failure, Finish, Reply, Stage};
use serde_json::Value;
use std::path::Path;

const TOOLS: [&str; 6] = ["read", "write", "edit", "bash", "glob", "grep"];

/// A reply as a transport would deliver it: head, body, and whether the body was whole.
struct Response {
    head: Head,
    body: Vec<u8>,
    end: Result<(), Error>,
}

fn response(raw: &[u8]) -> Response {
    let split = raw.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let text = std::str::from_utf8(&raw[..split]).unwrap();
    let mut lines = text.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let headers: Vec<(String, String)> = lines
        .map(|l| l.split_once(':').unwrap())
        .map(|(n, v)| (n.trim().to_ascii_lowercase(), v.trim().to_string()))
        .collect();
    let raw = &raw[split + 4..];
    let get = |name: &str| headers.iter().find(|(n, _)| n == name).map(|(_, v)| v);
    let (body, whole) = if get("transfer-encoding").is_some_and(|v| v.contains("chunked")) {
        unchunk(raw)
    } else if let Some(n) = get("content-length") {
        let n: usize = n.parse().unwrap();
        (raw[..n.min(raw.len())].to_vec(), raw.len() >= n)
    } else {
        (raw.to_vec(), true)
    };
    let head = Head {
        status: status.parse().unwrap(),
        headers: headers
            .iter()
            .map(|(n, v)| [n, ":", v, "\n"].concat())
            .collect(),
    };
    let end = if whole { Ok(()) } else { Err(broken()) };
    Response { head, body, end }
}

fn broken() -> Error {
    Error {
        stage: Stage::Body,
        transient: true,
        cancelled: false,
        message: "the connection closed inside the body".into(),
    }
}

fn unchunk(mut raw: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(line) = raw.windows(2).position(|w| w == b"\r\n") else {
            return (body, false);
        };
        let size = std::str::from_utf8(&raw[..line]).unwrap();
        let size = usize::from_str_radix(size.split(';').next().unwrap(), 16).unwrap();
        if size == 0 {
            return (body, true);
        }
        raw = &raw[line + 2..];
        body.extend_from_slice(&raw[..size.min(raw.len())]);
        if raw.len() < size + 2 {
            return (body, false);
        }
        raw = &raw[size + 2..];
    }
}

/// What a replay gave, and what was shown on the way.
struct Played {
    result: Result<Reply, Failure>,
    text: Vec<u8>,
    reasoning: Vec<u8>,
}

fn play(response: &Response, cuts: &mut dyn FnMut(usize) -> usize) -> Played {
    let mut assembler = Assembler::new(&TOOLS);
    assembler.head(&response.head);
    let (mut text, mut reasoning) = (Vec::new(), Vec::new());
    let mut rest = response.body.as_slice();
    let mut end = response.end.clone();
    while !rest.is_empty() {
        let n = cuts(rest.len()).clamp(1, rest.len());
        let more = assembler.push(&rest[..n], &mut |delta| match delta {
            Delta::Text(t) => {
                assert!(std::str::from_utf8(t).is_ok(), "half a character was shown");
                text.extend_from_slice(t);
            }
            Delta::Reasoning(t) => {
                assert!(std::str::from_utf8(t).is_ok(), "half a character was shown");
                reasoning.extend_from_slice(t);
            }
        });
        if !more {
            // The transport was told to stop, which is a success.
            end = Ok(());
            break;
        }
        rest = &rest[n..];
    }
    Played {
        result: assembler.finish(end).map_err(|e| *e),
        text,
        reasoning,
    }
}

/// What the corpus calls a result: kind and error class.
fn kind(result: &Result<Reply, Failure>) -> (&'static str, Option<&'static str>) {
    match result {
        Ok(_) => ("ok", None),
        Err(f) => match f.class {
            Class::Transient => ("retry", Some("transient")),
            Class::RateLimit => ("retry", Some("rate_limit")),
            Class::Unsupported => ("retry", Some("fatal")),
            Class::Context => ("compact", Some("context")),
            Class::Auth => ("error", Some("auth")),
            Class::Billing => ("error", Some("billing")),
            Class::Fatal => ("error", Some("fatal")),
            Class::Cancelled => ("cancelled", None),
        },
    }
}

fn check_failure(failure: &Failure, want: &Value) {
    let message = &failure.message;
    assert!(
        !message.is_empty() && message.len() < 600 && !message.contains('\n'),
        "{message:?}"
    );
    if let Some(word) = want["must_mention"].as_str() {
        let (message, word) = (message.to_lowercase(), word.to_lowercase());
        assert!(message.contains(&word), "{message:?} must mention {word:?}");
    }
    if let Some(ms) = want["retry_after_ms"].as_u64() {
        assert_eq!(failure.retry_after, Some(ms), "retry_after");
    }
    let adapt = &want["adapt"];
    let text = |name: &str| adapt[name].as_str().map(String::from);
    if let Some(field) = text("add_message_field") {
        assert_eq!(failure.adapt, Some(Adapt::AddMessageField(field)));
    } else if let Some(field) = text("drop_message_field") {
        assert_eq!(failure.adapt, Some(Adapt::StripMessageField(field)));
    } else if let Some(field) = text("drop") {
        assert_eq!(failure.adapt, Some(Adapt::DropField(field)));
    } else if adapt["rename"].is_object() {
        assert_eq!(failure.adapt, Some(Adapt::RenameMaxTokens));
    } else if let Some(n) = adapt["set_max_tokens_below"].as_u64() {
        let fits = matches!(failure.adapt, Some(Adapt::MaxTokens(m)) if m > 0 && m < n);
        assert!(fits, "{:?} must be below {n}", failure.adapt);
    }
}

fn check_reply(played: &Played, reply: &Reply, want: &Value) {
    let trim = want["compare_trim"].as_bool().unwrap_or(false);
    let text = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes).expect("valid UTF-8");
        if trim { text.trim() } else { text }.to_string()
    };
    let content = text(&reply.content);
    let alternatives = want["content_alt"].as_array().cloned().unwrap_or_default();
    if !alternatives.contains(&Value::from(content.clone())) {
        assert_eq!(content, want["content"].as_str().unwrap(), "content");
    }
    assert_eq!(
        text(&reply.reasoning),
        want["reasoning"].as_str().unwrap(),
        "reasoning"
    );
    let mut ids: Vec<&str> = reply.calls.iter().map(|c| c.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert!(
        ids.len() == reply.calls.len() && !ids.contains(&""),
        "ids {ids:?}"
    );
    let (good, bad): (Vec<_>, Vec<_>) = reply.calls.iter().partition(|c| c.fault.is_none());
    let calls = want["tool_calls"].as_array().unwrap();
    assert_eq!(good.len(), calls.len(), "calls {:?}", reply.calls);
    for (call, want) in good.iter().zip(calls) {
        let id = want["id"].as_str().unwrap();
        assert!(
            id == "*" || id == call.id,
            "id {:?} must be {id:?}",
            call.id
        );
        assert_eq!(call.name, want["name"].as_str().unwrap());
        let arguments: Value = serde_json::from_slice(&call.arguments).unwrap();
        assert_eq!(arguments, want["arguments"]);
        if let Some(extra) = want.get("extra_content") {
            let members = [b"{", call.extra.as_slice(), b"}"].concat();
            let members: Value = serde_json::from_slice(&members).unwrap();
            assert_eq!(&members["extra_content"], extra);
        }
    }
    let none = Vec::new();
    let invalid = want["invalid_tool_calls"].as_array().unwrap_or(&none);
    assert_eq!(bad.len(), invalid.len(), "invalid calls {:?}", reply.calls);
    for (call, want) in bad.iter().zip(invalid) {
        let id = want["id"].as_str().unwrap();
        assert!(
            id == "*" || id == call.id,
            "id {:?} must be {id:?}",
            call.id
        );
        assert_eq!(call.name, want["name"].as_str().unwrap());
    }
    let finish = match reply.finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::Length => "length",
        Finish::ContentFilter => "content_filter",
    };
    assert_eq!(Some(finish), want["finish"].as_str(), "finish");
    let usage = |pick: fn(&cluade::provider::Usage) -> u64| reply.usage.as_ref().map(pick);
    assert_eq!(
        usage(|u| u.prompt),
        want["prompt_tokens"].as_u64(),
        "prompt tokens"
    );
    assert_eq!(
        usage(|u| u.completion),
        want["completion_tokens"].as_u64(),
        "completion tokens"
    );
    if let Some(n) = want["cached_tokens"].as_u64() {
        assert_eq!(usage(|u| u.cached), Some(n), "cached tokens");
    }
    if let Some(field) = want["replay"]["reasoning_field"].as_str() {
        assert_eq!(reply.reasoning_field, Some(field));
    }
    if want["replay"]["no_reasoning_field"].as_bool() == Some(true) {
        assert_eq!(reply.reasoning_field, None);
    }
    // The eye sees all of the answer, in one colour or the other.
    if played.result.is_ok() {
        let shown = [played.reasoning.as_slice(), &played.text].concat().len();
        assert!(
            shown >= reply.content.len(),
            "{} of {} shown",
            shown,
            reply.content.len()
        );
    }
}

/// The case's verdict on one replay; panics when it is wrong.
fn check(played: &Played, want: &Value) {
    let (kind, class) = kind(&played.result);
    let said = played.result.as_ref().err().map(|f| f.message.clone());
    let allowed = [want["kind"].as_str(), want["kind_alt"].as_str()];
    assert!(
        allowed.contains(&Some(kind)),
        "{kind} is not among {allowed:?}: {said:?}"
    );
    match &played.result {
        _ if Some(kind) != want["kind"].as_str() => {}
        Ok(reply) => check_reply(played, reply, want),
        Err(failure) => {
            assert_eq!(class, want["error_class"].as_str(), "class of {said:?}");
            check_failure(failure, want);
        }
    }
}

fn run(dir: &Path) {
    let want: Value =
        serde_json::from_slice(&std::fs::read(dir.join("expect.json")).unwrap()).unwrap();
    // A redirect's first hop is the transport's business.
    let last = want["meta"]["sequence"]
        .as_array()
        .and_then(|s| s.last()?.as_str());
    let raw = std::fs::read(dir.join(last.unwrap_or("response.http"))).unwrap();
    let response = response(&raw);
    let whole = play(&response, &mut |rest| rest);
    check(&whole, &want);
    let bytes = play(&response, &mut |_| 1);
    check(&bytes, &want);
    let mut seed = 0x2545_F491u32;
    for _ in 0..50 {
        let most = 1 + seed as usize % 200;
        let split = play(&response, &mut |_| {
            seed ^= seed << 13;
            seed ^= seed >> 17;
            seed ^= seed << 5;
            1 + seed as usize % most
        });
        check(&split, &want);
        assert_eq!(split.text, bytes.text, "what is shown depends on the cuts");
    }
}

#[test]
fn every_case_by_its_expectation() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire");
    let mut dirs: Vec<_> = std::fs::read_dir(&root)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.is_dir())
        .collect();
    dirs.sort();
    assert!(dirs.len() >= 55, "only {} cases", dirs.len());
    let mut failed = Vec::new();
    for dir in &dirs {
        let result = std::panic::catch_unwind(|| run(dir));
        if result.is_err() {
            failed.push(dir.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    assert!(failed.is_empty(), "failed: {}", failed.join(" "));
}

/// Whatever is cut off or damaged: an answer or a failure, never a panic, and never a call with arguments that were cut.
#[test]
fn damaged_replies_end_in_a_verdict() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire");
    let mut seed = 0x9E37_79B9u32;
    let mut roll = move |sides: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        seed as usize % sides.max(1)
    };
    for entry in std::fs::read_dir(&root).unwrap() {
        let Ok(raw) = std::fs::read(entry.unwrap().path().join("response.http")) else {
            continue;
        };
        let whole = response(&raw);
        for _ in 0..60 {
            let mut damaged = Response {
                head: whole.head.clone(),
                body: whole.body.clone(),
                end: Err(broken()),
            };
            let n = damaged.body.len();
            match roll(3) {
                0 => damaged.body.truncate(roll(n + 1)),
                1 if n > 0 => damaged.body[roll(n)] = roll(256) as u8,
                _ => {
                    let (a, b) = (roll(n + 1), roll(n + 1));
                    damaged.body.drain(a.min(b)..a.max(b));
                }
            }
            if let Ok(reply) = play(&damaged, &mut |_| 1 + roll(64)).result {
                for call in reply.calls.iter().filter(|c| c.fault.is_none()) {
                    let arguments: Value = serde_json::from_slice(&call.arguments).unwrap();
                    assert!(arguments.is_object());
                }
            }
        }
    }
}

fn stream(events: &[&str]) -> Vec<u8> {
    events
        .iter()
        .flat_map(|e| format!("data: {e}\n\n").into_bytes())
        .collect()
}

fn failed(stage: Stage, cancelled: bool) -> Result<(), Error> {
    Err(Error {
        stage,
        transient: !cancelled,
        cancelled,
        message: "no byte for 120 s, key sk-abcdef".into(),
    })
}

const TEXT: &str = r#"{"choices":[{"delta":{"content":"hi"}}]}"#;
const STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;

#[test]
fn reading_stops_when_all_has_come() {
    let feed = |bytes: &[u8]| {
        let mut a = Assembler::new(&TOOLS);
        let more = a.push(bytes, &mut |_| ());
        (more, a.finished(), a.push(b"x", &mut |_| ()))
    };
    let cases: [(Vec<u8>, (bool, bool, bool)); 6] = [
        (stream(&[TEXT]), (true, false, true)),
        (stream(&[TEXT, STOP]), (true, true, true)),
        (stream(&[TEXT, STOP, "[DONE]"]), (false, true, false)),
        (
            stream(&[TEXT, r#"{"error":{"code":502}}"#]),
            (false, false, false),
        ),
        (
            br#"{"choices":[{"message":{"content":"hi"}}]}"#.to_vec(),
            (false, true, false),
        ),
        (br#"{"choices":["#.to_vec(), (true, false, true)),
    ];
    for (bytes, want) in cases {
        assert_eq!(feed(&bytes), want, "{}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn a_broken_transport_fails_only_what_is_not_complete() {
    let finish = |bytes: &[u8], end: Result<(), Error>| {
        let mut a = Assembler::new(&TOOLS);
        a.push(bytes, &mut |_| ());
        a.finish(end)
    };
    let idle = || failed(Stage::Body, false);
    // The socket stays open behind the finish reason, or behind a [DONE] without its line end.
    assert_eq!(
        finish(&stream(&[TEXT, STOP]), idle()).unwrap().content,
        b"hi"
    );
    let done = [stream(&[TEXT]), b"data: [DONE]".to_vec()].concat();
    assert_eq!(finish(&done, idle()).unwrap().content, b"hi");
    // What the transport said counts, without the key, and not the half event.
    let half = [stream(&[TEXT]), b"data: {\"choi".to_vec()].concat();
    for bytes in [stream(&[TEXT]), half, b"{\"choices\":".to_vec(), Vec::new()] {
        let failure = finish(&bytes, idle()).unwrap_err();
        assert_eq!(failure.class, Class::Transient);
        assert_eq!(failure.message, "no byte for 120 s, key sk-…");
    }
    let failure = finish(&stream(&[TEXT, STOP]), failed(Stage::Body, true)).unwrap_err();
    assert_eq!(failure.class, Class::Cancelled);
    let failure = finish(b"", failed(Stage::Connect, false)).unwrap_err();
    assert_eq!(
        (failure.class, failure.stage),
        (Class::Transient, Stage::Connect)
    );
    // A refusal whose body broke off is still that refusal.
    let mut a = Assembler::new(&TOOLS);
    a.head(&Head {
        status: 401,
        headers: String::new(),
    });
    a.push(b"{\"error\":{\"mess", &mut |_| ());
    let failure = a.finish(idle()).unwrap_err();
    assert_eq!(
        (failure.class, failure.stage, failure.status),
        (Class::Auth, Stage::Status, 401)
    );
}

#[test]
fn large_replies_are_read_and_endless_ones_refused() {
    let text = "line \\\"x\\\" é\\n".repeat(200_000);
    let doc = format!(
        "{{\"choices\":[{{\"message\":{{\"content\":\"{text}\"}},\"finish_reason\":\"stop\"}}]}}"
    );
    let mut a = Assembler::new(&TOOLS);
    let mut shown = 0;
    for piece in doc.as_bytes().chunks(4096) {
        a.push(piece, &mut |delta| match delta {
            Delta::Text(t) | Delta::Reasoning(t) => shown += t.len(),
        });
    }
    let reply = a.finish(Ok(())).unwrap();
    assert_eq!(reply.content.len(), "line \"x\" é\n".len() * 200_000);
    assert_eq!(shown, reply.content.len());

    let endless = |piece: &[u8]| {
        let mut a = Assembler::new(&TOOLS);
        let reads = (0..2000).take_while(|_| a.push(piece, &mut |_| ())).count();
        assert!(reads < 2000, "reading goes on");
        let failure = a.finish(Ok(())).unwrap_err();
        assert_eq!(failure.class, Class::Fatal, "{}", failure.message);
    };
    let big = "x".repeat(60_000);
    endless(format!("[\"{big}").as_bytes());
    endless(format!("data: {big}").as_bytes());
    let delta = |field: &str| {
        stream(&[&format!(
            "{{\"choices\":[{{\"delta\":{{\"{field}\":\"{big}\"}}}}]}}"
        )])
    };
    endless(&delta("content"));
    let call = format!(
        "{{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"function\":{{\"arguments\":\"{big}\"}}}}]}}}}]}}"
    );
    endless(&stream(&[&call]));
}
