//! A session file, whatever is in it, opens to a valid conversation or is refused, goes on, and opens again.
#![no_main]

use cluade::session::{Store, message};
use libfuzzer_sys::fuzz_target;
use std::os::unix::fs::DirBuilderExt;

fuzz_target!(|data: &[u8]| {
    let dir = std::env::temp_dir().join(format!("cluade-fuzz-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    for part in ["home/sessions", "scratch"] {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir.join(part))
            .unwrap();
    }
    let path = |part: &str| dir.join(part).to_string_lossy().into_owned().into_bytes();
    std::fs::write(dir.join("home/sessions/20260101-000000-1000.json"), data).unwrap();
    let store = Store::new(Some(&path("home")), None, &path("scratch"));
    if let Ok((mut session, _)) = store.open("20260101-000000-1000") {
        let check = |s: &cluade::session::Session| message::check(s.conversation.iter());
        assert_eq!(check(&session), Ok(()));
        session.push_user(b"go on");
        session.step();
        session.commit();
        let n = session.conversation.len();
        drop(session);
        let (session, _) = store.open("20260101-000000-1000").unwrap();
        assert_eq!(check(&session), Ok(()));
        assert!(session.conversation.len() <= n + 1);
    }
});
