//! How long a server asks us to wait. It says so in half a dozen spellings; the most exact one counts.

use super::said::find;
use super::transport::Head;
use crate::json::value::decimal;
use crate::sys::time;

/// What announces a duration in a body, lower case.
const ANNOUNCED: [&[u8]; 6] = [
    b"retrydelay",
    b"try again in ",
    b"retry in ",
    b"retry after ",
    b"retry_after",
    b"wait for ",
];

/// The wait in ms: `retry-after-ms`, `Retry-After` (seconds or a date), then the body (lower case), then with `limited` the
/// `x-ratelimit-reset-*` fields.
pub fn asked(head: &Head, body: &[u8], limited: bool) -> Option<u64> {
    let ms = header(head, "retry-after-ms").and_then(|v| decimal(v.as_bytes(), 0));
    ms.or_else(|| by_header(head, header(head, "retry-after")?))
        .or_else(|| in_text(body))
        .or_else(|| if limited { reset(head) } else { None })
}

/// The value of a header field, trimmed.
pub fn header<'a>(head: &'a Head, name: &str) -> Option<&'a str> {
    head.get(name).map(str::trim_ascii)
}

fn by_header(head: &Head, value: &str) -> Option<u64> {
    if let Some(ms) = decimal(value.as_bytes(), 3) {
        return Some(ms);
    }
    let until = date(value)?;
    Some(until.saturating_sub(now(head)).saturating_mul(1000))
}

/// The time by the server's own clock, with which its dates are made; a router's may be years behind.
fn now(head: &Head) -> u64 {
    let date = header(head, "date").and_then(date);
    date.unwrap_or_else(time::unix_seconds)
}

fn in_text(body: &[u8]) -> Option<u64> {
    ANNOUNCED.iter().find_map(|needle| {
        let at = find(body, needle)?;
        let rest = body.get(at + needle.len()..)?;
        let start = rest.iter().position(|b| !b"\\\": ".contains(b))?;
        duration(&rest[start..])
    })
}

/// `4.77s`, `1m30s`, `250ms`, `30 seconds`, `6m0s`; a number alone is seconds. In ms.
fn duration(text: &[u8]) -> Option<u64> {
    let mut rest = text;
    let mut total: Option<u64> = None;
    loop {
        let number = split(&mut rest, |b| b.is_ascii_digit() || b == b'.');
        let number = number.strip_suffix(b".").unwrap_or(number);
        if number.is_empty() {
            return total;
        }
        rest = rest.trim_ascii_start();
        let (mut factor, mut shift) = (1, 3);
        match split(&mut rest, |b| b.is_ascii_alphabetic()) {
            [b'm', b's', ..] | [b'm', b'i', b'l', ..] => shift = 0,
            [b'm', ..] => factor = 60,
            [b'h', ..] => factor = 3600,
            [b'd', ..] => factor = 86_400,
            [b's', ..] => {}
            _ if total.is_none() => {}
            _ => return total,
        }
        let ms = decimal(number, shift)?.saturating_mul(factor);
        total = Some(total.unwrap_or(0).saturating_add(ms));
    }
}

/// Takes the bytes of a kind off the front of `rest`.
fn split<'a>(rest: &mut &'a [u8], kind: fn(u8) -> bool) -> &'a [u8] {
    let n = rest.iter().position(|&b| !kind(b)).unwrap_or(rest.len());
    let (front, after) = rest.split_at(n);
    *rest = after;
    front
}

