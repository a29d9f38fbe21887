//! `--quiet`: the answer on standard output, everything else on standard error.

use super::ask::ask;
use super::input::Input;
use crate::agent::event::{Decision, Event, Front, Question};
use crate::provider::{Delta, Observer};
use crate::sys::out;
use crate::sys::process::{NoWatch, Watch};
use crate::text::push_visible;

/// The quiet front end. The answer itself is printed by who runs the turn.
pub struct Quiet {
    /// Where answers to questions come from.
    pub input: Input,
    watch: NoWatch,
}

impl Quiet {
    /// A front end that asks on `input`.
    pub fn new(input: Input) -> Self {
        Quiet {
            input,
            watch: NoWatch,
        }
    }
}

/// Prints `cluade: KIND: TEXT` on standard error.
pub fn note(kind: &str, text: &[u8]) {
    let mut line = b"cluade: ".to_vec();
    line.extend_from_slice(kind.as_bytes());
    push_visible(&mut line, text);
    line.push(b'\n');
    out::stderr(&line);
}

/// Prints what `--show-tools-json` shows.
pub fn debug(text: &[u8]) {
    let mut visible = Vec::new();
    push_visible(&mut visible, text);
    out::stderr(&visible);
}

impl Front for Quiet {
    fn event(&mut self, event: &Event) {
        match event {
            Event::ToolCall {
                name, arguments, ..
            } => {
                let label = super::human::label(name, arguments);
                note("", &label);
            }
            Event::Warning(text) => note("warning: ", text.as_bytes()),
            Event::Debug(text) => debug(text),
            Event::Error { message, .. } => note("error: ", message.as_bytes()),
            _ => {}
        }
    }

    fn approve(&mut self, question: &Question) -> Decision {
        ask(question, &mut self.input, false)
    }

    fn watch(&mut self) -> &mut dyn Watch {
        &mut self.watch
    }
}

/// Hears of a request that is no part of a turn.
#[derive(Default)]
pub struct Listener {
    watch: NoWatch,
}

impl Observer for Listener {
    fn delta(&mut self, _: Delta) {}
    fn notice(&mut self, text: &str) {
        note("", text.as_bytes());
    }
    fn restart(&mut self) {}
    fn watch(&mut self) -> &mut dyn Watch {
        &mut self.watch
    }
}
