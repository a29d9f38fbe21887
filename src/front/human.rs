//! The human view: steps, labels, the answer as it comes, a status line. Everything from outside is made visible before
//! it reaches the terminal.

use super::ask::ask;
use super::input::Input;
use super::{ending_text, quiet};
use crate::agent::event::{Decision, Done, Event, Front, Question};
use crate::json::parse;
use crate::sys::process::{NoWatch, Watch};
use crate::sys::{out, signal, time};
use crate::text::{complete_utf8_len, dec, push_dec, push_visible, said};
use crate::tools;
use std::io;

/// Bytes of a call's arguments shown in its label.
const LABEL: usize = 200;

const CYAN: &[u8] = b"\x1b[36m";
const GREEN: &[u8] = b"\x1b[92m";
const MAGENTA: &[u8] = b"\x1b[35m";
const YELLOW: &[u8] = b"\x1b[33m";
const RED: &[u8] = b"\x1b[31m";
const DIM: &[u8] = b"\x1b[2m";
const RESET: &[u8] = b"\x1b[0m";

/// The human front end.
pub struct Human {
    /// Where prompts and answers come from.
    pub input: Input,
    /// The model's name for the status line.
    pub model: String,
    /// The context window, for the status line.
    pub context_limit: u64,
    /// The step limit, for its message.
    pub max_steps: u32,
    color: bool,
    watch: NoWatch,
    /// The cursor is not at the start of a line.
    mid_line: bool,
    thinking: Option<(u64, usize)>,
    closed: bool,
}

/// Standard output failed. Nobody reading any more ends the turn without a word; anything else is said once.
pub fn output_failed(error: &io::Error) {
    if error.kind() != io::ErrorKind::BrokenPipe {
        quiet::note(
            "error: ",
            said("standard output: %", &[&error.to_string()]).as_bytes(),
        );
    }
    signal::set_output_gone();
}

/// `[using tool: NAME ARGUMENT...]` for a call.
pub fn label(name: &str, arguments: &[u8]) -> Vec<u8> {
    let mut text = b"[using tool: ".to_vec();
    text.extend_from_slice(name.as_bytes());
    let parameter = tools::find(name).map_or("", |t| t.label);
    if let Ok(args) = parse(arguments)
        && let Some(value) = args.get_string(parameter)
        && !value.is_empty()
    {
        text.push(b' ');
        let line = value.replace('\n', " ");
        let cut = complete_utf8_len(&line.as_bytes()[..line.len().min(LABEL)]);
        text.extend_from_slice(&line.as_bytes()[..cut]);
    }
    text.extend_from_slice(b"...]");
    text
}

