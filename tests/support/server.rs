//! A scripted chat-completions server: answers in order, keeps what it was asked, checks every conversation it gets.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How the bytes of an answer are cut into writes.
#[derive(Clone, Copy, Debug)]
pub enum Split {
    Whole,
    Bytes,
    Random(u64),
}

/// One answer of the script.
#[derive(Clone, Debug)]
pub struct Answer {
    status: u16,
    headers: String,
    kind: Kind,
    pub split: Split,
    stall: Stall,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stall {
    None,
    /// Keep the connection open and silent after the bytes.
    After,
    /// Never answer.
    Before,
    /// Reset the connection after the bytes.
    Reset,
}

#[derive(Clone, Debug)]
enum Kind {
    /// The body as it is.
    Body(Vec<u8>),
    /// The whole response, head included.
    Raw(Vec<u8>),
    /// A chat reply, as a stream or in one piece as the request wants it.
    Chat {
        content: String,
        reasoning: Option<String>,
        calls: Vec<(String, String)>,
        finish: Option<String>,
    },
}

impl Answer {
    fn new(status: u16, kind: Kind) -> Answer {
        Answer {
            status,
            headers: String::new(),
            kind,
            split: Split::Whole,
            stall: Stall::None,
        }
    }

    /// The model says this.
    pub fn text(content: impl Into<String>) -> Answer {
        let content = content.into();
        Answer::new(
            200,
            Kind::Chat {
                content,
                reasoning: None,
                calls: Vec::new(),
                finish: None,
            },
        )
    }

    /// The model calls tools: name and arguments.
    pub fn calls(calls: &[(&str, &str)]) -> Answer {
        let calls = calls
            .iter()
            .map(|(n, a)| (n.to_string(), a.to_string()))
            .collect();
        Answer::new(
            200,
            Kind::Chat {
                content: String::new(),
                reasoning: None,
                calls,
                finish: None,
            },
        )
    }

    /// The model runs this command with bash.
    pub fn bash(command: &str) -> Answer {
        let args = serde_json::json!({ "command": command }).to_string();
        Answer::calls(&[("bash", &args)])
    }

    /// An error status with this body.
    pub fn status(status: u16, body: impl Into<Vec<u8>>) -> Answer {
        Answer::new(status, Kind::Body(body.into()))
    }

    /// A whole HTTP response, byte for byte.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Answer {
        Answer::new(0, Kind::Raw(bytes.into()))
    }

    pub fn header(mut self, line: &str) -> Answer {
        self.headers.push_str(line);
        self.headers.push_str("\r\n");
        self
    }

    pub fn with_text(mut self, text: &str) -> Answer {
        if let Kind::Chat { content, .. } = &mut self.kind {
            *content = text.into();
        }
        self
    }

    pub fn reasoning(mut self, text: &str) -> Answer {
        if let Kind::Chat { reasoning, .. } = &mut self.kind {
            *reasoning = Some(text.into());
        }
        self
    }

    pub fn finish(mut self, reason: &str) -> Answer {
        if let Kind::Chat { finish, .. } = &mut self.kind {
            *finish = Some(reason.into());
        }
        self
    }

    pub fn split(mut self, split: Split) -> Answer {
        self.split = split;
        self
    }

    /// Sends its bytes (all but the end of the stream) and then nothing more.
    pub fn stall(mut self) -> Answer {
        self.stall = Stall::After;
        self
    }

    /// Never answers at all.
    pub fn silence() -> Answer {
        let mut a = Answer::text("");
        a.stall = Stall::Before;
        a
    }

    /// Resets the connection after the bytes.
    pub fn reset(mut self) -> Answer {
        self.stall = Stall::Reset;
        self
    }

