//! Signals as flags. The handlers only store; whoever waits does so in [`wait`], which no signal can slip past.
#![allow(unsafe_code)]

use super::time::{Nanoseconds, Timespec};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

static INTERRUPTS: AtomicU32 = AtomicU32::new(0);
static END: AtomicU32 = AtomicU32::new(0);
static RESIZED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" {
    #[cfg_attr(
        all(target_env = "musl", target_pointer_width = "32"),
        link_name = "__ppoll_time64"
    )]
    fn ppoll(
        fds: *mut libc::pollfd,
        count: libc::nfds_t,
        timeout: *const Timespec,
        mask: *const libc::sigset_t,
    ) -> libc::c_int;
}

/// The signals that have handlers and are blocked outside of the wait itself.
const WATCHED: [libc::c_int; 6] = [
    libc::SIGALRM,
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGCHLD,
    libc::SIGWINCH,
];

extern "C" fn on_signal(signal: libc::c_int) {
    match signal {
        libc::SIGINT => {
            INTERRUPTS.fetch_add(1, Relaxed);
        }
        libc::SIGTERM | libc::SIGHUP | libc::SIGALRM => END.store(signal as u32, Relaxed),
        libc::SIGWINCH => RESIZED.store(1, Relaxed),
        _ => {}
    }
}

/// Installs the handlers. A signal that is ignored at start (`nohup`, a shell's `&`) stays ignored, except SIGCHLD.
pub fn install() {
    for signal in WATCHED {
        // SAFETY: the handler only touches atomics; a zeroed sigaction is valid on Linux.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut old);
            if old.sa_sigaction == libc::SIG_IGN && signal != libc::SIGCHLD {
                continue;
            }
            let mut new: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = on_signal as *const () as usize;
            libc::sigaction(signal, &new, std::ptr::null_mut());
        }
    }
    // SAFETY: plain call. Writing to a closed pipe then fails with EPIPE instead of ending the process.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// In a child between fork and exec: default dispositions and an empty mask.
///
/// # Safety
/// Async-signal-safe; for the child of a fork only.
pub unsafe fn reset_in_child() {
    // SAFETY: signal and sigprocmask are async-signal-safe.
    unsafe {
        for signal in [
            libc::SIGPIPE,
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGHUP,
            libc::SIGQUIT,
        ] {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut empty: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut empty);
        libc::sigprocmask(libc::SIG_SETMASK, &empty, std::ptr::null_mut());
    }
}

/// How many times SIGINT came since [`clear_interrupts`].
pub fn interrupts() -> u32 {
    INTERRUPTS.load(Relaxed)
}

/// Forgets the interrupts so far.
pub fn clear_interrupts() {
    INTERRUPTS.store(0, Relaxed);
}

/// The number of the signal that asked us to leave, if one did: SIGTERM, SIGHUP, or SIGALRM for the time limit. It stays.
pub fn end_requested() -> Option<i32> {
    match END.load(Relaxed) {
        0 => None,
        signal => Some(signal as i32),
    }
}

/// Whether what is going on should stop: an interrupt or an end request is there. Long loops ask this.
pub fn cancelled() -> bool {
    interrupts() > 0 || end_requested().is_some()
}

/// Nobody reads our output any more: what is going on ends as if SIGPIPE had come.
pub fn set_output_gone() {
    END.store(libc::SIGPIPE as u32, Relaxed);
}

/// Asks for SIGALRM after `seconds`, which ends the run.
pub fn set_time_limit(seconds: u32) {
    // SAFETY: plain call.
    unsafe { libc::alarm(seconds) };
}

/// Whether the window size changed since the last call.
pub fn take_resized() -> bool {
    RESIZED.swap(0, Relaxed) != 0
}

/// Waits until one of `fds` is ready, `ms` milliseconds passed (`None`: no limit) or a watched signal came. A signal that
/// came before the call, but after the caller last looked at its flag through `stop`, ends the wait too: `stop` is asked
/// once more with the signals held back. Returns whether a descriptor is ready.
pub fn wait(fds: &mut [libc::pollfd], ms: Option<u64>, stop: &mut dyn FnMut() -> bool) -> bool {
    for fd in fds.iter_mut() {
        fd.revents = 0;
    }
    let timeout = ms.map(|ms| Timespec {
        seconds: (ms / 1000).min(1 << 30) as i64,
        nanoseconds: Nanoseconds::new((ms % 1000) as u32 * 1_000_000),
    });
    // SAFETY: the sets are initialised by sigemptyset, the slices and the timespec outlive the calls.
    unsafe {
        let mut block: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut block);
        for signal in WATCHED {
            libc::sigaddset(&mut block, signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &block, &mut before);
        let ready = !stop()
            && ppoll(
                fds.as_mut_ptr(),
                fds.len() as libc::nfds_t,
                timeout.as_ref().map_or(std::ptr::null(), |t| t),
                &before,
            ) > 0;
        libc::sigprocmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        ready
    }
}
