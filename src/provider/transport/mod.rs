//! Transports: bytes over HTTP by whatever the device has. They know nothing of chat.
//!
//! `http://` goes through ourselves as a child ([`plain`]), `https://` through the device's curl, uclient-fetch or wget.
//! Each is a child process at the end of a pipe, so a stalled one is ended by a clock and a crashed one is an error.
//! `CLUADE_TRANSPORT` (`curl`, `uclient-fetch`, `wget`, `plain`, or `NAME:PATH` with the program's path) forces one.

mod child;
mod clients;
pub(super) use child::owned;
pub mod pick;
pub mod plain;
pub mod replay;
pub mod url;

use super::Stage;
use crate::policy::redact::redact;
use crate::sys::{process::Watch, time};
pub use replay::Transport;
use std::cell::Cell;
use url::Url;

/// How many redirects are followed.
const MAX_HOPS: u32 = 5;

/// One HTTP request.
pub struct Request<'a> {
    /// `POST` or `GET`.
    pub method: &'static str,
    /// The whole URL.
    pub url: &'a str,
    /// Header fields in order; values may hold secrets.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body; empty for GET.
    pub body: &'a [u8],
    /// Milliseconds without a byte before giving up; 0 waits for ever.
    pub idle_ms: u64,
    /// Milliseconds in all before giving up; 0 is no limit.
    pub total_ms: u64,
    /// Set by the caller when the reply is complete in substance: then [`TAIL_MS`] without a byte end it, as a success.
    pub tail: &'a Cell<bool>,
}

/// How long a server may stay silent after a complete reply before the connection is given up, in ms.
pub const TAIL_MS: u64 = 3000;

/// What the reply's head said.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Head {
    /// The HTTP status.
    pub status: u16,
    /// Header fields in order as `name:value`, each ended by a line feed, names in lower case. Empty when the transport
    /// can't see them (uclient-fetch).
    pub headers: String,
}

impl Head {
    /// The first header field `name`, which is in lower case.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields();
        fields.find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    /// Names and values in order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.split('\n').filter_map(|l| l.split_once(':'))
    }

    /// Appends a field; one that would not be one line is left out.
    fn add(&mut self, name: &str, value: &str) {
        if name.contains([':', '\n']) || value.contains('\n') {
            return;
        }
        for part in [name, ":", value, "\n"] {
            self.headers.push_str(part);
        }
    }
}

/// A piece of a reply.
pub enum Piece<'a> {
    /// The head, once, before any body byte.
    Head(&'a Head),
    /// Body bytes as they came.
    Body(&'a [u8]),
}

/// Takes the pieces and says whether to go on.
type Sink<'a> = dyn FnMut(Piece) -> bool + 'a;

/// Why there is no whole reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// Where it failed.
    pub stage: Stage,
    /// Whether another try may help.
    pub transient: bool,
    /// Whether it was Ctrl-C or a signal.
    pub cancelled: bool,
    /// What the transport said, one line, without secrets.
    pub message: String,
}

impl Error {
    /// An error that another try won't mend.
    fn fatal(stage: Stage, message: impl Into<String>) -> Error {
        Error {
            stage,
            transient: false,
            cancelled: false,
            message: message.into(),
        }
    }
}

/// What one transport is asked to do: one request, checked, to one place.
struct Job<'a> {
    request: &'a Request<'a>,
    url: &'a Url,
    program: &'a [u8],
    /// For an `http://` URL, the proxy the environment names.
    proxy: Option<&'a [u8]>,
    total_ms: u64,
}

impl Job<'_> {
    fn is_post(&self) -> bool {
        self.request.method == "POST"
    }
}

/// Sends `request` and hands the reply's pieces to `sink`, which says whether to go on reading (false: it has all it
/// needs, which is a success). Redirects 301, 302, 307 and 308 within the same scheme, host and port are followed with
/// method, body and headers unchanged.
///
/// # Errors
/// With the stage that failed. A reply with any status is a success here, and so is a body: whether it is whole in the
/// sense of the chat is not the transport's business, but a body shorter than announced is an error. A redirect to
/// another place is an error that names it; for a GET without a key it is a reply like any other.
pub fn send(request: &Request, watch: &mut dyn Watch, sink: &mut Sink) -> Result<(), Error> {
    let forced = crate::sys::fs::env(b"CLUADE_TRANSPORT");
    let sent = check_headers(request).and_then(|()| follow(request, forced, watch, sink));
    sent.map_err(|mut error| {
        let clean = redact(error.message.as_bytes(), &secrets(request));
        error.message = one_line(&clean);
        error
    })
}

/// Text from outside as one line without control characters.
fn one_line(text: &[u8]) -> String {
    let mut shown = Vec::new();
    crate::text::push_visible(&mut shown, text);
    for b in &mut shown {
        if *b == b'\n' {
            *b = b' ';
        }
    }
    String::from_utf8(shown).unwrap_or_default()
}

fn follow(
    request: &Request,
    forced: Option<Vec<u8>>,
    watch: &mut dyn Watch,
    sink: &mut Sink,
) -> Result<(), Error> {
    let started = time::monotonic_ms();
    let mut url = match Url::parse(request.url) {
        Ok(url) => url,
        Err(why) => {
            let message = ["the URL ", request.url, " can't be used: ", why];
            return Err(Error::fatal(Stage::Setup, message.concat()));
        }
    };
    for _ in 0..=MAX_HOPS {
        let mut total_ms = request.total_ms;
        if total_ms != 0 {
            let spent = time::monotonic_ms().saturating_sub(started);
            total_ms = total_ms.saturating_sub(spent).max(1);
        }
        let proxy = if url.https { None } else { url.plain_proxy() };
        let found = pick::pick(&url, proxy.is_some(), forced.as_deref())?;
        let job = Job {
            request,
            url: &url,
            program: &found.program,
            proxy: proxy.as_deref(),
            total_ms,
        };
        let mut next = None;
        clients::send(found.client, &job, true, watch, &mut |piece| {
            if let Piece::Head(head) = piece {
                next = redirect(request, &url, head);
                if next.is_some() {
                    return false;
                }
            }
            sink(piece)
        })?;
        match next {
            None => return Ok(()),
            Some(to) => url = to?,
        }
    }
    let message = [&url.place(), " redirects again and again"];
    Err(Error::fatal(Stage::Status, message.concat()))
}

