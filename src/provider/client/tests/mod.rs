//! The client against scripted servers: what it sends, how long it waits, what it says, what it returns.

use super::Client;
use crate::config::{Config, Fallback};
use crate::provider::attempt::Io;
use crate::provider::messages::Message;
use crate::provider::transport::{Error, Head, Piece, Request};
use crate::provider::{Class, Delta, Failure, Observer, Reply, Stage};
use crate::sys::process::{NoWatch, Watch};
use std::cell::RefCell;
use std::rc::Rc;

mod learning;
mod places;

/// What a server does with a request.
#[derive(Clone)]
enum Then {
    /// Status, header fields, body.
    Http(u16, Vec<(&'static str, &'static str)>, String),
    /// The transport fails there, for now or for good.
    Broken(Stage, bool),
    /// Pieces of a stream, then the transport's end.
    Stream(Vec<String>, Result<(), Stage>),
    /// Ctrl-C.
    Interrupted,
}

fn http(status: u16, body: &str) -> Then {
    Then::Http(status, Vec::new(), body.into())
}

fn error(status: u16, message: &str) -> Then {
    http(status, &format!(r#"{{"error":{{"message":"{message}"}}}}"#))
}

fn text(piece: &str) -> String {
    format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{piece}\"}}}}]}}\n\n")
}

const STOP: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn good() -> Then {
    Then::Stream(vec![text("hi"), STOP.into(), DONE.into()], Ok(()))
}

fn slow(status: u16, seconds: &'static str) -> Then {
    let body = r#"{"error":{"message":"Rate limit reached"}}"#;
    Then::Http(status, vec![("retry-after", seconds)], body.into())
}

/// The fault a script knows by a letter: transient, rate limit, billing, auth, context, fatal, lookup, connect, good.
fn fault(letter: char) -> Then {
    match letter {
        't' => error(503, "overloaded"),
        'r' => error(429, "Rate limit reached"),
        'b' => error(402, "Insufficient Balance"),
        'a' => error(401, "Invalid API key first-key"),
        'c' => http(
            400,
            r#"{"error":{"message":"This model's maximum context length is 10 tokens","code":"context_length_exceeded"}}"#,
        ),
        'f' => http(
            400,
            r#"{"error":{"message":"filtered","code":"content_filter"}}"#,
        ),
        'l' => Then::Broken(Stage::Lookup, true),
        'n' => Then::Broken(Stage::Connect, true),
        's' => Then::Broken(Stage::Tls, false),
        'x' => Then::Stream(vec![text("half")], Err(Stage::Body)),
        'i' => Then::Interrupted,
        _ => good(),
    }
}

#[derive(Default)]
struct Log {
    /// Requests as `host:key`, waits as `w1000`, restarts as `R`, in order.
    steps: Vec<String>,
    notices: Vec<String>,
    shown: String,
}

struct World {
    script: Vec<Then>,
    /// What happens when the script is at its end.
    rest: Then,
    now: u64,
    /// The wait that the user cuts short, counted from 1.
    interrupt: usize,
    log: Rc<RefCell<Log>>,
    bodies: Vec<String>,
    urls: Vec<String>,
    headers: Vec<Vec<(String, String)>>,
    limits: (u64, u64),
    tail: bool,
}

impl World {
    fn new(script: Vec<Then>) -> (World, Eyes) {
        let log = Rc::new(RefCell::new(Log::default()));
        let world = World {
            script,
            rest: good(),
            now: 1_000_000,
            interrupt: 0,
            log: log.clone(),
            bodies: Vec::new(),
            urls: Vec::new(),
            headers: Vec::new(),
            limits: (0, 0),
            tail: false,
        };
        (world, Eyes(log, NoWatch))
    }

    fn letters(script: &str) -> (World, Eyes) {
        World::new(script.chars().map(fault).collect())
    }

    fn steps(&self) -> String {
        self.log.borrow().steps.join(" ")
    }

    fn notices(&self) -> String {
        self.log.borrow().notices.join("\n")
    }
}

impl Io for World {
    fn send(
        &mut self,
        request: &Request,
        watch: &mut dyn Watch,
        sink: &mut dyn FnMut(Piece) -> bool,
    ) -> Result<(), Error> {
        let own = |(n, v): &(&str, &str)| (n.to_string(), v.to_string());
        let headers: Vec<_> = request.headers.iter().map(own).collect();
        let key = headers.iter().find(|(n, _)| n == "Authorization");
        let key = key.map_or("-".into(), |(_, v)| v.replace("Bearer ", ""));
        let host = request.url.split(['/', '.']).nth(2).unwrap();
        let step = format!("{host}:{}", key.trim_end_matches("-key"));
        self.log.borrow_mut().steps.push(step);
        self.bodies
            .push(String::from_utf8_lossy(request.body).into_owned());
        self.urls
            .push(format!("{} {}", request.method, request.url));
        self.headers.push(headers);
        self.limits = (request.idle_ms, request.total_ms);
        watch.tick();
        let broken = |stage, transient, cancelled| Error {
            stage,
            transient,
            cancelled,
            message: format!("broken with {key}"),
        };
        let next = match self.script.is_empty() {
            true => self.rest.clone(),
            false => self.script.remove(0),
        };
        match next {
            Then::Broken(stage, transient) => Err(broken(stage, transient, false)),
            Then::Interrupted => Err(broken(Stage::FirstByte, false, true)),
            Then::Http(status, fields, body) => {
                let own = |(n, v): &(&str, &str)| [n, ":", v, "\n"].concat();
                let headers = fields.iter().map(own).collect();
                if sink(Piece::Head(&Head { status, headers })) {
                    sink(Piece::Body(body.as_bytes()));
                }
                Ok(())
            }
            Then::Stream(pieces, end) => {
                let head = Head {
                    status: 200,
                    ..Head::default()
                };
                let mut more = sink(Piece::Head(&head));
                for piece in &pieces {
                    more = more && sink(Piece::Body(piece.as_bytes()));
                }
                self.tail = request.tail.get();
                match end {
                    Err(stage) if more => Err(broken(stage, true, false)),
                    _ => Ok(()),
                }
            }
        }
    }

    fn wait(&mut self, ms: u64, watch: &mut dyn Watch) -> bool {
        watch.tick();
        self.now += ms;
        let mut log = self.log.borrow_mut();
        log.steps.push(format!("w{ms}"));
        let waits = log.steps.iter().filter(|s| s.starts_with('w')).count();
        waits == self.interrupt
    }

    fn now(&self) -> u64 {
        self.now
    }
}

struct Eyes(Rc<RefCell<Log>>, NoWatch);

impl Observer for Eyes {
    fn delta(&mut self, delta: Delta) {
        if let Delta::Text(t) = delta {
            self.0
                .borrow_mut()
                .shown
                .push_str(&String::from_utf8_lossy(t));
        }
    }

    fn notice(&mut self, text: &str) {
        self.0.borrow_mut().notices.push(text.into());
    }

    fn restart(&mut self) {
        let mut log = self.0.borrow_mut();
        log.steps.push("R".into());
        log.shown.clear();
    }

    fn watch(&mut self) -> &mut dyn Watch {
        &mut self.1
    }
}

/// Keys named first-key, second-key …; fallbacks at hosts b and c, without keys.
fn config(keys: usize, fallbacks: usize) -> Config {
    let names = ["first-key", "second-key", "third-key"].map(String::from);
    let fallback = |i: usize| Fallback {
        base_url: format!("http://{}.example/v1", ["b", "c"][i]),
        model: "other".into(),
        api_key: String::new(),
    };
    Config {
        base_url: "http://a.example/v1".into(),
        model: "main".into(),
        api_key: names
            .first()
            .filter(|_| keys > 0)
            .cloned()
            .unwrap_or_default(),
        api_key_source: "OPENAI_API_KEY".into(),
        api_keys: names.iter().take(keys).skip(1).cloned().collect(),
        fallback: (0..fallbacks).map(fallback).collect(),
        ..Config::default()
    }
}

fn ask(client: &mut Client, world: &mut World, eyes: &mut Eyes) -> Result<Reply, Failure> {
    let messages = [Message {
        json: br#"{"role":"user","content":"hello"}"#,
        origin: 0,
    }];
    client.complete_over(world, &messages, None, &[], eyes)
}

#[test]
fn every_class_with_and_without_keys_and_fallbacks() {
    // Keys, fallbacks, script, what is done, the class returned.
    for (keys, fallbacks, script, steps, class) in [
        (1, 0, "g", "a:first", None),
        (0, 0, "g", "a:-", None),
        // Auth: stop, whatever there is.
        (2, 1, "a", "a:first", Some(Class::Auth)),
        // Fatal: the same.
        (2, 1, "f", "a:first", Some(Class::Fatal)),
        (2, 1, "s", "a:first", Some(Class::Fatal)),
        // Context: the caller compacts.
        (2, 1, "c", "a:first", Some(Class::Context)),
        (1, 1, "i", "a:first", Some(Class::Cancelled)),
        // Billing: next key, then fallback, then stop.
        (1, 0, "b", "a:first", Some(Class::Billing)),
        (3, 0, "bbg", "a:first a:second a:third", None),
        (2, 1, "bbg", "a:first a:second b:-", None),
        (2, 1, "bbb", "a:first a:second b:-", Some(Class::Billing)),
        // Rate limit: wait, then next key, then fallback.
        (1, 0, "rrg", "a:first w1000 a:first w2000 a:first", None),
        (
            1,
            0,
            "rrrrrrr",
            "a:first w1000 a:first w2000 a:first w4000 a:first w8000 a:first w16000 a:first w32000 a:first",
            Some(Class::RateLimit),
        ),
        (
            2,
            0,
            "rrrrg",
            "a:first w1000 a:first w2000 a:first a:second w1000 a:second",
            None,
        ),
        (
            1,
            1,
            "rrrg",
            "a:first w1000 a:first w2000 a:first b:-",
            None,
        ),
        // Transient: three more tries, then fallback.
        (
            2,
            0,
            "tttt",
            "a:first w1000 a:first w2000 a:first w4000 a:first",
            Some(Class::Transient),
        ),
        (
            1,
            0,
            "tllg",
            "a:first w1000 a:first w2000 a:first w4000 a:first",
            None,
        ),
        (
            1,
            1,
            "ttttg",
            "a:first w1000 a:first w2000 a:first w4000 a:first b:-",
            None,
        ),
        (
            1,
            2,
            "ttttttttg",
            "a:first w1000 a:first w2000 a:first w4000 a:first b:- w1000 b:- w2000 b:- w4000 b:- c:-",
            None,
        ),
        // No network from the start: no long waiting.
        (
            1,
            0,
            "llll",
            "a:first w1000 a:first w2000 a:first w4000 a:first",
            Some(Class::Transient),
        ),
        // A mixture: each way has its own count.
        (
            2,
            0,
            "rtrtbg",
            "a:first w1000 a:first w1000 a:first w2000 a:first w2000 a:first a:second",
            None,
        ),
        // Half a reply was shown.
        (1, 0, "xxg", "a:first w1000 R a:first w2000 R a:first", None),
    ] {
        let (mut world, mut eyes) = World::letters(script);
        let mut client = Client::new(&config(keys, fallbacks), None).unwrap();
        let got = ask(&mut client, &mut world, &mut eyes);
        let name = format!("{keys} keys, {fallbacks} fallbacks, {script}");
        assert_eq!(world.steps(), steps, "{name}");
        assert_eq!(
            got.as_ref().err().map(|f| f.class),
            class,
            "{name}: {got:?}"
        );
        assert!(world.script.is_empty(), "{name}");
        if let Ok(reply) = got {
            assert_eq!(
                (reply.content.as_slice(), world.log.borrow().shown.as_str()),
                (&b"hi"[..], "hi")
            );
        }
        // Each wait and each change of way is told, and no key ever.
        let moves = world
            .log
            .borrow()
            .steps
            .iter()
            .filter(|s| !s.starts_with("a:first"))
            .count();
        assert!(
            moves == 0 || keys == 0 || !world.notices().is_empty(),
            "{name}"
        );
        assert!(!world.notices().contains("-key"), "{}", world.notices());
    }
}

#[test]
fn the_server_says_how_long() {
    for (keys, fallbacks, status, seconds, steps, class) in [
        (1, 0, 429, "7", "a:first w7000 a:first", None),
        (1, 0, 429, "60", "a:first w60000 a:first", None),
        (1, 0, 429, "0", "a:first w1000 a:first", None),
        // Longer than a minute: told, not waited for; another key or provider is tried.
        (1, 0, 429, "7200", "a:first", Some(Class::RateLimit)),
        (2, 0, 429, "7200", "a:first a:second", None),
        (1, 1, 429, "7200", "a:first b:-", None),
        (1, 0, 503, "9", "a:first w9000 a:first", None),
        (1, 0, 503, "61", "a:first", Some(Class::Transient)),
        (1, 1, 503, "61", "a:first b:-", None),
    ] {
        let (mut world, mut eyes) = World::new(vec![slow(status, seconds)]);
        let mut client = Client::new(&config(keys, fallbacks), None).unwrap();
        let got = ask(&mut client, &mut world, &mut eyes);
        let name = format!("{keys} {fallbacks} {status} {seconds}");
        assert_eq!(world.steps(), steps, "{name}");
        assert_eq!(got.as_ref().err().map(|f| f.class), class, "{name}");
        if let Err(f) = got {
            let wait = ["wait 2 h", "wait 61 s"][usize::from(status == 503)];
            assert!(f.message.contains(wait), "{}", f.message);
        }
    }
}

#[test]
fn a_wait_ends_with_the_users_patience() {
    let (mut world, mut eyes) = World::letters("tt");
    world.interrupt = 2;
    let mut client = Client::new(&config(1, 1), None).unwrap();
    let got = ask(&mut client, &mut world, &mut eyes).unwrap_err();
    assert_eq!(got.class, Class::Cancelled);
    assert_eq!(world.steps(), "a:first w1000 a:first w2000");
    assert!(
        world.notices().contains("trying again in 2 s"),
        "{}",
        world.notices()
    );
}

#[test]
fn a_refused_key_is_named_by_its_source() {
    let (mut world, mut eyes) = World::letters("a");
    let mut client = Client::new(&config(1, 0), None).unwrap();
    let got = ask(&mut client, &mut world, &mut eyes).unwrap_err();
    assert!(got.message.contains("OPENAI_API_KEY"), "{}", got.message);
    assert!(!got.message.contains("first-key"), "{}", got.message);

    let (mut world, mut eyes) = World::letters("a");
    let mut client = Client::new(&config(0, 0), None).unwrap();
    let got = ask(&mut client, &mut world, &mut eyes).unwrap_err();
    assert!(got.message.contains("no API key"), "{}", got.message);

    let mut broken = config(1, 0);
    broken.api_key = "key\r\nX-Injected: yes".into();
    let (mut world, mut eyes) = World::letters("");
    let mut client = Client::new(&broken, None).unwrap();
    let got = ask(&mut client, &mut world, &mut eyes).unwrap_err();
    assert_eq!((got.class, got.stage), (Class::Auth, Stage::Setup));
    assert!(got.message.contains("OPENAI_API_KEY") && !got.message.contains("Injected"));
    assert_eq!(world.steps(), "");
}

#[test]
fn what_is_sent() {
    let (mut world, mut eyes) = World::letters("g");
    let mut client = Client::new(&config(1, 0), None).unwrap();
    ask(&mut client, &mut world, &mut eyes).unwrap();
    assert_eq!(world.urls, ["POST http://a.example/v1/chat/completions"]);
    let version = concat!("cluade/", env!("CARGO_PKG_VERSION"));
    let wanted = [
        ("Content-Type", "application/json"),
        ("Accept", "text/event-stream, application/json"),
        ("Accept-Encoding", "identity"),
        ("User-Agent", version),
        ("Authorization", "Bearer first-key"),
    ];
    let got: Vec<(&str, &str)> = world.headers[0]
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    assert_eq!(got, wanted);
    assert_eq!(
        world.bodies[0],
        r#"{"model":"main","messages":[{"role":"user","content":"hello"}],"thinking":{"type":"enabled"},"reasoning_effort":"max","max_tokens":131072,"stream":true,"stream_options":{"include_usage":true}}"#
    );
    assert_eq!(world.limits, (120_000, 600_000));
    // Once the model is done, silence is not waited for.
    assert!(world.tail);

    let mut quiet = config(0, 0);
    quiet.stream = false;
    let json =
        r#"{"choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#;
    let (mut world, mut eyes) = World::new(vec![http(200, json)]);
    let mut client = Client::new(&quiet, None).unwrap();
    ask(&mut client, &mut world, &mut eyes).unwrap();
    assert!(world.headers[0].iter().all(|(n, _)| n != "Authorization"));
    assert!(world.bodies[0].ends_with(r#""stream":false}"#));
    assert_eq!(world.limits, (600_000, 600_000));
    assert_eq!(world.log.borrow().shown, "hi");
}

#[test]
fn silence_and_breakage_after_the_end_are_no_failure() {
    for (pieces, end) in [
        (vec![text("hi"), STOP.into()], Err(Stage::Body)),
        (vec![text("hi"), STOP.into()], Ok(())),
        (
            vec![text("hi"), [STOP, DONE].concat(), text("more")],
            Err(Stage::Body),
        ),
    ] {
        let (mut world, mut eyes) = World::new(vec![Then::Stream(pieces, end)]);
        let mut client = Client::new(&config(1, 0), None).unwrap();
        let got = ask(&mut client, &mut world, &mut eyes).unwrap();
        assert_eq!(
            (got.content.as_slice(), world.steps().as_str()),
            (&b"hi"[..], "a:first")
        );
    }
}
