//! Decodes and answers every call of the protocol.

use tonic::Request;

use super::{
    action,
    answer::{Answer, Faults, KnownType, answer, answer_with, session},
    core_form, deletion, describe,
    diagnostic::attribute_path,
    ephemeral::{self, Opened},
    functions, identity, import,
    inputs::{settings, upgrade},
    listing, moving,
    plan::{Before, Plan},
    read,
    taken::taken_name,
    token, validate,
    wire::{decode, decode_object, encode},
};
use crate::{
    proto::tfplugin6::{self as pb, provider_server::Provider},
    schema::{list_type, provider_type},
    state::{Pending, Private, hidden},
    value::Value,
};

/// The provider, for every connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProviderService;

/// A planned change.
enum Planned {
    Change(Box<Plan>, Option<Pending>),
    /// A deletion, with warnings.
    Destroy(Faults),
}

#[tonic::async_trait]
impl Provider for ProviderService {
    async fn get_metadata(&self, request: Request<pb::get_metadata::Request>) -> Answer<pb::get_metadata::Response> {
        answer(describe::metadata(&*session(&request)?).await)
    }

    async fn get_provider_schema(
        &self,
        request: Request<pb::get_provider_schema::Request>,
    ) -> Answer<pb::get_provider_schema::Response> {
        answer(describe::schemas(&*session(&request)?).await)
    }

    async fn validate_provider_config(
        &self,
        request: Request<pb::validate_provider_config::Request>,
    ) -> Answer<pb::validate_provider_config::Response> {
        answer_with(request, async |_, request| {
            let config = decode_object(request.config.as_ref(), &provider_type())?;
            Ok(pb::validate_provider_config::Response { diagnostics: validate::provider(&config) })
        })
        .await
    }

    async fn validate_resource_config(
        &self,
        request: Request<pb::validate_resource_config::Request>,
    ) -> Answer<pb::validate_resource_config::Response> {
        answer_with(request, async |session, request| {
            let known = KnownType::of(session, &request.type_name).await?;
            let schema = known.resource()?;
            let config = decode_object(request.config.as_ref(), &schema.to_type())?;
            let takes_write_only = request.client_capabilities.is_some_and(|core| core.write_only_attributes_allowed);
            let diagnostics = validate::resource(schema, &config, takes_write_only);
            Ok(pb::validate_resource_config::Response { diagnostics })
        })
        .await
    }

    async fn validate_data_resource_config(
        &self,
        request: Request<pb::validate_data_resource_config::Request>,
    ) -> Answer<pb::validate_data_resource_config::Response> {
        answer_with(request, async |session, request| {
            let known = KnownType::of(session, &request.type_name).await?;
            let kind = match request.type_name == known.schema.list_name() {
                true => list_type(),
                false => known.resource()?.data_source_type(),
            };
            let config = decode_object(request.config.as_ref(), &kind)?;
            let diagnostics = validate::data_source(&known.schema, &request.type_name, &config);
            Ok(pb::validate_data_resource_config::Response { diagnostics })
        })
        .await
    }

    async fn upgrade_resource_state(
        &self,
        request: Request<pb::upgrade_resource_state::Request>,
    ) -> Answer<pb::upgrade_resource_state::Response> {
        answer_with(request, async |session, request| {
            let known = KnownType::of(session, &request.type_name).await?;
            let state = upgrade(known.resource()?, request.raw_state.as_ref())?;
            session.add_managed(state.get("uid").as_str().unwrap_or_default());
            Ok(pb::upgrade_resource_state::Response { upgraded_state: encode(&state), diagnostics: Vec::new() })
        })
        .await
    }

    async fn configure_provider(
        &self,
        request: Request<pb::configure_provider::Request>,
    ) -> Answer<pb::configure_provider::Response> {
        answer_with(request, async |session, request| {
            let config = decode_object(request.config.as_ref(), &provider_type())?;
            let (settings, defaults) = settings(&config)?;
            session.configure(&settings, defaults).await?;
            Ok(pb::configure_provider::Response::default())
        })
        .await
    }

