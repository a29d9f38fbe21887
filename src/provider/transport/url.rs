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

/// `text` up to the first of `marks`, and the rest.
pub(crate) fn cut<'a>(text: &'a str, marks: &[u8]) -> (&'a str, &'a str) {
    let at = text.bytes().position(|b| marks.contains(&b));
    text.split_at(at.unwrap_or(text.len()))
}

impl Url {
    /// Reads a URL.
    ///
    /// # Errors
    /// A phrase that says what is wrong with it.
    pub fn parse(text: &str) -> Result<Url, &'static str> {
        let mut colon = false;
        for b in text.bytes() {
            if b <= b' ' || b >= 0x7F {
                return Err(
                    "a space, control or non-ASCII character in it (percent-encode it; a host name as xn--…)",
                );
            }
        }
        let (scheme, rest) = cut(text, b":");
        let Some(rest) = rest.strip_prefix("://") else {
            return Err("no http:// or https:// at its start");
        };
        let https = scheme.eq_ignore_ascii_case("https");
        if !https && !scheme.eq_ignore_ascii_case("http") {
            return Err("neither http:// nor https://");
        }
        let (rest, _) = cut(rest, b"#");
        let (authority, path) = cut(rest, b"/?");
        if authority.as_bytes().contains(&b'@') {
            return Err("a user name or password in it: set the key instead");
        }
        let v6 = authority.strip_prefix('[');
        let (host, mut port) = cut(
            v6.unwrap_or(authority),
            if v6.is_some() { b"]" } else { b":" },
        );
        for b in host.bytes() {
            colon |= b == b':';
            let good: &[u8] = if v6.is_some() { b":.%-_" } else { b"-._" };
            if !b.is_ascii_alphanumeric() && !good.contains(&b) {
                return Err("no valid host name in it");
            }
        }
        if v6.is_some() {
            port = port.get(1..).ok_or("an IPv6 address without its ]")?;
            if !colon {
                return Err("no IPv6 address between its brackets");
            }
        } else if host.is_empty() || host.starts_with('-') {
            return Err("no valid host name in it");
        }
        let mut number: u32 = if https { 443 } else { 80 };
        if !port.is_empty() {
            number = 0;
            for (i, b) in port.bytes().enumerate() {
                number = match b {
                    b':' if i == 0 => 0,
                    b'0'..=b'9' if i > 0 => number * 10 + u32::from(b - b'0'),
                    _ => 0x1_0000,
                }
                .min(0x1_0000);
            }
        }
        let Ok(port @ 1..) = u16::try_from(number) else {
            return Err("no valid port in it (1 to 65535)");
        };
        if path.bytes().any(|b| b"\"\\<>^`{|}".contains(&b)) {
            return Err("a character in its path that must be percent-encoded");
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Url {
            https,
            host: host.to_ascii_lowercase(),
            port,
            path: [slash, path].concat(),
        })
    }

    /// Whether the host is an IPv6 address.
    pub fn is_v6(&self) -> bool {
        self.host.as_bytes().contains(&b':')
    }

    /// `host:port`, for messages.
    pub fn place(&self) -> String {
        self.part("", 0, "")
    }

    /// The whole URL again; the port only when it is not the scheme's own.
    pub fn text(&self) -> String {
        self.with_path(&self.path)
    }

    fn with_path(&self, path: &str) -> String {
        if self.https {
            self.part("https://", 443, path)
        } else {
            self.part("http://", 80, path)
        }
    }

    /// `scheme`, host, port unless it is `own`, `path`.
    fn part(&self, scheme: &str, own: u16, path: &str) -> String {
        let (open, close) = if self.is_v6() { ("[", "]") } else { ("", "") };
        let port = if self.port == own {
            String::new()
        } else {
            [":", &crate::provider::attempt::dec(u64::from(self.port))].concat()
        };
        [scheme, open, &self.host, close, &port, path].concat()
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
        let (before, rest) = cut(location, b":?#");
        if rest.starts_with("://") {
            return Url::parse(location);
        }
        if location.starts_with("//") {
            let scheme = if self.https { "https:" } else { "http:" };
            return Url::parse(&[scheme, location].concat());
        }
        let (path, _) = cut(&self.path, b"?");
        let kept = match location.as_bytes().first() {
            Some(b'/') => "",
            Some(b'?') => path,
            _ if before.is_empty() => &self.path,
            _ => &path[..memchr::memrchr(b'/', path.as_bytes()).map_or(0, |i| i + 1)],
        };
        Url::parse(&self.with_path(&[kept, location].concat()))
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
        let host = self.host.as_bytes();
        for entry in list.split(|b| b", []".contains(b)) {
            let entry = entry.strip_prefix(b".").unwrap_or(entry);
            let cut = host.len().wrapping_sub(entry.len());
            let tail = host.get(cut..).unwrap_or_default();
            if entry == b"*"
                || !entry.is_empty()
                    && tail.eq_ignore_ascii_case(entry)
                    && (cut == 0 || host[cut - 1] == b'.')
            {
                return true;
            }
        }
        false
    }
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
            ("http://h:1:2/", "port"),
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
