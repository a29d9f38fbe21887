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
use crate::cli::{self, Args, Command, Reserved};
use crate::config::{self, Config, Loaded};
use crate::provider::client::Client;
use crate::provider::transport::Transport;
use crate::session::list::Pruned;
use crate::session::{Session, Store};
use crate::sys::{fs, out, signal, tty};
use crate::tools::output::Collector;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// A run that can't go on: what to say and the exit status.
struct Exit(i32, String);

/// A usage or configuration error.
fn usage(text: impl Into<String>) -> Exit {
    Exit(2, text.into())
}

fn failed(text: impl Into<String>) -> Exit {
    Exit(1, text.into())
}

/// Runs the program on the arguments behind its name. Returns the exit status.
pub fn run(argv: Vec<OsString>) -> i32 {
    let result = cli::parse(argv)
        .map_err(usage)
        .and_then(|args| start(&args));
    match result {
        Ok(status) => status,
        Err(Exit(status, text)) => {
            if !text.is_empty() {
                note("", text.trim_end().as_bytes());
            }
            status
        }
    }
}

/// Prints text the program itself made. A closed output is a quiet end.
fn print(text: &str) -> Result<i32, Exit> {
    match out::write_all(out::STDOUT, text.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(failed(format!("standard output: {e}")))
        }
        _ => Ok(0),
    }
}

fn start(args: &Args) -> Result<i32, Exit> {
    match &args.command {
        Command::Help => return print(&cli::help::help()),
        Command::Version => return print(&cli::help::version()),
        Command::HelpMarkdown => {
            return print(&[cli::markdown_table(), cli::markdown_words()].join("\n"));
        }
        _ => {}
    }
    if let Some(seconds) = args.timeout {
        signal::set_time_limit(u32::try_from(seconds).unwrap_or(u32::MAX));
    }
    let cwd = std::env::current_dir().map_err(|e| failed(format!("the working directory: {e}")))?;
    let cwd = cwd.into_os_string().into_vec();
    let mut loaded = config::load(args, &cwd, &fs::env).map_err(usage)?;
    for warning in &loaded.warnings {
        note("warning: ", warning.as_bytes());
    }
    let scratch = scratch();
    let mut store = Store::new(
        loaded.home.as_deref(),
        loaded.config.session_dir.as_deref(),
        &scratch,
    );
    match &args.command {
        Command::Init => {
            let home = loaded
                .home
                .as_deref()
                .ok_or_else(|| usage("no home directory: set HOME or CLUADE_HOME"))?;
            let path = config::init(home).map_err(failed)?;
            return print(&format!("wrote {}\n", String::from_utf8_lossy(&path)));
        }
        Command::ListSessions => return list_sessions(&store),
        Command::PruneSessions(days) => {
            let days = u32::try_from(*days).unwrap_or(u32::MAX);
            let pruned = store.prune(days).map_err(failed)?;
            return print(&pruned_text(&pruned));
        }
        Command::Reserved(r) => return reserved(r, &store),
        Command::ListModels => {
            let mut client = client(&loaded, args)?;
            let models = client.list_models(&mut super::quiet::Listener::default());
            let models = models.map_err(|f| failed(f.message))?;
            let text: String = models.iter().flat_map(|m| [m, "\n"]).collect();
            return print(&text);
        }
        _ => {}
    }
    let Command::Prompt(words) = &args.command else {
        return Ok(0);
    };
    let stdin = stdin_kind();
    let is_repl = words.is_none()
        && args.files.is_empty()
        && !args.prompt_from_stdin
        && (args.repl || stdin == Stdin::Tty && !args.quiet && !args.json);
    let color = loaded.config.color && !args.no_color && tty::is_tty(out::STDOUT);
    let mut input = Input::default();
    if is_repl && stdin == Stdin::Tty && agree_to_project(&loaded, &mut input) {
        let again = Args {
            trust: true,
            ..args.clone()
        };
        loaded = config::load(&again, &cwd, &fs::env).map_err(usage)?;
    }
    if args.replay.is_none()
        && let Some(text) = config::missing_key(&loaded.config, loaded.home.as_deref())
    {
        return Err(usage(text));
    }
    if let Some(path) = &args.output {
        check_output(path)?;
    }
    let prompt = if is_repl {
        Vec::new()
    } else {
        prompt(args, words.as_deref(), stdin, &loaded.config, &scratch)?
    };
    let (session, warnings) = session(args, &store, &cwd)?;
    for warning in warnings {
        note("warning: ", warning.as_bytes());
    }
    let mode = match (&args.mode, args.plan) {
        (_, true) => Mode::Plan,
        (Some(name), _) => Mode::from_name(name).ok_or_else(|| {
            usage(format!(
                "no mode {name}; there are: {}",
                Mode::names().collect::<Vec<_>>().join(" ")
            ))
        })?,
        (None, _) => Mode::Code,
    };
    for name in args.tools.iter().chain(&args.deny) {
        if crate::tools::find(name).is_none() {
            let names: Vec<&str> = crate::tools::TOOLS.iter().map(|t| t.name).collect();
            return Err(usage(format!(
                "no tool {name}; there are: {}",
                names.join(" ")
            )));
        }
    }
    let client = client(&loaded, args)?;
    let attended = is_repl || stdin == Stdin::Tty && tty::is_tty(out::STDERR);
    let (mut agent, warnings) = Agent::new(Setup {
        client,
        session,
        cwd,
        home: loaded.home.clone(),
        user_home: user_home(loaded.home.as_deref()),
        scratch,
        mode,
        yes: args.yes,
        unattended: args.subagent || !attended,
        only_tools: args.tools.clone(),
        denied_tools: args.deny.clone(),
        show_tools: args.show_tools_json,
        config: loaded.config,
    })
    .map_err(usage)?;
    for warning in warnings {
        note("warning: ", warning.as_bytes());
    }
    let human = |input: Input, agent: &Agent| {
        let mut human = Human::new(input, color);
        human.model.clone_from(&agent.config.model);
        human.context_limit = agent.config.context_limit;
        human.max_steps = agent.config.max_steps;
        human
    };
    if is_repl {
        if stdin != Stdin::Tty {
            note(
                "",
                b"standard input is no terminal: lines are read as they are, without editing",
            );
        }
        let view = human(input, &agent);
        return Ok(repl::run(&mut agent, &mut store, view, !args.no_session));
    }
    let view = if args.json {
        View::Json(Json::new(input))
    } else if args.quiet || args.extract {
        View::Quiet(Quiet::new(input))
    } else {
        View::Human(human(input, &agent))
    };
    let delivery = Delivery {
        extract: args.extract,
        output: args.output.as_deref(),
    };
    Ok(oneshot::run(&mut agent, &prompt, view, &delivery))
}

