//! Format of resources in the output: `-o FORMAT`.

use std::{ffi::OsStr, path::Path, sync::Arc};

use clap::{
    Arg, Command,
    builder::{PossibleValue, StringValueParser, TypedValueParser},
};
use serde_json::Value;

use super::{
    go_template::{GoTemplate, GoTemplateError},
    template::{CustomColumns, Template, TemplateError},
};
use crate::{CliError, Exit, Ui};

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
    Template(Arc<TextTemplate>),
    /// A table with columns by paths.
    Columns(Arc<CustomColumns>),
}

/// A template of one of the two kinds.
#[derive(Debug)]
pub(crate) enum TextTemplate {
    Paths(Template),
    Go(GoTemplate),
}

impl TextTemplate {
    /// Prints a resource, or the list of many.
    ///
    /// # Errors
    /// A Go template fails with this data.
    pub(crate) fn print(&self, value: &Value, ui: &Ui) -> Result<String, CliError> {
        let text = match self {
            Self::Paths(template) => template.print(value),
            Self::Go(template) => template.print(value).map_err(|error| CliError::because(Exit::Failed, error))?,
        };
        Ok(ui.users_text(text))
    }
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
    #[error(
        "use table, wide, yaml, json, name, jsonpath=TEMPLATE, custom-columns=NAME:PATH,…, go-template=TEMPLATE or \
         go-template-file=FILE"
    )]
    Unknown,
    #[error(transparent)]
    GoTemplate(#[from] GoTemplateError),
    #[error(transparent)]
    Template(#[from] TemplateError),
}

fn output(text: &str) -> Result<Output, OutputError> {
    match text.split_once('=') {
        Some(("jsonpath", template)) => Ok(Output::text(TextTemplate::Paths(Template::parse(template)?))),
        Some(("go-template", template)) => Ok(Output::text(TextTemplate::Go(GoTemplate::parse(template)?))),
        Some(("go-template-file", file)) => Ok(Output::text(TextTemplate::Go(GoTemplate::read(Path::new(file))?))),
        Some(("custom-columns", columns)) => Ok(Output::Columns(Arc::new(CustomColumns::parse(columns)?))),
        _ => NAMED.into_iter().find(|(name, _)| *name == text).map(|(_, output)| output).ok_or(OutputError::Unknown),
    }
}

impl Output {
    fn text(template: TextTemplate) -> Self {
        Self::Template(Arc::new(template))
    }

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
