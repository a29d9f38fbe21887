//! The turn: model, tools, model, until the model is done or something ends it. It emits events and asks one question;
//! it prints nothing.

use super::compact;
use super::event::{Decision, Done, Ending, Event, Front, Question};
use super::loopdetect::{LoopDetect, Pattern, Verdict, canonical};
use super::mode::Mode;
use super::{Agent, context};
use crate::json::{self, Value, Writer};
use crate::policy::danger;
use crate::policy::permission::{self, Verdict as Permission};
use crate::provider::messages::Message;
use crate::provider::{Call, Class, Delta, Failure, Finish, Observer, Reply, Usage};
use crate::sys::process::Watch;
use crate::sys::{fs, signal, time};
use crate::text::{dec, listed, lossy, said};
use crate::tools::{self, Ctx, Level, Output, Tool};

/// What an open call is answered with when the turn ends before it ran.
const CANCELLED: &[u8] = b"error: cancelled by the user";
const STOPPED: &[u8] = b"error: not run: the user stopped the turn";
const DECLINED: &[u8] = b"error: the user declined this call. Do not repeat it or try the same another way: ask the user \
what to do differently.";

/// How often a reply that was cut at the token limit is continued.
const MAX_CONTINUES: u32 = 4;

/// What a call came to.
enum Called {
    Done(Output),
    /// Refused because nobody was there.
    Refused(Output),
    /// The user wants the turn to end.
    Stop,
}

/// Shows a reply's pieces while it arrives.
struct Show<'a> {
    front: &'a mut dyn Front,
}

impl Observer for Show<'_> {
    fn delta(&mut self, delta: Delta) {
        self.front.event(&match delta {
            Delta::Text(text) => Event::Chunk(text),
            Delta::Reasoning(text) => Event::Reasoning(text),
        });
    }
    fn notice(&mut self, text: &str) {
        self.front.event(&Event::Warning(text));
    }
    fn restart(&mut self) {
        self.front.event(&Event::Restart);
    }
    fn watch(&mut self) -> &mut dyn Watch {
        self.front.watch()
    }
}

impl Agent {
    /// Runs one turn on a prompt. Whatever happens, the conversation is a valid one afterwards and saved.
    pub fn turn(&mut self, prompt: &[u8], front: &mut dyn Front) -> Done {
        let started = time::monotonic_ms();
        signal::clear_interrupts();
        let mut text = context::preamble(&self.cwd);
        text.extend_from_slice(prompt);
        self.session.push_user(&text);
        self.last_prompt = prompt.to_vec();
        let mut done = Done {
            answer: Vec::new(),
            ending: Ending::Finished,
            steps: 0,
            total_tokens: 0,
            context_tokens: 0,
            ms: 0,
        };
        done.ending = self.steps(&mut done, front);
        if let Some(warning) = self.session.commit() {
            front.event(&Event::Warning(&warning));
        }
        done.total_tokens = self.session.total_tokens;
        done.context_tokens = self.context_tokens();
        done.ms = time::monotonic_ms() - started;
        front.event(&Event::Done(&done));
        done
    }

