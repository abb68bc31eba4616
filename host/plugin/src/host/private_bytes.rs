//! `private-bytes`: data that the plugin keeps for one resource.

use mortise_resource::{Code, pb, types::Gvk};

use crate::{
    bindings::{imports::mortise::plugin::private_bytes::Host, types::IdBytes},
    failure::Failure,
    host::{
        call_context::HostCallResult,
        resources::{may_read, may_write, read_id},
        state::State,
    },
};

/// Most bytes that a plugin may keep for one resource.
pub const MAX_PRIVATE_BYTES: usize = 64 << 10;

impl Host for State {
    async fn get(&mut self, id: IdBytes) -> HostCallResult<Option<Vec<u8>>> {
        const WHAT: &str = "private-bytes.get";
        self.ask(WHAT, |question| async move {
            let (id, gvk) = id_with_uid(WHAT, &id)?;
            may_read(&question.permit, &gvk)?;
            question.host.private_bytes_get(id).await
        })
        .await
    }

    async fn set(&mut self, id: IdBytes, value: Vec<u8>) -> HostCallResult<()> {
        const WHAT: &str = "private-bytes.set";
        self.ask(WHAT, |question| async move {
            let (id, gvk) = id_with_uid(WHAT, &id)?;
            may_write(&question.permit, &gvk)?;
            if value.len() > MAX_PRIVATE_BYTES {
                let text = format!("{WHAT}: at most {MAX_PRIVATE_BYTES} bytes, got: {}; keep less", value.len());
                return Err(Failure::new(Code::ResourceExhausted, text));
            }
            question.host.private_bytes_set(id, value).await
        })
        .await
    }

    async fn remove(&mut self, id: IdBytes) -> HostCallResult<()> {
        const WHAT: &str = "private-bytes.remove";
        self.ask(WHAT, |question| async move {
            let (id, gvk) = id_with_uid(WHAT, &id)?;
            may_write(&question.permit, &gvk)?;
            question.host.private_bytes_remove(id).await
        })
        .await
    }
}

/// An id with a uid, and its type.
fn id_with_uid(what: &str, id: &[u8]) -> Result<(pb::Id, Gvk), Failure> {
    let (id, gvk) = read_id(what, "id", id)?;
    if id.uid.is_empty() {
        return Err(Failure::new(
            Code::InvalidArgument,
            format!("{what}: id.uid is required; read the resource first and use its id"),
        ));
    }
    Ok((id, gvk))
}
