//! A deserializer of JSON that knows the place of each fault, and finds unknown keys: those whose values are ignored.

use std::{cell::RefCell, fmt, slice};

use mortise_resource::{FieldPath, PathStep};
use serde::de::{
    self, DeserializeSeed, Deserializer, Error as _, Expected, IntoDeserializer as _, MapAccess, SeqAccess, Unexpected,
    Visitor,
};
use serde_json::{Map, Value};

/// Fault of one setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) path: FieldPath,
    pub(super) text: String,
    /// True once the path leads from the top. A new fault knows at most its last step.
    is_placed: bool,
}

impl Fault {
    fn new(text: impl Into<String>) -> Self {
        Self { path: FieldPath::default(), text: text.into(), is_placed: false }
    }

    /// Makes the fault of a key that the struct lacks; `known` are those that it has.
    fn unknown(known: &[&str]) -> Self {
        match known {
            [] => Self::new("unknown setting; take it out, or correct its name"),
            known => Self::new(format!("unknown setting; take it out, or use one of {}", known.join(", "))),
        }
    }

    fn below(mut self, field: &str) -> Self {
        self.path = FieldPath::field(field);
        self
    }

    /// Puts a fault without a place below `path`.
    fn at(mut self, path: &FieldPath) -> Self {
        if !self.is_placed {
            self.path = FieldPath(path.0.iter().cloned().chain(self.path.0).collect());
            self.is_placed = true;
        }
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::new(text.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("must be {}; got {}", form(&expected.to_string()), kind(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self::new(format!("must be {}; got {length} values", form(&expected.to_string())))
    }

    fn unknown_variant(_: &str, known: &'static [&'static str]) -> Self {
        Self::new(format!("must be one of {}; got another name", known.join(", ")))
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        Self::unknown(known).below(field)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new("required; set it").below(field)
    }
}

/// Translates serde's name of an expected form for operators.
fn form(expected: &str) -> &str {
    match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0",
        "i8" => "a whole number from -128 to 127",
        "i16" => "a whole number from -32768 to 32767",
        "i32" => "a whole number from -2147483648 to 2147483647",
        "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other if other.starts_with("enum ") => "a name",
        other => other,
    }
}

/// Names a value, without its text.
fn kind(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Unsigned(number) => number.to_string(),
        Unexpected::Signed(number) => number.to_string(),
        Unexpected::Float(number) => number.to_string(),
        Unexpected::Str(_) | Unexpected::Char(_) => "a string".to_owned(),
        Unexpected::Unit => "null".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a table".to_owned(),
        other => other.to_string(),
    }
}

/// A value among the settings, and its place.
pub(super) struct Node<'v> {
    value: &'v Value,
    path: FieldPath,
    /// Fields of the struct that the value stands in.
    known: &'static [&'static str],
    unknown: &'v RefCell<Vec<Fault>>,
}

impl<'v> Node<'v> {
    /// Makes the node of all settings. Unknown keys are added to `unknown`.
    pub(super) const fn root(value: &'v Value, unknown: &'v RefCell<Vec<Fault>>) -> Self {
        Node { value, path: FieldPath(Vec::new()), known: &[], unknown }
    }

    /// Reads a value inside of this one; `known` are the fields of its struct.
    fn read_inner<T: DeserializeSeed<'v>>(
        &self,
        seed: T,
        value: &'v Value,
        step: PathStep,
        known: &'static [&'static str],
    ) -> Result<T::Value, Fault> {
        let path = self.path.clone().with(step);
        // A function of the author may find a fault after the value was read.
        seed.deserialize(Node { value, path: path.clone(), known, unknown: self.unknown })
            .map_err(|fault| fault.at(&path))
    }

    /// Hands the value to a visitor; `fields` are those of its struct.
    fn visit<V: Visitor<'v>>(self, visitor: V, fields: &'static [&'static str]) -> Result<V::Value, Fault> {
        let visited = match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(values) => {
                let mut items = Items { list: &self, rest: values.iter(), next: 0 };
                let visited = visitor.visit_seq(&mut items);
                match (visited, items.rest.len()) {
                    (Ok(_), more @ 1..) => {
                        let most = values.len().saturating_sub(more);
                        Err(Fault::new(format!("must be at most {most} values; got {}", values.len())))
                    }
                    (visited, _) => visited,
                }
            }
            Value::Object(entries) => visitor.visit_map(self.entries(entries, fields)),
        };
        visited.map_err(|fault| fault.at(&self.path))
    }

    fn entries(&self, entries: &'v Map<String, Value>, fields: &'static [&'static str]) -> Entries<'_, 'v> {
        Entries { table: self, fields, rest: entries.iter(), current: None }
    }
}

impl<'v> Deserializer<'v> for Node<'v> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit(visitor, &[])
    }

    fn deserialize_struct<V: Visitor<'v>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if self.value.is_array() {
            // Serde would take the values for the fields, in their order.
            return Err(Fault::invalid_type(Unexpected::Seq, &visitor).at(&self.path));
        }
        self.visit(visitor, fields)
    }

    fn deserialize_option<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'v>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'v>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let visited = match self.value {
            Value::String(name) => visitor.visit_enum(name.as_str().into_deserializer()),
            Value::Object(entries) if entries.len() == 1 => {
                visitor.visit_enum(de::value::MapAccessDeserializer::new(self.entries(entries, &[])))
            }
            _ => Err(Fault::new("must be a name, or a table with one name")),
        };
        visited.map_err(|fault: Fault| fault.at(&self.path))
    }

    /// Serde ignores the value of an unknown key.
    fn deserialize_ignored_any<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Fault> {
        let is_known = matches!(self.path.0.last(), Some(PathStep::Field(key)) if self.known.contains(&key.as_str()));
        if !is_known {
            self.unknown.borrow_mut().push(Fault::unknown(self.known).at(&self.path));
        }
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        <V: Visitor<'v>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier
    }
}

/// Values of a list.
struct Items<'n, 'v> {
    list: &'n Node<'v>,
    rest: slice::Iter<'v, Value>,
    next: u32,
}

impl<'v> SeqAccess<'v> for Items<'_, 'v> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'v>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some(value) = self.rest.next() else { return Ok(None) };
        let index = self.next;
        self.next = index.saturating_add(1);
        self.list.read_inner(seed, value, PathStep::Index(index), &[]).map(Some)
    }
}

/// Entries of a table.
struct Entries<'n, 'v> {
    table: &'n Node<'v>,
    fields: &'static [&'static str],
    rest: serde_json::map::Iter<'v>,
    current: Option<(&'v String, &'v Value)>,
}

impl<'v> MapAccess<'v> for Entries<'_, 'v> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'v>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        self.current = self.rest.next();
        let Some((key, _)) = self.current else { return Ok(None) };
        seed.deserialize(de::value::BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'v>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        let (key, value) = self.current.take().ok_or_else(|| Fault::new("has a value without a key"))?;
        self.table.read_inner(seed, value, PathStep::Field(key.clone()), self.fields)
    }
}
