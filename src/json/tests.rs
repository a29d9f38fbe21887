//! The JSON layer against a well-known parser, on documents grown from a seed and then damaged.

use super::value::decimal;
use super::*;

/// A small generator (xorshift), so that a failure can be repeated from its seed.
struct Dice(u32);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 as usize % sides
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }

    fn space(&mut self, out: &mut String) {
        for _ in 0..self.roll(12).saturating_sub(9) {
            out.push_str(self.pick(&[" ", "\n", "\t", "\r"]));
        }
    }

    fn string(&mut self, out: &mut String) {
        out.push('"');
        for _ in 0..self.roll(8) {
            out.push_str(self.pick(&[
                "a",
                "key",
                "é",
                "🙂",
                "\\n",
                "\\\"",
                "\\\\",
                "\\/",
                "\\u0041",
                "\\ud83d\\ude42",
                "\\u00e9",
                " ",
                "{",
                "]",
                ":",
                "\\b\\f\\r\\t",
                "\u{FFFD}",
                "\\u0000",
            ]));
        }
        out.push('"');
    }

    fn value(&mut self, depth: usize, out: &mut String) {
        self.space(out);
        match self.roll(if depth > 6 { 7 } else { 11 }) {
            0 => out.push_str("null"),
            1 => out.push_str("true"),
            2 => out.push_str("false"),
            3 | 4 => self.string(out),
            5 | 6 => out.push_str(self.pick(&[
                "0",
                "-0",
                "1",
                "-12",
                "3.5",
                "1e3",
                "2E-2",
                "0.25e+1",
                "123456789",
                "4294967296",
            ])),
            7 | 8 => {
                out.push('[');
                for i in 0..self.roll(4) {
                    if i > 0 {
                        out.push(',');
                    }
                    self.value(depth + 1, out);
                }
                self.space(out);
                out.push(']');
            }
            _ => {
                out.push('{');
                for i in 0..self.roll(4) {
                    if i > 0 {
                        out.push(',');
                    }
                    self.space(out);
                    self.string(out);
                    self.space(out);
                    out.push(':');
                    self.value(depth + 1, out);
                }
                self.space(out);
                out.push('}');
            }
        }
        self.space(out);
    }

    fn damage(&mut self, text: &mut Vec<u8>) {
        for _ in 0..=self.roll(3) {
            let at = self.roll(text.len() + 1);
            let other = self.roll(text.len() + 1);
            match self.roll(5) {
                0 => text.truncate(at),
                1 if at < text.len() => drop(text.remove(at)),
                2 if at < text.len() => text[at] = b"{}[]\",:0-e.tn\\u\x01\xff "[self.roll(18)],
                3 => text.insert(at, b"{}[]\",:1-E.\\ \nf"[self.roll(15)]),
                _ => {
                    let piece = text[at.min(other)..at.max(other)].to_vec();
                    text.splice(at..at, piece);
                }
            }
        }
    }
}

fn tree(value: Value) -> serde_json::Value {
    match value.kind() {
        Kind::Null => serde_json::Value::Null,
        Kind::Bool => value.bool().unwrap().into(),
        Kind::Str => value.string().unwrap().into(),
        Kind::Number => serde_json::from_slice(value.raw()).unwrap(),
        Kind::Array => value.items().map(tree).collect::<Vec<_>>().into(),
        Kind::Object => {
            let members = value.entries().map(|(k, v)| (k.string(), tree(v)));
            serde_json::Value::Object(members.collect())
        }
    }
}

#[test]
fn agrees_with_a_well_known_parser() {
    let (mut good, mut bad) = (0, 0);
    for seed in 1..4000u32 {
        let mut dice = Dice(seed.wrapping_mul(2_654_435_761) | 1);
        let mut text = String::new();
        dice.value(0, &mut text);
        let mut text = text.into_bytes();
        if seed % 3 != 0 {
            dice.damage(&mut text);
        }
        let ours = parse(&text);
        let theirs = serde_json::from_slice::<serde_json::Value>(&text);
        let show = String::from_utf8_lossy(&text);
        match (ours, theirs) {
            (Ok(value), Ok(want)) => {
                good += 1;
                assert_eq!(tree(value), want, "seed {seed}: {show}");
                let again = lenient::strict(value);
                assert_eq!(
                    serde_json::from_slice::<serde_json::Value>(&again).unwrap(),
                    want
                );
            }
            (Err(e), Err(_)) => {
                bad += 1;
                assert!(e.at <= text.len());
            }
            (Err(e), Ok(_)) => panic!("seed {seed}: {} at {}: {show}", e.what, e.at),
            (Ok(value), Err(e)) => {
                // What is let through on purpose: raw control characters, bad UTF-8, lone surrogates.
                let e = e.to_string();
                if e.contains("number out of range") {
                    continue;
                }
                let allowed = [
                    "control character",
                    "surrogate",
                    "hex escape",
                    "unicode code point",
                ];
                assert!(
                    allowed.iter().any(|a| e.contains(a)),
                    "seed {seed}: {e}: {show}"
                );
                serde_json::from_slice::<serde_json::Value>(&lenient::strict(value)).unwrap();
            }
        }
        let _ = lenient::arguments(&text);
    }
    assert!(good > 1000 && bad > 1000, "{good} good, {bad} bad");
}

