//! The shell reader, the danger gate and the rules never panic and take bounded time.
#![no_main]

use cluade::policy::{danger, permission, shell};
use cluade::tools::Level;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let script = shell::read(data);
    let _ = script.unread;
    let a = danger::danger(data, b"/root/work", b"/root", &mut |_| None);
    let b = danger::danger(data, b"/root/work", b"/root", &mut |_| None);
    assert_eq!(a, b);
    let rules = [
        ("bash(git log*)".to_string(), Level::Allow),
        ("bash(rm *)".to_string(), Level::Deny),
    ];
    let _ = permission::decide(&rules, "bash", Level::Ask, data, false);
    if let Some(rule) = permission::propose("bash", data) {
        assert!(a.is_none(), "{rule} proposed for a dangerous command");
    }
});
