//! A call of a hook or of a controller, from its admission to its end: both are counted, timed and traced alike.

use std::time::Instant;

use tracing::{Instrument as _, Span, field::Empty};

use crate::{
    engine::low_priority::LowPriorityThreads,
    error::{HookError, HookFault},
    health::{breaker::CallerId, metrics::HookMetrics, plugin_health::CallPermit, reporter::Reporter},
    hook::Hook,
};

/// A call of a hook from its admission to its end, with its counters, timer and span.
pub(crate) struct InstrumentedCall<'a> {
    reporter: &'a Reporter,
    /// Threads for the call if the plugin has low priority.
    threads: &'a LowPriorityThreads,
    hook: Hook,
    metrics: &'a HookMetrics,
    pass: CallPermit<'a>,
    begun: Instant,
    span: Span,
}

impl<'a> InstrumentedCall<'a> {
    /// Begins a call by `caller` with this input, unless the hook is quarantined. The span costs one load of a static
    /// while no subscriber takes spans.
    pub(crate) fn begin(
        reporter: &'a Reporter,
        threads: &'a LowPriorityThreads,
        hook: Hook,
        caller: CallerId,
        input: impl FnOnce() -> u64,
    ) -> Result<Self, HookError> {
        let name = hook.name();
        let pass = reporter.health.admit(hook, caller, input).map_err(|fault| reporter.fault(name, fault, None))?;
        let span = tracing::debug_span!(
            target: "mortise::span", "hook",
            plugin = &*reporter.plugin, version = &*reporter.version, hook = name, fuel = Empty, fault = Empty
        );
        Ok(Self { reporter, threads, hook, metrics: reporter.metrics.hook(hook), pass, begun: Instant::now(), span })
    }

    /// Runs the call within its span, on the threads that the plugin's priority selects. `work` makes the future where
    /// it is needed, since moving one costs more than anything else here.
    pub(crate) async fn work<T, W, F>(&self, work: W) -> Result<T, HookError>
    where
        W: FnOnce() -> F,
        F: Future<Output = Result<T, HookError>> + Send + 'static,
        T: Send + 'static,
    {
        if !self.reporter.has_low_priority(self.hook) {
            return work().instrument(self.span.clone()).await;
        }
        self.metrics.low_priority();
        let done = Box::pin(self.threads.run(work().instrument(self.span.clone()))).await;
        done.unwrap_or_else(|| {
            let fault = HookFault::Host("its thread panicked; see the log".into());
            Err(self.reporter.fault(self.hook.name(), fault, None))
        })
    }

    /// Counts the outcome. Faults of the host do not count: the pass is dropped without an outcome.
    pub(crate) fn end<T>(self, outcome: Result<T, HookError>, fuel: u64) -> Result<T, HookError> {
        self.metrics.record_call(self.begun.elapsed(), fuel);
        self.span.record("fuel", fuel);
        match &outcome {
            Ok(_) => self.pass.succeeded(),
            Err(error) => {
                self.span.record("fault", error.fault.kind());
                if error.counts {
                    self.reporter.lower_priority(self.hook, || error.fault.to_string());
                    self.pass.failed(&error.fault);
                }
            }
        }
        outcome
    }
}
