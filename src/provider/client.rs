//! The client: one conversation in, one reply out, through every retry, key, adaptation and fallback that the class of a
//! failure calls for. Nothing of a failed attempt is kept but what it taught about the endpoint.
//!
//! Refused on purpose: endless patience. A wait of more than a minute that the server wants is told, not waited for.

use super::attempt::{Device, Eyes, Io, Run, dec, duration, explain};
use super::endpoint::{self, ADD_V1, NO_STREAM, PATH_V1, Rules};
use super::keys::{Pool, SPENT};
use super::memory::Memory;
use super::messages::Message;
use super::reply::Assembler;
use super::request::{self, Body};
use super::transport::{Piece, TAIL_MS, Transport};
use super::url::Base;
use super::{Adapt, Class, Delta, Failure, Observer, Reply, Stage, Usage};
use crate::config::{Config, Price};
use crate::sys::time;

/// The longest single wait for a server, in ms.
const LONGEST_WAIT: u64 = 60_000;
/// Further tries after a passing failure: after 1, 2 and 4 s.
const TRIES: u32 = 3;
/// Waits for a rate limit before giving up, when there is another key or provider to go to and when there is none:
/// six waits of 1·2ⁿ s outlast a limit counted by the minute.
const RATE_WAITS: [u32; 2] = [2, 6];
/// Changes of the request in one call: a server that refuses one field after the other is not to be had.
const MAX_ADAPTATIONS: u32 = 8;
/// A token limit below this is no way out when the prompt is too long or the money too short.
const USEFUL_TOKENS: u64 = 1024;
/// How long a fallback is kept before the first provider is asked again, in ms.
const STAY: u64 = 300_000;
/// Between two looks whether the network is back, in ms.
const OFFLINE_STEP: u64 = 10_000;

/// One provider: where, which model, with which keys, and what it is known to need.
pub(super) struct Endpoint {
    pub(super) base: Base,
    pub(super) model: String,
    pub(super) rules: Rules,
    pub(super) keys: Pool,
    pub(super) origin: u32,
}

/// The client of the configured provider and its fallbacks.
pub struct Client {
    /// The configured one first; never empty.
    endpoints: Vec<Endpoint>,
    /// The one in use.
    pub(super) at: usize,
    /// When the first one is asked again, by [`Io::now`].
    back_at: u64,
    /// A server has answered: the network was there.
    answered: bool,
    memory: Memory,
    thinking: bool,
    reasoning_effort: String,
    max_tokens: u64,
    stream: bool,
    /// Limits of a request: without a byte, in all.
    pub(super) limits: (u64, u64),
    offline_ms: u64,
    prices: Vec<Price>,
    pub(super) transport: Transport,
}

/// What is asked, the same for every attempt.
struct Ask<'a> {
    messages: &'a [Message<'a>],
    tools: Option<&'a [u8]>,
    names: &'a [&'a str],
}

impl Client {
    /// A client for what `config` says. What is learned about endpoints is kept in the directory `home`, if there is one.
    ///
    /// # Errors
    /// One line when a base URL can't be used.
    pub fn new(config: &Config, home: Option<&[u8]>) -> Result<Client, String> {
        let mut client = Client {
            endpoints: Vec::new(),
            at: 0,
            back_at: 0,
            answered: false,
            memory: Memory::new(home),
            thinking: config.thinking,
            reasoning_effort: config.reasoning_effort.clone(),
            max_tokens: config.max_tokens,
            stream: config.stream,
            limits: (
                config.idle_timeout.saturating_mul(1000),
                config.request_timeout.saturating_mul(1000),
            ),
            offline_ms: config.offline_wait.saturating_mul(1000),
            prices: config.prices.clone(),
            transport: Transport::live(),
        };
        let mut first = None;
        for i in 0..=config.fallback.len() {
            let given = i.checked_sub(1).and_then(|i| config.fallback.get(i));
            let number = dec(i as u64);
            let source = ["fallback, number ", &number].concat();
            let url = given.map_or(&config.base_url, |f| &f.base_url);
            let base = match Base::parse(url) {
                Ok(base) => base,
                Err(e) if given.is_some() => return Err([&source, ": ", &e].concat()),
                Err(e) => return Err(e),
            };
            let model = given.map_or("", |f| &f.model);
            let model = if model.is_empty() {
                &config.model
            } else {
                model
            };
            // Another model at the same place takes the same keys; they go to no other place.
            let (key, source, more) = match given {
                Some(f) if first.as_ref() != Some(&base) || !f.api_key.trim().is_empty() => {
                    (&f.api_key, &source, &[][..])
                }
                _ => (
                    &config.api_key,
                    &config.api_key_source,
                    &config.api_keys[..],
                ),
            };
            let keys = Pool::new(key, source, more, config.key_strategy);
            if first.is_none() {
                first = Some(base.clone());
            }
            client.add(base, model, keys);
        }
        Ok(client)
    }

