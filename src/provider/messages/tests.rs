//! Messages copied, rewritten, repaired.

use super::*;
use crate::provider::Adapt;

const HERE: u32 = 7;

const SYS: &str = r#"{"role":"system","content":"S"}"#;
const U1: &str = r#"{"role":"user","content":"one \"1\"\n"}"#;
const U2: &str = r#"{"content":"two é","role":"user"}"#;
const A: &str = r#"{"role":"assistant","content":"ok"}"#;
const A_THINK: &str = r#"{"role":"assistant","content":"ok","reasoning_content":"hm"}"#;
const A_VLLM: &str = r#"{"role":"assistant","content":"ok","reasoning":"hm"}"#;
const A_NOTHOUGHT: &str = r#"{"role":"assistant","content":"ok","reasoning_content":""}"#;
const C: &str = r#"{"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"filePath\":\"a\"}"}},{"id":"call_2","type":"function","function":{"name":"bash","arguments":"{}"}}]}"#;
const R1: &str = r#"{"role":"tool","tool_call_id":"call_1","content":"one\ttwo"}"#;
const R2: &str = r#"{"role":"tool","tool_call_id":"call_2","content":"2"}"#;
const NOT_RUN: &str = r#"{"role":"tool","tool_call_id":"call_2","content":"error: not executed"}"#;
const C_EXTRA: &str = r#"{"role":"assistant","content":"","tool_calls":[{"id":"g","type":"function","function":{"name":"read","arguments":"{}"},"extra_content":{"google":{"thought_signature":"x=="}}}]}"#;
const RG: &str = r#"{"role":"tool","tool_call_id":"g","content":"r"}"#;

fn with(rules: &Rules, list: &[&str], origin: u32) -> String {
    let messages: Vec<Message> = list
        .iter()
        .map(|m| Message {
            json: m.as_bytes(),
            origin,
        })
        .collect();
    let mut out = Vec::new();
    push(&mut out, &messages, rules, HERE);
    let text = String::from_utf8(out).unwrap();
    serde_json::from_str::<serde_json::Value>(&["[", &text, "]"].concat()).unwrap();
    text
}

fn flags(flags: u16) -> Rules {
    let mut rules = Rules::default();
    rules.set(flags);
    rules
}

#[test]
fn a_sound_conversation_is_copied() {
    let list = [SYS, U1, C, R2, R1, A_THINK, U2, A_VLLM, U1, C_EXTRA, RG, A];
    assert_eq!(with(&Rules::default(), &list, HERE), list.join(","));
    assert_eq!(with(&Rules::default(), &[], HERE), "");
}