/// The longest of the limits that are used up, or of all when none says what is left.
fn reset(head: &Head) -> Option<u64> {
    let mut longest = None;
    for (name, value) in head.fields() {
        let Some(at) = find(name.as_bytes(), b"ratelimit-reset") else {
            continue;
        };
        let left = [&name[..at], "ratelimit-remaining", &name[at + 15..]].concat();
        if header(head, &left).is_some_and(|v| v != "0") {
            continue;
        }
        let Some(mut ms) = duration(value.trim_ascii().as_bytes()) else {
            continue;
        };
        // Large numbers are points in time, in seconds or ms since 1970.
        if ms >= 100_000_000_000_000 {
            ms /= 1000;
        }
        if ms >= 100_000_000_000 {
            ms = ms.saturating_sub(now(head).saturating_mul(1000));
        }
        longest = longest.max(Some(ms));
    }
    longest
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` as seconds since 1970 (RFC 9110 §5.6.7).
fn date(text: &str) -> Option<u64> {
    // Day, month from 0, year, hours, minutes, seconds.
    let mut numbers = [0u32; 6];
    let mut rest = text.as_bytes();
    for i in 0..=numbers.len() {
        split(&mut rest, |b| b" :-".contains(&b));
        let word = split(&mut rest, |b| !b" :-".contains(&b));
        if word.is_empty() {
            return None;
        }
        // The day of the week in front says nothing.
        if let Some(slot) = i.checked_sub(1).and_then(|i| numbers.get_mut(i)) {
            *slot = match i {
                2 => find(b"JanFebMarAprMayJunJulAugSepOctNovDec", word.get(..3)?)? as u32 / 3,
                _ => u32::try_from(decimal(word, 0)?).ok()?,
            };
        }
    }
    let [day, month, year, clock @ ..] = numbers;
    if !(1970..=9999).contains(&year) || !(1..=31).contains(&day) || clock.iter().any(|&n| n > 60) {
        return None;
    }
    // Days before the month, counted from March so that the leap day is the last.
    let early = u32::from(month < 2);
    let (y, m) = (year - early, month + early * 12 - 2);
    let days = y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    let seconds = clock[0] * 3600 + clock[1] * 60 + clock[2];
    Some(u64::from(days) * 86_400 + u64::from(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[(&str, &str)]) -> Head {
        Head {
            status: 429,
            headers: fields
                .iter()
                .map(|(n, v)| [n, ":", v, "\n"].concat())
                .collect(),
        }
    }

    #[test]
    fn dates() {
        assert_eq!(date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(date("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
        assert_eq!(date("Fri, 31 Dec 2100 23:59:59 GMT"), Some(4_133_980_799));
        for bad in [
            "",
            "soon",
            "Sun, 06 Nov",
            "Sun, 99 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 99999999999 1:1:1",
        ] {
            assert_eq!(date(bad), None, "{bad}");
        }
    }

    #[test]
    fn durations() {
        let cases: [(&str, Option<u64>); 12] = [
            ("4.77s", Some(4770)),
            ("34.074824224s.", Some(34_074)),
            ("1m30s", Some(90_000)),
            ("6m0s", Some(360_000)),
            ("250ms", Some(250)),
            ("20 seconds.", Some(20_000)),
            ("5 minutes", Some(300_000)),
            ("1h", Some(3_600_000)),
            ("7", Some(7000)),
            ("30. Then", Some(30_000)),
            ("soon", None),
            ("99999999999999999999999d", Some(u64::MAX)),
        ];
        for (text, want) in cases {
            assert_eq!(duration(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn the_most_exact_spelling_counts() {
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        type Fields<'a> = &'a [(&'a str, &'a str)];
        let cases: [(Fields, &str, Option<u64>); 11] = [
            (&[("retry-after", "7")], "", Some(7000)),
            (&[("retry-after", " 1.5 ")], "", Some(1500)),
            (
                &[("retry-after-ms", "1500"), ("retry-after", "2")],
                "",
                Some(1500),
            ),
            (
                &[("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"), date],
                "",
                Some(30_000),
            ),
            (
                &[("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")],
                "",
                Some(0),
            ),
            (&[], "limit reached, please try again in 4.77s", Some(4770)),
            (&[], "{\"retrydelay\":\"34s\"}", Some(34_000)),
            (&[], "please try again", None),
            (
                &[
                    ("x-ratelimit-reset-requests", "2s"),
                    ("x-ratelimit-reset-tokens", "1m2s"),
                ],
                "",
                Some(62_000),
            ),
            (
                &[
                    ("x-ratelimit-reset-requests", "6m"),
                    ("x-ratelimit-remaining-requests", "12"),
                    ("x-ratelimit-reset-tokens", "900ms"),
                    ("x-ratelimit-remaining-tokens", "0"),
                ],
                "",
                Some(900),
            ),
            (
                &[("x-ratelimit-reset", "784111787000"), date],
                "",
                Some(10_000),
            ),
        ];
        for (fields, body, want) in cases {
            assert_eq!(
                asked(&head(fields), body.as_bytes(), true),
                want,
                "{fields:?} {body}"
            );
        }
        assert_eq!(
            asked(&head(&[("x-ratelimit-reset", "2")]), b"", false),
            None
        );
    }
}
