//! `cache-pages`: the controller's cache in pages, within the plugin's grants.

use mortise_resource::{Code, pb};

use crate::{
    bindings::{
        imports::mortise::plugin::{
            cache::Key,
            cache_pages::{Host, Page},
        },
        types::{Tenancy, TypeName},
    },
    host::{
        cache::read_key,
        call_context::HostCallResult,
        resources::{ListReply, may_read, type_name},
        state::State,
    },
};

/// Most resources of a page.
const MAX_PAGE: usize = 10_000;

impl Host for State {
    async fn list(
        &mut self,
        kind: TypeName,
        within: Tenancy,
        index: String,
        key: Key,
        from: String,
        before: String,
        limit: u32,
    ) -> HostCallResult<Page> {
        const WHAT: &str = "cache-pages.list";
        self.ask(WHAT, |question| async move {
            let gvk = type_name(kind);
            may_read(&question.permit, &gvk)?;
            let key = read_key(WHAT, key)?;
            let Tenancy { partition, namespace } = within;
            let tenancy = pb::Tenancy { partition, namespace };
            let most = match limit {
                0 => MAX_PAGE,
                limit => usize::try_from(limit).unwrap_or(MAX_PAGE).min(MAX_PAGE),
            };
            let names = (from, before);
            let found = question.host.cache_page(gvk.to_pb(), tenancy, (index, key), names, most + 1).await?;
            let mut reply = ListReply::new(WHAT, &question);
            let mut more = found.len() > most;
            for resource in found.iter().take(most) {
                match reply.push(resource) {
                    Ok(()) => {}
                    // The page is full: the rest is for the next one.
                    Err(failure) if failure.is(Code::ResourceExhausted) && !reply.resources.is_empty() => {
                        more = true;
                        break;
                    }
                    Err(failure) => return Err(failure),
                }
            }
            Ok(Page { resources: reply.resources, more })
        })
        .await
    }
}
