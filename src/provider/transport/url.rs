//! URLs: checked once, so that no transport ever gets one that it, or a server, could read as something else.

use crate::sys::fs::env;

/// A checked URL of HTTP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Url {
    /// `https://`
    pub https: bool,
    /// In lower case; an IPv6 address without its brackets.
    pub host: String,
    /// As written, or the scheme's own.
    pub port: u16,
    /// Path and query, at least `/`. No fragment: servers never see it.
    pub path: String,
}

impl Url {
    /// Reads a URL.
    ///
    /// # Errors
    /// A phrase that says what is wrong with it.
    pub fn parse(text: &str) -> Result<Url, &'static str> {
        if text.bytes().any(|b| b <= b' ' || b >= 0x7F) {
            return Err(
                "a space, control or non-ASCII character in it (percent-encode it; a host name as xn--…)",
            );
        }
        let (scheme, rest) = text
            .split_once("://")
            .ok_or("no http:// or https:// at its start")?;
        let https = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err("neither http:// nor https://"),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err("a user name or password in it: set the key instead");
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(v6) => {
                let (host, port) = v6.split_once(']').ok_or("an IPv6 address without its ]")?;
                if !host.contains(':') || host.bytes().any(|b| !is_v6(b)) {
                    return Err("no IPv6 address between its brackets");
                }
                (host, port)
            }
            None => {
                let (host, port) =
                    authority.split_at(authority.find(':').unwrap_or(authority.len()));
                let bad = |b: u8| !b.is_ascii_alphanumeric() && !b"-._".contains(&b);
                if host.is_empty() || host.starts_with('-') || host.bytes().any(bad) {
                    return Err("no valid host name in it");
                }
                (host, port)
            }
        };
        let port = match port.strip_prefix(':') {
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse().ok().filter(|p| *p > 0)
            }
            None if port.is_empty() => Some(if https { 443 } else { 80 }),
            _ => None,
        };
        if path.bytes().any(|b| b"\"\\<>^`{|}".contains(&b)) {
            return Err("a character in its path that must be percent-encoded");
        }
        Ok(Url {
            https,
            host: host.to_ascii_lowercase(),
            port: port.ok_or("no valid port in it (1 to 65535)")?,
            path: match path.as_bytes().first() {
                Some(b'/') => path.into(),
                _ => ["/", path].concat(),
            },
        })
    }

    /// Whether the host is an IPv6 address.
    pub fn is_v6(&self) -> bool {
        self.host.contains(':')
    }

    /// `host:port`, for messages.
    pub fn place(&self) -> String {
        [&self.bracketed(), ":", self.port.to_string().as_str()].concat()
    }

    /// The whole URL again; the port only when it is not the scheme's own.
    pub fn text(&self) -> String {
        let (scheme, own) = if self.https {
            ("https://", 443)
        } else {
            ("http://", 80)
        };
        let place = if self.port == own {
            self.bracketed()
        } else {
            self.place()
        };
        [scheme, &place, &self.path].concat()
    }

    fn bracketed(&self) -> String {
        if self.is_v6() {
            ["[", &self.host, "]"].concat()
        } else {
            self.host.clone()
        }
    }

    /// Same scheme, host and port: what may see the same secrets.
    pub fn same_origin(&self, other: &Url) -> bool {
        self.https == other.https && self.host == other.host && self.port == other.port
    }

    /// The URL that `location`, absolute or relative, means here.
    ///
    /// # Errors
    /// As [`Url::parse`].
    pub fn join(&self, location: &str) -> Result<Url, &'static str> {
        let scheme = if self.https { "https:" } else { "http:" };
        if location.starts_with("//") {
            return Url::parse(&[scheme, location].concat());
        }
        let before_query = location.split(['?', '#']).next().unwrap_or_default();
        if before_query.contains("://") {
            return Url::parse(location);
        }
        let path = self.path.split('?').next().unwrap_or_default();
        let kept = match location.as_bytes().first() {
            Some(b'/') => "",
            Some(b'?') => path,
            Some(b'#') | None => &self.path,
            _ => &path[..path.rfind('/').map_or(0, |i| i + 1)],
        };
        let base = Url {
            path: String::new(),
            ..self.clone()
        };
        Url::parse(&[&base.text(), kept, location].concat())
    }

    /// The proxy that the environment names for this `http://` URL.
    pub fn plain_proxy(&self) -> Option<Vec<u8>> {
        let names: [&[u8]; 4] = [b"http_proxy", b"HTTP_PROXY", b"all_proxy", b"ALL_PROXY"];
        let proxy = names.iter().find_map(|n| env(n))?;
        let list = env(b"no_proxy").or_else(|| env(b"NO_PROXY"));
        (!self.is_exempt(&list.unwrap_or_default())).then_some(proxy)
    }

    /// Whether `list`, the value of `no_proxy`, names this host: whole names, domains with or without their dot, `*`.
    fn is_exempt(&self, list: &[u8]) -> bool {
        list.split(|b| b", ".contains(b))
            .filter(|e| !e.is_empty())
            .any(|entry| {
                let entry = entry.strip_prefix(b"[").unwrap_or(entry);
                let entry = entry.strip_suffix(b"]").unwrap_or(entry);
                let entry = entry.strip_prefix(b".").unwrap_or(entry);
                let host = self.host.as_bytes();
                let cut = host.len().saturating_sub(entry.len());
                entry == b"*"
                    || host[cut..].eq_ignore_ascii_case(entry)
                        && (cut == 0 || host[cut - 1] == b'.')
            })
    }
}

