//! The rules of tokens and policies: the words of a policy, and the permissions that a write would give away.
//!
//! A word that nothing knows is refused. A word that names nothing now, such as a type whose plugin is not loaded, is
//! warned of: it may come later. A writer may grant what it holds itself, or anything with the verb `escalate` on the
//! token or the policy.

use std::{any::Any, collections::BTreeSet, sync::Arc};

use mortise_acl::{Areas, GLOBAL_MANAGEMENT, GrantError, Identity, Policy};
use mortise_resource::{
    Diagnostic, Error, IdRef, Scope, Severity,
    authorizer::{Effect, Verb, denial_text},
    data, meta, name, pb,
    tenancy::{DEFAULT, WILDCARD},
    types::{self, Gvk},
};
use mortise_store::{Consistency, StoreError};
use prost::Message;

use super::{
    builtin_types::{decode, is_access, refusal},
    hooks::RequestHooks,
    tenancy::TenancyUnits,
};
use crate::{
    call::{Caller, store_fault::store_fault},
    core::Core,
    registry::{Registry, ResourceType},
};

/// Most places of a policy that are looked up.
const MAX_LOOKED_UP_PLACES: usize = 32;

/// Most tokens that a warning names.
const MAX_NAMED_TOKENS: usize = 10;

/// Returns the areas that rules may name: Consul's, and those that registered plugins ask about.
pub(crate) fn areas(registry: &Registry) -> Areas {
    let mut areas = Areas::default();
    areas.add(plugin_areas(registry));
    areas
}

/// Returns the areas that registered plugins ask about.
pub(crate) fn plugin_areas(registry: &Registry) -> impl Iterator<Item = &str> {
    let declared = registry.types().iter().flat_map(|of| {
        let permissions = [&of.permissions.read, &of.permissions.write, &of.permissions.list];
        permissions.into_iter().flatten().map(|permission| permission.area())
    });
    let missing = registry.missing_plugins().iter().map(|missing| &missing.manifest);
    let manifests = registry.plugins().iter().map(|plugin| plugin.manifest()).chain(missing);
    declared.chain(manifests.flat_map(|manifest| &manifest.areas).map(String::as_str))
}

/// Checks the words of a token or a policy. Returns warnings about words that name nothing now.
///
/// # Errors
/// `InvalidArgument`: a word has no meaning. Faults of the store.
pub(crate) async fn check_words(
    core: &Core,
    kind: &ResourceType,
    resource: &pb::Resource,
) -> Result<Vec<Diagnostic>, Error> {
    if !is_access(kind) {
        return Ok(Vec::new());
    }
    if kind.gvk == types::token() {
        return unknown_policies(core, &decode(resource)?).await;
    }
    check_policy_words(core, &decode(resource)?).await
}

/// Like [`check_words`], for a policy.
pub(crate) async fn check_policy_words(core: &Core, policy: &data::Policy) -> Result<Vec<Diagnostic>, Error> {
    let registry = core.types();
    Policy::read(policy, &areas(&registry)).map_err(refusal)?;
    let mut warnings = Vec::new();
    for (index, rule) in policy.type_rules.iter().enumerate() {
        let path = format!("data.type_rules[{index}]");
        warnings.extend(unregistered_types(&registry, rule).map(|text| warning(&path, text)));
        if rule.deny && !(rule.names.is_empty() && rule.name_prefixes.is_empty()) && rule.verbs == ["list"] {
            let text =
                "list is about all resources of a type, so this rule denies nothing; deny read, which hides them";
            warnings.push(warning(&path, text.to_owned()));
        }
    }
    warnings.extend(unknown_keys(&registry, &policy.rules).map(|text| warning("data.rules", text)));
    let places: BTreeSet<_> = policy.type_rules.iter().flat_map(places).collect();
    for (partition, namespace) in places.into_iter().take(MAX_LOOKED_UP_PLACES) {
        let tenancy = pb::Tenancy { partition, namespace };
        if let Err(missing) = TenancyUnits::find(core, &tenancy).await {
            warnings.push(warning(
                "data.type_rules",
                format!("{}: a rule fits nothing there", missing.for_reading().message),
            ));
        }
    }
    Ok(warnings)
}

