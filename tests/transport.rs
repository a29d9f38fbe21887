//! Transports against real servers and with the real programs. A test whose program is not there says SKIPPED.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod transport_rig;

use serde_json::json;
use std::io::Write;
use std::sync::mpsc::channel;
use std::time::Duration;
use transport_rig::*;

/// Not a test: the process in which [`Case::start`] runs a transport.
#[test]
fn driver() {
    drive();
}

/// What every transport must do alike, over plain HTTP. `full`: it shows the body of a refusal too.
fn conformance(client: &str, full: bool) {
    // The request as the server sees it, and nothing held back on the way.
    let (to_test, from_server) = channel();
    let (to_server, from_test) = channel::<std::path::PathBuf>();
    let server = Server::start(move |_, mut stream| {
        let got = read_request(&mut stream);
        let events = from_test.recv().unwrap();
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head).unwrap();
        for piece in [&b"data: one\n\n"[..], b"data: two\n\n"] {
            write!(stream, "{:x}\r\n", piece.len()).unwrap();
            stream.write_all(piece).unwrap();
            stream.write_all(b"\r\n").unwrap();
            wait_for_piece(&events, piece);
        }
        stream.write_all(b"0\r\n\r\n").unwrap();
        to_test.send(got).unwrap();
    });
    let running = Case::new(client, server.url("/v1/chat?x=1")).start();
    to_server.send(running.events.clone()).unwrap();
    running.wait().ok(200, b"data: one\n\ndata: two\n\n");
    let got = from_server.recv().unwrap();
    assert!(
        got.head.starts_with("POST /v1/chat?x=1 HTTP/1.1\r\n"),
        "{}",
        got.head
    );
    assert_eq!(got.header("authorization"), Some("Bearer k-3141592653"));
    assert_eq!(got.header("content-type"), Some("application/json"));
    let place = format!("127.0.0.1:{}", server.port);
    assert_eq!(got.header("host"), Some(place.as_str()));
    assert!(matches!(
        got.header("accept-encoding"),
        None | Some("identity")
    ));
    assert_eq!(got.header("expect"), None);
    assert_eq!(got.body, b"{\"a\":\"b\\n\"}");

    // Two megabytes up, a hundred kilobytes down.
    let (to_test, from_server) = channel();
    let down: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
    let mut reply = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n".to_vec();
    reply.extend_from_slice(&down);
    let server = Server::start(move |_, mut stream| {
        to_test.send(read_request(&mut stream)).unwrap();
        stream.write_all(&reply).unwrap();
    });
    let mut case = Case::new(client, server.url("/"));
    case.body = (0..2_000_000u32).map(|i| b'a' + (i % 23) as u8).collect();
    let sent = case.body.clone();
    let reply = case.run();
    assert!(reply.body == down && reply.end["ok"] == true);
    let got = from_server.recv().unwrap();
    // curl would wait a second for a permission that few servers give.
    assert!(
        got.body == sent && got.header("expect").is_none(),
        "{}",
        got.head
    );

    // A GET, and no body in it.
    let (to_test, from_server) = channel();
    let server = Server::start(move |_, mut stream| {
        to_test.send(read_request(&mut stream)).unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            .unwrap();
    });
    let mut case = Case::new(client, server.url("/v1/models"));
    case.method = "GET";
    case.body.clear();
    case.run().ok(200, b"ok");
    let got = from_server.recv().unwrap();
    assert!(got.head.starts_with("GET /v1/models "), "{}", got.head);
    assert_eq!(got.header("authorization"), Some("Bearer k-3141592653"));

    // Refusals are replies.
    for (status, body) in [
        (400, "{\"error\":1}"),
        (401, "no"),
        (429, "slow"),
        (500, "oops"),
        (503, "later"),
    ] {
        let reply = format!(
            "HTTP/1.1 {status} Reason\r\nRetry-After: 7\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let got = Case::new(client, Server::replying(reply).url("/")).run();
        // GNU wget keeps the body of a 401 to itself.
        let shown = full && !(client == "wget" && status == 401);
        got.ok(status, if shown { body.as_bytes() } else { b"" });
        if full {
            assert!(
                got.headers
                    .as_array()
                    .unwrap()
                    .contains(&json!(["retry-after", "7"]))
            );
        }
    }

    // Failures have their stage.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", closed.local_addr().unwrap());
    drop(closed);
    Case::new(client, url)
        .run()
        .failed("Connect", &["can't connect to 127.0.0.1:"]);
    let url = format!("http://{}.invalid/", "a".repeat(64));
    Case::new(client, url)
        .run()
        .failed("Lookup", &["find the address of aaa"]);
    let short = Server::replying("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nonly");
    let got = Case::new(client, short.url("/")).run();
    got.failed("Body", &["broke off"]);
    assert_eq!(
        (got.body.as_slice(), &got.end["transient"]),
        (&b"only"[..], &json!(true))
    );
    let silent = Server::start(|_, mut stream| {
        read_request(&mut stream);
    });
    Case::new(client, silent.url("/"))
        .run()
        .failed("FirstByte", &["no reply from 127.0.0.1:"]);
}

