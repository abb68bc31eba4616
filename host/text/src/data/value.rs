//! Single values by the kinds of their fields: numbers, strings, bytes, enums.

use std::borrow::Cow;

use prost_reflect::{EnumDescriptor, Kind, Syntax, Value};

use crate::{
    data::{
        decoder::Decoder,
        names,
        scalar::{self, NotNumber},
    },
    node::{self, Node, Resolved},
};

impl Decoder<'_, '_> {
    /// Decodes a single value of a kind.
    pub(crate) fn value(&mut self, kind: &Kind, node: &Node) -> Option<Value> {
        match kind {
            Kind::Message(descriptor) => self.message(descriptor, node).map(Value::Message),
            Kind::Enum(descriptor) => self.enumerated(descriptor, node).map(Value::EnumNumber),
            Kind::String => self.text(node).map(|text| Value::String(text.into_owned())),
            Kind::Bytes => self.bytes(node).map(|bytes| Value::Bytes(bytes.into())),
            Kind::Bool => self.boolean(node).map(Value::Bool),
            Kind::Double => self.float(node, scalar::float, "double").map(Value::F64),
            Kind::Float => self.float(node, scalar::float32, "float").map(Value::F32),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => self.integer(kind, node)?.try_into().ok().map(Value::I32),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => self.integer(kind, node)?.try_into().ok().map(Value::I64),
            Kind::Uint32 | Kind::Fixed32 => self.integer(kind, node)?.try_into().ok().map(Value::U32),
            Kind::Uint64 | Kind::Fixed64 => self.integer(kind, node)?.try_into().ok().map(Value::U64),
        }
    }

    /// Decodes a string.
    pub(crate) fn text<'n>(&mut self, node: &'n Node) -> Option<Cow<'n, str>> {
        match &node.value {
            node::Value::Text(text) => Some(Cow::Borrowed(text)),
            node::Value::Plain(text) if !node::plain_null(text) => Some(Cow::Borrowed(text)),
            _ => {
                let quotes = matches!(node.value, node::Value::Number(_) | node::Value::Bool(_));
                self.mismatch(node, "a string", quotes.then(|| "put it in quotes".to_owned()));
                None
            }
        }
    }

    fn bytes(&mut self, node: &Node) -> Option<Vec<u8>> {
        let text = self.text(node)?;
        let bytes = scalar::from_base64(&text);
        if bytes.is_none() {
            self.fault(node.span, format!("{} is not base64", quoted(&text)), None);
        }
        bytes
    }

    fn boolean(&mut self, node: &Node) -> Option<bool> {
        match &node.value {
            node::Value::Bool(value) => return Some(*value),
            node::Value::Plain(text) => {
                if let Some(value) = node::plain_bool(text) {
                    return Some(value);
                }
            }
            _ => {}
        }
        let remedy = match &node.value {
            node::Value::Plain(text) | node::Value::Text(text) => match text.to_ascii_lowercase().as_str() {
                "yes" | "on" | "y" | "true" => Some("write true, without quotes".to_owned()),
                "no" | "off" | "n" | "false" => Some("write false, without quotes".to_owned()),
                _ => Some("write true or false".to_owned()),
            },
            _ => Some("write true or false".to_owned()),
        };
        self.mismatch(node, "a boolean", remedy);
        None
    }

    /// Decodes an integer of the kind and checks its range.
    fn integer(&mut self, kind: &Kind, node: &Node) -> Option<i128> {
        let (name, low, high) = integer_range(kind)?;
        let Some((literal, prefixes)) = self.literal(node) else {
            self.mismatch(node, "a number", None);
            return None;
        };
        let outcome = match scalar::integer(literal, prefixes) {
            Ok(value) if value < low || value > high => Err(NotNumber::Range),
            outcome => outcome,
        };
        match outcome {
            Ok(value) => return Some(value),
            Err(NotNumber::Malformed) if matches!(node.value, node::Value::Number(_)) => {
                self.fault(node.span, format!("{} is not an integer", quoted(literal)), None);
            }
            Err(NotNumber::Malformed) => self.mismatch(node, "a number", None),
            Err(NotNumber::Fraction) => {
                self.fault(node.span, format!("{} is not an integer, and {name} needs one", shorten(literal)), None);
            }
            Err(NotNumber::Range) => {
                let text = format!("{} is out of the range of {name}, which is {low} to {high}", shorten(literal));
                self.fault(node.span, text, None);
            }
        }
        None
    }

    fn float<T>(
        &mut self,
        node: &Node,
        parse: impl FnOnce(&str, bool) -> Result<T, NotNumber>,
        name: &str,
    ) -> Option<T> {
        let Some((literal, special)) = self.literal(node) else {
            self.mismatch(node, "a number", None);
            return None;
        };
        match parse(literal, special) {
            Ok(value) => return Some(value),
            Err(NotNumber::Range) => {
                self.fault(node.span, format!("{} is out of the range of {name}", shorten(literal)), None);
            }
            Err(_) => self.mismatch(node, "a number", None),
        }
        None
    }

    /// The literal of a number, and whether YAML's own spellings are allowed in it.
    fn literal<'n>(&self, node: &'n Node) -> Option<(&'n str, bool)> {
        match &node.value {
            node::Value::Number(text) => Some((text, false)),
            // HCL has numbers of any size, so quotes mean a string there.
            node::Value::Text(text) if matches!(text.as_str(), "NaN" | "Infinity" | "-Infinity") => Some((text, false)),
            node::Value::Text(text) if !text.is_empty() && !self.is_hcl() => Some((text, false)),
            node::Value::Plain(text) if node::resolve(text) == Resolved::Number => Some((text, true)),
            // YAML takes the names of proto3's JSON for NaN and infinities for strings.
            node::Value::Plain(text) if matches!(text.as_str(), "NaN" | "Infinity" | "-Infinity") => Some((text, true)),
            _ => None,
        }
    }

    fn enumerated(&mut self, descriptor: &EnumDescriptor, node: &Node) -> Option<i32> {
        if descriptor.full_name() == "google.protobuf.NullValue" && node.is_null() {
            return Some(0);
        }
        let number = match &node.value {
            node::Value::Number(literal) => Some(literal),
            node::Value::Plain(literal) if node::resolve(literal) == Resolved::Number => Some(literal),
            _ => None,
        };
        if let Some(literal) = number {
            // Enums of proto3 are open: a number without a name is kept.
            let open = descriptor.parent_file().syntax() != Syntax::Proto2;
            let number = scalar::integer(literal, true).ok().and_then(|number| i32::try_from(number).ok());
            if let Some(number) = number.filter(|number| open || descriptor.get_value(*number).is_some()) {
                return Some(number);
            }
            self.fault(
                node.span,
                format!("{} is not a value of {}", shorten(literal), descriptor.name()),
                Some(values(descriptor)),
            );
            return None;
        }
        let name = match &node.value {
            node::Value::Text(text) | node::Value::Plain(text) if !node.is_null() => text,
            _ => {
                self.mismatch(node, "a string", Some(values(descriptor)));
                return None;
            }
        };
        if let Some(value) = descriptor.get_value_by_name(name) {
            return Some(value.number());
        }
        let remedy = match near_value(descriptor, name) {
            Some(near) => format!("{} {}", names::did_you_mean(&near), values(descriptor)),
            None => values(descriptor),
        };
        self.fault(node.span, format!("{} is not a value of {}", quoted(name), descriptor.name()), Some(remedy));
        None
    }
}

