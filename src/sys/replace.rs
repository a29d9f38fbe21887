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
/// content.
///
/// # Errors
/// The system's. The file has its old content then, unless [`Failed::kept`] says where that is.
pub fn replace(
    target: &[u8],
    old: Option<&Meta>,
    scratch: &[u8],
    produce: &mut Produce,
) -> Result<(), Failed> {
    if old.is_some() {
        // A rename would also replace a file whose mode says no.
        fs::check_writable(target)?;
    }
    if old.is_none_or(|old| old.links < 2) {
        match by_rename(target, old, produce) {
            Err(e) if old.is_some() && may_work_in_place(&e) => {}
            other => return Ok(other?),
        }
    }
    match old {
        Some(old) => in_place(target, old, scratch, produce),
        None => Ok(()),
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

fn by_rename(target: &[u8], old: Option<&Meta>, produce: &mut Produce) -> io::Result<()> {
    // Daemons that read whole directories (conf.d, cron) skip names with a dot.
    let mode = if old.is_some() { 0o600 } else { 0o666 };
    let (mut file, temp) = File::create_unique(fs::parent(target), b".cluade-", mode)?;
    let mut result = fill(&mut file, target, old, produce);
    if result.is_ok() {
        result = fs::rename(&temp, target);
    }
    if result.is_err() {
        let _ = fs::remove(&temp);
    }
    result
}

fn fill(
    file: &mut File,
    target: &[u8],
    old: Option<&Meta>,
    produce: &mut Produce,
) -> io::Result<()> {
    match old {
        Some(old) => {
            file.give_owner_and_mode(old)?;
            produce(Some(&mut File::open(target)?), file)?;
        }
        None => produce(None, file)?,
    }
    // One flush: after a power cut the name leads to the old content or to all of the new.
    file.sync()?;
    match old {
        Some(old) => unchanged(&fs::stat(target)?, old),
        None => Ok(()),
    }
}

fn unchanged(now: &Meta, old: &Meta) -> io::Result<()> {
    if now.same_state(old) {
        return Ok(());
    }
    Err(io::Error::other(
        "the file changed while it was being written",
    ))
}

fn in_place(
    target: &[u8],
    old: &Meta,
    scratch: &[u8],
    produce: &mut Produce,
) -> Result<(), Failed> {
    let mut file = File::open_rw(target)?;
    // Files of /proc (size 0) get a new time whenever the kernel likes.
    if old.size > 0 {
        unchanged(&file.meta()?, old)?;
    }
    let (mut copy, kept) = fs::private_dir(scratch)
        .and_then(|()| File::create_unique(scratch, b"old-", 0o600))
        .or_else(|_| File::create_unique(fs::parent(target), b".cluade-", 0o600))?;
    let mut damaged = false;
    let mut result = copy_all(&mut file, &mut copy);
    if result.is_ok() {
        result = overwrite(&mut file, old.size, &mut copy, produce);
        if result.is_err() {
            // Blocks the file had are its own still, so putting back seldom fails.
            damaged = put_back(&mut copy, &mut file, old.size).is_err();
        }
    }
    if !damaged {
        let _ = fs::remove(&kept);
    }
    result.map_err(|error| Failed {
        error,
        kept: damaged.then_some(kept),
    })
}

fn overwrite(
    file: &mut File,
    old_len: u64,
    old: &mut File,
    produce: &mut Produce,
) -> io::Result<()> {
    file.seek(0)?;
    old.seek(0)?;
    produce(Some(old), file)?;
    let len = file.position()?;
    if len < old_len {
        file.set_len(len)?;
    }
    file.sync()
}

fn put_back(copy: &mut File, file: &mut File, old_len: u64) -> io::Result<()> {
    copy_all(copy, file)?;
    let len = file.position()?;
    // Files of /proc have no length to set.
    if old_len == 0 && len > 0 {
        return Ok(());
    }
    file.set_len(len)
}

fn copy_all(from: &mut File, to: &mut File) -> io::Result<()> {
    from.seek(0)?;
    to.seek(0)?;
    from.each_chunk(&mut |chunk| to.write(chunk))
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use crate::sys::fs::{Op, fault};
    use crate::tools::scene::Scene;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    const OLD: &[u8] = b"old content, somewhat longer than the new";

    /// Replaces the content of the scene's file `f`.
    fn change(scene: &Scene, name: &str, new: &[u8]) -> Result<(), Failed> {
        let path = scene.path(name).as_os_str().as_bytes().to_vec();
        let old = fs::stat(&path).ok();
        // In pieces, so that a failure may come between them.
        replace(&path, old.as_ref(), &scene.scratch(), &mut |_, out| {
            new.chunks(7).try_for_each(|part| out.write(part))
        })
    }

    fn plan(at: u32, only: Option<Op>, errno: i32, forever: bool) -> fault::Plan {
        fault::Plan {
            at,
            only,
            errno,
            forever,
        }
    }

    /// Makes the n-th call fail, for every n: the old or the new content is there, never less, and nothing else is.
    fn fail_everywhere(prepare: &dyn Fn(&Scene), new: &[u8], leftovers: &[&str]) {
        for errno in [libc::EIO, libc::ENOSPC, libc::EACCES, libc::EXDEV] {
            for forever in [false, true] {
                let mut at = 0;
                loop {
                    at += 1;
                    let scene = Scene::new();
                    prepare(&scene);
                    let (result, failed) =
                        fault::during(plan(at, None, errno, forever), || change(&scene, "f", new));
                    let case = format!("errno {errno}, call {at}, forever {forever}");
                    let content = std::fs::read(scene.path("f")).unwrap_or_default();
                    match result {
                        Ok(_) => assert_eq!(content, new, "{case}"),
                        Err(Failed { kept: None, .. }) => assert_eq!(content, OLD, "{case}"),
                        Err(Failed {
                            kept: Some(path), ..
                        }) => {
                            assert!(forever, "{case}: not put back");
                            assert_eq!(std::fs::read(fs::path(&path)).unwrap(), OLD, "{case}");
                        }
                    }
                    if !forever {
                        assert_eq!(scene.names(), leftovers, "{case}");
                    }
                    if !failed {
                        break;
                    }
                }
                assert!(at >= 8, "only {at} calls");
            }
        }
    }

    #[test]
    fn any_call_may_fail_on_the_way_to_a_rename() {
        fail_everywhere(&|s| drop(s.put("f", OLD)), b"new content", &["f"]);
    }

    #[test]
    fn any_call_may_fail_in_place() {
        let linked = |s: &Scene| {
            s.put("f", OLD);
            std::fs::hard_link(s.path("f"), s.path("g")).unwrap();
        };
        fail_everywhere(&linked, b"shorter", &["f", "g"]);
        fail_everywhere(&linked, &[b'n'; 100], &["f", "g"]);
    }

    #[test]
    fn a_new_file_is_there_as_a_whole_or_not_at_all() {
        for at in 1.. {
            let scene = Scene::new();
            let (result, failed) = fault::during(plan(at, None, libc::ENOSPC, false), || {
                change(&scene, "f", b"new content")
            });
            match result {
                Ok(_) => assert_eq!(scene.get("f"), b"new content"),
                Err(_) => assert!(scene.names().is_empty(), "call {at}: {:?}", scene.names()),
            }
            if !failed {
                assert!(at > 4);
                break;
            }
        }
    }

    #[test]
    fn in_place_when_a_rename_is_impossible() {
        for (op, errno) in [
            (Op::Rename, libc::EXDEV),
            (Op::Rename, libc::EBUSY),
            (Op::Rename, libc::EPERM),
            (Op::Create, libc::EACCES),
            (Op::Create, libc::EROFS),
            (Op::Change, libc::EPERM),
        ] {
            let scene = Scene::new();
            scene.put("f", OLD);
            let before = scene.path("f").metadata().unwrap().ino();
            let (result, failed) = fault::during(plan(1, Some(op), errno, false), || {
                change(&scene, "f", b"new")
            });
            result.unwrap();
            let after = scene.path("f").metadata().unwrap().ino();
            assert!(failed && after == before, "{op:?} {errno}");
            assert_eq!(scene.get("f"), b"new", "{op:?} {errno}");
            assert_eq!(scene.names(), ["f"]);
        }
    }

    #[test]
    fn mode_owner_and_links_stay() {
        let scene = Scene::new();
        let path = scene.put("f", OLD);
        // Only root may give files away.
        let _ = std::os::unix::fs::chown(&path, Some(1234), Some(2345));
        for mode in [0o755, 0o600, 0o4750, 0o666] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let before = path.metadata().unwrap();
            change(&scene, "f", format!("new {mode}").as_bytes()).unwrap();
            let after = path.metadata().unwrap();
            assert_eq!(after.mode() & 0o7777, mode);
            assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
            assert_ne!(after.ino(), before.ino());
        }
        std::fs::hard_link(&path, scene.path("g")).unwrap();
        change(&scene, "f", b"both").unwrap();
        assert_eq!(scene.get("g"), b"both");
    }

    #[test]
    fn a_change_in_between_is_not_lost() {
        for linked in [false, true] {
            let scene = Scene::new();
            let path = scene.put("f", OLD);
            if linked {
                std::fs::hard_link(&path, scene.path("g")).unwrap();
            }
            let name = path.as_os_str().as_bytes();
            let mut old = fs::stat(name).unwrap();
            old.mtime.0 -= 1;
            let result = replace(name, Some(&old), &scene.scratch(), &mut |_, out| {
                out.write(b"new")
            });
            assert!(result.unwrap_err().error.to_string().contains("changed"));
            assert_eq!(scene.get("f"), OLD);
        }
    }

    /// Runs `f` as a user without rights, if we are root: only this thread's ids change.
    fn as_nobody<T>(f: impl FnOnce() -> T) -> T {
        const NOBODY: libc::c_long = 65534;
        // SAFETY: plain numbers; the raw call, unlike the library's, is for the calling thread only.
        let set = |id: libc::c_long| unsafe { libc::syscall(libc::SYS_setresuid, id, id, -1) };
        // SAFETY: no arguments.
        let root = unsafe { libc::geteuid() } == 0;
        if root {
            assert_eq!(set(NOBODY), 0);
        }
        let result = f();
        if root {
            assert_eq!(set(0), 0);
        }
        result
    }

    #[test]
    fn a_closed_directory_and_a_closed_file() {
        let scene = Scene::new();
        let path = scene.put("f", OLD);
        let set = |p: &std::path::Path, mode| {
            std::fs::set_permissions(p, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        std::fs::create_dir(scene.path("scratch")).unwrap();
        let _ = std::os::unix::fs::chown(scene.path("scratch"), Some(65534), None);
        // The file is open to everybody, its directory to nobody: in place.
        set(&path, 0o666);
        set(&scene.dir, 0o555);
        as_nobody(|| change(&scene, "f", b"new")).unwrap();
        assert_eq!(scene.get("f"), b"new");
        // And the other way round: a rename would work, but the file's mode says no.
        set(&path, 0o444);
        set(&scene.dir, 0o777);
        let failed = as_nobody(|| change(&scene, "f", b"newer")).unwrap_err();
        assert_eq!(failed.error.raw_os_error(), Some(libc::EACCES));
        assert_eq!(scene.get("f"), b"new");
        assert_eq!(scene.names(), ["f"]);
        // No new file in a closed directory.
        set(&scene.dir, 0o555);
        let failed = as_nobody(|| change(&scene, "g", b"x")).unwrap_err();
        assert_eq!(failed.error.raw_os_error(), Some(libc::EACCES));
        set(&scene.dir, 0o755);
    }

    #[test]
    fn files_of_the_kernel_are_written_in_place() {
        let scene = Scene::new();
        let path = b"/proc/thread-self/comm";
        let old = fs::stat(path).unwrap();
        replace(path, Some(&old), &scene.scratch(), &mut |_, out| {
            out.write(b"renamed")
        })
        .unwrap();
        assert_eq!(std::fs::read(fs::path(path)).unwrap(), b"renamed\n");
        assert!(scene.names().is_empty());
    }
}