    fn bytes(&self, number: usize, stream: bool) -> Vec<u8> {
        let (kind, body) = match &self.kind {
            Kind::Raw(bytes) => return bytes.clone(),
            Kind::Body(body) => ("application/json", body.clone()),
            Kind::Chat {
                content,
                reasoning,
                calls,
                finish,
            } => {
                let finish = finish.clone().unwrap_or_else(|| {
                    if calls.is_empty() {
                        "stop"
                    } else {
                        "tool_calls"
                    }
                    .to_string()
                });
                let chat = Chat {
                    number,
                    content,
                    reasoning: reasoning.as_deref(),
                    calls,
                    finish: &finish,
                };
                if stream {
                    ("text/event-stream", chat.sse(self.stall != Stall::None))
                } else {
                    ("application/json", chat.json())
                }
            }
        };
        let mut out = format!(
            "HTTP/1.1 {} X\r\nContent-Type: {kind}\r\nConnection: close\r\n{}",
            self.status, self.headers
        );
        if self.stall == Stall::None && !stream {
            out += &format!("Content-Length: {}\r\n", body.len());
        }
        out += "\r\n";
        [out.into_bytes(), body].concat()
    }
}

struct Chat<'a> {
    number: usize,
    content: &'a str,
    reasoning: Option<&'a str>,
    calls: &'a [(String, String)],
    finish: &'a str,
}

impl Chat<'_> {
    fn call(&self, i: usize) -> serde_json::Value {
        let (name, arguments) = &self.calls[i];
        serde_json::json!({"index": i, "id": format!("call_{}_{i}", self.number), "type": "function",
            "function": {"name": name, "arguments": arguments}})
    }

    fn usage(&self) -> serde_json::Value {
        serde_json::json!({"prompt_tokens": 100 + 10 * self.number, "completion_tokens": 7, "total_tokens": 0})
    }

    fn sse(&self, cut: bool) -> Vec<u8> {
        let mut out = b": keep-alive\n\n".to_vec();
        let mut event = |delta: serde_json::Value, finish: Option<&str>| {
            let chunk = serde_json::json!({"id": "x", "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
            out.extend(format!("data: {chunk}\n\n").into_bytes());
        };
        event(
            serde_json::json!({"role": "assistant", "content": ""}),
            None,
        );
        if let Some(reasoning) = self.reasoning {
            event(serde_json::json!({"reasoning_content": reasoning}), None);
        }
        let text: Vec<char> = self.content.chars().collect();
        for piece in text.chunks(if text.len() > 10_000 { 4000 } else { 7 }) {
            event(
                serde_json::json!({"content": piece.iter().collect::<String>()}),
                None,
            );
        }
        for i in 0..self.calls.len() {
            event(serde_json::json!({"tool_calls": [self.call(i)]}), None);
        }
        if cut {
            return out;
        }
        event(serde_json::json!({}), Some(self.finish));
        let usage = serde_json::json!({"choices": [], "usage": self.usage()});
        out.extend(format!("data: {usage}\n\ndata: [DONE]\n\n").into_bytes());
        out
    }

    fn json(&self) -> Vec<u8> {
        let mut message = serde_json::json!({"role": "assistant", "content": self.content});
        if let Some(r) = self.reasoning {
            message["reasoning_content"] = r.into();
        }
        if !self.calls.is_empty() {
            message["tool_calls"] = (0..self.calls.len()).map(|i| self.call(i)).collect();
        }
        serde_json::json!({"choices": [{"index": 0, "message": message, "finish_reason": self.finish}],
            "usage": self.usage()})
        .to_string()
        .into_bytes()
    }
}

/// What the server was asked.
#[derive(Clone, Debug)]
pub struct Request {
    pub line: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.as_str())
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn messages(&self) -> Vec<serde_json::Value> {
        self.json()["messages"].as_array().unwrap().clone()
    }

    /// The content of the last message.
    pub fn last(&self) -> String {
        self.messages().last().unwrap()["content"]
            .as_str()
            .unwrap_or_default()
            .to_string()
    }
}

