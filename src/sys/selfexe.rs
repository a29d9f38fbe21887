//! Ourselves as a child: where our program is, and what a parent left open for us.
#![allow(unsafe_code)]

use std::io;

/// Our own program. The link leads to the running file even when it was replaced or deleted since.
pub const PATH: &[u8] = b"/proc/self/exe";

/// Reads the inherited descriptor `fd` to its end.
///
/// # Errors
/// The system's; a descriptor that is not open is one.
pub fn read_inherited(fd: i32) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut buf = [0u8; 16 * 1024];
    loop {
        match super::out::read(fd, &mut buf)? {
            0 => return Ok(all),
            n => all.extend_from_slice(&buf[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    #[test]
    fn reads_to_the_end_and_names_a_closed_descriptor() {
        let (r, mut w) = io::pipe().unwrap();
        w.write_all(b"abc").unwrap();
        drop(w);
        assert_eq!(read_inherited(r.as_raw_fd()).unwrap(), b"abc");
        let error = read_inherited(-1).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    }
}
