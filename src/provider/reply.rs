//! Bytes of one HTTP reply → [`Reply`], whatever the server made of the protocol. The parser is chosen from the first
//! byte, not from headers: servers label both kinds as the other.

use super::calls::{Calls, Scan};
use super::content::Content;
use super::ending::{End, count};
use super::leak::Verdict;
use super::sse::{Event, Parser};
use super::transport::{self, Head};
use super::{Class, Delta, Failure, Finish, Reply, Stage, Usage, failure};
use crate::json::{Joiner, Kind, Value, parse_prefix};

/// The largest reply kept: its JSON when it is one document, its text when it is a stream.
const MAX_REPLY: usize = 32 << 20;
/// Of a body that is no reply this much is kept for the error.
const MAX_OTHER: usize = 64 << 10;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Nothing but white space so far.
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
    failure: Option<Failure>,
}

impl Assembler {
    /// An assembler for a request that offered the tools named.
    pub fn new(tools: &[&str]) -> Assembler {
        Assembler {
            tools: tools.iter().map(|t| t.to_string()).collect(),
            head: Head::default(),
            mode: Mode::Start,
            events: Parser::new(),
            body: Vec::new(),
            scan: Scan::default(),
            content: Content::default(),
            reasoning: Joiner::default(),
            field: None,
            field_has_text: false,
            calls: Calls::default(),
            message: Vec::new(),
            end: None,
            done: false,
            chosen: false,
            usage: None,
            failure: None,
        }
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
            let start = start.to_vec();
            self.body.clear();
            return self.route(&start, on);
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
                    self.failure = Some(fault(Class::Fatal, "the reply is too large to keep"));
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
                    self.failure = Some(fault(Class::Fatal, "the reply is too large to keep"));
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
    pub fn finish(mut self, transport: Result<(), transport::Error>) -> Result<Reply, Failure> {
        if self.mode == Mode::Stream && !self.done && self.failure.is_none() {
            let mut events = std::mem::take(&mut self.events);
            events.flush(&mut |event| self.event(event, &mut |_| ()));
            // Half an event is the transport's failure, when it had one.
            if transport.is_err() && !self.finished() && self.failure_is_syntax() {
                self.failure = None;
            }
        }
        if let Err(e) = &transport
            && (e.cancelled
                || self.failure.is_none() && !self.finished() && self.mode != Mode::Refused)
        {
            return Err(failure::from_transport(e));
        }
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let cut = |what| Err(fault(Class::Transient, what));
        match self.mode {
            Mode::Refused => return Err(failure::classify(&self.head, &self.body)),
            Mode::Html => return Err(failure::from_page(self.head.status, &self.body)),
            Mode::Gzip => {
                let what = "the reply is compressed (gzip) although that was not asked for";
                return Err(fault(Class::Fatal, what));
            }
            Mode::Start => return cut("the reply is empty"),
            Mode::Document if !self.done => return cut("the reply ended inside its JSON"),
            Mode::Stream if !self.finished() => {
                if self.chosen {
                    return cut("the stream ended before the reply did");
                }
                let mut what = b"the reply is no chat completion: ".to_vec();
                failure::push_line(&mut what, &self.body);
                return Err(fault(Class::Transient, &String::from_utf8_lossy(&what)));
            }
            _ => {}
        }
        self.settle(&mut |_| ());
        self.reply()
    }

    fn failure_is_syntax(&self) -> bool {
        let syntax = |f: &Failure| f.class == Class::Transient && f.message.starts_with(NOT_JSON);
        self.failure.as_ref().is_some_and(syntax)
    }

    /// The parts are whole.
    fn reply(self) -> Result<Reply, Failure> {
        let finish = match self.end {
            Some(End::Failed(class, reason)) => {
                let what = ["the reply ended with finish_reason ", &reason].concat();
                return Err(fault(class, &what));
            }
            Some(End::Normal(finish)) => Some(finish),
            None => None,
        };
        let mut content = self.content;
        let mut calls = self.calls;
        match content.leak.take() {
            Some(Verdict::Calls(found)) if calls.is_empty() => {
                for (name, arguments) in found {
                    calls.push_found(name, Some(&arguments));
                }
            }
            Some(Verdict::Broken(Some(name))) if calls.is_empty() => {
                calls.push_found(name, None);
            }
            Some(Verdict::Broken(None)) if calls.is_empty() => {
                let what = "the server sent a tool call as plain text: its tool-call parser does not fit this model";
                return Err(fault(Class::Transient, what));
            }
            _ => {}
        }
        let stopped = match finish {
            Some(Finish::Length) => {
                Some("the reply hit its token limit, so the call may be cut; write less at once")
            }
            Some(Finish::ContentFilter) => {
                Some("the provider's filter stopped the reply, so the call may be cut")
            }
            _ => None,
        };
        let mut reasoning = self.reasoning;
        reasoning.flush();
        let mut reasoning = reasoning.out;
        if reasoning.is_empty() {
            reasoning = content.thought.trim_ascii().to_vec();
        }
        let calls = calls.finish(stopped, &self.tools);
        let finish = match finish {
            Some(limit @ (Finish::Length | Finish::ContentFilter)) => limit,
            _ if calls.is_empty() => Finish::Stop,
            _ => Finish::ToolCalls,
        };
        let empty = content.answer.is_empty() && reasoning.is_empty() && calls.is_empty();
        if !self.chosen || empty && self.end.is_none() && self.mode == Mode::Stream {
            return Err(fault(Class::Transient, "the reply holds no choices"));
        }
        Ok(Reply {
            content: content.answer,
            reasoning,
            reasoning_field: self.field,
            calls,
            finish,
            usage: self.usage,
        })
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
        let reasoned = !self.reasoning.out.is_empty();
        self.content.flush(reasoned, &self.tools, on);
    }

    /// Handles one event; false ends the stream.
    fn event(&mut self, event: Event, on: &mut dyn FnMut(Delta)) -> bool {
        if !event.error.is_empty() {
            self.failure = Some(failure::from_error_text(event.error));
            return false;
        }
        if event.name == b"error" && !event.data.is_empty() {
            self.failure = Some(failure::from_error_text(event.data));
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
                    let class = if e.what == "nested too deeply" {
                        Class::Fatal
                    } else {
                        Class::Transient
                    };
                    let mut what = NOT_JSON.as_bytes().to_vec();
                    what.extend_from_slice([" (", e.what, "): "].concat().as_bytes());
                    failure::push_line(&mut what, rest);
                    self.failure = Some(fault(class, &String::from_utf8_lossy(&what)));
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
                let what = format!("the reply is no valid JSON: {} at byte {}", e.what, e.at);
                let deep = e.what == "nested too deeply";
                self.failure = Some(fault(
                    if deep { Class::Fatal } else { Class::Transient },
                    &what,
                ));
            }
        }
    }

