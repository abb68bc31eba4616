//! `-o jsonpath=TEMPLATE` and `-o custom-columns=NAME:PATH,…`, in kubectl's forms.
//!
//! A template is text with expressions in braces: a JSONPath (RFC 9535) with or without `$`, a text in double quotes
//! with `\n` and `\t`, or `range PATH` up to `end`. Without braces the whole is a path. Many resources are the list
//! `resources`, also called `items`. A path with several values prints them with blanks between. A template has at most
//! [`MAX_BYTES`] and [`MAX_DEPTH`] ranges within each other.

use serde_json::Value;
use serde_json_path::{JsonPath, ParseError};

/// Longest template, in bytes.
const MAX_BYTES: usize = 4_096;

/// Most ranges within each other.
const MAX_DEPTH: usize = 4;

/// Most columns of a table.
const MAX_COLUMNS: usize = 64;

/// Value of an empty column, as kubectl prints it.
const NO_VALUE: &str = "<none>";

/// Fault in a template.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error("the template has more than {MAX_BYTES} bytes, {MAX_COLUMNS} columns or {MAX_DEPTH} ranges in each other")]
    TooLarge,
    #[error("the template lacks a closing brace or {{end}}")]
    Open,
    #[error("the template has {{end}} without {{range}}")]
    Closed,
    #[error("{0:?} is not NAME:PATH; use custom-columns=NAME:.id.name,GENRE:.data.genre")]
    Column(String),
    #[error("{0:?} is not a path; use .data.name, .data.list[0] or .data[\"a-b\"]: {1}")]
    Path(String, #[source] Box<ParseError>),
}

/// A parsed template.
#[derive(Debug, Clone)]
pub(crate) struct Template(Vec<Part>);

#[derive(Debug, Clone)]
enum Part {
    Text(String),
    Path(JsonPath),
    Range(JsonPath, Vec<Part>),
}

impl Template {
    /// Parses kubectl's form.
    pub(crate) fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.len() > MAX_BYTES {
            return Err(TemplateError::TooLarge);
        }
        if !text.contains('{') {
            return Ok(Self(vec![Part::Path(path(text)?)]));
        }
        // The outer parts of open ranges, with their paths.
        let mut open: Vec<(Option<JsonPath>, Vec<Part>)> = vec![(None, Vec::new())];
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (inner, after) = expression(after).ok_or(TemplateError::Open)?;
            rest = after;
            let part = match inner.trim() {
                "end" => {
                    let (Some(range), parts) = open.pop().ok_or(TemplateError::Closed)? else {
                        return Err(TemplateError::Closed);
                    };
                    let parts = [parts, vec![Part::Text(before.to_owned())]].concat();
                    open.last_mut().ok_or(TemplateError::Closed)?.1.push(Part::Range(range, parts));
                    continue;
                }
                inner => {
                    match (inner.strip_prefix("range "), inner.strip_prefix('"').and_then(|i| i.strip_suffix('"'))) {
                        (Some(range), _) => Part::Range(path(range)?, Vec::new()),
                        (None, Some(text)) => Part::Text(unescaped(text)),
                        (None, None) => Part::Path(path(inner)?),
                    }
                }
            };
            let depth = open.len();
            let parts = &mut open.last_mut().ok_or(TemplateError::Closed)?.1;
            parts.push(Part::Text(before.to_owned()));
            match part {
                Part::Range(..) if depth > MAX_DEPTH => return Err(TemplateError::TooLarge),
                Part::Range(range, _) => open.push((Some(range), Vec::new())),
                part => parts.push(part),
            }
        }
        match open.pop() {
            Some((None, mut parts)) => {
                parts.push(Part::Text(rest.to_owned()));
                Ok(Self(parts))
            }
            _ => Err(TemplateError::Open),
        }
    }

    /// Prints a resource, or the list of many.
    pub(crate) fn print(&self, value: &Value) -> String {
        let mut out = String::new();
        print(&self.0, value, &mut out);
        out
    }
}

fn print(parts: &[Part], value: &Value, out: &mut String) {
    for part in parts {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Path(path) => out.push_str(&joined(path, value, " ")),
            Part::Range(path, inner) => path.query(value).all().into_iter().for_each(|item| print(inner, item, out)),
        }
    }
}

/// Values at a path on one line.
fn joined(path: &JsonPath, value: &Value, between: &str) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    path.query(value).all().into_iter().map(text).collect::<Vec<_>>().join(between)
}

/// Splits at the brace that closes an expression; braces in quotes do not.
fn expression(text: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    let mut is_escaped = false;
    let end = text.find(|letter: char| {
        let was_escaped = is_escaped;
        is_escaped = letter == '\\' && !was_escaped;
        match quote {
            Some(open) if letter == open && !was_escaped => quote = None,
            None if letter == '"' || letter == '\'' => quote = Some(letter),
            None => return letter == '}',
            Some(_) => {}
        }
        false
    })?;
    Some((text.get(..end)?, text.get(end + 1..)?))
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let escaped = if letter == '\\' { letters.next() } else { None };
        out.push(match escaped {
            Some('n') => '\n',
            Some('t') => '\t',
            Some(other) => other,
            None => letter,
        });
    }
    out
}