/// A server that answers with `start` and then says nothing until the client has gone.
fn stalling(start: &'static [u8]) -> Server {
    Server::start(move |_, mut stream| {
        read_request(&mut stream);
        stream.write_all(start).unwrap();
        wait_for_close(&mut stream);
    })
}

const STARTED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";

/// The clocks, the end by the caller, Ctrl-C, and our own death: each ends the child at once.
fn endings(client: &str) {
    let server = stalling(b"");
    let got = Case::new(client, server.url("/")).limits(300, 9000).run();
    got.failed("FirstByte", &["not a byte for 1 s"]);
    assert_eq!(got.end["transient"], true);
    assert!(got.elapsed < Duration::from_secs(3), "{:?}", got.elapsed);

    let server = stalling(STARTED);
    let got = Case::new(client, server.url("/")).limits(300, 9000).run();
    got.failed("Body", &["not a byte for 1 s"]);
    assert_eq!(got.body, b"hello");

    let got = Case::new(client, server.url("/")).limits(9000, 400).run();
    got.failed("Body", &["not complete within 1 s"]);
    assert_eq!(got.end["transient"], false);

    let mut case = Case::new(client, server.url("/"));
    case.enough_after = Some(5);
    let got = case.run();
    got.ok(200, b"hello");
    assert!(got.elapsed < Duration::from_secs(3), "{:?}", got.elapsed);

    let mut case = Case::new(client, server.url("/"));
    case.tail_after = Some(5);
    let got = case.run();
    got.ok(200, b"hello");
    let took = got.elapsed.as_millis();
    assert!((3000..6000).contains(&took), "{took}");

    for signal in ["-INT", "-TERM"] {
        let running = Case::new(client, server.url("/")).start();
        running.wait_for_piece(b"hello");
        let pid = running.child.id().to_string();
        let start = std::time::Instant::now();
        let sent = std::process::Command::new("kill")
            .args([signal, &pid])
            .status();
        assert!(sent.unwrap().success());
        let events = running.events.clone();
        until("the transport is gone", || {
            transports_of(&events).is_empty()
        });
        let got = running.wait();
        // 100 ms of it is the driver's own look at the flag.
        assert!(
            start.elapsed() < Duration::from_millis(1500),
            "{:?}",
            start.elapsed()
        );
        assert_eq!(
            (&got.end["cancelled"], &got.end["stage"]),
            (&json!(true), &json!("Body"))
        );
    }

    let mut running = Case::new(client, server.url("/")).start();
    running.wait_for_piece(b"hello");
    assert!(!transports_of(&running.events).is_empty());
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    until("the orphan is gone", || {
        transports_of(&running.events).is_empty()
    });
}

#[test]
fn plain_conforms() {
    conformance("plain", true);
}

#[test]
fn plain_ends() {
    endings("plain");
}

#[test]
fn curl_conforms() {
    if has("curl") {
        conformance("curl", true);
    }
}

#[test]
fn curl_ends() {
    if has("curl") {
        endings("curl");
    }
}

#[test]
fn wget_conforms() {
    if has("wget") {
        conformance("wget", true);
    }
}

#[test]
fn wget_ends() {
    if has("wget") {
        endings("wget");
    }
}

/// busybox under the name wget, as its links make it.
fn busybox_wget(dir: &Dir) -> String {
    let busybox = cluade::sys::process::find_program(b"busybox").unwrap();
    let link = dir.path("wget");
    std::os::unix::fs::symlink(String::from_utf8(busybox).unwrap(), &link).unwrap();
    format!("wget:{link}")
}