#[derive(Default)]
struct State {
    script: Vec<Answer>,
    next: usize,
    requests: Vec<Request>,
    faults: Vec<String>,
}

/// The server; it serves until the process ends.
pub struct Server {
    state: Arc<Mutex<State>>,
    port: u16,
}

impl Server {
    /// Serves the answers in order; a request beyond the last gets a 418, which no client retries.
    pub fn new(script: Vec<Answer>) -> Server {
        Server::on(TcpListener::bind("127.0.0.1:0").unwrap(), script)
    }

    /// The same on a listener of the caller's.
    pub fn on(listener: TcpListener, script: Vec<Answer>) -> Server {
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State {
            script,
            ..State::default()
        }));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Server { state, port }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn requests(&self) -> Vec<Request> {
        self.state.lock().unwrap().requests.clone()
    }

    pub fn count(&self) -> usize {
        self.state.lock().unwrap().requests.len()
    }

    /// Adds answers to the script.
    pub fn then(&self, more: Vec<Answer>) {
        self.state.lock().unwrap().script.extend(more);
    }

    /// Fails if a conversation was not a valid sequence.
    #[track_caller]
    pub fn check(&self) {
        let faults = &self.state.lock().unwrap().faults;
        assert!(faults.is_empty(), "{faults:#?}");
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) {
    let Some(request) = read_request(&mut stream) else {
        return;
    };
    let stream_wanted = memchr::memmem::find(&request.body, b"\"stream\":true").is_some();
    let (answer, number) = {
        let mut s = state.lock().unwrap();
        if request.line.contains("/chat/completions")
            && let Err(fault) = check_conversation(&request.body)
        {
            let n = s.requests.len();
            s.faults.push(format!("request {n}: {fault}"));
        }
        s.requests.push(request);
        let n = s.next;
        s.next += 1;
        let over = || Answer::status(418, r#"{"error":{"message":"the script is over"}}"#);
        (s.script.get(n).cloned().unwrap_or_else(over), n)
    };
    if answer.stall == Stall::Before {
        wait_for_close(&mut stream);
        return;
    }
    let bytes = answer.bytes(number, stream_wanted);
    let _ = stream.set_nodelay(true);
    let mut seed = if let Split::Random(seed) = answer.split {
        seed | 1
    } else {
        1
    };
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let n = match answer.split {
            Split::Whole => rest.len(),
            Split::Bytes => 1,
            Split::Random(_) => {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                1 + (seed % 97) as usize
            }
        };
        let (piece, more) = rest.split_at(n.min(rest.len()));
        if stream.write_all(piece).is_err() {
            return;
        }
        rest = more;
    }
    match answer.stall {
        Stall::After => wait_for_close(&mut stream),
        Stall::Reset => {
            // Closing with unread input and a zero linger makes the kernel send RST.
            use std::os::fd::AsRawFd;
            let linger = libc::linger {
                l_onoff: 1,
                l_linger: 0,
            };
            // SAFETY: a valid linger for our own socket.
            #[allow(unsafe_code)]
            unsafe {
                libc::setsockopt(
                    stream.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_LINGER,
                    (&raw const linger).cast(),
                    size_of::<libc::linger>() as u32,
                );
            }
        }
        _ => {}
    }
}

fn wait_for_close(stream: &mut TcpStream) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
    let _ = stream.read(&mut [0; 1]);
}

