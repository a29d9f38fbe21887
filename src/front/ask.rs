//! The question before a call, on a terminal or from the queue of a piped session.

use super::input::{Input, Line};
use crate::agent::event::{Decision, Question};
use crate::sys::out;
use crate::text::push_visible;

/// Shows the question on standard error and reads its answer. Anything but yes, always and stop is no.
pub fn ask(question: &Question, input: &mut Input, color: bool) -> Decision {
    input.drain();
    let mut text = b"\n".to_vec();
    let (yellow, reset): (&[u8], &[u8]) = if color {
        (b"\x1b[33m", b"\x1b[0m")
    } else {
        (b"", b"")
    };
    text.extend_from_slice(yellow);
    push_visible(&mut text, question.tool.as_bytes());
    text.extend_from_slice(b": ");
    push_visible(&mut text, question.reason.as_bytes());
    text.extend_from_slice(reset);
    text.push(b'\n');
    for line in question.detail.split(|&b| b == b'\n') {
        text.extend_from_slice(b"  ");
        push_visible(&mut text, line);
        text.push(b'\n');
    }
    text.extend_from_slice(b"Run it? [y]es / [N]o / [a]lways this session / [s]top: ");
    out::stderr(&text);
    let decision = match input.answer() {
        Line::Text(line) => match line.trim_ascii() {
            b"y" | b"Y" | b"yes" | b"Yes" | b"YES" => Decision::Yes,
            b"a" | b"A" | b"always" => Decision::Always,
            b"s" | b"S" | b"stop" => Decision::Stop,
            _ => Decision::No,
        },
        Line::End | Line::Interrupted => Decision::No,
    };
    if !crate::sys::tty::is_tty(0) {
        out::stderr(b"\n");
    }
    decision
}
