//! Descriptors of types: by name, by message, by scope.

use std::collections::BTreeMap;

use mortise_resource::{
    Scope, data,
    descriptors::FileDescriptorSet,
    manifest::{self, Manifest},
    pb,
    types::{Gvk, gvk},
};
use prost::Message as _;
use prost_reflect::{DescriptorPool, MessageDescriptor};

/// Descriptors of types. [`TypeTable`] is the usual implementation.
pub trait Types: Send + Sync {
    /// The message of the data of the type's resources; `None` for an unknown type.
    fn message(&self, ty: &pb::Type) -> Option<MessageDescriptor>;

    /// Full types that `group.version.Kind`, a kind or a short name may mean, in any case, in order.
    fn named(&self, name: &str) -> Vec<pb::Type>;

    /// Every known type, in order, for suggestions.
    fn all(&self) -> Vec<pb::Type> {
        Vec::new()
    }

    /// A message by its full name, for `google.protobuf.Any`.
    fn message_named(&self, _full_name: &str) -> Option<MessageDescriptor> {
        None
    }

    /// Tenancy units of the type's resources.
    fn scope(&self, _ty: &pb::Type) -> Option<Scope> {
        None
    }

    /// Whether resources are printed with the server's part of their meta; see [`WholeMeta`].
    fn prints_whole_meta(&self) -> bool {
        false
    }
}

/// Types whose resources are printed with all of their meta, the server's part included.
#[derive(Debug, Clone, Copy)]
pub struct WholeMeta<T>(pub T);

impl<T: Types> Types for WholeMeta<T> {
    fn message(&self, ty: &pb::Type) -> Option<MessageDescriptor> {
        self.0.message(ty)
    }

    fn named(&self, name: &str) -> Vec<pb::Type> {
        self.0.named(name)
    }

    fn all(&self) -> Vec<pb::Type> {
        self.0.all()
    }

    fn message_named(&self, full_name: &str) -> Option<MessageDescriptor> {
        self.0.message_named(full_name)
    }

    fn scope(&self, ty: &pb::Type) -> Option<Scope> {
        self.0.scope(ty)
    }

    fn prints_whole_meta(&self) -> bool {
        true
    }
}

impl<T: Types + ?Sized> Types for &T {
    fn message(&self, ty: &pb::Type) -> Option<MessageDescriptor> {
        (**self).message(ty)
    }

    fn named(&self, name: &str) -> Vec<pb::Type> {
        (**self).named(name)
    }

    fn all(&self) -> Vec<pb::Type> {
        (**self).all()
    }

    fn message_named(&self, full_name: &str) -> Option<MessageDescriptor> {
        (**self).message_named(full_name)
    }

    fn scope(&self, ty: &pb::Type) -> Option<Scope> {
        (**self).scope(ty)
    }

    fn prints_whole_meta(&self) -> bool {
        (**self).prints_whole_meta()
    }
}

/// The types of a text of a single, known type.
#[derive(Debug, Clone)]
pub struct OneType(pub MessageDescriptor);

impl Types for OneType {
    fn message(&self, _: &pb::Type) -> Option<MessageDescriptor> {
        Some(self.0.clone())
    }

    fn named(&self, _: &str) -> Vec<pb::Type> {
        Vec::new()
    }
}

/// Reasons why a type cannot be added to a table.
#[derive(Debug, thiserror::Error)]
pub enum TypesError {
    /// The descriptors do not fit together.
    #[error("descriptors of {ty}: {source}")]
    Descriptors {
        /// The type, or the plugin, that they belong to.
        ty: String,
        /// Fault of the descriptors.
        source: prost_reflect::DescriptorError,
    },
    /// The message is not among the descriptors.
    #[error("the message {message} of type {ty} is not among its descriptors")]
    NoMessage {
        /// The type.
        ty: String,
        /// The message's full name.
        message: String,
    },
    /// The entry names no type.
    #[error("an entry names no type")]
    NoName,
}

#[derive(Debug, Clone)]
struct KnownType {
    message: MessageDescriptor,
    scope: Option<Scope>,
    short_names: Vec<String>,
}

/// Types of a server (TypeService) or of a component's manifest.
#[derive(Debug, Clone, Default)]
pub struct TypeTable {
    known: BTreeMap<Gvk, KnownType>,
}

