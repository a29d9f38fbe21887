//! The tokenizer never panics, gives the same tokens however its input is cut, and agrees with serde_json on validity
//! (but for what it lets through on purpose: raw control characters, NaN and infinities, invalid UTF-8).
#![no_main]

use cluade::json::{self, Tokenizer, Writer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let whole = json::parse(data);
    let mut tokens = Tokenizer::new();
    let (mut pos, mut error) = (0, false);
    for end in 0..=data.len() {
        loop {
            match tokens.next(&data[..end], &mut pos, false) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => {
                    error = true;
                    break;
                }
            }
        }
        if error {
            break;
        }
    }
    if whole.is_ok() {
        assert!(!error);
    }
    let special = [b"NaN".as_slice(), b"Infinity"]
        .iter()
        .any(|w| data.windows(w.len()).any(|x| x == *w));
    if let Ok(text) = std::str::from_utf8(data)
        && !special
        && !data.iter().any(|&b| b < 0x20)
        && !text.contains("\\u")
    {
        if let Err(e) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
            // serde_json's own depth limit is lower than ours.
            assert!(
                whole.is_err() || e.to_string().contains("recursion"),
                "{text:?}: {e}"
            );
        } else {
            assert!(whole.is_ok(), "{text:?}: {whole:?}");
        }
    }
    if let Ok(value) = whole {
        let mut w = Writer::new();
        cluade::agent::loopdetect::canonical(value, &mut w);
        assert!(json::parse(&w.out).is_ok());
        let _ = (
            value.u64(),
            value.milli(),
            value.get_string("a"),
            value.items().count(),
            value.entries().count(),
        );
    }
});
