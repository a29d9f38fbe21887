//! `http://` by ourselves: a child of our own program fetches with minreq and writes what comes to its standard output,
//! so that the parent's poll loop has one pipe to watch and a name lookup or a stalled socket can't hold it.
//!
//! The child gets `METHOD URL` and the header fields on standard input, one a line, and the body on descriptor 3. It
//! answers with an HTTP head and the decoded body; a failure is its exit code (the stage) and one line on standard error.
//! minreq does not tell a chunked reply that broke off from a complete one: that is left to whoever reads the body.

use crate::provider::Stage;
use crate::sys::process::EXTRA_FD;
use crate::sys::{fs::os_text, out, selfexe};
use std::io::{self, Read};

/// The hidden first argument that makes our program this child; [`child_main`] is to be called for it before anything
/// else, signal handlers included.
pub const CHILD_FLAG: &str = "--transport-child";

/// The child's exit code for a failure at [`Stage::Setup`]; the other stages follow in order.
pub(super) const CODE: u8 = 10;

struct Failed(Stage, String);

/// The child: fetches what standard input says and returns the exit code.
pub fn child_main() -> i32 {
    match fetch() {
        Ok(()) => 0,
        Err(Failed(stage, message)) => {
            out::stderr(message.as_bytes());
            i32::from(CODE) + stage as i32
        }
    }
}

#[inline(never)]
fn fail<T>(stage: Stage, what: &str) -> Result<T, Failed> {
    Err(Failed(stage, what.into()))
}

fn fetch() -> Result<(), Failed> {
    let head = selfexe::read_inherited(0).unwrap_or_default();
    let head = String::from_utf8(head).unwrap_or_default();
    let mut lines = head.lines();
    let Some((method, url)) = lines.next().and_then(|line| line.split_once(' ')) else {
        return fail(Stage::Setup, "no request line on standard input");
    };
    let mut request = minreq::get(url);
    if method == "POST" {
        let Ok(body) = selfexe::read_inherited(EXTRA_FD) else {
            return fail(Stage::Setup, "no body on descriptor 3");
        };
        request = minreq::post(url).with_body(body);
    }
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            return fail(Stage::Setup, "no header");
        };
        request = request.with_header(name, value.trim_start());
    }
    let mut reply = request
        .with_header("Connection", "close")
        .with_follow_redirects(false)
        .with_max_headers_size(64 * 1024)
        .send_lazy()
        .map_err(failed)?;
    let mut status = reply.status_code;
    // What minreq makes of a connection that was closed, or answered with something else than HTTP.
    if status == 503 && reply.reason_phrase.starts_with("Server did not provide") {
        let what = "the connection was closed before a reply came, or the reply is not HTTP";
        return fail(Stage::FirstByte, what);
    }
    if (100..200).contains(&status) {
        let what = "an interim reply, which needs curl: install it and set CLUADE_TRANSPORT=curl";
        return fail(Stage::Status, what);
    }
    let mut bytes = b"HTTP/1.1 ".to_vec();
    crate::text::push_dec(&mut bytes, status as u64);
    bytes.push(b'\n');
    for (name, value) in &reply.headers {
        for part in [name.as_str(), ":", value, "\n"] {
            bytes.extend_from_slice(part.as_bytes());
        }
    }
    bytes.push(b'\n');
    let mut buf = vec![0; 16 * 1024];
    loop {
        if out::write_all(out::STDOUT, &bytes).is_err() {
            return fail(Stage::Body, "nobody reads any more");
        }
        // These never have a body, and the connection may stay open.
        if matches!(status, 204 | 304) {
            return Ok(());
        }
        match reply.read(&mut buf) {
            Ok(0) => status = 204,
            Ok(n) => {
                bytes.clear();
                bytes.extend_from_slice(buf.get(..n).unwrap_or_default());
                continue;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Failed(Stage::Body, os_text(&e))),
        }
        bytes.clear();
    }
}

fn failed(error: minreq::Error) -> Failed {
    let stage = match &error {
        minreq::Error::IoError(e) => return Failed(stage_of(e), os_text(e)),
        minreq::Error::AddressNotFound => Stage::Lookup,
        minreq::Error::HttpsFeatureNotEnabled | minreq::Error::PunycodeFeatureNotEnabled => {
            Stage::Setup
        }
        #[cfg(feature = "tls")]
        minreq::Error::RustlsCreateConnection(_) => Stage::Tls,
        _ => Stage::Status,
    };
    Failed(stage, error.to_string())
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
        None if error.kind() == io::ErrorKind::InvalidData => Stage::Tls,
        // The standard library gives the resolver's words without a system error.
        None if error.to_string().contains("lookup") => Stage::Lookup,
        _ => Stage::FirstByte,
    }
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
        assert_eq!(os_text(&os(libc::ECONNREFUSED)), "Connection refused");
    }

    #[test]
    fn a_name_that_is_none_fails_at_lookup() {
        // A label of 64 letters is refused by every resolver without asking anybody.
        let url = ["http://", &"a".repeat(64), ".invalid/"].concat();
        let error = minreq::get(url).send_lazy();
        assert!(error.is_err_and(|e| failed(e).0 == Stage::Lookup));
    }
}
