//! Resources as people type and read them: `artist korn`, `artist/korn`, `demo.v2.Artist/korn`.

use mortise_resource::{
    pb,
    types::{self, Gvk, gvk},
};
use mortise_text::Types as _;

use super::places::{self, PlacedName};
use crate::{CliError, Session, Tenancy, resources::catalog::Catalog};

/// Identity of a resource, over all its incarnations: group, kind, partition, namespace, name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key([String; 5]);

impl Key {
    pub(crate) fn of(id: &pb::Id) -> Self {
        let pb::Type { group, kind, .. } = id.r#type.clone().unwrap_or_default();
        let pb::Tenancy { partition, namespace } = id.tenancy.clone().unwrap_or_default();
        Self([group, kind, partition, namespace, id.name.clone()])
    }
}

/// `group.version.Kind/name`.
pub(crate) fn title(id: &pb::Id) -> String {
    format!("{}/{}", id.r#type.as_ref().map(gvk).unwrap_or_default(), id.name)
}

/// `group.version.Kind/name`, with the place unless that is `default`.
pub(crate) fn placed_title(id: &pb::Id) -> String {
    let pb::Tenancy { partition, namespace } = id.tenancy.clone().unwrap_or_default();
    let plain = |unit: &str| unit.is_empty() || unit == "default";
    let partition_or_default = if partition.is_empty() { "default" } else { &partition };
    match (plain(&partition), plain(&namespace)) {
        (true, true) => title(id),
        (false, _) if namespace.is_empty() => format!("{} in {partition}", title(id)),
        _ => format!("{} in {partition_or_default}/{namespace}", title(id)),
    }
}

/// Returns the id of a resource, or an empty one.
pub(crate) fn id_of(resource: &pb::Resource) -> pb::Id {
    resource.id.clone().unwrap_or_default()
}

/// Returns the ids of the namespace and the partition that contain a resource, as far as it has them.
pub(crate) fn units_of(id: &pb::Id) -> impl Iterator<Item = pb::Id> + use<> {
    let pb::Tenancy { partition, namespace } = id.tenancy.clone().unwrap_or_default();
    let unit = |ty: Gvk, partition: &str, name: &str| pb::Id {
        name: name.to_owned(),
        r#type: Some(ty.to_pb()),
        tenancy: Some(pb::Tenancy { partition: partition.to_owned(), namespace: String::new() }),
        uid: String::new(),
    };
    let namespace = (!namespace.is_empty()).then(|| unit(types::namespace(), &partition, &namespace));
    let partition = (!partition.is_empty()).then(|| unit(types::partition(), "", &partition));
    namespace.into_iter().chain(partition)
}

/// A type on a command line, with the names given for it. Without names, all of the type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) ty: pb::Type,
    pub(crate) names: Vec<PlacedName>,
}

/// End of the server's message about a reference to a missing resource.
const NO_REFERENT: &str = "which does not exist; create it first";

/// Whether the server refused a resource because of a reference to a missing one, which may still come.
pub(crate) fn refers_to_nothing(error: &CliError) -> bool {
    error.code == Some(tonic::Code::FailedPrecondition)
        && error.message.contains("data.")
        && error.message.ends_with(NO_REFERENT)
}

/// Parses `TYPE`, `TYPE,TYPE`, `TYPE NAME…` or `TYPE/NAME…`, and [names with their place](PlacedName).
pub(crate) fn selections(words: &[String], catalog: &Catalog, tenancy: &Tenancy) -> Result<Vec<Selection>, CliError> {
    let Some((first, rest)) = words.split_first() else { return Ok(Vec::new()) };
    if words.iter().any(|word| word.contains('/')) {
        let mut all: Vec<Selection> = Vec::new();
        for word in words {
            let Some((ty, name)) = word.split_once('/').filter(|(ty, _)| !ty.is_empty()) else {
                return Err(places::malformed(word));
            };
            let ty = catalog.find_type(ty)?;
            let name = PlacedName::parse(word, name, catalog.scope(&ty), tenancy)?;
            match all.iter_mut().find(|selection| selection.ty == ty) {
                Some(selection) => selection.names.push(name),
                None => all.push(Selection { ty, names: vec![name] }),
            }
        }
        return Ok(all);
    }
    let types: Vec<_> = first.split(',').map(|ty| catalog.find_type(ty)).collect::<Result<_, _>>()?;
    let names: Vec<_> = rest.iter().map(|name| PlacedName::plain(name)).collect();
    Ok(types.into_iter().map(|ty| Selection { ty, names: names.clone() }).collect())
}

