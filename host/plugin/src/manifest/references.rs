//! Reference fields of a type's data, declared in its descriptors by the option `mortise.v1.reference`.
//!
//! A declaration holds wherever its message is in the data: at the top, in a message within it, or in the messages of a
//! list or a map. Descriptors are read once for each type; [`ReferenceDecls::find`] and [`ReferenceDecls::clear`]
//! decode data, and visit only messages that can hold a reference.
//!
//! # Limits
//! A resource has at most [`MAX_REFERENCES`] references. Data is nested as deep as it decodes, 100 messages.

use std::collections::{HashMap, HashSet};

use mortise_resource::{
    FieldFault, FieldPath,
    data::{OnDelete, ReferenceOptions},
    descriptors::{self, FieldOptions},
    name, pb,
    types::{self, Gvk},
};
use prost::Message as _;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage as _, Value,
};

use crate::manifest::{error::ManifestError, type_name::type_name};

/// Most references of one resource.
pub const MAX_REFERENCES: usize = 1_024;

const REFERENCE: &str = "hashicorp.consul.resource.Reference";
const ID: &str = "hashicorp.consul.resource.ID";

/// References that a type's message declares.
#[derive(Debug, Clone, Default)]
pub struct ReferenceDecls {
    /// Reference fields, by the message that has them.
    fields: HashMap<String, Vec<ReferenceField>>,
    /// Messages that have a reference field, or hold a message that does.
    holders: HashSet<String>,
}

/// A field that is a reference, or a list of references.
#[derive(Debug, Clone)]
struct ReferenceField {
    field: FieldDescriptor,
    target: Gvk,
    on_delete: OnDelete,
}

/// A reference in data, as written there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataReference {
    /// The field: names joined by dots.
    pub field: String,
    /// Type of the target.
    pub target: Gvk,
    /// Action on the resource when the target is deleted.
    pub on_delete: OnDelete,
    /// Tenancy as far as the data gives it; the rest is empty.
    pub tenancy: pb::Tenancy,
    /// Name of the target.
    pub name: String,
}

/// Fault of references in data.
#[derive(Debug, thiserror::Error)]
pub enum DataReferenceError {
    /// The data does not decode.
    #[error("data does not decode: {0}")]
    Undecodable(#[from] prost::DecodeError),
    /// A reference is malformed.
    #[error("data.{} {}", .0.path, .0.fault)]
    Bad(FieldFault),
    /// The data has too many references.
    #[error("data has more than {MAX_REFERENCES} references")]
    TooMany,
}

impl ReferenceDecls {
    /// Reads the declarations in a message and the messages in it.
    ///
    /// # Errors
    /// A declaration is invalid.
    pub fn read(pool: &DescriptorPool, message: &MessageDescriptor) -> Result<Self, ManifestError> {
        let options: HashMap<_, FieldOptions<RawOptions>> =
            pool.files().flat_map(|file| descriptors::field_options(&file.encode_to_vec())).collect();
        let mut decls = Self::default();
        if !options.values().flat_map(HashMap::values).any(|entry| entry.reference.is_some()) {
            return Ok(decls);
        }
        // For each message, the messages that hold it: the second walk goes upwards.
        let mut held_by: HashMap<String, Vec<String>> = HashMap::new();
        let (mut open, mut seen) = (vec![message.clone()], HashSet::from([message.full_name().to_owned()]));
        while let Some(message) = open.pop() {
            for field in message.fields() {
                let field_options = options.get(message.full_name()).and_then(|fields| fields.get(&field.number()));
                if let Some(field_options) = field_options.and_then(|field_options| field_options.reference.as_ref()) {
                    let declared = ReferenceField::read(&field, field_options).map_err(|fault| {
                        fault.at(format!("the option mortise.v1.reference of {}", field.full_name()))
                    })?;
                    decls.fields.entry(message.full_name().to_owned()).or_default().push(declared);
                } else if let Kind::Message(inner) = field.kind() {
                    held_by.entry(inner.full_name().to_owned()).or_default().push(message.full_name().to_owned());
                    if seen.insert(inner.full_name().to_owned()) {
                        open.push(inner);
                    }
                }
            }
        }
        let mut open: Vec<String> = decls.fields.keys().cloned().collect();
        while let Some(name) = open.pop() {
            open.extend(
                held_by.get(&name).into_iter().flatten().filter(|name| !decls.holders.contains(*name)).cloned(),
            );
            decls.holders.insert(name);
        }
        Ok(decls)
    }

    /// Whether the type declares no references.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Types of the targets.
    pub fn targets(&self) -> impl Iterator<Item = &Gvk> {
        self.fields.values().flatten().map(|declared| &declared.target)
    }

