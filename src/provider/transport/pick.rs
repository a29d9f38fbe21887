//! Which program carries a request on this device.

use super::{Error, url::Url};
use crate::provider::Stage;
use crate::sys::process::{self, find_program};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;

/// A way to speak HTTP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Client {
    /// Ourselves as a child, without encryption unless built with the feature `tls`.
    Plain,
    /// curl
    Curl,
    /// OpenWrt's uclient-fetch, which also answers to `wget` there.
    UclientFetch,
    /// GNU wget
    Wget,
    /// busybox wget, which does not check certificates.
    BusyboxWget,
}

/// A client and where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// What it is.
    pub client: Client,
    /// The path of its program.
    pub program: Vec<u8>,
}

/// Something this device can send requests with, for `doctor` and `--version`.
pub struct Capability {
    /// Its name, as `CLUADE_TRANSPORT` takes it.
    pub name: &'static str,
    /// The path of its program.
    pub program: Vec<u8>,
    /// Whether requests over `https://` may go through it.
    pub https: bool,
    /// What it can't do; empty when there is nothing to say.
    pub note: &'static str,
}

const NO_CLIENT: &str = "there is no HTTPS client on this device: install one (`opkg update && opkg install curl`, \
    `apk add curl` or `apt-get install curl`), or use a build of cluade with the feature `tls`";

/// Whether minreq was built with TLS.
const HAS_TLS: bool = cfg!(feature = "tls");

impl Client {
    fn name(self) -> &'static str {
        match self {
            Client::Plain => "plain",
            Client::Curl => "curl",
            Client::UclientFetch => "uclient-fetch",
            Client::Wget | Client::BusyboxWget => "wget",
        }
    }

    /// Whether it may carry a key over `https://`.
    fn is_safe(self) -> bool {
        match self {
            Client::Plain => HAS_TLS,
            client => client != Client::BusyboxWget,
        }
    }
}

/// Chooses the client for `url`. What minreq can't do (a proxy, an IPv6 address as the host) goes through the device's
/// client too.
pub(super) fn pick(url: &Url, proxied: bool, forced: Option<&[u8]>) -> Result<Found, Error> {
    if let Some(name) = forced {
        return force(name);
    }
    let plain = || Found {
        client: Client::Plain,
        program: crate::sys::selfexe::PATH.to_vec(),
    };
    if !url.https && !proxied && !url.is_v6() {
        return Ok(plain());
    }
    let usable = |found: &Found| !url.https || found.client.is_safe();
    if let Some(found) = device().into_iter().find(usable) {
        return Ok(found);
    }
    if url.https && Client::Plain.is_safe() && !url.is_v6() {
        return Ok(plain());
    }
    let message = if url.https {
        NO_CLIENT.into()
    } else if proxied {
        "a proxy is set (http_proxy) and only curl or wget can use one: install curl, or put the host into no_proxy"
            .into()
    } else {
        [
            "only curl or wget can reach an IPv6 address (",
            &url.place(),
            "): install curl, or give the host a name in /etc/hosts",
        ]
        .concat()
    };
    Err(Error::fatal(Stage::Setup, message))
}

fn force(wanted: &[u8]) -> Result<Found, Error> {
    let (name, path) = match wanted.iter().position(|&b| b == b':') {
        Some(i) => (&wanted[..i], Some(&wanted[i + 1..])),
        None => (wanted, None),
    };
    let complain = |why: &str| {
        let shown = String::from_utf8_lossy(wanted);
        let message = ["CLUADE_TRANSPORT=", &shown, why].concat();
        Err(Error::fatal(Stage::Setup, message))
    };
    let mut client = match name {
        b"plain" => Client::Plain,
        b"curl" => Client::Curl,
        b"uclient-fetch" => Client::UclientFetch,
        b"wget" => Client::Wget,
        _ => return complain(": it may be curl, uclient-fetch, wget or plain"),
    };
    let program = match (path, client) {
        (Some(path), _) => find_program(path),
        (None, Client::Plain) => Some(crate::sys::selfexe::PATH.to_vec()),
        (None, _) => find_program(name),
    };
    let Some(program) = program else {
        return complain(": there is no such program on this device");
    };
    if client == Client::Wget {
        client = kind_of_wget(&program);
    }
    Ok(Found { client, program })
}