    fn steps(&mut self, done: &mut Done, front: &mut dyn Front) -> Ending {
        let mut detector = LoopDetect::default();
        let mut refused = false;
        let mut continues = 0;
        loop {
            if done.steps >= self.config.max_steps {
                return Ending::MaxSteps;
            }
            done.steps += 1;
            self.session.steps += 1;
            self.save_step(front);
            front.event(&Event::Step(done.steps));
            let reply = match self.ask(front) {
                Ok(reply) => reply,
                Err(failure) if failure.class == Class::Cancelled => return interrupted(),
                Err(failure) => {
                    front.event(&Event::Error {
                        class: failure.class,
                        stage: failure.stage,
                        message: &failure.message,
                    });
                    return Ending::Failed;
                }
            };
            self.count(&reply, front);
            if self.show_tools {
                front.event(&Event::Debug(&decoded(&reply)));
            }
            if !reply.calls.is_empty() || !reply.content.is_empty() {
                self.session.set_origin(&self.client.origin_name());
                self.session.push_reply(&reply);
            }
            if reply.calls.is_empty() {
                done.answer.extend_from_slice(&reply.content);
                match reply.finish {
                    Finish::Length if !reply.content.is_empty() && continues < MAX_CONTINUES => {
                        continues += 1;
                        let text = "[Your reply was cut at the token limit. Go on exactly where it stopped, without repeating anything.]";
                        self.session.push_user(text.as_bytes());
                        continue;
                    }
                    Finish::Length => front.event(&Event::Warning(
                        "the answer is cut: the model hit its token limit",
                    )),
                    Finish::ContentFilter => front.event(&Event::Warning(
                        "the provider's content filter stopped the answer",
                    )),
                    Finish::Stop | Finish::ToolCalls => {}
                }
                if done.answer.is_empty() {
                    return Ending::Empty;
                }
                return if refused {
                    Ending::Refused
                } else {
                    Ending::Finished
                };
            }
            done.answer.clear();
            self.save_step(front);
            if let Some(ending) = self.run_calls(&reply.calls, &mut detector, &mut refused, front) {
                return ending;
            }
            match detector.check(self.config.repeat_threshold, self.config.error_threshold) {
                Verdict::Fine => {}
                Verdict::Halt(_) => return Ending::Loop,
                Verdict::Warn(pattern) => {
                    let text: &[u8] = match pattern {
                        Pattern::Repeat => b"[You made the same call again and again. It looks stuck: change your approach, or stop and say what is in the way.]",
                        Pattern::Errors => b"[Several calls failed in a row. It looks stuck: change your approach, or stop and say what is in the way.]",
                    };
                    front.event(&Event::Warning("the model looks stuck; it was told so"));
                    self.session.push_user(text);
                }
            }
        }
    }

    /// Runs the calls of a reply in order; each gets its result, whatever happens. Returns how the turn ends, if it does.
    fn run_calls(
        &mut self,
        calls: &[Call],
        detector: &mut LoopDetect,
        refused: &mut bool,
        front: &mut dyn Front,
    ) -> Option<Ending> {
        let mut ending = None;
        let mut compacted = None;
        for (i, call) in calls.iter().enumerate() {
            if ending.is_none() && signal::cancelled() {
                ending = Some(interrupted());
            }
            if let Some(ending) = ending {
                let text = if ending == Ending::Stopped {
                    STOPPED
                } else {
                    CANCELLED
                };
                self.session.push_result(&call.id, text);
                continue;
            }
            front.event(&Event::ToolCall {
                id: &call.id,
                name: &call.name,
                arguments: &call.arguments,
            });
            let started = time::monotonic_ms();
            let mut output = match self.call(call, front) {
                Called::Done(output) => output,
                Called::Refused(output) => {
                    *refused = true;
                    output
                }
                Called::Stop => {
                    ending = Some(Ending::Stopped);
                    Output {
                        ok: false,
                        text: STOPPED.to_vec(),
                    }
                }
            };
            let tool = tools::find(&call.name);
            if tool.is_some_and(|t| t.run.is_none()) && output.ok {
                compacted = Some(std::mem::replace(&mut output.text, b"compacted".to_vec()));
            }
            detector.record(
                &call.name,
                &call.arguments,
                output.text.starts_with(b"error: "),
            );
            if i + 1 == calls.len() && compacted.is_none() {
                self.nudge(&mut output.text);
            }
            front.event(&Event::ToolResult {
                id: &call.id,
                name: &call.name,
                ok: output.ok,
                output: &output.text,
                ms: time::monotonic_ms() - started,
            });
            self.session.push_result(&call.id, &output.text);
        }
        if ending.is_none() && signal::cancelled() {
            ending = Some(interrupted());
        }
        if let Some(summary) = compacted {
            self.compact_to(&summary, front);
        }
        ending
    }

