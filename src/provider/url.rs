//! The base URL in whatever form the user copied it from somewhere: with or without a slash at its end, the path of the
//! chat endpoint, a query. What is wrong with it is said here, before anything is sent.

use super::transport::url::{Url, cut};

/// What is appended to the base for a conversation.
const CHAT: &str = "/chat/completions";

/// A base URL taken apart.
#[derive(Clone, PartialEq, Eq)]
pub struct Base {
    /// Its path without slashes at its end and without [`CHAT`], without a query; may be empty.
    url: Url,
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
    /// One line naming what is wrong; a password in the URL is not repeated there.
    pub fn parse(text: &str) -> Result<Base, String> {
        let text = text.trim();
        let mut url = match Url::parse(text) {
            Ok(url) => url,
            Err(why) => {
                let shown = if text.as_bytes().contains(&b'@') {
                    "…"
                } else {
                    text
                };
                return Err(["the base URL ", shown, " can't be used: ", why].concat());
            }
        };
        let (path, query) = cut(&url.path, b"?");
        let query = String::from(if query.len() > 1 { query } else { "" });
        let mut len = slashes_off(path);
        let full = path[..len].ends_with(CHAT);
        if full {
            len = slashes_off(&path[..len - CHAT.len()]);
        }
        url.path.truncate(len);
        Ok(Base { url, query, full })
    }

    fn join(&self, v1: bool, tail: &str) -> String {
        let version = if v1 && self.lacks_version() {
            "/v1"
        } else {
            ""
        };
        [&self.name(), version, tail, &self.query].concat()
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
        self.url.text()
    }

    /// The host in lower case, without port and brackets.
    pub fn host(&self) -> &str {
        &self.url.host
    }

    /// Whether `/v1` may be missing: no part of the path looks like a version and the user didn't give the whole path.
    pub fn lacks_version(&self) -> bool {
        let path = self.url.path.as_bytes();
        let version = |w: &[u8]| w[0] == b'/' && w[1] == b'v' && w[2].is_ascii_digit();
        !self.full && !path.windows(3).any(version)
    }
}

/// The length of `path` without the slashes at its end.
fn slashes_off(path: &str) -> usize {
    let kept = path.bytes().rposition(|b| b != b'/');
    kept.map_or(0, |i| i + 1)
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
    fn bad_urls_are_named() {
        for (given, part) in [
            ("", "http://"),
            ("localhost:8080/v1", "localhost:8080/v1"),
            ("ftp://h/", "ftp://h/"),
            ("https://user:hunter2@h/v1", "password"),
            ("https://:hunter2@h", "password"),
            ("https:///v1", "host"),
            ("http://h:70000", "port"),
            ("http://h:0", "port"),
            ("http://fe80::1/v1", "http://fe80::1/v1"),
            ("http://[::1/v1", "IPv6"),
            ("http://h/a b", "space"),
            ("http://h/v1\r\nX: y", "control"),
        ] {
            let e = Base::parse(given).err().unwrap();
            assert!(e.contains(part), "{given}: {e}");
            assert!(!e.contains("hunter2"), "{e}");
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
