//! Arguments → one of the front ends → exit code; nothing else.

fn main() {
    cluade::sys::signal::install();
    std::process::exit(cluade::front::run(std::env::args_os().skip(1).collect()));
}
