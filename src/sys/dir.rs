//! Directories as the kernel hands them out: names with their kinds, no stat and no allocation per entry.
#![allow(unsafe_code)]

use super::fs::{self, Kind};
use std::io;
use std::os::fd::AsRawFd;

/// Gives `take` each entry of directory `p` but `.` and `..`, in the filesystem's order, links as themselves.
///
/// # Errors
/// The system's; entries may have been given before it.
pub fn each(p: &[u8], take: &mut dyn FnMut(&[u8], Kind)) -> io::Result<()> {
    let dir = fs::open(p, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    let mut buf = [0u8; 16 * 1024];
    loop {
        // SAFETY: a descriptor of ours and room for as many bytes as said.
        let n = unsafe {
            libc::syscall(
                libc::SYS_getdents64,
                dir.as_raw_fd(),
                buf.as_mut_ptr(),
                buf.len(),
            )
        };
        let Ok(n) = usize::try_from(n) else {
            return Err(io::Error::last_os_error());
        };
        if n == 0 {
            return Ok(());
        }
        // struct linux_dirent64: inode and offset of 8 bytes each, length of 2, kind of 1, name with a NUL.
        let mut rest = buf.get(..n).unwrap_or_default();
        while let Some(&[a, b, kind]) = rest.get(16..19) {
            let (entry, more) = rest.split_at(usize::from(u16::from_ne_bytes([a, b])).min(n));
            rest = more;
            let name = entry.get(19..).unwrap_or_default();
            let name = name.split(|&b| b == 0).next().unwrap_or_default();
            if matches!(name, b"" | b"." | b"..") {
                continue;
            }
            let kind = match kind {
                libc::DT_REG => Kind::File,
                libc::DT_DIR => Kind::Dir,
                libc::DT_LNK => Kind::Link,
                libc::DT_FIFO => Kind::Fifo,
                libc::DT_SOCK => Kind::Socket,
                // Some filesystems don't say.
                libc::DT_UNKNOWN => fs::lstat(&fs::join(p, name)).map_or(Kind::Device, |m| m.kind),
                _ => Kind::Device,
            };
            take(name, kind);
        }
    }
}
