//! wget. GNU's reads its headers from a configuration file, so the key is in no argument; it does not read one, nor a body,
//! from a pipe, so both are files that only we may read. Heads come on standard error (`-S`). busybox's takes headers as
//! arguments only, drops the body of a refused request, and checks no certificate: the last resort.

use super::{Error, Job, Sink, child};
use crate::provider::Stage;
use crate::sys::process::{Spawn, Watch};

/// Longest wait for a connection, in ms.
const CONNECT_MS: u64 = 60_000;

pub(super) fn send(job: &Job, watch: &mut dyn Watch, sink: &mut Sink) -> Result<(), Error> {
    let request = job.request;
    let mut config = Vec::new();
    for (name, value) in request.headers {
        for part in ["header = ", *name, ": ", *value, "\n"] {
            config.extend_from_slice(part.as_bytes());
        }
    }
    let config = child::TempFile::new(&config)?;
    let body = body(job)?;
    let (idle, connect) = match request.idle_ms {
        0 => (86_400_000, CONNECT_MS),
        idle => (idle, idle.min(CONNECT_MS)),
    };
    let mut argv = vec![
        job.program.to_vec(),
        [b"--config=", &config.path[..]].concat(),
        b"-nv".to_vec(),
        b"-S".to_vec(),
        b"--content-on-error".to_vec(),
        b"--tries=1".to_vec(),
        b"--max-redirect=0".to_vec(),
        ["--read-timeout=", &child::seconds(idle, 2)]
            .concat()
            .into_bytes(),
        ["--connect-timeout=", &child::seconds(connect, 0)]
            .concat()
            .into_bytes(),
        b"--output-document=-".to_vec(),
    ];
    argv.extend(body.as_ref().map(post_file));
    argv.extend([b"--".to_vec(), job.url.text().into_bytes()]);
    // Without a home it neither reads .netrc nor writes .wget-hsts.
    run(job, &argv, &[(b"HOME", b"/dev/null")], watch, sink)
}

pub(super) fn send_busybox(job: &Job, watch: &mut dyn Watch, sink: &mut Sink) -> Result<(), Error> {
    let body = body(job)?;
    let mut argv = vec![job.program.to_vec()];
    argv.extend([&b"-q"[..], b"-S", b"-O", b"-"].map(<[u8]>::to_vec));
    for (name, value) in job.request.headers {
        argv.push(b"--header".to_vec());
        argv.push([name, ": ", value].concat().into_bytes());
    }
    argv.extend(body.as_ref().map(post_file));
    argv.push(job.url.text().into_bytes());
    run(job, &argv, &[], watch, sink)
}

fn body(job: &Job) -> Result<Option<child::TempFile>, Error> {
    match job.request.method {
        "POST" => child::TempFile::new(job.request.body).map(Some),
        _ => Ok(None),
    }
}

fn post_file(file: &child::TempFile) -> Vec<u8> {
    [b"--post-file=", &file.path[..]].concat()
}

fn run(
    job: &Job,
    argv: &[Vec<u8>],
    env: &[(&[u8], &[u8])],
    watch: &mut dyn Watch,
    sink: &mut Sink,
) -> Result<(), Error> {
    let argv: Vec<&[u8]> = argv.iter().map(Vec::as_slice).collect();
    let spawn = Spawn {
        argv: &argv,
        env,
        ..Spawn::default()
    };
    let Some(ran) = child::run(&spawn, child::Heads::Stderr, job, watch, sink)? else {
        return Ok(());
    };
    // 6 and 8 (busybox: 1) are refusals by status, which is a reply like any other; after 200 they are none.
    let refusal = matches!(ran.code, 1 | 6 | 8) && ran.status >= 300;
    if ran.stage == Stage::Body && (ran.code == 0 || refusal) {
        return Ok(());
    }
    let says = |words: &[&[u8]]| words.iter().any(|w| ran.says(w));
    let (stage, transient) = if ran.stage == Stage::Body {
        (Stage::Body, true)
    } else if says(&[b"unable to resolve", b"bad address"]) {
        (Stage::Lookup, true)
    } else if ran.code == 5 || says(&[b"certificate", b"SSL", b"TLS"]) {
        (Stage::Tls, false)
    } else if says(&[b"can't connect", b"failed: ", b"Connection refused"]) {
        (Stage::Connect, true)
    } else if matches!(ran.code, 2 | 3) || says(&[b"nrecognized option", b"not an http"]) {
        (Stage::Setup, false)
    } else {
        (Stage::FirstByte, true)
    };
    let mark: &[u8] = match stage {
        Stage::Lookup => b"address",
        Stage::Connect => b"onnect",
        Stage::Tls => b"ERROR",
        _ => b"rror",
    };
    let detail = match ran.line(mark) {
        line if line.is_empty() => ran.ended(),
        line => line,
    };
    Err(child::error(job, stage, transient, &detail))
}
