//! Format of resources in the output: `-o FORMAT`.

use std::{ffi::OsStr, sync::Arc};

use clap::{
    Arg, Command,
    builder::{PossibleValue, StringValueParser, TypedValueParser},
};

use super::template::{CustomColumns, Template, TemplateError};

/// Format of resources in the output.
#[derive(Debug, Clone)]
pub(crate) enum Output {
    /// A table with the columns of the type.
    Table,
    /// A table with more columns.
    Wide,
    /// YAML, which apply can read.
    Yaml,
    /// JSON, which apply can read.
    Json,
    /// TYPE/NAME, one a line, with the place of a resource that is elsewhere.
    Name,
    /// Text by a template.
    Template(Arc<Template>),
    /// A table with columns by paths.
    Columns(Arc<CustomColumns>),
}

/// Formats by their names.
const NAMED: [(&str, Output); 5] = [
    ("table", Output::Table),
    ("wide", Output::Wide),
    ("yaml", Output::Yaml),
    ("json", Output::Json),
    ("name", Output::Name),
];

/// Fault in a format.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    #[error("use table, wide, yaml, json, name, jsonpath=TEMPLATE or custom-columns=NAME:PATH,…")]
    Unknown,
    #[error("Mortise has no Go templates; use jsonpath=TEMPLATE or custom-columns=NAME:PATH,…")]
    GoTemplate,
    #[error(transparent)]
    Template(#[from] TemplateError),
}

fn output(text: &str) -> Result<Output, OutputError> {
    match text.split_once('=') {
        Some(("jsonpath", template)) => Ok(Output::Template(Arc::new(Template::parse(template)?))),
        Some(("custom-columns", columns)) => Ok(Output::Columns(Arc::new(CustomColumns::parse(columns)?))),
        _ if text.starts_with("go-template") => Err(OutputError::GoTemplate),
        _ => NAMED.into_iter().find(|(name, _)| *name == text).map(|(_, output)| output).ok_or(OutputError::Unknown),
    }
}

impl Output {
    /// Returns whether the format is a table.
    pub(crate) fn is_table(&self) -> bool {
        matches!(self, Self::Table | Self::Wide | Self::Columns(_))
    }
}

/// Parser of a format, with the names that shells complete.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputParser;

impl TypedValueParser for OutputParser {
    type Value = Output;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Output, clap::Error> {
        StringValueParser::new().try_map(|text| output(&text)).parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(NAMED.into_iter().map(|(name, _)| PossibleValue::new(name))))
    }
}
