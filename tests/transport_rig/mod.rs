//! The rig of the transport tests: servers on loopback, and the transport itself in a process of its own, so that each
//! case has its own environment and can be killed.

#![allow(dead_code)] // no test file uses all of it
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// The program under test.
pub const CLUADE: &str = env!("CARGO_BIN_EXE_cluade");

/// Names the file with a case's request; present only in the process that [`drive`] starts.
pub const SPEC: &str = "CLUADE_TEST_SPEC";

/// A directory of one test, removed at its end.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new() -> Dir {
        static N: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "cluade-transport-{}-{}",
            std::process::id(),
            N.fetch_add(1, SeqCst)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Dir(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// A file that may be run.
    pub fn script(&self, name: &str, text: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether `program` is in PATH. When not, says loudly that the test did not run.
pub fn has(program: &str) -> bool {
    let there = cluade::sys::process::find_program(program.as_bytes()).is_some();
    if !there {
        eprintln!("SKIPPED: needs {program}");
    }
    there
}

/// A request as a server got it.
#[derive(Clone, Default, Debug)]
pub struct Got {
    pub head: String,
    pub body: Vec<u8>,
}

impl Got {
    /// The value of the header field `name`.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (n, value) = line.split_once(':')?;
            n.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// Reads one request: with a length, chunked or without a body.
pub fn read_request(from: &mut dyn Read) -> Got {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        if from.read(&mut byte).unwrap_or(0) == 0 {
            return Got::default();
        }
        bytes.push(byte[0]);
    }
    let mut got = Got {
        head: String::from_utf8(bytes).unwrap(),
        body: Vec::new(),
    };
    if let Some(length) = got.header("content-length") {
        got.body = vec![0; length.parse().unwrap()];
        from.read_exact(&mut got.body).unwrap();
    } else if got.header("transfer-encoding").is_some() {
        loop {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                from.read_exact(&mut byte).unwrap();
                line.push(byte[0]);
            }
            let size = std::str::from_utf8(&line).unwrap().trim();
            let mut chunk = vec![0; usize::from_str_radix(size, 16).unwrap() + 2];
            from.read_exact(&mut chunk).unwrap();
            if chunk.len() == 2 {
                break;
            }
            got.body.extend_from_slice(&chunk[..chunk.len() - 2]);
        }
    }
    got
}

/// A server on loopback: `handler` gets each connection with its number.
pub struct Server {
    pub port: u16,
    address: String,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    pub fn start(handler: impl FnMut(usize, TcpStream) + Send + 'static) -> Server {
        Server::start_on("127.0.0.1:0", handler).unwrap()
    }

    pub fn start_on(
        address: &str,
        mut handler: impl FnMut(usize, TcpStream) + Send + 'static,
    ) -> std::io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            for (n, stream) in listener.incoming().enumerate() {
                if stopped.load(SeqCst) {
                    break;
                }
                if let Ok(stream) = stream {
                    let _ = stream.set_nodelay(true);
                    let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
                    handler(n, stream);
                }
            }
        });
        Ok(Server {
            port: address.port(),
            address: address.to_string(),
            stop,
            thread: Some(thread),
        })
    }

    /// A server that answers every request with `reply` and closes.
    pub fn replying(reply: impl Into<Vec<u8>>) -> Server {
        let reply = reply.into();
        Server::start(move |_, mut stream| {
            read_request(&mut stream);
            let _ = stream.write_all(&reply);
        })
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        let _ = TcpStream::connect(&self.address);
        if let Some(thread) = self.thread.take() {
            let failed = thread.join().is_err();
            assert!(!failed || std::thread::panicking(), "the server panicked");
        }
    }
}

/// Waits until the peer has closed its end.
pub fn wait_for_close(stream: &mut dyn Read) -> Duration {
    let start = Instant::now();
    let mut buf = [0; 1024];
    while stream.read(&mut buf).is_ok_and(|n| n > 0) {}
    start.elapsed()
}

/// One request through a transport.
pub struct Case {
    pub client: String,
    pub method: &'static str,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub idle_ms: u64,
    pub total_ms: u64,
    /// The tail begins when this many body bytes have come.
    pub tail_after: Option<usize>,
    /// The sink has enough after this many body bytes.
    pub enough_after: Option<usize>,
    pub env: Vec<(String, String)>,
}

