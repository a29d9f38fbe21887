//! One turn and out: where the answer goes and what the exit status is.

use super::extract::last_block;
use super::quiet::{Quiet, note};
use super::{ending_text, human, json};
use crate::agent::Agent;
use crate::agent::event::{Done, Ending, Event, Front};
use crate::sys::{fs, out, tty};
use crate::text::push_visible;

/// How a single turn is shown.
pub enum View {
    /// For people.
    Human(human::Human),
    /// The answer only.
    Quiet(Quiet),
    /// Events.
    Json(json::Json),
}

impl View {
    fn front(&mut self) -> &mut dyn Front {
        match self {
            View::Human(h) => h,
            View::Quiet(q) => q,
            View::Json(j) => j,
        }
    }
}

/// What happens with the answer.
pub struct Delivery<'a> {
    /// `-x`
    pub extract: bool,
    /// `-o`
    pub output: Option<&'a [u8]>,
}

/// Runs the turn and delivers the answer. Returns the exit status.
pub fn run(agent: &mut Agent, prompt: &[u8], mut view: View, delivery: &Delivery) -> i32 {
    let id = agent.session.id.clone();
    let (model, cwd) = (agent.config.model.clone(), agent.cwd.clone());
    view.front().event(&Event::Session {
        id: &id,
        model: &model,
        cwd: &cwd,
    });
    let done = agent.turn(prompt, view.front());
    let quiet = matches!(view, View::Quiet(_));
    if quiet && let Some(text) = ending_text(&done, agent.config.max_steps) {
        note("", text.as_bytes());
    }
    let status = done.ending.exit_status();
    if !matches!(done.ending, Ending::Finished | Ending::Refused) {
        return status;
    }
    let Some(answer) = deliverable(&done, delivery.extract) else {
        note("error: ", b"the answer has no fenced block to extract (-x)");
        return 1;
    };
    let mut failed = false;
    if quiet {
        failed |= print(&answer);
    }
    if let Some(path) = delivery.output
        && let Err(e) = fs::write_output(path, &answer)
    {
        let text = crate::text::said("%: %", &[&crate::text::lossy(path), &fs::os_text(&e)]);
        note("error: ", text.as_bytes());
        failed = true;
    }
    if failed { 1 } else { status }
}

/// The answer as it is handed on: its trailing newlines folded into one, or its last block as it is.
fn deliverable(done: &Done, extract: bool) -> Option<Vec<u8>> {
    if extract {
        return last_block(&done.answer);
    }
    let mut end = done.answer.len();
    while end > 0 && matches!(done.answer[end - 1], b'\n' | b'\r') {
        end -= 1;
    }
    let mut answer = done.answer[..end].to_vec();
    answer.push(b'\n');
    Some(answer)
}

/// Prints the answer: byte-exact into a pipe or file, visible on a terminal. Returns whether that failed; a reader that
/// has gone is no failure.
fn print(answer: &[u8]) -> bool {
    let mut visible = Vec::new();
    let bytes = if tty::is_tty(out::STDOUT) {
        push_visible(&mut visible, answer);
        &visible
    } else {
        answer
    };
    match out::write_all(out::STDOUT, bytes) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            note(
                "error: ",
                crate::text::said("standard output: %", &[&fs::os_text(&e)]).as_bytes(),
            );
            true
        }
        _ => false,
    }
}