/// Where the reply sends us on to; `None` when it is a reply for the caller.
fn redirect(request: &Request, from: &Url, head: &Head) -> Option<Result<Url, Error>> {
    if !matches!(head.status, 301 | 302 | 307 | 308) {
        return None;
    }
    let location = head.get("location")?;
    let refuse = |why: &str| {
        let message = [&from.place(), " redirects to ", location, why].concat();
        Some(Err(Error::fatal(Stage::Status, message)))
    };
    let Ok(to) = from.join(location) else {
        return refuse(", which is no usable URL");
    };
    if to.same_origin(from) {
        return Some(Ok(to));
    }
    if request.method == "GET" && !request.headers.iter().any(is_secret) {
        return None;
    }
    refuse(if from.https && !to.https {
        ", which is not encrypted: refused"
    } else {
        ": another place does not get the key; if it is right, make it the base URL"
    })
}

/// Refuses header fields that could become two, or a line of somebody's configuration.
fn check_headers(request: &Request) -> Result<(), Error> {
    for (name, value) in request.headers {
        let token = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        let why = if name.is_empty() || !name.bytes().all(token) {
            " is no header name"
        } else if value.bytes().any(|b| b < b' ' || b == 0x7F) {
            ": its value holds a line break or control character (is there one in the key?)"
        } else if value.trim() != *value || value.is_empty() {
            ": its value is empty or has blanks around it"
        } else {
            continue;
        };
        let message = ["header ", name, why];
        return Err(Error::fatal(Stage::Setup, message.concat()));
    }
    Ok(())
}

/// Whether a header field's value is a secret.
fn is_secret((name, _): &(&str, &str)) -> bool {
    let name = name.to_ascii_lowercase();
    let holds = |word: &&str| memchr::memmem::find(name.as_bytes(), word.as_bytes()).is_some();
    ["auth", "key", "token", "cookie", "secret"]
        .iter()
        .any(holds)
}

/// The secret parts of a request's header values.
fn secrets<'a>(request: &Request<'a>) -> Vec<&'a [u8]> {
    let mut all = Vec::new();
    for header in request.headers {
        if is_secret(header) {
            let value = header.1.as_bytes();
            let scheme = memchr::memchr(b' ', value).map_or(0, |i| i + 1);
            all.push(&value[scheme..]);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request<'a>(
        method: &'static str,
        headers: &'a [(&'a str, &'a str)],
        tail: &'a Cell<bool>,
    ) -> Request<'a> {
        Request {
            method,
            url: "https://h/v1",
            headers,
            body: b"",
            idle_ms: 0,
            total_ms: 0,
            tail,
        }
    }

    #[test]
    fn headers_that_could_be_two_are_refused() {
        let tail = Cell::new(false);
        for (header, part) in [
            (("Authorization", "Bearer a\nX: y"), "line break"),
            (("Authorization", "Bearer a\r"), "line break"),
            (("Authorization", "Bearer a "), "blanks"),
            (("X:", "a"), "name"),
            (("", "a"), "name"),
            (("X", ""), "empty"),
        ] {
            let headers = [header];
            let error = check_headers(&request("POST", &headers, &tail)).unwrap_err();
            assert!(error.message.contains(part), "{}", error.message);
            assert_eq!(error.stage, Stage::Setup);
        }
        let good = [("x-api-key", "sé\u{a0}cret")];
        assert!(check_headers(&request("POST", &good, &tail)).is_ok());
    }

    #[test]
    fn redirects_stay_where_the_key_may_go() {
        let tail = Cell::new(false);
        let key = [("Authorization", "Bearer k")];
        let from = Url::parse("https://h/v1").unwrap();
        let to = |method, headers: &[(&str, &str)], status, location: &str| {
            let head = Head {
                status,
                headers: ["location:", location, "\n"].concat(),
            };
            redirect(&request(method, headers, &tail), &from, &head)
                .map(|r| r.map_or_else(|e| e.message, |u| u.text()))
        };
        assert_eq!(to("POST", &key, 308, "/v2").unwrap(), "https://h/v2");
        assert_eq!(to("POST", &key, 303, "/v2"), None);
        assert_eq!(to("POST", &key, 200, "/v2"), None);
        assert!(
            to("POST", &key, 302, "http://h/v1")
                .unwrap()
                .contains("not encrypted")
        );
        assert!(
            to("POST", &[], 307, "https://o/x")
                .unwrap()
                .contains("https://o/x")
        );
        assert!(to("GET", &key, 301, "https://o/x").unwrap().contains("key"));
        assert_eq!(to("GET", &[], 301, "https://o/x"), None);
        assert_eq!(
            redirect(
                &request("POST", &key, &tail),
                &from,
                &Head {
                    status: 308,
                    headers: String::new()
                }
            ),
            None
        );
    }

    #[test]
    fn secrets_are_the_values_without_their_scheme() {
        let tail = Cell::new(false);
        let headers = [
            ("Authorization", "Bearer abc"),
            ("x-api-key", "def"),
            ("Accept", "text/plain"),
        ];
        let found = secrets(&request("POST", &headers, &tail));
        assert_eq!(found, [&b"abc"[..], b"def"]);
    }
}
