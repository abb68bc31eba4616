//! Arguments and results of functions as JSON, with numbers to the last digit.

use std::collections::BTreeMap;

use mortise_resource::manifest::{FunctionEntries, FunctionValue, FunctionValues, function_value::Value};
use serde_json::{Error, value::RawValue};

/// Parses JSON, nested at most as deep as `serde_json` allows: 128 levels.
///
/// # Errors
/// The text is not JSON.
pub fn read(json: &str) -> Result<FunctionValue, Error> {
    of(serde_json::from_str(json)?)
}

fn of(json: &RawValue) -> Result<FunctionValue, Error> {
    let text = json.get();
    let value = match text.as_bytes().first() {
        Some(b'n') => None,
        Some(b't' | b'f') => Some(Value::Boolean(text == "true")),
        Some(b'"') => Some(Value::Text(serde_json::from_str(text)?)),
        Some(b'[') => {
            let values = serde_json::from_str::<Vec<&RawValue>>(text)?.into_iter().map(of);
            Some(Value::Elements(FunctionValues { values: values.collect::<Result<_, _>>()? }))
        }
        Some(b'{') => {
            let values = serde_json::from_str::<BTreeMap<String, &RawValue>>(text)?.into_iter();
            let values = values.map(|(name, json)| Ok((name, of(json)?))).collect::<Result<_, Error>>()?;
            Some(Value::Entries(FunctionEntries { values }))
        }
        _ => Some(Value::Number(text.to_owned())),
    };
    Ok(FunctionValue { value })
}

/// Renders JSON on one line.
#[must_use]
pub fn write(value: &FunctionValue) -> String {
    // Serializing a text cannot fail.
    let text = |text: &str| serde_json::to_string(text).unwrap_or_default();
    match &value.value {
        None => "null".to_owned(),
        Some(Value::Boolean(yes)) => yes.to_string(),
        Some(Value::Number(number)) => number.clone(),
        Some(Value::Text(content)) => text(content),
        Some(Value::Elements(elements)) => {
            format!("[{}]", elements.values.iter().map(write).collect::<Vec<_>>().join(","))
        }
        Some(Value::Entries(entries)) => {
            let entries = entries.values.iter().map(|(name, entry)| format!("{}:{}", text(name), write(entry)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written() {
        for json in [
            "null",
            "true",
            "false",
            "12345678901234567890.123456789012345678901234567890",
            "-1e400",
            r#""a \"b\"\n""#,
            "[]",
            r#"[1,null,["x"]]"#,
            r#"{"a":{"b":[true]},"c":null}"#,
        ] {
            assert_eq!(write(&read(json).unwrap()), json);
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for bad in ["", "a", "{", "[1", "1 2", "{\"a\":}", &"[".repeat(200)] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
