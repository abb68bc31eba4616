//! BatchGet: several resources by their ids, of any types.

use mortise_query::Schema;
use mortise_resource::{
    Code, Error,
    data::{BatchGetRequest, BatchGetResponse},
    pb, types,
};

use crate::{
    call::{Call, Caller, Method},
    core::ids::type_of,
    query::{project, shown},
    rules::read_checked,
    service::ResourceService,
};

/// Ids of one request.
const MAX_IDS: usize = 1_000;
/// Bytes of the resources of one answer.
const ANSWER_BYTES: usize = 16 << 20;

impl ResourceService {
    /// Reads each id once; the answer names the missing ones.
    ///
    /// # Errors
    /// Those of Read except `NotFound`, for any of them. `InvalidArgument`: too many ids, a path of the mask.
    /// `ResourceExhausted`: the resources are too large together.
    pub async fn batch_get(&self, caller: &Caller, request: BatchGetRequest) -> Result<BatchGetResponse, Error> {
        let mut call = Call::begin(&self.core, caller, Method::BatchGet).await?;
        call.about(request.ids.first());
        let answer = self.batch_got(caller, request).await;
        call.end(answer).await
    }

    async fn batch_got(&self, caller: &Caller, request: BatchGetRequest) -> Result<BatchGetResponse, Error> {
        caller.check_at_least(&self.core).await?;
        if request.ids.len() > MAX_IDS {
            let count = request.ids.len();
            return Err(Error::invalid(format!("ids: {count} are too many; ask for {MAX_IDS} at most")));
        }
        let _share = self.lists.bytes_for(caller, ANSWER_BYTES).await?;
        let registry = self.core.types();
        let mut answer = BatchGetResponse::default();
        let (mut seen, mut bytes): (Vec<pb::Id>, usize) = (Vec::new(), 0);
        for id in request.ids {
            if seen.contains(&id) {
                continue;
            }
            seen.push(id.clone());
            match read_checked(&self.core, caller, pb::ReadRequest { id: Some(id.clone()) }).await {
                Ok(resource) => {
                    bytes += resource.bytes().len();
                    if bytes > ANSWER_BYTES {
                        return Err(Error::new(
                            Code::ResourceExhausted,
                            format!(
                                "the resources are larger than {ANSWER_BYTES} bytes together; ask for fewer at once"
                            ),
                        ));
                    }
                    let kind = registry.resolve(&type_of(&id))?;
                    let schema = Schema::new(Some(kind.schema.message().clone()));
                    let mask = shown(kind, &schema, request.view, request.field_mask.as_ref())?;
                    answer.resources.push(project(&mask, resource.decode()?)?);
                }
                Err(error) if error.code == Code::NotFound => answer.missing.push(id),
                Err(error) => return Err(error.context(&types::describe(&id))),
            }
        }
        Ok(answer)
    }
}
