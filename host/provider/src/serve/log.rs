//! Lines of the log for core, as JSON on stderr: core shows them at its level `TF_LOG_PROVIDER` or `TF_LOG`.
//!
//! Only events of this program's crates become lines. Events of libraries may hold the headers of a call, and so the
//! token. A line holds at most [`MAX_VALUE_BYTES`] for each value; core splits lines of more than 64 KiB.

use std::{
    fmt::{self, Write as _},
    io::Write as _,
};

use serde_json::{Map, Value};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt as _},
    util::SubscriberInitExt as _,
};

/// Variables with core's level, the first one first.
const VARIABLES: [&str; 2] = ["TF_LOG_PROVIDER", "TF_LOG"];

/// Start of the names of this program's crates.
const OWN_TARGET: &str = "mortise";

/// Most bytes of a value in a line.
const MAX_VALUE_BYTES: usize = 4_096;

/// Starts the log if core shows one.
pub(super) fn start(env: &dyn Fn(&str) -> Option<String>) {
    if let Some(level) = level(env) {
        // Fails only in a process that has a log already.
        let _ = tracing_subscriber::registry().with(Lines { level }).try_init();
    }
}

/// Core's level; like core, takes an unknown word as the lowest one.
fn level(env: &dyn Fn(&str) -> Option<String>) -> Option<LevelFilter> {
    let text = VARIABLES.iter().find_map(|name| env(name).filter(|text| !text.is_empty()))?;
    match text.to_ascii_uppercase().as_str() {
        "OFF" => None,
        "ERROR" => Some(LevelFilter::ERROR),
        "WARN" => Some(LevelFilter::WARN),
        "INFO" => Some(LevelFilter::INFO),
        "DEBUG" => Some(LevelFilter::DEBUG),
        _ => Some(LevelFilter::TRACE),
    }
}

/// Writes events as lines.
struct Lines {
    level: LevelFilter,
}

impl Lines {
    fn shows(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level && metadata.target().starts_with(OWN_TARGET)
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.shows(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if !self.shows(event.metadata()) {
            return;
        }
        // Without a reader of stderr the line is lost, and nothing else.
        let _ = std::io::stderr().lock().write_all(line(event).as_bytes());
    }
}

/// The line of an event. Core takes texts alone as values of `@…`.
fn line(event: &Event<'_>) -> String {
    let mut values = Values(Map::new());
    event.record(&mut values);
    let Values(mut values) = values;
    let message = values.remove("message").unwrap_or_else(|| Value::String(String::new()));
    let level = match *event.metadata().level() {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    };
    let time = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    values.insert("@level".to_owned(), level.into());
    values.insert("@message".to_owned(), message);
    values.insert("@module".to_owned(), "mortise".into());
    values.insert("@timestamp".to_owned(), time.into());
    format!("{}\n", Value::Object(values))
}

/// Values of an event as texts.
struct Values(Map<String, Value>);

impl Visit for Values {
    fn record_str(&mut self, field: &Field, value: &str) {
        let end = value.floor_char_boundary(MAX_VALUE_BYTES);
        self.0.insert(field.name().to_owned(), value.get(..end).unwrap_or_default().into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // Writing to a text does not fail.
        let _ = write!(text, "{value:?}");
        self.record_str(field, &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_is_that_of_core() {
        let level_of = |provider: &str, all: &str| {
            level(&|name| Some(if name == "TF_LOG" { all.to_owned() } else { provider.to_owned() }))
        };
        assert_eq!(level_of("", ""), None);
        assert_eq!(level_of("", "debug"), Some(LevelFilter::DEBUG));
        assert_eq!(level_of("ERROR", "TRACE"), Some(LevelFilter::ERROR));
        assert_eq!(level_of("off", "TRACE"), None);
        assert_eq!(level_of("", "JSON"), Some(LevelFilter::TRACE));
        assert_eq!(level(&|_| None), None);
    }

    /// Collects lines.
    #[derive(Clone, Default)]
    struct Collector(std::sync::Arc<std::sync::Mutex<Vec<String>>>);

    impl<S: Subscriber> Layer<S> for Collector {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            if (Lines { level: LevelFilter::DEBUG }).shows(event.metadata()) {
                self.0.lock().unwrap().push(line(event));
            }
        }
    }

    #[test]
    fn a_line_holds_texts_alone_and_libraries_write_none() {
        let lines = Collector::default();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines.clone()), || {
            tracing::debug!(number = 7, text = "a\"b\n", long = "x".repeat(10_000), "called {}", 1);
            tracing::trace!("below the level");
            tracing::error!(target: "h2::codec", token = "secret", "a header");
        });
        let lines = lines.0.lock().unwrap();
        let [line] = lines.as_slice() else { panic!("{lines:?}") };
        assert!(line.ends_with('\n') && line.matches('\n').count() == 1 && line.len() < 5_000);
        let parsed: Map<String, Value> = serde_json::from_str(line).unwrap();
        assert!(parsed.values().all(Value::is_string), "{line}");
        assert_eq!(parsed["@level"], "debug");
        assert_eq!(parsed["@message"], "called 1");
        assert_eq!(parsed["number"], "7");
        assert_eq!(parsed["text"], "a\"b\n");
        let time = parsed["@timestamp"].as_str().unwrap();
        assert!(time.len() == "2006-01-02T15:04:05.000000Z".len() && time.ends_with('Z'), "{time}");
    }
}
