//! `queries`: queries by content, for reconcilers, within what is granted.

use mortise_resource::{
    Code,
    data::{SearchRequest, UpdateRequest},
    pb,
    types::Gvk,
};
use prost::Message;

use crate::{
    bindings::imports::mortise::plugin::queries::Host,
    host::{
        call_context::{Answer, Question},
        reconciler_host::Failure,
        resources::{may_read, may_write},
        state::State,
    },
};

impl Host for State {
    async fn search(&mut self, request: Vec<u8>) -> Answer<Vec<u8>> {
        const WHAT: &str = "queries.search";
        self.ask(WHAT, |question| async move {
            let request: SearchRequest = decoded(WHAT, &question, "SearchRequest", &request)?;
            may_read(&question.permit, &of(WHAT, "type", request.r#type.as_ref())?)?;
            let found = question.host.search(request).await?;
            found.resources.iter().for_each(|resource| question.note(resource));
            encoded(WHAT, &question, &found)
        })
        .await
    }

    async fn update(&mut self, request: Vec<u8>) -> Answer<Vec<u8>> {
        const WHAT: &str = "queries.update";
        self.ask(WHAT, |question| async move {
            let request: UpdateRequest = decoded(WHAT, &question, "UpdateRequest", &request)?;
            let resource = request.resource.clone().unwrap_or_default();
            let id = resource.id.clone().unwrap_or_default();
            may_write(&question.permit, &of(WHAT, "resource.id.type", id.r#type.as_ref())?)?;
            question.note(&resource);
            let answer = question.host.update(request).await?;
            answer.resource.iter().for_each(|resource| question.note(resource));
            encoded(WHAT, &question, &answer)
        })
        .await
    }
}

fn of(what: &str, field: &str, of: Option<&pb::Type>) -> Result<Gvk, Failure> {
    of.map(Gvk::from).ok_or_else(|| Failure::new(Code::InvalidArgument, format!("{what}: {field} is required")))
}

fn decoded<M: Message + Default>(what: &str, question: &Question, of: &str, bytes: &[u8]) -> Result<M, Failure> {
    question.bounded(what, bytes.len())?;
    M::decode(bytes)
        .map_err(|e| Failure::new(Code::InvalidArgument, format!("{what}: the request is no mortise.v1.{of}: {e}")))
}

fn encoded(what: &str, question: &Question, answer: &impl Message) -> Result<Vec<u8>, Failure> {
    question.bounded(what, answer.encoded_len())?;
    Ok(answer.encode_to_vec())
}