    /// Checks and runs one call.
    fn call(&mut self, call: &Call, front: &mut dyn Front) -> Called {
        let error = |text: String| Called::Done(Output::error(text));
        if let Some(fault) = &call.fault {
            return error(fault.clone());
        }
        let Some(tool) = tools::find(&call.name).filter(|t| self.offers(t)) else {
            let names = listed(", ", &mut self.offered().map(|t| t.name));
            return error(said(
                "there is no tool %; there are: %",
                &[&call.name, &names],
            ));
        };
        let args = match json::parse(&call.arguments) {
            Ok(args) => args,
            Err(e) => {
                return error(said(
                    "the arguments are not valid JSON: % at byte %",
                    &[e.what, &dec(e.at as u64)],
                ));
            }
        };
        let mut required = tool.required.iter().copied();
        let missing = listed(
            ", ",
            &mut required.by_ref().filter(|n| args.get(n).is_none()),
        );
        if !missing.is_empty() {
            return error(said("missing argument: %", &[&missing]));
        }
        match self.permit(tool, &args, call, front) {
            Ok(()) => {}
            Err(called) => return called,
        }
        Called::Done(match tool.run {
            Some(run) => {
                let mut env_remove: Vec<&[u8]> = vec![b"OPENAI_API_KEY", b"ANTHROPIC_API_KEY"];
                env_remove.extend(self.config.env_remove.iter().map(|n| n.as_bytes()));
                let mut ctx = Ctx {
                    cwd: &self.cwd,
                    output_limit: self.config.tool_output_limit,
                    scratch: &self.scratch,
                    bash_timeout: self.config.bash_timeout,
                    seen: &mut self.seen,
                    env_remove: &env_remove,
                    watch: front.watch(),
                };
                run(&mut ctx, &args)
            }
            None => Output::ok(args.get_string("summary").unwrap_or_default()),
        })
    }

    /// Mode, permission, danger gate, question.
    fn permit(
        &mut self,
        tool: &Tool,
        args: &Value,
        call: &Call,
        front: &mut dyn Front,
    ) -> Result<(), Called> {
        let refuse = |text: String| Err(Called::Done(Output::error(text)));
        let subject = args.get_string(tool.label).unwrap_or_default();
        if let Some(parameter) = tool.writes {
            let path = fs::join(
                &self.cwd,
                args.get_string(parameter).unwrap_or_default().as_bytes(),
            );
            if let Some(why) = self.mode.refuses_write(&path) {
                return refuse(said("refused: %", &[why]));
            }
        }
        let mut reason = match permission::decide(
            &self.rules,
            tool.name,
            tool.level,
            subject.as_bytes(),
            self.yes,
        ) {
            Permission::Allow => String::new(),
            Permission::Ask(reason) => reason,
            Permission::Deny(reason) => return refuse(said("refused: %", &[&reason])),
        };
        let mut dangerous = false;
        if reason.is_empty() && tool.name == "bash" {
            let workdir = fs::join(
                &self.cwd,
                args.get_string("workdir").unwrap_or_default().as_bytes(),
            );
            let patterns = &mut self.danger_patterns;
            let mut matches =
                |command: &[u8]| patterns.iter_mut().position(|p| p.is_match(command));
            if let Some(why) =
                danger::danger(subject.as_bytes(), &workdir, &self.user_home, &mut matches)
            {
                reason = lossy(&why);
                dangerous = true;
            }
        }
        if reason.is_empty() {
            return Ok(());
        }
        let question = Question {
            id: &call.id,
            tool: tool.name,
            reason: &reason,
            detail: subject.as_bytes(),
        };
        let decision = if self.unattended {
            Decision::Unattended
        } else {
            front.approve(&question)
        };
        let word = match decision {
            Decision::Yes => "yes",
            Decision::No => "no",
            Decision::Always => "always",
            Decision::Stop => "stop",
            Decision::Unattended => "refused",
        };
        front.event(&Event::Approval {
            id: &call.id,
            reason: &reason,
            decision: word,
        });
        match decision {
            Decision::Yes => Ok(()),
            Decision::Always => {
                // A dangerous command is never waved through for the rest of the session.
                if !dangerous {
                    self.rules.push((String::from(tool.name), Level::Allow));
                }
                Ok(())
            }
            Decision::No if signal::cancelled() => Err(Called::Stop),
            Decision::No => Err(Called::Done(Output {
                ok: false,
                text: DECLINED.to_vec(),
            })),
            Decision::Stop => Err(Called::Stop),
            Decision::Unattended => Err(Called::Refused(Output::error(said(
                "refused: this needs approval (%) and nobody is there to give it",
                &[&reason],
            )))),
        }
    }

