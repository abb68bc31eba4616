//! Counting, timing and answering of a guest's calls into the host; [`crate::host::call_context`] states the contract.

use std::time::Instant;

use mortise_resource::Code;
use tokio::time::timeout;

use crate::{
    failure::Failure,
    health::processor_time::worked,
    host::{
        abort_reason::AbortReason,
        call_context::{CallContext, HostCall, HostCallResult},
        state::State,
    },
};

impl State {
    /// Begins a host call that cannot fail.
    pub(crate) fn begin(&mut self, what: &'static str) -> wasmtime::Result<&CallContext> {
        self.count_host_call()?;
        self.call_context.as_ref().ok_or_else(|| AbortReason::OnlyReconcilers { what }.into())
    }

    /// Answers a host call that may wait, and may fail.
    pub(crate) async fn ask<T, F>(
        &mut self,
        what: &'static str,
        answer: impl FnOnce(HostCall) -> F + Send,
    ) -> HostCallResult<T>
    where
        F: Future<Output = Result<T, Failure>> + Send,
        T: Send,
    {
        self.count_host_call()?;
        let Some(call_context) = &mut self.call_context else {
            let text = format!("only a reconciler may call {what}; hooks depend on their input alone");
            return Ok(Err(Failure::new(Code::FailedPrecondition, text).into()));
        };
        let now = Instant::now();
        let (left, bound) = self.time.left();
        let within = call_context.host_call.min(left);
        let question = HostCall {
            host: call_context.host.clone(),
            permit: call_context.permit.clone(),
            limit: self.limits.reply_bytes,
            until: now + within,
            file_turns: call_context.file_turns.clone(),
            connect_turns: call_context.connect_turns.clone(),
            identities: call_context.identities.clone(),
            quota: call_context.quota,
            secrets: call_context.secrets.clone(),
        };
        let (answered, work) = worked(timeout(within, answer(question))).await;
        call_context.host_work += work;
        match answered {
            Ok(answer) => Ok(answer.map_err(Into::into)),
            Err(_) if left <= call_context.host_call => Err(AbortReason::Late(bound).into()),
            Err(_) => {
                let limit = call_context.host_call.as_millis();
                let text = format!("{what} did not answer within {limit} ms (limit controllers.host_call_ms)");
                Ok(Err(Failure::new(Code::DeadlineExceeded, text).into()))
            }
        }
    }
}