/// The directory for temporary files, ours alone: on a router it is in RAM.
fn scratch() -> Vec<u8> {
    let base = fs::env(b"TMPDIR").unwrap_or_else(|| b"/tmp".to_vec());
    let mut dir = fs::join(&base, b"cluade-");
    crate::text::push_dec(&mut dir, u64::from(crate::sys::system::user_id()));
    dir
}

/// The user's home directory: the one ours is in, when the environment does not say.
fn user_home(home: Option<&[u8]>) -> Vec<u8> {
    fs::env(b"HOME")
        .unwrap_or_else(|| home.map_or_else(|| b"/root".to_vec(), |h| fs::parent(h).to_vec()))
}

fn client(loaded: &Loaded, args: &Args) -> Result<Client, Exit> {
    let mut client = Client::new(&loaded.config, loaded.home.as_deref()).map_err(usage)?;
    let mut transport = match &args.replay {
        Some(path) => Transport::replay(fs::path(path)).map_err(|e| usage(e.message))?,
        None => Transport::live(),
    };
    if let Some(path) = &args.record {
        transport = transport
            .record(fs::path(path))
            .map_err(|e| usage(e.message))?;
    }
    client.set_transport(transport);
    Ok(client)
}

fn session(args: &Args, store: &Store, cwd: &[u8]) -> Result<(Session, Vec<String>), Exit> {
    if args.resume.is_none() && !args.resume_last {
        return Ok(if args.no_session {
            (Session::ephemeral(cwd), Vec::new())
        } else {
            store.create(cwd)
        });
    }
    let opened = match &args.resume {
        Some(id) => store.open(id),
        None => store.last(),
    };
    let (mut session, mut warnings) = opened.map_err(|e| failed(e.text()))?;
    if args.no_session {
        // The same conversation, and nothing of this run is kept.
        let mut copy = Session::ephemeral(cwd);
        session.conversation.iter().for_each(|m| copy.push(m));
        copy.set_context_from(session.context_from());
        session = copy;
    }
    if session.cwd != cwd {
        let was = String::from_utf8_lossy(&session.cwd).into_owned();
        warnings.push(format!(
            "this session was in {was}; it goes on in {}",
            String::from_utf8_lossy(cwd)
        ));
    }
    Ok((session, warnings))
}

