//! The list of models an endpoint offers.

use super::attempt::{Device, Io, Run, explain, failed};
use super::client::Client;
use super::endpoint::ADD_V1;
use super::reply::Assembler;
use super::transport::{Head, Piece};
use super::{Class, Failure, Observer, Stage};
use crate::json;

/// The largest list of models read.
const MAX_LIST: usize = 4 << 20;

impl Client {
    /// The ids of the models the configured endpoint offers, sorted.
    ///
    /// # Errors
    /// The failure of the request, or [`Class::Fatal`] when the answer is no list of models.
    pub fn list_models(&mut self, observer: &mut dyn Observer) -> Result<Vec<String>, Failure> {
        let mut device = Device(std::mem::take(&mut self.transport));
        let result = self.list_models_over(&mut device, observer);
        self.transport = device.0;
        result
    }

    /// [`Client::list_models`] over another network and clock.
    ///
    /// # Errors
    /// As there.
    pub fn list_models_over(
        &mut self,
        io: &mut dyn Io,
        observer: &mut dyn Observer,
    ) -> Result<Vec<String>, Failure> {
        let mut run = Run::new(io, observer);
        self.at = 0;
        self.here_mut().keys.choose(run.io.now());
        let v1 = self.here().rules.has(ADD_V1);
        let mut result = self.models(&mut run, v1);
        if let Err(f) = &result
            && matches!(f.status, 404 | 405)
            && !v1
            && self.here().base.lacks_version()
        {
            result = self.models(&mut run, true);
        }
        result.map_err(|failure| *failure)
    }

    fn models(&mut self, run: &mut Run, v1: bool) -> Result<Vec<String>, Box<Failure>> {
        let url = self.here().base.models(v1);
        let mut head = Head::default();
        let mut body = Vec::new();
        let limits = self.limits;
        let keys = &mut self.here_mut().keys;
        let sent = run.send(keys, ("GET", &url), b"", limits, &mut |piece, _| {
            match piece {
                Piece::Head(h) => head = h.clone(),
                Piece::Body(bytes) => body.extend_from_slice(bytes),
            }
            body.len() <= MAX_LIST
        })?;
        let good = matches!(head.status, 0 | 200..300);
        if good
            && sent.is_ok()
            && let Some(list) = model_ids(&body)
        {
            return Ok(list);
        }
        let reached = sent.is_ok();
        let mut assembler = Assembler::new(&[]);
        assembler.head(&head);
        assembler.push(&body, &mut |_| {});
        let mut failure = match assembler.finish(sent) {
            Err(failure) if !good || !reached => failure,
            _ => {
                let text = "the answer is no list of models";
                failed(Class::Fatal, Stage::Body, text, "")
            }
        };
        explain(&mut failure, &self.here().keys, &url);
        Err(failure)
    }
}

/// The ids in a list of models: OpenAI's `data`, Ollama's `models`, or a bare array; of objects or of strings.
fn model_ids(body: &[u8]) -> Option<Vec<String>> {
    let value = json::parse(body).ok()?;
    let list = value.get("data").or_else(|| value.get("models"));
    let list = list.unwrap_or(value);
    if list.kind() != json::Kind::Array {
        return None;
    }
    let mut ids: Vec<String> = Vec::new();
    for item in list.items() {
        let id = item.string().or_else(|| item.get_string("id"));
        if let Some(id) = id.or_else(|| item.get_string("name")) {
            // Sorted, each once.
            if let Err(at) = ids.binary_search(&id) {
                ids.insert(at, id);
            }
        }
    }
    Some(ids)
}
