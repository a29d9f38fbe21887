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
    while pos < text.len() {
        let (keep, end) = match span(text, pos, secrets) {
            Some(found) => found,
            None => {
                out.push(text[pos]);
                pos += 1;
                continue;
            }
        };
        out.extend_from_slice(&text[pos..keep]);
        out.extend_from_slice(MARK);
        pos = end;
    }
    out
}

/// A secret that starts, with what introduces it, at `pos`: where the secret itself begins and ends.
fn span(text: &[u8], pos: usize, secrets: &[&[u8]]) -> Option<(usize, usize)> {
    let rest = &text[pos..];
    let known = secrets
        .iter()
        .filter(|s| s.len() >= SHORTEST && rest.starts_with(s))
        .map(|s| s.len())
        .max();
    if let Some(n) = known {
        return Some((pos, pos + n));
    }
    // Everything else begins a word.
    if pos > 0 && is_name(text[pos - 1]) {
        return None;
    }
    match rest.first()? {
        b's' if rest.starts_with(b"sk-") => {
            let n = run(rest, |b| is_name(b) || b == b'-');
            let digit = rest[..n].iter().any(u8::is_ascii_digit);
            (n >= 19 || n >= 11 && digit).then_some((pos + 3, pos + n))
        }
        b'b' | b'B'
            if rest
                .get(..7)
                .is_some_and(|w| w.eq_ignore_ascii_case(b"bearer ")) =>
        {
            let token = &rest[7..];
            let n = run(token, |b| is_name(b) || b"-.~+/=".contains(&b));
            // "a bearer token" is prose.
            let prose = n < 16
                && token[..n]
                    .iter()
                    .all(|b| b.is_ascii_lowercase() || *b == b'.');
            (!prose).then_some((pos + 7, pos + 7 + n))
        }
        _ => assignment(rest).map(|(start, end)| (pos + start, pos + end)),
    }
}

/// `NAME=value` with a telling name at the start of `rest`: where the value begins and ends.
fn assignment(rest: &[u8]) -> Option<(usize, usize)> {
    let n = run(rest, is_name);
    if rest.get(n) != Some(&b'=') || rest.get(n + 1) == Some(&b'=') {
        return None;
    }
    let name = &rest[..n];
    let telling = [&b"KEY"[..], b"TOKEN", b"SECRET", b"PASSWORD"]
        .iter()
        .any(|word| {
            n >= word.len() && {
                let (front, tail) = name.split_at(n - word.len());
                // In lower case a bare `key=` is any program's parameter; `api_key=` is not.
                tail == *word
                    || tail.eq_ignore_ascii_case(word)
                        && (front.ends_with(b"_") || word.len() > 5 || front.ends_with(b"api"))
            }
        });
    if !telling {
        return None;
    }
    // The value may be quoted, in JSON even with an escaped quote.
    let mut start = n + 1;
    let escaped = usize::from(rest.get(start) == Some(&b'\\'));
    let quote = rest.get(start + escaped).copied();
    let quoted = matches!(quote, Some(b'"' | b'\''));
    if quoted {
        start += escaped + 1;
    }
    let value = &rest[start..];
    let len = if quoted {
        run(value, |b| {
            Some(b) != quote && b != b'\\' && b != b'"' && b != b'\n'
        })
    } else {
        run(value, |b| b > b' ' && !b"\"'\\;&|()<>{},`".contains(&b))
    };
    // `$NAME` is where the secret comes from, not the secret.
    (len > 0 && value[0] != b'$').then_some((start, start + len))
}

fn run(text: &[u8], inside: impl Fn(u8) -> bool) -> usize {
    text.iter().position(|&b| !inside(b)).unwrap_or(text.len())
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
