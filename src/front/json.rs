//! `--json`: one event a line on standard output.

use super::ask::ask;
use super::input::Input;
use crate::agent::event::{Decision, Event, Front, Question};
use crate::json::Writer;
use crate::provider::{Class, Stage};
use crate::sys::out;
use crate::sys::process::{NoWatch, Watch};

/// The JSON front end.
pub struct Json {
    input: Input,
    watch: NoWatch,
    /// Nobody reads standard output any more.
    pub closed: bool,
}

impl Json {
    /// A front end that asks on `input`.
    pub fn new(input: Input) -> Self {
        Json {
            input,
            watch: NoWatch,
            closed: false,
        }
    }
}

/// The class as events name it.
fn class_name(class: Class) -> &'static str {
    match class {
        Class::Auth => "auth",
        Class::Billing => "billing",
        Class::RateLimit => "rate_limit",
        Class::Context => "context",
        Class::Transient => "transient",
        Class::Unsupported => "unsupported",
        Class::Cancelled => "cancelled",
        Class::Fatal => "fatal",
    }
}

/// The stage as events name it.
fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Setup => "setup",
        Stage::Lookup => "lookup",
        Stage::Connect => "connect",
        Stage::Tls => "tls",
        Stage::FirstByte => "first_byte",
        Stage::Status => "status",
        Stage::Body => "body",
    }
}

/// Seconds with three places.
fn seconds(w: &mut Writer, ms: u64) {
    let mut text = Vec::new();
    crate::text::push_dec(&mut text, ms / 1000);
    text.push(b'.');
    for digit in [ms / 100 % 10, ms / 10 % 10, ms % 10] {
        text.push(b'0' + digit as u8);
    }
    w.key("seconds").raw(&text);
}

/// Writes one event as an object; `exit` is the status a `done` event carries.
fn write(w: &mut Writer, event: &Event) {
    let mut begin = |name: &str| {
        w.open(b'{').key("type").str(name);
    };
    match event {
        Event::Session { id, model, cwd } => {
            begin("session");
            w.key("id")
                .str(id)
                .key("model")
                .str(model)
                .key("cwd")
                .str(cwd);
        }
        Event::Step(n) => {
            begin("step");
            w.key("n").num(u64::from(*n));
        }
        Event::Reasoning(text) => {
            begin("reasoning");
            w.key("text").str(text);
        }
        Event::Chunk(text) => {
            begin("chunk");
            w.key("text").str(text);
        }
        Event::Restart => begin("restart"),
        Event::ToolCall {
            id,
            name,
            arguments,
        } => {
            begin("tool_call");
            w.key("id").str(id).key("name").str(name).key("arguments");
            match crate::json::parse(arguments) {
                Ok(value) => w.raw(value.raw()),
                Err(_) => w.str(arguments),
            };
        }
        Event::Approval {
            id,
            reason,
            decision,
        } => {
            begin("approval");
            w.key("id")
                .str(id)
                .key("reason")
                .str(reason)
                .key("decision")
                .str(decision);
        }
        Event::ToolResult {
            id,
            name,
            ok,
            output,
            ms,
        } => {
            begin("tool_result");
            w.key("id")
                .str(id)
                .key("name")
                .str(name)
                .key("ok")
                .bool(*ok)
                .key("output")
                .str(output);
            seconds(w, *ms);
        }
        Event::Compaction { before, after } => {
            begin("compaction");
            w.key("before").num(*before).key("after").num(*after);
        }
        Event::RoundInfo(usage) => {
            begin("round_info");
            w.key("prompt_tokens")
                .num(usage.prompt)
                .key("completion_tokens")
                .num(usage.completion);
            w.key("cached_tokens").num(usage.cached);
        }
        Event::Debug(_) => return,
        Event::Warning(text) => {
            begin("warning");
            w.key("text").str(text);
        }
        Event::Error {
            class,
            stage,
            message,
        } => {
            begin("error");
            w.key("class")
                .str(class_name(*class))
                .key("stage")
                .str(stage_name(*stage));
            w.key("message").str(message);
        }
        Event::Done(done) => {
            begin("done");
            w.key("answer")
                .str(&done.answer)
                .key("exit")
                .num(done.ending.exit_status() as u64);
            w.key("steps")
                .num(u64::from(done.steps))
                .key("total_tokens")
                .num(done.total_tokens);
            w.key("context_tokens").num(done.context_tokens);
            seconds(w, done.ms);
        }
    }
    w.close(b'}');
    w.out.push(b'\n');
}

impl Front for Json {
    fn event(&mut self, event: &Event) {
        if self.closed {
            return;
        }
        if let Event::Debug(text) = event {
            return super::quiet::debug(text);
        }
        let mut w = Writer::new();
        write(&mut w, event);
        if let Err(e) = out::write_all(out::STDOUT, &w.out) {
            self.closed = true;
            super::human::output_failed(&e);
        }
    }

    fn approve(&mut self, question: &Question) -> Decision {
        ask(question, &mut self.input, false)
    }

    fn watch(&mut self) -> &mut dyn Watch {
        &mut self.watch
    }
}
