//! Giving a file new content so that either the old or the new one is there whatever happens: by a temporary file in
//! the same directory and a rename; in place, with a copy of the old content kept aside until it is done, where a
//! rename is impossible or would lose something.

use super::fs::{self, File, Meta};
use std::io;

/// Writes the new content to its second argument; the first is the old content at its start, if there is any. Called
/// again from the start when the first way turns out impossible.
pub type Produce<'a> = dyn FnMut(Option<&mut File>, &mut File) -> io::Result<()> + 'a;

/// A replacement that did not happen.
#[derive(Debug)]
pub struct Failed {
    /// Why.
    pub error: io::Error,
    /// Where the old content is kept, when it could not be put back into the file.
    pub kept: Option<Vec<u8>>,
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Failed { error, kept: None }
    }
}

/// Gives `target`, which must be no symbolic link, the content `produce` writes. `old` is its state as the caller knows
/// it, `None` when it doesn't exist. Mode, owner and hard links stay. `scratch` is a directory for the copy of the old
/// content. Returns the new state.
///
/// # Errors
/// The system's. The file has its old content then, unless [`Failed::kept`] says where that is.
pub fn replace(
    target: &[u8],
    old: Option<&Meta>,
    scratch: &[u8],
    produce: &mut Produce,
) -> Result<Meta, Failed> {
    let Some(old) = old else {
        return Ok(by_rename(target, None, produce)?);
    };
    // A rename would also replace a file whose mode says no.
    fs::check_writable(target)?;
    if old.links > 1 {
        return in_place(target, old, scratch, produce);
    }
    match by_rename(target, Some(old), produce) {
        Err(e) if may_work_in_place(&e) => in_place(target, old, scratch, produce),
        other => Ok(other?),
    }
}

/// Whether an error of the first way is about the way (mount points, directories closed to us, odd filesystems) and not
/// about the content (no room, bad medium) or the process (no memory, no descriptors).
fn may_work_in_place(error: &io::Error) -> bool {
    !matches!(
        error.raw_os_error(),
        None | Some(
            libc::ENOSPC
                | libc::EDQUOT
                | libc::EFBIG
                | libc::EIO
                | libc::ENOMEM
                | libc::EMFILE
                | libc::ENFILE
        )
    )
}

fn by_rename(target: &[u8], old: Option<&Meta>, produce: &mut Produce) -> io::Result<Meta> {
    // Daemons that read whole directories (conf.d, cron) skip names with a dot.
    let mode = if old.is_some() { 0o600 } else { 0o666 };
    let (mut file, temp) = File::create_unique(fs::parent(target), b".cluade-", mode)?;
    let mut fill = || {
        if old.is_some() {
            let mut source = File::open(target)?;
            file.take_owner_and_mode(&source)?;
            produce(Some(&mut source), &mut file)?;
        } else {
            produce(None, &mut file)?;
        }
        // One flush: after a power cut the name leads to the old content or to all of the new.
        file.sync()?;
        if let Some(old) = old
            && !fs::stat(target)?.same_state(old)
        {
            return Err(changed());
        }
        let meta = file.meta()?;
        fs::rename(&temp, target)?;
        Ok(meta)
    };
    let result = fill();
    if result.is_err() {
        let _ = fs::remove(&temp);
    }
    result
}

fn changed() -> io::Error {
    io::Error::other("the file changed while it was being written")
}

fn in_place(
    target: &[u8],
    old: &Meta,
    scratch: &[u8],
    produce: &mut Produce,
) -> Result<Meta, Failed> {
    let mut file = File::open_rw(target)?;
    // Files of /proc (size 0) get a new time whenever the kernel likes.
    if old.size > 0 && !file.meta()?.same_state(old) {
        return Err(changed().into());
    }
    let (mut copy, kept) = fs::private_dir(scratch)
        .and_then(|()| File::create_unique(scratch, b"old-", 0o600))
        .or_else(|_| File::create_unique(fs::parent(target), b".cluade-", 0o600))?;
    let done = copy_all(&mut file, &mut copy)
        .map_err(Failed::from)
        .and_then(|len| {
            overwrite(&mut file, old.size, &mut copy, produce).map_err(|error| {
                // Blocks the file had are its own still, so putting back seldom fails.
                let back = copy
                    .seek(0)
                    .and_then(|()| file.seek(0))
                    .and_then(|()| copy_all(&mut copy, &mut file))
                    .and_then(|_| match old.size {
                        // Files of /proc have no length to set.
                        0 if len > 0 => Ok(()),
                        _ => file.set_len(len),
                    });
                let kept = back.is_err().then(|| kept.clone());
                Failed { error, kept }
            })
        });
    if !matches!(&done, Err(Failed { kept: Some(_), .. })) {
        let _ = fs::remove(&kept);
    }
    done
}

fn overwrite(
    file: &mut File,
    old_len: u64,
    old: &mut File,
    produce: &mut Produce,
) -> io::Result<Meta> {
    file.seek(0)?;
    old.seek(0)?;
    produce(Some(old), file)?;
    let len = file.position()?;
    if len < old_len {
        file.set_len(len)?;
    }
    file.sync()?;
    file.meta()
}

/// Copies from the position of `from` to its end; returns the number of bytes.
fn copy_all(from: &mut File, to: &mut File) -> io::Result<u64> {
    let mut buf = vec![0; 32 * 1024];
    let mut len = 0;
    loop {
        let n = from.read(&mut buf)?;
        if n == 0 {
            return Ok(len);
        }
        to.write(buf.get(..n).unwrap_or_default())?;
        len += n as u64;
    }
}
