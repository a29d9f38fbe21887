//! `http://` by ourselves: a child of our own program fetches with minreq and writes what comes to its standard output,
//! so that the parent's poll loop has one pipe to watch and a name lookup or a stalled socket can't hold it.
//!
//! The child gets `METHOD URL` and the header fields on standard input, one a line, and the body on descriptor 3. It
//! answers with an HTTP head and the decoded body; a failure is its exit code (the stage) and one line on standard error.
//! minreq does not tell a chunked reply that broke off from a complete one: that is left to whoever reads the body.

use super::{Error, Job, Sink, child};
use crate::provider::Stage;
use crate::sys::process::{EXTRA_FD, Spawn, Watch};
use crate::sys::{out, selfexe};
use std::io::{self, Read};

/// The hidden first argument that makes our program this child; [`child_main`] is to be called for it before anything
/// else, signal handlers included.
pub const CHILD_FLAG: &str = "--transport-child";

/// Exit codes of the child that carry a stage.
const CODES: [(i32, Stage, bool); 7] = [
    (10, Stage::Setup, false),
    (11, Stage::Lookup, true),
    (12, Stage::Connect, true),
    (13, Stage::Tls, false),
    (14, Stage::FirstByte, true),
    (15, Stage::Status, false),
    (16, Stage::Body, true),
];

pub(super) fn send(job: &Job, watch: &mut dyn Watch, sink: &mut Sink) -> Result<(), Error> {
    let request = job.request;
    let mut head = [request.method, " ", &job.url.text(), "\n"].concat();
    for (name, value) in request.headers {
        for part in [*name, ": ", *value, "\n"] {
            head.push_str(part);
        }
    }
    let spawn = Spawn {
        argv: &[job.program, CHILD_FLAG.as_bytes()],
        stdin: Some(head.as_bytes()),
        extra: (request.method == "POST").then_some(request.body),
        ..Spawn::default()
    };
    let Some(ran) = child::run(&spawn, child::Heads::Stdout, job, watch, sink)? else {
        return Ok(());
    };
    match CODES.iter().find(|(code, ..)| *code == ran.code) {
        _ if ran.code == 0 && ran.stage == Stage::Body => Ok(()),
        Some(&(_, stage, transient)) => Err(child::error(job, stage, transient, &ran.line(b""))),
        None => Err(child::error(job, ran.stage, true, &ran.ended())),
    }
}

struct Failed(Stage, String);

/// The child: fetches what standard input says and returns the exit code.
pub fn child_main() -> i32 {
    match fetch() {
        Ok(()) => 0,
        Err(Failed(stage, message)) => {
            out::stderr(message.as_bytes());
            let code = CODES.iter().find(|(_, s, _)| *s == stage);
            code.map_or(1, |(code, ..)| *code)
        }
    }
}

