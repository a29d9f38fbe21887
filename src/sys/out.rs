//! Reading and writing descriptors without the standard library's locked and buffered streams.
#![allow(unsafe_code)]

use std::io;

/// Standard output's descriptor.
pub const STDOUT: i32 = 1;
/// Standard error's descriptor.
pub const STDERR: i32 = 2;

/// Writes all of `bytes` to `fd`.
///
/// # Errors
/// The system's error; `BrokenPipe` when nobody reads any more.
pub fn write_all(fd: i32, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the pointer and length are those of a live slice.
        let n = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        if n >= 0 {
            bytes = &bytes[(n as usize).min(bytes.len())..];
            continue;
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::Interrupted => {}
            io::ErrorKind::WouldBlock => {
                let mut fds = [libc::pollfd {
                    fd,
                    events: libc::POLLOUT,
                    revents: 0,
                }];
                // SAFETY: one valid pollfd.
                unsafe { libc::poll(fds.as_mut_ptr(), 1, -1) };
            }
            _ => return Err(error),
        }
    }
    Ok(())
}

/// Reads once from `fd`; 0 is its end.
///
/// # Errors
/// The system's error.
pub fn read(fd: i32, buf: &mut [u8]) -> io::Result<usize> {
    loop {
        // SAFETY: the pointer and length are those of a live slice.
        let n = unsafe { libc::read(fd, buf.as_mut_ptr().cast(), buf.len()) };
        if n >= 0 {
            return Ok((n as usize).min(buf.len()));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// A poll entry that waits for `fd` to be readable.
pub fn readable(fd: i32) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Writes a message to standard error. There is nobody to tell when that fails.
pub fn stderr(bytes: &[u8]) {
    let _ = write_all(STDERR, bytes);
}