/// The device's own clients, the best first.
fn device() -> Vec<Found> {
    let mut all: Vec<Found> = Vec::new();
    for client in [Client::Curl, Client::UclientFetch, Client::Wget] {
        let Some(program) = find_program(client.name().as_bytes()) else {
            continue;
        };
        let client = if client == Client::Wget {
            kind_of_wget(&program)
        } else {
            client
        };
        if all.iter().all(|f| f.client != client) {
            all.push(Found { client, program });
        }
    }
    all
}

/// What the program called wget really is: by the name its links lead to, and busybox as a hard link by its inode.
fn kind_of_wget(program: &[u8]) -> Client {
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(program));
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let name = real.file_name().map_or(&b""[..], |n| n.as_bytes());
    if name == b"uclient-fetch" {
        return Client::UclientFetch;
    }
    let inode = |path: Vec<u8>| {
        let meta = std::fs::metadata(std::ffi::OsString::from_vec(path)).ok()?;
        Some((meta.dev(), meta.ino()))
    };
    let busybox = find_program(b"busybox").and_then(inode);
    if name.starts_with(b"busybox") || busybox.is_some() && busybox == inode(program.to_vec()) {
        return Client::BusyboxWget;
    }
    Client::Wget
}

/// What this device can send requests with, the preferred first. Starts uclient-fetch once to ask what it can do.
pub fn capabilities() -> Vec<Capability> {
    let mut all = vec![Capability {
        name: Client::Plain.name(),
        program: crate::sys::selfexe::PATH.to_vec(),
        https: Client::Plain.is_safe(),
        note: "built in; no proxy, no IPv6 address as the host",
    }];
    for Found { client, program } in device() {
        let note = match client {
            Client::UclientFetch if !takes_headers(&program) => {
                "too old to send a key (before OpenWrt 24.10): install curl"
            }
            Client::UclientFetch => {
                "the key is visible in its arguments while a request runs; a refused request comes without its reason"
            }
            Client::BusyboxWget => "does not check certificates, so not used for https://",
            _ => "",
        };
        all.push(Capability {
            name: client.name(),
            https: client.is_safe(),
            program,
            note,
        });
    }
    all
}

/// Whether this uclient-fetch knows `--header`: its usage says so.
fn takes_headers(program: &[u8]) -> bool {
    let spawn = process::Spawn {
        argv: &[program],
        merge_stderr: true,
        ..Default::default()
    };
    let limits = process::Limits {
        total: Some(2000),
        ..Default::default()
    };
    let mut usage = Vec::new();
    let ran = process::run(&spawn, limits, &mut process::NoWatch, &mut |_, bytes| {
        usage.extend_from_slice(bytes);
        usage.len() < 64 * 1024
    });
    ran.is_ok() && memchr::memmem::find(&usage, b"--header").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forcing_names_what_is_wrong() {
        for (wanted, part) in [
            ("ftp", "curl, uclient-fetch"),
            ("curl:/no/such/curl", "no such program"),
            ("", "curl"),
        ] {
            let error = force(wanted.as_bytes()).unwrap_err();
            assert!(error.message.contains(part), "{}", error.message);
        }
        let found = force(b"plain:/bin/sh").unwrap();
        assert_eq!(
            (found.client, found.program),
            (Client::Plain, b"/bin/sh".to_vec())
        );
    }

    #[test]
    fn wget_is_told_by_what_it_is() {
        let dir = std::env::temp_dir().join(format!("cluade-pick-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for (real, want) in [
            ("uclient-fetch", Client::UclientFetch),
            ("busybox", Client::BusyboxWget),
            ("busybox.nosuid", Client::BusyboxWget),
            ("wget-ssl", Client::Wget),
        ] {
            let (real, link) = (dir.join(real), dir.join("wget"));
            std::fs::write(&real, "").unwrap();
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(&real, &link).unwrap();
            assert_eq!(kind_of_wget(link.as_os_str().as_bytes()), want);
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn plain_is_for_plain_names_only() {
        let url = |text| Url::parse(text).unwrap();
        assert_eq!(
            pick(&url("http://h/"), false, None).unwrap().client,
            Client::Plain
        );
        for (text, proxied) in [
            ("http://[::1]/", false),
            ("http://h/", true),
            ("https://h/", false),
        ] {
            let other = pick(&url(text), proxied, None);
            assert!(other.is_ok_and(|f| f.client != Client::Plain) || device().is_empty());
        }
    }
}
