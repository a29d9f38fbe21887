//! From the command line to an exit status.

use super::human::Human;
use super::input::{Input, Line};
use super::json::Json;
use super::oneshot::{self, Delivery, View};
use super::prompt::{Stdin, Stopped, attach, read_file, read_stdin, stdin_kind};
use super::quiet::{Quiet, note};
use super::repl;
use crate::agent::mode::Mode;
use crate::agent::{Agent, Setup};
use crate::cli::{self, Args, Command, Opt, Reserved};
use crate::config::{self, Loaded};
use crate::provider::client::Client;
use crate::provider::transport::Transport;
use crate::session::{Session, Store};
use crate::sys::{fs, out, signal, tty};
use crate::text::{filled, push_dec, push_visible, whole};
use crate::tools::TOOLS;
use crate::tools::output::Collector;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// A run that can't go on: the exit status. What there is to say has been said.
struct Exit(i32);

/// A usage or configuration error: says `template` with its `parts`, see [`filled`].
#[inline(never)]
fn usage(template: &str, parts: &[&[u8]]) -> Exit {
    note("", filled(template, parts).trim_ascii_end());
    Exit(2)
}

/// The same for a text made elsewhere.
fn usage_text(text: Vec<u8>) -> Exit {
    usage("%", &[&text])
}

#[inline(never)]
fn usage_string(text: String) -> Exit {
    usage_text(text.into_bytes())
}

/// Any other failure.
#[inline(never)]
fn failed(what: &str, text: &str) -> Exit {
    usage("%%", &[what.as_bytes(), text.as_bytes()]);
    Exit(1)
}

/// Runs the program on the arguments behind its name. Returns the exit status.
pub fn run(argv: Vec<OsString>) -> i32 {
    let result = match cli::parse(argv) {
        Ok(mut args) => start(&mut args),
        Err(text) => Err(usage_text(text)),
    };
    match result {
        Ok(status) | Err(Exit(status)) => status,
    }
}

/// Prints text the program itself made. A closed output is a quiet end.
fn print(text: &[u8]) -> Result<i32, Exit> {
    match out::write_all(out::STDOUT, text) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(failed("standard output: ", &fs::os_text(&e)))
        }
        _ => Ok(0),
    }
}

fn warn(warnings: &[impl AsRef<[u8]>]) {
    for warning in warnings {
        note("warning: ", warning.as_ref());
    }
}

/// What a run has from its start.
struct Run<'a> {
    args: &'a mut Args,
    cwd: Vec<u8>,
    scratch: Vec<u8>,
    loaded: Loaded,
}

fn start(args: &mut Args) -> Result<i32, Exit> {
    match args.command {
        Command::Task(Opt::Help) => return print(&cli::help::help()),
        Command::Task(Opt::Version) => return print(&cli::help::version()),
        _ => {}
    }
    if let Some(seconds) = args.number(Opt::Timeout) {
        signal::set_time_limit(seconds);
    }
    let cwd =
        std::env::current_dir().map_err(|e| failed("the working directory: ", &fs::os_text(&e)))?;
    let mut run = Run {
        args,
        cwd: cwd.into_os_string().into_vec(),
        scratch: scratch(),
        loaded: Loaded::default(),
    };
    run.load()?;
    warn(&run.loaded.warnings);
    let dir = &run.loaded.config.session_dir[..];
    let dir = Some(dir).filter(|d| !d.is_empty());
    let mut store = Store::new(run.loaded.home.as_deref(), dir, &run.scratch);
    match &run.args.command {
        Command::Reserved(r) => reserved(r, &store),
        Command::Task(task) => run.task(*task, &store),
        Command::Prompt(_) => run.converse(&mut store),
    }
}

