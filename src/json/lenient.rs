//! The lenient reading of tool arguments. To be deepened: double encoding, raw control characters.

use super::value::{Kind, parse};

/// Reads a tool call's arguments as servers send them and returns them as one JSON object's text. Nothing, white space
/// and `null` mean `{}`.
///
/// # Errors
/// A phrase for the model saying why the text is no object.
pub fn arguments(text: &[u8]) -> Result<Vec<u8>, String> {
    if text.trim_ascii().is_empty() || text.trim_ascii() == b"null" {
        return Ok(b"{}".to_vec());
    }
    match parse(text) {
        Ok(v) if v.kind() == Kind::Object => Ok(v.raw().to_vec()),
        Ok(_) => Err("the arguments are not a JSON object".into()),
        Err(e) => Err(format!(
            "the arguments are not valid JSON: {} at byte {}",
            e.what, e.at
        )),
    }
}
