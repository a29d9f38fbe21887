//! The shell tool: one command in a session of its own, its output in order of arrival in bounded memory, a time limit
//! that ends everything the command started, and nothing it could wait for: no terminal, no input, no pager, no prompt.

use super::output::Collector;
use super::{Class, Ctx, Level, Output, Tool};
use crate::json::Value;
use crate::sys::fs;
use crate::sys::process::{self, Cause, End, Limits, Spawn};
use crate::text::push_dec;

/// Longest time limit a call can ask for, in seconds.
const MAX_TIMEOUT: u64 = 24 * 3600;
/// How long a background process that holds our pipe is listened to after the command itself ended, in ms.
const LINGER: u64 = 250;

/// What keeps programs from asking, paging or colouring.
const ENV: &[(&[u8], &[u8])] = &[
    (b"TERM", b"dumb"),
    (b"PAGER", b"cat"),
    (b"GIT_PAGER", b"cat"),
    (b"MANPAGER", b"cat"),
    (b"SYSTEMD_PAGER", b"cat"),
    (b"GIT_TERMINAL_PROMPT", b"0"),
    (b"GIT_EDITOR", b"true"),
    (b"SSH_ASKPASS", b""),
    (b"GIT_ASKPASS", b""),
    (b"DEBIAN_FRONTEND", b"noninteractive"),
    (b"NO_COLOR", b"1"),
];

/// The table's row.
pub static TOOL: Tool = Tool {
    name: "bash",
    description: "Run a shell command (sh -c). Output and errors come back together, then [exit code: N] when not 0. \
No input, no terminal. A command that goes on for ever needs & and its output redirected.",
    properties: r#"{"command":{"type":"string"},"workdir":{"type":"string","description":"default: the working directory"},"timeout":{"type":"integer","description":"seconds, default 30"}}"#,
    required: &["command"],
    class: Class::Serial,
    level: Level::Allow,
    writes: None,
    label: "command",
    run: Some(run),
};

