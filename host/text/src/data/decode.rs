//! Decodes a text's tree into a message by proto3's JSON mapping and the descriptors, and reports every fault with its
//! place.
//!
//! Where a format leaves the type of a value open, the field decides by these rules:
//!
//! - Fields go by their JSON name or their protobuf name; HCL has its own names. Unknown names are rejected.
//! - `null` means that the field is absent, except in `google.protobuf.Value`.
//! - A string field takes a YAML scalar without quotes as it is written: `1.10` stays `1.10`, `no` stays `no`, and so
//!   do `true` and `2024-01-01`. Nothing is converted, so nothing is lost. `null`, `~` and an empty value are not
//!   strings; where a string is needed, as in maps, they have to be quoted. Numbers and booleans of JSON and HCL are
//!   not strings.
//! - Integers may be written as `1.0` or `1e3`, and in quotes, if they are whole and within the field's range.
//! - Enums go by name or number; `bytes` are base64.

use std::collections::{HashMap, hash_map};

use mortise_resource::PathStep;
use prost::Message;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};

use crate::{
    Format,
    data::{UNKNOWN, decoder::Decoder, embedded, names, scalar, value::integer_range, wellknown},
    location::Span,
    node::{self, Entry, Node},
};

impl Decoder<'_, '_> {
    /// A message; `None` if it is at fault, which has been reported then.
    pub(crate) fn message(&mut self, descriptor: &MessageDescriptor, node: &Node) -> Option<DynamicMessage> {
        if descriptor.package_name() == "google.protobuf"
            && let Some(outcome) = wellknown::read(self, descriptor, node)
        {
            return outcome;
        }
        if self.embeds_resources && embedded::is_resource(descriptor) {
            return embedded::read(self, descriptor, node);
        }
        let Some(entries) = node.entries() else {
            self.mismatch(node, "a map", Some(format!("write the fields of {}", descriptor.name())));
            return None;
        };
        self.fields(descriptor, entries.iter())
    }

