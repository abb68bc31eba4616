//! Attributes of schemas: of a resource's envelope, of its data, or of the provider itself.

use crate::{
    mapping::{self, Flags, Object, Shape},
    proto::tfplugin6::{StringKind, schema},
    value::Type,
};

/// An attribute.
#[derive(Debug, Clone)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Content of the attribute.
    pub content: Content,
    /// Rules for users and the server.
    pub flags: Flags,
    /// Description in Markdown.
    pub description: String,
    /// Whether core keeps its value in no state and no plan.
    pub is_write_only: bool,
}

/// Content of an attribute.
#[derive(Debug, Clone)]
pub enum Content {
    /// A value of a type.
    Value(Type),
    /// An object.
    Object(Vec<Attribute>),
    /// Objects in order.
    List(Vec<Attribute>),
    /// Objects, each once.
    Set(Vec<Attribute>),
    /// Objects by name.
    Map(Vec<Attribute>),
}

/// Flags of an attribute that the user has to set.
pub(super) const REQUIRED: Flags =
    Flags { required: true, optional: false, computed: false, sensitive: false, deprecated: false, replace: false };
/// Flags of an attribute that the user may set.
pub(super) const OPTIONAL: Flags = Flags { required: false, optional: true, ..REQUIRED };
/// Flags of an attribute that the server sets.
pub(super) const COMPUTED: Flags = Flags { required: false, computed: true, ..REQUIRED };
/// Flags of an attribute that the user may set; otherwise the server sets it.
pub(super) const DEFAULTED: Flags = Flags { optional: true, ..COMPUTED };

/// Makes an attribute of the envelope.
pub(super) fn attribute(name: &str, content: Content, flags: Flags, description: &str) -> Attribute {
    Attribute { name: name.to_owned(), content, flags, description: description.to_owned(), is_write_only: false }
}

/// Makes an attribute that holds a string.
pub(super) fn text(name: &str, flags: Flags, description: &str) -> Attribute {
    attribute(name, Content::Value(Type::String), flags, description)
}

impl Attribute {
    /// The type of its values.
    #[must_use]
    pub fn to_type(&self) -> Type {
        match &self.content {
            Content::Value(value_type) => value_type.clone(),
            Content::Object(attributes) => type_of(attributes),
            Content::List(attributes) => Type::list(type_of(attributes)),
            Content::Set(attributes) => Type::set(type_of(attributes)),
            Content::Map(attributes) => Type::map(type_of(attributes)),
        }
    }

    pub(super) fn to_proto(&self) -> schema::Attribute {
        use schema::object::NestingMode;
        let nested = |mode: NestingMode, attributes: &[Self]| schema::Object {
            attributes: attributes.iter().map(Self::to_proto).collect(),
            nesting: mode.into(),
            ..schema::Object::default()
        };
        let (r#type, nested_type) = match &self.content {
            Content::Value(value_type) => (value_type.to_bytes(), None),
            Content::Object(attributes) => (Vec::new(), Some(nested(NestingMode::Single, attributes))),
            Content::List(attributes) => (Vec::new(), Some(nested(NestingMode::List, attributes))),
            Content::Set(attributes) => (Vec::new(), Some(nested(NestingMode::Set, attributes))),
            Content::Map(attributes) => (Vec::new(), Some(nested(NestingMode::Map, attributes))),
        };
        let Flags { required, optional, computed, sensitive, deprecated, replace: _ } = self.flags;
        schema::Attribute {
            name: self.name.clone(),
            r#type,
            nested_type,
            description: self.description.clone(),
            description_kind: StringKind::Markdown.into(),
            required,
            optional,
            computed,
            sensitive,
            deprecated,
            write_only: self.is_write_only,
        }
    }
}

/// The type of an object with these attributes.
#[must_use]
pub fn type_of(attributes: &[Attribute]) -> Type {
    Type::Object(attributes.iter().map(|attribute| (attribute.name.clone(), attribute.to_type())).collect())
}

/// The attributes of a message. With `output_only`, the server sets every part.
pub(super) fn of_message(object: &Object, output_only: bool) -> Vec<Attribute> {
    let mut all = Vec::with_capacity(object.attributes.len());
    for attribute in &object.attributes {
        let mut own = of_field(attribute, output_only);
        if attribute.has_companion && !output_only {
            all.extend(companions(&own));
            // One of the two is required; `validate` checks that.
            own.flags.optional |= std::mem::take(&mut own.flags.required);
        }
        all.push(own);
    }
    all
}

/// The companion of an attribute that is only written, and its version.
fn companions(of: &Attribute) -> [Attribute; 2] {
    let (name, flags) = (&of.name, Flags { deprecated: of.flags.deprecated, ..OPTIONAL });
    let description = format!("`{name}`, kept in no state and no plan. A change of `{name}_wo_version` writes it.");
    let value = attribute(&format!("{name}_wo"), of.content.clone(), Flags { sensitive: true, ..flags }, &description);
    let description = format!("The version of `{name}_wo`: any text, which changes with the value.");
    [Attribute { is_write_only: true, ..value }, text(&format!("{name}_wo_version"), flags, &description)]
}

fn of_field(attribute: &mapping::Attribute, output_only: bool) -> Attribute {
    let flags = match output_only {
        true => Flags { required: false, optional: false, computed: true, ..attribute.flags },
        false => attribute.flags,
    };
    let output_only = !flags.required && !flags.optional;
    let content = match &attribute.shape {
        Shape::Object(object) => Content::Object(of_message(object, output_only)),
        Shape::List(element) => collection(element, &attribute.shape, output_only, Content::List),
        Shape::Set(element) => collection(element, &attribute.shape, output_only, Content::Set),
        Shape::Map(element) => collection(element, &attribute.shape, output_only, Content::Map),
        Shape::Leaf(_) | Shape::Paths => Content::Value(attribute.shape.to_type()),
    };
    let description = mortise_text::schema::comment(&attribute.field);
    Attribute { name: attribute.name.clone(), content, flags, description, is_write_only: false }
}

fn collection(shape: &Shape, whole: &Shape, output_only: bool, content: fn(Vec<Attribute>) -> Content) -> Content {
    match shape {
        Shape::Object(object) => content(of_message(object, output_only)),
        _ => Content::Value(whole.to_type()),
    }
}
