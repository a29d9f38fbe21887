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
    #[cfg_attr(
        all(target_env = "musl", target_pointer_width = "32"),
        link_name = "__localtime64_r"
    )]
    fn localtime_r(time: *const i64, tm: *mut libc::tm) -> *mut libc::tm;
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

/// The local civil time of `unix` seconds, by the C library (`TZ`, /etc/TZ, /etc/localtime).
pub fn local(unix: u64) -> Civil {
    let t = unix as i64;
    // SAFETY: a zeroed `tm` is valid (its pointer may be null), both pointers live through the call, and `tm` does not
    // depend on the width of times.
    let tm = unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        localtime_r(&t, &mut tm);
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
