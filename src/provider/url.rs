//! The base URL in whatever form the user copied it from somewhere: with or without a slash at its end, the path of the
//! chat endpoint, a query. What is wrong with it is said here, before anything is sent.

/// What is appended to the base for a conversation.
const CHAT: &str = "/chat/completions";

/// A base URL taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Base {
    /// Scheme and authority in lower case, `https://host:port`.
    origin: String,
    /// Without slashes at its end and without [`CHAT`]; may be empty.
    path: String,
    /// With its question mark; may be empty.
    query: String,
    /// The path of the chat endpoint was given: nothing is guessed about it.
    full: bool,
}

impl Base {
    /// Reads a base URL: `http://` or `https://`, a host (IPv6 in brackets), a port, a path, a query. A fragment is
    /// dropped.
    ///
    /// # Errors
    /// One line naming what is wrong and the remedy; a password in the URL is not repeated there.
    pub fn parse(text: &str) -> Result<Base, String> {
        let text = text.trim();
        let bad = |what: &str| Err(["base_url \"", text, "\": ", what].concat());
        let whole = text.split('#').next().unwrap_or_default();
        let (scheme, rest) = match whole.split_once("://") {
            Some((s, rest)) if s.eq_ignore_ascii_case("http") => ("http://", rest),
            Some((s, rest)) if s.eq_ignore_ascii_case("https") => ("https://", rest),
            _ => return bad("it must begin with http:// or https://"),
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if authority.contains('@') {
            return Err(
                "base_url holds a user name or password before '@': leave it out and give the key as api_key".into(),
            );
        }
        if text
            .bytes()
            .any(|b| b <= b' ' || matches!(b, 0x7F | b'"' | b'\\' | b'<' | b'>'))
        {
            return bad("a blank, quote or control character must be written as %20 and the like");
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(inner) => match inner.split_once(']') {
                Some((host, after)) if host.contains(':') => (host, after),
                _ => return bad("an IPv6 address is written as [::1]"),
            },
            None => match authority.find(':') {
                Some(i) => authority.split_at(i),
                None => (authority, ""),
            },
        };
        if host.is_empty() {
            return bad("the host is missing");
        }
        if port.matches(':').count() > 1 {
            return bad("an IPv6 address needs brackets, as in http://[::1]:8080/v1");
        }
        let number = port.strip_prefix(':').unwrap_or("0");
        if !port.is_empty() && !number.parse::<u16>().is_ok_and(|n| n > 0) {
            return bad("the port must be a number from 1 to 65535");
        }
        let (path, query) = match rest.find('?') {
            Some(i) => rest.split_at(i),
            None => (rest, ""),
        };
        let path = path.trim_end_matches('/');
        let (path, full) = match path.strip_suffix(CHAT) {
            Some(before) => (before.trim_end_matches('/'), true),
            None => (path, false),
        };
        Ok(Base {
            origin: [scheme, &authority.to_ascii_lowercase()].concat(),
            path: path.into(),
            query: if query == "?" {
                String::new()
            } else {
                query.into()
            },
            full,
        })
    }

    fn join(&self, v1: bool, tail: &str) -> String {
        let version = if v1 && self.lacks_version() {
            "/v1"
        } else {
            ""
        };
        [&self.origin, &self.path, version, tail, &self.query].concat()
    }

    /// Where conversations go. `v1` puts a missing version into the path.
    pub fn chat(&self, v1: bool) -> String {
        self.join(v1, CHAT)
    }

    /// Where the list of models is.
    pub fn models(&self, v1: bool) -> String {
        self.join(v1, "/models")
    }

    /// The URL for messages and for remembering: without the query, which may hold a secret.
    pub fn name(&self) -> String {
        [self.origin.as_str(), &self.path].concat()
    }

    /// The host in lower case, without port and brackets.
    pub fn host(&self) -> &str {
        let authority = self.origin.split_once("://").map_or("", |(_, a)| a);
        match authority.strip_prefix('[') {
            Some(inner) => inner.split(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        }
    }

    /// Whether `/v1` may be missing: no part of the path looks like a version and the user didn't give the whole path.
    pub fn lacks_version(&self) -> bool {
        let version = |part: &str| {
            part.strip_prefix('v')
                .is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()))
        };
        !self.full && !self.path.split('/').any(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_users_give() {
        for (given, chat) in [
            (
                "https://api.deepseek.com/v1",
                "https://api.deepseek.com/v1/chat/completions",
            ),
            (
                "https://api.deepseek.com",
                "https://api.deepseek.com/chat/completions",
            ),
            (" https://h/v1/// ", "https://h/v1/chat/completions"),
            ("http://h:8080/", "http://h:8080/chat/completions"),
            (
                "https://h/api/paas/v4/",
                "https://h/api/paas/v4/chat/completions",
            ),
            (
                "https://h/v1beta/openai",
                "https://h/v1beta/openai/chat/completions",
            ),
            (
                "https://h/v1/chat/completions",
                "https://h/v1/chat/completions",
            ),
            (
                "https://h/v1//chat/completions/",
                "https://h/v1/chat/completions",
            ),
            (
                "https://h/openai/deployments/d?api-version=2024-10-21",
                "https://h/openai/deployments/d/chat/completions?api-version=2024-10-21",
            ),
            (
                "https://h/d/chat/completions?a=b/c",
                "https://h/d/chat/completions?a=b/c",
            ),
            ("http://h?x=1", "http://h/chat/completions?x=1"),
            ("http://h/v1?", "http://h/v1/chat/completions"),
            ("http://h/v1#top", "http://h/v1/chat/completions"),
            ("HTTP://Box.LAN/V1", "http://box.lan/V1/chat/completions"),
            (
                "http://[::1]:11434/v1",
                "http://[::1]:11434/v1/chat/completions",
            ),
            (
                "http://[FE80::1%25br-lan]",
                "http://[fe80::1%25br-lan]/chat/completions",
            ),
        ] {
            assert_eq!(Base::parse(given).unwrap().chat(false), chat, "{given}");
        }
    }

    #[test]
    fn bad_urls_name_the_remedy() {
        for (given, part) in [
            ("", "http://"),
            ("localhost:8080/v1", "http://"),
            ("ftp://h/", "http://"),
            ("https://user:hunter2@h/v1", "user name or password"),
            ("https://:pass@h", "user name or password"),
            ("https:///v1", "host"),
            ("http://:8080", "host"),
            ("http://h:/v1", "port"),
            ("http://h:70000", "port"),
            ("http://h:0", "port"),
            ("http://h:80x", "port"),
            ("http://::1:8080/v1", "host"),
            ("http://fe80::1/v1", "brackets"),
            ("http://[::1/v1", "[::1]"),
            ("http://[h]/v1", "[::1]"),
            ("http://[::1]8080", "port"),
            ("http://h/a b", "%20"),
            ("http://h/v1\r\nX: y", "%20"),
            ("http://h/\"", "%20"),
        ] {
            let e = Base::parse(given).unwrap_err();
            assert!(e.contains(part), "{given}: {e}");
            assert!(!e.contains("hunter2") && !e.contains(":pass"), "{e}");
        }
    }

    #[test]
    fn versions_hosts_and_models() {
        for (given, lacks, host, models) in [
            ("http://h:1", true, "h", "http://h:1/v1/models"),
            ("http://h/api", true, "h", "http://h/api/v1/models"),
            ("http://h/v4", false, "h", "http://h/v4/models"),
            ("http://h/video", true, "h", "http://h/video/v1/models"),
            (
                "http://[::1]:2/v1beta/openai?k=1",
                false,
                "::1",
                "http://[::1]:2/v1beta/openai/models?k=1",
            ),
            ("http://h/chat/completions", false, "h", "http://h/models"),
        ] {
            let b = Base::parse(given).unwrap();
            assert_eq!(
                (b.lacks_version(), b.host(), b.models(true).as_str()),
                (lacks, host, models)
            );
        }
        assert_eq!(
            Base::parse("http://h/v1?key=secret").unwrap().name(),
            "http://h/v1"
        );
    }
}
