//! Whole life cycles of sessions.

mod crash;
mod life;

use super::conversation::Conversation;
use super::load;
use super::message;
use super::record::Session;
use super::store::{Store, What};
use super::testing::Dir;
use crate::provider::{Call, Reply};
use crate::sys::storage::fault;
use std::fs::File;
use std::path::{Path, PathBuf};

struct Place {
    dir: Dir,
}

impl Place {
    fn new() -> Self {
        fault::clear();
        Place { dir: Dir::new() }
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    fn scratch(&self) -> PathBuf {
        self.dir.path().join("scratch")
    }

    fn store(&self) -> Store {
        let (home, scratch) = (self.home(), self.scratch());
        let bytes = |p: &Path| p.to_str().unwrap().as_bytes().to_vec();
        Store::new(Some(&bytes(&home)), None, &bytes(&scratch))
    }

    fn journals(&self) -> Vec<PathBuf> {
        let list = std::fs::read_dir(self.scratch()).into_iter().flatten();
        list.map(|e| e.unwrap().path())
            .filter(|p| p.to_str().unwrap().contains("/journal-"))
            .collect()
    }
}

fn reply(text: &str, calls: &[(&str, &str)]) -> Reply {
    Reply {
        content: text.into(),
        calls: calls
            .iter()
            .map(|(id, arguments)| Call {
                id: id.to_string(),
                name: "bash".into(),
                arguments: arguments.as_bytes().to_vec(),
                ..Call::default()
            })
            .collect(),
        ..Reply::default()
    }
}

/// One turn: a prompt, a step with two calls, an answer. `n` makes ids and texts its own.
fn turn(session: &mut Session, n: usize) {
    session.push_user(format!("prompt {n}: do \"it\"\n").as_bytes());
    let (a, b) = (format!("a{n}"), format!("b{n}"));
    let arguments = r#"{"command":"echo ]},\n"}"#;
    session.push_reply(&reply("", &[(&a, arguments), (&b, "{}")]));
    session.push_result(&a, format!("{{\"steps\":{n}}}").as_bytes());
    session.push_result(&b, b"");
    session.steps += 1;
    session.total_tokens += 1000;
    session.context_tokens = 100 + n as u64;
    session.step();
    session.push_reply(&reply(&format!("answer {n}"), &[]));
    session.steps += 1;
}

fn texts(c: &Conversation) -> Vec<String> {
    c.iter()
        .map(|m| String::from_utf8(m.to_vec()).unwrap())
        .collect()
}

fn valid_json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Loads bytes as a session file and returns its live messages; asserts that they are a valid conversation.
fn load_bytes(dir: &Path, bytes: &[u8]) -> Vec<String> {
    let path = dir.join("probe");
    std::fs::write(&path, bytes).unwrap();
    let mut loaded = load::load(&File::open(&path).unwrap()).unwrap();
    loaded.builder.finish(false);
    message::check(loaded.builder.conversation.iter()).unwrap();
    texts(&loaded.builder.conversation)
}

/// The messages of a file that are whole, by the layout's own definition: a line each.
fn lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    text.lines()
        .filter(|l| l.starts_with("{\"role\""))
        .map(|l| l.strip_suffix(',').unwrap_or(l))
        .filter(|l| serde_json::from_str::<serde_json::Value>(l).is_ok())
        .map(str::to_string)
        .collect()
}
