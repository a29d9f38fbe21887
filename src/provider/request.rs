//! The body of a request, written straight from stored messages. It begins with the model and the messages, so that
//! each request of a turn is a byte-for-byte prefix of the next one up to the end of its messages, and servers find what
//! they cached. Fields: model, messages, tools and tool_choice, thinking, reasoning_effort, max_tokens, stream and
//! stream_options; nothing else, ever. For the URL see [`super::url`].

use super::endpoint::{HIGH_EFFORT, NEW_MAX_TOKENS, NO_STREAM, Rules};
use super::messages::{self, Message};
use crate::json::write::push_string;
use crate::text::push_dec;

/// What to ask.
#[derive(Clone, Copy)]
pub struct Body<'a> {
    /// The model's id.
    pub model: &'a str,
    /// The conversation in order.
    pub messages: &'a [Message<'a>],
    /// The schemas of the tools as a JSON array; `None` or an empty array offers none.
    pub tools: Option<&'a [u8]>,
    /// Tokens asked for in a reply; 0 leaves the field out.
    pub max_tokens: u64,
    /// Ask for thinking.
    pub thinking: bool,
    /// How hard to think; empty leaves the field out, and so does `thinking` being off.
    pub reasoning_effort: &'a str,
    /// Ask for a stream.
    pub stream: bool,
}

/// The body for the endpoint `origin`, as its rules have it.
pub fn body(ask: &Body, rules: &Rules, origin: u32) -> Vec<u8> {
    let tools = ask.tools.filter(|t| {
        let inner = t.trim_ascii();
        inner.len() > 2 && inner != b"null"
    });
    let size: usize = ask.messages.iter().map(|m| m.json.len() + 1).sum();
    let mut out = Vec::with_capacity(size + tools.map_or(0, <[u8]>::len) + ask.model.len() + 512);
    out.extend_from_slice(b"{\"model\":");
    push_string(&mut out, ask.model.as_bytes());
    out.extend_from_slice(b",\"messages\":[");
    messages::push(&mut out, ask.messages, rules, origin);
    out.push(b']');
    if let Some(tools) = tools {
        out.extend_from_slice(b",\"tools\":");
        out.extend_from_slice(tools);
        if rules.sends("tool_choice") {
            out.extend_from_slice(b",\"tool_choice\":\"auto\"");
        }
    }
    if ask.thinking && rules.sends("thinking") {
        out.extend_from_slice(b",\"thinking\":{\"type\":\"enabled\"}");
    }
    if ask.thinking && !ask.reasoning_effort.is_empty() && rules.sends("reasoning_effort") {
        let effort = match ask.reasoning_effort {
            "max" if rules.has(HIGH_EFFORT) => "high",
            other => other,
        };
        out.extend_from_slice(b",\"reasoning_effort\":");
        push_string(&mut out, effort.as_bytes());
    }
    let limit = rules.limit(ask.max_tokens);
    if limit > 0 {
        out.extend_from_slice(if rules.has(NEW_MAX_TOKENS) {
            b",\"max_completion_tokens\":"
        } else {
            b",\"max_tokens\":"
        });
        push_dec(&mut out, limit);
    }
    let stream = ask.stream && !rules.has(NO_STREAM);
    out.extend_from_slice(if stream {
        b",\"stream\":true"
    } else {
        b",\"stream\":false"
    });
    if stream && rules.sends("stream_options") {
        out.extend_from_slice(b",\"stream_options\":{\"include_usage\":true}");
    }
    out.push(b'}');
    out
}