/// Of an IPv6 address, with the zone of a link-local one.
fn is_v6(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b":.%-_".contains(&b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_urls() {
        for (text, want, place) in [
            ("http://h", "http://h/", "h:80"),
            (
                "HTTPS://API.Example:443/v1?a=b#f",
                "https://api.example/v1?a=b",
                "api.example:443",
            ),
            ("http://h:8080?q", "http://h:8080/?q", "h:8080"),
            ("http://[::1]:9/x", "http://[::1]:9/x", "[::1]:9"),
            (
                "https://[FE80::1%25eth0]",
                "https://[fe80::1%25eth0]/",
                "[fe80::1%25eth0]:443",
            ),
            (
                "http://h/a@b:c/%20~!$&'()*+,;=",
                "http://h/a@b:c/%20~!$&'()*+,;=",
                "h:80",
            ),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!((url.text().as_str(), url.place().as_str()), (want, place));
            assert_eq!(Url::parse(&url.text()).unwrap(), url);
        }
    }

    #[test]
    fn bad_urls_are_named() {
        for (text, part) in [
            ("", "no http://"),
            ("-K/etc/passwd", "no http://"),
            ("file:///etc/passwd", "neither"),
            ("http://", "host"),
            ("http://-oX/", "host"),
            ("http://h\n/", "control"),
            ("http://h/a b", "space"),
            ("http://ü.de/", "non-ASCII"),
            ("http://u:p@h/", "user name"),
            ("http://h:/", "port"),
            ("http://h:0/", "port"),
            ("http://h:65536/", "port"),
            ("http://h:+1/", "port"),
            ("http://[::1/", "]"),
            ("http://[]/", "IPv6"),
            ("http://[::1]x/", "port"),
            ("http://h/\"", "percent"),
            ("http://h\\x/", "host"),
        ] {
            let error = Url::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn redirects_are_resolved() {
        let url = Url::parse("https://h:8443/v1/chat?x=1").unwrap();
        for (location, want) in [
            ("/a", "https://h:8443/a"),
            ("b?y", "https://h:8443/v1/b?y"),
            ("?z", "https://h:8443/v1/chat?z"),
            ("", "https://h:8443/v1/chat?x=1"),
            ("//o/p", "https://o/p"),
            ("http://h:8443/", "http://h:8443/"),
            ("/r?to=http://o/", "https://h:8443/r?to=http://o/"),
        ] {
            assert_eq!(url.join(location).unwrap().text(), want);
        }
        assert!(url.join("ftp://h/").is_err() && url.join("/a b").is_err());
        assert!(!url.same_origin(&url.join("http://h:8443/").unwrap()));
    }

    #[test]
    fn no_proxy_lists() {
        let url = Url::parse("http://api.lan:1/").unwrap();
        for (list, want) in [
            ("", false),
            ("lan", true),
            (".lan,x", true),
            ("x API.LAN", true),
            ("an", false),
            ("pi.lan", false),
            ("*", true),
            ("x.api.lan", false),
        ] {
            assert_eq!(url.is_exempt(list.as_bytes()), want, "{list}");
        }
        assert!(Url::parse("http://[::1]/").unwrap().is_exempt(b"[::1]"));
    }
}