    /// One reply from the model. When the context is full it is compacted, and the question asked once more.
    fn ask(&mut self, front: &mut dyn Front) -> Result<Reply, Failure> {
        if self.context_tokens() * 1000 > self.config.context_limit * compact::AUTO_PERMILLE {
            self.auto_compact(front);
        }
        match self.request(front) {
            Err(failure) if failure.class == Class::Context => {
                self.auto_compact(front);
                self.request(front)
            }
            other => other,
        }
    }

    fn request(&mut self, front: &mut dyn Front) -> Result<Reply, Failure> {
        let names: Vec<&str> = self.offered().map(|t| t.name).collect();
        let mut messages = vec![Message {
            json: &self.system,
            origin: 0,
        }];
        let here = self.client.origin_name();
        let origin = self.client.origin();
        for i in self.session.context_from()..self.session.conversation.len() {
            let Some(json) = self.session.conversation.get(i) else {
                continue;
            };
            let origin = if self.session.origin(i) == Some(&here) {
                origin
            } else {
                0
            };
            messages.push(Message { json, origin });
        }
        self.client
            .complete(&messages, Some(&self.schemas), &names, &mut Show { front })
    }

    fn count(&mut self, reply: &Reply, front: &mut dyn Front) {
        let usage = reply.usage.unwrap_or_else(|| Usage {
            prompt: self.context_tokens(),
            completion: compact::estimate(reply.content.len() + reply.reasoning.len()),
            cached: 0,
        });
        self.session.total_tokens += usage.prompt + usage.completion;
        // What the server counted covers all up to and with this reply, which is pushed next.
        self.counted = usage.prompt + usage.completion;
        self.counted_bytes = self.session.conversation.bytes().len() + reply.content.len();
        front.event(&Event::RoundInfo(usage));
    }

    /// Tells the model, inside a tool result, that the context fills up.
    fn nudge(&mut self, text: &mut Vec<u8>) {
        let tokens = self.context_tokens() + compact::estimate(text.len());
        let permille = tokens * 1000 / self.config.context_limit.max(1);
        if permille >= self.config.compact_threshold && !self.nudged {
            self.nudged = true;
            let note = said(
                "\n[The context is % % full. Call compact with a summary of goal, progress, decisions and open points before going on.]",
                &[&dec(permille / 10), "%"],
            );
            text.extend_from_slice(note.as_bytes());
        }
    }

    fn save_step(&mut self, front: &mut dyn Front) {
        if let Some(warning) = self.session.step() {
            front.event(&Event::Warning(&warning));
        }
    }

    /// The tools the model is offered.
    pub fn offered(&self) -> impl Iterator<Item = &'static Tool> + '_ {
        tools::TOOLS.iter().copied().filter(|t| self.offers(t))
    }

    fn offers(&self, tool: &Tool) -> bool {
        let named = |list: &[String]| list.iter().any(|n| n == tool.name);
        self.mode.has(tool)
            && (self.only_tools.is_empty() || named(&self.only_tools))
            && !named(&self.denied_tools)
            && (self.mode != Mode::Plan || tool.run.is_some())
    }
}

/// A reply's calls for `--show-tools-json`: keys sorted, indented by two, then one compact line for each call.
fn decoded(reply: &Reply) -> Vec<u8> {
    let mut out = said(
        "--- % tool calls, % bytes of reasoning\n",
        &[
            &dec(reply.calls.len() as u64),
            &dec(reply.reasoning.len() as u64),
        ],
    )
    .into_bytes();
    let mut compact = Vec::new();
    for call in &reply.calls {
        let mut w = Writer::new();
        match json::parse(&call.arguments) {
            Ok(value) => canonical(value, &mut w),
            Err(_) => w.out.extend_from_slice(&call.arguments),
        }
        for (to, text) in [
            (&mut out, json::write::indented(&w.out)),
            (&mut compact, w.out),
        ] {
            to.extend_from_slice(call.name.as_bytes());
            to.push(b' ');
            to.extend_from_slice(&text);
            to.push(b'\n');
        }
    }
    out.extend_from_slice(&compact);
    out
}

/// Why a cancelled turn was cancelled.
fn interrupted() -> Ending {
    match signal::end_requested() {
        Some(libc::SIGALRM) => Ending::TimeLimit,
        Some(number) => Ending::Terminated(number),
        None => Ending::Interrupted,
    }
}
