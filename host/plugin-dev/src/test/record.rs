//! Recordings: the host calls of a reconciler and their answers, in a file next to the case's, compared call by call.
//!
//! A recording belongs to one state of its case: after a change of the fixtures it is rejected, since its answers
//! belong to other input.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use mortise_cli::CliError;
use mortise_durable_fs::{AtomicFile, FsError};
use mortise_plugin_host::Failure;
use mortise_resource::Code;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    codec::Codec,
    exchange::{Answer, Exchange, HostCall, Responder},
};
use crate::fault;

/// The recordings of the cases of one file, by their names.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Recordings {
    #[serde(flatten)]
    by_name: BTreeMap<String, Recording>,
}

/// Host calls of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Recording {
    /// SHA-256 of the case's input for the reconciler.
    pub(super) fixture: String,
    calls: Vec<RecordedCall>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct RecordedCall {
    ask: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<RecordedFailure>,
    #[serde(default)]
    answer: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct RecordedFailure {
    code: u32,
    message: String,
}

/// Path of the recordings for a file of cases.
pub(super) fn path_of(cases: &Path) -> PathBuf {
    cases.with_extension("recorded.json")
}

impl Recordings {
    /// Loads the recordings for a file of cases; empty without a recording.
    pub(super) fn load(cases: &Path) -> Result<Self, CliError> {
        let path = path_of(cases);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(e) => return Err(fault::file("read", &path)(e)),
        };
        serde_json::from_str(&text).map_err(|e| {
            fault::usage(
                format!("{}: {e}", path.display()),
                "`mortise plugin test --record` writes it again; or restore it from version control",
            )
        })
    }

    pub(super) fn get(&self, case: &str) -> Option<&Recording> {
        self.by_name.get(case)
    }

    pub(super) fn put(&mut self, case: &str, recording: Recording) {
        self.by_name.insert(case.to_owned(), recording);
    }

    /// Writes the recordings of the cases that still exist.
    pub(super) fn store(&mut self, cases: &Path, names: &[String]) -> Result<PathBuf, CliError> {
        self.by_name.retain(|name, _| names.contains(name));
        let path = path_of(cases);
        let text = serde_json::to_string_pretty(self).unwrap_or_default() + "\n";
        let write = || {
            let mut file = AtomicFile::new_beside(&path)?;
            file.write_all(text.as_bytes()).map_err(FsError::with_path(&path, "write"))?;
            file.replace()
        };
        write().map_err(|e| fault::file("write", &path)(e.source))?;
        Ok(path)
    }
}

impl Recording {
    /// Makes a recording of host calls.
    pub(super) fn new(fixture: String, exchanges: &[Exchange], codec: &Codec) -> Self {
        let call = |exchange: &Exchange| {
            let ask = exchange.ask.json(codec);
            match &exchange.answer {
                Ok(answer) => RecordedCall { ask, failure: None, answer: answer.json(codec) },
                Err(Failure { code, message }) => RecordedCall {
                    ask,
                    failure: Some(RecordedFailure { code: *code, message: message.clone() }),
                    answer: Value::Null,
                },
            }
        };
        Self { fixture, calls: exchanges.iter().map(call).collect() }
    }
}

/// Answers from the recording, as long as the calls match it.
pub(super) struct Replay {
    recording: Recording,
    codec: Arc<Codec>,
    now: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: usize,
    differs: Option<String>,
}

impl Replay {
    pub(super) fn new(recording: Recording, codec: Arc<Codec>, now: u64) -> Arc<Self> {
        Arc::new(Self { recording, codec, now, state: Mutex::default() })
    }

    /// Returns the first difference from the recording, once the call is over.
    pub(super) fn difference(&self) -> Option<String> {
        let state = self.state.lock();
        if state.differs.is_some() {
            return state.differs.clone();
        }
        let missing = self.recording.calls.get(state.next)?;
        let (place, count) = (state.next + 1, self.recording.calls.len());
        Some(format!("host call {place} of {count} is recorded, but was not made:\n{}", lines("-", &missing.ask)))
    }
}

#[async_trait]
impl Responder for Replay {
    async fn answer(&self, ask: &HostCall) -> Result<Answer, Failure> {
        let mut state = self.state.lock();
        let differs = || Failure::new(Code::Aborted, "this call differs from the recorded one");
        if state.differs.is_some() {
            return Err(differs());
        }
        let (asked, place, count) = (ask.json(&self.codec), state.next + 1, self.recording.calls.len());
        let Some(recorded) = self.recording.calls.get(state.next) else {
            state.differs =
                Some(format!("host call {place} is one more than the {count} recorded:\n{}", lines("+", &asked)));
            return Err(differs());
        };
        if recorded.ask != asked {
            let pretty = |json: &Value| serde_json::to_string_pretty(json).unwrap_or_default() + "\n";
            let diff = mortise_text::diff::unified(&pretty(&recorded.ask), &pretty(&asked), ("recorded", "asked"));
            state.differs = Some(format!("host call {place} of {count} differs from the recorded one:\n{diff}"));
            return Err(differs());
        }
        state.next += 1;
        match &recorded.failure {
            Some(RecordedFailure { code, message }) => Err(Failure { code: *code, message: message.clone() }),
            None => ask.read_answer(&recorded.answer, &self.codec).map_err(|what| {
                state.differs = Some(format!("the recorded answer to host call {place} cannot be read: {what}"));
                differs()
            }),
        }
    }

    fn now(&self) -> u64 {
        self.now
    }
}

/// Renders JSON with a sign before each line.
fn lines(sign: &str, json: &Value) -> String {
    let text = serde_json::to_string_pretty(json).unwrap_or_default();
    text.lines().map(|line| format!("{sign}{line}\n")).collect()
}