impl Case {
    pub fn new(client: &str, url: impl Into<String>) -> Case {
        let header = |n: &str, v: &str| (n.to_owned(), v.to_owned());
        Case {
            client: match client {
                "plain" => format!("plain:{CLUADE}"),
                other => other.into(),
            },
            method: "POST",
            url: url.into(),
            headers: vec![
                header("Authorization", "Bearer k-3141592653"),
                header("Content-Type", "application/json"),
            ],
            body: b"{\"a\":\"b\\n\"}".to_vec(),
            idle_ms: 20_000,
            total_ms: 60_000,
            tail_after: None,
            enough_after: None,
            env: Vec::new(),
        }
    }

    pub fn env(mut self, name: &str, value: &str) -> Case {
        self.env.push((name.into(), value.into()));
        self
    }

    pub fn limits(mut self, idle_ms: u64, total_ms: u64) -> Case {
        (self.idle_ms, self.total_ms) = (idle_ms, total_ms);
        self
    }

    pub fn run(self) -> Reply {
        self.start().wait()
    }

    /// Starts the driver process.
    pub fn start(self) -> Running {
        let dir = Dir::new();
        let (spec, events) = (dir.path("spec"), dir.path("events"));
        std::fs::create_dir(dir.0.join("tmp")).unwrap();
        std::fs::write(dir.path("body"), &self.body).unwrap();
        std::fs::write(&events, "").unwrap();
        let text = json!({
            "method": self.method, "url": self.url, "headers": self.headers, "body": dir.path("body"),
            "idle": self.idle_ms, "total": self.total_ms, "events": events,
            "tail": self.tail_after, "enough": self.enough_after,
        });
        std::fs::write(&spec, text.to_string()).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["driver", "--exact", "--nocapture", "--test-threads=1"])
            .env(SPEC, &spec)
            .env("TMPDIR", dir.path("tmp"))
            .env("OPENAI_API_KEY", "env-2718281828")
            .env("OTHER_API_KEY", "env-2718281828")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        for name in [
            "http_proxy",
            "HTTP_PROXY",
            "https_proxy",
            "all_proxy",
            "ALL_PROXY",
        ] {
            command.env_remove(name);
        }
        if !self.client.is_empty() {
            command.env("CLUADE_TRANSPORT", &self.client);
        }
        command.envs(self.env.iter().map(|(n, v)| (n, v)));
        Running {
            started: Instant::now(),
            child: command.spawn().unwrap(),
            events: events.into(),
            dir,
        }
    }
}

/// A driver process on its way.
pub struct Running {
    pub child: Child,
    pub events: PathBuf,
    started: Instant,
    dir: Dir,
}

impl Running {
    pub fn wait(mut self) -> Reply {
        let status = self.child.wait().unwrap();
        let seconds = self.started.elapsed();
        let mut stderr = String::new();
        let mut pipe = self.child.stderr.take().unwrap();
        pipe.read_to_string(&mut stderr).unwrap();
        assert!(status.success(), "the driver failed: {stderr}");
        let left: Vec<_> = std::fs::read_dir(self.dir.0.join("tmp")).unwrap().collect();
        assert!(left.is_empty(), "left behind: {left:?}");
        let text = std::fs::read_to_string(&self.events).unwrap();
        let mut reply = Reply {
            elapsed: seconds,
            ..Reply::default()
        };
        for line in text.lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            if let Some(status) = event["status"].as_u64() {
                assert_eq!(reply.status, 0, "two heads");
                reply.status = status;
                reply.headers = event["headers"].clone();
            } else if let Some(hex) = event["hex"].as_str() {
                assert_ne!(reply.status, 0, "a body before its head");
                let digits = hex.as_bytes().chunks(2);
                let byte = |d: &[u8]| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16);
                reply.body.extend(digits.map(|d| byte(d).unwrap()));
                reply.pieces += 1;
            } else {
                reply.end = event;
            }
        }
        assert!(!reply.end.is_null(), "no end: {text} {stderr}");
        reply
    }

    /// Waits until the driver has had `bytes` as a body piece; for servers, to prove that nothing is held back.
    pub fn wait_for_piece(&self, bytes: &[u8]) {
        wait_for_piece(&self.events, bytes);
    }
}

pub fn wait_for_piece(events: &Path, bytes: &[u8]) {
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    until("the piece arrives", || {
        std::fs::read_to_string(events).is_ok_and(|t| t.contains(&hex))
    });
}

