//! Where the program begins, and the C library's parts it goes without. Compiled into the program only (see main.rs), as
//! these symbols belong to a whole program: test programs keep the standard ones.
#![allow(unsafe_code)]

#[cfg(target_env = "musl")]
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{CStr, OsString};
use std::os::unix::ffi::OsStringExt;
#[cfg(target_env = "musl")]
use std::ptr::{copy_nonoverlapping, null_mut};

/// The C library calls this. The standard library's own start is left out on purpose: it is 6 KB that watch for stack
/// overflow in threads we don't have and flush buffers we don't use.
#[unsafe(no_mangle)]
extern "C" fn main(count: libc::c_int, texts: *const *const libc::c_char) -> libc::c_int {
    open_standard_descriptors();
    let mut args = Vec::new();
    for i in 0..usize::try_from(count).unwrap_or_default() {
        // SAFETY: the system hands over `count` pointers to NUL-terminated strings that live as long as we do.
        let text = unsafe { CStr::from_ptr(*texts.add(i)) };
        args.push(OsString::from_vec(text.to_bytes().to_vec()));
    }
    let code = crate::run(args);
    // SAFETY: nothing is buffered in the C library.
    unsafe { libc::_exit(code) }
}

/// Opens /dev/null in place of each standard descriptor we were started without, so that no file of ours gets its number.
fn open_standard_descriptors() {
    for fd in 0..3 {
        // SAFETY: plain calls. The lowest free number is the one that was just found closed.
        unsafe {
            if libc::fcntl(fd, libc::F_GETFD) < 0 {
                libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            }
        }
    }
}

/// What the C library itself takes from the heap (address lists, time zones) carries its size in front.
#[cfg(target_env = "musl")]
const PREFIX: usize = 16;

#[cfg(target_env = "musl")]
fn c_layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(PREFIX)?, 2 * size_of::<usize>()).ok()
}

/// The C library's heap is ours.
#[cfg(target_env = "musl")]
#[unsafe(no_mangle)]
extern "C" fn malloc(size: usize) -> *mut u8 {
    let Some(layout) = c_layout(size) else {
        return null_mut();
    };
    // SAFETY: the layout is not empty; the size fits into the prefix.
    unsafe {
        let p = crate::HEAP.alloc_zeroed(layout);
        if p.is_null() {
            return p;
        }
        p.cast::<usize>().write(size);
        p.add(PREFIX)
    }
}

/// As C has it. Memory from [`malloc`] is zeroed already.
#[cfg(target_env = "musl")]
#[unsafe(no_mangle)]
extern "C" fn calloc(count: usize, size: usize) -> *mut u8 {
    count
        .checked_mul(size)
        .map_or(null_mut(), |all| malloc(all))
}

/// As C has it.
///
/// # Safety
/// `p` is null or from [`malloc`], and in use.
#[cfg(target_env = "musl")]
#[unsafe(no_mangle)]
unsafe extern "C" fn free(p: *mut u8) {
    if p.is_null() {
        return;
    }
    // SAFETY: the size was written by `malloc`.
    unsafe {
        let p = p.sub(PREFIX);
        if let Some(layout) = c_layout(p.cast::<usize>().read()) {
            crate::HEAP.dealloc(p, layout);
        }
    }
}

/// As C has it.
///
/// # Safety
/// As for [`free`].
#[cfg(target_env = "musl")]
#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(p: *mut u8, size: usize) -> *mut u8 {
    let q = malloc(size);
    if !p.is_null() && !q.is_null() {
        // SAFETY: both blocks are at least as long as what is copied.
        unsafe {
            let old = p.sub(PREFIX).cast::<usize>().read();
            copy_nonoverlapping(p, q, old.min(size));
            free(p);
        }
    }
    q
}

/// Stands in for the C library's: there are no threads here. minreq asks for one only when it is given a time limit, which
/// it never is (the transport child runs without MINREQ_TIMEOUT). Saves the thread code and, through a thread's name,
/// printf: 25 KB.
#[cfg(target_env = "musl")]
#[unsafe(no_mangle)]
extern "C" fn pthread_create(
    _: *mut libc::c_void,
    _: *const libc::c_void,
    _: extern "C" fn(*mut libc::c_void) -> *mut libc::c_void,
    _: *mut libc::c_void,
) -> libc::c_int {
    libc::EAGAIN
}

