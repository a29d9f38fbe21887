//! curl, the best there is: its configuration comes through standard input and the body through descriptor 3, so
//! neither the key nor the prompt is in an argument, a variable or a file.

use super::{Error, Job, Sink, child};
use crate::provider::Stage;
use crate::sys::process::{Spawn, Watch};

/// Longest wait for name lookup, connection and TLS together, in ms. A MIPS router needs seconds for the handshake.
const CONNECT_MS: u64 = 60_000;

/// curl's exit codes by what they mean for us: code, stage, whether another try may help. Source: curl(1), EXIT CODES.
/// Codes not listed count as a reply that failed where it stood.
const CODES: &[(i32, Stage, bool)] = &[
    (1, Stage::Setup, false),
    (2, Stage::Setup, false),
    (3, Stage::Setup, false),
    (4, Stage::Setup, false),
    (5, Stage::Lookup, true),
    (6, Stage::Lookup, true),
    (7, Stage::Connect, true),
    (26, Stage::Setup, false),
    (27, Stage::Setup, false),
    (28, Stage::Connect, true),
    (35, Stage::Tls, true),
    (51, Stage::Tls, false),
    (53, Stage::Tls, false),
    (54, Stage::Tls, false),
    (58, Stage::Tls, false),
    (59, Stage::Tls, false),
    (60, Stage::Tls, false),
    (66, Stage::Tls, false),
    (77, Stage::Tls, false),
    (80, Stage::Tls, false),
    (82, Stage::Tls, false),
    (83, Stage::Tls, false),
    (90, Stage::Tls, false),
    (91, Stage::Tls, false),
    (97, Stage::Connect, true),
    (98, Stage::Tls, false),
];

pub(super) fn send(job: &Job, watch: &mut dyn Watch, sink: &mut Sink) -> Result<(), Error> {
    let config = config(job);
    let spawn = Spawn {
        // -q first: the user's own curlrc must not interfere.
        argv: &[job.program, b"-q", b"-K", b"-"],
        stdin: Some(&config),
        extra: (!job.request.body.is_empty()).then_some(job.request.body),
        ..Spawn::default()
    };
    let Some(ran) = child::run(&spawn, child::Heads::Stdout, job, watch, sink)? else {
        return Ok(());
    };
    if ran.code == 0 && ran.stage == Stage::Body {
        return Ok(());
    }
    let (stage, transient) = match CODES.iter().find(|(code, ..)| *code == ran.code) {
        Some(&(_, stage, transient)) if ran.stage != Stage::Body => (stage, transient),
        _ => (ran.stage, true),
    };
    let detail = match ran.line(b"curl: (") {
        line if line.is_empty() => ran.ended(),
        line => line,
    };
    Err(child::error(job, stage, transient, &detail))
}

/// The configuration file for this request.
fn config(job: &Job) -> Vec<u8> {
    let request = job.request;
    let mut out =
        b"silent\nshow-error\ninclude\nno-buffer\nhttp1.1\ngloboff\nsuppress-connect-headers\n\
        proto = \"=http,https\"\nheader = \"Expect:\"\n"
            .to_vec();
    let mut set = |option: &str, parts: &[&str]| {
        out.extend_from_slice(option.as_bytes());
        out.extend_from_slice(b" = \"");
        for b in parts.iter().flat_map(|p| p.bytes()) {
            if matches!(b, b'"' | b'\\') {
                out.push(b'\\');
            }
            out.push(b);
        }
        out.extend_from_slice(b"\"\n");
    };
    set("url", &[&job.url.text()]);
    for (name, value) in request.headers {
        set("header", &[name, ": ", value]);
    }
    if request.method == "POST" {
        let body = if request.body.is_empty() {
            ""
        } else {
            "@/proc/self/fd/3"
        };
        set("data-binary", &[body]);
    }
    let connect = match request.idle_ms {
        0 => CONNECT_MS,
        idle => idle.min(CONNECT_MS),
    };
    set("connect-timeout", &[&child::seconds(connect, 0)]);
    // Ours runs out first and knows more; curl's is there for when we are gone.
    if job.total_ms > 0 {
        set("max-time", &[&child::seconds(job.total_ms, 2)]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::transport::{Request, url::Url};

    #[test]
    fn values_are_quoted_and_options_complete() {
        let tail = std::cell::Cell::new(false);
        let request = Request {
            method: "POST",
            url: "",
            headers: &[("X-A", "a\"b\\c"), ("Authorization", "Bearer k")],
            body: b"{}",
            idle_ms: 20_000,
            total_ms: 600_000,
            tail: &tail,
        };
        let job = Job {
            request: &request,
            url: &Url::parse(
                "https://[::1]:8443/v1?a={b}"
                    .replace(['{', '}'], "")
                    .as_str(),
            )
            .unwrap(),
            program: b"curl",
            proxy: None,
            total_ms: 600_000,
        };
        let text = String::from_utf8(config(&job)).unwrap();
        for line in [
            "url = \"https://[::1]:8443/v1?a=b\"",
            "header = \"X-A: a\\\"b\\\\c\"",
            "header = \"Authorization: Bearer k\"",
            "data-binary = \"@/proc/self/fd/3\"",
            "connect-timeout = \"20\"",
            "max-time = \"602\"",
            "http1.1",
            "globoff",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} not in {text}");
        }
        let sorted = CODES.windows(2).all(|w| w[0].0 < w[1].0);
        assert!(sorted);
    }
}
