//! Bytes of one HTTP reply → [`Reply`], whatever the server made of the protocol.

use super::transport;
use super::{Delta, Failure, Reply, failure};

/// Assembles one reply from the pieces a transport delivers.
pub struct Assembler {
    head: transport::Head,
    body: Vec<u8>,
}

impl Assembler {
    /// An assembler for a request that offered the tools named.
    pub fn new(tools: &[&str]) -> Assembler {
        let _ = tools;
        Assembler {
            head: transport::Head::default(),
            body: Vec::new(),
        }
    }

    /// Takes the reply's head. To be called before the first [`Assembler::push`]; a transport that sees no head need not.
    pub fn head(&mut self, head: &transport::Head) {
        self.head = head.clone();
    }

    /// Takes body bytes. False: nothing more is needed, stop reading.
    pub fn push(&mut self, bytes: &[u8], on: &mut dyn FnMut(Delta)) -> bool {
        let _ = on;
        self.body.extend_from_slice(bytes);
        true
    }

    /// Whether the model is done, so that the caller may shorten its idle limit to a few seconds.
    pub fn finished(&self) -> bool {
        false
    }

    /// Ends the reply with what the transport said.
    ///
    /// # Errors
    /// The typed failure of the attempt.
    pub fn finish(self, transport: Result<(), transport::Error>) -> Result<Reply, Failure> {
        match transport {
            Err(e) => Err(failure::from_transport(&e)),
            Ok(()) => Err(failure::classify(&self.head, &self.body)),
        }
    }
}