    async fn read_resource(&self, request: Request<pb::read_resource::Request>) -> Answer<pb::read_resource::Response> {
        let session = session(&request)?;
        let request = request.into_inner();
        let read = async {
            let known = KnownType::of(&session, &request.type_name).await?;
            let schema = known.resource()?;
            let prior = decode_object(request.current_state.as_ref(), &schema.to_type())?;
            let read = read::resource(schema, &*session.server().await?, &prior, &request.private).await?;
            let read = (hidden(schema, &read.0, &prior), read.1, read.2);
            Ok((identity::of_state(schema, &read.0), read))
        };
        answer(match read.await {
            Ok((new_identity, (state, private, diagnostics))) => {
                pb::read_resource::Response { new_state: encode(&state), diagnostics, private, new_identity }
            }
            Err(diagnostics) => pb::read_resource::Response {
                new_state: None,
                diagnostics,
                private: request.private.clone(),
                new_identity: request.current_identity.clone(),
            },
        })
    }

    async fn plan_resource_change(
        &self,
        request: Request<pb::plan_resource_change::Request>,
    ) -> Answer<pb::plan_resource_change::Response> {
        let session = session(&request)?;
        let request = request.into_inner();
        let planned = async {
            let known = KnownType::of(&session, &request.type_name).await?;
            let schema = known.resource()?;
            let kind = schema.to_type();
            let prior = decode(request.prior_state.as_ref(), &kind)?;
            let server = session.server().await?;
            if decode(request.proposed_new_state.as_ref(), &kind)?.is_null() {
                return Ok(Planned::Destroy(deletion::warnings(schema, &server, &prior).await?));
            }
            let config = decode_object(request.config.as_ref(), &kind)?;
            let pending = Private::pending(&request.prior_private).filter(|_| !prior.is_null());
            if prior.is_null()
                && let Some(taken) = taken_name(schema, &session, &server, &config).await
            {
                return Err(vec![taken]);
            }
            let before = Before { state: &prior, private: &request.prior_private, pending: pending.is_some() };
            let plan = core_form::plan_change(schema, &session, &server, before, &config).await?;
            Ok(Planned::Change(Box::new(plan), pending))
        };
        answer(match planned.await {
            Ok(Planned::Change(plan, pending)) => pb::plan_resource_change::Response {
                planned_state: encode(&plan.state),
                requires_replace: plan.replace.iter().map(|path| attribute_path(path)).collect(),
                planned_private: Private::write(&plan.divergences, pending.as_ref()),
                diagnostics: plan.diagnostics,
                planned_identity: request.prior_identity,
                ..Default::default()
            },
            Ok(Planned::Destroy(diagnostics)) => pb::plan_resource_change::Response {
                planned_state: encode(&Value::Null),
                planned_private: request.prior_private.clone(),
                diagnostics,
                ..Default::default()
            },
            Err(diagnostics) => pb::plan_resource_change::Response {
                planned_state: request.prior_state.clone(),
                diagnostics,
                ..Default::default()
            },
        })
    }

    async fn apply_resource_change(
        &self,
        request: Request<pb::apply_resource_change::Request>,
    ) -> Answer<pb::apply_resource_change::Response> {
        let session = session(&request)?;
        let request = request.into_inner();
        let applied = async {
            let known = KnownType::of(&session, &request.type_name).await?;
            let schema = known.resource()?;
            let kind = schema.to_type();
            let prior = decode(request.prior_state.as_ref(), &kind)?;
            let planned = decode(request.planned_state.as_ref(), &kind)?;
            let config = decode(request.config.as_ref(), &kind)?;
            let server = session.server().await?;
            let change = core_form::Change { prior: &prior, planned: &planned, config: &config };
            let applied = core_form::apply_change(schema, &session, &server, change, &request.planned_private).await;
            let made = applied.made.map(|(state, private)| {
                let identity = identity::of_state(schema, &state);
                (encode(&state), private, identity)
            });
            Ok((made, applied.diagnostics))
        };
        let (made, diagnostics) = applied.await.unwrap_or_else(|diagnostics| (None, diagnostics));
        // Without a new state core keeps the prior one; a failed creation left nothing.
        let kept = || (request.prior_state.clone(), request.planned_private.clone(), request.planned_identity.clone());
        let (new_state, private, new_identity) = made.unwrap_or_else(kept);
        let answered =
            pb::apply_resource_change::Response { new_state, private, diagnostics, new_identity, ..Default::default() };
        answer(answered)
    }

