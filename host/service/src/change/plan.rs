//! Plan: the effect of a write, without the write.
//!
//! The first half of a write runs as in MutateAndValidate. Then the stored resource is compared, and the plugin's
//! `plan` is called. If the stored resource can become the new one, `validate` runs once more with it, as in the write.

use mortise_resource::{
    Code, EncodedResource, Error, FieldPath, PathStep,
    authorizer::Verb,
    data::{PlanRequest, PlanResponse, plan_response::Action},
    pb, resource_meta,
};
use mortise_store::StoreError;

use super::changes::Changes;
use crate::{
    call::{
        Caller,
        store_fault::{cas_failure, store_fault},
    },
    core::ids::{self, tenancy_of},
    registry::{Owner, Registry, ResourceType},
    rules::{
        ReadDecision, RequestHooks, admit,
        deletion_rules::{self, with_reserved_metadata},
        server_meta, upgrade,
    },
};

impl Changes {
    /// Plans a write.
    ///
    /// # Errors
    /// Those of [`crate::ResourceService::plan`].
    pub(crate) async fn plan(&self, caller: &Caller, request: PlanRequest) -> Result<PlanResponse, Error> {
        let registry = self.core.types();
        let (incoming, kind) = admit::shape(caller, &registry, request.resource)?;
        kind.check_plugin_present()?;
        let mut hooks = RequestHooks::new(kind.clone(), caller);
        let stored = match request.create {
            true => None,
            false => self.stored_for_plan(caller, &registry, &mut hooks, &incoming).await?,
        };
        let mut resource = incoming.clone();
        resource.meta = server_meta::proposed(incoming.meta.as_deref(), stored.as_ref());
        let (mut warnings, units) =
            admit::admit(&self.core, &mut hooks, Verb::Write, &kind, &mut resource, None).await?;
        admit::check_size(&self.core, &resource, stored.as_ref())?;
        if let Some(stored) = &stored {
            resource.metadata = with_reserved_metadata(&incoming, stored, &resource.metadata);
            if let (Some(id), Some(known)) = (&mut resource.id, &stored.id) {
                id.uid.clone_from(&known.uid);
            }
            resource.status.clone_from(&stored.status);
            deletion_rules::check(stored, &resource, units.marked)?;
        } else {
            units.check_unmarked(resource.id.as_ref().map(tenancy_of).unwrap_or(&pb::Tenancy::default()))?;
        }
        (resource.version, resource.generation) = (String::new(), String::new());

        let kept = match (&stored, kind.owner.plugin()) {
            (Some(stored), Some(plugin)) if kind.hooks.plan => {
                let id = stored.id.clone().unwrap_or_default();
                self.private_bytes.get(plugin.name(), &id).await.map_err(|e| store_fault("failed read", &e))?
            }
            _ => None,
        };
        let expected = hooks.plan(&resource, stored.as_ref(), kept).await?;
        let mut replace = Vec::new();
        if let Some(stored) = &stored {
            replace = fixed_by_host(&kind, &mut resource, stored);
            replace.extend(expected.replace);
            replace.dedup();
            if replace.is_empty() && !matches!(kind.owner, Owner::Host) {
                warnings = hooks.validate(&resource, Some(stored)).await?;
            }
        }
        warnings.extend(expected.warnings);
        hooks.release();
        let action = match &stored {
            None => Action::Create,
            Some(_) if !replace.is_empty() => Action::Replace,
            Some(stored) if is_same(stored, &resource) => Action::None,
            Some(_) => Action::Update,
        };
        Ok(PlanResponse {
            action: action.into(),
            resource: Some(resource),
            predicted: expected.predicted,
            prior: stored,
            replace: replace.iter().map(ToString::to_string).collect(),
            warnings,
        })
    }

    /// Reads the stored resource that a write would meet, in the type's own schema version.
    async fn stored_for_plan(
        &self,
        caller: &Caller,
        registry: &Registry,
        hooks: &mut RequestHooks,
        incoming: &pb::Resource,
    ) -> Result<Option<pb::Resource>, Error> {
        let sent = incoming.id.clone().unwrap_or_default();
        let id = pb::Id { uid: String::new(), ..sent.clone() };
        let reading = hooks.authorize_read(&id).await?;
        hooks.release();
        let stored = match self.core.backend.read(caller.consistency, &id).await {
            Ok(stored) => stored,
            Err(StoreError::NotFound) => return Ok(None),
            Err(StoreError::GroupVersionMismatch { stored, .. }) => stored.decode()?,
            Err(e) => return Err(store_fault("failed read", &e)),
        };
        let stored = upgrade::current(registry, hooks, stored).await?;
        if reading == ReadDecision::NeedsResource {
            hooks.authorize_read_of(&EncodedResource::encode(&stored)?).await?;
        }
        hooks.release();
        if !sent.uid.is_empty() && sent.uid != ids::uid_of(&stored) {
            return Err(Error::new(Code::FailedPrecondition, StoreError::WrongUid.to_string()));
        }
        if !incoming.version.is_empty() && incoming.version != stored.version {
            return Err(cas_failure());
        }
        Ok(Some(stored))
    }
}

/// Finds the changes that the host refuses: another owner, another value of an immutable field.
fn fixed_by_host(kind: &ResourceType, resource: &mut pb::Resource, stored: &pb::Resource) -> Vec<FieldPath> {
    if let (Some(given), Some(known)) = (&mut resource.owner, &stored.owner)
        && given.uid.is_empty()
    {
        given.uid.clone_from(&known.uid);
    }
    let owner = (resource.owner != stored.owner).then(|| FieldPath(vec![PathStep::Field("owner".into())]));
    let of_one_version = stored.id.as_ref().and_then(|id| id.r#type.as_ref()).is_some_and(|t| kind.gvk.matches(t));
    let bytes = |resource: &pb::Resource| resource.data.as_ref().map(|data| data.value.clone()).unwrap_or_default();
    let changed = match of_one_version {
        true => kind.schema.changed_immutable(&bytes(stored), &bytes(resource)),
        false => Vec::new(),
    };
    owner.into_iter().chain(changed).collect()
}

/// Whether a write would change only the values that every write renews.
fn is_same(stored: &pb::Resource, resource: &pb::Resource) -> bool {
    let type_of = |resource: &pb::Resource| resource.id.as_ref().and_then(|id| id.r#type.clone());
    stored.data == resource.data
        && stored.metadata == resource.metadata
        && resource_meta::is_same_client_part(stored.meta.as_deref(), resource.meta.as_deref())
        && type_of(stored) == type_of(resource)
}
