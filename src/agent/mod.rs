//! The agent: the turn loop and what surrounds it.

pub mod compact;
pub mod context;
pub mod event;
pub mod loopdetect;
pub mod mode;
mod turn;

use crate::config::Config;
use crate::json::Writer;
use crate::provider::client::Client;
use crate::session::Session;
use crate::tools::seen::Seen;
use crate::tools::{Level, Tool};
use mode::Mode;

/// What an agent is made of.
pub struct Setup {
    /// The merged configuration.
    pub config: Config,
    /// The provider.
    pub client: Client,
    /// The conversation.
    pub session: Session,
    /// The working directory, absolute.
    pub cwd: Vec<u8>,
    /// cluade's home, for instructions.
    pub home: Option<Vec<u8>>,
    /// The user's home directory, for the danger gate.
    pub user_home: Vec<u8>,
    /// Where temporary files go.
    pub scratch: Vec<u8>,
    /// The mode.
    pub mode: Mode,
    /// `-y`
    pub yes: bool,
    /// Nobody answers questions.
    pub unattended: bool,
    /// `--tools`: only these; empty is all.
    pub only_tools: Vec<String>,
    /// `--deny`: not these.
    pub denied_tools: Vec<String>,
    /// `--show-tools-json`
    pub show_tools: bool,
}

/// An agent with its conversation.
pub struct Agent {
    /// The configuration; a front end may change the model.
    pub config: Config,
    /// The provider.
    pub client: Client,
    /// The conversation.
    pub session: Session,
    /// The working directory.
    pub cwd: Vec<u8>,
    home: Option<Vec<u8>>,
    user_home: Vec<u8>,
    scratch: Vec<u8>,
    mode: Mode,
    yes: bool,
    unattended: bool,
    only_tools: Vec<String>,
    denied_tools: Vec<String>,
    rules: Vec<(String, Level)>,
    danger_patterns: Vec<crate::tools::regex::Regex>,
    seen: Seen,
    /// The system message as JSON text.
    system: Vec<u8>,
    /// The schemas of the tools offered, a JSON array.
    schemas: Vec<u8>,
    last_prompt: Vec<u8>,
    /// Tokens the server counted up to `counted_bytes` of the conversation; 0 when it has not yet.
    counted: u64,
    counted_bytes: usize,
    /// The model was told to compact.
    nudged: bool,
    show_tools: bool,
}

impl Agent {
    /// An agent that [`Agent::prepare`] makes ready. Inlined, so that it is built where it stays.
    #[inline(always)]
    pub fn new(setup: Setup) -> Agent {
        Agent {
            rules: Vec::new(),
            config: setup.config,
            client: setup.client,
            session: setup.session,
            cwd: setup.cwd,
            home: setup.home,
            user_home: setup.user_home,
            scratch: setup.scratch,
            mode: setup.mode,
            yes: setup.yes,
            unattended: setup.unattended,
            only_tools: setup.only_tools,
            denied_tools: setup.denied_tools,
            danger_patterns: Vec::new(),
            seen: Seen::default(),
            system: Vec::new(),
            schemas: Vec::new(),
            last_prompt: Vec::new(),
            counted: 0,
            counted_bytes: 0,
            nudged: false,
            show_tools: setup.show_tools,
        }
    }

    /// Makes it ready for its first turn. Returns what the user should know.
    ///
    /// # Errors
    /// A phrase for a configuration that can't be used: a danger pattern that does not compile.
    pub fn prepare(&mut self) -> Result<Vec<String>, String> {
        for pattern in &self.config.danger_patterns {
            match crate::tools::regex::Regex::new(pattern, false) {
                Ok(regex) => self.danger_patterns.push(regex),
                Err(e) => return Err(crate::text::said("danger_patterns: %: %", &[pattern, &e])),
            }
        }
        self.rules = std::mem::take(&mut self.config.permissions);
        Ok(self.assemble())
    }

    /// The mode in force.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Changes the mode; tools and system message follow.
    pub fn set_mode(&mut self, mode: Mode) -> Vec<String> {
        self.mode = mode;
        self.assemble()
    }

    /// Changes the model; a short name of the configuration is resolved.
    pub fn set_model(&mut self, name: &str) {
        self.config.model = self.config.resolve_model(name);
        self.client.set_model(&self.config.model);
    }

    /// Goes on with another conversation.
    pub fn set_session(&mut self, session: Session) {
        self.session = session;
        self.seen = Seen::default();
        self.counted = 0;
        self.nudged = false;
    }

    /// Builds the system message and the schemas.
    fn assemble(&mut self) -> Vec<String> {
        let mut system = context::system(&self.cwd, self.home.as_deref());
        system.text.extend_from_slice(self.mode.text().as_bytes());
        self.system.clear();
        crate::session::message::system(&mut self.system, &system.text);
        self.schemas = schemas(self.offered());
        system.warnings
    }
}

/// The schemas of `tools` as the JSON array a request holds.
pub fn schemas<'a>(tools: impl Iterator<Item = &'a Tool>) -> Vec<u8> {
    let mut w = Writer::new();
    w.open(b'[');
    for tool in tools {
        w.open(b'{')
            .key("type")
            .str("function")
            .key("function")
            .open(b'{');
        w.key("name")
            .str(tool.name)
            .key("description")
            .str(tool.description);
        w.key("parameters").open(b'{').key("type").str("object");
        w.key("properties").raw(tool.properties.as_bytes());
        w.key("required").open(b'[');
        for name in tool.required {
            w.str(name);
        }
        w.close(b']').close(b'}').close(b'}').close(b'}');
    }
    w.close(b']');
    w.out
}
