//! What was learned about endpoints, kept with date and cause in `endpoints.json` of the home directory. It is a
//! convenience: when it can't be read, everything is learned again.

use super::endpoint::Rules;
use super::url::Base;
use crate::json::{self, Writer};
use crate::sys::fs;
use crate::sys::time;
use crate::text::{complete_utf8_len, push_dec};
use std::io;

/// Bytes of `endpoints.json` read at most, endpoints kept, changes kept of one.
const MAX_FILE: usize = 64 * 1024;
const MAX_ENDPOINTS: usize = 50;
const MAX_CHANGES: usize = 16;

/// The file of learned changes. It is a convenience: when it can't be read, everything is learned again.
pub struct Memory {
    path: Option<Vec<u8>>,
}

impl Memory {
    /// The file in the directory `home`; without one nothing is kept.
    pub fn new(home: Option<&[u8]>) -> Memory {
        Memory {
            path: home.map(|home| fs::join(home, b"endpoints.json")),
        }
    }

    fn read(&self) -> Vec<u8> {
        let path = self.path.as_deref().unwrap_or_default();
        match fs::read_small(path, MAX_FILE) {
            Ok(text) if json::parse(&text).is_ok() => text,
            _ => Vec::new(),
        }
    }

    /// Applies to `rules` what was learned of an endpoint.
    pub fn recall(&self, base: &Base, model: &str, rules: &mut Rules) {
        let text = self.read();
        if let Some(changes) = ours(&text, &base.name(), model).and_then(|o| o.get("changes")) {
            for change in changes.items().take(MAX_CHANGES) {
                if let Some(word) = change.get_string("change") {
                    rules.recall(&word);
                }
            }
        }
    }

    /// Adds changes, each with its cause, to what is kept of an endpoint.
    ///
    /// # Errors
    /// One line with the path when the file can't be written.
    pub fn learn(
        &self,
        base: &Base,
        model: &str,
        changes: &[(String, String)],
    ) -> Result<(), String> {
        self.update(base, model, Some(changes)).map(|_| ())
    }

    /// Forgets what was learned of an endpoint; whether there was anything.
    ///
    /// # Errors
    /// One line with the path when the file can't be written.
    pub fn forget(&self, base: &Base, model: &str) -> Result<bool, String> {
        self.update(base, model, None)
    }

    fn update(
        &self,
        base: &Base,
        model: &str,
        changes: Option<&[(String, String)]>,
    ) -> Result<bool, String> {
        let Some(path) = &self.path else {
            return Ok(false);
        };
        let old = self.read();
        let name = base.name();
        let ours = ours(&old, &name, model);
        if changes.is_none() && ours.is_none() {
            return Ok(false);
        }
        let mut w = Writer::new();
        w.open(b'{')
            .key("version")
            .num(1)
            .key("endpoints")
            .open(b'[');
        // The one learned last stands first, so that the cut at the end loses the oldest.
        if let Some(changes) = changes {
            w.open(b'{').key("base_url").str(name.as_bytes());
            w.key("model").str(model.as_bytes());
            w.key("changes").open(b'[');
            if let Some(before) = ours.and_then(|o| o.get("changes")) {
                let room = MAX_CHANGES.saturating_sub(changes.len());
                for change in before.items().take(room) {
                    w.raw(change.raw());
                }
            }
            let date = today();
            for (change, cause) in changes {
                // The cause's beginning: enough to judge by, however much the server said.
                let cause = cause.as_bytes();
                let cause = cause.get(..200).unwrap_or(cause);
                w.open(b'{').key("change").str(change.as_bytes());
                w.key("date").str(&date[..]).key("cause");
                w.str(&cause[..complete_utf8_len(cause)]).close(b'}');
            }
            w.close(b']').close(b'}');
        }
        let mut room = MAX_ENDPOINTS;
        for endpoint in endpoints(&old) {
            if room > 0 && !is(endpoint, &name, model) {
                w.raw(endpoint.raw());
                room -= 1;
            }
        }
        w.close(b']').close(b'}');
        w.out.push(b'\n');
        match replace(path, &w.out) {
            Ok(()) => Ok(true),
            Err(e) => {
                let path = super::transport::owned(path);
                Err([&path, " can't be written: ", &fs::os_text(&e)].concat())
            }
        }
    }
}

fn endpoints(text: &[u8]) -> json::value::Items<'_> {
    let list = json::value::checked(text).get("endpoints");
    list.unwrap_or(json::value::checked(b"")).items()
}

fn ours<'a>(text: &'a [u8], name: &str, model: &str) -> Option<json::Value<'a>> {
    endpoints(text).find(|e| is(*e, name, model))
}

fn is(endpoint: json::Value, name: &str, model: &str) -> bool {
    for (key, value) in [("base_url", name), ("model", model)] {
        let text = endpoint.get(key).and_then(|v| v.text());
        if !text.is_some_and(|t| t.is(value)) {
            return false;
        }
    }
    true
}

fn today() -> Vec<u8> {
    let t = time::utc(time::unix_seconds());
    let mut out = Vec::new();
    let day = (t.year * 100 + t.month) * 100 + t.day;
    push_dec(&mut out, u64::from(day));
    out.insert(6.min(out.len()), b'-');
    out.insert(4.min(out.len()), b'-');
    out
}

