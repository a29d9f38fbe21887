//! Bytes of one HTTP reply → [`Reply`], whatever the server made of the protocol. The parser is chosen from the first
//! byte, not from headers: servers label both kinds as the other.

use super::calls::{Calls, Scan};
use super::content::Content;
use super::ending::{End, count};
use super::leak::Verdict;
use super::said::is_one;
use super::sse::{Event, Parser};
use super::transport::{self, Head};
use super::{Class, Delta, Failure, Finish, Reply, Stage, Usage, failure};
use crate::json::{self, Joiner, Kind, Value, parse_prefix};

/// The largest reply kept: its JSON when it is one document, its text when it is a stream.
const MAX_REPLY: usize = 32 << 20;
/// Of a body that is no reply this much is kept for the error.
const MAX_OTHER: usize = 64 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Mode {
    /// Nothing but white space so far.
    #[default]
    Start,
    /// Server-sent events.
    Stream,
    /// One JSON document.
    Document,
    /// A page.
    Html,
    /// Compressed although that was not asked for.
    Gzip,
    /// The status is not 2xx.
    Refused,
}

/// Assembles one reply from the pieces a transport delivers.
#[derive(Default)]
pub struct Assembler {
    tools: Vec<String>,
    head: Head,
    mode: Mode,
    events: Parser,
    /// The document, or what is kept of a body that is no reply.
    body: Vec<u8>,
    scan: Scan,
    content: Content,
    reasoning: Joiner,
    /// The field the thinking came in, and whether it brought text.
    field: Option<&'static str>,
    field_has_text: bool,
    calls: Calls,
    /// The last `message` of a stream: it counts when no delta brought anything.
    message: Vec<u8>,
    end: Option<End>,
    /// `[DONE]` came, or the document is whole.
    done: bool,
    /// At least one choice came.
    chosen: bool,
    usage: Option<Usage>,
    failure: Option<Box<Failure>>,
}

impl Assembler {
    /// An assembler for a request that offered the tools named.
    pub fn new(tools: &[&str]) -> Assembler {
        let mut new = Assembler::default();
        for tool in tools {
            new.tools.push(tool.to_string());
        }
        new
    }

    /// Takes the reply's head, before any body byte. A transport that sees no head need not call it: then the status
    /// counts as 200.
    pub fn head(&mut self, head: &Head) {
        self.head = head.clone();
        let refused = head.status != 0 && !(200..300).contains(&head.status);
        self.mode = if refused { Mode::Refused } else { Mode::Start };
    }

