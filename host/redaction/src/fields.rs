//! Which fields are not to be shown.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use prost::Message;
use prost_reflect::{DescriptorPool, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor};

/// Which fields of each message are marked, by the message's name, as far as was asked. For those who meet messages of
/// any pool, one after the other; asking costs a decoding of the message's file, once for each message.
#[derive(Debug, Default)]
pub struct RedactedFields(HashMap<String, BTreeSet<u32>>);

impl RedactedFields {
    /// Whether a field is marked.
    pub fn contain(&mut self, field: &FieldDescriptor) -> bool {
        let message = field.parent_message();
        let name = message.full_name();
        let numbers = self.0.entry(name.to_owned()).or_insert_with(|| {
            let mut marked = HashMap::new();
            of_file(&message.parent_file(), &mut marked);
            marked.remove(name).unwrap_or_default()
        });
        numbers.contains(&field.number())
    }
}

/// The fields of a pool's messages that are marked with `debug_redact`. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Redaction(Arc<Marked>);

#[derive(Debug)]
struct Marked {
    /// Numbers of the fields, by their message's name.
    fields: HashMap<String, BTreeSet<u32>>,
    /// Names of the messages that have such a field, or may have one somewhere within: an `Any` may hold any message.
    messages: HashSet<String>,
}

impl Redaction {
    /// Of a pool's messages; none when no field is marked.
    #[must_use]
    pub fn of(pool: &DescriptorPool) -> Option<Self> {
        let mut marked = HashMap::new();
        for file in pool.files().filter(|file| file.package_name() != "google.protobuf") {
            of_file(&file, &mut marked);
        }
        (!marked.is_empty()).then(|| Self(Arc::new(Marked { messages: holders(pool, &marked), fields: marked })))
    }

    /// Whether data of a message may hold such a field, however deep.
    #[must_use]
    pub fn is_within(&self, message: &MessageDescriptor) -> bool {
        self.0.messages.contains(message.full_name())
    }

    /// Whether a field is one of them.
    #[must_use]
    pub fn covers(&self, field: &FieldDescriptor) -> bool {
        self.0.fields.get(field.parent_message().full_name()).is_some_and(|marked| marked.contains(&field.number()))
    }
}

/// The messages that have a marked field, or that have one of these messages within.
fn holders(pool: &DescriptorPool, marked: &HashMap<String, BTreeSet<u32>>) -> HashSet<String> {
    let mut parents: HashMap<String, Vec<MessageDescriptor>> = HashMap::new();
    for message in pool.all_messages() {
        for field in message.fields() {
            if let Kind::Message(part) = field.kind() {
                parents.entry(part.full_name().to_owned()).or_default().push(message.clone());
            }
        }
    }
    let mut found: HashSet<String> = marked.keys().cloned().collect();
    found.insert("google.protobuf.Any".to_owned());
    let mut unseen: Vec<String> = found.iter().cloned().collect();
    while let Some(part) = unseen.pop() {
        for parent in parents.remove(&part).unwrap_or_default() {
            if found.insert(parent.full_name().to_owned()) {
                unseen.push(parent.full_name().to_owned());
            }
        }
    }
    found
}

fn of_file(file: &FileDescriptor, marked: &mut HashMap<String, BTreeSet<u32>>) {
    // Cannot fail: the pool was built of it.
    let Ok(bytes) = File::decode(file.encode_to_vec().as_slice()) else { return };
    for message in &bytes.messages {
        collect(file.package_name(), message, marked);
    }
}

fn collect(parent: &str, message: &Declared, marked: &mut HashMap<String, BTreeSet<u32>>) {
    let name = if parent.is_empty() { message.name.clone() } else { format!("{parent}.{}", message.name) };
    // Decoding bounds the depth.
    for nested in &message.nested {
        collect(&name, nested, marked);
    }
    let redacted = message.fields.iter().filter(|field| field.options.as_ref().is_some_and(|of| of.debug_redact));
    let numbers: BTreeSet<u32> = redacted.filter_map(|field| u32::try_from(field.number).ok()).collect();
    if !numbers.is_empty() {
        marked.insert(name, numbers);
    }
}

/// Of `google.protobuf.FileDescriptorProto`, what is looked at here.
#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(message, repeated, tag = "4")]
    messages: Vec<Declared>,
}

/// The same of `DescriptorProto`.
#[derive(Clone, PartialEq, Message)]
struct Declared {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    fields: Vec<Field>,
    #[prost(message, repeated, tag = "3")]
    nested: Vec<Declared>,
}

/// The same of `FieldDescriptorProto`.
#[derive(Clone, PartialEq, Message)]
struct Field {
    #[prost(int32, tag = "3")]
    number: i32,
    #[prost(message, optional, tag = "8")]
    options: Option<FieldOptions>,
}

/// The same of `FieldOptions`.
#[derive(Clone, PartialEq, Message)]
struct FieldOptions {
    #[prost(bool, tag = "16")]
    debug_redact: bool,
}