    async fn import_resource_state(
        &self,
        request: Request<pb::import_resource_state::Request>,
    ) -> Answer<pb::import_resource_state::Response> {
        answer_with(request, async |session, request| {
            let known = KnownType::of(session, &request.type_name).await?;
            let server = session.server().await?;
            let mut diagnostics = Vec::new();
            let schema = known.resource()?;
            let (state, private) = match &request.identity {
                Some(identity) if request.id.is_empty() => {
                    import::import_named(schema, &server, &identity::named(schema, identity)?).await?
                }
                _ => import::import_state(schema, &server, &request.id, &mut diagnostics).await?,
            };
            let imported = pb::import_resource_state::ImportedResource {
                type_name: request.type_name.clone(),
                identity: identity::of_state(schema, &state),
                state: encode(&state),
                private,
            };
            Ok(pb::import_resource_state::Response { imported_resources: vec![imported], diagnostics })
        })
        .await
    }

    async fn move_resource_state(
        &self,
        request: Request<pb::move_resource_state::Request>,
    ) -> Answer<pb::move_resource_state::Response> {
        answer_with(request, async |session, request| {
            let known = KnownType::of(session, &request.target_type_name).await?;
            let mut diagnostics = Vec::new();
            // The state only comes from another address of this provider.
            let (state, target_private) = if request.source_type_name == request.target_type_name {
                (upgrade(known.resource()?, request.source_state.as_ref())?, request.source_private.clone())
            } else {
                moving::move_state(&known.schema, &*session.server().await?, request, &mut diagnostics).await?
            };
            let (target_state, target_identity) = (encode(&state), identity::of_state(known.resource()?, &state));
            Ok(pb::move_resource_state::Response { target_state, target_private, diagnostics, target_identity })
        })
        .await
    }

    async fn read_data_source(
        &self,
        request: Request<pb::read_data_source::Request>,
    ) -> Answer<pb::read_data_source::Response> {
        answer_with(request, async |session, request| {
            let known = KnownType::of(session, &request.type_name).await?;
            let server = session.server().await?;
            let (state, diagnostics) = if request.type_name == known.schema.list_name() {
                let config = decode_object(request.config.as_ref(), &list_type())?;
                read::list(&known.schema, &server, &config).await?
            } else {
                let schema = known.resource()?;
                let config = decode_object(request.config.as_ref(), &schema.data_source_type())?;
                read::by_name(schema, &server, &config).await?
            };
            Ok(pb::read_data_source::Response { state: encode(&state), diagnostics })
        })
        .await
    }

    async fn get_resource_identity_schemas(
        &self,
        request: Request<pb::get_resource_identity_schemas::Request>,
    ) -> Answer<pb::get_resource_identity_schemas::Response> {
        answer_with(request, async |session, _| {
            let identity_schemas = identity::schemas(&*session.schema().await?);
            Ok(pb::get_resource_identity_schemas::Response { identity_schemas, diagnostics: Vec::new() })
        })
        .await
    }

    async fn upgrade_resource_identity(
        &self,
        request: Request<pb::upgrade_resource_identity::Request>,
    ) -> Answer<pb::upgrade_resource_identity::Response> {
        answer_with(request, async |session, request| {
            let known = KnownType::of(session, &request.type_name).await?;
            let upgraded_identity = Some(identity::upgrade(known.resource()?, request.raw_identity.as_ref())?);
            Ok(pb::upgrade_resource_identity::Response { upgraded_identity, diagnostics: Vec::new() })
        })
        .await
    }

    async fn validate_ephemeral_resource_config(
        &self,
        request: Request<pb::validate_ephemeral_resource_config::Request>,
    ) -> Answer<pb::validate_ephemeral_resource_config::Response> {
        answer_with(request, async |session, request| {
            let schema = session.schema().await?;
            let diagnostics = ephemeral::check(&schema, &request.type_name, request.config.as_ref())?;
            Ok(pb::validate_ephemeral_resource_config::Response { diagnostics })
        })
        .await
    }

