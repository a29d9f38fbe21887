//! HTTPS by the device's clients against a real TLS server, and who can see the key meanwhile.
#![allow(clippy::unwrap_used)]

mod transport_rig;

use serde_json::json;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use transport_rig::*;

/// Not a test: the process in which [`Case::start`] runs a transport.
#[test]
fn driver() {
    drive();
}

/// A TLS server: `openssl s_server` as a pipe, with a certificate for `localhost` that `ca.pem` vouches for.
struct Tls {
    child: Child,
    port: u16,
    dir: Dir,
}

impl Tls {
    /// Starts the server and gives its ends: what clients say, and what they are told.
    fn start() -> (Tls, std::process::ChildStdout, std::process::ChildStdin) {
        let dir = Dir::new();
        std::fs::write(
            dir.path("ext"),
            "subjectAltName=DNS:localhost,IP:127.0.0.1\n",
        )
        .unwrap();
        for step in [
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 3650 -subj /CN=testca",
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out req.pem -subj /CN=localhost",
            "x509 -req -in req.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 -extfile ext -out cert.pem",
        ] {
            let done = Command::new("openssl")
                .args(step.split(' '))
                .current_dir(&dir.0)
                .output()
                .unwrap();
            assert!(
                done.status.success(),
                "{}",
                String::from_utf8_lossy(&done.stderr)
            );
        }
        let mut child = Command::new("openssl")
            .args("s_server -quiet -accept 127.0.0.1:0 -cert cert.pem -key key.pem".split(' '))
            .current_dir(&dir.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (output, input) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        let mut port = None;
        until("openssl listens", || {
            port = listening_port(child.id());
            port.is_some()
        });
        let tls = Tls {
            child,
            port: port.unwrap(),
            dir,
        };
        (tls, output, input)
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The port on which process `pid` listens: its sockets' inodes looked up in the kernel's table.
fn listening_port(pid: u32) -> Option<u16> {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let sockets: Vec<String> = links
        .flatten()
        .filter_map(|e| {
            std::fs::read_link(e.path())
                .ok()?
                .to_str()
                .map(String::from)
        })
        .filter_map(|l| Some(l.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let table = std::fs::read_to_string("/proc/net/tcp").ok()?;
    table.lines().skip(1).find_map(|line| {
        let field: Vec<&str> = line.split_whitespace().collect();
        let listening = field.get(3) == Some(&"0A");
        let ours = sockets.iter().any(|s| field.get(9) == Some(&s.as_str()));
        let port = field.get(1)?.rsplit(':').next()?;
        (listening && ours).then(|| u16::from_str_radix(port, 16).ok())?
    })
}

/// Answers one TLS request on the pipe's ends; what came, and what could be seen of the key meanwhile.
fn answer_tls(
    mut output: std::process::ChildStdout,
    mut input: std::process::ChildStdin,
    events: std::sync::mpsc::Receiver<std::path::PathBuf>,
) -> std::thread::JoinHandle<(Got, Vec<String>)> {
    std::thread::spawn(move || {
        let got = read_request(&mut output);
        let events = events.recv().unwrap();
        let mut seen = Vec::new();
        for (pid, _, arguments, _) in processes() {
            if holds(&arguments, "k-3141592653") || holds(&arguments, "the prompt") {
                seen.push(format!(
                    "arguments of {pid}: {}",
                    String::from_utf8_lossy(&arguments)
                ));
            }
        }
        let children = transports_of(&events);
        if children.is_empty() {
            seen.push("no transport runs".into());
        }
        for (pid, _, env) in children {
            if holds(&env, "k-3141592653") || holds(&env, "env-2718281828") {
                seen.push(format!("environment of {pid}"));
            }
        }
        for file in std::fs::read_dir(events.with_file_name("tmp"))
            .unwrap()
            .flatten()
        {
            use std::os::unix::fs::PermissionsExt;
            if file.metadata().unwrap().permissions().mode() & 0o077 != 0 {
                seen.push(format!("{:?} is open to others", file.path()));
            }
        }
        input
            .write_all(b"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 5\r\n\r\n")
            .unwrap();
        input.write_all(b"hello").unwrap();
        input.flush().unwrap();
        let mut rest = Vec::new();
        let _ = output.read_to_end(&mut rest);
        (got, seen)
    })
}

#[test]
fn https_and_nobody_sees_the_key() {
    for (client, variable) in [("curl", "CURL_CA_BUNDLE"), ("wget", "")] {
        if !has(client) || !has("openssl") {
            continue;
        }
        let (tls, output, input) = Tls::start();
        let ca = tls.dir.path("ca.pem");
        let mut case = Case::new(client, tls.url("/v1/chat"));
        case.body = b"{\"q\":\"the prompt\"}".to_vec();
        if variable.is_empty() {
            // GNU wget has no variable for it: a wrapper, as a device with an own CA would have it.
            let real =
                String::from_utf8(cluade::sys::process::find_program(b"wget").unwrap()).unwrap();
            let script = format!("#!/bin/sh\nexec {real} --ca-certificate={ca} \"$@\"\n");
            case.client = format!("wget:{}", tls.dir.script("wget", &script));
        } else {
            case = case.env(variable, &ca);
        }
        let (to_server, events) = channel();
        let server = answer_tls(output, input, events);
        let running = case.start();
        to_server.send(running.events.clone()).unwrap();
        let got = running.wait();
        drop(tls);
        let (request, seen) = server.join().unwrap();
        got.ok(200, b"hello");
        assert!(
            got.headers
                .as_array()
                .unwrap()
                .contains(&json!(["x-a", "b"]))
        );
        assert_eq!(request.header("authorization"), Some("Bearer k-3141592653"));
        assert_eq!(request.body, b"{\"q\":\"the prompt\"}");
        assert!(seen.is_empty(), "{client}: {seen:?}");
    }
}

#[test]
fn an_unknown_authority_is_a_tls_error() {
    for client in ["curl", "wget"] {
        if !has(client) || !has("openssl") {
            continue;
        }
        let (tls, _output, _input) = Tls::start();
        let got = Case::new(client, tls.url("/")).run();
        got.failed(
            "Tls",
            &["no safe TLS connection to localhost:", "certificate"],
        );
        assert_eq!(got.end["transient"], false);
    }
}

#[test]
fn what_is_no_tls_at_all_is_a_tls_error() {
    if has("curl") {
        let server = Server::start(|_, mut stream| {
            let mut some = [0; 16];
            let _ = stream.read(&mut some);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad\r\n\r\n");
        });
        let url = server.url("/").replace("http:", "https:");
        Case::new("curl", url).run().failed("Tls", &["no safe TLS"]);
    }
}