impl Run<'_> {
    fn load(&mut self) -> Result<(), Exit> {
        config::load(self.args, &self.cwd, &fs::env, &mut self.loaded).map_err(usage_text)
    }

    fn task(&self, task: Opt, store: &Store) -> Result<i32, Exit> {
        match task {
            Opt::Init => {
                let Some(home) = &self.loaded.home else {
                    let text = "no home directory: set HOME or CLUADE_HOME";
                    return Err(usage(text, &[]));
                };
                let path = config::init(home).map_err(|e| {
                    usage_text(e);
                    Exit(1)
                })?;
                print(&filled("wrote %\n", &[&path]))
            }
            Opt::ListModels => {
                let mut listener = super::quiet::Listener::default();
                let models = self.client()?.list_models(&mut listener);
                let mut text = Vec::new();
                for model in models.map_err(|f| failed("", &f.message))? {
                    text.extend_from_slice(model.as_bytes());
                    text.push(b'\n');
                }
                print(&text)
            }
            Opt::PruneSessions => prune(
                store,
                self.args.number(Opt::PruneSessions).unwrap_or(u32::MAX),
            ),
            _ => list_sessions(store),
        }
    }

    /// A prompt, or a conversation.
    fn converse(mut self, store: &mut Store) -> Result<i32, Exit> {
        let has = |option| self.args.has(option);
        let stdin = stdin_kind();
        let terminal = stdin == Stdin::Tty;
        let is_repl = matches!(self.args.command, Command::Prompt(None))
            && !has(Opt::File)
            && !self.args.prompt_from_stdin
            && (has(Opt::Repl) || terminal && !has(Opt::Quiet) && !has(Opt::Json));
        let mut input = Input::default();
        if is_repl && terminal && agree_to_project(&self.loaded, &mut input) {
            self.args.set(Opt::Trust);
            self.loaded = Loaded::default();
            self.load()?;
        }
        let args = &*self.args;
        if !args.has(Opt::Replay)
            && let Some(text) =
                config::missing_key(&self.loaded.config, self.loaded.home.as_deref())
        {
            return Err(usage_text(text));
        }
        if let Some(path) = args.bytes(Opt::Output) {
            check_output(path)?;
        }
        let mut prompt = Vec::new();
        if !is_repl {
            self.prompt(stdin, &mut prompt)?;
        }
        let session = self.session(store)?;
        let mode = mode(args)?;
        let only_tools = tools(args, Opt::Tools)?;
        let denied_tools = tools(args, Opt::Deny)?;
        let attended = is_repl || terminal && tty::is_tty(out::STDERR);
        let color = self.loaded.config.color && tty::is_tty(out::STDOUT);
        let mut agent = Agent::new(Setup {
            client: self.client()?,
            session,
            user_home: user_home(self.loaded.home.as_deref()),
            home: self.loaded.home,
            cwd: self.cwd,
            scratch: self.scratch,
            mode,
            yes: args.has(Opt::Yes),
            unattended: args.has(Opt::Subagent) || !attended,
            only_tools,
            denied_tools,
            show_tools: args.has(Opt::ShowToolsJson),
            config: self.loaded.config,
        });
        warn(&agent.prepare().map_err(usage_string)?);
        if is_repl {
            if !terminal {
                let text =
                    "standard input is no terminal: lines are read as they are, without editing";
                note("", text.as_bytes());
            }
            let view = human(input, &agent, color);
            return Ok(repl::run(
                &mut agent,
                store,
                view,
                !args.has(Opt::NoSession),
            ));
        }
        let extract = args.has(Opt::Extract);
        let view = if args.has(Opt::Json) {
            View::Json(Json::new(input))
        } else if args.has(Opt::Quiet) || extract {
            View::Quiet(Quiet::new(input))
        } else {
            View::Human(human(input, &agent, color))
        };
        let delivery = Delivery {
            extract,
            output: args.bytes(Opt::Output),
        };
        Ok(oneshot::run(&mut agent, &prompt, view, &delivery))
    }

    fn client(&self) -> Result<Client, Exit> {
        let mut client =
            Client::new(&self.loaded.config, self.loaded.home.as_deref()).map_err(usage_string)?;
        let mut transport = match self.args.bytes(Opt::Replay) {
            Some(path) => Transport::replay(fs::path(path)),
            None => Ok(Transport::live()),
        };
        if let (Ok(_), Some(path)) = (&transport, self.args.bytes(Opt::Record)) {
            transport = transport.and_then(|t| t.record(fs::path(path)));
        }
        let mut transport = transport.map_err(|e| usage_string(e.message))?;
        transport.echo = self.args.has(Opt::ShowToolsJson);
        client.set_transport(transport);
        Ok(client)
    }

    fn session(&self, store: &Store) -> Result<Session, Exit> {
        let cwd = &self.cwd[..];
        let unsaved = self.args.has(Opt::NoSession);
        let opened = match self.args.text(Opt::Resume) {
            Some(id) => store.open(id),
            None if self.args.has(Opt::Continue) => store.last(),
            None if unsaved => return Ok(Session::ephemeral(cwd)),
            None => Ok(store.create(cwd)),
        };
        let (mut session, warnings) = opened.map_err(|e| failed("", &e.text()))?;
        warn(&warnings);
        if session.cwd != cwd {
            let parts = [&session.cwd[..], cwd];
            let text = filled("this session was in %; it goes on in %", &parts);
            note("warning: ", &text);
        }
        if unsaved {
            // The same conversation, and nothing of this run is kept.
            let mut copy = Session::ephemeral(cwd);
            session.conversation.iter().for_each(|m| copy.push(m));
            copy.set_context_from(session.context_from());
            session = copy;
        }
        Ok(session)
    }

    /// The prompt with everything attached to it.
    fn prompt(&self, stdin: Stdin, prompt: &mut Vec<u8>) -> Result<(), Exit> {
        const STDIN: &[u8] = b"standard input";
        let args = &*self.args;
        let mut dash = false;
        match &args.command {
            Command::Prompt(Some(words)) => prompt.extend_from_slice(words.trim_ascii()),
            _ if args.has(Opt::File) => {}
            _ if stdin == Stdin::Nothing && !args.prompt_from_stdin => {
                return Err(usage(
                    "no prompt: give one as an argument or on standard input (cluade --help)",
                    &[],
                ));
            }
            _ => {
                *prompt = self.stdin(stdin)?;
                if prompt.trim_ascii().is_empty() {
                    return Err(usage("the prompt on standard input is empty", &[]));
                }
                return Ok(());
            }
        }
        for file in args.each(Opt::File) {
            if file == b"-" {
                attach(prompt, STDIN, &self.stdin(stdin)?);
                dash = true;
                continue;
            }
            let mut keep = self.collector();
            read_file(file, &mut keep).map_err(usage_string)?;
            attach(prompt, file, &keep.finish());
        }
        if !dash && matches!(stdin, Stdin::File | Stdin::Pipe) {
            let text = self.stdin(stdin)?;
            if !text.is_empty() {
                attach(prompt, STDIN, &text);
            }
        }
        if prompt.is_empty() {
            return Err(usage("the prompt is empty", &[]));
        }
        Ok(())
    }

    /// An attachment may take half of the window; the whole of a longer one is in a file the model is told of.
    fn collector(&self) -> Collector {
        let room = (self.loaded.config.context_limit as usize).saturating_mul(7) / 4;
        Collector::new(room, &self.scratch)
    }

    fn stdin(&self, kind: Stdin) -> Result<Vec<u8>, Exit> {
        let mut keep = self.collector();
        match read_stdin(kind, self.loaded.config.stdin_wait, &mut keep) {
            Ok(()) => Ok(keep.finish()),
            Err(Stopped::Failed(text)) => Err(failed("", &text)),
            Err(Stopped::Interrupted) => {
                let signal = signal::end_requested().unwrap_or(libc::SIGINT);
                Err(Exit(128 + signal))
            }
        }
    }
}