#[test]
fn broken_sequences_are_repaired() {
    let joined = r#"{"role":"user","content":"one \"1\"\n\n\ntwo é"}"#;
    let late_system = r#"{"role":"user","content":"S"}"#;
    let two_systems = r#"{"role":"system","content":"S\n\nS"}"#;
    let empty_user = r#"{"role":"user","content":""}"#;
    let blank_user = r#"{"role":"user","content":"  "}"#;
    let nothing = r#"{"role":"assistant","content":"","reasoning_content":"only thought"}"#;
    let null = r#"{"role":"assistant","content":null,"tool_calls":[]}"#;
    let parts = r#"{"role":"user","content":[{"type":"text","text":"x"}]}"#;
    for (given, wanted) in [
        // Calls without results, wherever the gap is.
        (vec![U1, C, R1, U2], vec![U1, C, R1, NOT_RUN, U2]),
        (vec![U1, C, R1], vec![U1, C, R1, NOT_RUN]),
        (vec![U1, C, R1, A], vec![U1, C, R1, NOT_RUN, A]),
        // A result that comes too late is still the result; not one that belongs to a later call of that id.
        (vec![C, R1, U1, R2, A], vec![C, R1, R2, U1, A]),
        (vec![C, R1, C, R1, R2], vec![C, R1, NOT_RUN, C, R1, R2]),
        // Results without a call, twice the same.
        (vec![R1, U1, A, R2], vec![U1, A]),
        (vec![U1, C, R1, R1, R2, R2, A], vec![U1, C, R1, R2, A]),
        (vec![U1, r#"{"role":"tool","content":"x"}"#, A], vec![U1, A]),
        // Empty messages.
        (
            vec![SYS, empty_user, U1, nothing, blank_user, null],
            vec![SYS, U1],
        ),
        // Neighbours, also such as emptiness made.
        (vec![SYS, U1, U2], vec![SYS, joined]),
        (vec![U1, nothing, U2, A], vec![joined, A]),
        (vec![SYS, SYS, U1], vec![two_systems, U1]),
        (vec![U1, A, SYS], vec![U1, A, late_system]),
        (vec![parts, U1], vec![parts, U1]),
        (vec![U1, parts], vec![U1, parts]),
    ] {
        assert_eq!(
            with(&Rules::default(), &given, HERE),
            wanted.join(","),
            "{given:?}"
        );
    }
    let three = with(&Rules::default(), &[U2, U2, SYS, U2], HERE);
    let wanted = r#"{"role":"user","content":"two é\n\ntwo é\n\nS\n\ntwo é"}"#;
    assert_eq!(three, wanted);
}

#[test]
fn hostile_messages_do_no_harm() {
    for text in [
        "",
        "{",
        "null",
        "[1]",
        "{\"role\":",
        "{\"role\":3}",
        "\u{FFFD}",
    ] {
        let m = [Message {
            json: text.as_bytes(),
            origin: 0,
        }; 2];
        for f in [0, u16::MAX] {
            push(&mut Vec::new(), &m, &flags(f), HERE);
        }
    }
    let odd = r#"{"role":"assistant","tool_calls":[1,{"id":3},{},{"id":"x"}]}"#;
    assert_eq!(
        with(&Rules::default(), &[odd], 0),
        [
            r#"{"role":"assistant","tool_calls":[1,{"id":3},{},{"id":"x"}]}"#,
            r#"{"role":"tool","tool_call_id":"x","content":"error: not executed"}"#
        ]
        .join(",")
    );
    with(&flags(SHORT_IDS | NULL_CONTENT), &[odd], 0);
}

#[test]
fn thinking_goes_where_it_came_from() {
    let bare = A;
    let blank = r#"{"role":"assistant","content":"ok","reasoning_content":" "}"#;
    let empty_vllm = r#"{"role":"assistant","content":"ok","reasoning":""}"#;
    for (f, message, own, foreign) in [
        (0, A_THINK, A_THINK, bare),
        (0, A_NOTHOUGHT, A_NOTHOUGHT, bare),
        (0, A_VLLM, A_VLLM, bare),
        (0, A, A, A),
        (STRIP, A_THINK, bare, bare),
        (STRIP, A_VLLM, bare, bare),
        (STRIP, A, A, A),
        (FILL, A_THINK, A_THINK, A_NOTHOUGHT),
        (FILL, A, A_NOTHOUGHT, A_NOTHOUGHT),
        (FILL, A_NOTHOUGHT, A_NOTHOUGHT, A_NOTHOUGHT),
        (FILL, A_VLLM, A_VLLM, A_NOTHOUGHT),
        (FILL | RENAME, A_VLLM, A_THINK, A_NOTHOUGHT),
        (FILL | BLANK_FILL, A_THINK, A_THINK, blank),
        (FILL | BLANK_FILL, A_NOTHOUGHT, blank, blank),
        (FILL | BLANK_FILL, A, blank, blank),
        (FILL | FILL_REASONING | RENAME, A_THINK, A_VLLM, empty_vllm),
        (FILL | FILL_REASONING, A_VLLM, A_VLLM, empty_vllm),
    ] {
        assert_eq!(with(&flags(f), &[message], HERE), own, "{f} {message}");
        assert_eq!(with(&flags(f), &[message], 0), foreign, "{f} {message}");
        assert_eq!(with(&flags(f), &[message], 8), foreign, "{f} {message}");
    }
    // Only the assistant's messages are touched.
    assert_eq!(with(&flags(FILL), &[SYS, U1], 0), [SYS, U1].join(","));
}

#[test]
fn opaque_members_go_back_to_their_sender_only() {
    let plain = r#"{"role":"assistant","content":"","tool_calls":[{"id":"g","type":"function","function":{"name":"read","arguments":"{}"}}]}"#;
    let list = [C_EXTRA, RG];
    assert_eq!(with(&Rules::default(), &list, HERE), list.join(","));
    assert_eq!(with(&Rules::default(), &list, 0), [plain, RG].join(","));
    assert_eq!(
        with(&flags(STRIP_EXTRA), &list, HERE),
        [plain, RG].join(",")
    );
}

#[test]
fn null_content() {
    let list = [U1, C, R1, R2, A];
    let got = with(&flags(NULL_CONTENT), &list, HERE);
    assert_eq!(
        got,
        list.join(",")
            .replace(r#""content":"","#, r#""content":null,"#)
    );
}

#[test]
fn ids_of_nine_letters_and_digits() {
    let nine = r#"{"role":"assistant","content":"x","tool_calls":[{"id":"abcDEF123","type":"function","function":{"name":"read","arguments":"{}"}}]}"#;
    let result = r#"{"role":"tool","tool_call_id":"abcDEF123","content":"\"id\":\"abcDEF123\""}"#;
    let list = [nine, result];
    assert_eq!(with(&flags(SHORT_IDS), &list, HERE), list.join(","));

    let got = with(&flags(SHORT_IDS), &[U1, C, R2], HERE);
    let got: serde_json::Value = serde_json::from_str(&["[", &got, "]"].concat()).unwrap();
    let calls = &got[1]["tool_calls"];
    let ids = [
        &calls[0]["id"],
        &calls[1]["id"],
        &got[2]["tool_call_id"],
        &got[3]["tool_call_id"],
    ]
    .map(|v| v.as_str().unwrap().to_string());
    for id in &ids {
        assert!(
            id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
            "{id}"
        );
    }
    assert_eq!((&ids[2], &ids[3]), (&ids[1], &ids[0]));
    assert_ne!(ids[0], ids[1]);
    assert_eq!(calls[0]["function"]["arguments"], r#"{"filePath":"a"}"#);
}

#[test]
fn a_bridge_between_tool_and_user() {
    let between = r#"{"role":"assistant","content":"(interrupted)"}"#;
    let got = with(&flags(BRIDGE), &[U1, C, R1, R2, U2], HERE);
    assert_eq!(got, [U1, C, R1, R2, between, U2].join(","));
    assert_eq!(
        with(&flags(BRIDGE), &[U1, A, U2], HERE),
        [U1, A, U2].join(",")
    );
}

/// Any mixture of messages comes out as a sequence that servers take, and stays as it is when sent again.
#[test]
fn random_mixtures_come_out_sound() {
    let empty = r#"{"role":"user","content":""}"#;
    let nothing = r#"{"role":"assistant","content":""}"#;
    let pool = [
        SYS, U1, U2, A, C, C, R1, R1, R2, R2, C_EXTRA, RG, empty, nothing, A_THINK,
    ];
    let mut seed: u32 = 1;
    for round in 0..3000 {
        let mut list = Vec::new();
        for _ in 0..round % 12 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            list.push(pool[(seed >> 16) as usize % pool.len()]);
        }
        let got = with(&Rules::default(), &list, HERE);
        let value: serde_json::Value = serde_json::from_str(&["[", &got, "]"].concat()).unwrap();
        let sent = value.as_array().unwrap();
        let mut open: Vec<&str> = Vec::new();
        let mut last = "";
        for (i, m) in sent.iter().enumerate() {
            let role = m["role"].as_str().unwrap();
            if role == "tool" {
                let id = m["tool_call_id"].as_str().unwrap();
                let at = open.iter().position(|o| *o == id);
                open.remove(at.unwrap_or_else(|| panic!("orphan in {list:?}")));
            } else {
                assert!(open.is_empty(), "open calls in {list:?}");
            }
            let calls = m["tool_calls"].as_array();
            open.extend(
                calls
                    .iter()
                    .flat_map(|c| c.iter().map(|c| c["id"].as_str().unwrap())),
            );
            assert!(role != "system" || i == 0, "{list:?}");
            assert!(role != "user" || last != "user", "{list:?}");
            assert!(m["content"] != "" || calls.is_some(), "{list:?}");
            last = role;
        }
        assert!(open.is_empty(), "open calls in {list:?}");
        let lines: Vec<String> = sent.iter().map(|m| m.to_string()).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(with(&Rules::default(), &lines, HERE), lines.join(","));
    }
}

#[test]
fn a_learned_field_is_filled_and_then_blanked() {
    let mut rules = Rules::default();
    let add = Adapt::AddMessageField("reasoning_content".into());
    assert!(rules.apply(&add));
    assert_eq!(with(&rules, &[A], 0), A_NOTHOUGHT);
    assert!(rules.apply(&add));
    assert!(with(&rules, &[A], 0).contains(r#""reasoning_content":" ""#));
    assert!(!rules.apply(&add));
}