    /// Decodes the fields of a message.
    pub(crate) fn fields<'n>(
        &mut self,
        descriptor: &MessageDescriptor,
        entries: impl Iterator<Item = &'n Entry>,
    ) -> Option<DynamicMessage> {
        let mut message = DynamicMessage::new(descriptor.clone());
        let mut seen: HashMap<u32, &str> = HashMap::new();
        let mut chosen: HashMap<String, &str> = HashMap::new();
        let faults = self.sink.count();
        for entry in entries {
            if self.sink.is_full() {
                break;
            }
            if entry.key == UNKNOWN {
                self.unknown(&mut message, &entry.value);
                continue;
            }
            let Some(field) = names::find_field(descriptor, &entry.key, self.format()) else {
                self.no_such_field(descriptor, entry);
                continue;
            };
            self.argument.clone_from(&entry.key);
            if let Some(other) = seen.insert(field.number(), &entry.key) {
                let text = format!("`{}` and `{other}` are two names of one field", entry.key);
                self.within(PathStep::Field(field.name().to_owned()), |decoder| {
                    decoder.fault(entry.key_span, text, Some("leave one of them out".into()));
                });
                continue;
            }
            if entry.value.is_null() && !takes_null(&field) {
                continue;
            }
            if let Some(oneof) = field.containing_oneof().filter(|oneof| !oneof.is_synthetic())
                && let Some(other) = chosen.insert(oneof.name().to_owned(), &entry.key)
            {
                let text = format!("`{}` and `{other}` exclude each other", entry.key);
                let remedy = format!("only one field of `{}` can be set", oneof.name());
                self.within(PathStep::Field(field.name().to_owned()), |decoder| {
                    decoder.fault(entry.key_span, text, Some(remedy));
                });
                continue;
            }
            let value = self.within(PathStep::Field(field.name().to_owned()), |decoder| {
                let before = decoder.sink.count();
                let value = decoder.field(&field, &entry.value);
                if decoder.sink.count() > before {
                    decoder.redact(&field, before, entry.value.span);
                }
                // Restores the name, which fields of an inner message have overwritten.
                decoder.argument.clone_from(&entry.key);
                value
            });
            if let Some(value) = value
                && message.try_set_field(&field, value).is_err()
            {
                self.fault(entry.value.span, format!("cannot be set to this value ({:?})", field.kind()), None);
            }
        }
        (self.sink.count() == faults).then_some(message)
    }

    /// Replaces the faults of a redacted field's value by a single fault that quotes no part of the value.
    fn redact(&mut self, field: &FieldDescriptor, since: usize, span: Span) {
        if self.redacted.contain(field) && self.sink.drop_since(since) {
            let kind = if field.is_map() { "map".to_owned() } else { format!("{:?}", field.kind()) };
            let list = if field.is_list() { "list of " } else { "" };
            self.fault(
                span,
                format!("is not of type {list}{kind}; the value is redacted, so details are hidden"),
                None,
            );
        }
    }

    fn no_such_field(&mut self, descriptor: &MessageDescriptor, entry: &Entry) {
        let format = self.format();
        let near = names::near_field(descriptor, &entry.key, format).map(|name| names::did_you_mean(&name));
        if format == Format::Hcl {
            let text = match entry.value.value {
                node::Value::Blocks(_) => {
                    format!("Unsupported block type; Blocks of type {:?} are not expected here.", entry.key)
                }
                _ => format!("Unsupported argument; An argument named {:?} is not expected here.", entry.key),
            };
            // In HCL's own wording, the hint is part of the detail.
            let hint = near.map(|near| format!(" {}", near.replacen("did", "Did", 1).replace('`', "\"")));
            self.sink.add(entry.key_span, &self.path, text + &hint.unwrap_or_default(), None);
            return;
        }
        let remedy = near.unwrap_or_else(|| {
            if entry.key == "<<" && format == Format::Yaml {
                return "merge keys are not part of YAML 1.2: write the fields out".to_owned();
            }
            if descriptor.fields().len() == 0 {
                return format!("{} has no fields", descriptor.name());
            }
            let all = descriptor.fields().map(|field| names::field_name(&field, format));
            format!("the fields of {} are {}", descriptor.name(), names::listed(all, 20))
        });
        self.within(PathStep::Field(entry.key.clone()), |decoder| {
            decoder.fault(entry.key_span, "there is no such field", Some(remedy));
        });
    }

    /// Decodes fields that the descriptor does not know, from bytes.
    fn unknown(&mut self, message: &mut DynamicMessage, node: &Node) {
        let bytes = self.text(node).and_then(|text| scalar::from_base64(&text));
        if bytes.is_none_or(|bytes| message.merge(bytes.as_slice()).is_err()) {
            self.fault(node.span, format!("{UNKNOWN:?} must hold fields as protobuf in base64"), None);
        }
    }

    /// Decodes a field's value.
    pub(crate) fn field(&mut self, field: &FieldDescriptor, node: &Node) -> Option<Value> {
        if field.is_map() {
            self.map(field, node)
        } else if field.is_list() {
            self.list(field, node)
        } else {
            self.value(&field.kind(), node)
        }
    }

    fn list(&mut self, field: &FieldDescriptor, node: &Node) -> Option<Value> {
        let items = match &node.value {
            node::Value::List(items) | node::Value::Blocks(items) => items,
            _ => {
                let remedy = match self.format() {
                    Format::Yaml => "put `- ` before each element",
                    _ => "put it in brackets",
                };
                self.mismatch(node, "a list", Some(remedy.into()));
                return None;
            }
        };
        let kind = field.kind();
        let mut values = Vec::with_capacity(items.len());
        for (index, item) in (0_u32..).zip(items) {
            if self.sink.is_full() {
                break;
            }
            let value = self.within(PathStep::Index(index), |decoder| {
                if item.is_null() && !takes_null(field) {
                    decoder.fault(item.span, "an element of a list cannot be null", decoder.null_remedy(&kind));
                    return None;
                }
                decoder.value(&kind, item)
            });
            values.extend(value);
        }
        (values.len() == items.len()).then_some(Value::List(values))
    }

    fn map(&mut self, field: &FieldDescriptor, node: &Node) -> Option<Value> {
        let Kind::Message(entry) = field.kind() else { return None };
        let (key_kind, value_field) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field());
        let Some(entries) = node.entries() else {
            self.mismatch(node, "a map", None);
            return None;
        };
        let mut map = HashMap::with_capacity(entries.len());
        for Entry { key, key_span, value } in entries {
            if self.sink.is_full() {
                break;
            }
            self.within(PathStep::Key(key.clone()), |decoder| {
                let key = decoder.map_key(&key_kind, key, *key_span)?;
                if value.is_null() && !takes_null(&value_field) {
                    let remedy = decoder.null_remedy(&value_field.kind());
                    decoder.fault(value.span, "a value of a map cannot be null", remedy);
                    return None;
                }
                let value = decoder.value(&value_field.kind(), value)?;
                match map.entry(key) {
                    hash_map::Entry::Vacant(slot) => {
                        slot.insert(value);
                    }
                    hash_map::Entry::Occupied(_) => decoder.fault(*key_span, "the key occurs twice", None),
                }
                Some(())
            });
        }
        (map.len() == entries.len()).then_some(Value::Map(map))
    }

    /// The remedy for a null in the place of a string: in YAML an empty value is easily taken for an empty string.
    fn null_remedy(&self, kind: &Kind) -> Option<String> {
        matches!(kind, Kind::String).then(|| "write \"\" for an empty string, \"null\" for the word".to_owned())
    }

    fn map_key(&mut self, kind: &Kind, key: &str, span: Span) -> Option<MapKey> {
        let parsed = match kind {
            Kind::String => Some(MapKey::String(key.to_owned())),
            Kind::Bool => node::plain_bool(key).map(MapKey::Bool),
            kind => match self.integer_key(kind, key) {
                Some(key) => Some(key),
                None => {
                    let (name, low, high) = integer_range(kind)?;
                    let text = format!("the key {key:?} is not an integer from {low} to {high} ({name})");
                    self.fault(span, text, None);
                    return None;
                }
            },
        };
        if parsed.is_none() {
            self.fault(span, format!("the key {key:?} is neither true nor false"), None);
        }
        parsed
    }

    fn integer_key(&self, kind: &Kind, key: &str) -> Option<MapKey> {
        let value = scalar::integer(key, false).ok()?;
        match kind {
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => value.try_into().ok().map(MapKey::I32),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => value.try_into().ok().map(MapKey::I64),
            Kind::Uint32 | Kind::Fixed32 => value.try_into().ok().map(MapKey::U32),
            Kind::Uint64 | Kind::Fixed64 => value.try_into().ok().map(MapKey::U64),
            _ => None,
        }
    }
}

/// Whether null is a value of the field and not its absence.
fn takes_null(field: &FieldDescriptor) -> bool {
    match field.kind() {
        Kind::Message(message) => message.full_name() == "google.protobuf.Value",
        Kind::Enum(descriptor) => descriptor.full_name() == "google.protobuf.NullValue",
        _ => false,
    }
}