fn human(input: Input, agent: &Agent, color: bool) -> Human {
    let mut human = Human::new(input, color);
    human.model.clone_from(&agent.config.model);
    human.context_limit = agent.config.context_limit;
    human.max_steps = agent.config.max_steps;
    human
}

fn mode(args: &Args) -> Result<Mode, Exit> {
    if args.has(Opt::Plan) {
        return Ok(Mode::Plan);
    }
    let Some(name) = args.text(Opt::Mode) else {
        return Ok(Mode::Code);
    };
    Mode::from_name(name).ok_or_else(|| no_such("mode", name, &mut Mode::names()))
}

/// The tools an option names.
fn tools(args: &Args, option: Opt) -> Result<Vec<String>, Exit> {
    let list = args.list(option);
    match list.iter().find(|name| crate::tools::find(name).is_none()) {
        Some(name) => Err(no_such("tool", name, &mut TOOLS.iter().map(|t| t.name))),
        None => Ok(list),
    }
}

fn no_such(what: &str, name: &str, names: &mut dyn Iterator<Item = &'static str>) -> Exit {
    let parts = [what.as_bytes(), name.as_bytes()];
    let mut text = filled("no % %; there are:", &parts);
    push_names(&mut text, names);
    usage_text(text)
}

/// Appends each with a blank in front.
fn push_names(text: &mut Vec<u8>, names: &mut dyn Iterator<Item = &'static str>) {
    for name in names {
        text.push(b' ');
        text.extend_from_slice(name.as_bytes());
    }
}

