//! `cache`: resources that the controller's watches have seen, within the plugin's grants.

use crate::{
    bindings::{
        imports::mortise::plugin::cache::{Host, Key},
        types::{ResourceBytes, TypeName},
    },
    failure::Failure,
    host::{
        call_context::HostCallResult,
        reconciler_host::CacheKey,
        resources::{ListReply, decoded, encoded, may_read, type_name},
        state::State,
    },
};

impl Host for State {
    async fn get(&mut self, kind: TypeName, index: String, key: Key) -> HostCallResult<Option<ResourceBytes>> {
        const WHAT: &str = "cache.get";
        self.ask(WHAT, |question| async move {
            let gvk = type_name(kind);
            may_read(&question.permit, &gvk)?;
            let found = question.host.cache_get(gvk.to_pb(), index, read_key(WHAT, key)?).await?;
            found.map(|resource| encoded(WHAT, &question, &resource)).transpose()
        })
        .await
    }

    async fn list(&mut self, kind: TypeName, index: String, key: Key) -> HostCallResult<Vec<ResourceBytes>> {
        const WHAT: &str = "cache.list";
        self.ask(WHAT, |question| async move {
            let gvk = type_name(kind);
            may_read(&question.permit, &gvk)?;
            let (key, mut reply) = (read_key(WHAT, key)?, ListReply::new(WHAT, &question));
            question.host.cache_list(gvk.to_pb(), index, key, &mut |resource| reply.push(resource)).await?;
            Ok(reply.resources)
        })
        .await
    }
}

pub(super) fn read_key(what: &str, key: Key) -> Result<CacheKey, Failure> {
    Ok(match key {
        Key::Id(bytes) => CacheKey::Id(decoded(what, "key", "ID", &bytes)?),
        Key::Value(value) => CacheKey::Value(value),
    })
}
