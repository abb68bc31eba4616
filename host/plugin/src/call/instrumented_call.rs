//! A call of a hook or of a controller, from its admission to its end: the same is counted, timed and traced about both.

use std::time::Instant;

use tracing::{Instrument as _, Span, field::Empty};

use crate::{
    error::{HookError, HookFault},
    health::{metrics::HookMetrics, plugin_health::Pass},
    hook::Hook,
    plugin::Plugin,
};

/// A call of a hook from its admission to its end: what is counted, timed and traced about it.
pub(crate) struct InstrumentedCall<'a> {
    plugin: &'a Plugin,
    hook: Hook,
    metrics: &'a HookMetrics,
    pass: Pass<'a>,
    begun: Instant,
    span: Span,
}

impl<'a> InstrumentedCall<'a> {
    /// Begins, unless the hook is quarantined. The span costs one load of a static while nobody asked for spans.
    pub(crate) fn begin(plugin: &'a Plugin, hook: Hook) -> Result<Self, HookError> {
        let name = hook.name();
        let pass = plugin.health().admit(hook).map_err(|fault| plugin.fault(name, fault, None))?;
        let span = tracing::debug_span!(
            target: "mortise::span", "hook",
            plugin = plugin.name(), version = plugin.version(), hook = name, fuel = Empty, fault = Empty
        );
        Ok(Self { plugin, hook, metrics: plugin.metrics.hook(hook), pass, begun: Instant::now(), span })
    }

    /// Does the call's work, within its span, on the threads where the plugin's calls of this kind belong now. `work` makes
    /// the future where it is needed: moving one costs more than anything else here.
    pub(crate) async fn work<T, W, F>(&self, work: W) -> Result<T, HookError>
    where
        W: FnOnce() -> F,
        F: Future<Output = Result<T, HookError>> + Send + 'static,
        T: Send + 'static,
    {
        match self.plugin.aside(self.hook) {
            None => work().instrument(self.span.clone()).await,
            Some(threads) => {
                self.metrics.aside();
                let done = Box::pin(threads.run(work().instrument(self.span.clone()))).await;
                done.unwrap_or_else(|| {
                    let fault = HookFault::Host("the thread that ran it gave up; see the log".into());
                    Err(self.plugin.fault(self.hook.name(), fault, None))
                })
            }
        }
    }

    /// Counts how it ended. What the host did counts for nothing: the pass is dropped without an outcome.
    pub(crate) fn end<T>(self, outcome: Result<T, HookError>, fuel: u64) -> Result<T, HookError> {
        self.metrics.called(self.begun.elapsed(), fuel);
        self.span.record("fuel", fuel);
        match &outcome {
            Ok(_) => self.pass.succeeded(),
            Err(error) => {
                self.span.record("fault", error.fault.kind());
                if error.counts {
                    self.plugin.lower_priority(self.hook.name(), || error.fault.to_string());
                    self.pass.failed(&error.fault);
                }
            }
        }
        outcome
    }
}