#[test]
fn deep_nesting_is_an_error() {
    for text in ["[".repeat(100_000), "{\"a\":".repeat(100_000)] {
        assert_eq!(
            parse(text.as_bytes()).unwrap_err().what,
            "nested too deeply"
        );
    }
    let deepest = "[".repeat(tokenizer::MAX_DEPTH) + &"]".repeat(tokenizer::MAX_DEPTH);
    assert!(parse(deepest.as_bytes()).is_ok());
}

#[test]
fn errors_name_the_place() {
    let cases: [(&str, usize, &str); 12] = [
        ("", 0, "unexpected end"),
        ("[1,", 3, "unexpected end"),
        ("\"ab", 3, "unexpected end in a string"),
        ("[1 2]", 3, "expected ',' or ']'"),
        ("{1:2}", 1, "expected a name in quotes"),
        ("{\"a\" 2}", 5, "expected ':'"),
        ("{\"a\":1]", 6, "expected ',' or '}'"),
        ("[01]", 1, "expected a value"),
        ("[1.]", 1, "expected a value"),
        ("[\"\\x\"]", 2, "bad escape"),
        ("[\"\\u12G4\"]", 2, "bad \\u escape"),
        ("1 2", 2, "unexpected text after the value"),
    ];
    for (text, at, what) in cases {
        let e = parse(text.as_bytes()).unwrap_err();
        assert_eq!((e.at, e.what), (at, what), "{text}");
        assert_eq!(e.is_cut(), what.starts_with("unexpected end"));
    }
}

#[test]
fn members_and_numbers() {
    let text = br#" {"a":1,"b":null,"a":2,"\u0063":"x\ty","n":[1,{"z":[]},"s",-5],"f":1E1,"g":2.5,"t":true} "#;
    let v = parse(text).unwrap();
    assert_eq!(v.get_u64("a"), Some(2));
    assert!(v.get("b").is_none() && v.get("nope").is_none());
    assert_eq!(v.get_string("c").as_deref(), Some("x\ty"));
    let items: Vec<&[u8]> = v.get("n").unwrap().items().map(|i| i.raw()).collect();
    assert_eq!(items, [b"1".as_slice(), b"{\"z\":[]}", b"\"s\"", b"-5"]);
    assert_eq!((v.get_u64("f"), v.get_u64("g")), (Some(10), Some(2)));
    assert_eq!(v.get("g").unwrap().milli(), Some(2500));
    assert_eq!(v.get("t").unwrap().bool(), Some(true));
    assert!(v.get("a").unwrap().entries().next().is_none());
    let numbers: [(&str, i32, Option<u64>); 12] = [
        ("0", 3, Some(0)),
        ("4.77", 3, Some(4770)),
        ("34.074824224123", 3, Some(34_074)),
        ("1e2", 0, Some(100)),
        ("1e-1", 3, Some(100)),
        ("12345678901234567890123", 0, Some(u64::MAX)),
        ("1e99999999999", 0, Some(u64::MAX)),
        ("1e-99999999999", 0, Some(0)),
        ("-1", 0, None),
        ("1.2.3", 0, None),
        ("1e", 0, None),
        ("x", 0, None),
    ];
    for (text, shift, want) in numbers {
        assert_eq!(decimal(text.as_bytes(), shift), want, "{text}");
    }
}

#[test]
fn writing_is_read_back() {
    let mut w = Writer::new();
    w.open(b'{')
        .key("a\"b")
        .str("x\n\u{7f}\u{1}\\é")
        .key("n")
        .num(7);
    w.key("l")
        .open(b'[')
        .bool(true)
        .raw(b"null")
        .open(b'{')
        .close(b'}')
        .close(b']');
    w.key("bad").str(b"\xff\xe2\x82".as_slice()).close(b'}');
    let want = "{\"a\\\"b\":\"x\\n\\u007f\\u0001\\\\é\",\"n\":7,\"l\":[true,null,{}],\"bad\":\"\u{FFFD}\u{FFFD}\"}";
    assert_eq!(String::from_utf8(w.out.clone()).unwrap(), want);
    let v: serde_json::Value = serde_json::from_slice(&w.out).unwrap();
    assert_eq!(v["a\"b"], "x\n\u{7f}\u{1}\\é");
    for b in 0..=255u8 {
        let mut out = Vec::new();
        write::push_string(&mut out, &[b'a', b, b'z']);
        let back: String = serde_json::from_slice(&out).unwrap();
        assert_eq!(back, String::from_utf8_lossy(&[b'a', b, b'z']));
    }
}