fn warning(path: &str, summary: String) -> Diagnostic {
    Diagnostic { severity: Severity::Warning.into(), path: path.to_owned(), summary, detail: String::new() }
}

/// Returns warnings about policies that do not exist.
async fn unknown_policies(core: &Core, token: &data::Token) -> Result<Vec<Diagnostic>, Error> {
    let mut warnings = Vec::new();
    for (index, name) in token.policies.iter().enumerate().filter(|(_, name)| *name != GLOBAL_MANAGEMENT) {
        let id = pb::Id {
            name: name.clone(),
            r#type: Some(types::policy().to_pb()),
            tenancy: Some(pb::Tenancy::default()),
            ..pb::Id::default()
        };
        if stored(core, &id).await?.is_none() {
            let text = format!("policy {name} does not exist, and grants nothing");
            warnings.push(warning(&format!("data.policies[{index}]"), text));
        }
    }
    Ok(warnings)
}

async fn stored(core: &Core, id: &pb::Id) -> Result<Option<pb::Resource>, Error> {
    match core.backend.read(Consistency::Eventual, id).await {
        Ok(stored) => Ok(Some(stored)),
        Err(StoreError::NotFound) => Ok(None),
        Err(e) => Err(store_fault("failed read", &e)),
    }
}

/// Returns warnings about the types of a rule.
fn unregistered_types<'r>(registry: &'r Registry, rule: &'r data::TypeRule) -> impl Iterator<Item = String> + 'r {
    let is_placed = |units: &[String]| !units.is_empty() && !units.iter().any(|unit| unit == WILDCARD);
    let (in_partitions, in_namespaces) = (is_placed(&rule.partitions), is_placed(&rule.namespaces));
    rule.types.iter().filter(|text| *text != WILDCARD).filter_map(move |text| {
        let exact: Option<Gvk> = text.parse().ok();
        let fits = |of: &Gvk| match (text.split_once('/'), &exact) {
            (Some((group, kind)), _) => of.group == group && (kind == WILDCARD || of.kind == kind),
            (None, exact) => exact.as_ref() == Some(of),
        };
        let mut scopes = registry.types().iter().filter(|of| fits(&of.gvk)).map(|of| of.scope).peekable();
        if scopes.peek().is_none() {
            return Some(format!(
                "{text}: no such type is registered, so the rule fits nothing; `mortise types` lists them"
            ));
        }
        let has_place = |scope| match scope {
            Scope::Namespace => true,
            Scope::Partition => !in_namespaces,
            Scope::Cluster | Scope::Undefined => !in_namespaces && !in_partitions,
        };
        (!scopes.any(has_place))
            .then(|| format!("{text}: its resources are not in the places of the rule, which fits nothing"))
    })
}

/// Returns warnings about names of the area `key` that stand for resources, by a type that is not registered or a name
/// that no resource can have.
fn unknown_keys<'r>(registry: &'r Registry, rules: &'r str) -> impl Iterator<Item = String> + 'r {
    let names = mortise_acl::key_names(rules)
        .into_iter()
        .filter_map(|(name, is_prefix)| name.strip_prefix("resource/").map(|rest| (rest.to_owned(), is_prefix)));
    names.filter_map(move |(rest, is_prefix)| {
        let named = match (rest.split_once('/'), is_prefix) {
            (Some((kind, _)), _) => registry.types().iter().any(|of| of.gvk.to_string() == kind),
            (None, false) => registry.types().iter().any(|of| of.gvk.to_string() == rest),
            (None, true) => registry.types().iter().any(|of| of.gvk.to_string().starts_with(&rest)),
        };
        let fault = match rest.split_once('/') {
            _ if !named => "no such type is registered, so the rule fits nothing; `mortise types` lists them",
            // A prefix may end with a dash, where a name may not.
            Some((_, name)) if !(name::is_valid(name) || is_prefix && name::is_valid(&format!("{name}0"))) => {
                "no resource has such a name, so the rule fits nothing; use lower-case letters, digits and dashes"
            }
            _ => return None,
        };
        Some(format!("resource/{rest}: {fault}"))
    })
}

