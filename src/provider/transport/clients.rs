//! The programs that speak HTTP for us, as data: how each is called, where its headers and body go, and what its exit
//! codes and words mean.
//!
//! - curl, the best there is: its configuration comes through standard input and the body through descriptor 3, so neither
//!   the key nor the prompt is in an argument, a variable or a file.
//! - GNU wget reads its headers from a configuration file, so the key is in no argument; it does not read one, nor a body,
//!   from a pipe, so both are files that only we may read. Heads come on standard error (`-S`).
//! - busybox wget takes headers as arguments only, drops the body of a refused request, and checks no certificate.
//! - uclient-fetch has no way to read headers from a file either. Of a refused request it shows nothing but the status.
//!   Redirects it follows itself. Source: openwrt/uclient, uclient-fetch.c, at 007d945 (23.05) and 88ae8f2 (24.10).
//! - ourselves: see [`super::plain`].

use super::child::{self, Heads, TempFile};
use super::pick::Client;
use super::{Error, Head, Job, Piece, Sink, is_secret, plain};
use crate::provider::Stage::{self, Body, Connect, FirstByte, Lookup, Setup, Status, Tls};
use crate::sys::process::Watch;
use crate::text::push_dec;
use memchr::memmem::find;

/// Longest wait for name lookup, connection and TLS together, in ms. A MIPS router needs seconds for the handshake.
const CONNECT_MS: u64 = 60_000;

const TOO_OLD: &str = "this uclient-fetch (before OpenWrt 24.10) can't send a key: install curl \
    (`opkg update && opkg install curl`)";

/// What getopt says of an option it does not know.
const NO_OPTION: &str = "nrecognized option";

/// How a client is used. In the texts stand `%u` for the URL, `%m` the method, `%h` the headers, `%b` the part for the
/// body of a POST, `%p` the body's file, `%f` the file of `input`; in seconds, `%i` the idle limit, `%c` the one for
/// connecting, `%t` the one for all. Ours run out first and know more; the client's are there for when we are gone.
struct Spec {
    /// Arguments, each ended by NUL.
    argv: &'static str,
    /// For its standard input, or for a file where it reads none.
    input: &'static str,
    /// What stands around a header field.
    header: [&'static str; 2],
    body: &'static str,
    heads: Heads,
    /// Part of the line of standard error that says what is wrong, when no row of `rows` knows a better one.
    mark: &'static str,
    rows: &'static [Row],
}

/// Exit codes, from and to; a text on standard error, whose line is the message; where it failed. The first that fits
/// counts; without one it failed where the reply stood.
type Row = (u8, u8, &'static str, Stage);

/// By the order of [`Client`].
static SPECS: [Spec; 5] = [
    Spec {
        argv: "--transport-child\0",
        input: "%m %u\n%h",
        header: ["", "\n"],
        body: "",
        heads: Heads::Stdout,
        mark: "",
        rows: &[
            (plain::CODE, plain::CODE, "", Setup),
            (plain::CODE + 1, plain::CODE + 1, "", Lookup),
            (plain::CODE + 2, plain::CODE + 2, "", Connect),
            (plain::CODE + 3, plain::CODE + 3, "", Tls),
            (plain::CODE + 5, plain::CODE + 5, "", Status),
            (plain::CODE + 6, plain::CODE + 6, "", Body),
        ],
    },
    Spec {
        // -q first: the user's own curlrc must not interfere.
        argv: "-q\0-K\0-\0",
        input: "silent\nshow-error\ninclude\nno-buffer\nhttp1.1\ngloboff\nsuppress-connect-headers\n\
            proto = \"=http,https\"\nheader = \"Expect:\"\nurl = \"%u\"\nconnect-timeout = %c\nmax-time = %t\n%h%b",
        header: ["header = \"", "\"\n"],
        body: "data-binary = \"@/proc/self/fd/3\"\n",
        heads: Heads::Stdout,
        mark: "curl: (",
        // Source: curl(1), EXIT CODES.
        rows: &[
            (1, 4, "", Setup),
            (5, 6, "", Lookup),
            (7, 7, "", Connect),
            (26, 27, "", Setup),
            (28, 28, "", Connect),
            (35, 35, "", Tls),
            (51, 51, "", Tls),
            (53, 54, "", Tls),
            (58, 60, "", Tls),
            (66, 66, "", Tls),
            (77, 77, "", Tls),
            (80, 83, "", Tls),
            (90, 91, "", Tls),
            (97, 97, "", Connect),
            (98, 98, "", Tls),
        ],
    },
    Spec {
        argv: "-O\0-\0-T\0%i\0%h%b%u\0",
        input: "",
        header: ["--header=", "\0"],
        body: "--post-file=%p\0",
        heads: Heads::Implied,
        mark: "Connection",
        rows: &[
            (1, 1, "SSL support not available", Setup),
            (4, 4, "reset prematurely", FirstByte),
            (4, 4, "Connection error", Connect),
            // That comes once the name was found.
            (4, 4, "Connecting to", Connect),
            (4, 4, "Failed", Lookup),
            (5, 5, "", Tls),
        ],
    },
    Spec {
        argv: "--config=%f\0-nv\0-S\0--content-on-error\0--tries=1\0--max-redirect=0\0--read-timeout=%i\0\
            --connect-timeout=%c\0--output-document=-\0%b--\0%u\0",
        input: "%h",
        header: ["header = ", "\n"],
        body: "--post-file=%p\0",
        heads: Heads::Stderr,
        mark: "rror",
        rows: WGET,
    },
    Spec {
        argv: "-q\0-S\0-O\0-\0%h%b%u\0",
        input: "",
        header: ["--header=", "\0"],
        body: "--post-file=%p\0",
        heads: Heads::Stderr,
        mark: "rror",
        rows: WGET,
    },
];

const WGET: &[Row] = &[
    (0, 255, "unable to resolve", Lookup),
    (0, 255, "bad address", Lookup),
    (5, 5, "ERROR", Tls),
    (5, 5, "", Tls),
    (0, 255, "certificate", Tls),
    (0, 255, "SSL", Tls),
    (0, 255, "TLS", Tls),
    (0, 255, "can't connect", Connect),
    (0, 255, "failed: ", Connect),
    (0, 255, "Connection refused", Connect),
    (2, 3, "", Setup),
    (0, 255, NO_OPTION, Setup),
    (0, 255, "not an http", Setup),
];

/// What the texts of a [`Spec`] are filled with.
struct Fill<'a> {
    spec: &'static Spec,
    job: &'a Job<'a>,
    headers: bool,
    input: &'a [u8],
    body: &'a [u8],
}

impl Fill<'_> {
    fn push(&self, out: &mut Vec<u8>, text: &str) {
        let request = self.job.request;
        let mut text = text.as_bytes();
        while let Some((before, [code, rest @ ..])) =
            memchr::memchr(b'%', text).map(|i| (&text[..i], &text[i + 1..]))
        {
            out.extend_from_slice(before);
            text = rest;
            let (ms, more) = match code {
                b'u' => {
                    out.extend_from_slice(self.job.url.text().as_bytes());
                    continue;
                }
                b'm' => {
                    out.extend_from_slice(request.method.as_bytes());
                    continue;
                }
                b'h' => {
                    self.push_headers(out);
                    continue;
                }
                b'b' => {
                    if self.job.is_post() {
                        self.push(out, self.spec.body);
                    }
                    continue;
                }
                b'f' | b'p' => {
                    out.extend_from_slice(if *code == b'f' { self.input } else { self.body });
                    continue;
                }
                b'i' if request.idle_ms == 0 => (86_400_000, 0),
                b'i' => (request.idle_ms, 2),
                b'c' if request.idle_ms == 0 => (CONNECT_MS, 0),
                b'c' => (request.idle_ms.min(CONNECT_MS), 0),
                // 0 is no limit for curl too.
                _ if self.job.total_ms == 0 => {
                    out.push(b'0');
                    continue;
                }
                _ => (self.job.total_ms, 2),
            };
            push_dec(out, (ms / 1000).max(1).saturating_add(more));
        }
        out.extend_from_slice(text);
    }

