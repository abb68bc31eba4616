//! The shape of a message as an object with attributes.
//!
//! # Limits
//! Messages come from plugins, and may hold each other in circles, or so often that a full description grows without
//! bound. A message within itself, or more than [`MAX_OBJECT_DEPTH`] deep, is a string that holds JSON. A type with
//! more than [`MAX_ATTRIBUTES`] attributes is rejected.

use std::sync::Arc;

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, Syntax};

use super::{companion::leave_names_to_fields, name::attribute_name, options::FieldOptions, secrets::SecretFinder};
use crate::value::{Step, Type};

/// Most levels of messages that are shown as objects.
const MAX_OBJECT_DEPTH: usize = 16;

/// Most attributes of a type, those of messages within it included.
const MAX_ATTRIBUTES: usize = 10_000;

/// The attributes of a message, in the order of its fields.
#[derive(Debug, Clone)]
pub struct Object {
    /// The message.
    pub message: MessageDescriptor,
    /// The attributes of its fields.
    pub attributes: Vec<Attribute>,
}

/// A field as an attribute.
#[derive(Debug, Clone)]
pub struct Attribute {
    /// Its name: the field's, in the protocol's spelling.
    pub name: String,
    /// The field.
    pub field: FieldDescriptor,
    /// The shape of its value.
    pub shape: Shape,
    /// Whether a zero differs from an absent value.
    pub presence: Presence,
    /// Rules for users, the server and core.
    pub flags: Flags,
    /// Whether it has a companion that is only written, and one for the version of that: secrets and INPUT_ONLY fields,
    /// outside of sets.
    pub has_companion: bool,
}

/// Whether a zero value differs from an absent one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It does not: the message cannot tell them apart.
    Implicit,
    /// It does.
    Explicit,
}

/// Rules for an attribute: who may set it, and how core treats it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "the protocol has independent flags")]
pub struct Flags {
    /// The user has to set it.
    pub required: bool,
    /// The user may set it.
    pub optional: bool,
    /// The server may set it.
    pub computed: bool,
    /// Core does not show it.
    pub sensitive: bool,
    /// It should no longer be used.
    pub deprecated: bool,
    /// A change replaces the resource.
    pub replace: bool,
}

/// The shape of an attribute's value.
#[derive(Debug, Clone)]
pub enum Shape {
    /// A single value.
    Leaf(Leaf),
    /// Values in order.
    List(Box<Shape>),
    /// Values without order or duplicates.
    Set(Box<Shape>),
    /// Values by name.
    Map(Box<Shape>),
    /// Paths of fields.
    Paths,
    /// An object with attributes.
    Object(Arc<Object>),
}

/// The kind of a single value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leaf {
    /// Text.
    String,
    /// True or false.
    Bool,
    /// A whole number.
    Integer,
    /// A floating-point number of 32 bits.
    Float,
    /// A floating-point number of 64 bits.
    Double,
    /// Bytes, as base64.
    Bytes,
    /// The name of a value of the enum, or the number of an unknown value.
    Enum(EnumDescriptor),
    /// A point in time in RFC 3339.
    Timestamp,
    /// A length of time, such as `1.5s`.
    Duration,
    /// JSON of any kind.
    Json,
}

/// A message cannot be shown as an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// The message has too many fields.
    #[error("{message} has more than {MAX_ATTRIBUTES} fields, those of messages within it included")]
    Attributes {
        /// Its name.
        message: String,
    },
    /// Two fields have the same name.
    #[error("the fields {one} and {other} of {message} would both be called {name}")]
    Clash {
        /// The message.
        message: String,
        /// A field.
        one: String,
        /// The other.
        other: String,
        /// The name of both.
        name: String,
    },
}

impl Object {
    /// The shape of a message. `options` returns the options of a field.
    ///
    /// # Errors
    /// See [`ShapeError`].
    pub fn of(
        message: &MessageDescriptor,
        options: &dyn Fn(&FieldDescriptor) -> FieldOptions,
    ) -> Result<Self, ShapeError> {
        let mut reader = ShapeReader {
            root: message,
            options,
            secrets: SecretFinder::new(options),
            within: Vec::new(),
            without_companions: 0,
            attributes: 0,
        };
        reader.object(message)
    }