/// The prompt with everything attached to it.
fn prompt(
    args: &Args,
    words: Option<&str>,
    stdin: Stdin,
    config: &Config,
    scratch: &[u8],
) -> Result<Vec<u8>, Exit> {
    // An attachment may take half of the window; the whole of a longer one is in a file the model is told of.
    let room = (config.context_limit as usize).saturating_mul(7) / 4;
    let from_stdin = |kind: Stdin| {
        let mut keep = Collector::new(room, scratch);
        match read_stdin(kind, config.stdin_wait, &mut keep) {
            Ok(()) => Ok(keep.finish()),
            Err(Stopped::Failed(text)) => Err(failed(text)),
            Err(Stopped::Interrupted) => Err(Exit(
                128 + signal::end_requested().unwrap_or(libc::SIGINT),
                String::new(),
            )),
        }
    };
    let dash = args.files.iter().any(|f| f == b"-");
    let mut prompt = words.unwrap_or_default().trim().as_bytes().to_vec();
    if words.is_none() && args.files.is_empty() {
        if stdin == Stdin::Nothing && !args.prompt_from_stdin {
            return Err(usage(
                "no prompt: give one as an argument or on standard input (cluade --help)",
            ));
        }
        prompt = from_stdin(stdin)?;
        if prompt.trim_ascii().is_empty() {
            return Err(usage("the prompt on standard input is empty"));
        }
        return Ok(prompt);
    }
    for file in &args.files {
        if file == b"-" {
            let text = from_stdin(stdin)?;
            attach(&mut prompt, b"standard input", &text);
            continue;
        }
        let mut keep = Collector::new(room, scratch);
        read_file(file, &mut keep).map_err(usage)?;
        attach(&mut prompt, file, &keep.finish());
    }
    if !dash && matches!(stdin, Stdin::File | Stdin::Pipe) {
        let text = from_stdin(stdin)?;
        if !text.is_empty() {
            attach(&mut prompt, b"standard input", &text);
        }
    }
    if prompt.is_empty() {
        return Err(usage("the prompt is empty"));
    }
    Ok(prompt)
}

/// Whether `-o` can be written is found out before the work, not after.
fn check_output(path: &[u8]) -> Result<(), Exit> {
    let shown = String::from_utf8_lossy(path);
    if fs::is_dir(path) {
        return Err(usage(format!("-o {shown} is a directory")));
    }
    let dir = fs::parent(path);
    if !fs::is_dir(dir) {
        return Err(usage(format!(
            "-o {shown}: there is no directory {}",
            String::from_utf8_lossy(dir)
        )));
    }
    Ok(())
}

/// Asks once whether a project's `.cluade/` may count.
fn agree_to_project(loaded: &Loaded, input: &mut Input) -> bool {
    let Some(project) = &loaded.untrusted else {
        return false;
    };
    let mut text = Vec::new();
    crate::text::push_visible(&mut text, project.summary().as_bytes());
    text.extend_from_slice(b"\nUse it from now on? [y/N] ");
    out::stderr(&text);
    let answer = input.answer();
    signal::clear_interrupts();
    matches!(answer, Line::Text(line) if line.trim_ascii().eq_ignore_ascii_case(b"y") || line.trim_ascii().eq_ignore_ascii_case(b"yes"))
}

fn pruned_text(pruned: &Pruned) -> String {
    let mut text = format!(
        "deleted {} sessions, {} bytes",
        pruned.deleted, pruned.bytes
    );
    if pruned.kept > 0 {
        text.push_str(&format!(
            "; {} old ones are in use or could not be deleted",
            pruned.kept
        ));
    }
    text.push('\n');
    text
}

/// The list of sessions as lines.
pub fn session_lines(store: &Store) -> String {
    let mut text = Vec::new();
    store.list_text(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn list_sessions(store: &Store) -> Result<i32, Exit> {
    print(&session_lines(store))
}

fn reserved(r: &Reserved, store: &Store) -> Result<i32, Exit> {
    match (r.word, r.verb) {
        ("sessions", "list") => list_sessions(store),
        ("sessions", "prune") => {
            let days = r
                .rest
                .first()
                .and_then(|d| std::str::from_utf8(d).ok())
                .and_then(|d| d.parse().ok());
            let days = days.ok_or_else(|| usage("sessions prune takes a number of days"))?;
            let pruned = store.prune(days).map_err(failed)?;
            print(&pruned_text(&pruned))
        }
        ("modes", _) => {
            let mut text = String::new();
            for name in Mode::names() {
                let mode = Mode::from_name(name).unwrap_or_default();
                let tools: Vec<&str> = crate::tools::TOOLS
                    .iter()
                    .filter(|t| mode.has(t))
                    .map(|t| t.name)
                    .collect();
                text.push_str(&format!("{name:<14}{}\n", tools.join(" ")));
            }
            print(&text)
        }
        (word, verb) => {
            let what = [word, verb].join(" ");
            let what = what.trim_end();
            Err(usage(format!(
                "'{what}' is reserved and not part of this version; as a prompt: cluade -- {what} ..."
            )))
        }
    }
}
