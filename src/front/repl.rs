//! The conversation at a prompt, on plain lines.

use super::human::Human;
use super::input::Line;
use crate::agent::event::Ending;
use crate::agent::mode::Mode;
use crate::agent::{Agent, event::Front};
use crate::session::Store;
use crate::sys::{signal, time};
use crate::text::{dec, listed, lossy, nearest, said};

/// Two interrupts within this many ms leave.
const TWICE: u64 = 1_000;

/// A command: name, arguments in the help, help.
const COMMANDS: &[(&str, &str, &str)] = &[
    ("/help", "", "this list"),
    ("/exit", "", "leave (or Ctrl-D)"),
    ("/new", "", "begin a new session"),
    ("/sessions", "", "list saved sessions"),
    ("/resume", "ID", "go on with a saved session"),
    ("/model", "[NAME]", "show or change the model"),
    (
        "/mode",
        "[NAME]",
        "show or change the mode: code, architect, ask, debug, orchestrator",
    ),
    ("/tools", "", "the tools the model has"),
    ("/cost", "", "tokens of this session"),
    ("/compact", "", "summarise the conversation to free context"),
];

/// Runs the conversation until it is left. Returns the exit status.
pub fn run(agent: &mut Agent, store: &mut Store, mut view: Human, saved: bool) -> i32 {
    let id = if saved {
        agent.session.id.clone()
    } else {
        "not saved".into()
    };
    view.say(&said(
        "cluade % - session % - % - /help for help",
        &[env!("CARGO_PKG_VERSION"), &id, &agent.config.model],
    ));
    let mut last_interrupt = None;
    loop {
        view.prompt();
        let line = match view.input.line() {
            Line::Text(line) => line,
            Line::End => {
                view.say("");
                return 0;
            }
            Line::Interrupted => {
                if let Some(number) = signal::end_requested() {
                    return 128 + number;
                }
                view.say("^C");
                if interrupted_twice(&mut last_interrupt) {
                    return 130;
                }
                signal::clear_interrupts();
                continue;
            }
        };
        let text = lossy(&line);
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        if text.starts_with('/') && !text.contains('\n') {
            if !command(text, agent, store, &mut view, saved) {
                return 0;
            }
            continue;
        }
        let done = agent.turn(text.as_bytes(), &mut view);
        match done.ending {
            Ending::Terminated(number) => return 128 + number,
            Ending::TimeLimit => return done.ending.exit_status(),
            Ending::Interrupted => {
                let many = signal::interrupts() > 1;
                signal::clear_interrupts();
                if interrupted_twice(&mut last_interrupt) || many {
                    return 130;
                }
            }
            _ => {}
        }
    }
}

/// Notes an interrupt; true when the one before was just now.
fn interrupted_twice(last: &mut Option<u64>) -> bool {
    let now = time::monotonic_ms();
    let twice = signal::interrupts() > 1 || last.is_some_and(|l| now - l < TWICE);
    *last = Some(now);
    twice
}

/// Carries out a slash command; false leaves.
fn command(
    text: &str,
    agent: &mut Agent,
    store: &mut Store,
    view: &mut Human,
    saved: bool,
) -> bool {
    let (name, argument) = text
        .split_once(char::is_whitespace)
        .map_or((text, ""), |(n, a)| (n, a.trim()));
    match name {
        "/exit" | "/quit" => return false,
        "/help" => {
            for (name, argument, help) in COMMANDS {
                let mut line = said("% %", &[name, argument]);
                while line.len() < 21 {
                    line.push(' ');
                }
                line.push_str(help);
                view.say(&line);
            }
        }
        "/model" if argument.is_empty() => view.say(&agent.config.model.clone()),
        "/model" => {
            agent.set_model(argument);
            view.model.clone_from(&agent.config.model);
            view.say(&said("model: %", &[&agent.config.model]));
        }
        "/mode" if argument.is_empty() => view.say(agent.mode().name()),
        "/mode" => match Mode::from_name(argument) {
            Some(mode) => {
                for warning in agent.set_mode(mode) {
                    view.complain(&warning);
                }
                view.say(&said("mode: %", &[mode.name()]));
            }
            None => view.complain(&said(
                "no mode %; there are: %",
                &[argument, &listed(" ", &mut Mode::names())],
            )),
        },
        "/tools" => {
            view.say(&listed(" ", &mut agent.offered().map(|t| t.name)));
        }
        "/cost" => {
            let (total, context) = (agent.session.total_tokens, agent.context_tokens());
            view.say(&said(
                "% tokens in this session, % in the context",
                &[&dec(total), &dec(context)],
            ));
        }
        "/compact" => {
            if !agent.compact_now(view as &mut dyn Front) {
                view.complain("compacting did not win much");
            }
        }
        "/sessions" => view.say(super::app::session_lines(store).trim_end()),
        "/new" | "/resume" if !saved => {
            view.complain("sessions are not saved in this run (--no-session)")
        }
        "/new" => {
            let (session, warnings) = store.create(&agent.cwd);
            agent.set_session(session);
            warnings.iter().for_each(|w| view.complain(w));
            view.say(&said("session %", &[&agent.session.id]));
        }
        "/resume" if argument.is_empty() => {
            view.complain("/resume needs an id; /sessions lists them")
        }
        "/resume" => match store.open(argument) {
            Ok((session, warnings)) => {
                agent.set_session(session);
                warnings.iter().for_each(|w| view.complain(w));
                view.say(&said(
                    "resumed % with % messages",
                    &[
                        &agent.session.id,
                        &dec(agent.session.conversation.len() as u64),
                    ],
                ));
            }
            Err(e) => view.complain(&e.text()),
        },
        _ => {
            let hint = nearest(name, COMMANDS.iter().map(|c| c.0))
                .map_or(String::new(), |n| said("; did you mean %?", &[n]));
            view.complain(&said(
                "unknown command %% (/help lists them)",
                &[name, &hint],
            ));
        }
    }
    true
}
