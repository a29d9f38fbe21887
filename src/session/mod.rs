//! Sessions: the conversation in memory and its append-only file.
//!
//! [`store::Store`] finds, makes and opens sessions; [`record::Session`] is one of them, with its file, its lock and its
//! journal. What a file may look like and how it is repaired is in [`scan`] and [`load`].

pub mod conversation;
mod disk;
pub mod id;
pub mod list;
pub mod load;
pub mod message;
pub mod record;
pub mod scan;
pub mod store;

#[cfg(test)]
mod tests;

pub use conversation::Conversation;
pub use record::Session;
pub use store::{Error, Store, What};

/// Helpers for tests.
#[cfg(test)]
pub mod testing {
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A directory of its own that goes when the value does.
    pub struct Dir(PathBuf);

    impl Dir {
        /// A new empty one.
        #[allow(clippy::new_without_default)]
        pub fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("cluade-session-{}-{n}", std::process::id());
            // In memory where there is such a place: flushing thousands of times costs minutes on a disk.
            let memory = Path::new("/dev/shm");
            let base =
                match crate::sys::storage::directory(memory.join(&name).as_os_str().as_bytes()) {
                    Ok(()) => memory.to_path_buf(),
                    Err(_) => std::env::temp_dir(),
                };
            let path = base.join(name);
            crate::sys::storage::private_directory(path.as_os_str().as_bytes()).unwrap();
            Dir(path)
        }

        /// Where it is.
        pub fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
