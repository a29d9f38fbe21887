//! The provider: a conversation in, a [`Reply`] or a [`Failure`] out, over whatever transport the URL and the device
//! allow. Nothing above this module knows which one ran or how the server spelled its answer.

mod adapt;
pub mod attempt;
mod calls;
pub mod client;
mod content;
mod ending;
pub mod endpoint;
pub mod failure;
pub mod keys;
mod leak;
pub mod memory;
pub mod messages;
pub mod models;
pub mod reply;
pub mod request;
mod said;
pub mod sse;
pub mod transport;
pub mod url;
mod wait;
mod words;

/// One tool call of a reply.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Call {
    /// Never empty and unique within the reply; made up when the server sent none.
    pub id: String,
    /// As the model wrote it; may name a tool that does not exist.
    pub name: String,
    /// The arguments as one JSON object's text, or the raw text when [`Call::fault`] is set.
    pub arguments: Vec<u8>,
    /// Why the arguments must not be run (cut, no JSON, two objects), as a phrase for the model.
    pub fault: Option<String>,
    /// Opaque members of the call (`extra_content`) as JSON object members without braces, to be replayed verbatim to
    /// the endpoint that sent them; empty when there were none.
    pub extra: Vec<u8>,
}

/// Tokens as the server counted them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Tokens of the request.
    pub prompt: u64,
    /// Tokens of the reply.
    pub completion: u64,
    /// Those of `prompt` that came from the server's cache.
    pub cached: u64,
}

/// Why a reply ended, normalised: a reply with calls ends with `ToolCalls` whatever the server said, except at a limit or
/// a filter, when none of its calls may run and each has a fault.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Finish {
    /// The model was done.
    #[default]
    Stop,
    /// It wants tools run.
    ToolCalls,
    /// It hit a token limit.
    Length,
    /// A filter of the provider stopped it.
    ContentFilter,
}

/// A complete reply.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The answer's text, valid UTF-8.
    pub content: Vec<u8>,
    /// The thinking text, valid UTF-8.
    pub reasoning: Vec<u8>,
    /// The field the thinking came in (`reasoning_content`, `reasoning`); `None` when no such field was seen. Present
    /// and empty is different from absent: some servers want the empty field back.
    pub reasoning_field: Option<&'static str>,
    /// Tool calls in order.
    pub calls: Vec<Call>,
    /// Why it ended.
    pub finish: Finish,
    /// Token counts, when the server gave any.
    pub usage: Option<Usage>,
}

/// A piece of a reply as it arrives, for the eyes only: the [`Reply`] at the end is what counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delta<'a> {
    /// Answer text: whole UTF-8 sequences.
    Text(&'a [u8]),
    /// Thinking text: whole UTF-8 sequences.
    Reasoning(&'a [u8]),
}

/// The typed class of a failure; it alone decides what happens next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// The key is missing or refused: stop.
    Auth,
    /// No money or a long quota: next key, else fallback, else stop.
    Billing,
    /// Too fast: wait as told.
    RateLimit,
    /// The prompt is too long: compact and try once more.
    Context,
    /// Worth another try.
    Transient,
    /// The server refuses a field we sent: adapt once.
    Unsupported,
    /// Ctrl-C or a signal.
    Cancelled,
    /// Nothing helps.
    Fatal,
}

/// Where it failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Before anything was sent: bad URL, no HTTPS client on the device.
    Setup,
    /// Name lookup.
    Lookup,
    /// TCP connect.
    Connect,
    /// TLS handshake or certificate.
    Tls,
    /// Waiting for the reply's first byte.
    FirstByte,
    /// The HTTP status.
    Status,
    /// The reply's body.
    Body,
}

/// What to change for the one adapted retry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Adapt {
    /// Leave this request field out.
    DropField(String),
    /// Send `max_completion_tokens` instead of `max_tokens`.
    RenameMaxTokens,
    /// Lower the token limit to this.
    MaxTokens(u64),
    /// Put this field on every assistant message (`reasoning_content`).
    AddMessageField(String),
    /// Strip this field from every message.
    StripMessageField(String),
    /// Send null instead of empty content.
    NullContent,
}

/// A failed attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What kind.
    pub class: Class,
    /// Where.
    pub stage: Stage,
    /// The HTTP status, 0 when there was none.
    pub status: u16,
    /// One line for the user: what the server or the transport said, without the key.
    pub message: String,
    /// How long the server asked us to wait, in ms.
    pub retry_after: Option<u64>,
    /// For [`Class::Unsupported`], and for others when a changed request may pass.
    pub adapt: Option<Adapt>,
}

/// Who watches a request: shows deltas, hears notices ("retrying in 4 s").
pub trait Observer {
    /// A piece arrived.
    fn delta(&mut self, delta: Delta);
    /// Something the user should know.
    fn notice(&mut self, text: &str);
    /// An attempt that had already shown text failed and is made again.
    fn restart(&mut self);
    /// What else goes on while waiting.
    fn watch(&mut self) -> &mut dyn crate::sys::process::Watch;
}