/// Returns the places that a rule names.
fn places(rule: &data::TypeRule) -> Vec<(String, String)> {
    let named = |units: &[String]| units.iter().filter(|unit| *unit != WILDCARD).cloned().collect::<Vec<_>>();
    let (partitions, namespaces) = (named(&rule.partitions), named(&rule.namespaces));
    // A namespace of every partition exists if it does in one of them, which is not looked up.
    let inside =
        |partition: &String| namespaces.iter().map(|namespace| (partition.clone(), namespace.clone())).collect();
    let of = |partition: &String| -> Vec<_> {
        if namespaces.is_empty() { vec![(partition.clone(), String::new())] } else { inside(partition) }
    };
    partitions
        .iter()
        .flat_map(of)
        .filter(|(partition, namespace)| partition != DEFAULT || namespace != DEFAULT)
        .collect()
}

/// Whether a caller is bound by rules: access control is on, and the caller is not the host.
fn is_bound(core: &Core, caller: &Caller) -> bool {
    core.access().is_some() && !caller.authorizer.allows_all()
}

/// Checks that a caller may give away what a token or a policy grants. `prior` is the stored resource, which is read if
/// it is not known.
///
/// # Errors
/// `PermissionDenied`. `InvalidArgument`: the secret is that of another token. Faults of the store.
pub(crate) async fn check_grant(
    core: &Core,
    caller: &Caller,
    kind: &ResourceType,
    resource: &pb::Resource,
    prior: Option<&pb::Resource>,
) -> Result<(), Error> {
    if !is_access(kind) || !is_bound(core, caller) {
        return Ok(());
    }
    check_secret(core, kind, resource)?;
    let found = if prior.is_none() { same_name(core, resource).await? } else { None };
    let prior = prior.or(found.as_ref());
    check_change(core, caller, kind, prior, Some(resource))?;
    // A marked policy goes with its last finalizer.
    match prior.filter(|prior| meta::is_marked(&prior.metadata) || meta::is_marked(&resource.metadata)) {
        Some(prior) => check_deletion(core, caller, kind, prior),
        _ => Ok(()),
    }
}

/// Refuses a token with the secret of another one, which would take the secret from both.
fn check_secret(core: &Core, kind: &ResourceType, resource: &pb::Resource) -> Result<(), Error> {
    let Some(access) = core.access().filter(|_| kind.gvk == types::token()) else { return Ok(()) };
    let accessor = resource.id.as_ref().map(|id| id.name.as_str()).unwrap_or_default();
    if !access.takes_secret(accessor, &decode(resource)?) {
        return Ok(());
    }
    let fault = "another token has this secret, which would then hold for neither; make a new one";
    Err(Error::invalid(format!("data.secret_sha256: {fault}")).with_violation("data.secret_sha256", fault))
}

/// Reads the stored resource with the name of another one.
async fn same_name(core: &Core, resource: &pb::Resource) -> Result<Option<pb::Resource>, Error> {
    match &resource.id {
        Some(id) => stored(core, &pb::Id { uid: String::new(), ..id.clone() }).await,
        None => Ok(None),
    }
}

/// Whether a resource stays when its owners go: a policy may deny something, and a cascade has no caller with
/// permissions that could be compared with what the deletion opens. Policies of earlier releases may have owners.
pub(crate) fn outlives_owners(id: &pb::Id) -> bool {
    id.r#type.as_ref().is_some_and(|resource_type| types::policy().matches(resource_type))
}

/// Refuses an owner or owner reference of a policy, unless the stored policy has it.
///
/// # Errors
/// `InvalidArgument`. Faults of the store.
pub(crate) async fn check_unowned(
    core: &Core,
    kind: &ResourceType,
    resource: &pb::Resource,
    prior: Option<&pb::Resource>,
) -> Result<(), Error> {
    let references = |resource: &pb::Resource| resource.meta.clone().unwrap_or_default().owner_references;
    if kind.gvk != types::policy() || (resource.owner.is_none() && references(resource).is_empty()) {
        return Ok(());
    }
    let found = if prior.is_none() { same_name(core, resource).await? } else { None };
    let prior = prior.or(found.as_ref());
    let known = prior.map(references).unwrap_or_default();
    let path = match resource.owner.is_some() && prior.is_none_or(|prior| prior.owner.is_none()) {
        true => "owner",
        false if references(resource).iter().any(|owner| !known.contains(owner)) => "meta.owner_references",
        false => return Ok(()),
    };
    let fault = "a policy has no owner, since a cascade would open what its rules deny; leave it out";
    Err(Error::invalid(format!("resource.{path}: {fault}")).with_violation(path, fault))
}

