//! Facts about the machine.
#![allow(unsafe_code)]

use std::ffi::CStr;

/// Kernel release and machine name, as `uname -r` and `uname -m` print them.
pub fn uname() -> (Vec<u8>, Vec<u8>) {
    // SAFETY: uname fills the struct with NUL-terminated strings; zeroed fields are empty strings.
    unsafe {
        let mut u: libc::utsname = std::mem::zeroed();
        libc::uname(&mut u);
        let text = |field: &[libc::c_char]| CStr::from_ptr(field.as_ptr()).to_bytes().to_vec();
        (text(&u.release), text(&u.machine))
    }
}

/// Whether we run as root.
pub fn is_root() -> bool {
    user_id() == 0
}

/// Our effective user id.
pub fn user_id() -> u32 {
    // SAFETY: no arguments, always succeeds.
    unsafe { libc::geteuid() }
}
