//! Arguments → one of the front ends → exit code; nothing else.

fn main() {
    use cluade::provider::transport::plain;
    if std::env::args_os()
        .nth(1)
        .is_some_and(|a| a == plain::CHILD_FLAG)
    {
        std::process::exit(plain::child_main());
    }
    cluade::sys::signal::install();
    std::process::exit(cluade::front::run(std::env::args_os().skip(1).collect()));
}
