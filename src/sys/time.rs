//! Clocks. Durations are milliseconds in `u64`: no floating point, no 128-bit arithmetic.
#![allow(unsafe_code)]

fn clock(id: libc::clockid_t) -> libc::timespec {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is a valid timespec; on failure it keeps its zeros.
    unsafe { libc::clock_gettime(id, &mut t) };
    t
}

/// Milliseconds on a clock that never jumps. Only differences mean something.
#[allow(clippy::unnecessary_cast)] // the fields' widths differ between targets
pub fn monotonic_ms() -> u64 {
    let t = clock(libc::CLOCK_MONOTONIC);
    t.tv_sec as u64 * 1000 + t.tv_nsec as u64 / 1_000_000
}

/// Seconds since 1970 by the device's clock, which on a router without NTP may be near 0.
#[allow(clippy::unnecessary_cast)]
pub fn unix_seconds() -> u64 {
    clock(libc::CLOCK_REALTIME).tv_sec as u64
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

/// The local civil time of `unix` seconds, by the C library (`TZ`, /etc/TZ, /etc/localtime).
pub fn local(unix: u64) -> Civil {
    let t = unix as libc::time_t;
    // SAFETY: a zeroed `tm` is valid (its pointer may be null), and both pointers live through the call.
    let tm = unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        libc::localtime_r(&t, &mut tm);
        tm
    };
    Civil {
        year: (tm.tm_year + 1900).max(0) as u32,
        month: (tm.tm_mon + 1).max(0) as u32,
        day: tm.tm_mday.max(0) as u32,
        hour: tm.tm_hour.max(0) as u32,
        minute: tm.tm_min.max(0) as u32,
        second: tm.tm_sec.max(0) as u32,
    }
}

/// Sleeps for `ms` milliseconds or until a signal arrives.
pub fn pause(ms: u64) {
    // SAFETY: no descriptors are passed.
    unsafe { libc::poll(std::ptr::null_mut(), 0, ms.min(i32::MAX as u64) as i32) };
}
