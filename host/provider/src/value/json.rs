//! Values as JSON, the form of state files. It has no unknown values.
//!
//! Numbers keep all their digits: each level takes the text of the level below apart, which costs time in proportion to
//! the text times its depth.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{MAX_DEPTH, Step, Type, Value, ValueError};

type Read = Result<Value, ValueError>;

/// Decodes a value of a type. Missing attributes are null; attributes that the type does not have are an error.
///
/// # Errors
/// The bytes are not JSON, or not a value of the type.
pub fn decode(bytes: &[u8], value_type: &Type) -> Read {
    Reader { older: false }.value(parse(bytes)?, value_type, MAX_DEPTH)
}

/// Decodes a value of an earlier version of a type: attributes that the type does not have are left out, and values of
/// another type are null.
///
/// # Errors
/// The bytes are not JSON.
pub fn decode_older(bytes: &[u8], value_type: &Type) -> Read {
    Reader { older: true }.value(parse(bytes)?, value_type, MAX_DEPTH)
}

fn parse<'j, T: Deserialize<'j>>(bytes: &'j [u8]) -> Result<T, ValueError> {
    serde_json::from_slice(bytes).map_err(|e| ValueError::new(format!("it is not JSON: {e}")))
}

type Entries<'j> = BTreeMap<String, &'j RawValue>;

#[derive(Clone, Copy)]
struct Reader {
    older: bool,
}

impl Reader {
    fn value(self, json: &RawValue, value_type: &Type, depth: usize) -> Read {
        let depth = depth.checked_sub(1).ok_or_else(|| ValueError::new("it is nested too deep"))?;
        match self.known(json, value_type, depth) {
            Err(_) if self.older => Ok(Value::Null),
            read => read,
        }
    }

    fn known(self, json: &RawValue, value_type: &Type, depth: usize) -> Read {
        let text = json.get().as_bytes();
        if text == b"null" {
            return Ok(Value::Null);
        }
        let within = |json, value_type, step| self.value(json, value_type, depth).map_err(|e| e.within(step));
        match (value_type, text.first()) {
            (Type::Bool, Some(b't' | b'f')) => parse(text).map(Value::Bool),
            (Type::String, Some(b'"')) => parse(text).map(Value::String),
            (Type::Number, Some(b'-' | b'0'..=b'9')) => {
                let number = json.get().parse();
                number.map(Value::Number).map_err(|e: super::number::NumberError| ValueError::new(e.to_string()))
            }
            (Type::List(element) | Type::Set(element), Some(b'[')) => {
                let items: Vec<&RawValue> = parse(text)?;
                let items =
                    items.into_iter().enumerate().map(|(index, item)| within(item, element, Step::Index(index)));
                items.collect::<Result<_, _>>().map(Value::List)
            }
            (Type::Tuple(elements), Some(b'[')) => {
                let items: Vec<&RawValue> = parse(text)?;
                if items.len() != elements.len() {
                    return Err(ValueError::new(format!(
                        "{} elements are expected, but it has {}",
                        elements.len(),
                        items.len()
                    )));
                }
                let items = items.into_iter().zip(elements).enumerate();
                let items = items.map(|(index, (item, value_type))| within(item, value_type, Step::Index(index)));
                items.collect::<Result<_, _>>().map(Value::List)
            }
            (Type::Map(element), Some(b'{')) => {
                let entries: Entries<'_> = parse(text)?;
                let entry = |(key, json): (String, _)| Ok((key.clone(), within(json, element, Step::Key(key))?));
                entries.into_iter().map(entry).collect::<Result<_, _>>().map(Value::Map)
            }
            (Type::Object(attribute_types), Some(b'{')) => self.object(&parse(text)?, attribute_types, depth),
            (Type::Dynamic, Some(b'{')) => {
                let parts: Entries<'_> = parse(text)?;
                match (parts.get("type"), parts.get("value")) {
                    (Some(raw_type), Some(json)) if parts.len() == 2 => {
                        let inner =
                            Type::from_bytes(raw_type.get().as_bytes()).map_err(|e| ValueError::new(e.to_string()))?;
                        let value = self.value(json, &inner, depth)?;
                        Ok(Value::Dynamic(inner, Box::new(value)))
                    }
                    _ => Err(ValueError::new("a dynamic value must be its type and the value")),
                }
            }
            _ => Err(ValueError::new("it is of another type")),
        }
    }

    fn object(self, attributes: &Entries<'_>, attribute_types: &BTreeMap<String, Type>, depth: usize) -> Read {
        let strange = attributes.keys().find(|name| !self.older && !attribute_types.contains_key(*name));
        if let Some(strange) = strange {
            return Err(ValueError::new(format!("there is no attribute {strange:?}")));
        }
        let attribute = |(name, value_type): (&String, &Type)| {
            let value = match attributes.get(name) {
                Some(json) => {
                    self.value(json, value_type, depth).map_err(|e| e.within(Step::Attribute(name.clone())))?
                }
                None => Value::Null,
            };
            Ok((name.clone(), value))
        };
        attribute_types.iter().map(attribute).collect::<Result<_, _>>().map(Value::Map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of() -> Type {
        Type::object([
            ("a", Type::list(Type::Number)),
            ("b", Type::map(Type::object([("c", Type::String)]))),
            ("d", Type::Dynamic),
        ])
    }

    #[test]
    fn state_is_read_with_its_numbers_and_without_what_is_missing() {
        let text = br#" { "a": [1, 0.1, 18446744073709551616, 1e2],
            "b": {"k": {}}, "d": {"type": "bool", "value": true} } "#;
        let value = decode(text, &of()).unwrap();
        let numbers = ["1", "0.1", "18446744073709551616", "100"].map(|text| Value::Number(text.parse().unwrap()));
        let inner = Value::object([("c", Value::Null)]);
        let expected = Value::object([
            ("a", Value::List(numbers.into())),
            ("b", Value::object([("k", inner)])),
            ("d", Value::Dynamic(Type::Bool, Box::new(Value::Bool(true)))),
        ]);
        assert_eq!(value, expected);
    }

    #[test]
    fn what_is_no_state_of_the_type_is_refused_unless_it_is_an_older_one() {
        for (text, fault) in [
            (r#"{"e": 1}"#, "there is no attribute \"e\""),
            (r#"{"a": [true]}"#, "a[0]: it is of another type"),
            (r#"{"b": {"k": {"x": 1}}}"#, "b[\"k\"]: there is no attribute \"x\""),
            ("{", "it is not JSON: EOF while parsing an object at line 1 column 1"),
            (r#"{"a": [1e99999]}"#, "a[0]: it is not a decimal number of at most 4096 digits"),
        ] {
            assert_eq!(decode(text.as_bytes(), &of()).unwrap_err().to_string(), fault);
        }
        let older = br#"{"a": "s", "e": {"x": 1}, "b": {"k": {"c": "s", "x": 1}}}"#;
        assert!(decode(older, &of()).is_err());
        let kept = Value::object([("k", Value::object([("c", Value::String("s".into()))]))]);
        let expected = Value::object([("a", Value::Null), ("b", kept), ("d", Value::Null)]);
        assert_eq!(decode_older(older, &of()), Ok(expected));
        assert!(decode_older(b"{", &of()).is_err());
    }
}
