//! A type of the server as a resource and as a data source.

use std::{collections::BTreeMap, sync::Arc};

use mortise_resource::{Scope, data::TypeInfo, descriptors::FileDescriptorSet, manifest, pb, types::gvk};
use prost::Message as _;
use prost_reflect::DescriptorPool;

use super::{
    attribute::{Attribute, COMPUTED, Content, of_message, type_of},
    envelope,
};
use crate::{
    mapping::{Object, Options, Shape, ShapeError},
    proto::tfplugin6::{Schema, StringKind, schema},
    value::{Step, Type, Value},
};

/// A type as a resource.
#[derive(Debug)]
pub struct ResourceSchema {
    /// Name in configurations: `mortise_demo_artist`.
    pub name: String,
    /// The type.
    pub kind: pb::Type,
    /// Tenancy units of its resources.
    pub scope: Scope,
    /// Shape of its data.
    pub data: Arc<Object>,
    /// Types whose resources can become resources of this one.
    pub moved_from: Vec<pb::Type>,
    /// Whether its plugin can import something from outside.
    pub imports: bool,
    /// Schema version of its data.
    version: u32,
    scopes: Arc<Scopes>,
    is_deprecated: bool,
    description: String,
    envelope: Vec<Attribute>,
    data_attributes: Vec<Attribute>,
    /// Whether an attribute has a companion that is only written.
    pub(crate) has_companions: bool,
}

/// The scopes of a server's types, by group and kind.
pub(super) type Scopes = BTreeMap<(String, String), Scope>;

/// The scope of a type.
pub(super) fn scope_of(info: &TypeInfo) -> Scope {
    match info.scope() {
        manifest::Scope::Unspecified => Scope::Undefined,
        manifest::Scope::Cluster => Scope::Cluster,
        manifest::Scope::Partition => Scope::Partition,
        manifest::Scope::Namespace => Scope::Namespace,
    }
}

/// Reasons why a type cannot be a resource.
#[derive(Debug, thiserror::Error)]
pub enum TypeError {
    /// The server has no descriptor of its message.
    #[error("the server has no descriptor of the message {message} of {kind}")]
    NoMessage {
        /// The type.
        kind: String,
        /// The message's name.
        message: String,
    },
    /// Its descriptors do not fit together.
    #[error("the descriptors of {kind} do not fit together: {source}")]
    Descriptors {
        /// The type.
        kind: String,
        /// Cause.
        source: prost_reflect::DescriptorError,
    },
    /// Its message has no form as attributes.
    #[error("{kind} cannot be a resource: {source}")]
    Shape {
        /// The type.
        kind: String,
        /// Cause.
        source: ShapeError,
    },
    /// Two kinds have the same name.
    #[error("{one} and {other} would both be called {name}; the second one is left out")]
    Clash {
        /// A type.
        one: String,
        /// The other.
        other: String,
        /// The name of both.
        name: String,
    },
}

impl ResourceSchema {
    /// Builds the schema from the server's description of a type.
    ///
    /// # Errors
    /// See [`TypeError`].
    pub(super) fn of(
        info: &TypeInfo,
        descriptors: &FileDescriptorSet,
        prefix: &str,
        scopes: Arc<Scopes>,
    ) -> Result<Self, TypeError> {
        let kind = info.r#type.clone().unwrap_or_default();
        let name = gvk(&kind);
        let pool = DescriptorPool::decode(descriptors.encode_to_vec().as_slice())
            .map_err(|source| TypeError::Descriptors { kind: name.clone(), source })?;
        let message = pool
            .get_message_by_name(&info.message)
            .ok_or_else(|| TypeError::NoMessage { kind: name.clone(), message: info.message.clone() })?;
        let options = Options::of(&pool);
        let mut data = Object::of(&message, &|field| options.field(field))
            .map_err(|source| TypeError::Shape { kind: name.clone(), source })?;
        for path in &info.immutable_fields {
            data.mark_immutable(path);
        }
        let scope = scope_of(info);
        Ok(Self {
            name: resource_name(prefix, &kind),
            version: info.schema_version.max(1),
            description: mortise_text::schema::comment(&message),
            envelope: envelope::managed_attributes(scope),
            data_attributes: of_message(&data, false),
            has_companions: Shape::Object(Arc::new(data.clone())).has_companions(),
            data: Arc::new(data),
            moved_from: info.moved_from.clone(),
            imports: info.hooks.as_ref().is_some_and(|hooks| hooks.import),
            is_deprecated: message.descriptor_proto().options.as_ref().is_some_and(|options| options.deprecated()),
            scopes,
            kind,
            scope,
        })
    }

    /// The scope of another type of the server; `None` if the server does not have it.
    pub(crate) fn scope_of(&self, group: &str, kind: &str) -> Option<Scope> {
        self.scopes.get(&(group.to_owned(), kind.to_owned())).copied()
    }

    /// The paths of configured attributes that the server alone sets.
    #[must_use]
    pub fn set_by_server(&self, config: &Value) -> Vec<Vec<Step>> {
        let mut found = Vec::new();
        read_only(&self.envelope, config, &mut Vec::new(), &mut found);
        read_only(&self.data_attributes, config.get("data"), &mut vec![Step::Attribute("data".to_owned())], &mut found);
        found
    }

    /// The type of its states and configurations.
    #[must_use]
    pub fn to_type(&self) -> Type {
        with_data(type_of(&self.envelope), type_of(&self.data_attributes))
    }