/// Checks that a caller may take away what a stored policy denies.
///
/// # Errors
/// `PermissionDenied`.
pub(crate) fn check_deletion(
    core: &Core,
    caller: &Caller,
    kind: &ResourceType,
    stored: &pb::Resource,
) -> Result<(), Error> {
    if kind.gvk == types::policy() { check_change(core, caller, kind, Some(stored), None) } else { Ok(()) }
}

fn check_change(
    core: &Core,
    caller: &Caller,
    kind: &ResourceType,
    before: Option<&pb::Resource>,
    now: Option<&pb::Resource>,
) -> Result<(), Error> {
    let Some(access) = core.access().filter(|_| is_bound(core, caller)) else { return Ok(()) };
    let id = now.or(before).and_then(|resource| resource.id.as_ref()).map(IdRef::from).unwrap_or_default();
    if caller.authorizer.effect(Verb::Escalate, id, Some(id.name)) == Effect::Allow {
        return Ok(());
    }
    let any: &dyn Any = &*caller.authorizer;
    let outcome = match any.downcast_ref::<Identity>() {
        None => Err(GrantError::NotHeld("tokens and policies are written by users alone".to_owned())),
        Some(holder) if kind.gvk == types::token() => match now {
            Some(now) => access.check_token(holder, read(before).as_ref(), &decode(now)?),
            None => Ok(()),
        },
        Some(holder) => {
            let now: Option<data::Policy> = now.map(decode).transpose()?;
            access.check_policy(holder, id.name, read(before).as_ref(), now.as_ref())
        }
    };
    outcome.map_err(|fault| {
        let permission = format!("{}:{}", kind.gvk, Verb::Escalate.name());
        Error::denied(format!("{}: {fault}", denial_text(caller.authorizer.caller(), &permission, id.name)))
    })
}

/// Reads the data of a stored resource; `None` also if it cannot be read.
fn read<M: Message + Default>(resource: Option<&pb::Resource>) -> Option<M> {
    resource.and_then(|resource| decode(resource).ok())
}

/// Returns a warning about the callers that a deleted policy belonged to.
pub(crate) async fn users_of_policy(
    core: &Core,
    caller: &Caller,
    kind: &Arc<ResourceType>,
    name: &str,
) -> Vec<Diagnostic> {
    let Some(access) = core.access().filter(|_| kind.gvk == types::policy()) else { return Vec::new() };
    let tokens = access.tokens_with(name);
    let mut users = access.settings_with(name);
    if !tokens.is_empty() {
        let registry = core.types();
        let mut shown = Vec::new();
        if let Ok(of_token) = registry.resolve_type(&types::token()) {
            let mut hooks = RequestHooks::new(of_token.clone(), caller);
            for token in tokens.iter().take(MAX_NAMED_TOKENS) {
                let id = pb::Id { name: token.clone(), r#type: Some(types::token().to_pb()), ..pb::Id::default() };
                if hooks.authorize_read(&id).await.is_ok() {
                    shown.push(token.as_str());
                }
            }
        }
        let more = if shown.len() < tokens.len() { ", among others" } else { "" };
        let named = if shown.is_empty() { String::new() } else { format!(" ({}{more})", shown.join(", ")) };
        let noun = if tokens.len() == 1 { "token" } else { "tokens" };
        users.push(format!("{} {noun}{named}", tokens.len()));
    }
    if users.is_empty() {
        return Vec::new();
    }
    let text = format!("still named by {}: its rules, denying ones too, no longer apply there", users.join(" and "));
    vec![warning("", text)]
}
