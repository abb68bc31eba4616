//! Name of a resource type, with the message of its data.

use std::{fmt, marker::PhantomData};

use mortise_resource::{manifest, pb};
use prost::{Message, Name};

/// Message of a resource's data: any message of prost with a name, such as those of `build::Protos`.
pub trait Data: Message + Name + Default + 'static {}
impl<M: Message + Name + Default + 'static> Data for M {}

/// Name of a resource type whose resources hold an `M`: `const ALBUM: Kind<Album> = Kind::new("demo", "v2", "Album");`.
///
/// Used for types of this plugin and for those of others, which a controller may be granted.
pub struct Kind<M> {
    name: KindName,
    data: PhantomData<fn() -> M>,
}

/// A [`Kind`] of any message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KindName {
    pub(crate) group: &'static str,
    pub(crate) group_version: &'static str,
    pub(crate) kind: &'static str,
}

impl<M> Kind<M> {
    /// Makes the name of a type.
    #[must_use]
    pub const fn new(group: &'static str, group_version: &'static str, kind: &'static str) -> Self {
        Self { name: KindName { group, group_version, kind }, data: PhantomData }
    }

    /// Makes the id of a resource of this type. Reconcilers give the whole tenancy; most often it is that of another
    /// resource.
    pub fn id(self, name: impl Into<String>, tenancy: &pb::Tenancy) -> pb::Id {
        pb::Id {
            name: name.into(),
            r#type: Some(self.name.to_pb()),
            tenancy: Some(tenancy.clone()),
            uid: String::new(),
        }
    }

    /// The name as a message.
    #[must_use]
    pub fn to_pb(self) -> pb::Type {
        self.name.to_pb()
    }

    /// Whether the id is of this type.
    #[must_use]
    pub fn is_of(self, id: &pb::Id) -> bool {
        id.r#type.as_ref().is_some_and(|of| self.name.is(of))
    }

    pub(crate) const fn name(self) -> KindName {
        self.name
    }
}

impl<M> Clone for Kind<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Kind<M> {}

impl<M> fmt::Debug for Kind<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.name.group, self.name.group_version, self.name.kind)
    }
}

impl KindName {
    pub(crate) fn to_pb(self) -> pb::Type {
        pb::Type {
            group: self.group.to_owned(),
            group_version: self.group_version.to_owned(),
            kind: self.kind.to_owned(),
        }
    }

    pub(crate) fn is(self, of: &pb::Type) -> bool {
        self.group == of.group && self.group_version == of.group_version && self.kind == of.kind
    }

    pub(crate) fn describe(self) -> manifest::TypeName {
        let pb::Type { group, group_version, kind } = self.to_pb();
        manifest::TypeName { group, group_version, kind }
    }
}