fn read_request(stream: &mut TcpStream) -> Option<Request> {
    let mut got = Vec::new();
    let mut buf = [0; 65536];
    let end = loop {
        if let Some(i) = memchr::memmem::find(&got, b"\r\n\r\n") {
            break i;
        }
        match stream.read(&mut buf) {
            Ok(0) | Err(_) => return None,
            Ok(n) => got.extend_from_slice(&buf[..n]),
        }
    };
    let head = String::from_utf8_lossy(&got[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let line = lines.next()?.to_string();
    let headers: Vec<(String, String)> = lines
        .filter_map(|l| l.split_once(':'))
        .map(|(n, v)| (n.to_string(), v.trim().to_string()))
        .collect();
    let find = |name: &str| {
        headers
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.clone())
    };
    let mut body = got.split_off(end + 4);
    if find("transfer-encoding").is_some_and(|v| v.contains("chunked")) {
        loop {
            if let Some(whole) = dechunk(&body) {
                body = whole;
                break;
            }
            match stream.read(&mut buf) {
                Ok(0) | Err(_) => return None,
                Ok(n) => body.extend_from_slice(&buf[..n]),
            }
        }
    } else {
        let length: usize = find("content-length")
            .and_then(|v| v.parse().ok())
            .unwrap_or(0);
        while body.len() < length {
            match stream.read(&mut buf) {
                Ok(0) | Err(_) => return None,
                Ok(n) => body.extend_from_slice(&buf[..n]),
            }
        }
    }
    Some(Request {
        line,
        headers,
        body,
    })
}

fn dechunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    loop {
        let i = memchr::memmem::find(rest, b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..i]).ok()?.trim(), 16).ok()?;
        rest = rest.get(i + 2..)?;
        if size == 0 {
            return Some(out);
        }
        out.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size + 2..)?;
    }
}

/// What strict servers demand of a conversation: one system message, first; no empty or null members; every call
/// answered right after by a result with its id and nothing else in between; no two users in a row.
pub fn check_conversation(body: &[u8]) -> Result<(), String> {
    let body: serde_json::Value =
        serde_json::from_slice(body).map_err(|e| format!("no JSON: {e}"))?;
    let messages = body["messages"].as_array().ok_or("no messages")?;
    let mut open: Vec<String> = Vec::new();
    let mut last = "";
    for (i, m) in messages.iter().enumerate() {
        let role = m["role"]
            .as_str()
            .ok_or(format!("message {i} has no role"))?;
        if m.as_object()
            .unwrap()
            .values()
            .any(serde_json::Value::is_null)
        {
            return Err(format!("message {i} has a null member"));
        }
        if role != "tool" && !open.is_empty() {
            return Err(format!(
                "message {i} ({role}) comes while calls {open:?} are open"
            ));
        }
        match role {
            "system" if i == 0 => {}
            "system" => return Err(format!("message {i}: a second system message")),
            "user" if last == "user" => return Err(format!("message {i}: two users in a row")),
            "user" => {
                if m["content"].as_str().is_none_or(str::is_empty) {
                    return Err(format!("message {i}: empty user message"));
                }
            }
            "assistant" => {
                for call in m["tool_calls"].as_array().into_iter().flatten() {
                    let id = call["id"]
                        .as_str()
                        .filter(|id| !id.is_empty())
                        .ok_or("a call without id")?;
                    let name = call["function"]["name"].as_str().unwrap_or_default();
                    let arguments = call["function"]["arguments"]
                        .as_str()
                        .ok_or("arguments are no string")?;
                    if name.is_empty() || open.iter().any(|o| o == id) {
                        return Err(format!("message {i}: bad call {call}"));
                    }
                    serde_json::from_str::<serde_json::Value>(arguments)
                        .map_err(|e| format!("message {i}: arguments are no JSON: {e}"))?;
                    open.push(id.to_string());
                }
                if open.is_empty() && m["content"].as_str().is_none_or(str::is_empty) {
                    return Err(format!("message {i}: an assistant that says nothing"));
                }
            }
            "tool" => {
                let id = m["tool_call_id"].as_str().unwrap_or_default();
                let at = open
                    .iter()
                    .position(|o| o == id)
                    .ok_or(format!("message {i}: no open call {id:?}"))?;
                open.remove(at);
            }
            other => return Err(format!("message {i}: role {other}")),
        }
        last = role;
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(format!("calls {open:?} are never answered"))
    }
}