/// Parses exactly one resource: `TYPE NAME` or `TYPE/NAME`.
pub(crate) fn one(
    words: &[String],
    catalog: &Catalog,
    tenancy: &Tenancy,
    session: &Session,
) -> Result<pb::Id, CliError> {
    let selected = selections(words, catalog, tenancy)?;
    let named = selected.iter().flat_map(|Selection { ty, names }| names.iter().map(move |name| (ty, name)));
    match named.collect::<Vec<_>>().as_slice() {
        [(ty, name)] => Ok(id(ty, name, tenancy, session, catalog)),
        _ => Err(CliError::usage("the command takes one resource").remedy("give TYPE NAME, or TYPE/NAME")),
    }
}

/// Builds the id of a name: in its own place, or in the units of flags, environment and context, as far as the type's
/// scope has them.
pub(crate) fn id(ty: &pb::Type, name: &PlacedName, tenancy: &Tenancy, session: &Session, catalog: &Catalog) -> pb::Id {
    let units = name.units_in(tenancy.units_for(ty, session, catalog));
    pb::Id { uid: String::new(), name: name.name.clone(), r#type: Some(ty.clone()), tenancy: Some(units) }
}

/// Reads one resource.
pub(crate) async fn read(session: &Session, id: &pb::Id) -> Result<pb::Resource, CliError> {
    let request = pb::ReadRequest { id: Some(id.clone()) };
    let answer = session.call(placed_title(id), async { session.resources().read(request).await }).await?;
    Ok(answer.resource.unwrap_or_default())
}

/// Reads one resource; `None` if it does not exist.
pub(crate) async fn read_if_there(session: &Session, id: &pb::Id) -> Result<Option<pb::Resource>, CliError> {
    match read(session, id).await {
        Ok(resource) => Ok(Some(resource)),
        Err(error) if error.code == Some(tonic::Code::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads one resource under any version of its type, since a write would replace it; `None` if it does not exist.
pub(crate) async fn read_in_any_version(session: &Session, id: &pb::Id) -> Result<Option<pb::Resource>, CliError> {
    match read_if_there(session, id).await {
        Err(error) if error.code == Some(tonic::Code::InvalidArgument) => {
            let (Some(version), Some(ty)) = (stored_version(&error.message), id.r#type.clone()) else {
                return Err(error);
            };
            let ty = pb::Type { group_version: version.to_owned(), ..ty };
            read_if_there(session, &pb::Id { r#type: Some(ty), ..id.clone() }).await
        }
        read => read,
    }
}

/// Returns the version that Consul's refusal names.
fn stored_version(message: &str) -> Option<&str> {
    message.rsplit_once("but stored with GroupVersion=\"")?.1.strip_suffix('"')
}

/// Lists the resources of a type in some units.
pub(crate) async fn list(
    session: &Session,
    ty: &pb::Type,
    tenancy: pb::Tenancy,
    prefix: &str,
) -> Result<Vec<pb::Resource>, CliError> {
    let request = pb::ListRequest { r#type: Some(ty.clone()), tenancy: Some(tenancy), name_prefix: prefix.to_owned() };
    let answer = session.call(gvk(ty), async { session.resources().list(request).await }).await?;
    Ok(answer.resources)
}

/// A type's name.
pub(crate) fn type_name(ty: &pb::Type) -> String {
    Gvk::from(ty).to_string()
}

/// Creation time of a ULID in milliseconds since 1970; `None` for another text.
pub(crate) fn made_at(ulid: &str) -> Option<u64> {
    ulid::Ulid::from_string(ulid).ok().map(|ulid| ulid.timestamp_ms())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ulid_tells_when_it_was_made() {
        assert_eq!(made_at("01ARZ3NDEKTSV4RRFFQ69G5FAV"), Some(1_469_922_850_259));
        assert_eq!(made_at("nope"), None);
    }

    #[test]
    fn default_places_are_not_said() {
        let id = |partition: &str, namespace: &str| pb::Id {
            name: "korn".into(),
            r#type: Some(pb::Type { group: "demo".into(), group_version: "v2".into(), kind: "Artist".into() }),
            tenancy: Some(pb::Tenancy { partition: partition.into(), namespace: namespace.into() }),
            uid: String::new(),
        };
        assert_eq!(placed_title(&id("default", "default")), "demo.v2.Artist/korn");
        assert_eq!(placed_title(&id("", "")), "demo.v2.Artist/korn");
        assert_eq!(placed_title(&id("a", "")), "demo.v2.Artist/korn in a");
        assert_eq!(placed_title(&id("default", "b")), "demo.v2.Artist/korn in default/b");
        assert_eq!(placed_title(&id("", "b")), "demo.v2.Artist/korn in default/b");
    }
}
