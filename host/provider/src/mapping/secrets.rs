//! Secrets in JSON: a message that is shown as JSON hides as a whole if a field below it has `debug_redact`.

use std::collections::{HashMap, HashSet};

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};

use super::options::FieldOptions;

/// Finds the fields with `debug_redact` below messages. Each message is searched once.
pub(super) struct SecretFinder<'a> {
    options: &'a dyn Fn(&FieldDescriptor) -> FieldOptions,
    known: HashMap<String, bool>,
}

impl<'a> SecretFinder<'a> {
    pub(super) fn new(options: &'a dyn Fn(&FieldDescriptor) -> FieldOptions) -> Self {
        Self { options, known: HashMap::new() }
    }

    /// Whether the message of a field has a field with `debug_redact` at any depth. An `Any` may hold each message of
    /// the pool.
    pub(super) fn can_be_in(&mut self, field: &FieldDescriptor) -> bool {
        let kind = match field.kind() {
            Kind::Message(entry) if field.is_map() => entry.map_entry_value_field().kind(),
            kind => kind,
        };
        let Kind::Message(message) = kind else { return false };
        if let Some(known) = self.known.get(message.full_name()) {
            return *known;
        }
        let found = self.is_below(&message);
        self.known.insert(message.full_name().to_owned(), found);
        found
    }

    fn is_below(&self, message: &MessageDescriptor) -> bool {
        let redacts = |message: &MessageDescriptor| message.fields().any(|field| (self.options)(&field).debug_redact);
        let mut seen = HashSet::from([message.full_name().to_owned()]);
        let mut open = vec![message.clone()];
        while let Some(next) = open.pop() {
            let found = match next.full_name() {
                "google.protobuf.Any" => next.parent_pool().all_messages().any(|message| redacts(&message)),
                _ => redacts(&next),
            };
            if found {
                return true;
            }
            let inner = next.fields().filter_map(|field| field.kind().as_message().cloned());
            open.extend(inner.filter(|inner| seen.insert(inner.full_name().to_owned())));
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::{Object, shape::tests::message};

    #[test]
    fn json_hides_what_has_a_secret_anywhere_below() {
        let declarations = "message Leaf { string secret = 1; }
            message Tree { repeated Tree children = 1; map<string, Leaf> leaves = 2; }
            message Plain { repeated Plain more = 1; string text = 2; }
            message M { Tree tree = 1; Plain plain = 2; google.protobuf.Struct open = 3; google.protobuf.Value any = 4; }";
        let options = |field: &FieldDescriptor| FieldOptions {
            debug_redact: field.name() == "secret",
            ..FieldOptions::default()
        };
        let object = Object::of(&message(declarations, "M"), &options).unwrap();
        let sensitive = |name: &str, inner: &str| {
            let shape = &object.attributes.iter().find(|attribute| attribute.name == name).unwrap().shape;
            let crate::mapping::Shape::Object(object) = shape else { panic!("{shape:?}") };
            object.attributes.iter().find(|attribute| attribute.name == inner).unwrap().flags.sensitive
        };
        assert!(sensitive("tree", "children"));
        assert!(!sensitive("tree", "leaves"), "shown as objects, with the secret hidden");
        assert!(!sensitive("plain", "more"));
        assert!(!object.attributes[2].flags.sensitive && !object.attributes[3].flags.sensitive);
        assert!(object.has_secrets());
    }
}