    fn add(&mut self, base: Base, model: &str, keys: Pool) {
        self.endpoints.push(Endpoint {
            rules: self.rules(&base, model),
            origin: endpoint::origin(&endpoint::name(&base, model)),
            model: model.into(),
            base,
            keys,
        });
    }

    fn rules(&self, base: &Base, model: &str) -> Rules {
        let mut rules = Rules::known(base, model, self.thinking);
        self.memory.recall(base, model, &mut rules);
        rules
    }

    /// The same endpoint in [`Message::origin`].
    pub fn origin(&self) -> u32 {
        self.here().origin
    }

    /// The model in use, which is a fallback's when one stepped in.
    pub fn model(&self) -> &str {
        &self.here().model
    }

    /// The base URL in use, without its query.
    pub fn base_url(&self) -> String {
        self.here().base.name()
    }

    /// Asks another model at the configured base URL from now on.
    pub fn set_model(&mut self, model: &str) {
        self.at = 0;
        let rules = self.rules(&self.here().base, model);
        let first = self.here_mut();
        first.model = model.into();
        first.origin = endpoint::origin(&endpoint::name(&first.base, model));
        first.rules = rules;
    }

    /// Sends over `transport` from now on: a recording, or the network with a recording made.
    pub fn set_transport(&mut self, transport: Transport) {
        self.transport = transport;
    }

    /// The endpoint in use by name, base URL and model, as a session keeps it; see [`Client::origin`].
    pub fn origin_name(&self) -> String {
        endpoint::name(&self.here().base, self.model())
    }

    /// Forgets what was learned about the endpoint in use; whether there was anything.
    ///
    /// # Errors
    /// One line when the file can't be written; for this process it is forgotten all the same.
    pub fn forget(&mut self) -> Result<bool, String> {
        let here = self.here();
        let rules = Rules::known(&here.base, &here.model, self.thinking);
        let result = self.memory.forget(&here.base, &here.model);
        self.here_mut().rules = rules;
        result
    }

    /// What `usage` costs at the model in use, in millionths of the currency unit; `None` without a price.
    pub fn cost(&self, usage: &Usage) -> Option<u64> {
        let price = self.prices.iter().find(|p| p.model == self.model())?;
        let cached = usage.cached.min(usage.prompt);
        let sum = [
            (usage.prompt - cached, price.input),
            (cached, price.cached),
            (usage.completion, price.output),
        ]
        .iter()
        .fold(0u64, |sum, (n, price)| {
            sum.saturating_add(n.saturating_mul(*price))
        });
        Some(sum / 1_000_000)
    }

    pub(super) fn here(&self) -> &Endpoint {
        &self.endpoints[self.at]
    }

    pub(super) fn here_mut(&mut self) -> &mut Endpoint {
        &mut self.endpoints[self.at]
    }

    /// Asks for the next message of the conversation. `tools` is the JSON array of schemas offered, `names` their names.
    ///
    /// # Errors
    /// The failure that is left when all means of its class are used up. [`Class::Context`] wants the caller to compact
    /// and call again; [`Class::Cancelled`] is the user's; with all others the turn is over.
    pub fn complete(
        &mut self,
        messages: &[Message],
        tools: Option<&[u8]>,
        names: &[&str],
        observer: &mut dyn Observer,
    ) -> Result<Reply, Failure> {
        let mut device = Device(std::mem::take(&mut self.transport));
        let result = self.complete_over(&mut device, messages, tools, names, observer);
        self.transport = device.0;
        result
    }

    /// [`Client::complete`] over another network and clock.
    ///
    /// # Errors
    /// As there.
    pub fn complete_over(
        &mut self,
        io: &mut dyn Io,
        messages: &[Message],
        tools: Option<&[u8]>,
        names: &[&str],
        observer: &mut dyn Observer,
    ) -> Result<Reply, Failure> {
        let ask = Ask {
            messages,
            tools,
            names,
        };
        let mut run = Run::new(io, observer);
        self.anywhere(&mut run, &ask).map_err(|failure| *failure)
    }

