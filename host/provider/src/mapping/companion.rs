//! Companions of attributes: `secret_wo`, which is only written, and `secret_wo_version`, whose change writes it.

use super::shape::{Attribute, Shape};

impl Attribute {
    /// The name of the companion that is only written.
    #[must_use]
    pub fn write_only_name(&self) -> String {
        format!("{}_wo", self.name)
    }

    /// The name of the attribute whose change writes the companion again.
    #[must_use]
    pub fn version_name(&self) -> String {
        format!("{}_wo_version", self.name)
    }
}

impl Shape {
    /// Whether it is a single value, or holds only such.
    pub(super) fn has_no_attributes(&self) -> bool {
        match self {
            Self::List(element) | Self::Set(element) | Self::Map(element) => element.has_no_attributes(),
            Self::Leaf(_) | Self::Paths => true,
            Self::Object(_) => false,
        }
    }

    /// Whether an attribute with a companion is in it.
    pub(crate) fn has_companions(&self) -> bool {
        match self {
            Self::List(element) | Self::Set(element) | Self::Map(element) => element.has_companions(),
            Self::Leaf(_) | Self::Paths => false,
            Self::Object(object) => {
                object.attributes.iter().any(|attribute| attribute.has_companion || attribute.shape.has_companions())
            }
        }
    }
}

/// Takes the companions from attributes whose companions would have the name of a field.
pub(super) fn leave_names_to_fields(attributes: &mut [Attribute]) {
    let names: Vec<_> = attributes.iter().map(|attribute| attribute.name.clone()).collect();
    for attribute in attributes {
        let companions = [attribute.write_only_name(), attribute.version_name()];
        attribute.has_companion &= !companions.iter().any(|name| names.contains(name));
    }
}

#[cfg(test)]
mod tests {
    use crate::mapping::{FieldOptions, Object, shape::tests::message};

    #[test]
    fn secrets_and_inputs_have_companions_outside_of_sets_and_outputs() {
        let declarations = "message In { string secret = 1; }
            message M {
              string secret = 1; bytes input = 2; string plain = 3; In in = 4; repeated In list = 5; repeated In set = 6;
              map<string, In> by = 7; In output = 8; repeated string secrets = 9; string taken_secret = 10;
              string taken_secret_wo_version = 11; In in_secret = 12;
            }";
        let options = |field: &prost_reflect::FieldDescriptor| FieldOptions {
            debug_redact: field.name().contains("secret") && !field.name().ends_with("version"),
            input_only: field.name() == "input",
            output_only: field.name() == "output",
            unordered: field.name() == "set",
            ..FieldOptions::default()
        };
        let object = Object::of(&message(declarations, "M"), &options).unwrap();
        let with: Vec<_> = object.attributes.iter().filter(|one| one.has_companion).map(|one| &*one.name).collect();
        assert_eq!(with, ["secret", "input", "secrets"]);
        let below: Vec<_> =
            object.attributes.iter().filter(|one| one.shape.has_companions()).map(|one| &*one.name).collect();
        assert_eq!(below, ["in", "list", "by", "in_secret"]);
    }
}
