//! A reply never panics and is the same in one piece and cut anywhere.
#![no_main]

use cluade::provider::reply::Assembler;
use cluade::provider::transport::Head;
use libfuzzer_sys::fuzz_target;

const TOOLS: [&str; 6] = ["read", "write", "edit", "bash", "glob", "grep"];

fn run(status: u16, pieces: &mut dyn Iterator<Item = &[u8]>) -> String {
    let mut a = Assembler::new(&TOOLS);
    a.head(&Head {
        status,
        headers: String::new(),
    });
    let mut shown = Vec::new();
    for piece in pieces {
        let more = a.push(piece, &mut |d| match d {
            cluade::provider::Delta::Text(t) | cluade::provider::Delta::Reasoning(t) => {
                assert!(std::str::from_utf8(t).is_ok());
                shown.extend_from_slice(t);
            }
        });
        if !more {
            break;
        }
    }
    let mut result = a.finish(Ok(()));
    if let Ok(reply) = &mut result {
        assert!(
            std::str::from_utf8(&reply.content).is_ok()
                && std::str::from_utf8(&reply.reasoning).is_ok()
        );
        for (i, call) in reply.calls.iter_mut().enumerate() {
            assert!(!call.id.is_empty());
            // Made-up ids differ from run to run.
            call.id = i.to_string();
        }
    }
    format!("{result:?}")
}

fuzz_target!(|data: &[u8]| {
    let Some((&first, data)) = data.split_first() else {
        return;
    };
    let status = if first & 7 == 7 { 400 } else { 200 };
    let whole = run(status, &mut std::iter::once(data));
    let bytes = run(status, &mut data.chunks(1));
    let some = run(status, &mut data.chunks(1 + usize::from(first >> 3)));
    assert_eq!(whole, bytes);
    assert_eq!(whole, some);
});
