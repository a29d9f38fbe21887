//! The client against scripted servers: what it sends, how long it waits, what it says, what it returns.

use super::attempt::Io;
use super::client::Client;
use super::messages::Message;
use super::transport::{Error, Head, Piece, Request};
use super::{Class, Delta, Failure, Observer, Reply, Stage, Usage};
use crate::config::{Config, Fallback, KeyStrategy, Price};
use crate::sys::process::{NoWatch, Watch};
use std::cell::RefCell;
use std::rc::Rc;

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
                let own = |(n, v): &(&str, &str)| (n.to_string(), v.to_string());
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

fn refused(field: &str) -> Then {
    http(
        400,
        &format!(
            r#"{{"error":{{"message":"Unsupported parameter: '{field}' is not supported with this model.","type":"invalid_request_error","param":"{field}","code":"unsupported_parameter"}}}}"#
        ),
    )
}

struct Home(std::path::PathBuf);

impl Home {
    fn new(name: &str) -> Home {
        let name = format!("cluade-client-{}-{name}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&dir);
        Home(dir)
    }

    fn client(&self, config: &Config) -> Client {
        Client::new(config, Some(self.0.to_str().unwrap().as_bytes())).unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_refused_field_is_left_out_and_remembered() {
    let home = Home::new("adapt");
    let (mut world, mut eyes) = World::new(vec![refused("thinking")]);
    let mut client = home.client(&config(1, 0));
    ask(&mut client, &mut world, &mut eyes).unwrap();
    assert_eq!(world.steps(), "a:first a:first");
    assert!(world.bodies[0].contains("\"thinking\""));
    assert!(!world.bodies[1].contains("\"thinking\""));
    assert!(
        world.notices().contains("drop thinking"),
        "{}",
        world.notices()
    );
    ask(&mut client, &mut world, &mut eyes).unwrap();
    let mut again = home.client(&config(1, 0));
    ask(&mut again, &mut world, &mut eyes).unwrap();
    assert!(!world.bodies[2].contains("\"thinking\"") && !world.bodies[3].contains("\"thinking\""));
    // Another model is another matter; and what was learned can be forgotten.
    again.set_model("else");
    ask(&mut again, &mut world, &mut eyes).unwrap();
    assert!(world.bodies[4].contains("\"thinking\"") && world.bodies[4].contains("\"else\""));
    assert_eq!(again.forget(), Ok(false));
    assert_eq!(client.forget(), Ok(true));
    ask(&mut client, &mut world, &mut eyes).unwrap();
    assert!(world.bodies[5].contains("\"thinking\""));
}

#[test]
fn refusals_that_do_not_end() {
    let (mut world, mut eyes) = World::letters("");
    world.rest = refused("thinking");
    let mut client = Client::new(&config(1, 1), None).unwrap();
    let got = ask(&mut client, &mut world, &mut eyes).unwrap_err();
    assert_eq!(
        (got.class, world.steps().as_str()),
        (Class::Fatal, "a:first a:first")
    );
    // What didn't help isn't kept.
    world.script = vec![good()];
    ask(&mut client, &mut world, &mut eyes).unwrap();
    assert!(world.bodies[2].contains("\"thinking\""));

    let (mut world, mut eyes) = World::new(vec![refused("frobnicate")]);
    let got = ask(&mut client, &mut world, &mut eyes).unwrap_err();
    assert_eq!(
        (got.class, world.steps().as_str()),
        (Class::Fatal, "a:first")
    );
}

#[test]
fn several_fields_refused_one_after_the_other() {
    let script = vec![
        refused("max_tokens"),
        refused("stream_options"),
        refused("stream"),
    ];
    let (mut world, mut eyes) = World::new(script);
    let json = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    world.rest = http(200, json);
    let mut client = Client::new(&config(1, 0), None).unwrap();
    ask(&mut client, &mut world, &mut eyes).unwrap();
    let last = world.bodies.last().unwrap();
    assert!(
        last.ends_with(r#""reasoning_effort":"max","stream":false}"#)
            || last.ends_with(r#""max_completion_tokens":131072,"stream":false}"#),
        "{last}"
    );
    assert_eq!(world.log.borrow().shown, "hi");
}

#[test]
fn a_home_that_can_not_be_written_is_a_warning() {
    let home = Home::new("readonly");
    std::fs::write(&home.0, "not a directory").unwrap();
    let (mut world, mut eyes) = World::new(vec![refused("thinking")]);
    let mut client = home.client(&config(1, 0));
    ask(&mut client, &mut world, &mut eyes).unwrap();
    assert!(
        world.notices().contains("endpoints.json"),
        "{}",
        world.notices()
    );
    let _ = std::fs::remove_file(&home.0);
}

#[test]
fn a_path_without_its_version() {
    let home = Home::new("v1");
    let mut bare = config(1, 0);
    bare.base_url = "http://a.example?k=v".into();
    let (mut world, mut eyes) = World::new(vec![http(404, "404 page not found")]);
    let mut client = home.client(&bare);
    ask(&mut client, &mut world, &mut eyes).unwrap();
    let mut again = home.client(&bare);
    ask(&mut again, &mut world, &mut eyes).unwrap();
    let with = "POST http://a.example/v1/chat/completions?k=v";
    assert_eq!(
        world.urls,
        ["POST http://a.example/chat/completions?k=v", with, with]
    );

    // Not there either: both places are named, nothing is learned.
    let other = Home::new("v1-none");
    let (mut world, mut eyes) = World::letters("");
    world.rest = http(404, "404 page not found");
    let mut client = other.client(&bare);
    let got = ask(&mut client, &mut world, &mut eyes).unwrap_err();
    let count = got.message.matches("http://a.example").count();
    assert!(
        count == 2 && got.message.contains("/v1/chat"),
        "{}",
        got.message
    );
    assert!(!got.message.contains("k=v"));
    assert!(!other.0.exists());

    // A version is there already: no guessing.
    let (mut world, mut eyes) = World::new(vec![http(404, "404 page not found")]);
    let mut client = Client::new(&config(1, 0), None).unwrap();
    let got = ask(&mut client, &mut world, &mut eyes).unwrap_err();
    assert_eq!(world.urls.len(), 1);
    assert!(
        got.message.contains("http://a.example/v1/chat/completions"),
        "{}",
        got.message
    );
}

#[test]
fn a_fallback_stays_for_a_while() {
    let (mut world, mut eyes) = World::letters("bg");
    let mut client = Client::new(&config(1, 1), None).unwrap();
    let first = client.origin();
    ask(&mut client, &mut world, &mut eyes).unwrap();
    assert_eq!(
        (client.model(), client.base_url().as_str()),
        ("other", "http://b.example/v1")
    );
    assert_ne!(client.origin(), first);
    world.now += 299_000;
    ask(&mut client, &mut world, &mut eyes).unwrap();
    world.now += 2_000;
    ask(&mut client, &mut world, &mut eyes).unwrap();
    assert_eq!(world.steps(), "a:first b:- b:- a:first");
    assert_eq!(client.origin(), first);
    assert!(
        world
            .notices()
            .contains("going on with other at http://b.example/v1"),
        "{}",
        world.notices()
    );

    // When the fallback fails too, the first one is asked again; the error tells of both.
    let (mut world, mut eyes) = World::letters("bgbb");
    let mut client = Client::new(&config(1, 1), None).unwrap();
    ask(&mut client, &mut world, &mut eyes).unwrap();
    let got = ask(&mut client, &mut world, &mut eyes).unwrap_err();
    assert_eq!(world.steps(), "a:first b:- b:- a:first");
    assert!(got.message.contains("before that"), "{}", got.message);
}

#[test]
fn a_fallback_gets_neither_thinking_nor_keys_of_another_place() {
    let (mut world, mut eyes) = World::letters("bbg");
    let mut both = config(1, 1);
    both.fallback.push(Fallback {
        base_url: "http://a.example/v1/".into(),
        model: "small".into(),
        api_key: String::new(),
    });
    let mut client = Client::new(&both, None).unwrap();
    let messages = [
        &br#"{"role":"user","content":"hello"}"#[..],
        br#"{"role":"assistant","content":"x","reasoning_content":"private"}"#,
        br#"{"role":"user","content":"go"}"#,
    ]
    .map(|json| Message {
        json,
        origin: client.origin(),
    });
    client
        .complete_over(&mut world, &messages, None, &[], &mut eyes)
        .unwrap();
    assert_eq!(world.steps(), "a:first b:- a:first");
    let sent: Vec<bool> = world.bodies.iter().map(|b| b.contains("private")).collect();
    assert_eq!(sent, [true, false, false]);
}

#[test]
fn a_lost_network_is_waited_for_in_the_middle_of_a_run() {
    let mut patient = config(1, 0);
    patient.offline_wait = 25;
    let retries = "a:first w1000 a:first w2000 a:first w4000 a:first";
    for (script, steps, class) in [
        (
            "gllllng",
            "a:first RETRIES w10000 a:first w10000 a:first",
            None,
        ),
        // A network that is back is no reason for less patience with the server.
        (
            "glllltg",
            "a:first RETRIES w10000 a:first w1000 a:first",
            None,
        ),
        (
            "glllllll",
            "a:first RETRIES w10000 a:first w10000 a:first w5000 a:first",
            Some(Class::Transient),
        ),
        ("gtttt", "a:first RETRIES", Some(Class::Transient)),
    ] {
        let (mut world, mut eyes) = World::letters(script);
        let mut client = Client::new(&patient, None).unwrap();
        ask(&mut client, &mut world, &mut eyes).unwrap();
        let got = ask(&mut client, &mut world, &mut eyes);
        assert_eq!(world.steps(), steps.replace("RETRIES", retries), "{script}");
        assert_eq!(got.err().map(|f| f.class), class, "{script}");
        let told = world.notices().matches("for the network").count();
        assert_eq!(told, usize::from(script != "gtttt"), "{}", world.notices());
    }
}

#[test]
fn keys_by_strategy() {
    for (strategy, steps) in [
        (KeyStrategy::FillFirst, "a:first a:first a:first a:first"),
        (KeyStrategy::RoundRobin, "a:first a:second a:third a:first"),
        (KeyStrategy::LeastUsed, "a:first a:second a:third a:first"),
    ] {
        let mut pooled = config(3, 0);
        pooled.key_strategy = strategy;
        let (mut world, mut eyes) = World::letters("");
        let mut client = Client::new(&pooled, None).unwrap();
        for _ in 0..4 {
            ask(&mut client, &mut world, &mut eyes).unwrap();
        }
        assert_eq!(world.steps(), steps);
    }
    // A key without money isn't tried again while there are others.
    let (mut world, mut eyes) = World::letters("b");
    let mut client = Client::new(&config(2, 0), None).unwrap();
    for _ in 0..3 {
        ask(&mut client, &mut world, &mut eyes).unwrap();
    }
    assert_eq!(world.steps(), "a:first a:second a:second a:second");
}

#[test]
fn lists_of_models() {
    let wanted = ["a", "b"].map(String::from).to_vec();
    for body in [
        r#"{"object":"list","data":[{"id":"b"},{"id":"a"},{"id":"b"},{"x":1}]}"#,
        r#"{"models":[{"name":"b","model":"c"},{"name":"a"}]}"#,
        r#"[{"id":"b"},"a"]"#,
    ] {
        let (mut world, mut eyes) = World::new(vec![http(200, body)]);
        let mut client = Client::new(&config(1, 0), None).unwrap();
        let got = client.list_models_over(&mut world, &mut eyes).unwrap();
        assert_eq!(got, wanted, "{body}");
        assert_eq!(world.urls, ["GET http://a.example/v1/models"]);
        assert!(world.bodies[0].is_empty());
        let names: Vec<&str> = world.headers[0].iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(
            names,
            ["Accept", "Accept-Encoding", "User-Agent", "Authorization"]
        );
    }
    for (then, class, part) in [
        (fault('a'), Class::Auth, "OPENAI_API_KEY"),
        (
            http(200, "<html><title>Login</title>"),
            Class::Fatal,
            "no list of models",
        ),
        (http(200, "{}"), Class::Fatal, "http://a.example/v1/models"),
        (fault('l'), Class::Transient, "broken"),
        (fault('i'), Class::Cancelled, ""),
    ] {
        let (mut world, mut eyes) = World::new(vec![then]);
        let mut client = Client::new(&config(1, 0), None).unwrap();
        let got = client.list_models_over(&mut world, &mut eyes).unwrap_err();
        assert_eq!(got.class, class, "{}", got.message);
        assert!(got.message.contains(part), "{}", got.message);
    }
    let mut bare = config(1, 0);
    bare.base_url = "http://a.example".into();
    let (mut world, mut eyes) = World::new(vec![http(404, ""), http(200, r#"{"data":[]}"#)]);
    let mut client = Client::new(&bare, None).unwrap();
    assert_eq!(
        client.list_models_over(&mut world, &mut eyes),
        Ok(Vec::new())
    );
    assert_eq!(world.urls[1], "GET http://a.example/v1/models");
}

#[test]
fn costs() {
    let mut priced = config(0, 0);
    priced.prices.push(Price {
        model: "main".into(),
        input: 280_000,
        cached: 28_000,
        output: 420_000,
    });
    let client = Client::new(&priced, None).unwrap();
    let usage = Usage {
        prompt: 100_000,
        completion: 1_000,
        cached: 90_000,
    };
    // 10,000 × 0.28 + 90,000 × 0.028 + 1,000 × 0.42 a million = 0.00574
    assert_eq!(client.cost(&usage), Some(5_740));
    let huge = Usage {
        prompt: u64::MAX,
        completion: u64::MAX,
        cached: u64::MAX,
    };
    assert!(client.cost(&huge).is_some());
    priced.model = "unpriced".into();
    assert_eq!(Client::new(&priced, None).unwrap().cost(&usage), None);
}

#[test]
fn a_bad_url_is_told_at_once() {
    let mut bad = config(0, 1);
    bad.fallback[0].base_url = "b.example".into();
    let e = Client::new(&bad, None).err().unwrap();
    assert!(
        e.contains("fallback, number 1") && e.contains("http://"),
        "{e}"
    );
}