    /// Marks a field so that a change of it replaces the resource. `path` joins names in protobuf by dots; the field
    /// may be missing.
    pub fn mark_immutable(&mut self, path: &str) {
        let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
        let Some(attribute) = self.attributes.iter_mut().find(|attribute| attribute.field.name() == name) else {
            return;
        };
        match (rest, &mut attribute.shape) {
            (None, _) => attribute.flags.replace = true,
            (Some(rest), Shape::Object(object)) => Arc::make_mut(object).mark_immutable(rest),
            (Some(_), _) => {}
        }
    }

    /// The attribute at a path of attributes.
    pub(crate) fn attribute_at(&self, path: &[Step]) -> Option<&Attribute> {
        let (Step::Attribute(name), rest) = path.split_first()? else { return None };
        let attribute = self.attributes.iter().find(|attribute| attribute.name == *name)?;
        match (&attribute.shape, rest) {
            (_, []) => Some(attribute),
            (Shape::Object(object), rest) => object.attribute_at(rest),
            _ => None,
        }
    }

    /// Collects the paths of fields whose change replaces the resource; `path` is the path of this object.
    pub(crate) fn replacing_paths(&self, path: &mut Vec<Step>, found: &mut Vec<Vec<Step>>) {
        for attribute in &self.attributes {
            path.push(Step::Attribute(attribute.name.clone()));
            match &attribute.shape {
                _ if attribute.flags.replace => found.push(path.clone()),
                Shape::Object(object) => object.replacing_paths(path, found),
                _ => {}
            }
            path.pop();
        }
    }

    /// Whether core hides an attribute of it, at any depth.
    pub(crate) fn has_secrets(&self) -> bool {
        self.attributes.iter().any(|attribute| attribute.flags.sensitive || attribute.shape.has_secrets())
    }

    /// The type of its values.
    #[must_use]
    pub fn to_type(&self) -> Type {
        Type::object(self.attributes.iter().map(|attribute| (attribute.name.as_str(), attribute.shape.to_type())))
    }
}

impl Shape {
    /// The type of its values.
    #[must_use]
    pub fn to_type(&self) -> Type {
        match self {
            Self::Leaf(Leaf::Bool) => Type::Bool,
            Self::Leaf(Leaf::Integer | Leaf::Float | Leaf::Double) => Type::Number,
            Self::Leaf(_) => Type::String,
            Self::List(element) => Type::list(element.to_type()),
            Self::Set(element) => Type::set(element.to_type()),
            Self::Map(element) => Type::map(element.to_type()),
            Self::Paths => Type::list(Type::String),
            Self::Object(object) => object.to_type(),
        }
    }

    fn has_secrets(&self) -> bool {
        match self {
            Self::Object(object) => object.has_secrets(),
            Self::List(element) | Self::Set(element) | Self::Map(element) => element.has_secrets(),
            Self::Leaf(_) | Self::Paths => false,
        }
    }

    /// The shape at the end of a path.
    pub(crate) fn at(&self, path: &[Step]) -> Option<&Self> {
        let Some((step, rest)) = path.split_first() else { return Some(self) };
        match (self, step) {
            (Self::Object(object), Step::Attribute(name)) => {
                object.attributes.iter().find(|attribute| attribute.name == *name)?.shape.at(rest)
            }
            (Self::List(element) | Self::Set(element), Step::Index(_)) | (Self::Map(element), Step::Key(_)) => {
                element.at(rest)
            }
            _ => None,
        }
    }

    /// Whether its values, or their elements, are JSON.
    fn is_json(&self) -> bool {
        match self {
            Self::List(element) | Self::Set(element) | Self::Map(element) => element.is_json(),
            other => matches!(other, Self::Leaf(Leaf::Json)),
        }
    }
}

struct ShapeReader<'a> {
    root: &'a MessageDescriptor,
    options: &'a dyn Fn(&FieldDescriptor) -> FieldOptions,
    secrets: SecretFinder<'a>,
    /// The messages that enclose the current one.
    within: Vec<String>,
    /// The number of sets and of OUTPUT_ONLY fields among the fields that enclose the current message.
    without_companions: usize,
    attributes: usize,
}