    fn push_headers(&self, out: &mut Vec<u8>) {
        let [before, after] = self.spec.header;
        for (name, value) in self.job.request.headers {
            // uclient-fetch refuses a content type where there is no content.
            if !self.headers || !self.job.is_post() && name.eq_ignore_ascii_case("content-type") {
                continue;
            }
            for part in [before, name, ": "] {
                out.extend_from_slice(part.as_bytes());
            }
            for &b in value.as_bytes() {
                if matches!(b, b'"' | b'\\') && after.starts_with('"') {
                    out.push(b'\\');
                }
                out.push(b);
            }
            out.extend_from_slice(after.as_bytes());
        }
    }
}

/// Sends the request of `job` through `client`. `headers`: whether it can send any.
pub(super) fn send(
    client: Client,
    job: &Job,
    headers: bool,
    watch: &mut dyn Watch,
    sink: &mut Sink,
) -> Result<(), Error> {
    let spec = &SPECS[client as usize];
    let mut fill = Fill {
        spec,
        job,
        headers,
        input: b"",
        body: b"",
    };
    let mut input = Vec::new();
    fill.push(&mut input, spec.input);
    let piped = spec.heads == Heads::Stdout;
    let config = TempFile::new(!piped && !input.is_empty(), &input)?;
    let body = TempFile::new(!piped && job.is_post(), job.request.body)?;
    (fill.input, fill.body) = (&config.0, &body.0);
    let mut args = Vec::new();
    fill.push(&mut args, spec.argv);
    let mut argv = vec![job.program];
    argv.extend(args.split(|&b| b == 0));
    // What stands behind the last NUL.
    argv.pop();
    let input = Some(&input[..]).filter(|_| piped);
    let Some(ran) = child::run(job, &argv, input, spec.heads, watch, sink)? else {
        return Ok(());
    };
    let begun = ran.status != 0;
    let says = |text: &str| find(&ran.stderr, text.as_bytes()).is_some();
    if spec.heads == Heads::Implied && !begun {
        let refused = "HTTP error ";
        let status = match ran.code {
            0 => 200,
            8 => child::number(
                ran.line(refused)
                    .as_bytes()
                    .get(refused.len()..)
                    .unwrap_or_default(),
            ),
            _ => 0,
        };
        if status != 0 {
            sink(Piece::Head(&Head {
                status,
                headers: String::new(),
            }));
            return Ok(());
        }
        if headers && says(NO_OPTION) {
            if job.request.headers.iter().any(is_secret) {
                return Err(Error::fatal(Setup, TOO_OLD));
            }
            return send(client, job, false, watch, sink);
        }
    }
    // wget's 6 and 8 (busybox: 1) are refusals by status, which is a reply like any other; after 200 they are none.
    let refusal = spec.heads == Heads::Stderr && matches!(ran.code, 1 | 6 | 8) && ran.status >= 300;
    if begun && (ran.code == 0 || refusal) {
        return Ok(());
    }
    let (mut stage, mut mark) = (if begun { Body } else { FirstByte }, spec.mark);
    let code = u8::try_from(ran.code).unwrap_or(u8::MAX);
    let fits = |row: &&Row| (row.0..=row.1).contains(&code) && says(row.2);
    if let Some((.., text, at)) = spec.rows.iter().find(fits)
        && !begun
    {
        stage = *at;
        if !text.is_empty() {
            mark = text;
        }
    }
    let detail = match ran.line(mark) {
        line if line.is_empty() => ran.ended(),
        line => line,
    };
    // curl's 35 is a handshake that broke off, not one that was refused.
    let transient = !matches!(stage, Setup | Tls | Status) || client == Client::Curl && code == 35;
    Err(child::error(job, stage, transient, &detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::transport::{Request, url::Url};

    fn filled(client: Client, method: &'static str, text: fn(&Spec) -> &'static str) -> String {
        let tail = std::cell::Cell::new(false);
        let request = Request {
            method,
            url: "",
            headers: &[
                ("X-A", "a\"b\\c"),
                ("Authorization", "Bearer k"),
                ("Content-Type", "x"),
            ],
            body: b"",
            idle_ms: 20_000,
            total_ms: 600_000,
            tail: &tail,
        };
        let job = Job {
            request: &request,
            url: &Url::parse("https://[::1]:8443/v1?a=b").unwrap(),
            program: b"curl",
            proxy: None,
            total_ms: 600_000,
        };
        let spec = &SPECS[client as usize];
        let fill = Fill {
            spec,
            job: &job,
            headers: true,
            input: b"/c",
            body: b"/b",
        };
        let mut out = Vec::new();
        fill.push(&mut out, text(spec));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn curls_values_are_quoted_and_options_complete() {
        let text = filled(Client::Curl, "POST", |s| s.input);
        for line in [
            "url = \"https://[::1]:8443/v1?a=b\"",
            "header = \"X-A: a\\\"b\\\\c\"",
            "header = \"Authorization: Bearer k\"",
            "data-binary = \"@/proc/self/fd/3\"",
            "connect-timeout = 20",
            "max-time = 602",
            "http1.1",
            "globoff",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} not in {text}");
        }
        let text = filled(Client::Curl, "GET", |s| s.input);
        assert!(!text.contains("data-binary") && !text.contains("Content-Type"));
    }

    #[test]
    fn arguments_and_inputs() {
        for (client, method, argv, input) in [
            (
                Client::Plain,
                "GET",
                "--transport-child\0",
                "GET https://[::1]:8443/v1?a=b\nX-A: a\"b\\c\nAuthorization: Bearer k\n",
            ),
            (
                Client::UclientFetch,
                "GET",
                "-O\0-\0-T\x0022\0--header=X-A: a\"b\\c\0--header=Authorization: Bearer k\0https://[::1]:8443/v1?a=b\0",
                "",
            ),
            (
                Client::BusyboxWget,
                "POST",
                "-q\0-S\0-O\0-\0--header=X-A: a\"b\\c\0--header=Authorization: Bearer k\0--header=Content-Type: x\0--post-file=/b\0https://[::1]:8443/v1?a=b\0",
                "",
            ),
            (
                Client::Wget,
                "POST",
                "--config=/c\0-nv\0-S\0--content-on-error\0--tries=1\0--max-redirect=0\0--read-timeout=22\0--connect-timeout=20\0--output-document=-\0--post-file=/b\0--\0https://[::1]:8443/v1?a=b\0",
                "header = X-A: a\"b\\c\nheader = Authorization: Bearer k\nheader = Content-Type: x\n",
            ),
        ] {
            assert_eq!(filled(client, method, |s| s.argv), argv);
            assert_eq!(filled(client, method, |s| s.input), input);
        }
    }
}
