//! Which program carries a request on this device.

use super::{Error, url::Url};
use crate::provider::Stage;
use crate::sys::fs;
use crate::sys::process::{self, find_program};

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

/// What they are called, by the order of [`Client`].
const NAMES: [&str; 5] = ["plain", "curl", "uclient-fetch", "wget", "wget"];

/// The device's own, the best first.
const DEVICE: [Client; 3] = [Client::Curl, Client::UclientFetch, Client::Wget];

impl Client {
    /// Whether it may carry a key over `https://`.
    fn is_safe(self) -> bool {
        match self {
            Client::Plain => HAS_TLS,
            client => client != Client::BusyboxWget,
        }
    }

    /// The client of that name, at `path` if that is given, if the device has it.
    fn find(mut self, path: Option<&[u8]>) -> Option<Found> {
        let name = match (path, self) {
            (Some(path), _) => path,
            (None, Client::Plain) => crate::sys::selfexe::PATH,
            _ => NAMES[self as usize].as_bytes(),
        };
        let program = find_program(name)?;
        if self == Client::Wget {
            self = kind_of_wget(&program);
        }
        Some(Found {
            client: self,
            program,
        })
    }
}

/// Chooses the client for `url`. What minreq can't do (a proxy, an IPv6 address as the host) goes through the device's
/// client too.
pub(super) fn pick(url: &Url, proxied: bool, forced: Option<&[u8]>) -> Result<Found, Error> {
    if let Some(name) = forced {
        return force(name);
    }
    let here = Found {
        client: Client::Plain,
        program: crate::sys::selfexe::PATH.to_vec(),
    };
    if !url.https && !proxied && !url.is_v6() {
        return Ok(here);
    }
    for client in DEVICE {
        if let Some(found) = client.find(None)
            && (!url.https || found.client.is_safe())
        {
            return Ok(found);
        }
    }
    if url.https && HAS_TLS && !url.is_v6() {
        return Ok(here);
    }
    let message = if url.https {
        NO_CLIENT
    } else if proxied {
        "a proxy is set (http_proxy) and only curl or wget can use one: install curl, or put the host into no_proxy"
    } else {
        "only curl or wget can reach an IPv6 address: install curl, or give the host a name in /etc/hosts"
    };
    Err(Error::fatal(Stage::Setup, message))
}

fn force(wanted: &[u8]) -> Result<Found, Error> {
    let colon = memchr::memchr(b':', wanted);
    let name = colon.map_or(wanted, |i| &wanted[..i]);
    let path = colon.map(|i| &wanted[i + 1..]);
    let all = [Client::Plain].into_iter().chain(DEVICE);
    let mut why = ": it may be curl, uclient-fetch, wget or plain";
    for client in all {
        if NAMES[client as usize].as_bytes() == name {
            match client.find(path) {
                Some(found) => return Ok(found),
                None => why = ": there is no such program on this device",
            }
        }
    }
    let message = ["CLUADE_TRANSPORT=", &super::child::owned(wanted), why];
    Err(Error::fatal(Stage::Setup, message.concat()))
}

/// What the program called wget really is: by the name its links lead to, and busybox as a hard link by its inode.
fn kind_of_wget(program: &[u8]) -> Client {
    let real = fs::canonical(program);
    let name = memchr::memrchr(b'/', &real).map_or(&real[..], |i| &real[i + 1..]);
    if name == b"uclient-fetch" {
        return Client::UclientFetch;
    }
    let inode = |path: &[u8]| fs::stat(path).map_or((0, 0), |m| m.id);
    if name.starts_with(b"busybox")
        || find_program(b"busybox").is_some_and(|b| inode(&b) == inode(&real))
    {
        return Client::BusyboxWget;
    }
    Client::Wget
}

/// What this device can send requests with, the preferred first. Starts uclient-fetch once to ask what it can do.
pub fn capabilities() -> Vec<Capability> {
    let mut all = vec![Capability {
        name: NAMES[0],
        program: crate::sys::selfexe::PATH.to_vec(),
        https: HAS_TLS,
        note: "built in; no proxy, no IPv6 address as the host",
    }];
    for client in DEVICE {
        let Some(Found { client, program }) = client.find(None) else {
            continue;
        };
        // A wget that is uclient-fetch was there already.
        if all.iter().any(|c| c.name == NAMES[client as usize]) {
            continue;
        }
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
            name: NAMES[client as usize],
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
    use std::os::unix::ffi::OsStrExt;

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
            assert!(
                other.is_ok_and(|f| f.client != Client::Plain)
                    || DEVICE.iter().all(|c| c.find(None).is_none())
            );
        }
    }
}
