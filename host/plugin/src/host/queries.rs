//! `queries`: queries by content, for reconcilers, within the plugin's grants.

use mortise_resource::{
    Code,
    data::{SearchRequest, UpdateRequest},
    pb,
    types::Gvk,
};
use prost::Message;

use crate::{
    bindings::imports::mortise::plugin::queries::Host,
    failure::Failure,
    host::{
        call_context::{HostCall, HostCallResult, check_bytes},
        resources::{may_read, may_write},
        state::State,
    },
};

impl Host for State {
    async fn search(&mut self, request: Vec<u8>) -> HostCallResult<Vec<u8>> {
        search(self, "queries.search", request).await
    }

    async fn update(&mut self, request: Vec<u8>) -> HostCallResult<Vec<u8>> {
        const WHAT: &str = "queries.update";
        self.ask(WHAT, |question| async move {
            let request: UpdateRequest = decoded(WHAT, question.limit, "UpdateRequest", &request)?;
            let resource = request.resource.clone().unwrap_or_default();
            let id = resource.id.clone().unwrap_or_default();
            may_write(&question.permit, &of(WHAT, "resource.id.type", id.r#type.as_ref())?)?;
            question.record_secrets(&resource);
            let answer = question.host.update(request).await?;
            answer.resource.iter().for_each(|resource| question.record_secrets(resource));
            encoded(WHAT, question.limit, &answer)
        })
        .await
    }
}

/// Answers a search of a reconciler, for either import that has one.
pub(super) async fn search(state: &mut State, what: &'static str, request: Vec<u8>) -> HostCallResult<Vec<u8>> {
    let answer = |question: HostCall| async move {
        let request: SearchRequest = decoded(what, question.limit, "SearchRequest", &request)?;
        may_read(&question.permit, &of(what, "type", request.r#type.as_ref())?)?;
        let found = question.host.search(request).await?;
        found.resources.iter().for_each(|resource| question.record_secrets(resource));
        encoded(what, question.limit, &found)
    };
    state.ask(what, answer).await
}

pub(super) fn of(what: &str, field: &str, resource_type: Option<&pb::Type>) -> Result<Gvk, Failure> {
    resource_type
        .map(Gvk::from)
        .ok_or_else(|| Failure::new(Code::InvalidArgument, format!("{what}: {field} is required")))
}

pub(super) fn decoded<M: Message + Default>(
    what: &str,
    limit: usize,
    message_name: &str,
    bytes: &[u8],
) -> Result<M, Failure> {
    check_bytes(what, bytes.len(), limit)?;
    M::decode(bytes).map_err(|e| {
        Failure::new(Code::InvalidArgument, format!("{what}: the request is not a mortise.v1.{message_name}: {e}"))
    })
}

pub(super) fn encoded(what: &str, limit: usize, answer: &impl Message) -> Result<Vec<u8>, Failure> {
    check_bytes(what, answer.encoded_len(), limit)?;
    Ok(answer.encode_to_vec())
}
