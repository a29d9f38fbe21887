//! Files. To be deepened with atomic replacement.

use std::os::unix::ffi::OsStrExt;

/// The environment variable `name`, when it is set and not empty.
pub fn env(name: &[u8]) -> Option<Vec<u8>> {
    let value = std::env::var_os(std::ffi::OsStr::from_bytes(name))?;
    (!value.is_empty()).then(|| value.as_bytes().to_vec())
}
