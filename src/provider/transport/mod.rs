//! Transports: bytes over HTTP by whatever the device has. They know nothing of chat.

use super::Stage;
use crate::sys::process::Watch;

/// One HTTP request.
pub struct Request<'a> {
    /// `POST` or `GET`.
    pub method: &'static str,
    /// The whole URL.
    pub url: &'a str,
    /// Header fields in order; values may hold secrets.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body; empty for GET.
    pub body: &'a [u8],
    /// Milliseconds without a byte before giving up.
    pub idle_ms: u64,
    /// Milliseconds in all before giving up.
    pub total_ms: u64,
}

/// What the reply's head said.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Head {
    /// The HTTP status.
    pub status: u16,
    /// Header fields in order, names in lower case. Empty when the transport can't see them (uclient-fetch).
    pub headers: Vec<(String, String)>,
}

/// A piece of a reply.
pub enum Piece<'a> {
    /// The head, once, before any body byte.
    Head(&'a Head),
    /// Body bytes as they came.
    Body(&'a [u8]),
}

/// Why there is no whole reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// Where it failed.
    pub stage: Stage,
    /// Whether another try may help.
    pub transient: bool,
    /// Whether it was Ctrl-C or a signal.
    pub cancelled: bool,
    /// What the transport said, one line, without secrets.
    pub message: String,
}

/// Sends `request` and hands the reply's pieces to `sink`, which says whether to go on reading (false: it has all it
/// needs, which is a success).
///
/// # Errors
/// With the stage that failed. A reply with any status is a success here, and so is a body: whether it is whole in the
/// sense of the chat is not the transport's business, but a body shorter than announced is an error.
pub fn send(
    request: &Request,
    watch: &mut dyn Watch,
    sink: &mut dyn FnMut(Piece) -> bool,
) -> Result<(), Error> {
    let _ = (request, watch, sink);
    Err(Error {
        stage: Stage::Setup,
        transient: false,
        cancelled: false,
        message: "no transport".into(),
    })
}
