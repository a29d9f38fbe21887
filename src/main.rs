//! Arguments → one of the front ends → exit code; nothing else.

fn main() {
    cluade::sys::signal::install();
}
