//! Fields of a type's data that are references, as its descriptors declare them by the option `mortise.v1.reference`.
//!
//! A declaration holds wherever its message stands in the data: at the top, in a message within it, or in the messages of a
//! list or a map. Descriptors are read once for each type; [`ReferenceDecls::find`] and [`ReferenceDecls::clear`] decode
//! data, and look only into messages that can hold a reference.
//!
//! # Limits
//! A resource has at most [`MAX_REFERENCES`] references. Data is nested as deep as it decodes, 100 messages.

use std::collections::{HashMap, HashSet};

use mortise_resource::{
    data::{OnDelete, ReferenceOptions},
    name, pb,
    types::{self, Gvk},
};
use prost::Message as _;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage as _, Value,
};

use crate::manifest::{document::type_name, error::ManifestError};

/// References of one resource.
pub const MAX_REFERENCES: usize = 1_024;

const REFERENCE: &str = "hashicorp.consul.resource.Reference";
const ID: &str = "hashicorp.consul.resource.ID";

/// The references that a type's message declares.
#[derive(Debug, Clone, Default)]
pub struct ReferenceDecls {
    /// By the message that has the fields.
    fields: HashMap<String, Vec<ReferenceField>>,
    /// Messages that have such a field somewhere in them, these included.
    holders: HashSet<String>,
}

/// A field that is a reference, or a list of references.
#[derive(Debug, Clone)]
struct ReferenceField {
    field: FieldDescriptor,
    target: Gvk,
    on_delete: OnDelete,
}

/// A reference in data, as it is written there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataReference {
    /// The field: names joined by dots.
    pub field: String,
    /// The type of what it refers to.
    pub target: Gvk,
    /// What becomes of the resource when that is deleted.
    pub on_delete: OnDelete,
    /// What was given of the tenancy; empty for what was not.
    pub tenancy: pb::Tenancy,
    /// The name.
    pub name: String,
}

