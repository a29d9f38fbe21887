//! The answer's text as it arrives: thinking between tags is set apart, leaked tool markup is held back, whole characters
//! come out. Source for the tags: the chat templates of DeepSeek R1, QwQ and Qwen3.

use super::Delta;
use super::leak::{self, Opener, Verdict};
use crate::json::{Joiner, Text};

const OPEN: &[u8] = b"<think>";
const CLOSE: &[u8] = b"</think>";
/// Long texts are decoded in pieces of this many bytes, so that they are never held a third time.
const PIECE: usize = 16 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Mode {
    /// Nothing but white space so far, or since a closing tag.
    #[default]
    Start,
    /// Between the tags.
    Think,
    /// The answer.
    Body,
    /// Behind what looks like a leaked call: judged at the end.
    Held,
}

/// The text of a reply while it arrives.
#[derive(Default)]
pub struct Content {
    /// Decoded and not yet assigned.
    pending: Joiner,
    mode: Mode,
    /// The answer.
    pub answer: Vec<u8>,
    /// What stood between thinking tags.
    pub thought: Vec<u8>,
    /// How much of the two has been shown.
    answer_shown: usize,
    thought_shown: usize,
    /// A thinking tag was seen.
    tagged: bool,
    code: Code,
    /// What was found instead of text at the end.
    pub leak: Option<Verdict>,
}

/// Whether the end of a text is inside Markdown code.
#[derive(Clone, Copy, Default)]
struct Code {
    fence: bool,
    span: bool,
    /// Backticks right before the end.
    run: u8,
}

impl Code {
    fn feed(&mut self, b: u8) {
        if b == b'`' {
            self.run = self.run.saturating_add(1);
            return;
        }
        match self.run {
            0 => {}
            3.. => (self.fence, self.span) = (!self.fence, false),
            _ if !self.fence => self.span = !self.span,
            _ => {}
        }
        self.run = 0;
        // A lone backtick doesn't reach beyond its line.
        self.span &= b != b'\n';
    }

    fn inside(&self) -> bool {
        self.fence || self.span || self.run > 0
    }
}

impl Content {
    /// Whether no text has come.
    pub fn is_empty(&self) -> bool {
        self.answer.is_empty() && self.thought.is_empty() && self.pending.out.is_empty()
    }

    /// Bytes held.
    pub fn len(&self) -> usize {
        self.answer.len() + self.thought.len() + self.pending.out.len()
    }

    /// Whether `text` is all that came so far, once more. Short texts repeat by chance.
    pub fn repeats(&self, text: Text) -> bool {
        let n = self.answer.len() + self.pending.out.len();
        n >= 16 && text.raw().len() >= n && {
            let bytes = text.bytes();
            bytes.len() == n
                && bytes.starts_with(&self.answer)
                && bytes.ends_with(&self.pending.out)
        }
    }

    /// Appends a piece. `reasoned`: thinking has come in a field of its own, so none is expected here.
    pub fn push(&mut self, text: Text, reasoned: bool, on: &mut dyn FnMut(Delta)) {
        for piece in text.raw().chunks(PIECE) {
            self.pending.push(Text::new(piece, false));
            self.sort(false, reasoned, &[], on);
        }
    }

    /// The text is whole as far as anybody knows: what was held back is judged and shown.
    pub fn flush(&mut self, reasoned: bool, tools: &[String], on: &mut dyn FnMut(Delta)) {
        self.pending.flush();
        self.sort(true, reasoned, tools, on);
    }

    fn sort(&mut self, last: bool, reasoned: bool, tools: &[String], on: &mut dyn FnMut(Delta)) {
        if self.mode == Mode::Held && !last {
            return;
        }
        let text = std::mem::take(&mut self.pending.out);
        let rest = self.assign(&text, last, reasoned, tools);
        self.pending.out = rest.to_vec();
        if let Some(new @ [_, ..]) = self.thought.get(self.thought_shown..) {
            on(Delta::Reasoning(new));
        }
        if let Some(new @ [_, ..]) = self.answer.get(self.answer_shown..) {
            on(Delta::Text(new));
        }
        (self.thought_shown, self.answer_shown) = (self.thought.len(), self.answer.len());
    }