/// Goes with [`pthread_create`].
#[cfg(target_env = "musl")]
#[unsafe(no_mangle)]
extern "C" fn pthread_attr_setstacksize(_: *mut libc::c_void, _: usize) -> libc::c_int {
    0
}

/// Values of a thread that are to be dropped when it ends: our one thread never does, so that nothing need be kept.
///
/// # Safety
/// `key` points to a number.
#[cfg(target_env = "musl")]
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_key_create(
    key: *mut libc::c_uint,
    _: Option<extern "C" fn(*mut libc::c_void)>,
) -> libc::c_int {
    // SAFETY: the caller vouches.
    unsafe { key.write(1) };
    0
}

/// As [`pthread_key_create`].
#[cfg(target_env = "musl")]
#[unsafe(no_mangle)]
extern "C" fn pthread_setspecific(_: libc::c_uint, _: *const libc::c_void) -> libc::c_int {
    0
}

/// As [`pthread_key_create`].
#[cfg(target_env = "musl")]
#[unsafe(no_mangle)]
extern "C" fn pthread_key_delete(_: libc::c_uint) -> libc::c_int {
    0
}

/// Nothing here has an alignment that the heap doesn't meet anyway.
#[cfg(target_env = "musl")]
#[unsafe(no_mangle)]
extern "C" fn posix_memalign(_: *mut *mut u8, _: usize, _: usize) -> libc::c_int {
    libc::ENOMEM
}

/// The system call alone: the C library's translates requests of sound and video devices for kernels of 2019.
#[cfg(target_env = "musl")]
#[unsafe(no_mangle)]
extern "C" fn ioctl(fd: libc::c_int, request: libc::c_int, argument: usize) -> libc::c_int {
    // SAFETY: what the caller asks for.
    unsafe { libc::syscall(libc::SYS_ioctl, fd, request, argument) as libc::c_int }
}

/// As [`ioctl`]: the C library's knows the options' forms in kernels before 5.1, for programs with 64-bit times.
#[cfg(target_env = "musl")]
#[unsafe(no_mangle)]
extern "C" fn setsockopt(
    fd: libc::c_int,
    level: libc::c_int,
    name: libc::c_int,
    value: *const libc::c_void,
    size: libc::socklen_t,
) -> libc::c_int {
    // SAFETY: what the caller asks for.
    unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, name, value, size) as libc::c_int }
}

/// As [`setsockopt`].
#[cfg(target_env = "musl")]
#[unsafe(no_mangle)]
extern "C" fn getsockopt(
    fd: libc::c_int,
    level: libc::c_int,
    name: libc::c_int,
    value: *mut libc::c_void,
    size: *mut libc::socklen_t,
) -> libc::c_int {
    // SAFETY: what the caller asks for.
    unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, value, size) as libc::c_int }
}

/// The name lookup asks whether a host's name is text in this locale. Names that get there are ASCII: minreq refuses
/// others.
#[cfg(target_env = "musl")]
#[unsafe(no_mangle)]
extern "C" fn mbstowcs(_: *mut libc::wchar_t, _: *const libc::c_char, _: usize) -> usize {
    0
}

/// Without the handlers that threads would need around it.
#[cfg(target_env = "musl")]
#[unsafe(no_mangle)]
extern "C" fn fork() -> libc::pid_t {
    unsafe extern "C" {
        fn _Fork() -> libc::pid_t;
    }
    // SAFETY: one thread.
    unsafe { _Fork() }
}

/// Stands in for the C library's pattern-defeating quicksort: its one caller sorts the few addresses of a host.
///
/// # Safety
/// As C demands: `base` holds `count` elements of `width` bytes, and `compare` takes pointers to two of them.
#[cfg(target_env = "musl")]
#[unsafe(no_mangle)]
unsafe extern "C" fn qsort(
    base: *mut u8,
    count: usize,
    width: usize,
    compare: extern "C" fn(*const u8, *const u8) -> libc::c_int,
) {
    for i in 1..count {
        let mut at = i;
        // SAFETY: `at` runs from `i` to 1, so both elements are inside.
        unsafe {
            while at > 0 {
                let (left, right) = (base.add((at - 1) * width), base.add(at * width));
                if compare(left, right) <= 0 {
                    break;
                }
                std::ptr::swap_nonoverlapping(left, right, width);
                at -= 1;
            }
        }
    }
}
