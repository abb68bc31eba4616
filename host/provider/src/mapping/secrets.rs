//! Secrets in JSON: a message that is shown as JSON hides as a whole if a field below it has `debug_redact`.

use std::collections::{HashMap, HashSet};

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};

use super::options::FieldOptions;

/// The message that may hold each message of its pool.
const ANY: &str = "google.protobuf.Any";

/// Finds the fields with `debug_redact` below messages. The messages of a pool are searched once, when one is asked
/// for.
pub(super) struct SecretFinder<'a> {
    options: &'a dyn Fn(&FieldDescriptor) -> FieldOptions,
    /// The messages with such a field at any depth.
    holders: Option<HashSet<String>>,
}

impl<'a> SecretFinder<'a> {
    pub(super) fn new(options: &'a dyn Fn(&FieldDescriptor) -> FieldOptions) -> Self {
        Self { options, holders: None }
    }

    /// Whether the message of a field has a field with `debug_redact` at any depth.
    pub(super) fn can_be_in(&mut self, field: &FieldDescriptor) -> bool {
        let kind = match field.kind() {
            Kind::Message(entry) if field.is_map() => entry.map_entry_value_field().kind(),
            kind => kind,
        };
        let Kind::Message(message) = kind else { return false };
        let options = self.options;
        self.holders.get_or_insert_with(|| holders(&message, options)).contains(message.full_name())
    }
}

/// The messages of a pool with a field with `debug_redact` at any depth.
fn holders(message: &MessageDescriptor, options: &dyn Fn(&FieldDescriptor) -> FieldOptions) -> HashSet<String> {
    // From each message to those that have it in a field.
    let mut within: HashMap<String, Vec<String>> = HashMap::new();
    let mut open: Vec<String> = Vec::new();
    for message in message.parent_pool().all_messages() {
        let name = message.full_name();
        if message.fields().any(|field| options(&field).debug_redact) {
            open.extend([name.to_owned(), ANY.to_owned()]);
        }
        for inner in message.fields().filter_map(|field| field.kind().as_message().cloned()) {
            within.entry(inner.full_name().to_owned()).or_default().push(name.to_owned());
        }
    }
    let mut found = HashSet::new();
    while let Some(next) = open.pop() {
        if found.insert(next.clone()) {
            open.extend(within.remove(&next).unwrap_or_default());
        }
    }
    found
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
            message M { Tree tree = 1; Plain plain = 2; google.protobuf.Struct open = 3; google.protobuf.Value any = 4;
                        google.protobuf.Any held = 5; }";
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
        assert!(object.attributes[4].flags.sensitive, "it may hold each message");
        assert!(object.has_secrets());
    }

    #[test]
    fn each_field_is_looked_at_a_few_times_however_many_hold_json() {
        const MESSAGES: usize = 200;
        let declarations: String = (0..MESSAGES)
            .map(|at| format!("message M{at} {{ repeated M{at} more = 1; M{} next = 2; }}\n", (at + 1) % MESSAGES))
            .collect();
        let declarations = format!("{declarations} message M {{ {} }}", {
            let field = |at| format!("M{at} m{at} = {};", at + 1);
            (0..MESSAGES).map(field).collect::<String>()
        });
        let message = message(&declarations, "M");
        let looks = std::cell::Cell::new(0_usize);
        let count = |_: &FieldDescriptor| {
            looks.set(looks.get() + 1);
            FieldOptions::default()
        };
        let mut finder = SecretFinder::new(&count);
        for field in message.fields() {
            assert!(!finder.can_be_in(&field));
        }
        let fields: usize = message.parent_pool().all_messages().map(|message| message.fields().len()).sum();
        assert!(looks.get() <= 2 * fields, "{} looks at {fields} fields", looks.get());
    }
}
