//! `lookup`: searches from `mutate`, `validate` and `plan`, within the plugin's grants.
//!
//! # Contract
//! A hook holds an instance, and others wait for it; so everything that its search needs is available at once, or the
//! search fails. A failure caused by the request is an answer to the guest. Any other failure ends the hook: its author
//! cannot tell it from a refusal, and the caller of the request is not to blame.

use mortise_resource::{Code, data::SearchRequest};
use tokio::time::{Instant, timeout_at};

use crate::{
    bindings::imports::mortise::plugin::lookup::Host,
    error::HookFault,
    failure::Failure,
    grants::Permit,
    health::{call_time::Bound, processor_time::worked},
    hook::Hook,
    host::{
        abort_reason::AbortReason,
        call_context::HostCallResult,
        lookup_host::Lookup,
        queries::{decoded, encoded, of, search},
        resources::may_read,
        state::State,
    },
};

const SEARCH: &str = "lookup.search";

impl Host for State {
    async fn search(&mut self, request: Vec<u8>) -> HostCallResult<Vec<u8>> {
        if self.call_context.is_some() {
            return search(self, SEARCH, request).await;
        }
        self.count_host_call()?;
        let may_search = Hook::named(self.hook).is_some_and(Hook::may_search);
        let Some(Lookup { host, permit }) = self.lookup.clone().filter(|_| may_search) else {
            let text = format!("{SEARCH} is for mutate, validate, plan and reconcilers; {} has no search", self.hook);
            return Ok(Err(Failure::new(Code::FailedPrecondition, text).into()));
        };
        let limit = self.limits.reply_bytes;
        let request = match readable(&permit, limit, &request) {
            Ok(request) => request,
            Err(failure) => return Ok(Err(failure.into())),
        };
        let searching = timeout_at(Instant::from_std(self.time.until), host.search(&self.plugin, request));
        let (found, work) = worked(searching).await;
        self.host_work += work;
        match found {
            Ok(Ok(found)) => {
                let mut secrets = self.secrets.lock();
                found.resources.iter().for_each(|resource| host.note_secrets(resource, &mut secrets));
                drop(secrets);
                Ok(encoded(SEARCH, limit, &found).map_err(Into::into))
            }
            Ok(Err(error)) if is_request_fault(error.code) => Ok(Err(Failure::from(error).into())),
            Ok(Err(error)) => Err(wasmtime::Error::new(HookFault::Search { code: error.code, what: error.message })),
            Err(_) => Err(AbortReason::Late(Bound::Delay).into()),
        }
    }
}

/// Decodes a search, and checks that the plugin may read its type.
fn readable(permit: &Permit, limit: usize, request: &[u8]) -> Result<SearchRequest, Failure> {
    let request: SearchRequest = decoded(SEARCH, limit, "SearchRequest", request)?;
    may_read(permit, &of(SEARCH, "type", request.r#type.as_ref())?)?;
    Ok(request)
}

fn is_request_fault(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument
            | Code::NotFound
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::Unimplemented
    )
}