    /// Finds the references in encoded data of `message`, in no particular order. Empty ones are left out.
    ///
    /// # Errors
    /// [`DataReferenceError`].
    pub fn find(&self, message: &MessageDescriptor, data: &[u8]) -> Result<Vec<DataReference>, DataReferenceError> {
        let mut found = Vec::new();
        if !self.is_empty() {
            let data = DynamicMessage::decode(message.clone(), data)?;
            let mut refused = None;
            self.find_in(&data, &mut Vec::new(), &mut found, &mut refused);
            if let Some(fault) = refused {
                return Err(fault);
            }
        }
        Ok(found)
    }

    /// Finds the readable references in data that may have been stored before they were declared, the first
    /// [`MAX_REFERENCES`]. Malformed ones are left out.
    #[must_use]
    pub fn find_readable(&self, message: &MessageDescriptor, data: &[u8]) -> Vec<DataReference> {
        let mut found = Vec::new();
        if !self.is_empty()
            && let Ok(data) = DynamicMessage::decode(message.clone(), data)
        {
            self.find_in(&data, &mut Vec::new(), &mut found, &mut None);
        }
        found
    }

    /// Finds readable references; sets `refused` to the fault of the first unreadable one.
    fn find_in(
        &self,
        message: &DynamicMessage,
        way: &mut Vec<String>,
        found: &mut Vec<DataReference>,
        refused: &mut Option<DataReferenceError>,
    ) {
        let descriptor = message.descriptor();
        for declared in self.fields.get(descriptor.full_name()).into_iter().flatten() {
            if !message.has_field(&declared.field) {
                continue;
            }
            let field = [way.as_slice(), &[declared.field.name().to_owned()]].concat().join(".");
            for value in items(&message.get_field(&declared.field)) {
                match declared.reference(value, &field) {
                    Ok(Some(_)) if found.len() >= MAX_REFERENCES => {
                        refused.get_or_insert(DataReferenceError::TooMany);
                        return;
                    }
                    Ok(reference) => found.extend(reference),
                    Err(fault) => drop(refused.get_or_insert(fault)),
                }
            }
        }
        for (field, value) in message.fields() {
            if !self.can_hold_references(&field) {
                continue;
            }
            way.push(field.name().to_owned());
            for inner in items(value).filter_map(Value::as_message) {
                self.find_in(inner, way, found, refused);
            }
            way.pop();
        }
    }

    /// Removes the references for which `goes` answers true: clears single fields, and drops elements of lists.
    /// Malformed references stay.
    ///
    /// # Errors
    /// [`DataReferenceError::Undecodable`].
    pub fn clear(
        &self,
        message: &MessageDescriptor,
        data: &[u8],
        goes: &dyn Fn(&DataReference) -> bool,
    ) -> Result<Vec<u8>, DataReferenceError> {
        let mut data = DynamicMessage::decode(message.clone(), data)?;
        self.clear_in(&mut data, &mut Vec::new(), goes);
        Ok(mortise_text::encode_message(&data))
    }

    fn clear_in(&self, message: &mut DynamicMessage, way: &mut Vec<String>, goes: &dyn Fn(&DataReference) -> bool) {
        let descriptor = message.descriptor();
        for declared in self.fields.get(descriptor.full_name()).into_iter().flatten() {
            if !message.has_field(&declared.field) {
                continue;
            }
            let field = [way.as_slice(), &[declared.field.name().to_owned()]].concat().join(".");
            let stays = |value: &Value| {
                let reference = declared.reference(value, &field).ok().flatten();
                reference.is_none_or(|reference| !goes(&reference))
            };
            let left = match message.get_field(&declared.field).into_owned() {
                Value::List(mut values) => {
                    values.retain(stays);
                    (!values.is_empty()).then_some(Value::List(values))
                }
                single => stays(&single).then_some(single),
            };
            match left {
                Some(value) => message.set_field(&declared.field, value),
                None => message.clear_field(&declared.field),
            }
        }
        let held: Vec<FieldDescriptor> =
            message.fields().map(|(field, _)| field).filter(|field| self.can_hold_references(field)).collect();
        for field in held {
            way.push(field.name().to_owned());
            match message.get_field_mut(&field) {
                Value::Message(inner) => self.clear_in(inner, way, goes),
                Value::List(values) => {
                    values
                        .iter_mut()
                        .filter_map(Value::as_message_mut)
                        .for_each(|inner| self.clear_in(inner, way, goes));
                }
                Value::Map(values) => {
                    let values = values.values_mut().filter_map(Value::as_message_mut);
                    values.for_each(|inner| self.clear_in(inner, way, goes));
                }
                _ => {}
            }
            way.pop();
        }
    }