    /// Takes body bytes and hands what they add to `on`. False: nothing more is needed, stop reading.
    ///
    /// What is held back (half a tag, markup that may be a leaked call) is shown with the finish reason or `[DONE]`. A
    /// stream that ends without the line end behind its last event shows that event only in the [`Reply`].
    pub fn push(&mut self, bytes: &[u8], on: &mut dyn FnMut(Delta)) -> bool {
        if self.done || self.failure.is_some() {
            return false;
        }
        if self.mode == Mode::Start {
            self.body.extend_from_slice(bytes);
            let start = self.body.trim_ascii_start();
            let start = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start);
            let start = start.trim_ascii_start();
            self.mode = match start.first() {
                None => {
                    self.body.clear();
                    return true;
                }
                // The start of a byte order mark.
                Some(0xEF) if start.len() < 3 => return true,
                Some(b'{' | b'[') => Mode::Document,
                Some(b'<') => Mode::Html,
                Some(0x1F) => Mode::Gzip,
                Some(_) => Mode::Stream,
            };
            let at = self.body.len() - start.len();
            let body = std::mem::take(&mut self.body);
            return self.route(&body[at..], on);
        }
        self.route(bytes, on)
    }

    fn route(&mut self, bytes: &[u8], on: &mut dyn FnMut(Delta)) -> bool {
        match self.mode {
            Mode::Stream => {
                let kept = bytes.len().min(200 - self.body.len().min(200));
                self.body.extend_from_slice(&bytes[..kept]);
                let mut events = std::mem::take(&mut self.events);
                let more = events.push(bytes, &mut |event| self.event(event, on));
                self.events = events;
                let kept = self.content.len() + self.reasoning.out.len() + self.calls.len();
                if more.is_err() || kept > MAX_REPLY {
                    self.fail(Class::Fatal, TOO_LARGE);
                }
                more == Ok(true) && self.failure.is_none()
            }
            Mode::Document => {
                let end = self.scan.feed(bytes);
                self.body
                    .extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
                if end.is_some() {
                    self.document(on);
                    return false;
                }
                if self.body.len() > MAX_REPLY {
                    self.fail(Class::Fatal, TOO_LARGE);
                }
                self.failure.is_none()
            }
            Mode::Gzip => false,
            Mode::Start | Mode::Html | Mode::Refused => {
                let kept = bytes.len().min(MAX_OTHER - self.body.len());
                self.body.extend_from_slice(&bytes[..kept]);
                self.body.len() < MAX_OTHER
            }
        }
    }

    /// Whether the model is done, so that the caller may shorten its idle limit to a few seconds: only the token counts
    /// can still come, and some servers leave the connection open.
    pub fn finished(&self) -> bool {
        self.done || self.end.is_some()
    }

    /// Ends the reply with what the transport said.
    ///
    /// # Errors
    /// The typed failure of the attempt. A reply that was complete when the transport failed is no failure.
    pub fn finish(
        &mut self,
        transport: Result<(), transport::Error>,
    ) -> Result<Reply, Box<Failure>> {
        let mut reply = Reply::default();
        self.conclude(&transport, &mut reply);
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(reply),
        }
    }

    #[inline(never)]
    fn conclude(&mut self, transport: &Result<(), transport::Error>, reply: &mut Reply) {
        if self.mode == Mode::Stream && !self.done && self.failure.is_none() {
            let mut events = std::mem::take(&mut self.events);
            events.flush(&mut |event| self.event(event, &mut |_| ()));
            // Half an event is the transport's failure, when it had one.
            if transport.is_err() && !self.finished() && self.failure_is_syntax() {
                self.failure = None;
            }
        }
        if let Err(e) = transport
            && (e.cancelled
                || self.failure.is_none() && !self.finished() && self.mode != Mode::Refused)
        {
            self.failure = Some(failure::from_transport(e));
        }
        if self.failure.is_none() {
            self.settle(&mut |_| ());
            self.fill(reply);
        }
    }

    fn failure_is_syntax(&self) -> bool {
        let failure = self.failure.as_deref();
        failure.is_some_and(|f| f.class == Class::Transient && f.message.starts_with(NOT_JSON))
    }

    /// A failure of the body that only we noticed.
    #[cold]
    #[inline(never)]
    fn fail(&mut self, class: Class, what: &[u8]) {
        self.failure = Some(failure::plain(class, Stage::Body, 0, what.to_vec()));
    }

    /// The body is no JSON; `what` it should be, and the start of what it is.
    fn fail_json(&mut self, what: &[u8], e: json::Error, text: &[u8]) {
        let class = match e.what {
            "nested too deeply" => Class::Fatal,
            _ => Class::Transient,
        };
        let mut line = what.to_vec();
        for part in [" (", e.what, "): "] {
            line.extend_from_slice(part.as_bytes());
        }
        failure::push_line(&mut line, text);
        self.fail(class, &line);
    }

    /// The transport is done: moves what came into `reply`, or says what is wrong with it.
    fn fill(&mut self, reply: &mut Reply) {
        let cut: &[u8] = match self.mode {
            Mode::Refused => {
                self.failure = Some(failure::classify(&self.head, &self.body));
                return;
            }
            Mode::Html => {
                self.failure = Some(failure::from_page(self.head.status, &self.body));
                return;
            }
            Mode::Gzip => {
                let what = b"the reply is compressed (gzip) although that was not asked for";
                return self.fail(Class::Fatal, what);
            }
            Mode::Start => b"the reply is empty",
            Mode::Document if !self.done => b"the reply ended inside its JSON",
            Mode::Stream if !self.finished() && self.chosen => {
                b"the stream ended before the reply did"
            }
            Mode::Stream if !self.finished() => {
                let mut what = b"the reply is no chat completion: ".to_vec();
                failure::push_line(&mut what, &self.body);
                return self.fail(Class::Transient, &what);
            }
            _ => b"",
        };
        if !cut.is_empty() {
            return self.fail(Class::Transient, cut);
        }
        let mut limit = None;
        match &self.end {
            Some(End::Failed(class, reason)) => {
                let what = ["the reply ended with finish_reason ", reason].concat();
                return self.fail(*class, what.as_bytes());
            }
            Some(End::Normal(finish @ (Finish::Length | Finish::ContentFilter))) => {
                limit = Some(*finish);
            }
            _ => {}
        }
        if self.calls.is_empty() {
            match self.content.leak.take() {
                Some(Verdict::Calls(found)) => {
                    for (name, arguments) in found {
                        self.calls.push_found(name, Some(&arguments));
                    }
                }
                Some(Verdict::Broken(Some(name))) => self.calls.push_found(name, None),
                Some(Verdict::Broken(None)) => {
                    let what = b"the server sent a tool call as plain text: its tool-call parser does not fit this model";
                    return self.fail(Class::Transient, what);
                }
                _ => {}
            }
        }
        let stopped = match limit {
            Some(Finish::Length) => {
                "the reply hit its token limit, so the call may be cut; write less at once"
            }
            Some(_) => "the provider's filter stopped the reply, so the call may be cut",
            None => "",
        };
        self.reasoning.flush();
        reply.reasoning = std::mem::take(&mut self.reasoning.out);
        if reply.reasoning.is_empty() {
            reply.reasoning = self.content.thought.trim_ascii().to_vec();
        }
        reply.content = std::mem::take(&mut self.content.answer);
        reply.calls = self.calls.finish(stopped, &self.tools);
        reply.finish = match limit {
            Some(limit) => limit,
            None if reply.calls.is_empty() => Finish::Stop,
            None => Finish::ToolCalls,
        };
        reply.reasoning_field = self.field;
        reply.usage = self.usage;
        let empty =
            reply.content.is_empty() && reply.reasoning.is_empty() && reply.calls.is_empty();
        if !self.chosen || empty && self.end.is_none() && self.mode == Mode::Stream {
            self.fail(Class::Transient, b"the reply holds no choices");
        }
    }

    /// Everything that counts has come: what waited for more is judged and shown.
    fn settle(&mut self, on: &mut dyn FnMut(Delta)) {
        if !self.message.is_empty() {
            let message = std::mem::take(&mut self.message);
            if self.content.is_empty()
                && self.calls.is_empty()
                && let Ok((value, _)) = parse_prefix(&message)
            {
                self.delta(value, true, false, on);
            }
        }
        self.content.flush(self.reasoned(), &self.tools, on);
    }

    /// Handles one event; false ends the stream.
    fn event(&mut self, event: Event, on: &mut dyn FnMut(Delta)) -> bool {
        let error = if event.name == b"error" && event.error.is_empty() {
            event.data
        } else {
            event.error
        };
        if !error.is_empty() {
            self.failure = Some(failure::from_error_text(error));
            return false;
        }
        // One document an event is the rule; servers that forget the empty line put several into one.
        let mut rest = event.data.trim_ascii();
        while !rest.is_empty() {
            if rest.starts_with(b"[DONE]") {
                self.done = true;
                self.settle(on);
                return false;
            }
            match parse_prefix(rest) {
                Ok((value, end)) => {
                    if !self.chunk(value, false, on) {
                        return false;
                    }
                    rest = rest[end..].trim_ascii();
                }
                // Behind the end only token counts are lost.
                Err(_) if self.end.is_some() => return true,
                Err(e) => {
                    self.fail_json(NOT_JSON.as_bytes(), e, rest);
                    return false;
                }
            }
        }
        true
    }

    /// The document is whole.
    fn document(&mut self, on: &mut dyn FnMut(Delta)) {
        let body = std::mem::take(&mut self.body);
        match parse_prefix(&body) {
            Ok((value, _)) => {
                if self.chunk(value, true, on) {
                    self.done = true;
                    self.settle(on);
                }
            }
            Err(e) => {
                self.fail_json(b"the reply is no valid JSON", e, &body);
            }
        }
    }

    /// Takes one chunk of a stream, or with `whole` the whole document. False: it is an error.
    fn chunk(&mut self, value: Value, whole: bool, on: &mut dyn FnMut(Delta)) -> bool {
        let mut found = [None; 16];
        let names = "error|object|type|choices|usage|x_groq|data|result|response|detail|errors|message|msg|code|status|success";
        value.pick(names, &mut found);
        let [error, object, kind, choices, usage, groq, ..] = found;
        let is_word = |v: &Option<Value>| v.is_some_and(|v| v.raw() == b"\"error\"");
        let failed = value.kind() == Kind::Array
            || error.is_some_and(failure::is_error)
            || is_word(&object)
            || is_word(&kind);
        for usage in [usage, groq.and_then(|v| v.get("usage"))] {
            count(&mut self.usage, usage);
        }
        if choices.is_none() && !failed {
            for inner in found[6..9].iter().flatten() {
                let mut own = [None; 2];
                inner.pick("choices|error", &mut own);
                if own != [None; 2] {
                    return self.chunk(*inner, whole, on);
                }
            }
        }
        let detailed = found[9].or(found[10]).is_some();
        let text = detailed
            || found[11..13]
                .iter()
                .flatten()
                .any(|v| v.kind() == Kind::Str);
        let mark = detailed || found[13..] != [None; 3];
        if failed || choices.is_none() && text && (whole || mark) {
            self.failure = Some(failure::from_error_json(value, 0));
            return false;
        }
        for choice in items(choices) {
            self.chosen = true;
            if !self.choice(choice, whole, on) {
                self.failure = Some(failure::from_error_json(choice, 0));
                return false;
            }
        }
        true
    }

    /// False: the choice is an error.
    fn choice(&mut self, choice: Value, whole: bool, on: &mut dyn FnMut(Delta)) -> bool {
        let mut found = [None; 6];
        choice.pick("error|delta|message|text|usage|finish_reason", &mut found);
        let [error, delta, message, text, usage, reason] = found;
        if error.is_some_and(failure::is_error) {
            return false;
        }
        count(&mut self.usage, usage);
        let object = |v: &Value| v.kind() == Kind::Object;
        let reason = reason.filter(|v| v.raw() != b"\"\"");
        if let Some(delta) = delta.filter(object) {
            self.delta(delta, false, reason.is_some(), on);
        } else if let Some(message) = message.filter(object) {
            if whole {
                self.delta(message, true, false, on);
            } else {
                self.message = message.raw().to_vec();
            }
        } else {
            self.say(text, on);
        }
        if let Some(reason) = reason {
            let end = End::read(reason);
            // Of two finish chunks the one that says more counts.
            if self.end.is_none() || !end.is_plain() {
                self.end = Some(end);
            }
            // Nothing more is held back from the eye.
            if !whole {
                self.settle(on);
            }
        }
        true
    }

    /// Takes a delta, or with `whole` a message.
    fn delta(&mut self, delta: Value, whole: bool, ending: bool, on: &mut dyn FnMut(Delta)) {
        let mut found = [None; 7];
        let names = "reasoning_content|reasoning|reasoning_details|content|refusal|tool_calls|function_call";
        delta.pick(names, &mut found);
        let [.., details, content, refusal, calls, function] = found;
        let mut thought = None;
        for (value, field) in found.iter().zip(["reasoning_content", "reasoning"]) {
            let Some(text) = value.and_then(|v| v.text()) else {
                continue;
            };
            let has_text = !text.raw().is_empty();
            // The field that brings the text is the one to send back; an empty one counts until then.
            if self.field.is_none() || has_text && !self.field_has_text {
                self.field = Some(field);
                self.field_has_text = has_text;
            }
            if has_text && thought.is_none() {
                thought = *value;
            }
        }
        if thought.is_some() {
            self.reason(thought, on);
        } else if !self.field_has_text {
            for item in items(details) {
                self.reason(item.get("text").or_else(|| item.get("summary")), on);
            }
        }
        if let Some(content) = content {
            match content.text() {
                // Aggregators put the thinking into both; others repeat the whole answer at the end.
                Some(_) if thought.is_some_and(|t| t.raw() == content.raw()) => {}
                Some(text) if ending && self.content.repeats(text) => {}
                _ if content.kind() != Kind::Array => self.part(content, on),
                _ => content.items().for_each(|part| self.part(part, on)),
            }
        }
        self.say(refusal, on);
        if let Some(list) = calls.or(function) {
            let single = [list];
            let all = single.into_iter().filter(|v| v.kind() != Kind::Array);
            for call in all.chain(list.items()) {
                if call.kind() == Kind::Object {
                    self.calls.push(call, whole, &self.tools);
                }
            }
        }
    }

    fn reasoned(&self) -> bool {
        !self.reasoning.out.is_empty()
    }

    /// A part of content, which may be a string or one of a list.
    fn part(&mut self, part: Value, on: &mut dyn FnMut(Delta)) {
        if part.text().is_some() {
            return self.say(Some(part), on);
        }
        let mut found = [None; 3];
        part.pick("type|text|thinking", &mut found);
        let [kind, text, thinking] = found;
        let kind = kind.and_then(|v| v.text()).map_or(&b""[..], |t| t.raw());
        if is_one(kind, "|text|output_text") {
            self.say(text, on);
        } else if is_one(kind, "thinking|reasoning") {
            let inner = thinking.or(text);
            self.reason(inner, on);
            for item in items(inner) {
                self.reason(Some(item.get("text").unwrap_or(item)), on);
            }
        }
    }

    /// Takes answer text, if `value` is a string.
    fn say(&mut self, value: Option<Value>, on: &mut dyn FnMut(Delta)) {
        if let Some(text) = value.and_then(|v| v.text()) {
            self.content.push(text, self.reasoned(), on);
        }
    }

    /// Takes thinking text, if `value` is a string.
    fn reason(&mut self, value: Option<Value>, on: &mut dyn FnMut(Delta)) {
        let Some(text) = value.and_then(|v| v.text()) else {
            return;
        };
        let before = self.reasoning.out.len();
        self.reasoning.push(text);
        if let Some(new @ [_, ..]) = self.reasoning.out.get(before..) {
            on(Delta::Reasoning(new));
        }
    }
}

fn items(value: Option<Value>) -> json::value::Items {
    value.unwrap_or(json::value::checked(b"")).items()
}

const NOT_JSON: &str = "the server sent an event that is not JSON";
const TOO_LARGE: &[u8] = b"the reply is too large to keep";
