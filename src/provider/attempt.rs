//! One attempt: a request goes out over an [`Io`], its pieces come in while the observer looks on.

use super::keys::Pool;
use super::transport::{self, Piece};
use super::{Class, Failure, Observer, Stage};
use crate::sys::process::Watch;
use crate::sys::{signal, time};
use crate::text::push_dec;
use std::cell::{Cell, RefCell};

/// What reaches the outside: the network and the passing of time. Tests put a script in its place.
pub trait Io {
    /// See [`transport::send`].
    ///
    /// # Errors
    /// As there.
    fn send(
        &mut self,
        request: &transport::Request,
        watch: &mut dyn Watch,
        sink: &mut dyn FnMut(Piece) -> bool,
    ) -> Result<(), transport::Error>;

    /// Lets `ms` pass, serving `watch`; true when that was cut short by a signal.
    fn wait(&mut self, ms: u64, watch: &mut dyn Watch) -> bool;

    /// Milliseconds on a clock that never jumps.
    fn now(&self) -> u64;
}

/// The device's own transports and clock.
pub struct Device(pub transport::Transport);

impl Io for Device {
    fn send(
        &mut self,
        request: &transport::Request,
        watch: &mut dyn Watch,
        sink: &mut dyn FnMut(Piece) -> bool,
    ) -> Result<(), transport::Error> {
        self.0.send(request, watch, sink)
    }

    fn wait(&mut self, ms: u64, watch: &mut dyn Watch) -> bool {
        let end = time::monotonic_ms().saturating_add(ms);
        loop {
            let left = end.saturating_sub(time::monotonic_ms());
            if signal::cancelled() {
                return true;
            }
            if left == 0 {
                return false;
            }
            let slice = if watch.tick() { left.min(100) } else { left };
            let mut fds = [libc::pollfd {
                fd: watch.fd().unwrap_or(-1),
                events: libc::POLLIN,
                revents: 0,
            }];
            if signal::wait(&mut fds, Some(slice), &mut signal::cancelled) {
                watch.ready();
            }
        }
    }

    fn now(&self) -> u64 {
        time::monotonic_ms()
    }
}

/// What an attempt works with.
pub struct Run<'a> {
    /// The network and the clock.
    pub io: &'a mut dyn Io,
    /// Who looks on.
    pub eyes: Eyes<'a>,
}

/// The observer, shared between the waiting and the arriving bytes, which never overlap.
pub struct Eyes<'a> {
    /// Who is told.
    pub observer: RefCell<&'a mut dyn Observer>,
    /// Text of an attempt was shown.
    pub shown: Cell<bool>,
    /// The model is done.
    pub done: Cell<bool>,
    /// A server sent something.
    pub answered: Cell<bool>,
}

impl<'a> Run<'a> {
    /// For one call of the client.
    pub fn new(io: &'a mut dyn Io, observer: &'a mut dyn Observer) -> Run<'a> {
        Run {
            io,
            eyes: Eyes {
                observer: RefCell::new(observer),
                shown: Cell::new(false),
                done: Cell::new(false),
                answered: Cell::new(false),
            },
        }
    }

    /// Tells the user.
    pub fn say(&mut self, parts: &[&str]) {
        self.eyes.observer.get_mut().notice(&parts.concat());
    }

    /// Waits, having said why.
    ///
    /// # Errors
    /// [`Class::Cancelled`] when the user cut it short.
    pub fn pause(&mut self, ms: u64, failure: &Failure) -> Result<(), Box<Failure>> {
        self.say(&[&failure.message, "; trying again in ", &duration(ms)]);
        self.wait(ms, failure.stage)
    }

    /// Waits without a word.
    ///
    /// # Errors
    /// [`Class::Cancelled`] when the user cut it short.
    pub fn wait(&mut self, ms: u64, stage: Stage) -> Result<(), Box<Failure>> {
        if self.io.wait(ms, &mut &self.eyes) {
            return Err(failed(Class::Cancelled, stage, "cancelled", ""));
        }
        Ok(())
    }

    /// Sends one request with the current key of `keys`, waiting at most `limits` ms: without a byte, in all. The outer
    /// error is a key that can't be sent.
    ///
    /// # Errors
    /// [`Class::Auth`] when the key holds what no key holds.
    pub fn send(
        &mut self,
        keys: &mut Pool,
        (method, url): (&'static str, &str),
        body: &[u8],
        (idle_ms, total_ms): (u64, u64),
        sink: &mut dyn FnMut(Piece, &Eyes) -> bool,
    ) -> Result<Result<(), transport::Error>, Box<Failure>> {
        let bearer = ["Bearer ", keys.take()].concat();
        if bearer.bytes().skip(7).any(|b| !b.is_ascii_graphic()) {
            let (_, source) = keys.current();
            let text = "the API key holds a blank, a line break or another character that no key has; it is from ";
            return Err(failed(Class::Auth, Stage::Setup, text, source));
        }
        let headers = [
            ("Content-Type", "application/json"),
            ("Accept", "text/event-stream, application/json"),
            ("Accept-Encoding", "identity"),
            ("User-Agent", concat!("cluade/", env!("CARGO_PKG_VERSION"))),
            ("Authorization", bearer.as_str()),
        ];
        // A GET has no content type; without a key there is no authorization, since an empty one is refused by some.
        let some = usize::from(body.is_empty())..4 + usize::from(bearer.len() > 7);
        let request = transport::Request {
            method,
            url,
            headers: headers.get(some).unwrap_or(&headers),
            body,
            idle_ms,
            total_ms,
            tail: &self.eyes.done,
        };
        let eyes = &self.eyes;
        eyes.done.set(false);
        Ok(self.io.send(&request, &mut &*eyes, &mut |piece| {
            eyes.answered.set(true);
            sink(piece, eyes)
        }))
    }
}

