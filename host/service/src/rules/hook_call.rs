//! The call of a request into its type's plugin. Most reads, and most events of watches, call no hook: until the first
//! one there is nothing to make.

use std::sync::Arc;

use mortise_plugin_host::Call;
use mortise_resource::pb;

use crate::{
    call::{Caller, RuledCaller},
    registry::{Owner, ResourceType},
};

/// The call of a request, begun by its first hook.
#[derive(Default)]
pub(super) struct HookCall(Option<BegunCall>);

struct BegunCall {
    call: Call,
    /// Caller that answers the hook's questions.
    ruled: Arc<RuledCaller>,
}

impl HookCall {
    /// Returns the call, for the next hook; `None` if the type has no plugin. `allows` says whether a rule by type and
    /// place allows the request.
    pub(super) fn begun(&mut self, kind: &ResourceType, caller: &Caller, allows: bool) -> Option<&mut Call> {
        let Owner::Plugin(plugin) = &kind.owner else { return None };
        let begun = self.0.get_or_insert_with(|| {
            let ruled = Arc::new(RuledCaller::new(caller.authorizer.clone(), allows));
            let call = Call::new(plugin.clone(), ruled.clone()).for_caller(caller.number());
            BegunCall { call: if caller.hook_of.is_some() { call.without_waiting() } else { call }, ruled }
        });
        begun.ruled.set(allows);
        Some(&mut begun.call)
    }

    /// Returns the call as [`HookCall::begun`] does, for a hook about `resource` that may share an instance with other
    /// requests of the caller in the same tenancy.
    pub(super) fn begun_about(
        &mut self,
        kind: &ResourceType,
        caller: &Caller,
        allows: bool,
        resource: &pb::Resource,
    ) -> Option<&mut Call> {
        let call = self.begun(kind, caller, allows)?;
        call.share_within(|| {
            let tenancy = resource.id.as_ref().and_then(|id| id.tenancy.clone());
            caller.class(Some(tenancy.unwrap_or_default()))
        });
        Some(call)
    }

    /// Returns the call, if a hook was called.
    pub(super) fn if_begun(&mut self) -> Option<&mut Call> {
        self.0.as_mut().map(|begun| &mut begun.call)
    }
}
