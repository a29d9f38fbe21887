//! The reader never panics and agrees with serde_json on what is JSON (but for what it lets through on purpose: raw control
//! characters, NaN and infinities, invalid UTF-8); what a view shows of a document is the document.
#![no_main]

use cluade::json::{self, Writer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let whole = json::parse(data);
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
    if let Ok((_, end)) = json::parse_prefix(data) {
        assert!(end <= data.len());
    }
    if let Ok(value) = whole {
        let mut w = Writer::new();
        cluade::agent::loopdetect::canonical(value, &mut w);
        let again = json::parse(&w.out).expect("what was written is JSON");
        let mut second = Writer::new();
        cluade::agent::loopdetect::canonical(again, &mut second);
        assert_eq!(w.out, second.out);
        let _ = (
            value.u64(),
            value.milli(),
            value.get_string("a"),
            value.items().count(),
            value.entries().count(),
        );
    }
});