    /// Gives each byte of `text` its place and returns those that must wait for more.
    fn assign<'a>(
        &mut self,
        text: &'a [u8],
        last: bool,
        reasoned: bool,
        tools: &[String],
    ) -> &'a [u8] {
        let mut rest = text;
        while let Some(&b) = rest.first() {
            let is_tag = b == b'<' && rest.starts_with(CLOSE);
            let half = b == b'<' && !last && !is_tag && CLOSE.starts_with(rest);
            // How many bytes the tag takes away; none: one byte of text.
            let mut taken = 0;
            match self.mode {
                Mode::Start => {
                    let begun = rest.trim_ascii_start();
                    if !last && OPEN.starts_with(begun) && rest.len() < 256 {
                        return rest;
                    }
                    self.mode = Mode::Body;
                    if let Some(after) = begun.strip_prefix(OPEN) {
                        (self.mode, self.tagged) = (Mode::Think, true);
                        rest = after;
                    } else if self.tagged {
                        rest = begun;
                    }
                    continue;
                }
                Mode::Think if half => return rest,
                Mode::Think if is_tag => {
                    self.mode = Mode::Start;
                    taken = CLOSE.len();
                }
                Mode::Body if matches!(b, b'<' | b'[') && !self.code.inside() => {
                    if is_tag && self.close(reasoned) {
                        taken = CLOSE.len();
                    } else if half {
                        return rest;
                    } else {
                        match leak::opener(rest, last) {
                            Opener::Yes => {
                                self.mode = Mode::Held;
                                continue;
                            }
                            Opener::Maybe => return rest,
                            Opener::No => {}
                        }
                    }
                }
                Mode::Held if !last => return rest,
                Mode::Held => {
                    self.mode = Mode::Body;
                    let verdict = leak::read(rest, tools);
                    if verdict != Verdict::Text {
                        let end = self.answer.trim_ascii_end().len();
                        self.answer.truncate(end);
                        self.leak = Some(verdict);
                        return b"";
                    }
                }
                _ => {}
            }
            if taken == 0 {
                taken = 1;
                if self.mode == Mode::Think {
                    self.thought.push(b);
                } else {
                    self.answer.push(b);
                    self.code.feed(b);
                }
            }
            rest = rest.get(taken..).unwrap_or_default();
        }
        rest
    }

    /// A closing tag in the answer: whether it is one, or only text about one. Without an opening tag, which the prompt's
    /// template may have held, everything before it was thinking.
    fn close(&mut self, reasoned: bool) -> bool {
        let before = self.answer.trim_ascii_end();
        if !before.is_empty() {
            let quoted = matches!(self.answer.last(), Some(b'"' | b'\''));
            if quoted || reasoned || self.tagged {
                return false;
            }
            // What was shown as text stays shown; only the rest is new.
            self.thought = std::mem::take(&mut self.answer);
            self.thought_shown = std::mem::take(&mut self.answer_shown);
        }
        (self.mode, self.tagged) = (Mode::Start, true);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (answer, thought, shown as text, shown as reasoning) of `text` in pieces of `step` bytes.
    fn sorted(text: &str, step: usize) -> [String; 4] {
        let tools = ["bash".to_string()];
        let mut content = Content::default();
        let (mut shown, mut reasoning) = (Vec::new(), Vec::new());
        let mut on = |delta: Delta| match delta {
            Delta::Text(t) => {
                assert!(std::str::from_utf8(t).is_ok());
                shown.extend_from_slice(t);
            }
            Delta::Reasoning(t) => reasoning.extend_from_slice(t),
        };
        for piece in text.as_bytes().chunks(step) {
            content.push(Text::new(piece, false), false, &mut on);
        }
        content.flush(false, &tools, &mut on);
        [content.answer, content.thought, shown, reasoning].map(|v| String::from_utf8(v).unwrap())
    }

    #[test]
    fn thinking_is_set_apart_wherever_it_is_cut() {
        let cases = [
            ("<think>a</think>b", "b", "a"),
            ("\n<think>\na\n</think>\n\nb < c", "b < c", "\na\n"),
            ("<think>a</think>\n<think>b</think>\nc", "c", "ab"),
            ("<think>a </thin</think>b", "b", "a </thin"),
            ("<think>never closed", "", "never closed"),
            ("  a <think> b", "  a <think> b", ""),
            ("<thinker> a", "<thinker> a", ""),
            ("</think>b", "b", ""),
            ("<think></think>\n</think>b", "b", ""),
            ("write `</think>` there", "write `</think>` there", ""),
            ("x:\n```\n</think>\n```\nb", "x:\n```\n</think>\n```\nb", ""),
            ("the tag \"</think>\" ends", "the tag \"</think>\" ends", ""),
            ("<think>a</think>b </think> c", "b </think> c", "a"),
            ("a <b> [c] é🙂 <", "a <b> [c] é🙂 <", ""),
            ("<th", "<th", ""),
            ("a <tool_call> b", "a <tool_call> b", ""),
            ("", "", ""),
        ];
        for (text, answer, thought) in cases {
            for step in 1..=text.len().max(1) {
                let [a, t, shown, reasoning] = sorted(text, step);
                assert_eq!(
                    (a.as_str(), t.as_str()),
                    (answer, thought),
                    "{text:?} by {step}"
                );
                assert_eq!(
                    (shown.as_str(), reasoning.as_str()),
                    (answer, thought),
                    "{text:?} by {step}"
                );
            }
        }
    }

    #[test]
    fn a_closing_tag_alone_makes_thinking_of_what_came_before() {
        let text = "so `x` it is\n</think>\nHello";
        for step in 1..=text.len() {
            let [answer, thought, shown, reasoning] = sorted(text, step);
            assert_eq!(
                (answer.as_str(), thought.as_str()),
                ("Hello", "so `x` it is\n")
            );
            // Each byte shows once, if only as text when nothing told otherwise.
            let text = shown.strip_suffix("Hello").unwrap();
            assert_eq!([text, &reasoning].concat(), thought, "by {step}");
        }
    }

    #[test]
    fn markup_never_shows() {
        let text = "Wait.\n<tool_call><function=bash><parameter=command>ls</parameter></function></tool_call>";
        for step in 1..=text.len() {
            let [answer, _, shown, _] = sorted(text, step);
            assert_eq!(answer, "Wait.");
            assert_eq!(shown.trim_end(), "Wait.", "by {step}");
        }
        let code = "Qwen writes\n```\n<tool_call><function=bash></function></tool_call>\n```\n";
        for step in 1..=code.len() {
            assert_eq!(sorted(code, step)[0], code, "by {step}");
        }
    }

    #[test]
    fn long_runs_take_linear_time() {
        for piece in [
            " ",
            "<",
            "`",
            "<think>",
            "</think>",
            "<tool_call>",
            "<function=bash>",
            "[TOOL",
        ] {
            let text = piece.repeat(1 << 16);
            sorted(&text, 64);
        }
    }
}
