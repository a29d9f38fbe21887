//! Compaction: the conversation's live window starts anew at a summary. Nothing is rewritten: the summary is appended
//! and the window's start moves; the session file keeps everything.

use super::Agent;
use super::event::{Event, Front};
use crate::json::parse;
use crate::provider::messages::Message;
use crate::provider::{Delta, Observer};
use crate::session::message;
use crate::sys::process::Watch;

/// Thousandths of the window at which the agent compacts by itself.
pub const AUTO_PERMILLE: u64 = 950;
/// Bytes an old tool result is digested to for the summary.
const DIGEST: usize = 240;
/// Bytes of the user's request repeated behind a summary.
const PROMPT_KEPT: usize = 4_000;

const ASK: &str = "Summarise the conversation above, for yourself to go on from with nothing else left of it. Sections: Goal, \
Progress, Decisions, Pending, Critical facts (paths, commands, values, errors verbatim). If it starts with an earlier summary, \
update that one. Answer with the summary only, in at most 500 words; call no tool.";

/// Tokens in `bytes` of text, roughly: bytes / 3.5.
pub fn estimate(bytes: usize) -> u64 {
    bytes as u64 * 2 / 7
}

/// Watches the summary being written, which nobody needs to see.
struct Silent<'a> {
    front: &'a mut dyn Front,
}

impl Observer for Silent<'_> {
    fn delta(&mut self, _: Delta) {}
    fn notice(&mut self, text: &str) {
        self.front.event(&Event::Warning(text));
    }
    fn restart(&mut self) {}
    fn watch(&mut self) -> &mut dyn Watch {
        self.front.watch()
    }
}

/// Appends the first [`DIGEST`] bytes of `text`, whole characters.
#[inline(never)]
fn push_start(out: &mut Vec<u8>, text: &[u8]) {
    let start = &text[..text.len().min(DIGEST)];
    out.extend_from_slice(&start[..crate::text::complete_utf8_len(start)]);
}

impl Agent {
    /// Tokens in the context: what the server counted last, and an estimate of what came after.
    pub fn context_tokens(&self) -> u64 {
        let bytes = self.session.conversation.bytes().len();
        if self.counted > 0 {
            return self.counted + estimate(bytes.saturating_sub(self.counted_bytes));
        }
        let live = self
            .session
            .conversation
            .bytes_from(self.session.context_from())
            .len();
        estimate(live + self.system.len() + self.schemas.len())
    }

    /// Starts the live window anew at `summary`.
    pub fn compact_to(&mut self, summary: &[u8], front: &mut dyn Front) {
        let before = self.context_tokens();
        let mut text = b"[Summary of the conversation so far, which it replaces:]\n".to_vec();
        text.extend_from_slice(summary.trim_ascii());
        text.extend_from_slice(b"\n\n[The user's request was:]\n");
        let kept = &self.last_prompt[..self.last_prompt.len().min(PROMPT_KEPT)];
        text.extend_from_slice(kept);
        text.extend_from_slice(b"\n[Go on with it.]");
        self.session.push_user(&text);
        self.session
            .set_context_from(self.session.conversation.len() - 1);
        self.counted = 0;
        self.nudged = false;
        front.event(&Event::Compaction {
            before,
            after: self.context_tokens(),
        });
    }

    /// Compacts without the model having asked for it: has it write a summary of the digested conversation; if even that
    /// fails, the digest itself is the summary. Returns whether that won at least a tenth.
    pub fn auto_compact(&mut self, front: &mut dyn Front) -> bool {
        let before = self.context_tokens();
        let digest = self.digest();
        let ask = [&digest[..], b"\n\n", ASK.as_bytes()].concat();
        let mut request = Vec::new();
        message::user(&mut request, &ask);
        let messages = [
            Message {
                json: &self.system,
                origin: 0,
            },
            Message {
                json: &request,
                origin: 0,
            },
        ];
        let reply = self
            .client
            .complete(&messages, None, &[], &mut Silent { front });
        let summary = match reply {
            Ok(reply) if !reply.content.is_empty() => {
                if let Some(usage) = reply.usage {
                    self.session.total_tokens += usage.prompt + usage.completion;
                }
                reply.content
            }
            _ => digest,
        };
        self.compact_to(&summary, front);
        self.context_tokens() * 10 <= before * 9
    }

    /// Compacts because the user wants it.
    pub fn compact_now(&mut self, front: &mut dyn Front) -> bool {
        let won = self.auto_compact(front);
        if let Some(warning) = self.session.commit() {
            front.event(&Event::Warning(&warning));
        }
        won
    }

    /// The live window as plain text, tool results cut short, the whole at most half of the context window.
    fn digest(&self) -> Vec<u8> {
        let room = (self.config.context_limit as usize).saturating_mul(7) / 4;
        let mut out = Vec::new();
        for text in self
            .session
            .conversation
            .iter_from(self.session.context_from())
        {
            let Ok(m) = parse(text) else { continue };
            let role = m.get_string("role").unwrap_or_default();
            if role == "system" {
                continue;
            }
            let content = m
                .get("content")
                .and_then(|c| c.text())
                .map(|t| t.bytes())
                .unwrap_or_default();
            out.extend_from_slice(role.as_bytes());
            out.extend_from_slice(b": ");
            if role == "tool" && content.len() > DIGEST {
                push_start(&mut out, &content);
                out.extend_from_slice(b"...");
            } else {
                out.extend_from_slice(&content);
            }
            for call in m.get("tool_calls").into_iter().flat_map(|c| c.items()) {
                let function = call.get("function");
                let part = |name| {
                    function
                        .and_then(|f| f.get_string(name))
                        .unwrap_or_default()
                };
                out.extend_from_slice(b"\n  called ");
                out.extend_from_slice(part("name").as_bytes());
                out.push(b' ');
                push_start(&mut out, part("arguments").as_bytes());
            }
            out.push(b'\n');
        }
        if out.len() > room {
            // The newest part is what the work goes on from.
            let cut = out.len() - room;
            let cut = out[cut..]
                .iter()
                .position(|&b| b == b'\n')
                .map_or(cut, |i| cut + i + 1);
            out.drain(..cut);
        }
        out
    }
}
