//! Whatever the lenient reader accepts is one strict JSON object, and reading that again changes nothing.
#![no_main]

use cluade::json::lenient::arguments;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(object) = arguments(data) {
        let text = std::str::from_utf8(&object).expect("UTF-8");
        assert!(text.starts_with('{'), "{text:?}");
        if let Err(e) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
            assert!(e.to_string().contains("recursion"), "{text:?}: {e}");
        }
        assert_eq!(arguments(&object).ok(), Some(object));
    }
});
