//! Declarations of the manifest about a type, for any message.

use mortise_resource::{Scope, manifest, pb};
use prost::Message;

use crate::{Decision, kind::KindName};

/// Rule for lists of the type.
pub(crate) type List = fn(&pb::Type, &pb::Tenancy) -> Decision;

/// Group, version and kind.
pub(crate) type TypeName = (&'static str, &'static str, &'static str);
pub(crate) type EncodeTypeNames = fn(&[TypeName]) -> Vec<Vec<u8>>;

/// Permission that the host checks by itself, and the name that it is checked on.
pub(crate) type Permission = (&'static str, &'static str);

/// Permissions for the three questions that the host checks itself.
#[derive(Clone, Copy)]
pub(crate) struct Permissions {
    pub(crate) read: Option<Permission>,
    pub(crate) write: Option<Permission>,
    pub(crate) list: Option<Permission>,
}

/// Declaration of a type apart from its message and hooks.
#[doc(hidden)]
pub struct Spec {
    pub(crate) group: &'static str,
    pub(crate) group_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) scope: Scope,
    pub(crate) message: fn() -> String,
    pub(crate) schema_version: u32,
    pub(crate) optional_data: bool,
    pub(crate) list: Option<List>,
    pub(crate) permissions: Permissions,
    pub(crate) immutable: &'static [&'static str],
    pub(crate) columns: &'static [(&'static str, &'static str)],
    pub(crate) short_names: &'static [&'static str],
    pub(crate) moved_from: Option<(&'static [TypeName], EncodeTypeNames)>,
    pub(crate) query: Option<(Query, DescribeQuery)>,
    pub(crate) regions: Option<(RegionSpec, DescribeRegions)>,
    pub(crate) owners_anywhere: bool,
}

/// Region options of a type.
#[derive(Clone, Copy)]
pub(crate) struct RegionSpec {
    pub(crate) field: &'static str,
    pub(crate) syncing: manifest::RegionSyncing,
}

/// A function behind a pointer, so that plugins without region options do not contain it.
pub(crate) type DescribeRegions = fn(RegionSpec) -> Vec<u8>;

pub(crate) fn describe_regions(RegionSpec { field, syncing }: RegionSpec) -> Vec<u8> {
    manifest::RegionOptions { field: field.to_owned(), syncing: syncing.into() }.encode_to_vec()
}

/// Query options of a type.
#[derive(Clone, Copy)]
pub(crate) struct Query {
    pub(crate) spec: &'static [&'static str],
    pub(crate) basic: &'static [&'static str],
    pub(crate) detail: &'static [&'static str],
    pub(crate) indexed: &'static [&'static str],
}

/// A function behind a pointer, so that plugins without query options do not contain it.
pub(crate) type DescribeQuery = fn(Query) -> Vec<u8>;

pub(crate) fn describe_query(Query { spec, basic, detail, indexed }: Query) -> Vec<u8> {
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    let query = manifest::QueryOptions {
        spec_fields: owned(spec),
        basic_view: owned(basic),
        detail_view: owned(detail),
        indexed_fields: owned(indexed),
    };
    query.encode_to_vec()
}

/// A type in the manifest: [`manifest::ResourceType`], with `moved_from` as the bytes of its messages, which is the
/// same on the wire, without code that most plugins have no use for.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TypeEntry {
    #[prost(string, tag = "1")]
    group: String,
    #[prost(string, tag = "2")]
    group_version: String,
    #[prost(string, tag = "3")]
    kind: String,
    #[prost(enumeration = "manifest::Scope", tag = "4")]
    scope: i32,
    #[prost(string, tag = "5")]
    message: String,
    #[prost(uint32, tag = "6")]
    schema_version: u32,
    #[prost(message, optional, tag = "7")]
    pub(crate) hooks: Option<manifest::Hooks>,
    #[prost(string, repeated, tag = "8")]
    immutable_fields: Vec<String>,
    #[prost(message, repeated, tag = "9")]
    printer_columns: Vec<manifest::PrinterColumn>,
    #[prost(string, repeated, tag = "10")]
    short_names: Vec<String>,
    #[prost(message, optional, tag = "11")]
    permissions: Option<manifest::Permissions>,
    #[prost(bytes = "vec", repeated, tag = "1000")]
    moved_from: Vec<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "1001")]
    query: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "1010")]
    regions: Option<Vec<u8>>,
    #[prost(bool, tag = "1011")]
    owners_anywhere: bool,
}

impl Permissions {
    fn describe(self) -> Option<manifest::Permissions> {
        let one = |(permission, on): Permission| manifest::Permission { permission: permission.into(), on: on.into() };
        let Self { read, write, list } = self;
        let any = read.or(write).or(list).is_some();
        any.then(|| manifest::Permissions { read: read.map(one), write: write.map(one), list: list.map(one) })
    }
}

impl Spec {
    pub(crate) const fn regions(&self) -> RegionSpec {
        match self.regions {
            Some((regions, _)) => regions,
            None => RegionSpec { field: "", syncing: manifest::RegionSyncing::Default },
        }
    }

    pub(crate) const fn query(&self) -> Query {
        match self.query {
            Some((query, _)) => query,
            None => Query { spec: &[], basic: &[], detail: &[], indexed: &[] },
        }
    }

    /// Whether `of` names this type.
    pub(crate) fn is(&self, of: &pb::Type) -> bool {
        of.group == self.group && of.group_version == self.group_version && of.kind == self.kind
    }

    /// Entry of the type in the manifest.
    pub(crate) fn describe(&self, hooks: manifest::Hooks) -> TypeEntry {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let scope = match self.scope {
            Scope::Undefined => manifest::Scope::Unspecified,
            Scope::Cluster => manifest::Scope::Cluster,
            Scope::Partition => manifest::Scope::Partition,
            Scope::Namespace => manifest::Scope::Namespace,
        };
        let column = |&(name, path): &(&str, &str)| manifest::PrinterColumn { name: name.into(), path: path.into() };
        TypeEntry {
            group: self.group.to_owned(),
            group_version: self.group_version.to_owned(),
            kind: self.kind.to_owned(),
            scope: scope.into(),
            message: (self.message)(),
            schema_version: self.schema_version,
            hooks: Some(hooks),
            immutable_fields: owned(self.immutable),
            printer_columns: self.columns.iter().map(column).collect(),
            short_names: owned(self.short_names),
            permissions: self.permissions.describe(),
            moved_from: self.moved_from.map_or_else(Vec::new, |(types, encode)| encode(types)),
            query: self.query.map(|(query, describe)| describe(query)),
            regions: self.regions.map(|(regions, describe)| describe(regions)),
            owners_anywhere: self.owners_anywhere,
        }
    }

    /// The type's name.
    pub(crate) fn to_pb(&self) -> pb::Type {
        KindName { group: self.group, group_version: self.group_version, kind: self.kind }.to_pb()
    }

    /// Asks the list rule.
    pub(crate) fn list(&self, of: &pb::Type, tenancy: &pb::Tenancy) -> Decision {
        self.list.map_or_else(no_rule, |rule| rule(of, tenancy))
    }
}

/// The host does not ask a type for a rule that its manifest does not claim.
pub(crate) fn no_rule() -> Decision {
    Decision::Deny("the type has no such rule".to_owned())
}