/// Puts `bytes` in the place of `path` in one step, readable for the owner alone.
fn replace(path: &[u8], bytes: &[u8]) -> io::Result<()> {
    let home = fs::parent(path);
    // Not `private_dir` at once: a home that is a link to another disk is fine.
    if fs::stat(home).is_err() {
        fs::private_dir(home)?;
    }
    fs::replace_private(path, b".endpoints-", bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Adapt;
    use crate::provider::endpoint::{ADD_V1, PATH_V1, word};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    struct Home(PathBuf);

    impl Home {
        fn new(name: &str) -> Home {
            let dir = format!("cluade-endpoint-{}-{name}", std::process::id());
            let dir = std::env::temp_dir().join(dir);
            let _ = std::fs::remove_dir_all(&dir);
            Home(dir)
        }

        fn memory(&self) -> Memory {
            Memory::new(Some(self.0.as_os_str().as_bytes()))
        }

        fn file(&self) -> PathBuf {
            self.0.join("endpoints.json")
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn base(url: &str) -> Base {
        Base::parse(url).unwrap()
    }

    fn changes(words: &[&str]) -> Vec<(String, String)> {
        let pair = |w: &&str| (w.to_string(), "HTTP 400: \"no\"".to_string());
        words.iter().map(pair).collect()
    }

    #[test]
    fn what_was_learned_is_there_after_a_restart() {
        let home = Home::new("restart");
        let (b, other) = (base("http://h:1/v1?key=secret"), base("http://h:2/v1"));
        let all = [
            Adapt::DropField("thinking".into()),
            Adapt::RenameMaxTokens,
            Adapt::MaxTokens(8192),
            Adapt::StripMessageField("reasoning".into()),
            Adapt::AddMessageField("reasoning".into()),
            Adapt::AddMessageField("reasoning".into()),
            Adapt::StripMessageField("extra_content".into()),
            Adapt::NullContent,
            Adapt::DropField("stream".into()),
        ];
        let mut wanted = Rules::default();
        for adapt in &all {
            assert!(wanted.apply(adapt), "{}", word(adapt));
            home.memory()
                .learn(&b, "m", &changes(&[&word(adapt)]))
                .unwrap();
        }
        home.memory().learn(&b, "m", &changes(&[PATH_V1])).unwrap();
        home.memory()
            .learn(&other, "m", &changes(&["drop thinking"]))
            .unwrap();
        wanted.set(ADD_V1);

        let recalled = |b: &Base, model: &str| {
            let mut rules = Rules::default();
            home.memory().recall(b, model, &mut rules);
            rules
        };
        assert_eq!(recalled(&b, "m"), wanted);
        assert_eq!(recalled(&b, "m2"), Rules::default());
        assert!(!recalled(&other, "m").sends("thinking"));

        let text = std::fs::read_to_string(home.file()).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["endpoints"][1]["base_url"], "http://h:1/v1");
        assert!(!text.contains("secret"));
        let change = &value["endpoints"][0]["changes"][0];
        assert_eq!(change["cause"], "HTTP 400: \"no\"");
        assert_eq!(change["date"].as_str().unwrap().len(), 10);
        let mode = |p| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(home.file()), mode(home.0.clone())), (0o600, 0o700));
        assert_eq!(std::fs::read_dir(&home.0).unwrap().count(), 1);

        assert!(home.memory().forget(&b, "m").unwrap());
        assert!(!home.memory().forget(&b, "m").unwrap());
        assert_eq!(recalled(&b, "m"), Rules::default());
        assert!(!recalled(&other, "m").sends("thinking"));
    }

    #[test]
    fn a_broken_file_is_as_good_as_none() {
        let home = Home::new("broken");
        let b = base("http://h/v1");
        std::fs::create_dir(&home.0).unwrap();
        for text in [
            "",
            "{",
            "[]",
            "null",
            r#"{"endpoints":3}"#,
            r#"{"endpoints":[1,{"base_url":"http://h/v1","model":"m","changes":[3,{"change":"fly"},{"change":"limit x"},{"change":"drop model"}]}]}"#,
        ] {
            std::fs::write(home.file(), text).unwrap();
            let mut rules = Rules::default();
            home.memory().recall(&b, "m", &mut rules);
            assert_eq!(rules, Rules::default(), "{text}");
            home.memory()
                .learn(&b, "m", &changes(&["drop thinking"]))
                .unwrap();
            home.memory().recall(&b, "m", &mut rules);
            assert!(!rules.sends("thinking"), "{text}");
        }
    }

    #[test]
    fn a_file_that_can_not_be_written_is_an_error_with_its_path() {
        let home = Home::new("unwritable");
        std::fs::write(&home.0, "a file in the place of the directory").unwrap();
        let e = home
            .memory()
            .learn(&base("http://h"), "m", &changes(&["drop thinking"]))
            .unwrap_err();
        assert!(e.contains("endpoints.json"), "{e}");
        let _ = std::fs::remove_file(&home.0);
        let none = Memory::new(None);
        assert_eq!(none.learn(&base("http://h"), "m", &changes(&["x"])), Ok(()));
    }

    #[test]
    fn the_file_stays_small() {
        let home = Home::new("small");
        let long = vec![("drop thinking".to_string(), "é".repeat(10_000))];
        for i in 0..MAX_ENDPOINTS + 10 {
            let b = base(&format!("http://h{i}/v1"));
            for _ in 0..3 {
                home.memory().learn(&b, "m", &long).unwrap();
            }
        }
        for _ in 0..MAX_CHANGES + 5 {
            home.memory().learn(&base("http://x"), "m", &long).unwrap();
        }
        let size = std::fs::metadata(home.file()).unwrap().len();
        assert!(size < MAX_FILE as u64, "{size}");
        let mut rules = Rules::default();
        home.memory()
            .recall(&base("http://h59/v1"), "m", &mut rules);
        assert!(!rules.sends("thinking"));
    }
}