/// Parses a path in kubectl's form: without `$`, or with `@`; `items` is the list of resources.
fn path(text: &str) -> Result<JsonPath, TemplateError> {
    let text = text.trim();
    let bare = text.strip_prefix(['$', '@']).unwrap_or(text);
    let bare = match bare.strip_prefix(".items") {
        Some(rest) if rest.is_empty() || rest.starts_with(['[', '.']) => format!(".resources{rest}"),
        _ if bare.is_empty() || bare.starts_with(['.', '[']) => bare.to_owned(),
        _ => format!(".{bare}"),
    };
    let bare = if bare == "." { String::new() } else { own_names(&bare) };
    JsonPath::parse(&format!("${bare}")).map_err(|error| TemplateError::Path(text.to_owned(), Box::new(error)))
}

/// Places of kubectl's metadata.
const KUBECTL_NAMES: [(&str, &str); 4] = [
    (".metadata.name", ".id.name"),
    (".metadata.namespace", ".id.tenancy.namespace"),
    (".metadata.labels", ".meta.labels"),
    (".metadata.annotations", ".meta.annotations"),
];

/// Writes kubectl's paths into the metadata as those of a resource here, as orders and selectors of fields take them.
fn own_names(path: &str) -> String {
    let mut out = path.to_owned();
    for (theirs, ours) in KUBECTL_NAMES {
        let mut rest = std::mem::take(&mut out);
        while let Some((before, after)) = rest.split_once(theirs) {
            let is_whole = !after.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_');
            out.push_str(before);
            out.push_str(if is_whole { ours } else { theirs });
            rest = after.to_owned();
        }
        out.push_str(&rest);
    }
    out
}

/// Columns of a table by paths.
#[derive(Debug, Clone)]
pub(crate) struct CustomColumns(Vec<(String, JsonPath)>);

impl CustomColumns {
    /// Parses `NAME:PATH,NAME:PATH`.
    pub(crate) fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.len() > MAX_BYTES || text.split(',').count() > MAX_COLUMNS {
            return Err(TemplateError::TooLarge);
        }
        let column = |column: &str| {
            let (name, inner) = column.split_once(':').ok_or_else(|| TemplateError::Column(column.to_owned()))?;
            let inner = inner.trim_matches(['{', '}']);
            Ok((name.trim().to_owned(), path(inner)?))
        };
        text.split(',').map(column).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn headings(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Cells of a resource.
    pub(crate) fn cells(&self, value: &Value) -> Vec<String> {
        let cell = |(_, path): &(String, JsonPath)| match joined(path, value, ",") {
            text if text.is_empty() => NO_VALUE.to_owned(),
            text => text,
        };
        self.0.iter().map(cell).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn templates_print_paths_texts_and_ranges() {
        let all = json!({"resources": [
            {"id": {"name": "a"}, "data": {"tracks": [1, 2], "live": true}},
            {"id": {"name": "b"}, "data": {"tracks": []}},
        ]});
        for (template, wanted) in [
            ("{.items[*].id.name}", "a b"),
            ("{.resources[0].data.tracks}", "[1,2]"),
            ("{range .items[*]}{.id.name}{\"\\t\"}{.data.live}{\"\\n\"}{end}", "a\ttrue\nb\t\n"),
            ("{range .items[*]}{range .data.tracks[*]}<{@}>{end}|{end}", "<1><2>||"),
            (".items[1].id.name", "b"),
            ("resources[1].id.name", "b"),
            ("name: {$.items[0].id['name']}!", "name: a!"),
            ("{..name}", "a b"),
            ("{.items[*].metadata.name}", "a b"),
            ("{.items[0].metadata.names}", ""),
            ("{range .items[*]}{.metadata.name};{end}", "a;b;"),
            ("{.items[?(@.data.live == true)].id.name}", "a"),
            ("{\"}\"}", "}"),
            ("{.none}", ""),
        ] {
            assert_eq!(Template::parse(template).unwrap().print(&all), wanted, "{template}");
        }
        let deep = "{range .a}".repeat(MAX_DEPTH + 1) + &"{end}".repeat(MAX_DEPTH + 1);
        for wrong in ["{.a", "{range .a}", "{end}", "{.a b}", &deep, &"x".repeat(MAX_BYTES + 1)] {
            assert!(Template::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn columns_have_names_and_paths() {
        let columns = CustomColumns::parse("NAME:.id.name,TRACKS:.data.tracks[*],LIVE:{.data.live}").unwrap();
        assert_eq!(columns.headings().collect::<Vec<_>>(), ["NAME", "TRACKS", "LIVE"]);
        let value = json!({"id": {"name": "a"}, "data": {"tracks": [1, 2]}});
        assert_eq!(columns.cells(&value), ["a", "1,2", NO_VALUE]);
        for wrong in ["NAME", "NAME:a b", ""] {
            assert!(CustomColumns::parse(wrong).is_err(), "{wrong}");
        }
    }
}
