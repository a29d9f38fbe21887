//! Standard input as one queue of lines: prompts and answers to questions come from the same place, in the order they
//! were given, whether typed or piped.

use crate::sys::{out, signal, tty};

/// What a read came to.
#[derive(PartialEq, Eq, Debug)]
pub enum Line {
    /// A line without its end.
    Text(Vec<u8>),
    /// Nothing more will come.
    End,
    /// Ctrl-C, or a signal to leave.
    Interrupted,
}

/// The queue.
#[derive(Default)]
pub struct Input {
    /// Read and not yet a line.
    rest: Vec<u8>,
    /// Few at a time: a turn lies between two.
    lines: Vec<Vec<u8>>,
    ended: bool,
}

impl Input {
    /// The next line, waiting for it as long as it takes.
    pub fn line(&mut self) -> Line {
        loop {
            if !self.lines.is_empty() {
                return Line::Text(self.lines.remove(0));
            }
            if signal::cancelled() {
                return Line::Interrupted;
            }
            if self.ended {
                return Line::End;
            }
            self.fill(None);
        }
    }

    /// The answer to a question shown just now. On a terminal what was typed before does not count: it stays queued as
    /// prompts. From a pipe the next line is the answer.
    pub fn answer(&mut self) -> Line {
        if !tty::is_tty(0) {
            return self.line();
        }
        let before = std::mem::take(&mut self.lines);
        let answer = self.line();
        let mut after = std::mem::replace(&mut self.lines, before);
        self.lines.append(&mut after);
        answer
    }

    /// Takes in what is there already, without waiting.
    pub fn drain(&mut self) {
        while !self.ended && self.fill(Some(0)) {}
    }

    /// Waits up to `ms` and reads once. Returns whether something was read.
    fn fill(&mut self, ms: Option<u64>) -> bool {
        let mut fds = [out::readable(0)];
        if !signal::wait(&mut fds, ms, &mut signal::cancelled) {
            return false;
        }
        let mut buf = [0; 4096];
        match out::read(0, &mut buf) {
            Ok(0) => {
                self.ended = true;
                if !self.rest.is_empty() {
                    self.lines.push(std::mem::take(&mut self.rest));
                }
            }
            Ok(n) => {
                for &b in &buf[..n] {
                    if b == b'\n' {
                        self.lines.push(std::mem::take(&mut self.rest));
                    } else {
                        self.rest.push(b);
                    }
                }
            }
            Err(_) => self.ended = true,
        }
        !self.ended
    }
}
