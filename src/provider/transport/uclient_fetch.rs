//! OpenWrt's uclient-fetch. It has no way to read headers from a file, so the key is in its arguments while it runs, and
//! the body in a file that only we may read. Of a refused request it shows nothing but the status. Redirects it follows
//! itself. Source: openwrt/uclient, uclient-fetch.c, at 007d945 (23.05) and 88ae8f2 (24.10).

use super::{Error, Head, Job, Piece, Sink, child, is_secret};
use crate::provider::Stage;
use crate::sys::process::{Spawn, Watch};

const TOO_OLD: &str = "this uclient-fetch (before OpenWrt 24.10) can't send a key: install curl \
    (`opkg update && opkg install curl`)";

pub(super) fn send(job: &Job, watch: &mut dyn Watch, sink: &mut Sink) -> Result<(), Error> {
    let file = if job.request.method == "POST" {
        Some(child::TempFile::new(job.request.body)?)
    } else {
        None
    };
    let mut with_headers = true;
    loop {
        let argv = arguments(job, file.as_ref(), with_headers);
        let argv: Vec<&[u8]> = argv.iter().map(Vec::as_slice).collect();
        let spawn = Spawn {
            argv: &argv,
            ..Spawn::default()
        };
        let Some(ran) = child::run(&spawn, child::Heads::Implied, job, watch, sink)? else {
            return Ok(());
        };
        if let Some(status) = refused(&ran.stderr).filter(|_| ran.code == 8 && ran.status == 0) {
            return head(status, sink);
        }
        let broken = ran.stage == Stage::Body;
        match ran.code {
            0 if broken => return Ok(()),
            0 => return head(200, sink),
            // A getopt that does not know an option says so and shows the usage.
            1 if !broken && with_headers && ran.says(b"nrecognized option") => {
                if job.request.headers.iter().any(is_secret) {
                    return Err(Error::fatal(Stage::Setup, TOO_OLD));
                }
                with_headers = false;
                continue;
            }
            _ => {}
        }
        let (stage, transient, mark): (_, _, &[u8]) = match ran.code {
            _ if broken => (Stage::Body, true, b"Connection"),
            1 if ran.says(b"SSL support not available") => (Stage::Setup, false, b"SSL support"),
            // "Connecting to" comes once the name was found.
            4 if !ran.says(b"Connecting to") => (Stage::Lookup, true, b"Failed"),
            4 if ran.says(b"reset prematurely") => (Stage::FirstByte, true, b"Connection"),
            4 => (Stage::Connect, true, b"Connection error"),
            5 => (Stage::Tls, false, b"Connection error"),
            _ => (ran.stage, true, b"rror"),
        };
        let detail = match ran.line(mark) {
            line if line.is_empty() => ran.ended(),
            line => line,
        };
        return Err(child::error(job, stage, transient, &detail));
    }
}

fn head(status: u16, sink: &mut Sink) -> Result<(), Error> {
    sink(Piece::Head(&Head {
        status,
        headers: Vec::new(),
    }));
    Ok(())
}

fn arguments(job: &Job, file: Option<&child::TempFile>, with_headers: bool) -> Vec<Vec<u8>> {
    let mut argv = vec![job.program.to_vec(), b"-O".to_vec(), b"-".to_vec()];
    if job.request.idle_ms > 0 {
        // Its clock is an idle one too; ours runs out first and says where.
        argv.push(b"-T".to_vec());
        argv.push(child::seconds(job.request.idle_ms, 2).into_bytes());
    } else {
        argv.extend([b"-T".to_vec(), b"86400".to_vec()]);
    }
    for (name, value) in job.request.headers.iter().filter(|_| with_headers) {
        // It refuses a content type where there is no content.
        if file.is_some() || !name.eq_ignore_ascii_case("content-type") {
            argv.push(["--header=", name, ": ", value].concat().into_bytes());
        }
    }
    if let Some(file) = file {
        argv.push([b"--post-file=", &file.path[..]].concat());
    }
    argv.push(job.url.text().into_bytes());
    argv
}

/// The status in its line `HTTP error 401`.
fn refused(stderr: &[u8]) -> Option<u16> {
    const MARK: &[u8] = b"HTTP error ";
    let rest = &stderr[memchr::memmem::rfind(stderr, MARK)? + MARK.len()..];
    let n = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..n]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_refusal() {
        assert_eq!(refused(b"Downloading\nHTTP error 429\n"), Some(429));
        assert_eq!(refused(b"HTTP error \n"), None);
        assert_eq!(refused(b"HTTP error 99999999\n"), None);
        assert_eq!(refused(b""), None);
    }
}
