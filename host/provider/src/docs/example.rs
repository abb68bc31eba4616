//! Examples of configurations, made from the fields of a message: the required ones, or else the first few. Their
//! values have the right form; a plugin may want other ones.

use std::collections::HashSet;

use prost_reflect::Kind;

use crate::mapping::{Attribute, Leaf, Object, Shape};

/// Most attributes of an object without required ones.
const MAX_ATTRIBUTES: usize = 3;

/// Most levels of objects; deeper ones are left out unless they are required.
const MAX_DEPTH: usize = 3;

/// Returns a block of a configuration.
pub(super) fn block(head: &str, body: &str) -> String {
    format!("{head} {{\n{body}}}\n")
}

/// Returns a text as a literal.
pub(super) fn hcl(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace("${", "$${").replace("%{", "%%{");
    format!("\"{escaped}\"")
}

/// Returns the name and the data of an example.
pub(super) fn data_block(data: &Object) -> String {
    let body = attributes(data, 2, 1);
    let data = if body.is_empty() { "  data {}\n".to_owned() } else { format!("  data {{\n{body}  }}\n") };
    format!("  name = \"example\"\n{data}")
}

/// Returns a line for each attribute of an object, `indent` levels deep.
fn attributes(object: &Object, indent: usize, depth: usize) -> String {
    let shown = shown(object, depth);
    let width = shown.iter().map(|attribute| attribute.name.len()).max().unwrap_or(0);
    let pad = "  ".repeat(indent);
    let line = |attribute: &&Attribute| {
        let value = value(attribute, &attribute.shape, indent, depth);
        format!("{pad}{:width$} = {value}\n", attribute.name)
    };
    shown.iter().map(line).collect()
}

/// The attributes of an object that an example sets: at most one of a oneof.
fn shown(object: &Object, depth: usize) -> Vec<&Attribute> {
    let can_be_set = |attribute: &&Attribute| attribute.flags.required || attribute.flags.optional;
    let required: Vec<_> = object.attributes.iter().filter(|attribute| attribute.flags.required).collect();
    if !required.is_empty() {
        return required;
    }
    let mut oneofs = HashSet::new();
    let is_first = |attribute: &&Attribute| {
        attribute.field.containing_oneof().is_none_or(|oneof| oneofs.insert(oneof.full_name().to_owned()))
    };
    let is_plain = |attribute: &&Attribute| {
        let is_shallow = depth < MAX_DEPTH || !holds_object(&attribute.shape);
        !attribute.flags.deprecated && !attribute.flags.sensitive && is_shallow
    };
    object.attributes.iter().filter(can_be_set).filter(is_plain).filter(is_first).take(MAX_ATTRIBUTES).collect()
}

fn holds_object(shape: &Shape) -> bool {
    match shape {
        Shape::Object(_) => true,
        Shape::List(element) | Shape::Set(element) | Shape::Map(element) => holds_object(element),
        Shape::Leaf(_) | Shape::Paths => false,
    }
}

fn value(attribute: &Attribute, shape: &Shape, indent: usize, depth: usize) -> String {
    match shape {
        Shape::Leaf(leaf) => self::leaf(leaf),
        Shape::Paths => "[\"name\"]".to_owned(),
        Shape::List(element) | Shape::Set(element) => format!("[{}]", value(attribute, element, indent, depth)),
        Shape::Map(element) => {
            format!("{{ {} = {} }}", key(attribute), value(attribute, element, indent, depth))
        }
        Shape::Object(object) => match attributes(object, indent + 1, depth + 1) {
            body if body.is_empty() => "{}".to_owned(),
            body => format!("{{\n{body}{}}}", "  ".repeat(indent)),
        },
    }
}

/// A key of a map.
fn key(attribute: &Attribute) -> &'static str {
    let kind = match attribute.field.kind() {
        Kind::Message(entry) if entry.is_map_entry() => entry.map_entry_key_field().kind(),
        _ => Kind::String,
    };
    match kind {
        Kind::String => "example",
        Kind::Bool => "true",
        _ => "1",
    }
}

fn leaf(leaf: &Leaf) -> String {
    match leaf {
        Leaf::String => hcl("example"),
        Leaf::Bool => "true".to_owned(),
        Leaf::Integer => "1".to_owned(),
        Leaf::Float | Leaf::Double => "0.5".to_owned(),
        Leaf::Bytes => "base64encode(\"example\")".to_owned(),
        Leaf::Enum(values) => {
            let chosen = values.values().find(|value| value.number() != 0).or_else(|| values.values().next());
            hcl(chosen.as_ref().map_or("", |value| value.name()))
        }
        Leaf::Timestamp => hcl("2030-01-02T03:04:05Z"),
        Leaf::Duration => hcl("90s"),
        Leaf::Json => "jsonencode({})".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::shape_of;

    #[test]
    fn an_example_has_the_required_fields_alone() {
        let mut object = shape_of("message M { string a = 1; string needed = 2; repeated int32 also = 3; }");
        for attribute in object.attributes.iter_mut().filter(|attribute| attribute.name != "a") {
            attribute.flags.required = true;
        }
        let expected = "  name = \"example\"\n  data {\n    needed = \"example\"\n    also   = [1]\n  }\n";
        assert_eq!(data_block(&object), expected);
    }

    #[test]
    fn an_example_without_required_fields_has_the_first_plain_ones() {
        let mut object = shape_of(
            "message M {
               oneof choice { string one = 1; string other = 2; }
               string secret = 3; string old = 4; string set_by_server = 5; bool yes = 6; double half = 7; string more = 8;
             }",
        );
        for attribute in &mut object.attributes {
            attribute.flags.sensitive = attribute.name == "secret";
            attribute.flags.deprecated = attribute.name == "old";
            attribute.flags.optional = attribute.name != "set_by_server";
        }
        let expected = "  name = \"example\"\n  data {\n    one  = \"example\"\n    yes  = true\n    half = 0.5\n  }\n";
        assert_eq!(data_block(&object), expected, "one of a oneof, and three in all");
    }

    #[test]
    fn values_have_their_forms_and_depth_is_bounded() {
        let object = shape_of(
            "enum E { ZERO = 0; ONE = 1; }
             message D { string end = 1; }
             message C { D d = 1; repeated D ds = 2; string flat = 3; }
             message B { C c = 1; }
             message M { B b = 1; map<int32, E> by = 2; map<bool, bytes> flags = 3; }",
        );
        let expected = "  name = \"example\"
  data {
    b     = {
      c = {
        flat = \"example\"
      }
    }
    by    = { 1 = \"ONE\" }
    flags = { true = base64encode(\"example\") }
  }
";
        assert_eq!(data_block(&object), expected);
        assert_eq!(data_block(&shape_of("message M {}")), "  name = \"example\"\n  data {}\n");
    }

    #[test]
    fn texts_are_literals() {
        assert_eq!(hcl(r#"a"b\c ${d} %{e}"#), r#""a\"b\\c $${d} %%{e}""#);
    }
}