    /// The type of the data source's states and configurations.
    #[must_use]
    pub fn data_source_type(&self) -> Type {
        type_of(&self.data_source_attributes())
    }

    /// The attributes besides its data.
    pub(crate) fn attributes(&self) -> &[Attribute] {
        &self.envelope
    }

    /// The attributes of its data.
    pub(crate) fn data_attributes(&self) -> &[Attribute] {
        &self.data_attributes
    }

    /// The comment of its message.
    pub(crate) fn description(&self) -> &str {
        &self.description
    }

    /// The attributes of the data source.
    pub(crate) fn data_source_attributes(&self) -> Vec<Attribute> {
        let mut all = envelope::data_source_attributes(self.scope);
        let data = Content::Object(of_message(&self.data, true));
        all.push(Attribute {
            name: "data".to_owned(),
            content: data,
            flags: COMPUTED,
            description: self.description.clone(),
            is_write_only: false,
        });
        all
    }

    /// The attributes that select its resources for a list.
    pub(crate) fn query_attributes(&self) -> Vec<Attribute> {
        envelope::query_attributes(self.scope)
    }

    /// The type of the condition of a list.
    #[must_use]
    pub fn query_type(&self) -> Type {
        type_of(&self.query_attributes())
    }

    /// The schema of a list's condition in core's form.
    #[must_use]
    pub fn query_to_proto(&self) -> Schema {
        let block = block(&self.query_attributes(), &self.description);
        Schema { version: 0, block: Some(schema::Block { deprecated: self.is_deprecated, ..block }) }
    }

    /// The shape of its data.
    #[must_use]
    pub fn shape(&self) -> Shape {
        Shape::Object(self.data.clone())
    }

    /// The version of its states.
    #[must_use]
    pub fn version(&self) -> i64 {
        self.version.into()
    }

    /// Paths whose change replaces the resource.
    #[must_use]
    pub fn replacing_paths(&self) -> Vec<Vec<Step>> {
        let mut found: Vec<_> = self
            .envelope
            .iter()
            .filter(|attribute| attribute.flags.replace)
            .map(|attribute| vec![step(attribute)])
            .collect();
        let mut path = vec![Step::Attribute("data".to_owned())];
        self.data.replacing_paths(&mut path, &mut found);
        found
    }

    /// The schema in core's form.
    #[must_use]
    pub fn to_proto(&self) -> Schema {
        let data = schema::Block {
            attributes: self.data_attributes.iter().map(Attribute::to_proto).collect(),
            description: self.description.clone(),
            description_kind: StringKind::Markdown.into(),
            ..schema::Block::default()
        };
        let mut block = block(&self.envelope, &self.description);
        block.deprecated = self.is_deprecated;
        block.block_types = vec![schema::NestedBlock {
            type_name: "data".to_owned(),
            block: Some(data),
            nesting: schema::nested_block::NestingMode::Single.into(),
            min_items: 1,
            max_items: 1,
        }];
        Schema { version: self.version(), block: Some(block) }
    }

    /// The data source's schema in core's form.
    #[must_use]
    pub fn data_source_to_proto(&self) -> Schema {
        let block = block(&self.data_source_attributes(), &self.description);
        Schema { version: 0, block: Some(schema::Block { deprecated: self.is_deprecated, ..block }) }
    }
}

/// Collects the paths of values at attributes that the server alone sets.
fn read_only(attributes: &[Attribute], value: &Value, path: &mut Vec<Step>, found: &mut Vec<Vec<Step>>) {
    for attribute in attributes {
        let value = value.get(&attribute.name);
        if value.is_null() {
            continue;
        }
        path.push(step(attribute));
        match (&attribute.content, value) {
            _ if !attribute.flags.required && !attribute.flags.optional => found.push(path.clone()),
            (Content::Object(inner), value) => read_only(inner, value, path, found),
            (Content::List(inner) | Content::Set(inner), Value::List(items)) => {
                for (index, item) in items.iter().enumerate() {
                    path.push(Step::Index(index));
                    read_only(inner, item, path, found);
                    path.pop();
                }
            }
            (Content::Map(inner), Value::Map(entries)) => {
                for (key, entry) in entries {
                    path.push(Step::Key(key.clone()));
                    read_only(inner, entry, path, found);
                    path.pop();
                }
            }
            _ => {}
        }
        path.pop();
    }
}

fn step(attribute: &Attribute) -> Step {
    Step::Attribute(attribute.name.clone())
}

fn with_data(envelope: Type, data: Type) -> Type {
    match envelope {
        Type::Object(mut attributes) => {
            attributes.insert("data".to_owned(), data);
            Type::Object(attributes)
        }
        other => other,
    }
}

pub(super) fn block(attributes: &[Attribute], description: &str) -> schema::Block {
    schema::Block {
        attributes: attributes.iter().map(Attribute::to_proto).collect(),
        description: description.to_owned(),
        description_kind: StringKind::Markdown.into(),
        ..schema::Block::default()
    }
}

/// The name of a type's resources.
pub(super) fn resource_name(prefix: &str, kind: &pb::Type) -> String {
    let plain = |text: &str| text.replace(['-', '.'], "_").to_ascii_lowercase();
    format!("{prefix}_{}_{}", plain(&kind.group), crate::mapping::attribute_name(&kind.kind))
}

#[cfg(test)]
mod tests;