    /// Asks one endpoint after the other, and all again while the network is away.
    fn anywhere(&mut self, run: &mut Run, ask: &Ask) -> Result<Reply, Box<Failure>> {
        if self.at != 0 && run.io.now() >= self.back_at {
            self.at = 0;
        }
        let all = self.endpoints.len();
        let mut left = all;
        let mut gone_since = None;
        let mut earlier = String::new();
        loop {
            let mut failure = match self.on_endpoint(run, ask, gone_since.is_some()) {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            left = left.saturating_sub(1);
            let passing = matches!(
                failure.class,
                Class::Billing | Class::RateLimit | Class::Transient
            );
            let now = run.io.now();
            if passing && left > 0 {
                self.at = (self.at + 1) % all;
                self.back_at = now.saturating_add(STAY);
                if gone_since.is_none() {
                    let (model, url) = (self.model(), self.base_url());
                    run.say(&[&failure.message, "; going on with ", model, " at ", &url]);
                }
                earlier = failure.message;
                continue;
            }
            if is_unreachable(&failure) && self.answered {
                let since = gone_since.unwrap_or(now);
                let rest = self.offline_ms.saturating_sub(now.saturating_sub(since));
                if rest > 0 {
                    if gone_since.is_none() {
                        let (limit, until) = (duration(rest), " for the network");
                        run.say(&[&failure.message, "; waiting up to ", &limit, until]);
                    }
                    gone_since = Some(since);
                    run.wait(rest.min(OFFLINE_STEP), failure.stage)?;
                    (self.at, left) = (0, all);
                    continue;
                }
            }
            if !matches!(failure.class, Class::Cancelled | Class::Context) {
                self.at = 0;
                if !earlier.is_empty() {
                    failure.message = [&failure.message, " (before that: ", &earlier, ")"].concat();
                }
            }
            return Err(failure);
        }
    }

    /// Asks the endpoint in use until it answers or its means are used up. `probing`: the network was gone a moment ago.
    fn on_endpoint(
        &mut self,
        run: &mut Run,
        ask: &Ask,
        probing: bool,
    ) -> Result<Reply, Box<Failure>> {
        let others = self.endpoints.len() > 1;
        self.here_mut().keys.choose(run.io.now());
        let mut rules = self.here().rules;
        // Changes and their causes.
        let mut learned = Vec::new();
        let (mut rate, mut tries, mut adapted) = (0, 0, 0);
        let mut switches = 0;
        let mut no_path = String::new();
        let mut body = Vec::new();
        loop {
            if body.is_empty() {
                body = self.body(ask, &rules);
            }
            let mut failure = match self.attempt(run, ask, &rules, &body) {
                Ok(reply) => {
                    self.learn(run, &learned);
                    return Ok(reply);
                }
                Err(failure) => failure,
            };
            if matches!(failure.status, 404 | 405) {
                if !no_path.is_empty() {
                    failure.message = [&no_path, "; ", &failure.message].concat();
                    return Err(failure);
                }
                if self.here().base.lacks_version() && !rules.has(ADD_V1) {
                    rules.set(ADD_V1);
                    run.say(&[&failure.message, "; trying with /v1"]);
                    no_path = failure.message;
                    learned.push((PATH_V1.into(), no_path.clone()));
                    continue;
                }
            }
            if let Some(adapt) = &failure.adapt
                && adapted < MAX_ADAPTATIONS
                && self.is_useful(adapt, &rules, failure.class)
                && rules.apply(adapt)
            {
                adapted += 1;
                body.clear();
                let change = endpoint::word(adapt);
                run.say(&[&failure.message, "; trying again with: ", &change]);
                // A limit of the moment (money, room beside this prompt) says nothing about the next request.
                if failure.class == Class::Unsupported {
                    learned.push((change, failure.message));
                }
                continue;
            }
            let told = failure.retry_after.unwrap_or(0);
            let now = run.io.now();
            let keys = &mut self.here_mut().keys;
            // How long to wait for another try at the same, if at all.
            let mut again = None;
            match failure.class {
                Class::Billing => keys.put_aside(SPENT),
                Class::RateLimit => {
                    let most = RATE_WAITS[usize::from(!others && !keys.has_other(now))];
                    if rate < most {
                        again = Some(backoff(rate));
                        if told > 0 {
                            again = Some(told);
                        }
                    }
                }
                Class::Transient => {
                    if tries < TRIES && !(probing && is_unreachable(&failure)) {
                        again = Some(told.max(backoff(tries)));
                    }
                }
                Class::Unsupported => failure.class = Class::Fatal,
                Class::Context => self.learn(run, &learned),
                Class::Auth | Class::Cancelled | Class::Fatal => {}
            }
            if let Some(ms) = again.filter(|ms| *ms <= LONGEST_WAIT) {
                rate += u32::from(failure.class == Class::RateLimit);
                tries += u32::from(failure.class == Class::Transient);
                run.pause(ms, &failure)?;
                continue;
            }
            let keys = &mut self.here_mut().keys;
            if failure.class == Class::RateLimit {
                let wait = if told > 0 { told } else { LONGEST_WAIT };
                keys.put_aside(now.saturating_add(wait));
            }
            // Each key gets one go: while others waited, the first may have become usable again.
            if matches!(failure.class, Class::Billing | Class::RateLimit)
                && switches + 1 < keys.len()
                && keys.next(now)
            {
                switches += 1;
                rate = 0;
                let (n, of) = (dec(keys.current().0 as u64), dec(keys.len() as u64));
                run.say(&[&failure.message, "; going on with key ", &n, " of ", &of]);
                continue;
            }
            if told > LONGEST_WAIT {
                let wait = duration(told);
                failure.message = [&failure.message, "; the server says to wait ", &wait].concat();
            }
            return Err(failure);
        }
    }

    fn body(&self, ask: &Ask, rules: &Rules) -> Vec<u8> {
        let here = self.here();
        let body = Body {
            model: &here.model,
            messages: ask.messages,
            tools: ask.tools,
            max_tokens: self.max_tokens,
            thinking: self.thinking,
            reasoning_effort: &self.reasoning_effort,
            stream: self.stream,
        };
        request::body(&body, rules, here.origin)
    }

    /// Whether a change can help: a token limit must be lower than the one sent, and high enough for an answer when it
    /// only makes room.
    fn is_useful(&self, adapt: &Adapt, rules: &Rules, class: Class) -> bool {
        let Adapt::MaxTokens(n) = adapt else {
            return true;
        };
        let sent = rules.limit(self.max_tokens);
        (sent == 0 || *n < sent) && (class == Class::Unsupported || *n >= USEFUL_TOKENS)
    }

    /// Keeps what made the endpoint in use accept a request: changes and their causes.
    fn learn(&mut self, run: &mut Run, learned: &[(String, String)]) {
        if learned.is_empty() {
            return;
        }
        let here = self.here_mut();
        for (word, _) in learned {
            here.rules.recall(word);
        }
        let here = self.here();
        if let Err(e) = self.memory.learn(&here.base, &here.model, learned) {
            run.say(&["what this endpoint needs is not remembered: ", &e]);
        }
    }

    fn attempt(
        &mut self,
        run: &mut Run,
        ask: &Ask,
        rules: &Rules,
        body: &[u8],
    ) -> Result<Reply, Box<Failure>> {
        if run.eyes.shown.replace(false) {
            run.eyes.observer.get_mut().restart();
        }
        let url = self.here().base.chat(rules.has(ADD_V1));
        // Without a stream nothing comes before everything is ready.
        let stream = self.stream && !rules.has(NO_STREAM);
        let mut limits = self.limits;
        if !stream {
            limits.0 = limits.1;
        }
        let mut assembler = Assembler::new(ask.names);
        let mut done_at = 0;
        let mut sink = |piece: Piece, eyes: &Eyes| {
            let bytes = match piece {
                Piece::Head(head) => {
                    assembler.head(head);
                    return true;
                }
                Piece::Body(bytes) => bytes,
            };
            let more = assembler.push(bytes, &mut |delta| {
                eyes.shown.set(true);
                if let Ok(mut observer) = eyes.observer.try_borrow_mut() {
                    observer.delta(delta);
                }
            });
            if !assembler.finished() {
                return more;
            }
            // Bytes that keep coming (comments) don't prolong the wait for what may follow the end.
            let now = time::monotonic_ms();
            if !eyes.done.replace(true) {
                done_at = now;
            }
            more && now.saturating_sub(done_at) < TAIL_MS
        };
        let keys = &mut self.here_mut().keys;
        let sent = run.send(keys, ("POST", &url), body, limits, &mut sink)?;
        self.answered |= run.eyes.answered.get();
        let sent = match sent {
            Err(e) if assembler.finished() && !e.cancelled => Ok(()),
            other => other,
        };
        let reply = match assembler.finish(sent) {
            Ok(reply) => reply,
            Err(mut failure) => {
                explain(&mut failure, &self.here().keys, &url);
                return Err(failure);
            }
        };
        // A reply that came in one piece is shown in one piece.
        if !run.eyes.shown.get() {
            let observer = run.eyes.observer.get_mut();
            if !reply.reasoning.is_empty() {
                observer.delta(Delta::Reasoning(&reply.reasoning));
            }
            if !reply.content.is_empty() {
                observer.delta(Delta::Text(&reply.content));
            }
        }
        Ok(reply)
    }
}

/// The wait in ms after so many tries.
fn backoff(tries: u32) -> u64 {
    u64::from(1000u32 << tries.min(20)).min(LONGEST_WAIT)
}

/// Whether the network itself may be gone.
fn is_unreachable(failure: &Failure) -> bool {
    failure.class == Class::Transient && matches!(failure.stage, Stage::Lookup | Stage::Connect)
}

#[cfg(test)]
mod tests;