    async fn open_ephemeral_resource(
        &self,
        request: Request<pb::open_ephemeral_resource::Request>,
    ) -> Answer<pb::open_ephemeral_resource::Response> {
        answer_with(request, async |session, request| {
            let (schema, server) = (session.schema().await?, session.server().await?);
            let opened = ephemeral::open(&schema, &server, &request.type_name, request.config.as_ref()).await?;
            let Opened { result, diagnostics, renewal } = opened;
            let (renew_at, private) = renewal.map(|renewal| (renewal.time, renewal.private)).unzip();
            Ok(pb::open_ephemeral_resource::Response { diagnostics, renew_at, result: encode(&result), private })
        })
        .await
    }

    // Core renews tokens alone: nothing else has a time for it.
    async fn renew_ephemeral_resource(
        &self,
        request: Request<pb::renew_ephemeral_resource::Request>,
    ) -> Answer<pb::renew_ephemeral_resource::Response> {
        answer_with(request, async |session, request| {
            let renewal = match &request.private {
                Some(private) => Some(token::renew(&*session.server().await?, private).await?),
                None => None,
            };
            let (renew_at, private) = renewal.map(|renewal| (renewal.time, renewal.private)).unzip();
            Ok(pb::renew_ephemeral_resource::Response { diagnostics: Vec::new(), renew_at, private })
        })
        .await
    }

    async fn close_ephemeral_resource(
        &self,
        request: Request<pb::close_ephemeral_resource::Request>,
    ) -> Answer<pb::close_ephemeral_resource::Response> {
        answer_with(request, async |session, request| {
            if let Some(private) = &request.private {
                token::close(&*session.server().await?, private).await?;
            }
            Ok(pb::close_ephemeral_resource::Response::default())
        })
        .await
    }

    type ListResourceStream = listing::Events;

    async fn list_resource(&self, request: Request<pb::list_resource::Request>) -> Answer<Self::ListResourceStream> {
        let session = session(&request)?;
        answer(listing::list(session, request.into_inner()))
    }

    async fn validate_list_resource_config(
        &self,
        request: Request<pb::validate_list_resource_config::Request>,
    ) -> Answer<pb::validate_list_resource_config::Response> {
        answer_with(request, async |session, request| {
            let known = KnownType::of(session, &request.type_name).await?;
            let diagnostics = listing::check(known.resource()?, request.config.as_ref())?;
            Ok(pb::validate_list_resource_config::Response { diagnostics })
        })
        .await
    }

    async fn validate_action_config(
        &self,
        request: Request<pb::validate_action_config::Request>,
    ) -> Answer<pb::validate_action_config::Response> {
        answer_with(request, async |session, request| {
            let action = action::named(&*session.schema().await?, &request.type_name)?;
            let diagnostics = action::check(action, request.config.as_ref())?;
            Ok(pb::validate_action_config::Response { diagnostics })
        })
        .await
    }

    async fn plan_action(&self, request: Request<pb::plan_action::Request>) -> Answer<pb::plan_action::Response> {
        answer_with(request, async |session, request| {
            let action = action::named(&*session.schema().await?, &request.action_type)?;
            action::plan(action, &*session.server().await?, request.config.as_ref()).await?;
            Ok(pb::plan_action::Response::default())
        })
        .await
    }

    type InvokeActionStream = action::Steps;

    async fn invoke_action(&self, request: Request<pb::invoke_action::Request>) -> Answer<Self::InvokeActionStream> {
        let session = session(&request)?;
        answer(action::invoke(session, request.into_inner()))
    }

    async fn get_functions(&self, request: Request<pb::get_functions::Request>) -> Answer<pb::get_functions::Response> {
        answer_with(request, async |session, _| {
            let functions = session.functions().await?.to_proto();
            Ok(pb::get_functions::Response { functions, diagnostics: Vec::new() })
        })
        .await
    }

    async fn call_function(&self, request: Request<pb::call_function::Request>) -> Answer<pb::call_function::Response> {
        let session = session(&request)?;
        let request = request.into_inner();
        answer(match functions::call(&session, &request.name, &request.arguments).await {
            Ok(result) => pb::call_function::Response { result: encode(&result), error: None },
            Err(error) => pb::call_function::Response { result: None, error: Some(error) },
        })
    }

    async fn stop_provider(&self, request: Request<pb::stop_provider::Request>) -> Answer<pb::stop_provider::Response> {
        session(&request)?.stop();
        answer(pb::stop_provider::Response::default())
    }
}