#[test]
fn busybox_wget_does_what_it_can() {
    if !has("busybox") {
        return;
    }
    let dir = Dir::new();
    let client = busybox_wget(&dir);
    let server = Server::replying(
        "HTTP/1.1 200 OK\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    );
    let got = Case::new(&client, server.url("/")).run();
    got.ok(200, b"ok");
    assert!(
        got.headers
            .as_array()
            .unwrap()
            .contains(&json!(["x-a", "b"]))
    );
    let server =
        Server::replying("HTTP/1.1 429 No\r\nRetry-After: 7\r\nContent-Length: 1\r\n\r\nx");
    Case::new(&client, server.url("/")).run().ok(429, b"");
    let short = Server::replying("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nonly");
    Case::new(&client, short.url("/"))
        .run()
        .failed("Body", &["broke off"]);
    let url = format!("http://{}.invalid/", "a".repeat(64));
    Case::new(&client, url)
        .run()
        .failed("Lookup", &["bad address"]);
}

/// uclient-fetch as its sources say it behaves, on top of curl: only 200, 204 and 206 have a body, others a line on
/// standard error and code 8; POST is chunked; a progress meter on standard error. `@HEADER@` is for 24.10 only.
const UCLIENT: &str = r#"#!/bin/sh
n=0
usage() { echo "uclient-fetch: unrecognized option: $1" >&2; echo "Usage: uclient-fetch [options] <URL>" >&2; exit 1; }
post= type= url= out= timeout=
set -- "$@" @@
while [ "$1" != @@ ]; do
  a=$1; shift
  case "$a" in
    --header=*) @HEADER@ h=${a#--header=}; set -- "$@" -H "$h"; case "$h" in [Cc]ontent-[Tt]ype:*) type=1;; esac;;
    --post-file=*) post=${a#--post-file=};;
    -O) out=$1; shift;;
    -T) timeout=$1; shift;;
    -*) usage "$a";;
    *) url=$a;;
  esac
done
shift
[ -n "$timeout" ] && [ "$out" = - ] && [ -n "$url" ] || usage "$url"
echo "Downloading '$url'" >&2
if [ -n "$post" ]; then
  [ -n "$type" ] || set -- "$@" -H 'Content-Type: application/x-www-form-urlencoded'
  set -- "$@" -X POST -H 'Transfer-Encoding: chunked' -H Expect: --data-binary "@$post"
elif [ -n "$type" ]; then
  echo "Failed to send request: Invalid argument" >&2; exit 4
fi
status=$(mktemp)
( while sleep 1; do echo "- 12% |***   | 1k 0:00:09 ETA" >&2; done ) & meter=$!
curl -q -sfN --http1.1 -w '%{stderr}%{http_code}' "$@" "$url" 2>"$status" & curl=$!
trap 'kill $meter $curl; rm -f "$status"; exit 143' TERM
wait $curl; rc=$?
kill $meter
http=$(cat "$status"); rm -f "$status"
[ $rc = 6 ] && { echo "Failed to send request: Operation not permitted" >&2; exit 4; }
echo "Connecting to 127.0.0.1:80" >&2
case $rc in
  0) echo "Writing to stdout" >&2; echo "Download completed" >&2; exit 0;;
  22) echo "HTTP error $http" >&2; exit 8;;
  7) echo "Connection error: Connection failed" >&2; exit 4;;
  60) echo "Connection error: Invalid SSL certificate" >&2; exit 5;;
  *) echo "Connection reset prematurely" >&2; exit 4;;
esac
"#;

fn uclient(dir: &Dir, headers: bool) -> String {
    let version = if headers { "" } else { "usage \"$a\";" };
    let path = dir.script("uclient-fetch", &UCLIENT.replace("@HEADER@", version));
    format!("uclient-fetch:{path}")
}

#[test]
fn uclient_fetch_conforms() {
    if has("curl") {
        let dir = Dir::new();
        conformance(&uclient(&dir, true), false);
    }
}

#[test]
fn uclient_fetch_ends() {
    if !has("curl") {
        return;
    }
    let dir = Dir::new();
    let client = uclient(&dir, true);
    // Its progress meter must not count as a sign of life: the clock is longer than the meter's step.
    let server = stalling(STARTED);
    let got = Case::new(&client, server.url("/"))
        .limits(1500, 20_000)
        .run();
    got.failed("Body", &["not a byte for 2 s"]);
    assert!(got.elapsed < Duration::from_secs(6), "{:?}", got.elapsed);
}

#[test]
fn uclient_fetch_without_headers_sends_no_key() {
    if !has("curl") {
        return;
    }
    let dir = Dir::new();
    let client = uclient(&dir, false);
    let server = Server::replying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let got = Case::new(&client, server.url("/")).run();
    got.failed("Setup", &["can't send a key", "install curl"]);
    assert_eq!(got.end["transient"], false);
    let mut case = Case::new(&client, server.url("/"));
    case.headers = vec![("Content-Type".into(), "application/json".into())];
    case.run().ok(200, b"ok");
}

