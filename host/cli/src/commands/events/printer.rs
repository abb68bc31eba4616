//! The output of events.

use clap::ValueEnum;
use serde_json::{Map, Value};

use super::event::{Event, Moment, moment_text};
use crate::{Cell, CliError, Table, Ui, output::ui, resources::catalog::Catalog, resources::places::address};

/// Format of events in the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum EventFormat {
    /// A table, for people
    #[default]
    Table,
    /// A list in YAML
    Yaml,
    /// A list in JSON; with --watch, a line for each event
    Json,
    /// The resource of each event, as TYPE/NAME
    Name,
}

/// Prints events.
pub(super) struct Printer<'c> {
    format: EventFormat,
    catalog: &'c Catalog,
    ui: Ui,
    /// True if each resource is printed with its place.
    is_placed: bool,
    table: Table,
}

impl<'c> Printer<'c> {
    pub(super) fn new(format: EventFormat, catalog: &'c Catalog, ui: Ui, is_placed: bool) -> Self {
        Self { format, catalog, ui, is_placed, table: Table::new(["time", "event", "resource", "what happened"]) }
    }

    /// Prints the kept events. `is_end` means that no others follow.
    pub(super) fn all(&mut self, events: &[Event], is_end: bool) -> Result<(), CliError> {
        match self.format {
            EventFormat::Table => {
                events.iter().for_each(|event| self.row(event));
                if is_end && self.table.is_empty() {
                    return Ok(());
                }
                ui::print(self.table.render(&self.ui))?;
                self.table.drain(&self.ui);
                Ok(())
            }
            EventFormat::Json if is_end => {
                let events: Vec<Value> = events.iter().map(|event| self.value(event)).collect();
                ui::line(format!("{:#}", serde_json::json!({ "events": events })))
            }
            EventFormat::Yaml if events.is_empty() && is_end => ui::line("[]"),
            EventFormat::Yaml | EventFormat::Json | EventFormat::Name => self.further(events),
        }
    }

    /// Prints further events.
    pub(super) fn further(&mut self, events: &[Event]) -> Result<(), CliError> {
        if events.is_empty() {
            return Ok(());
        }
        let text = match self.format {
            EventFormat::Table => {
                events.iter().for_each(|event| self.row(event));
                self.table.drain(&self.ui)
            }
            EventFormat::Json => events.iter().map(|event| format!("{}\n", self.value(event))).collect(),
            EventFormat::Yaml => events.iter().map(|event| yaml(&self.value(event))).collect(),
            EventFormat::Name => events.iter().map(|event| format!("{}\n", self.resource(event))).collect(),
        };
        ui::print(text)
    }

    fn resource(&self, event: &Event) -> String {
        address(&event.id, self.is_placed, self.catalog)
    }

    fn row(&mut self, event: &Event) {
        let time = match event.moment {
            Moment::At(time) => moment_text(time),
            Moment::After(time) => format!("after {}", moment_text(time)),
            Moment::Unknown => "-".to_owned(),
        };
        let kind = Cell::styled(event.kind.style(), event.kind.word());
        self.table.row(vec![time.into(), kind, self.resource(event).into(), event.text.as_str().into()]);
    }

    fn value(&self, event: &Event) -> Value {
        let mut fields = Map::new();
        let mut put = |name: &str, value: String| {
            fields.insert(name.to_owned(), value.into());
        };
        match event.moment {
            Moment::At(time) => put("time", time.to_string()),
            Moment::After(time) => put("after", time.to_string()),
            Moment::Unknown => {}
        }
        put("event", event.kind.word().to_owned());
        put("resource", self.resource(event));
        if !event.id.uid.is_empty() {
            put("uid", event.id.uid.clone());
        }
        put("message", event.text.clone());
        Value::Object(fields)
    }
}

/// Writes an event as an item of a list. Texts of JSON are texts of YAML, too.
pub(super) fn yaml(event: &Value) -> String {
    let fields = event.as_object().into_iter().flatten().enumerate();
    fields.map(|(at, (name, value))| format!("{} {name}: {value}\n", if at == 0 { "-" } else { " " })).collect()
}
