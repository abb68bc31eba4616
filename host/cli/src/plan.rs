//! What applying a document would change.

use std::collections::BTreeMap;

use mortise_resource::{
    Diagnostic,
    meta::{DELETION_TIMESTAMP, FINALIZERS},
    pb,
};

use crate::{
    CliError, Session,
    catalog::Catalog,
    ids::{id_of, placed_title, read_in_any_version},
};

/// What would come of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is not there yet.
    Created,
    /// It is there, and different.
    Updated,
    /// It is there, just so.
    Unchanged,
}

impl Change {
    /// As it stands behind a resource's name.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Unchanged => "unchanged",
        }
    }
}

/// What is stored and what would be, as far as anybody can tell without writing.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) change: Change,
    pub(crate) before: Option<pb::Resource>,
    /// With defaults filled in.
    pub(crate) after: pb::Resource,
    pub(crate) warnings: Vec<Diagnostic>,
}

/// Asks the server what it has and what it would make of the resource, which it validates on the way.
pub(crate) async fn plan(session: &Session, wanted: &pb::Resource) -> Result<Plan, CliError> {
    let id = id_of(wanted);
    let before = read_in_any_version(session, &pb::Id { uid: String::new(), ..id.clone() }).await?;
    let request = pb::MutateAndValidateRequest { resource: Some(wanted.clone()) };
    let call = async { session.resources().mutate_and_validate(request).await };
    let answer = session.call(placed_title(&id), call).await?;
    let after = answer.resource.unwrap_or_default();
    let change = match &before {
        None => Change::Created,
        Some(before) if same(&after, before) => Change::Unchanged,
        Some(_) => Change::Updated,
    };
    Ok(Plan { change, before, after, warnings: answer.warnings })
}

/// Whether what is stored is what is wanted: data, owner, and metadata but for what the server keeps by itself.
pub(crate) fn same(wanted: &pb::Resource, stored: &pb::Resource) -> bool {
    let type_of = |resource: &pb::Resource| resource.id.as_ref().and_then(|id| id.r#type.clone());
    let owner_is = match (&wanted.owner, &stored.owner) {
        (None, None) => true,
        (Some(wanted), Some(stored)) => {
            (wanted.uid.is_empty() || wanted.uid == stored.uid)
                && pb::Id { uid: String::new(), ..wanted.clone() } == pb::Id { uid: String::new(), ..stored.clone() }
        }
        _ => false,
    };
    let name = |any: &prost_types::Any| any.type_url.rsplit('/').next().unwrap_or_default().to_owned();
    let data_is = match (&wanted.data, &stored.data) {
        (None, None) => true,
        (Some(wanted), Some(stored)) => name(wanted) == name(stored) && wanted.value == stored.value,
        _ => false,
    };
    owner_is && data_is && type_of(wanted) == type_of(stored) && metadata_with_kept(wanted, stored) == stored.metadata
}

/// The wanted metadata, with what a write without a version keeps of the stored.
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
    /// The change as a unified diff; empty when there is none.
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

/// Without what the server sets.
pub(crate) fn bare(resource: &pb::Resource) -> pb::Resource {
    let mut bare = resource.clone();
    bare.version.clear();
    bare.generation.clear();
    bare.status.clear();
    bare.schema_version = 0;
    for id in [&mut bare.id, &mut bare.owner].into_iter().flatten() {
        id.uid.clear();
    }
    bare
}
