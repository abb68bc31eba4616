//! `mortise apply --prune`: deletes what was applied once and is no longer in the files.
//!
//! A resource is deleted only if it matches the selector, if its type and its unit (partition and namespace) occur in
//! the files or are named on the command line, and if it still has the version that was shown.

use std::collections::{BTreeMap, BTreeSet};

use mortise_resource::{goten::LabelSelector, pb, types};
use mortise_text::{Document, Types as _};

use crate::{
    CliError, Exit, Session, Tenancy, Ui,
    apply::order,
    output::ui,
    resources::{
        catalog::Catalog,
        deletion_plan,
        ids::{Key, id_of, placed_title},
        search::QueryArgs,
        selector::selects,
    },
};

/// Types to look at, each in one unit.
pub(super) type Scope = BTreeSet<(types::Gvk, String, String)>;

/// Collects each type in each unit of the documents, further types in the units of the command line, and all of these in
/// further namespaces of their partitions.
pub(super) fn scope(
    documents: &[Document],
    types: &[pb::Type],
    namespaces: &[String],
    tenancy: &Tenancy,
    session: &Session,
    catalog: &Catalog,
) -> Scope {
    let mut scope = Scope::new();
    let mut add = |ty: &pb::Type, mut units: pb::Tenancy| {
        // A unit without a name is the default one, which other documents may name.
        if let Some(scope) = catalog.scope(ty) {
            scope.fill(&mut units);
        }
        scope.insert((types::Gvk::from(ty), units.partition, units.namespace));
    };
    for document in documents {
        let id = id_of(&document.resource);
        if let Some(ty) = &id.r#type {
            add(ty, id.tenancy.unwrap_or_default());
        }
    }
    for ty in types {
        add(ty, tenancy.units_for(ty, session, catalog));
    }
    let in_namespaces: Vec<_> = scope.iter().filter(|(_, _, namespace)| !namespace.is_empty()).cloned().collect();
    for (ty, partition, _) in in_namespaces {
        scope.extend(namespaces.iter().map(|namespace| (ty.clone(), partition.clone(), namespace.clone())));
    }
    scope
}

/// Warns of documents that do not match the selector: a later prune would not find them.
pub(super) fn warn_of_unselected(documents: &[Document], selector: &LabelSelector, ui: &Ui) -> Result<(), CliError> {
    for document in documents {
        if !selects(selector, &document.resource)? {
            let name = placed_title(&id_of(&document.resource));
            ui.warn(&format!("{}: {name} does not match the selector, so it will never be pruned", document.place));
        }
    }
    Ok(())
}

/// Finds the resources, asks, and deletes. A resource that changed after it was shown stays, and is a failure.
pub(super) async fn prune(
    session: &Session,
    selector: &LabelSelector,
    scope: Scope,
    in_files: &BTreeSet<Key>,
    dry_run: bool,
    yes: bool,
    out: &Ui,
) -> Result<Exit, CliError> {
    let to_delete = find(session, selector, scope, in_files, out).await?;
    if to_delete.is_empty() {
        return Ok(Exit::Done);
    }
    if dry_run {
        describe(session, &to_delete).await?;
        return Ok(Exit::Done);
    }
    if !yes {
        for resource in &to_delete {
            out.note(&format!("  {}", placed_title(&id_of(resource))));
        }
        let these = if to_delete.len() == 1 {
            "this resource".to_owned()
        } else {
            format!("these {} resources", to_delete.len())
        };
        let asked = ui::confirm(&format!("Delete {these}, which the files do not have?"), "--yes");
        // The files are applied by now, so `Usage` would be wrong: it means that nothing was done.
        if !asked.map_err(|error| CliError { exit: Exit::Failed, ..error })? {
            ui::line("nothing was pruned")?;
            return Ok(Exit::Done);
        }
    }
    delete(session, to_delete, out).await
}

/// Finds the resources that match the selector and are not in the files, in the order of their deletion.
pub(super) async fn find(
    session: &Session,
    selector: &LabelSelector,
    scope: Scope,
    in_files: &BTreeSet<Key>,
    out: &Ui,
) -> Result<Vec<pb::Resource>, CliError> {
    let mut found = BTreeMap::new();
    for (ty, partition, namespace) in scope {
        let (query, units) = (QueryArgs::by(Some(selector.clone()), ""), pb::Tenancy { partition, namespace });
        let matching = query.search(session, &ty.to_pb(), units, "", out).await?.resources;
        let keyed = matching.into_iter().map(|resource| (Key::of(&id_of(&resource)), resource));
        found.extend(keyed.filter(|(key, _)| !in_files.contains(key)));
    }
    // The reverse of the order of writing: the deletion of an owner changes what it owns, and that of a namespace its
    // content.
    let levels = order::sort(found.into_values().collect(), |resource| resource);
    // A circle cannot be stored; if there were one, the server would decide.
    Ok(levels.circular.into_iter().chain(levels.sorted.into_iter().rev().flatten()).collect())
}

/// Prints the effects of the deletions.
pub(super) async fn describe(session: &Session, to_delete: &[pb::Resource]) -> Result<(), CliError> {
    for resource in to_delete {
        let id = id_of(resource);
        let how = deletion_plan::described(session, &id, "pruned").await?;
        ui::line(format!("{} {how}", placed_title(&id)))?;
    }
    Ok(())
}

/// Deletes the resources. One that changed after it was found stays, and is a failure.
pub(super) async fn delete(session: &Session, to_delete: Vec<pb::Resource>, out: &Ui) -> Result<Exit, CliError> {
    let mut exit = Exit::Done;
    for resource in to_delete {
        let id = id_of(&resource);
        let name = placed_title(&id);
        let request = pb::DeleteRequest { id: Some(id), version: resource.version };
        match session.call(&name, async { session.resources().delete(request).await }).await {
            Ok(_) => ui::line(format!("{name} pruned"))?,
            Err(error) if error.code == Some(tonic::Code::Aborted) => {
                let stays = CliError::failed(format!("{name}: it changed after it was shown, so it stays"));
                out.note(&format!("mortise: {}", stays.remedy("apply again")));
                exit = Exit::Failed;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(exit)
}