/// Why data has no references that can be followed.
#[derive(Debug, thiserror::Error)]
pub enum DataReferenceError {
    /// It is not of the type.
    #[error("data does not decode: {0}")]
    Undecodable(#[from] prost::DecodeError),
    /// One of them is none.
    #[error("data.{field} {what}")]
    Bad {
        /// The field.
        field: String,
        /// What is wrong.
        what: String,
    },
    /// There are too many.
    #[error("data has more than {MAX_REFERENCES} references")]
    TooMany,
}

impl ReferenceDecls {
    /// Reads what is declared in a message and the messages in it.
    pub(crate) fn read(pool: &DescriptorPool, message: &MessageDescriptor) -> Result<Self, ManifestError> {
        let options = options_of(pool);
        let mut decls = Self::default();
        if options.is_empty() {
            return Ok(decls);
        }
        // Which messages hold which: the other way round, for the second walk.
        let mut held_by: HashMap<String, Vec<String>> = HashMap::new();
        let (mut open, mut seen) = (vec![message.clone()], HashSet::from([message.full_name().to_owned()]));
        while let Some(message) = open.pop() {
            for field in message.fields() {
                if let Some(said) = options.get(&(message.full_name().to_owned(), field.number())) {
                    let declared = ReferenceField::read(&field, said).map_err(|fault| {
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

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The types that are referred to.
    pub fn targets(&self) -> impl Iterator<Item = &Gvk> {
        self.fields.values().flatten().map(|declared| &declared.target)
    }

    /// The references in encoded data of `message`, in no particular order. What is empty refers to nothing.
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

    /// The references that can be read in data that was stored before they were declared, the first [`MAX_REFERENCES`]. What
    /// is none, refers to nothing.
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

    /// Finds what can be read; `refused` is the first that cannot.
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
            if !self.leads_on(&field) {
                continue;
            }
            way.push(field.name().to_owned());
            for inner in items(value).filter_map(Value::as_message) {
                self.find_in(inner, way, found, refused);
            }
            way.pop();
        }
    }

    /// Data without the references for which `goes` holds: single ones are cleared, of lists these elements go. What is no
    /// reference stays.
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
        Ok(data.encode_to_vec())
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
                one => stays(&one).then_some(one),
            };
            match left {
                Some(value) => message.set_field(&declared.field, value),
                None => message.clear_field(&declared.field),
            }
        }
        let held: Vec<FieldDescriptor> =
            message.fields().map(|(field, _)| field).filter(|field| self.leads_on(field)).collect();
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
    fn leads_on(&self, field: &FieldDescriptor) -> bool {
        let inner = match field.kind() {
            Kind::Message(entry) if field.is_map() => entry.map_entry_value_field().kind(),
            kind => kind,
        };
        matches!(inner, Kind::Message(inner) if self.holders.contains(inner.full_name()))
    }
}

/// What stands in a field: each value of a list or a map, or the single one.
fn items<'v>(value: &'v Value) -> Box<dyn Iterator<Item = &'v Value> + 'v> {
    match value {
        Value::List(values) => Box::new(values.iter()),
        Value::Map(values) => Box::new(values.values()),
        one => Box::new(std::iter::once(one)),
    }
}

impl ReferenceField {
    fn read(field: &FieldDescriptor, said: &ReferenceOptions) -> Result<Self, ManifestError> {
        let is_reference = match field.kind() {
            Kind::String => true,
            Kind::Message(of) => matches!(of.full_name(), REFERENCE | ID),
            _ => false,
        };
        if !is_reference || field.is_map() {
            return Err(ManifestError::new(format!(
                "a reference is a string, a {REFERENCE} or an {ID}, or a list of them"
            )));
        }
        let mut parts = said.r#type.split('.');
        let (Some(group), Some(version), Some(kind), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(ManifestError::new(format!("type must be like \"demo.v2.Artist\", got: {:?}", said.r#type)));
        };
        let target = Gvk::new(group, version, kind);
        type_name(&target).map_err(|fault| fault.at("type"))?;
        match OnDelete::try_from(said.on_delete) {
            Ok(OnDelete::Unspecified) | Err(_) => Err(ManifestError::new(
                "on_delete is required: block, unset, cascade, async unset, async cascade or allow dangling",
            )),
            Ok(on_delete) => Ok(Self { field: field.clone(), target, on_delete }),
        }
    }

    /// What a value refers to; an empty one to nothing.
    fn reference(&self, value: &Value, field: &str) -> Result<Option<DataReference>, DataReferenceError> {
        let bad = |what: String| DataReferenceError::Bad { field: field.to_owned(), what };
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
                let (of, tenancy, name) = if message.descriptor().full_name() == ID {
                    let id = pb::Id::decode(bytes.as_slice())?;
                    (id.r#type, id.tenancy, id.name)
                } else {
                    let reference = pb::Reference::decode(bytes.as_slice())?;
                    (reference.r#type, reference.tenancy, reference.name)
                };
                if name.is_empty() && of.is_none() {
                    return Ok(None);
                }
                if let Some(of) = of.filter(|of| (&of.group, &of.kind) != (&self.target.group, &self.target.kind)) {
                    return Err(bad(format!("refers to a {}, and has to refer to a {}", types::gvk(&of), self.target)));
                }
                (tenancy.unwrap_or_default(), name)
            }
            _ => return Ok(None),
        };
        let parts = [("name", &name), ("partition", &tenancy.partition), ("namespace", &tenancy.namespace)];
        for (part, text) in parts.into_iter().filter(|(part, text)| *part == "name" || !text.is_empty()) {
            if let Some(fault) = name::fault(text) {
                return Err(bad(format!("refers to something with a bad {part}: {fault}")));
            }
        }
        let (target, on_delete) = (self.target.clone(), self.on_delete);
        Ok(Some(DataReference { field: field.to_owned(), target, on_delete, tenancy, name }))
    }
}

/// The option of each field that has it, by message and number. They are read from the bytes of the files: descriptors
/// lose extensions that they were not built with.
fn options_of(pool: &DescriptorPool) -> HashMap<(String, u32), ReferenceOptions> {
    let mut found = HashMap::new();
    for file in pool.files() {
        // Cannot fail: the pool was built of it.
        let Ok(bytes) = File::decode(file.encode_to_vec().as_slice()) else { continue };
        let mut open: Vec<(String, Declared)> =
            bytes.messages.into_iter().map(|message| (file.package_name().to_owned(), message)).collect();
        while let Some((parent, message)) = open.pop() {
            let name = if parent.is_empty() { message.name } else { format!("{parent}.{}", message.name) };
            for field in message.fields {
                if let (Some(said), Ok(number)) =
                    (field.options.and_then(|of| of.reference), u32::try_from(field.number))
                {
                    found.insert((name.clone(), number), said);
                }
            }
            open.extend(message.nested.into_iter().map(|nested| (name.clone(), nested)));
        }
    }
    found
}

/// Of `google.protobuf.FileDescriptorProto`, what is looked at here.
#[derive(Clone, PartialEq, prost::Message)]
struct File {
    #[prost(message, repeated, tag = "4")]
    messages: Vec<Declared>,
}

/// The same of `DescriptorProto`.
#[derive(Clone, PartialEq, prost::Message)]
struct Declared {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    fields: Vec<Field>,
    #[prost(message, repeated, tag = "3")]
    nested: Vec<Declared>,
}

/// The same of `FieldDescriptorProto`.
#[derive(Clone, PartialEq, prost::Message)]
struct Field {
    #[prost(int32, tag = "3")]
    number: i32,
    #[prost(message, optional, tag = "8")]
    options: Option<RawOptions>,
}

/// The same of `FieldOptions`.
#[derive(Clone, PartialEq, prost::Message)]
struct RawOptions {
    #[prost(message, optional, tag = "51001")]
    reference: Option<ReferenceOptions>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `FieldDescriptorProto` with the option.
    #[derive(Clone, PartialEq, prost::Message)]
    struct WholeField {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(int32, tag = "3")]
        number: i32,
        #[prost(int32, tag = "4")]
        label: i32,
        #[prost(int32, tag = "5")]
        kind: i32,
        #[prost(string, optional, tag = "6")]
        of: Option<String>,
        #[prost(message, optional, tag = "8")]
        options: Option<RawOptions>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct WholeMessage {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(message, repeated, tag = "2")]
        fields: Vec<WholeField>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct WholeFile {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(string, tag = "2")]
        package: String,
        #[prost(message, repeated, tag = "4")]
        messages: Vec<WholeMessage>,
        #[prost(string, tag = "12")]
        syntax: String,
    }

    const STRING: i32 = 9;
    const INT32: i32 = 5;
    const MESSAGE: i32 = 11;
    const LIST: i32 = 3;

    fn field(name: &str, number: i32, label: i32, kind: i32, of: &str) -> WholeField {
        let of = (!of.is_empty()).then(|| of.to_owned());
        WholeField { name: name.into(), number, label, kind, of, options: None }
    }

    fn refers(field: WholeField, to: &str, on_delete: i32) -> WholeField {
        let reference = Some(ReferenceOptions { r#type: to.into(), on_delete });
        WholeField { options: Some(RawOptions { reference }), ..field }
    }

    /// The declarations of `t.Top`, whose fields are these; `t.Inner` holds itself and has a reference.
    fn read(fields: Vec<WholeField>) -> Result<(ReferenceDecls, MessageDescriptor), String> {
        let inner = vec![
            field("deeper", 1, LIST, MESSAGE, ".t.Inner"),
            refers(field("to", 2, 1, STRING, ""), "demo.v2.Artist", 2),
        ];
        let messages = vec![
            WholeMessage { name: "Top".into(), fields },
            WholeMessage { name: "Inner".into(), fields: inner },
            WholeMessage { name: "Loop".into(), fields: vec![field("again", 1, 1, MESSAGE, ".t.Loop")] },
        ];
        let file = WholeFile { name: "t.proto".into(), package: "t".into(), messages, syntax: "proto3".into() };
        let mut pool = DescriptorPool::new();
        pool.decode_file_descriptor_proto(file.encode_to_vec().as_slice()).unwrap();
        let message = pool.get_message_by_name("t.Top").unwrap();
        let decls = ReferenceDecls::read(&pool, &message).map_err(|fault| fault.to_string())?;
        Ok((decls, message))
    }

    #[test]
    fn what_is_no_reference_is_refused_with_its_field() {
        let text = || field("x", 1, 1, STRING, "");
        for (bad, says) in [
            (refers(text(), "Artist", 1), "type must be like"),
            (refers(text(), "Demo.v2.Artist", 1), "group must match"),
            (refers(text(), "demo.v2.Artist", 0), "on_delete is required"),
            (refers(text(), "demo.v2.Artist", 7), "on_delete is required"),
            (refers(field("x", 1, 1, INT32, ""), "demo.v2.Artist", 1), "a reference is a string"),
            (refers(field("x", 1, 1, MESSAGE, ".t.Inner"), "demo.v2.Artist", 1), "a reference is a string"),
        ] {
            let said = read(vec![bad]).unwrap_err();
            assert!(said.starts_with("the option mortise.v1.reference of t.Top.x: ") && said.contains(says), "{said}");
        }
        assert!(read(vec![text()]).unwrap().0.is_empty(), "no declaration is within reach");
        assert!(!read(vec![field("x", 1, 1, MESSAGE, ".t.Inner")]).unwrap().0.is_empty());
    }

    #[test]
    fn references_are_found_and_cleared_wherever_they_stand() {
        let fields = vec![
            refers(field("one", 1, 1, STRING, ""), "demo.v2.Artist", 1),
            refers(field("many", 2, LIST, STRING, ""), "demo.v2.Album", 3),
            field("inner", 3, 1, MESSAGE, ".t.Inner"),
            field("loop", 4, 1, MESSAGE, ".t.Loop"),
        ];
        let (decls, message) = read(fields).unwrap();
        let mut targets: Vec<_> = decls.targets().map(|target| target.kind.clone()).collect();
        targets.sort();
        assert_eq!(targets, ["Album", "Artist", "Artist"]);
        // one: "a", many: ["b", "", "n/c"], inner { deeper { to: "p/n/d" } to: "a" }, loop { again { } }
        let data = [
            &b"\x0a\x01a\x12\x01b\x12\x00\x12\x03n/c"[..],
            b"\x1a\x0c\x0a\x07\x12\x05p/n/d\x12\x01a",
            b"\x22\x02\x0a\x00",
        ]
        .concat();
        let found = decls.find(&message, &data).unwrap();
        let shown: Vec<_> = found
            .iter()
            .map(|one| format!("{} {}/{}/{}", one.field, one.tenancy.partition, one.tenancy.namespace, one.name))
            .collect();
        assert_eq!(shown, ["one //a", "many //b", "many /n/c", "inner.to //a", "inner.deeper.to p/n/d"]);
        let cleared = decls.clear(&message, &data, &|one| one.name == "a" || one.name == "b").unwrap();
        let left: Vec<_> = decls.find(&message, &cleared).unwrap().into_iter().map(|one| one.name).collect();
        assert_eq!(left, ["c", "d"]);
        assert!(matches!(decls.find(&message, &[0xff]), Err(DataReferenceError::Undecodable(_))));
    }

    #[test]
    fn one_resource_has_so_many_references() {
        let fields = vec![refers(field("many", 2, LIST, STRING, ""), "demo.v2.Album", 3)];
        let (decls, message) = read(fields).unwrap();
        let data = |count: usize| b"\x12\x01b".repeat(count);
        assert_eq!(decls.find(&message, &data(MAX_REFERENCES)).unwrap().len(), MAX_REFERENCES);
        let fault = decls.find(&message, &data(MAX_REFERENCES + 1)).unwrap_err();
        assert_eq!(fault.to_string(), "data has more than 1024 references");
    }
}
