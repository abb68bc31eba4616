//! Changes that applying a resource would make, as far as the server can tell without writing.
//!
//! A plan costs one read, and one MutateAndValidate unless the stored bytes already match, or the resource is marked
//! for deletion and loses finalizers or stays as it is. Data in other bytes can mean the same; that is decided here, by the descriptors
//! of the catalog.

use std::collections::BTreeMap;

use mortise_resource::{
    Diagnostic,
    meta::{self, DELETION_TIMESTAMP, FINALIZERS},
    pb,
    resource_meta::{is_same_client_part, strip_server_part},
};
use mortise_text::{Indent, Types};

use crate::{
    CliError, Session,
    resources::{
        catalog::Catalog,
        ids::{id_of, placed_title, read_in_any_version, units_of},
    },
};

/// Result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The resource does not exist yet.
    Created,
    /// The resource exists and differs.
    Updated,
    /// The resource exists as wanted.
    Unchanged,
}

impl Change {
    /// The word printed behind a resource's name.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Unchanged => "unchanged",
        }
    }
}

/// Stored resource, and the resource after the write.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) change: Change,
    pub(crate) before: Option<pb::Resource>,
    /// Resource after the write, with defaults filled in unless `unchecked` is set.
    pub(crate) after: pb::Resource,
    pub(crate) warnings: Vec<Diagnostic>,
    /// Namespace or partition that does not exist yet; without it the server could not validate the resource.
    pub(crate) unchecked: Option<pb::Id>,
}

/// Reads the resource that a write would replace, in any version of its type.
pub(crate) async fn stored(session: &Session, wanted: &pb::Resource) -> Result<Option<pb::Resource>, CliError> {
    read_in_any_version(session, &pb::Id { uid: String::new(), ..id_of(wanted) }).await
}

/// Asks the server to mutate and validate the resource, and compares the result with `before`.
pub(crate) async fn plan(
    session: &Session,
    catalog: &Catalog,
    wanted: &pb::Resource,
    before: Option<pb::Resource>,
) -> Result<Plan, CliError> {
    if let Some(stored) = before.as_ref().filter(|stored| meta::is_marked(&stored.metadata)) {
        let metadata = metadata_with_kept(wanted, stored);
        // A write that only removes finalizers gets no defaults, and needs no plugin. None at all is made of what is
        // stored already.
        let change = match meta::loses_finalizers(&stored.metadata, &metadata) {
            true => Some(Change::Updated),
            false => same(wanted, stored).then_some(Change::Unchanged),
        };
        if let Some(change) = change {
            let after = pb::Resource { metadata, ..wanted.clone() };
            return Ok(Plan { change, before, after, warnings: Vec::new(), unchecked: None });
        }
    }
    let request = pb::MutateAndValidateRequest { resource: Some(wanted.clone()) };
    let call = async { session.resources().mutate_and_validate(request).await };
    let answer = session.call(placed_title(&id_of(wanted)), call).await?;
    let after = answer.resource.unwrap_or_default();
    let change = match &before {
        None => Change::Created,
        Some(before) if same(&after, before) || same_otherwise_put(catalog, &after, before)? => Change::Unchanged,
        Some(_) => Change::Updated,
    };
    Ok(Plan { change, before, after, warnings: answer.warnings, unchecked: None })
}

/// Reads and plans without writing. `creates` reports whether the same set creates a namespace or partition. The server
/// cannot validate a resource in a unit that does not exist yet; the plan then holds the resource as written,
/// [unchecked](Plan::unchecked).
pub(crate) async fn dry_run(
    session: &Session,
    catalog: &Catalog,
    wanted: &pb::Resource,
    creates: impl Fn(&pb::Id) -> bool,
) -> Result<Plan, CliError> {
    let before = stored(session, wanted).await?;
    let is_new = before.is_none();
    match plan(session, catalog, wanted, before).await {
        Err(error) if is_new => {
            let unchecked = missing_unit(&id_of(wanted), &error, creates).ok_or(error)?;
            let after = wanted.clone();
            let warnings = Vec::new();
            Ok(Plan { change: Change::Created, before: None, after, warnings, unchecked: Some(unchecked) })
        }
        planned => planned,
    }
}

/// Missing unit behind a refusal, if the same set creates it and the partition around it.
fn missing_unit(id: &pb::Id, refusal: &CliError, creates: impl Fn(&pb::Id) -> bool) -> Option<pb::Id> {
    let units: Vec<_> = units_of(id).collect();
    let is_missing = |unit: &pb::Id| {
        refusal.message == format!("{}: {} not found: {}", placed_title(id), unit_kind(unit), unit.name)
    };
    let missing = units.iter().position(is_missing)?;
    // The default namespace exists as soon as its partition does.
    let mut needed = units.iter().take(missing + 1).filter(|unit| unit.name != "default");
    needed.all(creates).then(|| units.get(missing).cloned()).flatten()
}

/// `namespace` or `partition`.
pub(crate) fn unit_kind(unit: &pb::Id) -> String {
    unit.r#type.as_ref().map(|ty| ty.kind.to_lowercase()).unwrap_or_default()
}