    /// Takes one chunk of a stream, or with `whole` the whole document. False: it is an error.
    fn chunk(&mut self, value: Value, whole: bool, on: &mut dyn FnMut(Delta)) -> bool {
        let (mut choices, mut inner, mut failed) = (None, None, value.kind() == Kind::Array);
        let (mut text, mut mark) = (false, false);
        for (key, v) in value.entries().filter(|(_, v)| !v.is_null()) {
            match key.raw() {
                b"error" => failed |= failure::is_error(v),
                b"object" | b"type" => failed |= v.text().is_some_and(|t| t.is("error")),
                b"choices" => choices = Some(v),
                b"usage" => count(&mut self.usage, v),
                b"data" | b"result" | b"response" if v.kind() == Kind::Object => inner = Some(v),
                b"x_groq" => {
                    if let Some(usage) = v.get("usage") {
                        count(&mut self.usage, usage);
                    }
                }
                b"detail" | b"errors" => (text, mark) = (true, true),
                b"message" | b"msg" => text |= v.kind() == Kind::Str,
                b"code" | b"status" | b"success" => mark = true,
                _ => {}
            }
        }
        if let (None, false, Some(inner)) = (choices, failed, inner)
            && (inner.get("choices").is_some() || inner.get("error").is_some())
        {
            return self.chunk(inner, whole, on);
        }
        if failed || choices.is_none() && text && (whole || mark) {
            self.failure = Some(failure::from_error_json(value, 0));
            return false;
        }
        for choice in choices.iter().flat_map(Value::items) {
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
        let (mut delta, mut message, mut text, mut finish) = (None, None, None, None);
        for (key, v) in choice.entries().filter(|(_, v)| !v.is_null()) {
            match key.raw() {
                b"error" if failure::is_error(v) => return false,
                b"delta" if v.kind() == Kind::Object => delta = Some(v),
                b"message" if v.kind() == Kind::Object => message = Some(v),
                b"text" => text = v.text(),
                b"usage" => count(&mut self.usage, v),
                b"finish_reason" if v.raw() != b"\"\"" => finish = Some(v),
                _ => {}
            }
        }
        let reasoned = !self.reasoning.out.is_empty();
        match (delta, message, text) {
            (Some(delta), ..) => self.delta(delta, false, finish.is_some(), on),
            (_, Some(message), _) if whole => self.delta(message, true, false, on),
            (_, Some(message), _) => self.message = message.raw().to_vec(),
            (.., Some(text)) => self.content.push(text, reasoned, on),
            _ => {}
        }
        if let Some(reason) = finish {
            self.ended(reason);
            self.settle_stream(whole, on);
        }
        true
    }

    /// At the finish reason nothing more is held back from the eye.
    fn settle_stream(&mut self, whole: bool, on: &mut dyn FnMut(Delta)) {
        if !whole {
            self.settle(on);
        }
    }

    fn ended(&mut self, reason: Value) {
        let end = End::read(reason);
        // Of two finish chunks the one that says more counts.
        if self.end.is_none() || !end.is_plain() {
            self.end = Some(end);
        }
    }

    /// Takes a delta, or with `whole` a message.
    fn delta(&mut self, delta: Value, whole: bool, ending: bool, on: &mut dyn FnMut(Delta)) {
        let (mut content, mut refusal, mut details) = (None, None, None);
        let (mut thoughts, mut calls, mut function) = ([None, None], None, None);
        for (key, v) in delta.entries().filter(|(_, v)| !v.is_null()) {
            match key.raw() {
                b"content" => content = Some(v),
                b"refusal" => refusal = v.text(),
                b"reasoning_content" => thoughts[0] = v.text(),
                b"reasoning" => thoughts[1] = v.text(),
                b"reasoning_details" => details = Some(v),
                b"tool_calls" => calls = Some(v),
                b"function_call" => function = Some(v),
                _ => {}
            }
        }
        let mut thought = None;
        for (text, field) in thoughts.into_iter().zip(["reasoning_content", "reasoning"]) {
            let Some(text) = text else { continue };
            let has_text = !text.raw().is_empty();
            // The field that brings the text is the one to send back; an empty one counts until then.
            if self.field.is_none() || has_text && !self.field_has_text {
                self.field = Some(field);
                self.field_has_text = has_text;
            }
            if has_text && thought.is_none() {
                thought = Some(text);
            }
        }
        if let Some(text) = thought {
            self.reason(|r| r.push(text), on);
        } else if !self.field_has_text {
            for item in details.iter().flat_map(Value::items) {
                if let Some(text) = item.get("text").or_else(|| item.get("summary")) {
                    self.reason(|r| text.text().into_iter().for_each(|t| r.push(t)), on);
                }
            }
        }
        if let Some(content) = content {
            match content.text() {
                // Aggregators put the thinking into both; others repeat the whole answer at the end.
                Some(text)
                    if thought.is_some_and(|t| !t.raw().is_empty() && t.raw() == text.raw()) => {}
                Some(text) if ending && self.content.repeats(text) => {}
                Some(text) => self.content.push(text, self.reasoned(), on),
                None if content.kind() == Kind::Object => self.part(content, on),
                None => content.items().for_each(|part| self.part(part, on)),
            }
        }
        if let Some(text) = refusal {
            self.content.push(text, self.reasoned(), on);
        }
        match calls.or(function) {
            Some(list) if list.kind() == Kind::Array => {
                for call in list.items().filter(|c| c.kind() == Kind::Object) {
                    self.calls.push(call, whole, &self.tools);
                }
            }
            Some(call) if call.kind() == Kind::Object => self.calls.push(call, whole, &self.tools),
            _ => {}
        }
    }

    fn reasoned(&self) -> bool {
        !self.reasoning.out.is_empty()
    }

    /// A part of content that came as a list.
    fn part(&mut self, part: Value, on: &mut dyn FnMut(Delta)) {
        if let Some(text) = part.text() {
            return self.content.push(text, self.reasoned(), on);
        }
        let kind = part.get_string("type").unwrap_or_default();
        match kind.as_str() {
            "" | "text" | "output_text" => {
                if let Some(text) = part.get("text").and_then(|v| v.text()) {
                    self.content.push(text, self.reasoned(), on);
                }
            }
            "thinking" | "reasoning" => {
                let inner = part.get("thinking").or_else(|| part.get("text"));
                let Some(inner) = inner else { return };
                let own = inner.text();
                let texts = inner
                    .items()
                    .filter_map(|i| i.text().or_else(|| i.get("text")?.text()));
                for text in own.into_iter().chain(texts) {
                    self.reason(|r| r.push(text), on);
                }
            }
            _ => {}
        }
    }

    fn reason(&mut self, push: impl FnOnce(&mut Joiner), on: &mut dyn FnMut(Delta)) {
        let before = self.reasoning.out.len();
        push(&mut self.reasoning);
        if let Some(new @ [_, ..]) = self.reasoning.out.get(before..) {
            on(Delta::Reasoning(new));
        }
    }
}

const NOT_JSON: &str = "the server sent an event that is not JSON";

/// A failure of the body that only we noticed.
fn fault(class: Class, what: &str) -> Failure {
    Failure {
        class,
        stage: Stage::Body,
        status: 0,
        message: what.to_string(),
        retry_after: None,
        adapt: None,
    }
}