#[test]
fn every_byte_may_come_alone() {
    let reply = "HTTP/1.1 200 OK\r\nX-A: é\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nh\u{e9}llo \r\n3;x=y\r\nyou\r\n0\r\nT: r\r\n\r\n";
    for client in ["plain", "curl"] {
        if !has(if client == "plain" { "sh" } else { client }) {
            continue;
        }
        let server = Server::start(move |_, mut stream| {
            read_request(&mut stream);
            for byte in reply.as_bytes() {
                stream.write_all(&[*byte]).unwrap();
            }
        });
        let got = Case::new(client, server.url("/")).run();
        assert_eq!(got.status, 200, "{got:?}");
        assert!(got.body.starts_with("h\u{e9}llo you".as_bytes()), "{got:?}");
        assert_eq!(got.end["ok"], true);
    }
}

#[test]
fn plain_reads_every_framing() {
    let table: &[(&str, u64, &str)] = &[
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok"),
        ("HTTP/1.1 200 OK\r\n\r\nto the end", 200, "to the end"),
        (
            "HTTP/1.0 200\r\ncontent-length:2\r\n\r\nok and more",
            200,
            "ok",
        ),
        ("HTTP/1.1 200 OK\nContent-Length: 0\n\n", 200, ""),
        (
            "HTTP/1.1 303 See\r\nLocation: /x\r\nContent-Length: 1\r\n\r\nx",
            303,
            "x",
        ),
        (
            "HTTP/1.1 308 No location\r\nContent-Length: 1\r\n\r\nx",
            308,
            "x",
        ),
    ];
    for (reply, status, body) in table {
        let server = Server::replying(*reply);
        Case::new("plain", server.url("/"))
            .run()
            .ok(*status, body.as_bytes());
    }
    // No body, and the connection stays open.
    for status in [204, 304] {
        let server = Server::start(move |_, mut stream| {
            read_request(&mut stream);
            write!(stream, "HTTP/1.1 {status} X\r\n\r\n").unwrap();
            wait_for_close(&mut stream);
        });
        Case::new("plain", server.url("/")).run().ok(status, b"");
    }
    for garbage in [
        "SSH-2.0-dropbear\r\n",
        "\r\n\r\n",
        "{\"error\":\"not http\"}",
    ] {
        let server = Server::replying(garbage);
        Case::new("plain", server.url("/"))
            .run()
            .failed("FirstByte", &["not HTTP"]);
    }
    let server = Server::replying("HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200 OK\r\n\r\n");
    Case::new("plain", server.url("/"))
        .run()
        .failed("Status", &["curl"]);
    let huge = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(80_000));
    Case::new("plain", Server::replying(huge).url("/"))
        .run()
        .failed("Status", &["headers"]);
}

#[test]
fn curl_skips_interim_heads() {
    if !has("curl") {
        return;
    }
    let server = Server::replying(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    );
    Case::new("curl", server.url("/")).run().ok(200, b"ok");
}

#[test]
fn redirects_keep_the_request_whole() {
    for client in ["plain", "curl", "wget"] {
        if !has(if client == "plain" { "sh" } else { client }) {
            continue;
        }
        let (to_test, from_server) = channel();
        let server = Server::start(move |n, mut stream| {
            let got = read_request(&mut stream);
            let reply: &[u8] = if n == 0 {
                b"HTTP/1.1 308 Moved\r\nLocation: /v2/x\r\nContent-Length: 5\r\n\r\nmoved"
            } else {
                b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
            };
            let _ = stream.write_all(reply);
            let _ = to_test.send(got);
        });
        Case::new(client, server.url("/v1/x")).run().ok(200, b"ok");
        let (first, second) = (from_server.recv().unwrap(), from_server.recv().unwrap());
        assert!(first.head.starts_with("POST /v1/x ") && second.head.starts_with("POST /v2/x "));
        assert_eq!(
            second.header("authorization"),
            first.header("authorization")
        );
        assert_eq!(
            (second.header("content-type"), &second.body),
            (first.header("content-type"), &first.body)
        );
    }
    let round = Server::replying("HTTP/1.1 307 X\r\nLocation: /\r\nContent-Length: 0\r\n\r\n");
    Case::new("plain", round.url("/"))
        .run()
        .failed("Status", &["again and again"]);
    let away = Server::replying(
        "HTTP/1.1 301 X\r\nLocation: https://other.example/v1\r\nContent-Length: 0\r\n\r\n",
    );
    let got = Case::new("plain", away.url("/")).run();
    got.failed("Status", &["https://other.example/v1", "base URL"]);
}

#[test]
fn the_child_refuses_nonsense() {
    for (stdin, words) in [
        ("", "no request line"),
        ("POST", "no request line"),
        ("GET http://h/\nx", "no header"),
    ] {
        let mut child = std::process::Command::new(CLUADE)
            .arg("--transport-child")
            .stdin(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(stdin.as_bytes())
            .unwrap();
        let done = child.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(10));
        assert!(
            holds(&done.stderr, words),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
}
