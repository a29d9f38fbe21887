//! Which client a device uses, without anybody saying so.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod transport_rig;

use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc::channel;
use transport_rig::*;

/// Not a test: the process in which [`Case::start`] runs a transport.
#[test]
fn driver() {
    drive();
}

#[test]
fn the_device_decides_which_client_it_is() {
    if !has("curl") || !has("openssl") {
        return;
    }
    // A device with nothing, then one whose wget is a link to uclient-fetch. Both without CLUADE_TRANSPORT.
    let dir = Dir::new();
    let empty = dir.path("bin");
    std::fs::create_dir(&empty).unwrap();
    let case = |url: &str| Case::new("", url).env("PATH", &empty);
    let got = case("https://localhost:1/").run();
    got.failed(
        "Setup",
        &[
            "no HTTPS client",
            "opkg install curl",
            "apk add curl",
            "tls",
        ],
    );
    let got = case("http://[::1]:1/").run();
    got.failed("Setup", &["IPv6", "curl"]);
    let got = case("http://localhost:1/")
        .env("http_proxy", "http://127.0.0.1:1")
        .run();
    got.failed("Setup", &["proxy", "no_proxy"]);
    // Found by its link's target; that it was started shows in its own words.
    let script =
        "#!/bin/sh\necho \"SSL support not available, please install one of them\" >&2\nexit 1\n";
    let real = dir.script("uclient-fetch", script);
    std::os::unix::fs::symlink(real, dir.path("bin/wget")).unwrap();
    case("https://localhost:1/")
        .run()
        .failed("Setup", &["SSL support not available"]);
    // busybox checks no certificate: it does not count.
    std::fs::remove_file(dir.path("bin/wget")).unwrap();
    let real = dir.script("busybox", "#!/bin/sh\nexit 99\n");
    std::os::unix::fs::symlink(real, dir.path("bin/wget")).unwrap();
    case("https://localhost:1/")
        .run()
        .failed("Setup", &["no HTTPS client"]);
}

#[test]
fn an_ipv6_address_and_a_proxy_go_through_the_devices_client() {
    if !has("curl") {
        return;
    }
    let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let v6 = Server::start_on("[::1]:0", move |_, mut stream: TcpStream| {
        read_request(&mut stream);
        stream.write_all(reply).unwrap();
    });
    match v6 {
        Ok(server) => Case::new("", server.url("/")).run().ok(200, b"ok"),
        Err(_) => eprintln!("SKIPPED: needs IPv6 on loopback"),
    }
    for name in ["http_proxy", "HTTP_PROXY", "ALL_PROXY"] {
        let (to_test, from_server) = channel();
        let proxy = Server::start(move |_, mut stream| {
            to_test.send(read_request(&mut stream).head).unwrap();
            stream.write_all(reply).unwrap();
        });
        let case = Case::new("", "http://llm.example/v1").env("no_proxy", "example.org");
        case.env(name, &proxy.url("")).run().ok(200, b"ok");
        let head = from_server.recv().unwrap();
        assert!(
            head.starts_with("POST http://llm.example/v1 HTTP/1.1"),
            "{head}"
        );
    }
}
