//! For tests: a directory of its own and the means to run a tool in it.

use super::{Ctx, Output, Tool, seen::Seen};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A fresh directory, removed at the end.
pub struct Scene {
    /// The directory; `scratch` in it is not made.
    pub dir: PathBuf,
    /// What the model has seen.
    pub seen: Seen,
    /// [`Ctx::output_limit`].
    pub output_limit: usize,
}

impl Scene {
    /// A scene in the system's directory for temporary files.
    pub fn new() -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let n = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("cluade-test-{}-{n}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir(&dir).unwrap();
        Scene {
            dir: dir.canonicalize().unwrap(),
            seen: Seen::default(),
            output_limit: 16_000,
        }
    }

    /// The scratch directory.
    pub fn scratch(&self) -> Vec<u8> {
        self.dir.join("scratch").as_os_str().as_bytes().to_vec()
    }

    /// A path in the scene.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Makes a file.
    pub fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// A file's bytes.
    pub fn get(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// The names in the directory and in scratch, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for dir in [self.dir.clone(), self.path("scratch")] {
            for entry in std::fs::read_dir(dir).into_iter().flatten() {
                names.push(entry.unwrap().file_name().into_string().unwrap());
            }
        }
        names.retain(|n| n != "scratch");
        names.sort();
        names
    }

    /// Runs a tool with arguments as JSON.
    pub fn run(&mut self, tool: &Tool, args: &str) -> Output {
        let cwd = self.dir.as_os_str().as_bytes().to_vec();
        let scratch = self.scratch();
        let mut ctx = Ctx {
            cwd: &cwd,
            output_limit: self.output_limit,
            scratch: &scratch,
            bash_timeout: 30,
            seen: &mut self.seen,
            env_remove: &[],
            watch: &mut crate::sys::process::NoWatch,
        };
        let args = crate::json::parse(args.as_bytes())
            .unwrap_or_else(|e| panic!("{args}: {} at {}", e.what, e.at));
        tool.run.unwrap()(&mut ctx, &args)
    }

    /// As [`Scene::run`], expecting success; returns the text.
    pub fn ok(&mut self, tool: &Tool, args: &str) -> String {
        let out = self.run(tool, args);
        let text = String::from_utf8(out.text).unwrap();
        assert!(out.ok, "{args}: {text}");
        text
    }

    /// As [`Scene::run`], expecting failure; returns the text after `error: `.
    pub fn error(&mut self, tool: &Tool, args: &str) -> String {
        let out = self.run(tool, args);
        let text = String::from_utf8(out.text).unwrap();
        assert!(!out.ok, "{args}: {text}");
        text.strip_prefix("error: ").unwrap().to_string()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
