//! The tools: one table from which everything about them is derived (what a mode offers, permissions, checkpoints,
//! the schemas sent, the README's table). A tool is a function of a [`Ctx`] and its arguments.

pub mod bash;
pub mod bigedit;
pub mod compact;
pub mod edit;
pub mod editcall;
pub mod found;
pub mod glob;
pub mod globset;
pub mod grep;
pub mod indent;
pub mod nearlines;
pub mod output;
pub mod read;
pub mod regex;
#[cfg(test)]
pub(crate) mod scene;
pub mod seen;
pub mod target;
pub mod textmatch;
pub mod walk;
pub mod window;
pub mod write;

use crate::json::Value;
use crate::sys::process::Watch;

/// What running a tool may do to the world; decides modes, approvals and what may run side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Changes nothing.
    ReadOnly,
    /// Changes the file its path argument names, and nothing else.
    WritesPath,
    /// Anything; one at a time.
    Serial,
}

/// What a permission says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Run it.
    Allow,
    /// Ask the user.
    Ask,
    /// Refuse.
    Deny,
}

/// What a tool gets besides its arguments.
pub struct Ctx<'a> {
    /// The working directory: relative paths start here.
    pub cwd: &'a [u8],
    /// Results for the model are cut to this many bytes, head and tail kept.
    pub output_limit: usize,
    /// Where whole outputs and temporary files go (tmpfs on a router). Made on first use, see [`output::spill`].
    pub scratch: &'a [u8],
    /// Default time limit of bash, in seconds.
    pub bash_timeout: u64,
    /// Which files the model has seen in which state.
    pub seen: &'a mut seen::Seen,
    /// Names of environment variables no child may get (the API key's).
    pub env_remove: &'a [&'a [u8]],
    /// What else goes on while a child runs.
    pub watch: &'a mut dyn Watch,
}

/// A tool's result for the model. Errors start with `error: `.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// Whether the tool did what it was asked. A command that exits with another code than 0 is not ok.
    pub ok: bool,
    /// Text for the model, at most about [`Ctx::output_limit`] bytes.
    pub text: Vec<u8>,
}

impl Output {
    /// A success.
    pub fn ok(text: impl Into<Vec<u8>>) -> Self {
        Output {
            ok: true,
            text: text.into(),
        }
    }

    /// A failure; `error: ` is put in front.
    pub fn error(text: impl AsRef<[u8]>) -> Self {
        Output {
            ok: false,
            text: [b"error: ", text.as_ref()].concat(),
        }
    }
}

/// The function behind a tool. `args` is an object whose required members are there.
pub type Run = fn(ctx: &mut Ctx, args: &Value) -> Output;

/// One tool.
pub struct Tool {
    /// Its name on the wire.
    pub name: &'static str,
    /// One sentence for the model.
    pub description: &'static str,
    /// The `properties` object of its schema, as JSON.
    pub properties: &'static str,
    /// Names of the required parameters.
    pub required: &'static [&'static str],
    /// What it may do.
    pub class: Class,
    /// Permission unless configured.
    pub level: Level,
    /// The parameter that names the file it writes, for checkpoints and approvals.
    pub writes: Option<&'static str>,
    /// The parameter shown in labels.
    pub label: &'static str,
    /// The function; `None` for tools the agent itself carries out (compact).
    pub run: Option<Run>,
}

/// The table, in the order the model sees.
pub static TOOLS: [&Tool; 7] = [
    &read::TOOL,
    &write::TOOL,
    &edit::TOOL,
    &bash::TOOL,
    &glob::TOOL,
    &grep::TOOL,
    &compact::TOOL,
];

/// The tool of that name.
pub fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().copied().find(|t| t.name == name)
}
