//! Watches of a controller besides its own type, and indexes of its cache.

use std::fmt;

use mortise_resource::{manifest, pb};

use crate::{
    Context, Error, Kind, Typed,
    envelope::Envelope,
    kind::{Data, KindName},
    typed::unreadable,
};

type Map<M> = fn(&Context<'_>, &Typed<M>) -> Result<Vec<pb::Id>, Error>;
type MapThrough<M> = fn(Map<M>, &Context<'_>, Envelope) -> Result<Vec<pb::Id>, Error>;

/// Mapping from a changed resource of a watched type to resources of the managed type.
pub enum Mapper<M> {
    /// The owner of the changed resource, if it is of the managed type.
    Owner,
    /// The resource of the managed type with the same name and tenancy.
    SameName,
    /// The targets of a reference field of the changed resource: names joined by dots, through message fields, to a
    /// `hashicorp.consul.resource.Reference` or `ID`, single or repeated.
    Reference(&'static str),
    /// The resources of the managed type that an index by reference holds under the changed resource's id; the index is
    /// declared with the controller.
    Index(&'static str),
    /// The resources that a function answers; a uid may be left out. It gets the resource as it is now, or as it was
    /// before it was deleted. Needs `mapping` among the interfaces of [`crate::export!`].
    Map(fn(&Context<'_>, &Typed<M>) -> Result<Vec<pb::Id>, Error>),
}

/// As in `mortise plugin inspect`: `by reference data.spec.target`.
impl<M> fmt::Display for Mapper<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner => f.write_str("by owner"),
            Self::SameName => f.write_str("by name"),
            Self::Reference(field) => write!(f, "by reference data.{field}"),
            Self::Index(index) => write!(f, "by index {index}"),
            Self::Map(_) => f.write_str("by its own mapper"),
        }
    }
}

impl<M> fmt::Debug for Mapper<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An index of the cache.
#[derive(Debug, Clone, Copy)]
pub struct Index {
    name: &'static str,
    by: By,
    in_tenancy: bool,
}

#[derive(Debug, Clone, Copy)]
enum By {
    Owner,
    Reference(&'static str),
    Value(&'static str),
    Name,
    Metadata,
}

impl Index {
    const fn new(name: &'static str, by: By) -> Self {
        Self { name, by, in_tenancy: false }
    }

    /// Makes an index by owner.
    #[must_use]
    pub const fn by_owner(name: &'static str) -> Self {
        Self::new(name, By::Owner)
    }

    /// Makes an index by the target of a reference field: a path as in [`Mapper::Reference`].
    #[must_use]
    pub const fn by_reference(name: &'static str, field: &'static str) -> Self {
        Self::new(name, By::Reference(field))
    }

    /// Makes an index by the value of a field, single or repeated: a string, a number, a bool, or the name of an enum's
    /// value; or by the entries of a map of string to string, as `key=value`.
    #[must_use]
    pub const fn by_value(name: &'static str, field: &'static str) -> Self {
        Self::new(name, By::Value(field))
    }

    /// Makes an index by the resource's name, which is a value: a list finds names with a prefix.
    #[must_use]
    pub const fn by_name(name: &'static str) -> Self {
        Self::new(name, By::Name)
    }

    /// Makes an index by the resource's metadata: each pair is a value `key=value`.
    #[must_use]
    pub const fn by_metadata(name: &'static str) -> Self {
        Self::new(name, By::Metadata)
    }

    /// Prefixes each value with the resource's `partition/namespace/`, so that a look-up stays in one tenancy. Not for
    /// owners and references, whose keys have a tenancy: the host refuses that.
    #[must_use]
    pub const fn in_tenancy(mut self) -> Self {
        self.in_tenancy = true;
        self
    }

    pub(crate) fn describe(&self) -> manifest::Index {
        let by = match self.by {
            By::Owner => manifest::index::By::Owner(true),
            By::Reference(field) => manifest::index::By::ReferenceField(field.to_owned()),
            By::Value(field) => manifest::index::By::ValueField(field.to_owned()),
            By::Name => manifest::index::By::ResourceName(true),
            By::Metadata => manifest::index::By::Metadata(true),
        };
        manifest::Index { name: self.name.to_owned(), by: Some(by), in_tenancy: self.in_tenancy }
    }
}

/// A watched type.
pub struct Watch<M: 'static> {
    kind: KindName,
    mapper: Mapper<M>,
    /// Decodes for a mapper that is a function; absent, and so not compiled, for the others.
    through: Option<MapThrough<M>>,
    indexes: &'static [Index],
}

impl<M: Data> Watch<M> {
    /// Makes a watch of a type.
    #[must_use]
    pub const fn new(of: Kind<M>, mapper: Mapper<M>) -> Self {
        let through: Option<MapThrough<M>> = match mapper {
            Mapper::Map(_) => Some(map),
            _ => None,
        };
        Self { kind: of.name(), mapper, through, indexes: &[] }
    }

    /// Sets the indexes of this type in the cache.
    #[must_use]
    pub const fn indexes(mut self, indexes: &'static [Index]) -> Self {
        self.indexes = indexes;
        self
    }
}

/// A [`Watch`] of any message.
#[doc(hidden)]
pub trait AnyWatch: Sync {
    fn is(&self, of: &pb::Type) -> bool;
    fn describe(&self) -> manifest::Watch;
    fn map(&self, ctx: &Context<'_>, changed: Envelope) -> Result<Vec<pb::Id>, Error>;
}

impl<M> AnyWatch for Watch<M> {
    fn is(&self, of: &pb::Type) -> bool {
        self.kind.is(of)
    }

    fn describe(&self) -> manifest::Watch {
        let mapper = match self.mapper {
            Mapper::Owner => manifest::watch::Mapper::Owner(true),
            Mapper::SameName => manifest::watch::Mapper::SameName(true),
            Mapper::Reference(field) => manifest::watch::Mapper::ReferenceField(field.to_owned()),
            Mapper::Index(index) => manifest::watch::Mapper::Index(index.to_owned()),
            Mapper::Map(_) => manifest::watch::Mapper::Map(true),
        };
        manifest::Watch {
            r#type: Some(self.kind.describe()),
            mapper: Some(mapper),
            indexes: self.indexes.iter().map(Index::describe).collect(),
        }
    }

    fn map(&self, ctx: &Context<'_>, changed: Envelope) -> Result<Vec<pb::Id>, Error> {
        match (&self.mapper, self.through) {
            (Mapper::Map(function), Some(through)) => through(*function, ctx, changed),
            _ => Err("the watch of this type has no map function".into()),
        }
    }
}

fn map<M: Data>(function: Map<M>, ctx: &Context<'_>, changed: Envelope) -> Result<Vec<pb::Id>, Error> {
    function(ctx, &Typed::of_envelope(changed)?)
}

/// Decodes a changed resource from the host.
pub(crate) fn changed(bytes: &[u8]) -> Result<Envelope, Error> {
    Ok(Envelope::read(bytes).map_err(|fault| unreadable(&fault))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapper_is_shown_with_its_source() {
        let shown = |mapper: Mapper<()>| (mapper.to_string(), format!("{mapper:?}"));
        let texts = ["by owner", "by name", "by reference data.spec.target", "by index to", "by its own mapper"];
        let mappers = [
            Mapper::Owner,
            Mapper::SameName,
            Mapper::Reference("spec.target"),
            Mapper::Index("to"),
            Mapper::Map(|_, _| Ok(Vec::new())),
        ];
        for (mapper, text) in mappers.into_iter().zip(texts) {
            assert_eq!(shown(mapper), (text.to_owned(), text.to_owned()));
        }
    }
}
