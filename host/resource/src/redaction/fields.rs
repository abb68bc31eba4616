//! Finds the fields that must not be shown.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use crate::descriptors;
use prost::Message;
use prost_reflect::{DescriptorPool, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor};

/// Cache of the marked fields of each message, by the message's name, for messages from any pool. The first question
/// about a message decodes its file.
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

/// The fields of a pool's messages with the option `debug_redact`. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Redaction(Arc<Marked>);

#[derive(Debug)]
struct Marked {
    /// Numbers of the marked fields, by message name.
    fields: HashMap<String, BTreeSet<u32>>,
    /// Names of the messages with a marked field, or with a place for one somewhere within: an `Any` may hold any
    /// message.
    messages: HashSet<String>,
}

impl Redaction {
    /// Finds the marked fields of a pool; `None` when no field is marked.
    #[must_use]
    pub fn from_pool(pool: &DescriptorPool) -> Option<Self> {
        let mut marked = HashMap::new();
        for file in pool.files().filter(|file| file.package_name() != "google.protobuf") {
            of_file(&file, &mut marked);
        }
        (!marked.is_empty()).then(|| Self(Arc::new(Marked { messages: holders(pool, &marked), fields: marked })))
    }

    /// Whether data of a message may hold a marked field, at any depth.
    #[must_use]
    pub fn is_within(&self, message: &MessageDescriptor) -> bool {
        self.0.messages.contains(message.full_name())
    }

    /// Whether a field is marked.
    #[must_use]
    pub fn covers(&self, field: &FieldDescriptor) -> bool {
        self.0.fields.get(field.parent_message().full_name()).is_some_and(|marked| marked.contains(&field.number()))
    }
}

/// Finds the messages with a marked field, and those that contain such messages.
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
    for (message, fields) in descriptors::field_options::<FieldOptions>(&file.encode_to_vec()) {
        let redacted = fields.into_iter().filter(|(_, options)| options.debug_redact);
        let numbers: BTreeSet<u32> = redacted.map(|(number, _)| number).collect();
        if !numbers.is_empty() {
            marked.insert(message, numbers);
        }
    }
}

/// The used part of `google.protobuf.FieldOptions`.
#[derive(Clone, PartialEq, Message)]
struct FieldOptions {
    #[prost(bool, tag = "16")]
    debug_redact: bool,
}