fn values(descriptor: &EnumDescriptor) -> String {
    let all = descriptor.values().map(|value| value.name().to_owned());
    format!("the values are {}", names::listed(all, 40))
}

/// The value that was probably meant; the prefix that enum values share may be missing.
fn near_value(descriptor: &EnumDescriptor, name: &str) -> Option<String> {
    let all: Vec<String> = descriptor.values().map(|value| value.name().to_owned()).collect();
    let upper = name.to_ascii_uppercase().replace(['-', ' '], "_");
    let suffix = format!("_{upper}");
    let by_suffix = all.iter().find(|value| **value == upper || value.ends_with(&suffix)).cloned();
    by_suffix.or_else(|| {
        let prefix = common_prefix(&all);
        let short = all.iter().filter_map(|value| value.strip_prefix(&prefix).map(str::to_owned));
        names::nearest(&upper, all.iter().cloned())
            .or_else(|| names::nearest(&upper, short).map(|short| format!("{prefix}{short}")))
    })
}

/// The words that all values begin with, underscore included.
fn common_prefix(values: &[String]) -> String {
    let Some((first, rest)) = values.split_first() else { return String::new() };
    let mut end = 0;
    for (match_indice, _) in first.match_indices('_') {
        let prefix = first.get(..=match_indice).unwrap_or_default();
        if !rest.iter().all(|value| value.starts_with(prefix)) {
            break;
        }
        end = match_indice + 1;
    }
    first.get(..end).unwrap_or_default().to_owned()
}

pub(crate) fn integer_range(kind: &Kind) -> Option<(&'static str, i128, i128)> {
    match kind {
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Some(("int32", i32::MIN.into(), i32::MAX.into())),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Some(("int64", i64::MIN.into(), i64::MAX.into())),
        Kind::Uint32 | Kind::Fixed32 => Some(("uint32", 0, u32::MAX.into())),
        Kind::Uint64 | Kind::Fixed64 => Some(("uint64", 0, u64::MAX.into())),
        _ => None,
    }
}

/// Quotes a value for a sentence; long ones are cut.
pub(crate) fn quoted(text: &str) -> String {
    format!("{:?}", shorten(text))
}

fn shorten(text: &str) -> String {
    let mut letters = text.chars();
    let start: String = letters.by_ref().take(60).collect();
    if letters.next().is_some() { start + "…" } else { start }
}