fn run(ctx: &mut Ctx, args: &Value) -> Output {
    let command = args.get_string("command").unwrap_or_default();
    if command.trim().is_empty() {
        return Output::error("the command is empty");
    }
    if command.contains('\0') {
        return Output::error("the command contains a NUL character");
    }
    let workdir = match args.get_string("workdir") {
        Some(dir) if !dir.is_empty() => fs::join(ctx.cwd, dir.as_bytes()),
        _ => ctx.cwd.to_vec(),
    };
    if !fs::is_dir(&workdir) {
        return Output::error([b"workdir ".as_slice(), &workdir, b" is not a directory"].concat());
    }
    let seconds = args
        .get_u64("timeout")
        .filter(|&t| t > 0)
        .unwrap_or(ctx.bash_timeout)
        .min(MAX_TIMEOUT);
    let spawn = Spawn {
        argv: &[b"sh", b"-c", command.as_bytes()],
        env: ENV,
        env_remove: ctx.env_remove,
        cwd: Some(&workdir),
        merge_stderr: true,
        ..Spawn::default()
    };
    let limits = Limits {
        idle: None,
        total: Some(seconds * 1000),
        linger: LINGER,
    };
    let mut collected = Collector::new(ctx.output_limit, ctx.scratch);
    let result = process::run(&spawn, limits, ctx.watch, &mut |_, bytes| {
        collected.push(bytes);
        true
    });
    let outcome = match result {
        Ok(outcome) => outcome,
        Err(e) => {
            let text = crate::text::said("the shell could not be started: %", &[&e.to_string()]);
            return Output::error(text);
        }
    };
    let mut text = collected.finish();
    let mut note = Vec::new();
    match (outcome.cause, outcome.end) {
        (Cause::Total | Cause::Idle, _) => {
            note.extend_from_slice(b"[timed out after ");
            push_dec(&mut note, seconds);
            note.extend_from_slice(b" s: the command and what it started were ended]");
        }
        (Cause::Cancelled, _) => note.extend_from_slice(b"[cancelled by the user]"),
        (_, End::Code(0)) => {}
        (_, End::Code(code)) => {
            note.extend_from_slice(b"[exit code: ");
            push_dec(&mut note, u64::from(code.unsigned_abs()));
            note.push(b']');
        }
        (_, End::Signal(signal)) => {
            note.extend_from_slice(b"[killed by signal ");
            push_dec(&mut note, u64::from(signal.unsigned_abs()));
            note.push(b']');
        }
    }
    if outcome.cause == Cause::Detached {
        if !note.is_empty() {
            note.push(b'\n');
        }
        note.extend_from_slice(
            b"[a background process goes on and keeps its output open; it was not waited for]",
        );
    }
    if text.is_empty() && note.is_empty() {
        text.extend_from_slice(b"(no output)");
    }
    if !note.is_empty() && !text.is_empty() && !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    text.extend_from_slice(&note);
    let ok =
        outcome.end == End::Code(0) && matches!(outcome.cause, Cause::Finished | Cause::Detached);
    Output { ok, text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::process::NoWatch;
    use crate::sys::{signal, time};
    use crate::tools::seen::Seen;

    fn call(args: &str, limit: usize) -> Output {
        signal::install();
        let dir = std::env::temp_dir().join(format!("cluade-bash-{}", std::process::id()));
        let scratch = dir.to_string_lossy().into_owned();
        let mut ctx = Ctx {
            cwd: b"/tmp",
            output_limit: limit,
            scratch: scratch.as_bytes(),
            bash_timeout: 30,
            seen: &mut Seen::default(),
            env_remove: &[b"CLUADE_TEST_SECRET"],
            watch: &mut NoWatch,
        };
        run(&mut ctx, &crate::json::parse(args.as_bytes()).unwrap())
    }

    #[track_caller]
    fn check(args: &str, ok: bool, text: &str) {
        let out = call(args, 16_000);
        assert_eq!(
            (out.ok, String::from_utf8_lossy(&out.text).as_ref()),
            (ok, text),
            "{args}"
        );
    }

    #[test]
    fn results() {
        check(
            r#"{"command":"echo a; echo b >&2; echo c"}"#,
            true,
            "a\nb\nc\n",
        );
        check(r#"{"command":"true"}"#, true, "(no output)");
        check(
            r#"{"command":"printf x; exit 3"}"#,
            false,
            "x\n[exit code: 3]",
        );
        check(r#"{"command":"exit 200"}"#, false, "[exit code: 200]");
        check(r#"{"command":"kill -9 $$"}"#, false, "[killed by signal 9]");
        check(r#"{"command":"pwd","workdir":"/"}"#, true, "/\n");
        check(
            r#"{"command":"pwd","workdir":"nowhere"}"#,
            false,
            "error: workdir /tmp/nowhere is not a directory",
        );
        check(r#"{"command":"  "}"#, false, "error: the command is empty");
        check(
            r#"{"command":"echo \u0000"}"#,
            false,
            "error: the command contains a NUL character",
        );
        check(
            r#"{"command":"cat; echo $TERM $PAGER"}"#,
            true,
            "dumb cat\n",
        );
        check(r#"{"command":"printf '\\377'"}"#, true, "\u{FFFD}");
        let out = call(r#"{"command":"no-such-program-here"}"#, 16_000);
        assert!(out.text.ends_with(b"[exit code: 127]"));
    }

    #[test]
    fn nothing_to_wait_for() {
        let out = call(r#"{"command":"read x </dev/tty; echo $?"}"#, 16_000);
        assert!(
            out.text.windows(2).any(|w| w == b"1\n" || w == b"2\n"),
            "{}",
            String::from_utf8_lossy(&out.text)
        );
        let start = time::monotonic_ms();
        let out = call(r#"{"command":"sleep 100 & echo x"}"#, 16_000);
        assert!(out.ok && out.text.starts_with(b"x\n[a background process"));
        let pid = call(
            r#"{"command":"sleep 100 >/dev/null 2>&1 & echo $!"}"#,
            16_000,
        );
        assert!(pid.ok);
        let pid = String::from_utf8_lossy(&pid.text).trim().to_owned();
        check(
            &format!(
                r#"{{"command":"kill -0 {pid} && kill {pid} && echo alive; pkill -f 'sleep 100$'; true"}}"#
            ),
            true,
            "alive\n",
        );
        assert!(time::monotonic_ms() - start < 5000);
    }

    #[test]
    fn a_time_limit_returns_what_there_was() {
        check(
            r#"{"command":"echo first; trap '' TERM; sleep 99 & sleep 99","timeout":1}"#,
            false,
            "first\n[timed out after 1 s: the command and what it started were ended]",
        );
    }

    #[test]
    fn long_output_keeps_head_and_tail() {
        let out = call(
            r#"{"command":"echo begin; yes 0123456789 | head -n 100000; echo end; exit 4"}"#,
            4_000,
        );
        assert!(out.text.starts_with(b"begin\n") && out.text.ends_with(b"end\n[exit code: 4]"));
        assert!(out.text.len() < 4_400, "{}", out.text.len());
    }
}