impl Human {
    /// A human view; `color` says whether to colour it.
    pub fn new(input: Input, color: bool) -> Self {
        Human {
            input,
            model: String::new(),
            context_limit: 0,
            max_steps: 0,
            color,
            watch: NoWatch,
            mid_line: false,
            thinking: None,
            closed: false,
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.closed || bytes.is_empty() {
            return;
        }
        self.mid_line = bytes.last() != Some(&b'\n');
        if let Err(e) = out::write_all(out::STDOUT, bytes) {
            self.closed = true;
            output_failed(&e);
        }
    }

    /// A line of its own, coloured.
    pub fn line(&mut self, color: &[u8], text: &[u8]) {
        let mut line = Vec::with_capacity(text.len() + 16);
        if self.mid_line {
            line.push(b'\n');
        }
        if self.color {
            line.extend_from_slice(color);
        }
        push_visible(&mut line, text);
        if self.color {
            line.extend_from_slice(RESET);
        }
        line.push(b'\n');
        self.write(&line);
    }

    /// Something the user asked for.
    #[inline(never)]
    pub fn say(&mut self, text: &str) {
        self.line(b"", text.as_bytes());
    }

    /// A complaint.
    #[inline(never)]
    pub fn complain(&mut self, text: &str) {
        self.line(RED, text.as_bytes());
    }

    /// The prompt of the conversation.
    pub fn prompt(&mut self) {
        if self.mid_line {
            self.write(b"\n");
        }
        let (cyan, reset): (&[u8], &[u8]) = if self.color {
            (b"\x1b[96m", RESET)
        } else {
            (b"", b"")
        };
        let text = [cyan, b"> ".as_slice(), reset].concat();
        self.write(&text);
        self.mid_line = false;
    }

    fn end_thinking(&mut self) {
        let Some((since, bytes)) = self.thinking.take() else {
            return;
        };
        let mut text = b"[thought for ".to_vec();
        push_dec(&mut text, (time::monotonic_ms() - since).div_ceil(1000));
        text.extend_from_slice(b" s, ");
        push_dec(&mut text, bytes as u64);
        text.extend_from_slice(b" bytes]");
        self.line(DIM, &text);
    }

    fn done(&mut self, done: &Done) {
        if let Some(text) = ending_text(done, self.max_steps) {
            self.line(YELLOW, text.as_bytes());
        }
        let permille = done.context_tokens.saturating_mul(1000) / self.context_limit.max(1);
        let mut text = b"-- ".to_vec();
        text.extend_from_slice(self.model.as_bytes());
        text.extend_from_slice(b" - ");
        push_dec(&mut text, done.total_tokens);
        text.extend_from_slice(b" tokens - ");
        push_dec(&mut text, permille / 10);
        text.push(b'.');
        push_dec(&mut text, permille % 10);
        text.extend_from_slice(b"% context - ");
        push_dec(&mut text, done.ms / 1000);
        text.push(b'.');
        push_dec(&mut text, done.ms / 100 % 10);
        text.push(b's');
        let color = match permille {
            951.. => RED,
            801.. => YELLOW,
            _ => MAGENTA,
        };
        self.line(color, &text);
    }
}

impl Front for Human {
    fn event(&mut self, event: &Event) {
        if !matches!(event, Event::Reasoning(_)) {
            self.end_thinking();
        }
        match event {
            Event::Step(n) => {
                let mut text = b"[step ".to_vec();
                push_dec(&mut text, u64::from(*n));
                text.push(b']');
                self.line(CYAN, &text);
            }
            Event::Reasoning(text) => {
                let (_, bytes) = self.thinking.get_or_insert((time::monotonic_ms(), 0));
                *bytes += text.len();
            }
            Event::Chunk(text) => {
                let mut visible = Vec::with_capacity(text.len());
                push_visible(&mut visible, text);
                self.write(&visible);
            }
            Event::Restart => self.line(YELLOW, b"[the above is void: asking again]"),
            Event::ToolCall {
                name, arguments, ..
            } => self.line(GREEN, &label(name, arguments)),
            Event::ToolResult {
                ok: false, output, ..
            } => {
                let line = output
                    .split(|&b| b == b'\n')
                    .rfind(|l| !l.is_empty())
                    .unwrap_or_default();
                self.line(
                    DIM,
                    &line[..complete_utf8_len(&line[..line.len().min(LABEL)])],
                );
            }
            Event::Approval {
                decision: "refused",
                reason,
                ..
            } => {
                self.line(YELLOW, said("[refused: %]", &[reason]).as_bytes());
            }
            Event::Compaction { before, after } => {
                self.line(
                    DIM,
                    said(
                        "[context compacted: % -> % tokens]",
                        &[&dec(*before), &dec(*after)],
                    )
                    .as_bytes(),
                );
            }
            Event::Debug(text) => quiet::debug(text),
            Event::Warning(text) => self.line(YELLOW, ["warning: ", text].concat().as_bytes()),
            Event::Error { message, .. } => {
                self.line(RED, ["error: ", message].concat().as_bytes())
            }
            Event::Done(done) => self.done(done),
            Event::Session { .. }
            | Event::ToolResult { .. }
            | Event::Approval { .. }
            | Event::RoundInfo(_) => {}
        }
    }

    fn approve(&mut self, question: &Question) -> Decision {
        if self.mid_line {
            self.write(b"\n");
        }
        ask(question, &mut self.input, self.color)
    }

    fn watch(&mut self) -> &mut dyn Watch {
        &mut self.watch
    }
}