fn fetch() -> Result<(), Failed> {
    let setup = |what: &str| Failed(Stage::Setup, what.into());
    let head = selfexe::read_inherited(0)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| setup("no request on standard input"))?;
    let mut lines = head.lines();
    let (method, url) = lines
        .next()
        .and_then(|line| line.split_once(' '))
        .ok_or_else(|| setup("no request line"))?;
    let mut request = match method {
        "POST" => {
            let body = selfexe::read_inherited(EXTRA_FD);
            minreq::post(url).with_body(body.map_err(|_| setup("no body on descriptor 3"))?)
        }
        _ => minreq::get(url),
    };
    for line in lines {
        let (name, value) = line.split_once(": ").ok_or_else(|| setup("no header"))?;
        request = request.with_header(name, value);
    }
    let mut reply = request
        .with_header("Connection", "close")
        .with_follow_redirects(false)
        .with_max_headers_size(64 * 1024)
        .send_lazy()
        .map_err(failed)?;
    // What minreq makes of a connection that was closed, or answered with something else than HTTP.
    if reply.status_code == 503 && reply.reason_phrase.starts_with("Server did not provide") {
        let what = "the connection was closed before a reply came, or the reply is not HTTP";
        return Err(Failed(Stage::FirstByte, what.into()));
    }
    if (100..200).contains(&reply.status_code) {
        let what = "an interim reply, which needs curl: install it and set CLUADE_TRANSPORT=curl";
        return Err(Failed(Stage::Status, what.into()));
    }
    let mut bytes = b"HTTP/1.1 ".to_vec();
    crate::text::push_dec(&mut bytes, u64::from(reply.status_code));
    bytes.extend_from_slice(b"\r\n");
    for (name, value) in &reply.headers {
        for part in [name.as_str(), ": ", value, "\r\n"] {
            bytes.extend_from_slice(part.as_bytes());
        }
    }
    bytes.extend_from_slice(b"\r\n");
    let gone = |_: io::Error| Failed(Stage::Body, "nobody reads any more".into());
    out::write_all(out::STDOUT, &bytes).map_err(gone)?;
    // These never have a body, and the connection may stay open.
    if matches!(reply.status_code, 204 | 304) {
        return Ok(());
    }
    let mut buf = [0u8; 16 * 1024];
    loop {
        match reply.read(&mut buf) {
            Ok(0) => return Ok(()),
            Ok(n) => out::write_all(out::STDOUT, &buf[..n.min(buf.len())]).map_err(gone)?,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Failed(Stage::Body, plain_text(&e))),
        }
    }
}

fn failed(error: minreq::Error) -> Failed {
    let stage = match &error {
        minreq::Error::IoError(e) => stage_of(e),
        minreq::Error::AddressNotFound => Stage::Lookup,
        minreq::Error::HttpsFeatureNotEnabled | minreq::Error::PunycodeFeatureNotEnabled => {
            Stage::Setup
        }
        #[cfg(feature = "tls")]
        minreq::Error::RustlsCreateConnection(_) => Stage::Tls,
        _ => Stage::Status,
    };
    match &error {
        minreq::Error::IoError(e) => Failed(stage, plain_text(e)),
        other => Failed(stage, other.to_string()),
    }
}

/// minreq does lookup, connect and exchange in one call; the kind of error tells which it was.
fn stage_of(error: &io::Error) -> Stage {
    match error.raw_os_error() {
        Some(
            libc::ECONNREFUSED
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::ENETDOWN
            | libc::ETIMEDOUT
            | libc::EADDRNOTAVAIL
            | libc::EAFNOSUPPORT
            | libc::EACCES
            | libc::EPERM,
        ) => Stage::Connect,
        Some(_) => Stage::FirstByte,
        None if error.kind() == io::ErrorKind::InvalidData => Stage::Tls,
        // The standard library gives the resolver's words without a system error.
        None if error.to_string().contains("lookup") => Stage::Lookup,
        None => Stage::FirstByte,
    }
}

/// The error's text without the standard library's ` (os error N)`.
fn plain_text(error: &io::Error) -> String {
    let mut text = error.to_string();
    if let Some(i) = text.find(" (os error") {
        text.truncate(i);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stage_comes_from_the_kind_of_error() {
        let os = io::Error::from_raw_os_error;
        for (error, stage) in [
            (os(libc::ECONNREFUSED), Stage::Connect),
            (os(libc::ETIMEDOUT), Stage::Connect),
            (os(libc::ECONNRESET), Stage::FirstByte),
            (os(libc::EPIPE), Stage::FirstByte),
            (
                io::Error::other("failed to lookup address information: x"),
                Stage::Lookup,
            ),
        ] {
            assert_eq!(stage_of(&error), stage, "{error}");
        }
        assert_eq!(plain_text(&os(libc::ECONNREFUSED)), "Connection refused");
    }

    #[test]
    fn a_name_that_is_none_fails_at_lookup() {
        // A label of 64 letters is refused by every resolver without asking anybody.
        let url = ["http://", &"a".repeat(64), ".invalid/"].concat();
        let error = minreq::get(url).send_lazy();
        assert!(error.is_err_and(|e| failed(e).0 == Stage::Lookup));
    }
}