impl TypeTable {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a type from TypeService's answer; replaces a type of the same name.
    ///
    /// # Errors
    /// The descriptors do not fit together or lack the message.
    pub fn add(&mut self, info: &data::TypeInfo, descriptors: &FileDescriptorSet) -> Result<(), TypesError> {
        let ty = info.r#type.as_ref().ok_or(TypesError::NoName)?;
        let pool = pool(&gvk(ty), descriptors)?;
        self.insert(Gvk::from(ty), &pool, &info.message, scope(info.scope()), info.short_names.clone())
    }

    /// Adds the types of a plugin's manifest.
    ///
    /// # Errors
    /// The descriptors do not fit together or lack a message.
    pub fn add_manifest(&mut self, manifest: &Manifest) -> Result<(), TypesError> {
        let Some(descriptors) = &manifest.descriptors else {
            return if manifest.types.is_empty() { Ok(()) } else { self.missing_descriptors(manifest) };
        };
        let pool = pool(&format!("plugin {}", manifest.name), descriptors)?;
        for ty in &manifest.types {
            let name = Gvk::new(&ty.group, &ty.group_version, &ty.kind);
            self.insert(name, &pool, &ty.message, scope(ty.scope()), ty.short_names.clone())?;
        }
        Ok(())
    }

    fn missing_descriptors(&mut self, manifest: &Manifest) -> Result<(), TypesError> {
        let first = manifest.types.first().map(|ty| (format!("{}.{}.{}", ty.group, ty.group_version, ty.kind), ty));
        first.map_or(Ok(()), |(ty, first)| Err(TypesError::NoMessage { ty, message: first.message.clone() }))
    }

    /// Adds a type with the descriptor of its message.
    pub fn add_message(&mut self, ty: Gvk, message: MessageDescriptor, scope: Option<Scope>, short_names: Vec<String>) {
        self.known.insert(ty, KnownType { message, scope, short_names });
    }

    fn insert(
        &mut self,
        ty: Gvk,
        pool: &DescriptorPool,
        message: &str,
        scope: Option<Scope>,
        short_names: Vec<String>,
    ) -> Result<(), TypesError> {
        let missing = || TypesError::NoMessage { ty: ty.to_string(), message: message.to_owned() };
        let descriptor = pool.get_message_by_name(message).ok_or_else(missing)?;
        self.add_message(ty, descriptor, scope, short_names);
        Ok(())
    }

    /// Whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

fn pool(owner: &str, descriptors: &FileDescriptorSet) -> Result<DescriptorPool, TypesError> {
    DescriptorPool::decode(descriptors.encode_to_vec().as_slice())
        .map_err(|source| TypesError::Descriptors { ty: owner.to_owned(), source })
}

fn scope(scope: manifest::Scope) -> Option<Scope> {
    match scope {
        manifest::Scope::Unspecified => None,
        manifest::Scope::Cluster => Some(Scope::Cluster),
        manifest::Scope::Partition => Some(Scope::Partition),
        manifest::Scope::Namespace => Some(Scope::Namespace),
    }
}

impl Types for TypeTable {
    fn message(&self, ty: &pb::Type) -> Option<MessageDescriptor> {
        self.known.get(&Gvk::from(ty)).map(|known| known.message.clone())
    }

    fn named(&self, name: &str) -> Vec<pb::Type> {
        let means = |(ty, known): &(&Gvk, &KnownType)| {
            ty.to_string().eq_ignore_ascii_case(name)
                || ty.kind.eq_ignore_ascii_case(name)
                || known.short_names.iter().any(|short| short.eq_ignore_ascii_case(name))
        };
        self.known.iter().filter(means).map(|(ty, _)| ty.to_pb()).collect()
    }

    fn all(&self) -> Vec<pb::Type> {
        self.known.keys().map(Gvk::to_pb).collect()
    }

    fn message_named(&self, full_name: &str) -> Option<MessageDescriptor> {
        self.known.values().find_map(|known| known.message.parent_pool().get_message_by_name(full_name))
    }

    fn scope(&self, ty: &pb::Type) -> Option<Scope> {
        self.known.get(&Gvk::from(ty)).and_then(|known| known.scope)
    }
}
