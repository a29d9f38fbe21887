//! Session ids: `YYYYMMDD-HHMMSS-NNNN` in UTC. Sorted as text they are in the order of their making, also on a
//! device whose clock starts at 1970 after each boot.

use crate::sys::time::utc;
use crate::text::push_dec;

/// 2024-01-01: a clock before this has not been set.
pub const CLOCK_SET: u64 = 1_704_067_200;

/// `unix` in UTC by `form`, in which the letters a to f stand for year, month, day, hour, minute and second.
fn civil(unix: u64, form: &[u8]) -> String {
    let t = utc(unix);
    let parts = [t.year, t.month, t.day, t.hour, t.minute, t.second];
    let mut out = Vec::new();
    for &b in form {
        match parts.get(usize::from(b.wrapping_sub(b'a'))) {
            Some(n) => {
                if *n < 10 {
                    out.push(b'0');
                }
                push_dec(&mut out, u64::from(*n));
            }
            None => out.push(b),
        }
    }
    String::from_utf8(out).unwrap_or_default()
}

/// `YYYY-MM-DD HH:MM:SS` in UTC.
pub fn created(unix: u64) -> String {
    civil(unix, b"a-b-c d:e:f")
}

fn stamp(unix: u64) -> String {
    civil(unix, b"abc-def")
}

/// Whether `id` has the form of ids made here.
pub fn is_id(id: &str) -> bool {
    id.len() == 20
        && id.bytes().enumerate().all(|(i, b)| match i {
            8 | 15 => b == b'-',
            _ => b.is_ascii_digit(),
        })
}

/// The id that follows `id`: its number plus one; after 9999 the second before it is counted up, as a plain number.
pub fn after(id: &str) -> String {
    let mut bytes = id.as_bytes().to_vec();
    let mut i = bytes.len();
    while let Some(b) = i.checked_sub(1).and_then(|at| bytes.get_mut(at)) {
        i -= 1;
        match *b {
            b'-' => {}
            b'9' => *b = b'0',
            _ => {
                *b = b.wrapping_add(1);
                break;
            }
        }
    }
    if bytes.ends_with(b"-0000") {
        bytes.truncate(16);
        bytes.extend_from_slice(b"1000");
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// A new id at `unix` seconds that sorts behind those of `existing`, which are sorted. With an unset clock it follows the
/// newest of them. With a set one, ids more than a day ahead (made when the clock was wrong) don't count.
pub fn choose(unix: u64, existing: &[String]) -> String {
    let first = stamp(unix) + "-1000";
    let limit = stamp(unix.saturating_add(86_400));
    for id in existing.iter().rev() {
        if is_id(id) && (unix < CLOCK_SET || *id <= limit) {
            return if *id >= first { after(id) } else { first };
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(list: &[&str]) -> Vec<String> {
        list.iter().map(|s| s.to_string()).collect()
    }

    #[test]
    fn forms() {
        for (id, ok) in [
            ("20260529-201630-1000", true),
            ("20260529-201630-100", false),
            ("20260529_201630-1000", false),
            ("2026052x-201630-1000", false),
            ("", false),
        ] {
            assert_eq!(is_id(id), ok, "{id}");
        }
        let id = choose(1_780_000_000, &[]);
        assert!(is_id(&id) && id.ends_with("-1000"), "{id}");
        assert_eq!(created(1_780_000_000).len(), 19);
    }

    #[test]
    fn successors() {
        assert_eq!(after("20260529-201630-1000"), "20260529-201630-1001");
        assert_eq!(after("20260529-201630-9999"), "20260529-201631-1000");
        assert_eq!(after("20260529-235959-9999"), "20260529-235960-1000");
        assert_eq!(after("20260529-999999-9999"), "20260530-000000-1000");
    }

    #[test]
    fn a_new_id_sorts_behind_the_others() {
        let now = 1_780_000_000;
        let first = choose(now, &[]);
        let second = choose(now, std::slice::from_ref(&first));
        assert_eq!(second, after(&first));
        // An hour back, as at the end of summer time.
        let earlier = choose(now - 3600, std::slice::from_ref(&second));
        assert_eq!(earlier, after(&second));
        // A clock that was once decades ahead doesn't spoil all later ids.
        let ahead = ids(&["20991231-000000-1000", "not-an-id"]);
        assert_eq!(choose(now, &ahead), first);
        // An unset clock.
        assert_eq!(choose(20, std::slice::from_ref(&second)), after(&second));
        assert!(choose(200_000, &[]).starts_with("197001"));
    }
}