impl ShapeReader<'_> {
    fn object(&mut self, message: &MessageDescriptor) -> Result<Object, ShapeError> {
        self.within.push(message.full_name().to_owned());
        let mut attributes: Vec<Attribute> = Vec::new();
        for field in message.fields() {
            self.attributes += 1;
            if self.attributes > MAX_ATTRIBUTES {
                return Err(ShapeError::Attributes { message: self.root.full_name().to_owned() });
            }
            let name = attribute_name(field.name());
            if let Some(other) = attributes.iter().find(|other| other.name == name) {
                let (first, other) = (other.field.name().to_owned(), field.name().to_owned());
                return Err(ShapeError::Clash { message: message.full_name().to_owned(), one: first, other, name });
            }
            let options = (self.options)(&field);
            let is_without = usize::from(options.output_only || (options.unordered && field.is_list()));
            self.without_companions += is_without;
            let (shape, presence) = self.field(&field, options.unordered)?;
            let mut flags = flags(&field, options);
            flags.sensitive |= shape.is_json() && self.secrets.can_be_in(&field);
            let is_hidden = flags.sensitive || options.input_only;
            let has_companion = is_hidden && self.without_companions == 0 && shape.has_no_attributes();
            self.without_companions -= is_without;
            attributes.push(Attribute { name, field, shape, presence, flags, has_companion });
        }
        self.within.pop();
        leave_names_to_fields(&mut attributes);
        Ok(Object { message: message.clone(), attributes })
    }

    fn field(&mut self, field: &FieldDescriptor, unordered: bool) -> Result<(Shape, Presence), ShapeError> {
        if let (true, Kind::Message(entry)) = (field.is_map(), field.kind()) {
            let element = self.single_shape(&entry.map_entry_value_field().kind())?;
            return Ok((Shape::Map(Box::new(element)), Presence::Implicit));
        }
        let single = self.single_shape(&field.kind())?;
        if field.is_list() {
            let element = Box::new(single);
            return Ok((if unordered { Shape::Set(element) } else { Shape::List(element) }, Presence::Implicit));
        }
        let tells_apart = field.supports_presence() || field.containing_oneof().is_some();
        // A mask without paths still counts as present.
        Ok((single, if tells_apart { Presence::Explicit } else { Presence::Implicit }))
    }

    /// The shape of a single value of a kind.
    fn single_shape(&mut self, kind: &Kind) -> Result<Shape, ShapeError> {
        Ok(match kind {
            Kind::String => Shape::Leaf(Leaf::String),
            Kind::Bool => Shape::Leaf(Leaf::Bool),
            Kind::Float => Shape::Leaf(Leaf::Float),
            Kind::Double => Shape::Leaf(Leaf::Double),
            Kind::Bytes => Shape::Leaf(Leaf::Bytes),
            Kind::Enum(enumeration) => Shape::Leaf(Leaf::Enum(enumeration.clone())),
            Kind::Message(message) => match well_known(message) {
                Some(shape) => shape,
                None if self.within.len() >= MAX_OBJECT_DEPTH
                    || self.within.iter().any(|name| name == message.full_name()) =>
                {
                    Shape::Leaf(Leaf::Json)
                }
                None => Shape::Object(Arc::new(self.object(message)?)),
            },
            _ => Shape::Leaf(Leaf::Integer),
        })
    }
}

/// The shapes of messages of `google.protobuf` that are not shown as objects.
fn well_known(message: &MessageDescriptor) -> Option<Shape> {
    let leaf = match message.full_name().strip_prefix("google.protobuf.")? {
        "Timestamp" => Leaf::Timestamp,
        "Duration" => Leaf::Duration,
        "Struct" | "Value" | "ListValue" | "Any" => Leaf::Json,
        "FieldMask" => return Some(Shape::Paths),
        "DoubleValue" => Leaf::Double,
        "FloatValue" => Leaf::Float,
        "Int64Value" | "UInt64Value" | "Int32Value" | "UInt32Value" => Leaf::Integer,
        "BoolValue" => Leaf::Bool,
        "StringValue" => Leaf::String,
        "BytesValue" => Leaf::Bytes,
        _ => return None,
    };
    Some(Shape::Leaf(leaf))
}

