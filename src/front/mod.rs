//! Front ends: consumers of events. [`run`] turns the command line into an exit status.

mod app;
mod ask;
mod extract;
mod human;
mod input;
mod json;
mod oneshot;
mod prompt;
mod quiet;
mod repl;

pub use app::run;

use crate::agent::event::{Done, Ending};

/// What a user is told about a turn that did not simply finish; `None` when there is nothing to say.
fn ending_text(done: &Done, max_steps: u32) -> Option<String> {
    Some(match done.ending {
        Ending::Finished | Ending::Failed => return None,
        Ending::Refused => {
            "a call was refused because nobody was there to approve it (see -y and the permissions in config.json)".into()
        }
        Ending::Stopped => "stopped by you; say \"continue\" to go on".into(),
        Ending::MaxSteps => {
            crate::text::said("stopped at the limit of % steps (max_steps); say \"continue\" to go on", &[&crate::text::dec(u64::from(max_steps))])
        }
        Ending::Loop => "stopped: the model went round in circles; say \"continue\" to go on".into(),
        Ending::TimeLimit => "stopped at the time limit (--timeout)".into(),
        Ending::Interrupted => "interrupted".into(),
        Ending::Terminated(_) => "ended by a signal; the session is saved".into(),
        Ending::Empty => "the model gave no answer".into(),
    })
}