/// Whether the stored resource equals the wanted one byte for byte: data, owner, the client's part of meta, and
/// metadata except what the server keeps by itself.
pub(crate) fn same(wanted: &pb::Resource, stored: &pb::Resource) -> bool {
    wanted.data.as_ref().map(|data| &data.value) == stored.data.as_ref().map(|data| &data.value)
        && same_but_for_bytes(wanted, stored)
}

/// Whether the two are the same apart from the bytes of their data.
fn same_but_for_bytes(wanted: &pb::Resource, stored: &pb::Resource) -> bool {
    let type_of = |resource: &pb::Resource| resource.id.as_ref().and_then(|id| id.r#type.clone());
    let owner_is = match (&wanted.owner, &stored.owner) {
        (None, None) => true,
        (Some(wanted), Some(stored)) => {
            (wanted.uid.is_empty() || wanted.uid == stored.uid)
                && pb::Id { uid: String::new(), ..wanted.clone() } == pb::Id { uid: String::new(), ..stored.clone() }
        }
        _ => false,
    };
    let message = |resource: &pb::Resource| {
        resource.data.as_ref().map(|any| any.type_url.rsplit('/').next().unwrap_or_default().to_owned())
    };
    owner_is
        && message(wanted) == message(stored)
        && type_of(wanted) == type_of(stored)
        && metadata_with_kept(wanted, stored) == stored.metadata
        // A write without meta keeps the stored one.
        && (wanted.meta.is_none() || is_same_client_part(wanted.meta.as_deref(), stored.meta.as_deref()))
}

/// Whether the two differ in encoding alone: a client may order the entries of a map freely, and may write zeros out.
fn same_otherwise_put(catalog: &Catalog, wanted: &pb::Resource, stored: &pb::Resource) -> Result<bool, CliError> {
    let same = same_but_for_bytes(wanted, stored) && says_the_same(wanted, stored, catalog);
    catalog.fault()?;
    Ok(same)
}

/// Whether data of one type decodes to the same. Compares the printed text, which loses nothing and has one form for
/// all NaNs and for the content of an `Any`. So data counts as changed exactly where [`Plan::diff`] shows it.
fn says_the_same(wanted: &pb::Resource, stored: &pb::Resource, types: &dyn Types) -> bool {
    let described = |resource: &pb::Resource| {
        let data = pb::Resource { id: stored.id.clone(), data: resource.data.clone(), ..pb::Resource::default() };
        mortise_text::to_json(&data, types, Indent::Compact)
    };
    described(wanted) == described(stored)
}

/// The wanted metadata, plus the stored entries that a write without a version keeps.
fn metadata_with_kept(wanted: &pb::Resource, stored: &pb::Resource) -> BTreeMap<String, String> {
    let mut metadata = wanted.metadata.clone();
    if wanted.version.is_empty() {
        for key in [DELETION_TIMESTAMP, FINALIZERS] {
            if let (false, Some(value)) = (metadata.contains_key(key), stored.metadata.get(key)) {
                metadata.insert(key.to_owned(), value.clone());
            }
        }
    }
    metadata
}

impl Plan {
    /// Renders the change as a unified diff; empty without a change.
    pub(crate) fn diff(&self, catalog: &Catalog) -> Result<String, CliError> {
        let name = placed_title(&id_of(&self.after));
        let mut after = bare(&self.after);
        if let Some(before) = &self.before {
            after.metadata = metadata_with_kept(&after, before);
        }
        let before = self.before.as_ref().map(bare);
        let names = (format!("{name} (stored)"), format!("{name} (wanted)"));
        let diff = mortise_text::diff::diff(before.as_ref(), Some(&after), (&names.0, &names.1), catalog);
        catalog.fault()?;
        Ok(diff)
    }
}

/// Copies a resource without the fields that the server sets.
pub(crate) fn bare(resource: &pb::Resource) -> pb::Resource {
    let mut bare = resource.clone();
    bare.version.clear();
    bare.generation.clear();
    bare.status.clear();
    bare.schema_version = 0;
    strip_server_part(&mut bare);
    for id in [&mut bare.id, &mut bare.owner].into_iter().flatten() {
        id.uid.clear();
    }
    bare
}

#[cfg(test)]
mod tests {
    use mortise_resource::{data::TypeInfo, goten::Meta};
    use mortise_text::TypeTable;
    use prost_types::{
        DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet, MessageOptions,
        field_descriptor_proto::{Label, Type},
    };

    use super::*;

    fn field(name: &str, number: i32, label: Label, ty: Type, message: Option<&str>) -> FieldDescriptorProto {
        FieldDescriptorProto {
            name: Some(name.into()),
            number: Some(number),
            label: Some(label.into()),
            r#type: Some(ty.into()),
            type_name: message.map(str::to_owned),
            ..FieldDescriptorProto::default()
        }
    }

    /// The type `bag.v1.Bag`: text = 1, numbers = 2 (repeated int32), notes = 3 (map of strings), ratio = 4 (double).
    fn types() -> TypeTable {
        let optional = |name, number, ty| field(name, number, Label::Optional, ty, None);
        let entry = DescriptorProto {
            name: Some("NotesEntry".into()),
            field: vec![optional("key", 1, Type::String), optional("value", 2, Type::String)],
            options: Some(MessageOptions { map_entry: Some(true), ..MessageOptions::default() }),
            ..DescriptorProto::default()
        };
        let bag = DescriptorProto {
            name: Some("Bag".into()),
            field: vec![
                optional("text", 1, Type::String),
                field("numbers", 2, Label::Repeated, Type::Int32, None),
                field("notes", 3, Label::Repeated, Type::Message, Some(".bag.v1.Bag.NotesEntry")),
                optional("ratio", 4, Type::Double),
            ],
            nested_type: vec![entry],
            ..DescriptorProto::default()
        };
        let file = FileDescriptorProto {
            name: Some("bag.proto".into()),
            package: Some("bag.v1".into()),
            syntax: Some("proto3".into()),
            message_type: vec![bag],
            ..FileDescriptorProto::default()
        };
        let info = TypeInfo { r#type: Some(ty()), message: "bag.v1.Bag".into(), ..TypeInfo::default() };
        let mut types = TypeTable::new();
        types.add(&info, &FileDescriptorSet { file: vec![file] }.into()).unwrap();
        types
    }

    fn ty() -> pb::Type {
        pb::Type { group: "bag".into(), group_version: "v1".into(), kind: "Bag".into() }
    }

    fn bag(value: &[u8]) -> pb::Resource {
        let data = prost_types::Any { type_url: "type.googleapis.com/bag.v1.Bag".into(), value: value.to_vec() };
        let id = pb::Id { name: "b".into(), r#type: Some(ty()), ..pb::Id::default() };
        pb::Resource { id: Some(id), data: Some(data), ..pb::Resource::default() }
    }

    #[test]
    fn data_that_says_the_same_in_other_bytes_is_the_same() {
        let types = types();
        let changes = |wanted: &[u8], stored: &[u8]| {
            let (wanted, stored) = (bag(wanted), bag(stored));
            assert!(!same(&wanted, &stored) && same_but_for_bytes(&wanted, &stored));
            says_the_same(&wanted, &stored, &types)
        };
        let entry = |key: u8, value: u8| [0x1a, 6, 0x0a, 1, key, 0x12, 1, value];
        let sorted = [entry(b'a', b'1'), entry(b'b', b'2')].concat();
        assert!(changes(&sorted, &[entry(b'b', b'2'), entry(b'a', b'1')].concat()), "entries in another order");
        assert!(!changes(&sorted, &[entry(b'a', b'2'), entry(b'b', b'1')].concat()), "other values");
        let empty = [0x1a, 3, 0x0a, 1, b'a'];
        assert!(changes(&empty, &[0x1a, 5, 0x0a, 1, b'a', 0x12, 0]), "an empty value, written out");
        assert!(!changes(&empty, &[]), "no entry");
        assert!(changes(&[], &[0x0a, 0]), "an empty text, written out");
        assert!(changes(&[0x12, 2, 1, 2], &[0x10, 1, 0x10, 2]), "numbers that are not packed");
        assert!(!changes(&[0x12, 2, 1, 2], &[0x10, 2, 0x10, 1]), "numbers in another order");
        assert!(changes(&[0x0a, 1, b'x', 0x12, 1, 5], &[0x12, 1, 5, 0x0a, 1, b'x']), "fields in another order");
        // Field 100, which the message does not have.
        assert!(changes(&[0x0a, 1, b'x', 0xa0, 6, 1], &[0xa0, 6, 1, 0x0a, 1, b'x']), "an unknown field elsewhere");
        assert!(!changes(&[0xa0, 6, 1], &[0xa0, 6, 2]), "another unknown field");
        let ratio = |ratio: f64| [&[0x21][..], &ratio.to_le_bytes()].concat();
        assert!(changes(&ratio(f64::NAN), &ratio(-f64::NAN)), "two kinds of NaN");
        assert!(!changes(&ratio(f64::NAN), &ratio(1.0)), "NaN and a number");
        assert!(!changes(&[0x0a, 1, b'x'], &[0x0a, 9]), "bytes that are no message");
    }

    #[test]
    fn what_else_differs_is_a_change_whatever_the_data_says() {
        let stored = bag(&[]);
        let label = || BTreeMap::from([("app".to_owned(), "shop".to_owned())]);
        assert!(same_but_for_bytes(&bag(&[0x0a, 0]), &stored));
        assert!(!same_but_for_bytes(&pb::Resource { metadata: label(), ..bag(&[0x0a, 0]) }, &stored));
        let labelled =
            || pb::Resource { meta: Some(Box::new(Meta { labels: label(), ..Meta::default() })), ..bag(&[0x0a, 0]) };
        assert!(!same_but_for_bytes(&labelled(), &stored));
        assert!(same_but_for_bytes(&bag(&[0x0a, 0]), &labelled()), "without meta the stored one stays");
        assert!(!same_but_for_bytes(&pb::Resource { owner: stored.id.clone(), ..bag(&[0x0a, 0]) }, &stored));
        assert!(!same_but_for_bytes(&pb::Resource { data: None, ..stored.clone() }, &stored));
    }
}
