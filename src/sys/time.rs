//! Clocks. Durations are milliseconds in `u64`: no floating point, no 128-bit arithmetic.
#![allow(unsafe_code)]

/// A time as the kernel's 64-bit interface has it. On 32-bit musl the `libc` crate still describes the 32-bit one, which
/// ends in 2038, so the 64-bit entry points are named here.
#[repr(C)]
pub(super) struct Timespec {
    pub(super) seconds: i64,
    pub(super) nanoseconds: Nanoseconds,
}

/// Nanoseconds with the padding of the 32-bit layouts (little- and big-endian differ in where it sits).
#[cfg(all(target_env = "musl", target_pointer_width = "32"))]
#[repr(C)]
pub(super) struct Nanoseconds {
    #[cfg(target_endian = "big")]
    pad: i32,
    value: i32,
    #[cfg(target_endian = "little")]
    pad: i32,
}

#[cfg(all(target_env = "musl", target_pointer_width = "32"))]
impl Nanoseconds {
    pub(super) fn new(value: u32) -> Self {
        Nanoseconds {
            value: value as i32,
            pad: 0,
        }
    }
    fn get(&self) -> u64 {
        self.value as u64
    }
}

/// Nanoseconds on 64-bit systems.
#[cfg(not(all(target_env = "musl", target_pointer_width = "32")))]
#[repr(transparent)]
pub(super) struct Nanoseconds(libc::c_long);

#[cfg(not(all(target_env = "musl", target_pointer_width = "32")))]
impl Nanoseconds {
    pub(super) fn new(value: u32) -> Self {
        Nanoseconds(value as libc::c_long)
    }
    fn get(&self) -> u64 {
        self.0 as u64
    }
}

unsafe extern "C" {
    #[cfg_attr(
        all(target_env = "musl", target_pointer_width = "32"),
        link_name = "__clock_gettime64"
    )]
    fn clock_gettime(id: libc::c_int, time: *mut Timespec) -> libc::c_int;
}

fn clock(id: libc::c_int) -> Timespec {
    let mut t = Timespec {
        seconds: 0,
        nanoseconds: Nanoseconds::new(0),
    };
    // SAFETY: `t` has the layout of the C library's 64-bit timespec; on failure it keeps its zeros.
    unsafe { clock_gettime(id, &mut t) };
    t
}

/// Milliseconds on a clock that never jumps. Only differences mean something.
pub fn monotonic_ms() -> u64 {
    let t = clock(libc::CLOCK_MONOTONIC);
    t.seconds as u64 * 1000 + t.nanoseconds.get() / 1_000_000
}

/// Seconds since 1970 by the device's clock, which on a router without NTP may be near 0.
pub fn unix_seconds() -> u64 {
    clock(libc::CLOCK_REALTIME).seconds as u64
}

/// A point in civil time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Civil {
    /// Full year.
    pub year: u32,
    /// 1–12
    pub month: u32,
    /// 1–31
    pub day: u32,
    /// 0–23
    pub hour: u32,
    /// 0–59
    pub minute: u32,
    /// 0–60
    pub second: u32,
}

/// The civil time of `unix` seconds in UTC: ids and dates then sort over a change of the clock's zone, and the C library's
/// 6 KB of time zones stay out.
pub fn utc(unix: u64) -> Civil {
    let (days, rest) = ((unix / 86_400) as u32, (unix % 86_400) as u32);
    // Days since 1 March of year 0, in eras of 400 years: leap days then come last in each of their periods.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    Civil {
        year: era * 400 + year + u32::from(month >= 10),
        month: if month < 10 { month + 3 } else { month - 9 },
        day: day - (153 * month + 2) / 5 + 1,
        hour: rest / 3600,
        minute: rest / 60 % 60,
        second: rest % 60,
    }
}

/// Sleeps for `ms` milliseconds or until a signal arrives.
pub fn pause(ms: u64) {
    // SAFETY: no descriptors are passed.
    unsafe { libc::poll(std::ptr::null_mut(), 0, ms.min(i32::MAX as u64) as i32) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn civil_dates() {
        for (unix, want) in [
            (0, (1970, 1, 1, 0, 0, 0)),
            (951_782_399, (2000, 2, 28, 23, 59, 59)),
            (951_782_400, (2000, 2, 29, 0, 0, 0)),
            (1_780_086_990, (2026, 5, 29, 20, 36, 30)),
            (4_107_542_400, (2100, 3, 1, 0, 0, 0)),
            (1_798_761_599, (2026, 12, 31, 23, 59, 59)),
        ] {
            let t = utc(unix);
            let got = (t.year, t.month, t.day, t.hour, t.minute, t.second);
            assert_eq!(got, want, "{unix}");
        }
    }
}
