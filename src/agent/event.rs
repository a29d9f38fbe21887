//! The events a turn emits. They are the program's primary interface: the human view, `--quiet`, `--json` and the tests
//! consume them, nothing else prints.

use crate::provider::{Class, Stage, Usage};

/// Something that happened. Text comes from outside: a consumer that writes to a terminal makes it visible first.
pub enum Event<'a> {
    /// A session begins or is resumed.
    Session {
        /// Its id; empty when nothing is saved.
        id: &'a str,
        /// The model asked.
        model: &'a str,
        /// The working directory.
        cwd: &'a [u8],
    },
    /// A request is about to be sent; counts from 1 in each turn.
    Step(u32),
    /// A piece of thinking.
    Reasoning(&'a [u8]),
    /// A piece of answer text.
    Chunk(&'a [u8]),
    /// What was shown of this step is void: the request is made again.
    Restart,
    /// The model calls a tool.
    ToolCall {
        /// The call's id.
        id: &'a str,
        /// The tool's name.
        name: &'a str,
        /// JSON text as the model sent it.
        arguments: &'a [u8],
    },
    /// A question was asked or would have been.
    Approval {
        /// The call's id.
        id: &'a str,
        /// Why it was asked.
        reason: &'a str,
        /// `yes`, `no`, `always`, `stop` or `refused` (nobody there).
        decision: &'static str,
    },
    /// A tool has run.
    ToolResult {
        /// The call's id.
        id: &'a str,
        /// The tool's name.
        name: &'a str,
        /// Whether it did what it was asked.
        ok: bool,
        /// What the model gets.
        output: &'a [u8],
        /// How long it took, in ms.
        ms: u64,
    },
    /// The context was compacted.
    Compaction {
        /// Tokens before, estimated.
        before: u64,
        /// Tokens after, estimated.
        after: u64,
    },
    /// What the server counted for a step.
    RoundInfo(Usage),
    /// Something the user should know; the turn goes on.
    Warning(&'a str),
    /// What `--show-tools-json` shows: always for standard error.
    Debug(&'a [u8]),
    /// The turn failed.
    Error {
        /// The failure's class.
        class: Class,
        /// Where it failed.
        stage: Stage,
        /// One line.
        message: &'a str,
    },
    /// The turn is over.
    Done(&'a Done),
}

/// Why a turn ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The model was done.
    Finished,
    /// Finished, but a call was refused because nobody was there to approve it.
    Refused,
    /// The user said stop to a question.
    Stopped,
    /// Step limit.
    MaxSteps,
    /// Loop detector.
    Loop,
    /// `--timeout` passed.
    TimeLimit,
    /// Ctrl-C.
    Interrupted,
    /// SIGTERM or SIGHUP.
    Terminated(i32),
    /// The provider failed.
    Failed,
    /// The model said nothing.
    Empty,
}

impl Ending {
    /// The exit status of a run that ended so.
    pub fn exit_status(self) -> i32 {
        match self {
            Ending::Finished => 0,
            Ending::Failed | Ending::Empty => 1,
            Ending::MaxSteps | Ending::Loop | Ending::Stopped | Ending::TimeLimit => 3,
            Ending::Refused => 4,
            Ending::Interrupted => 130,
            Ending::Terminated(signal) => 128 + signal,
        }
    }
}

/// The sum of a turn.
pub struct Done {
    /// The final answer.
    pub answer: Vec<u8>,
    /// Why it ended.
    pub ending: Ending,
    /// Requests made.
    pub steps: u32,
    /// Tokens of the whole session so far.
    pub total_tokens: u64,
    /// Tokens in the context now.
    pub context_tokens: u64,
    /// Wall time in ms.
    pub ms: u64,
}

/// A question about one call.
pub struct Question<'a> {
    /// The call's id.
    pub id: &'a str,
    /// The tool.
    pub tool: &'a str,
    /// Why it is asked.
    pub reason: &'a str,
    /// What would run: the command, the path, or a diff.
    pub detail: &'a [u8],
}

/// The answer to a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Run it.
    Yes,
    /// Don't; the model is told to ask what to do instead.
    No,
    /// Run it and don't ask again for this tool in this session.
    Always,
    /// Don't, and end the turn.
    Stop,
    /// Nobody is there to answer.
    Unattended,
}

/// Whoever shows events and answers questions.
pub trait Front {
    /// Something happened.
    fn event(&mut self, event: &Event);
    /// May this call run?
    fn approve(&mut self, question: &Question) -> Decision;
    /// What else goes on while waiting.
    fn watch(&mut self) -> &mut dyn crate::sys::process::Watch;
}