    /// Whether messages in a field can hold references.
    fn can_hold_references(&self, field: &FieldDescriptor) -> bool {
        let inner = match field.kind() {
            Kind::Message(entry) if field.is_map() => entry.map_entry_value_field().kind(),
            kind => kind,
        };
        matches!(inner, Kind::Message(inner) if self.holders.contains(inner.full_name()))
    }
}

/// Values of a field: each one of a list or a map, or the single one.
fn items<'v>(value: &'v Value) -> Box<dyn Iterator<Item = &'v Value> + 'v> {
    match value {
        Value::List(values) => Box::new(values.iter()),
        Value::Map(values) => Box::new(values.values()),
        single => Box::new(std::iter::once(single)),
    }
}

impl ReferenceField {
    fn read(field: &FieldDescriptor, options: &ReferenceOptions) -> Result<Self, ManifestError> {
        let is_reference = match field.kind() {
            Kind::String => true,
            Kind::Message(message) => matches!(message.full_name(), REFERENCE | ID),
            _ => false,
        };
        if !is_reference || field.is_map() {
            return Err(ManifestError::new(format!(
                "a reference is a string, a {REFERENCE} or an {ID}, or a list of them"
            )));
        }
        let target: Gvk = options.r#type.parse().map_err(ManifestError::caused_by)?;
        type_name(&target).map_err(|fault| fault.at("type"))?;
        match OnDelete::try_from(options.on_delete) {
            Ok(OnDelete::Unspecified) | Err(_) => Err(ManifestError::new(
                "on_delete is required: block, unset, cascade, async unset, async cascade or allow dangling",
            )),
            Ok(on_delete) => Ok(Self { field: field.clone(), target, on_delete }),
        }
    }

    /// Reads the reference in a value; `None` if it is empty.
    fn reference(&self, value: &Value, field: &str) -> Result<Option<DataReference>, DataReferenceError> {
        let bad = |fault| DataReferenceError::Bad(FieldFault { path: FieldPath::parse(field), fault });
        let (tenancy, name) = match value {
            Value::String(text) => match text.split('/').collect::<Vec<_>>().as_slice() {
                [""] => return Ok(None),
                [name] => (pb::Tenancy::default(), (*name).to_owned()),
                [unit, name] => {
                    let (partition, namespace) = (String::new(), (*unit).to_owned());
                    (pb::Tenancy { partition, namespace }, (*name).to_owned())
                }
                [partition, namespace, name] => {
                    let (partition, namespace) = ((*partition).to_owned(), (*namespace).to_owned());
                    (pb::Tenancy { partition, namespace }, (*name).to_owned())
                }
                _ => {
                    return Err(bad(format!(
                        "is {text:?}; a reference is NAME, NAMESPACE/NAME or PARTITION/NAMESPACE/NAME"
                    )));
                }
            },
            Value::Message(message) => {
                let bytes = message.encode_to_vec();
                let (found_type, tenancy, name) = if message.descriptor().full_name() == ID {
                    let id = pb::Id::decode(bytes.as_slice())?;
                    (id.r#type, id.tenancy, id.name)
                } else {
                    let reference = pb::Reference::decode(bytes.as_slice())?;
                    (reference.r#type, reference.tenancy, reference.name)
                };
                if name.is_empty() && found_type.is_none() {
                    return Ok(None);
                }
                if let Some(found_type) = found_type.filter(|found_type| {
                    (&found_type.group, &found_type.kind) != (&self.target.group, &self.target.kind)
                }) {
                    return Err(bad(format!(
                        "refers to a {}, but must refer to a {}",
                        types::gvk(&found_type),
                        self.target
                    )));
                }
                (tenancy.unwrap_or_default(), name)
            }
            _ => return Ok(None),
        };
        let parts = [("name", &name), ("partition", &tenancy.partition), ("namespace", &tenancy.namespace)];
        for (part, text) in parts.into_iter().filter(|(part, text)| *part == "name" || !text.is_empty()) {
            if let Some(fault) = name::fault(text) {
                return Err(bad(format!("refers to an invalid {part}: {fault}")));
            }
        }
        let (target, on_delete) = (self.target.clone(), self.on_delete);
        Ok(Some(DataReference { field: field.to_owned(), target, on_delete, tenancy, name }))
    }
}

/// The fields of `google.protobuf.FieldOptions` that are read here.
#[derive(Clone, PartialEq, prost::Message)]
struct RawOptions {
    #[prost(message, optional, tag = "51001")]
    reference: Option<ReferenceOptions>,
}

#[cfg(test)]
mod tests;