/// The directory for temporary files, ours alone: on a router it is in RAM.
fn scratch() -> Vec<u8> {
    let base = fs::env(b"TMPDIR").unwrap_or_else(|| b"/tmp".to_vec());
    let mut dir = fs::join(&base, b"cluade-");
    push_dec(&mut dir, u64::from(crate::sys::system::user_id()));
    dir
}

/// The user's home directory: the one ours is in, when the environment does not say.
fn user_home(home: Option<&[u8]>) -> Vec<u8> {
    fs::env(b"HOME")
        .unwrap_or_else(|| home.map_or_else(|| b"/root".to_vec(), |h| fs::parent(h).to_vec()))
}

/// Whether `-o` can be written is found out before the work, not after.
fn check_output(path: &[u8]) -> Result<(), Exit> {
    if fs::is_dir(path) {
        return Err(usage("-o % is a directory", &[path]));
    }
    let dir = fs::parent(path);
    if !fs::is_dir(dir) {
        return Err(usage("-o %: there is no directory %", &[path, dir]));
    }
    Ok(())
}

/// Asks once whether a project's `.cluade/` may count.
fn agree_to_project(loaded: &Loaded, input: &mut Input) -> bool {
    let Some(project) = &loaded.untrusted else {
        return false;
    };
    let mut text = Vec::new();
    push_visible(&mut text, &project.summary());
    text.extend_from_slice(b"\nUse it from now on? [y/N] ");
    out::stderr(&text);
    let answer = input.answer();
    signal::clear_interrupts();
    let Line::Text(line) = answer else {
        return false;
    };
    let line = line.trim_ascii();
    line.eq_ignore_ascii_case(b"y") || line.eq_ignore_ascii_case(b"yes")
}

fn prune(store: &Store, days: u32) -> Result<i32, Exit> {
    let pruned = store.prune(days).map_err(|e| failed("", e))?;
    let mut text = b"deleted ".to_vec();
    push_dec(&mut text, u64::from(pruned.deleted));
    text.extend_from_slice(b" sessions, ");
    push_dec(&mut text, pruned.bytes);
    text.extend_from_slice(b" bytes");
    if pruned.kept > 0 {
        text.extend_from_slice(b"; ");
        push_dec(&mut text, u64::from(pruned.kept));
        text.extend_from_slice(b" old ones are in use or could not be deleted");
    }
    text.push(b'\n');
    print(&text)
}

/// The list of sessions as lines.
pub fn session_lines(store: &Store) -> String {
    let mut text = Vec::new();
    store.list_text(&mut text);
    crate::text::lossy(&text)
}

fn list_sessions(store: &Store) -> Result<i32, Exit> {
    print(session_lines(store).as_bytes())
}

fn reserved(r: &Reserved, store: &Store) -> Result<i32, Exit> {
    match (r.word, r.verb) {
        ("sessions", "list") => list_sessions(store),
        ("sessions", "prune") => match r.rest.first().and_then(|d| whole(d)) {
            Some(days) => prune(store, days),
            None => Err(usage("sessions prune takes a number of days", &[])),
        },
        ("modes", _) => {
            let mut text = Vec::new();
            for name in Mode::names() {
                let mode = Mode::from_name(name).unwrap_or_default();
                let end = text.len() + 13;
                text.extend_from_slice(name.as_bytes());
                text.resize(end.max(text.len()), b' ');
                let tools = TOOLS.iter().filter(|t| mode.has(t));
                push_names(&mut text, &mut tools.map(|t| t.name));
                text.push(b'\n');
            }
            print(&text)
        }
        (word, verb) => {
            let mut what = word.as_bytes().to_vec();
            if !verb.is_empty() {
                push_names(&mut what, &mut std::iter::once(verb));
            }
            Err(usage(
                "'%' is reserved and not part of this version; as a prompt: cluade -- % ...",
                &[&what, &what],
            ))
        }
    }
}