impl Watch for &Eyes<'_> {
    fn fd(&self) -> Option<i32> {
        self.observer.try_borrow_mut().ok()?.watch().fd()
    }

    fn ready(&mut self) {
        if let Ok(mut observer) = self.observer.try_borrow_mut() {
            observer.watch().ready();
        }
    }

    fn tick(&mut self) -> bool {
        match self.observer.try_borrow_mut() {
            Ok(mut observer) => observer.watch().tick(),
            Err(_) => false,
        }
    }
}

/// Adds to a failure what only we know: the URL asked, where the key came from. Takes out what nobody should see.
pub fn explain(failure: &mut Failure, keys: &Pool, url: &str) {
    keys.redact(&mut failure.message);
    if failure.class == Class::Auth {
        let source = keys.current().1;
        let note = if source.is_empty() {
            [" (no API key is set", "", ")"]
        } else {
            [" (the key is from ", source, ")"]
        };
        failure.message.push_str(&note.concat());
    }
    let astray = matches!(failure.status, 300..400 | 404 | 405)
        || failure.class == Class::Fatal && matches!(failure.status, 0 | 200);
    let query = memchr::memchr(b'?', url.as_bytes());
    let url = query.and_then(|i| url.get(..i)).unwrap_or(url);
    if astray && memchr::memmem::find(failure.message.as_bytes(), url.as_bytes()).is_none() {
        failure.message.push_str(" at ");
        failure.message.push_str(url);
    }
}

/// A failure of our own finding; its message in two parts.
pub fn failed(class: Class, stage: Stage, text: &str, more: &str) -> Box<Failure> {
    Box::new(Failure {
        class,
        stage,
        status: 0,
        message: [text, more].concat(),
        retry_after: None,
        adapt: None,
    })
}

/// A number as text.
pub fn dec(n: u64) -> String {
    let mut out = Vec::new();
    push_dec(&mut out, n);
    String::from_utf8(out).unwrap_or_default()
}

/// Milliseconds for people, rounded up: `4 s`, `12 min`, `3 h`.
pub fn duration(ms: u64) -> String {
    let mut n = u32::try_from(ms.div_ceil(1000)).unwrap_or(u32::MAX);
    let mut unit = " s";
    for (most, next) in [(120, " min"), (120, " h")] {
        if n < most {
            break;
        }
        n = n.div_ceil(60);
        unit = next;
    }
    [&dec(u64::from(n)), unit].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (ms, text) in [
            (0, "0 s"),
            (1, "1 s"),
            (4000, "4 s"),
            (119_000, "119 s"),
            (120_000, "2 min"),
            (7_140_000, "119 min"),
            (7_200_000, "2 h"),
            (u64::MAX, "1193047 h"),
        ] {
            assert_eq!(duration(ms), text);
        }
    }

    #[test]
    fn a_wait_serves_the_watch_and_takes_its_time() {
        struct Ticks(u32);
        impl Watch for Ticks {
            fn tick(&mut self) -> bool {
                self.0 += 1;
                true
            }
        }
        signal::install();
        let mut ticks = Ticks(0);
        let start = time::monotonic_ms();
        assert!(!Device(transport::Transport::live()).wait(150, &mut ticks));
        assert!(time::monotonic_ms() - start >= 150 && ticks.0 >= 2);
        assert!(!Device(transport::Transport::live()).wait(0, &mut ticks));
    }
}
