//! `-o go-template=TEMPLATE` and `-o go-template-file=FILE`: Go's text/template, with kubectl's functions `exists` and
//! `base64decode`.
//!
//! The data is the resource as `-o json` prints it; many resources are the list `items`, also called `resources`. A
//! field that is missing prints `<no value>`.
//!
//! # Limits
//! A template has at most [`MAX_BYTES`], and 100 blocks within each other. It makes at most [`MAX_ROUNDS`] rounds of
//! `range` and [`MAX_OUTPUT`] of text. One that calls templates in a pyramid may compute for long: Ctrl-C ends it.

use std::{fmt, fs::File, io::Read as _, path::Path, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use gotmpl::{Template, TemplateError, Value};

/// Longest template, bytes.
const MAX_BYTES: usize = 16_384;

/// Most rounds of all `range` of a template.
const MAX_ROUNDS: u64 = 10_000_000;

/// Longest text, bytes.
const MAX_OUTPUT: usize = 64 << 20;

/// Fault in a Go template, or in its use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GoTemplateError {
    #[error("the Go template has more than {MAX_BYTES} bytes")]
    TooLong,
    #[error("the template file {0}: {1}")]
    File(String, #[source] std::io::Error),
    #[error("{0}")]
    Syntax(#[source] Box<TemplateError>),
    #[error("the Go template has an {{{{{0}}}}} without {{{{if}}}}, {{{{range}}}} or {{{{with}}}}")]
    Closed(&'static str),
    #[error("the Go template lacks {{{{end}}}}")]
    Open,
    #[error("the Go template failed: {0}")]
    Run(#[source] Box<TemplateError>),
    #[error("the Go template made more than {MAX_OUTPUT} bytes of text")]
    TooMuch,
    #[error("a Go template cannot use the resource: {0}")]
    Data(#[source] Box<TemplateError>),
}

/// A parsed Go template.
pub(crate) struct GoTemplate(Template);

impl fmt::Debug for GoTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GoTemplate").finish_non_exhaustive()
    }
}

impl GoTemplate {
    /// Parses a template.
    pub(crate) fn parse(text: &str) -> Result<Self, GoTemplateError> {
        if text.len() > MAX_BYTES {
            return Err(GoTemplateError::TooLong);
        }
        check_blocks(text)?;
        let template = Template::new("output")
            .max_range_iters(MAX_ROUNDS)
            .func("exists", |arguments| Ok(Value::Bool(exists(arguments))))
            .func("base64decode", base64decode);
        template.parse(text).map(Self).map_err(|error| GoTemplateError::Syntax(Box::new(error)))
    }

    /// Reads and parses a template.
    pub(crate) fn read(path: &Path) -> Result<Self, GoTemplateError> {
        let fault = |error| GoTemplateError::File(path.display().to_string(), error);
        let mut text = String::new();
        let limit = MAX_BYTES as u64 + 1;
        File::open(path).and_then(|file| file.take(limit).read_to_string(&mut text)).map_err(fault)?;
        Self::parse(&text)
    }

    /// Prints a resource, or the list of many.
    pub(crate) fn print(&self, value: &serde_json::Value) -> Result<String, GoTemplateError> {
        let data = gotmpl::to_value(value).map_err(|error| GoTemplateError::Data(Box::new(error)))?;
        let mut out = Text { text: String::new(), is_full: false };
        match self.0.execute_fmt(&mut out, &with_items(data)) {
            Ok(()) => Ok(out.text),
            Err(_) if out.is_full => Err(GoTemplateError::TooMuch),
            Err(error) => Err(GoTemplateError::Run(Box::new(error))),
        }
    }
}

/// Checks that each block of a template ends, and that each end and alternative has its block: the library takes what is
/// missing as the end of the text, and leaves out what follows.
fn check_blocks(text: &str) -> Result<(), GoTemplateError> {
    // True for blocks that may have an alternative.
    let mut open: Vec<bool> = Vec::new();
    let mut rest = text;
    while let Some((_, behind)) = rest.split_once("{{") {
        let (action, after) = split_action(behind);
        rest = after;
        let action = action.trim_start_matches("- ").trim_start();
        match action.split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default() {
            "if" | "range" | "with" => open.push(true),
            "block" | "define" => open.push(false),
            "else" if open.last() == Some(&true) => {}
            "else" => return Err(GoTemplateError::Closed("else")),
            "end" => {
                open.pop().ok_or(GoTemplateError::Closed("end"))?;
            }
            _ => {}
        }
    }
    if open.is_empty() { Ok(()) } else { Err(GoTemplateError::Open) }
}

/// Splits behind the end of an action; braces in texts and comments do not end it.
fn split_action(text: &str) -> (&str, &str) {
    let comment = text.trim_start_matches("- ").trim_start();
    if comment.starts_with("/*") {
        let (_, after) = comment.split_once("*/").unwrap_or_default();
        return ("", after.split_once("}}").map(|(_, after)| after).unwrap_or_default());
    }
    let mut quote = None;
    let mut is_escaped = false;
    for (at, letter) in text.char_indices() {
        match quote {
            Some('`') if letter == '`' => quote = None,
            Some('`') => {}
            Some(_) if is_escaped => is_escaped = false,
            Some(_) if letter == '\\' => is_escaped = true,
            Some(open) if letter == open => quote = None,
            Some(_) => {}
            None if matches!(letter, '"' | '`' | '\'') => quote = Some(letter),
            None if text.get(at..).is_some_and(|rest| rest.starts_with("}}")) => {
                return (text.get(..at).unwrap_or_default(), text.get(at + 2..).unwrap_or_default());
            }
            None => {}
        }
    }
    (text, "")
}

/// Adds kubectl's name of the list of resources.
fn with_items(data: Value) -> Value {
    match data {
        Value::Map(map) if map.contains_key("resources") && !map.contains_key("items") => {
            let mut map = Arc::unwrap_or_clone(map);
            if let Some(list) = map.get("resources").cloned() {
                map.insert("items".into(), list);
            }
            Value::Map(Arc::new(map))
        }
        data => data,
    }
}

/// Text with a limit.
struct Text {
    text: String,
    is_full: bool,
}

impl fmt::Write for Text {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.text.len().saturating_add(part.len()) > MAX_OUTPUT {
            self.is_full = true;
            return Err(fmt::Error);
        }
        self.text.push_str(part);
        Ok(())
    }
}

/// Returns true if a value has another one below the keys or positions that follow it.
fn exists(arguments: &[Value]) -> bool {
    let Some((value, keys)) = arguments.split_first() else { return false };
    let mut value = value.clone();
    for key in keys {
        let next = match (&value, key) {
            (Value::Map(map), Value::String(key)) => map.get(key).cloned(),
            (Value::List(list), key) => {
                key.as_int().and_then(|at| usize::try_from(at).ok()).and_then(|at| list.get(at)).cloned()
            }
            _ => None,
        };
        match next {
            Some(next) => value = next,
            None => return false,
        }
    }
    true
}

fn base64decode(arguments: &[Value]) -> Result<Value, TemplateError> {
    let fault = |text: &str| TemplateError::Exec(format!("base64decode: {text}"));
    let [Value::String(text)] = arguments else { return Err(fault("one text is needed")) };
    let bytes = BASE64_STANDARD.decode(text.as_bytes()).map_err(|e| fault(&format!("the text is not base64: {e}")))?;
    Ok(Value::String(String::from_utf8_lossy(&bytes).into()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn print(template: &str) -> Result<String, GoTemplateError> {
        let all = json!({"resources": [
            {"id": {"name": "a"}, "data": {"tracks": [1, 2], "live": true, "cover": "aGk="}},
            {"id": {"name": "b"}, "data": {"tracks": []}},
        ]});
        GoTemplate::parse(template)?.print(&all)
    }

    #[test]
    fn templates_of_kubectl_print_what_they_do_there() {
        for (template, wanted) in [
            ("{{range .items}}{{.id.name}}{{\"\\n\"}}{{end}}", "a\nb\n"),
            ("{{range $i, $r := .resources}}{{if $i}}, {{end}}{{$r.id.name}}{{end}}", "a, b"),
            ("{{(index .items 0).data.tracks}}", "[1 2]"),
            ("{{len .items}}", "2"),
            ("{{range .items}}{{.data.live}};{{end}}", "true;<no value>;"),
            ("{{range .items}}{{if exists . \"data\" \"live\"}}{{.id.name}}{{end}}{{end}}", "a"),
            ("{{exists . \"items\" 1}} {{exists . \"items\" 2}} {{exists . \"items\" \"x\"}}", "true false false"),
            ("{{(index .items 0).data.cover | base64decode}}", "hi"),
            ("{{range .items}}{{range .data.tracks}}{{printf \"%03d\" .}}{{else}}-{{end}}{{end}}", "001002-"),
            ("{{with index .items 1}}{{.id.name | printf \"%q\"}}{{end}}", "\"b\""),
            ("{{- /* {{end}} nothing */ -}}", ""),
            ("{{\"}}{{end}}\\\"\"}}|{{`}}{{end}}`}}|{{'\"'}}", "}}{{end}}\"|}}{{end}}|34"),
            ("{{with $x := 1}}{{if eq $x 2}}a{{else if eq $x 1}}b{{end}}{{end}}{{block \"y\" .}}c{{end}}", "bc"),
        ] {
            assert_eq!(print(template).unwrap(), wanted, "{template}");
        }
    }

    #[test]
    fn faults_are_errors_and_templates_have_bounds() {
        for (template, fault) in [
            ("{{", "unclosed"),
            ("{{range .items}}", "lacks {{end}}"),
            ("{{if 1}}a{{- else -}}b", "lacks {{end}}"),
            ("{{define \"x\"}}y", "lacks {{end}}"),
            ("{{end}}", "{{end}} without {{if}}"),
            ("{{range .items}}x{{end}}{{- end}}y", "{{end}} without {{if}}"),
            ("a{{else}}b", "{{else}} without {{if}}"),
            ("{{define \"x\"}}{{else}}{{end}}", "{{else}} without {{if}}"),
            ("{{nothing .}}", "nothing"),
            ("{{index .items 7}}", "index out of range"),
            ("{{base64decode \"%\"}}", "not base64"),
            ("{{base64decode 1}}", "one text is needed"),
            ("{{range 2000000000}}{{end}}", "budget"),
            ("{{range 100}}{{range 100}}{{printf \"%*d\" 65000 1}}{{end}}{{end}}", "bytes of text"),
            ("{{define \"a\"}}{{template \"a\"}}{{end}}{{template \"a\"}}", "recursion"),
            (&"x".repeat(MAX_BYTES + 1), "more than 16384 bytes"),
        ] {
            let error = print(template).unwrap_err().to_string();
            assert!(error.contains(fault), "{fault}: {error}");
        }
        assert!(print(&format!("{{{{{}}}}}", "(".repeat(8_000))).is_err());
        let chain = |count: usize| print(&format!("{{{{if 0}}}}{}{{{{end}}}}", "{{else if 0}}".repeat(count)));
        assert_eq!(chain(100).unwrap(), "");
        assert!(chain(1_250).unwrap_err().to_string().contains("recursion"), "the longest one does not end the stack");
    }
}
