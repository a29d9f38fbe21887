//! Secrets out of texts that are kept or shown: recordings and error messages. Known secrets go wherever they stand;
//! beyond those three shapes are recognised: `sk-…` keys, `Bearer …`, and `NAME_KEY=value` assignments.

/// What stands in place of a secret.
pub const MARK: &[u8] = b"[redacted]";

/// A known secret shorter than this is a placeholder (`x`, `no`), and cutting it out would only garble the text.
const SHORTEST: usize = 4;

/// `text` with `secrets` and everything that looks like one replaced by [`MARK`]. JSON stays JSON: a replaced part never
/// holds a quote or a backslash.
pub fn redact(text: &[u8], secrets: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut pos = 0;
    while let Some(rest) = text.get(pos..).filter(|r| !r.is_empty()) {
        // What stays before the secret, and where it ends.
        let (mut keep, mut end) = (0, 0);
        for secret in secrets {
            if secret.len() >= SHORTEST.max(end) && rest.starts_with(secret) {
                end = secret.len();
            }
        }
        // Everything else begins a word.
        if end == 0 && (pos == 0 || !is_name(text[pos - 1])) {
            (keep, end) = shape(rest);
        }
        if end == 0 {
            out.push(rest[0]);
            pos += 1;
        } else {
            out.extend_from_slice(&rest[..keep]);
            out.extend_from_slice(MARK);
            pos += end;
        }
    }
    out
}

/// What looks like a secret at the start of `rest`, with what introduces it: where the secret itself begins and ends;
/// zeros when nothing does.
fn shape(rest: &[u8]) -> (usize, usize) {
    let bearer = rest.get(..7).unwrap_or_default();
    if rest.starts_with(b"sk-") {
        let n = run(rest, b"_-", true);
        if n >= 19 || n >= 11 && rest[..n].iter().any(u8::is_ascii_digit) {
            return (3, n);
        }
    } else if bearer.eq_ignore_ascii_case(b"bearer ") {
        let token = &rest[7..];
        let n = run(token, b"_-.~+/=", true);
        // "a bearer token" is prose.
        let word = |b: &u8| b.is_ascii_lowercase() || *b == b'.';
        if n >= 16 || !token[..n].iter().all(word) {
            return (7, 7 + n);
        }
    } else {
        return assignment(rest);
    }
    (0, 0)
}

/// `NAME=value` with a telling name at the start of `rest`, as [`shape`].
fn assignment(rest: &[u8]) -> (usize, usize) {
    let n = run(rest, b"_", true);
    let (name, rest) = rest.split_at(n);
    if rest.first() != Some(&b'=') || rest.get(1) == Some(&b'=') {
        return (0, 0);
    }
    let mut telling = false;
    for word in [&b"KEY"[..], b"TOKEN", b"SECRET", b"PASSWORD"] {
        let (front, tail) = name.split_at(n.saturating_sub(word.len()));
        // In lower case a bare `key=` is any program's parameter; `api_key=` is not.
        telling |= tail == word
            || tail.eq_ignore_ascii_case(word)
                && (front.ends_with(b"_") || word.len() > 5 || front.ends_with(b"api"));
    }
    // The value may be quoted, in JSON even with an escaped quote.
    let (start, stop): (_, &[u8]) = match rest {
        [_, b'\\', b'"', ..] | [_, b'\\', b'\'', ..] => (3, b"\"\\\n"),
        [_, b'"', ..] => (2, b"\"\\\n"),
        [_, b'\'', ..] => (2, b"'\"\\\n"),
        _ => (1, b"\"'\\;&|()<>{},`"),
    };
    let value = &rest[start..];
    let mut len = run(value, stop, false);
    if start == 1 {
        let blank = value.iter().position(|b| *b <= b' ');
        len = len.min(blank.unwrap_or(len));
    }
    // `$NAME` is where the secret comes from, not the secret.
    if !telling || len == 0 || value[0] == b'$' {
        return (0, 0);
    }
    (n + start, n + start + len)
}

/// The length of the run of letters, digits and `set` at the start of `text`, or, if not `inside`, of anything but `set`.
#[inline(never)]
fn run(text: &[u8], set: &[u8], inside: bool) -> usize {
    let ends = |b: &u8| (set.contains(b) || inside && b.is_ascii_alphanumeric()) != inside;
    text.iter().position(ends).unwrap_or(text.len())
}

fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_and_what_stays() {
        let table: &[(&str, &str)] = &[
            ("", ""),
            ("key hunter22 here", "key [redacted] here"),
            ("hunter22hunter22-longer", "[redacted][redacted]"),
            ("xhunter22y", "x[redacted]y"),
            ("abc no", "abc no"),
            ("(sk-ab12cd34ef)", "(sk-[redacted])"),
            ("sk-proj-abcdefghijklmnop_q", "sk-[redacted]"),
            (
                "task-management-system sk-learn",
                "task-management-system sk-learn",
            ),
            (
                "Authorization: Bearer aB9",
                "Authorization: Bearer [redacted]",
            ),
            (r#"{"a":"bearer x.y-z="}"#, r#"{"a":"bearer [redacted]"}"#),
            ("send a bearer token.", "send a bearer token."),
            ("Bearer ", "Bearer "),
            (
                "export OPENAI_API_KEY=abc; ls",
                "export OPENAI_API_KEY=[redacted]; ls",
            ),
            ("KEY='a b' x", "KEY='[redacted]' x"),
            (
                r#"{"c":"MY_TOKEN=\"a b\" y"}"#,
                r#"{"c":"MY_TOKEN=\"[redacted]\" y"}"#,
            ),
            (
                r#"{"c":"DB_PASSWORD=pw\n"}"#,
                r#"{"c":"DB_PASSWORD=[redacted]\n"}"#,
            ),
            ("?api_key=q1&x=1", "?api_key=[redacted]&x=1"),
            (
                "password=pw secret=s",
                "password=[redacted] secret=[redacted]",
            ),
            ("sorted(a, key=len) token=x", "sorted(a, key=len) token=x"),
            ("if KEY==1; KEY=$OTHER KEY=", "if KEY==1; KEY=$OTHER KEY="),
            ("MONKEYS=3 KEYBOARD=us", "MONKEYS=3 KEYBOARD=us"),
            ("é sk-", "é sk-"),
        ];
        let secrets: &[&[u8]] = &[b"hunter22", b"hunter22-longer", b"no", b""];
        for (text, want) in table {
            let got = redact(text.as_bytes(), secrets);
            assert_eq!(String::from_utf8_lossy(&got), *want, "for {text}");
        }
    }

    #[test]
    fn any_cut_of_a_text_is_survived() {
        let text = "é Bearer sk-aaaaaaaaaaaaaaaaaaaa KEY=\\\"v\\\" API_TOKEN='".as_bytes();
        for from in 0..text.len() {
            for to in from..=text.len() {
                redact(&text[from..to], &[b"aaaa"]);
            }
        }
    }
}
