//! `probes`: checks that the host performs for a controller ([`crate::probes`]).

use mortise_resource::{Code, probes::Probes};

use crate::{
    bindings::{imports::mortise::plugin::probes::Host, types::IdBytes},
    failure::Failure,
    host::{
        call_context::HostCallResult,
        resources::{decoded, may_write, read_id},
        state::State,
    },
};

impl Host for State {
    async fn set(&mut self, of: IdBytes, probes: Vec<u8>) -> HostCallResult<()> {
        const WHAT: &str = "probes.set";
        let table = self.call_context.as_ref().map(|call_context| call_context.probes.clone());
        self.ask(WHAT, |question| async move {
            question.check_size(WHAT, probes.len())?;
            let (id, gvk) = read_id(WHAT, "of", &of)?;
            may_write(&question.permit, &gvk)?;
            let probes: Probes = decoded(WHAT, "probes", "Probes", &probes)?;
            let unavailable =
                || Failure::new(Code::FailedPrecondition, format!("{WHAT}: this host performs no probes"));
            let table = table.ok_or_else(unavailable)?;
            if probes.probes.is_empty() {
                table.end(&id);
                return Ok(());
            }
            let writer = question.host.probe_writer().ok_or_else(unavailable)?;
            table.set(id, probes, &question.permit, &writer)
        })
        .await
    }
}
