//! Arguments → one of the front ends → exit code; nothing else.
#![no_main]
#![cfg_attr(test, allow(clippy::unwrap_used))]

#[path = "sys/alloc.rs"]
mod alloc;
#[path = "sys/start.rs"]
mod start;

#[global_allocator]
static HEAP: alloc::Heap = alloc::Heap::new();

/// `args` starts with the program's name.
fn run(mut args: Vec<std::ffi::OsString>) -> i32 {
    use cluade::provider::transport::plain;
    if args.get(1).is_some_and(|a| a == plain::CHILD_FLAG) {
        return plain::child_main();
    }
    cluade::sys::signal::install();
    args.drain(..1.min(args.len()));
    cluade::front::run(args)
}