fn flags(field: &FieldDescriptor, options: FieldOptions) -> Flags {
    let of_a_choice = field.containing_oneof().is_some_and(|oneof| !oneof.is_synthetic());
    let proto2_required = field.parent_file().syntax() == Syntax::Proto2 && field.is_required();
    let required = (options.required || proto2_required) && !of_a_choice;
    Flags {
        required,
        optional: !required && !options.output_only,
        computed: !required,
        sensitive: options.debug_redact,
        deprecated: options.deprecated,
        replace: options.immutable,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use prost_reflect::DescriptorPool;

    use super::*;

    /// A message of a file with these declarations.
    pub(in crate::mapping) fn message(declarations: &str, name: &str) -> MessageDescriptor {
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "syntax = \"proto3\";\npackage t;\nimport \"google/protobuf/timestamp.proto\";\nimport \
             \"google/protobuf/duration.proto\";\nimport \"google/protobuf/struct.proto\";\nimport \
             \"google/protobuf/wrappers.proto\";\nimport \"google/protobuf/empty.proto\";\nimport \
             \"google/protobuf/field_mask.proto\";\nimport \"google/protobuf/any.proto\";\n{declarations}"
        );
        std::fs::write(dir.path().join("t.proto"), text).unwrap();
        let mut compiler = protox::Compiler::new([dir.path()]).unwrap();
        compiler.include_imports(true).open_file("t.proto").unwrap();
        let pool = DescriptorPool::decode(compiler.encode_file_descriptor_set().as_slice()).unwrap();
        pool.get_message_by_name(&format!("t.{name}")).unwrap()
    }

    pub(crate) fn object(declarations: &str) -> Object {
        Object::of(&message(declarations, "M"), &|_| FieldOptions::default()).unwrap()
    }

    fn types(object: &Object) -> Vec<(String, String)> {
        let text = |attribute: &Attribute| String::from_utf8(attribute.shape.to_type().to_bytes()).unwrap();
        object.attributes.iter().map(|attribute| (attribute.name.clone(), text(attribute))).collect()
    }

    #[test]
    fn every_kind_of_field_has_its_type() {
        let object = object(
            "enum E { ZERO = 0; ONE = 1; }
             message In { string a = 1; repeated In more = 2; }
             message M {
               string text = 1; bool yes = 2; uint64 big = 3; float f = 4; double d = 5; bytes b = 6; E e = 7;
               repeated int32 many = 8; map<string, In> by_name = 9; map<int32, bool> by_number = 10; In in = 11;
               google.protobuf.Timestamp at = 12; google.protobuf.Duration took = 13; google.protobuf.Struct any = 14;
               google.protobuf.StringValue maybe = 15; google.protobuf.Empty nothing = 16;
               google.protobuf.FieldMask mask = 17; repeated In ins = 18;
             }",
        );
        let inner = r#"["object",{"a":"string","more":["list","string"]}]"#;
        let expected = [
            ("text", r#""string""#.to_owned()),
            ("yes", r#""bool""#.to_owned()),
            ("big", r#""number""#.to_owned()),
            ("f", r#""number""#.to_owned()),
            ("d", r#""number""#.to_owned()),
            ("b", r#""string""#.to_owned()),
            ("e", r#""string""#.to_owned()),
            ("many", r#"["list","number"]"#.to_owned()),
            ("by_name", format!(r#"["map",{inner}]"#)),
            ("by_number", r#"["map","bool"]"#.to_owned()),
            ("in", inner.to_owned()),
            ("at", r#""string""#.to_owned()),
            ("took", r#""string""#.to_owned()),
            ("any", r#""string""#.to_owned()),
            ("maybe", r#""string""#.to_owned()),
            ("nothing", r#"["object",{}]"#.to_owned()),
            ("mask", r#"["list","string"]"#.to_owned()),
            ("ins", format!(r#"["list",{inner}]"#)),
        ];
        assert_eq!(types(&object), expected.map(|(name, value_type)| (name.to_owned(), value_type)));
    }

    #[test]
    fn what_a_message_can_tell_apart_and_who_may_set_it() {
        let object = object(
            "message M { string i = 1; optional string e = 2; oneof c { string one = 3; M two = 4; } M in = 5; repeated string l = 6; }",
        );
        use Presence::{Explicit, Implicit};
        let presences: Vec<_> = object.attributes.iter().map(|attribute| attribute.presence).collect();
        assert_eq!(presences, [Implicit, Explicit, Explicit, Explicit, Explicit, Implicit]);
        let may_be_computed: Vec<_> = object.attributes.iter().map(|attribute| attribute.flags.computed).collect();
        assert_eq!(may_be_computed, [true; 6]);
        let message = message("message M { string a = 1; repeated string b = 2; }", "M");
        let options = |options: FieldOptions| Object::of(&message, &|_| options).unwrap().attributes;
        let required = options(FieldOptions { required: true, immutable: true, ..FieldOptions::default() });
        assert_eq!(required[0].flags, Flags { required: true, replace: true, ..Flags::default() });
        let output = options(FieldOptions { output_only: true, debug_redact: true, ..FieldOptions::default() });
        assert_eq!(output[0].flags, Flags { computed: true, sensitive: true, ..Flags::default() });
        let unordered = options(FieldOptions { unordered: true, ..FieldOptions::default() });
        assert_eq!(unordered[1].shape.to_type(), Type::set(Type::String));
    }

    #[test]
    fn names_are_the_protocols_and_clash_or_not() {
        for (field, name) in [
            ("plain_name", "plain_name"),
            ("camelCase", "camel_case"),
            ("HTTPPort", "httpport"),
            ("_x", "_x"),
            ("a1B2", "a1_b2"),
        ] {
            assert_eq!(attribute_name(field), name);
        }
        // Hand-made descriptors may hold names that compilers reject.
        let file = message("message M { string one = 1; string other = 2; }", "M").parent_file();
        let mut file = file.file_descriptor_proto().clone();
        for (field, name) in file.message_type[0].field.iter_mut().zip(["HTTPPort", "httpport"]) {
            field.name = Some(name.into());
        }
        file.dependency.clear();
        file.syntax = None;
        let pool =
            DescriptorPool::from_file_descriptor_set(prost_types::FileDescriptorSet { file: vec![file] }).unwrap();
        let clash = pool.get_message_by_name("t.M").unwrap();
        let fault = Object::of(&clash, &|_| FieldOptions::default()).unwrap_err().to_string();
        assert_eq!(fault, "the fields HTTPPort and httpport of t.M would both be called httpport");
    }

    #[test]
    fn what_would_never_end_is_json_or_refused() {
        let chain: String = (0..40).map(|n| format!("message L{n} {{ L{} next = 1; }}\n", n + 1)).collect();
        let chain = message(&format!("{chain} message L40 {{}} message M {{ L0 first = 1; }}"), "M");
        let mut depth = 0;
        let mut object = Object::of(&chain, &|_| FieldOptions::default()).unwrap();
        while let Some(Shape::Object(inner)) = object.attributes.first().map(|attribute| attribute.shape.clone()) {
            (object, depth) = ((*inner).clone(), depth + 1);
        }
        assert_eq!(depth, MAX_OBJECT_DEPTH - 1);
        assert!(matches!(object.attributes[0].shape, Shape::Leaf(Leaf::Json)));
        // Each message holds the next one twice: 2^14 of the last.
        let doubled: String = (0..14).map(|n| format!("message D{n} {{ D{0} a = 1; D{0} b = 2; }}\n", n + 1)).collect();
        let doubled = message(&format!("{doubled} message D14 {{}} message M {{ D0 first = 1; }}"), "M");
        let fault = Object::of(&doubled, &|_| FieldOptions::default()).unwrap_err().to_string();
        assert_eq!(fault, "t.M has more than 10000 fields, those of messages within it included");
    }
}
