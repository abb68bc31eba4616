//! Places in lists: a place that does not exist is an error, and `default` is listed though it is not stored.

use mortise_resource::{
    pb,
    types::{self, Gvk},
};

use crate::{
    CliError, Session,
    resources::ids::{self, id_of, units_of},
};

/// Name of the partition and the namespace that always exist.
const DEFAULT: &str = "default";

/// Checks that the place of an empty list exists. A caller that may not read places gets no error.
pub(super) async fn check(session: &Session, units: &pb::Tenancy) -> Result<(), CliError> {
    let id = pb::Id { tenancy: Some(units.clone()), ..pb::Id::default() };
    let units: Vec<pb::Id> = units_of(&id).filter(|unit| !matches!(unit.name.as_str(), DEFAULT | "*")).collect();
    // The partition first: without it the namespace does not exist either.
    for unit in units.iter().rev() {
        match ids::read_if_there(session, unit).await {
            Err(error) if error.code == Some(tonic::Code::PermissionDenied) => {}
            Err(error) => return Err(error),
            Ok(Some(_)) => {}
            Ok(None) => {
                let kind = unit.r#type.as_ref().map(|ty| ty.kind.to_lowercase()).unwrap_or_default();
                let name = &unit.name;
                return Err(CliError::failed(format!("the {kind} {name:?} does not exist"))
                    .remedy(format!("`mortise get {kind}s` lists them, `mortise create {kind} {name}` creates it")));
            }
        }
    }
    Ok(())
}

/// Returns the unit `default` for its id, which exists without being stored.
pub(super) fn default_unit(id: &pb::Id) -> Option<pb::Resource> {
    let gvk = id.r#type.as_ref().map(Gvk::from)?;
    let is_unit = gvk == types::partition() || gvk == types::namespace();
    (is_unit && id.name == DEFAULT).then(|| pb::Resource { id: Some(id.clone()), ..pb::Resource::default() })
}

/// Adds the units that exist without being stored to a list of partitions or namespaces in a place.
pub(super) async fn add_default(
    session: &Session,
    ty: &pb::Type,
    units: &pb::Tenancy,
    found: &mut Vec<pb::Resource>,
) -> Result<(), CliError> {
    let gvk = Gvk::from(ty);
    let partitions = match units.partition.as_str() {
        _ if gvk == types::partition() => vec![String::new()],
        _ if gvk != types::namespace() => return Ok(()),
        "*" => {
            let stored = ids::list(session, &types::partition().to_pb(), pb::Tenancy::default(), "").await?;
            let stored = stored.iter().map(|partition| id_of(partition).name);
            [DEFAULT.to_owned()].into_iter().chain(stored.filter(|name| name != DEFAULT)).collect()
        }
        "" => vec![DEFAULT.to_owned()],
        partition => vec![partition.to_owned()],
    };
    let place = |resource: &pb::Resource| {
        let id = id_of(resource);
        (id.tenancy.unwrap_or_default().partition, id.name)
    };
    for partition in partitions {
        let unit = pb::Id {
            name: DEFAULT.to_owned(),
            r#type: Some(ty.clone()),
            tenancy: Some(pb::Tenancy { partition, namespace: String::new() }),
            uid: String::new(),
        };
        let unit = pb::Resource { id: Some(unit), ..pb::Resource::default() };
        if found.iter().all(|other| place(other) != place(&unit)) {
            found.push(unit);
        }
    }
    found.sort_by_key(place);
    Ok(())
}
