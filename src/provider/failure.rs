//! Failures: status and typed codes → [`Class`], then tables of words.

use super::transport::{self, Head};
use super::{Class, Failure, Stage};
use crate::json::Value;

/// Judges a reply whose status is not 2xx.
pub fn classify(head: &Head, body: &[u8]) -> Failure {
    let _ = body;
    Failure {
        class: Class::Fatal,
        stage: Stage::Status,
        status: head.status,
        message: format!("HTTP {}", head.status),
        retry_after: None,
        adapt: None,
    }
}

/// Judges an error object that came inside a reply. `status` is 0 when only the object can tell.
pub fn from_error_json(value: Value, status: u16) -> Failure {
    let _ = value;
    Failure {
        class: Class::Fatal,
        stage: Stage::Body,
        status,
        message: String::new(),
        retry_after: None,
        adapt: None,
    }
}

/// Judges what a transport said.
pub fn from_transport(error: &transport::Error) -> Failure {
    Failure {
        class: if error.cancelled {
            Class::Cancelled
        } else if error.transient {
            Class::Transient
        } else {
            Class::Fatal
        },
        stage: error.stage,
        status: 0,
        message: error.message.clone(),
        retry_after: None,
        adapt: None,
    }
}