/// Polls until `what` holds; at most 20 s.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "not in 20 s: {what}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What came of a case.
#[derive(Default, Debug)]
pub struct Reply {
    pub status: u64,
    pub headers: Value,
    pub body: Vec<u8>,
    pub pieces: usize,
    /// `{"ok":true}` or the error.
    pub end: Value,
    pub elapsed: Duration,
}

impl Reply {
    #[track_caller]
    pub fn ok(&self, status: u64, body: &[u8]) {
        assert_eq!(self.end, json!({"ok": true}), "{self:?}");
        assert_eq!(self.status, status);
        assert_eq!(
            String::from_utf8_lossy(&self.body),
            String::from_utf8_lossy(body)
        );
    }

    #[track_caller]
    pub fn failed(&self, stage: &str, words: &[&str]) {
        assert_eq!(self.end["stage"], stage, "{self:?}");
        let message = self.end["message"].as_str().unwrap();
        for word in words {
            assert!(message.contains(word), "{word} not in {message}");
        }
        assert!(!message.contains("3141592653"), "the key is in: {message}");
    }
}

/// The driver: sends what the file named by [`SPEC`] says and writes what happens, as it happens, to its events file.
pub fn drive() {
    use cluade::provider::transport::{Piece, Request, send};
    let Ok(spec) = std::env::var(SPEC) else {
        return;
    };
    cluade::sys::signal::install();
    let spec: Value = serde_json::from_slice(&std::fs::read(spec).unwrap()).unwrap();
    let body = std::fs::read(spec["body"].as_str().unwrap()).unwrap();
    let path = spec["events"].as_str().unwrap();
    let mut events = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    let headers: Vec<(&str, &str)> = spec["headers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|h| (h[0].as_str().unwrap(), h[1].as_str().unwrap()))
        .collect();
    let tail = std::cell::Cell::new(false);
    let request = Request {
        method: if spec["method"] == "POST" {
            "POST"
        } else {
            "GET"
        },
        url: spec["url"].as_str().unwrap(),
        headers: &headers,
        body: &body,
        idle_ms: spec["idle"].as_u64().unwrap(),
        total_ms: spec["total"].as_u64().unwrap(),
        tail: &tail,
    };
    let mut log = |event: Value| events.write_all(format!("{event}\n").as_bytes()).unwrap();
    let mut came = 0;
    let reached = |came: usize, mark: &Value| mark.as_u64().is_some_and(|n| came as u64 >= n);
    let result = send(&request, &mut Ticking, &mut |piece| {
        match piece {
            Piece::Head(head) => {
                log(json!({"status": head.status, "headers": head.fields().collect::<Vec<_>>()}))
            }
            Piece::Body(bytes) => {
                came += bytes.len();
                let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
                log(json!({"hex": hex}));
            }
        }
        tail.set(reached(came, &spec["tail"]));
        !reached(came, &spec["enough"])
    });
    log(match result {
        Ok(()) => json!({"ok": true}),
        Err(e) => json!({"stage": format!("{:?}", e.stage), "transient": e.transient,
            "cancelled": e.cancelled, "message": e.message}),
    });
}

/// The test harness has several threads and a signal may go to another one: look at the flags every 100 ms.
struct Ticking;
impl cluade::sys::process::Watch for Ticking {
    fn tick(&mut self) -> bool {
        true
    }
}

/// Every process' (id, program, arguments, environment), as far as we may see them.
pub fn processes() -> Vec<(u32, PathBuf, Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        let file = |name| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let program = std::fs::read_link(entry.path().join("exe")).unwrap_or_default();
        all.push((pid, program, file("cmdline"), file("environ")));
    }
    all
}

/// The transports that run for the driver whose events file is `events`: what shares its environment and is not it.
pub fn transports_of(events: &Path) -> Vec<(u32, Vec<u8>, Vec<u8>)> {
    let spec = events.with_file_name("spec");
    let own = std::env::current_exe().unwrap();
    processes()
        .into_iter()
        .filter(|(_, program, _, env)| *program != own && holds(env, spec.to_str().unwrap()))
        .map(|(pid, _, arguments, env)| (pid, arguments, env))
        .collect()
}

/// Whether `text` is somewhere in `bytes`.
pub fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|w| w == text.as_bytes())
}
