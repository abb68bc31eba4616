//! Reads: of a resource with a state, of a resource by its name, of lists.

use mortise_resource::{
    Scope,
    data::{PlanDeleteResponse, delete_step::Action},
    meta, pb,
    types::{describe, gvk},
};

use super::{
    diagnostic::{error, error_at, warning},
    pending::take_over,
    session::Server,
};
use crate::{
    proto::tfplugin6::Diagnostic,
    schema::{ProviderSchema, ResourceSchema},
    state::{Private, data_source_state, known_id, list_entry, resource_id, state, tenancy_of},
    value::{Step, Value},
};

/// Most resources in the list of a data source.
const MAX_LISTED_RESOURCES: usize = 100_000;
/// Most effects of a deletion in a warning.
const MAX_SHOWN_EFFECTS: usize = 50;

/// The current state, and its private data; null for a deleted resource. A pending resource has the state that a dry
/// run predicts.
pub(crate) async fn resource(
    schema: &ResourceSchema,
    server: &Server,
    prior: &Value,
    private: &[u8],
) -> Result<(Value, Vec<u8>), Vec<Diagnostic>> {
    let found = server.read(known_id(schema, prior)).await?;
    let pending = Private::pending(private);
    let (found, kept) = match (found, &pending) {
        (Some(found), None) => (found, private.to_vec()),
        // The pending change happened in another way.
        (Some(found), Some(_)) => (found, Private::write(&Private::read(private, schema), None)),
        // The import or move, and later the plan, show the warnings.
        (None, Some(pending)) => match take_over(pending, schema, server, prior, true, &mut Vec::new()).await? {
            Some(expected) => (expected, private.to_vec()),
            None => return Ok((Value::Null, private.to_vec())),
        },
        (None, None) => return Ok((Value::Null, private.to_vec())),
    };
    Ok((state(schema, &found, prior, &Private::read(private, schema))?, kept))
}

/// Warnings of the finalizers that hold up the deletion of a resource, and of its effects on others, if it has any.
pub(crate) async fn deletion_warnings(
    schema: &ResourceSchema,
    server: &Server,
    prior: &Value,
) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    let Some(found) = server.read(known_id(schema, prior)).await? else { return Ok(Vec::new()) };
    let held = meta::finalizers(&found.metadata).into_iter().collect::<Vec<_>>().join(", ");
    let mut warnings = Vec::new();
    if !held.is_empty() {
        warnings.push(warning(format!("the deletion waits for finalizers: {held}")));
    }
    let id = found.id.unwrap_or_default();
    // A deletion that cannot be planned says why when it is done.
    if let Ok(plan) = server.client.plan_delete(id.clone()).await {
        warnings.extend(effects(&id, &plan));
    }
    Ok(warnings)
}

/// A warning of the effects of a deletion on other resources.
fn effects(id: &pb::Id, plan: &PlanDeleteResponse) -> Option<Diagnostic> {
    let others = plan.steps.iter().filter(|step| step.id.as_ref().is_some_and(|other| other.uid != id.uid));
    let mut lines: Vec<String> = others
        .map(|step| {
            let effect = match step.action() {
                Action::Delete | Action::DeleteLater => "is deleted, too",
                Action::Mark => "is marked for deletion",
                Action::Unset | Action::UnsetLater => "loses a reference",
                Action::ReleaseLater => "loses an owner",
                Action::Block => "blocks the deletion",
                Action::Hang => "is to be deleted, and waits",
                Action::Unspecified => "changes",
            };
            format!("{} {effect}", describe(&step.id.clone().unwrap_or_default()))
        })
        .collect();
    let count = lines.len();
    lines.truncate(MAX_SHOWN_EFFECTS);
    lines.extend((count > MAX_SHOWN_EFFECTS).then(|| format!("{} more", count - MAX_SHOWN_EFFECTS)));
    lines.extend(plan.is_cut.then(|| format!("and more: {}", plan.cut)));
    lines.extend((plan.hidden > 0).then(|| format!("{} resources that the token may not read", plan.hidden)));
    let summary = format!("the deletion of {} affects other resources", describe(id));
    (!lines.is_empty()).then(|| Diagnostic { detail: lines.join("\n"), ..warning(summary) })
}

/// Reads a resource by its name, for a data source.
pub(crate) async fn by_name(
    schema: &ResourceSchema,
    server: &Server,
    config: &Value,
) -> Result<Value, Vec<Diagnostic>> {
    let id = resource_id(schema, config, &server.defaults);
    match server.read(id.clone()).await? {
        Some(found) => Ok(data_source_state(schema, &found)?),
        None => {
            let path = [Step::Attribute("name".to_owned())];
            Err(vec![error_at(&path, format!("there is no {} named {:?}", gvk(&schema.kind), id.name))])
        }
    }
}

/// Lists resources of a type.
pub(crate) async fn list(schema: &ProviderSchema, server: &Server, config: &Value) -> Result<Value, Vec<Diagnostic>> {
    let wanted = config.get("type").as_str().unwrap_or_default();
    let named = |schema: &&ResourceSchema| {
        gvk(&schema.kind) == wanted
            || format!("{}.{}", schema.kind.group, schema.kind.kind) == wanted
            || schema.name == wanted
    };
    let path = [Step::Attribute("type".to_owned())];
    let listed = schema.resources().find(named);
    let listed = listed.ok_or_else(|| {
        vec![error_at(&path, format!("the server has no type {wanted:?}; `mortise types` lists them"))]
    })?;
    let mut tenancy = tenancy_of(listed.scope, config, &server.defaults);
    if listed.scope == Scope::Namespace && tenancy.namespace.is_empty() && tenancy.partition == "*" {
        "*".clone_into(&mut tenancy.namespace);
    }
    let request = pb::ListRequest {
        r#type: Some(listed.kind.clone()),
        tenancy: Some(tenancy),
        name_prefix: config.get("name_prefix").as_str().unwrap_or_default().to_owned(),
    };
    let mut found = server.client.list(request).await.map_err(|status| server.faults("listing", &status))?;
    if let Value::Map(wanted) = config.get("metadata") {
        found.retain(|resource| {
            wanted.iter().all(|(key, value)| resource.metadata.get(key).map(String::as_str) == value.as_str())
        });
    }
    if found.len() > MAX_LISTED_RESOURCES {
        let summary = format!(
            "there are {} resources, and a list has at most {MAX_LISTED_RESOURCES}; narrow it with name_prefix",
            found.len()
        );
        return Err(vec![error(summary, "")]);
    }
    let entries = found.iter().map(|resource| list_entry(listed, resource)).collect::<Result<_, _>>()?;
    let Value::Map(mut parts) = config.clone() else { return Ok(config.clone()) };
    parts.insert("resources".to_owned(), Value::List(entries));
    Ok(Value::Map(parts))
}
