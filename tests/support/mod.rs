//! What the integration tests share: a scripted HTTP server and a builder for runs of the real binary.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr
)]

pub mod server;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

#[allow(unused_imports)]
pub use server::{Answer, Server, Split};

/// A fresh directory that goes away with the value.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new(name: &str) -> Dir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("cluade-it-{}-{n}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Dir(path.canonicalize().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.path(name)).unwrap_or_default()).into_owned()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A place to run in: working directory, home, scratch, and the server to talk to.
pub struct Place {
    pub work: Dir,
    pub home: Dir,
    pub scratch: Dir,
}

impl Place {
    pub fn new(name: &str) -> Place {
        Place {
            work: Dir::new(name),
            home: Dir::new("home"),
            scratch: Dir::new("scratch"),
        }
    }

    /// A command of the real binary in this place, without a terminal and without any of our environment that matters.
    pub fn command(&self) -> Command {
        let mut c = Command::new(env!("CARGO_BIN_EXE_cluade"));
        c.current_dir(&self.work.0)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.home.0)
            .env("TMPDIR", &self.scratch.0)
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        c
    }

    /// The same, pointed at `server`.
    pub fn cluade(&self, server: &Server, args: &[&str]) -> Command {
        let mut c = self.command();
        c.arg("--base-url").arg(server.url()).args(args);
        c
    }

    pub fn sessions(&self) -> Vec<PathBuf> {
        let mut list: Vec<PathBuf> = std::fs::read_dir(self.home.path(".cluade/sessions"))
            .into_iter()
            .flatten()
            .map(|e| e.unwrap().path())
            .filter(|p| p.extension().is_some_and(|e| e == "json"))
            .collect();
        list.sort();
        list
    }
}

/// A finished run.
#[derive(Debug)]
pub struct Ran {
    pub status: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ran {
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    #[track_caller]
    pub fn expect(self, status: i32) -> Ran {
        assert_eq!(
            self.status,
            status,
            "stdout:\n{}\nstderr:\n{}",
            self.out(),
            self.stderr
        );
        self
    }
}

/// Runs to the end; a run that takes over a minute is killed and fails the test.
#[track_caller]
pub fn run(command: &mut Command) -> Ran {
    finish(command.spawn().unwrap())
}

#[track_caller]
pub fn run_with_input(command: &mut Command, input: &[u8]) -> Ran {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let ran = finish(child);
    writer.join().unwrap();
    ran
}

#[track_caller]
pub fn finish(child: Child) -> Ran {
    let pid = child.id();
    let (tx, rx) = std::sync::mpsc::channel();
    std::thread::spawn(move || tx.send(child.wait_with_output()));
    match rx.recv_timeout(Duration::from_secs(60)) {
        Ok(output) => ran(output.unwrap()),
        Err(_) => {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            panic!("the run did not end within a minute");
        }
    }
}

fn ran(o: Output) -> Ran {
    use std::os::unix::process::ExitStatusExt;
    Ran {
        status: o
            .status
            .code()
            .unwrap_or_else(|| 1000 + o.status.signal().unwrap_or(0)),
        stdout: o.stdout,
        stderr: String::from_utf8_lossy(&o.stderr).into_owned(),
    }
}

/// Waits until `ready` says yes, at most ten seconds.
#[track_caller]
pub fn wait_for(what: &str, mut ready: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !ready() {
        assert!(Instant::now() < end, "waited ten seconds for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal by name.
pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

/// Whether a program is on this machine; if not, the test counts as skipped, which the runner reports.
pub fn have(program: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|p| std::env::split_paths(&p).any(|d| Path::new(&d).join(program).is_file()));
    if !found {
        skip(program);
    }
    found
}

/// Says that a test could not run for want of something.
pub fn skip(what: &str) {
    eprintln!("SKIPPED: needs {what}");
}
