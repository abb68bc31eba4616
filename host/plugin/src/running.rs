//! A call of a hook or of a controller, from its admission to its end: the same is counted, timed and traced about both.

use std::time::Instant;

use tracing::{Span, field::Empty};

use crate::{error::HookError, health::Pass, hook::Hook, meter::HookMeter, plugin::Plugin};

/// A call of a hook from its admission to its end: what is counted, timed and traced about it.
pub(crate) struct Running<'a> {
    plugin: &'a Plugin,
    hook: &'static str,
    pub(crate) meter: &'a HookMeter,
    pass: Pass<'a>,
    begun: Instant,
    pub(crate) span: Span,
}

impl<'a> Running<'a> {
    /// Begins, unless the hook is quarantined. The span costs one load of a static while nobody asked for spans.
    pub(crate) fn begin(plugin: &'a Plugin, hook: Hook) -> Result<Self, HookError> {
        let name = hook.name();
        let pass = plugin.health().admit(hook).map_err(|fault| plugin.fault(name, fault, None))?;
        let span = tracing::debug_span!(
            target: "mortise::span", "hook",
            plugin = plugin.name(), version = plugin.version(), hook = name, fuel = Empty, fault = Empty
        );
        Ok(Self { plugin, hook: name, meter: plugin.meter.hook(hook), pass, begun: Instant::now(), span })
    }

    /// Counts how it ended. What the host did counts for nothing: the pass is dropped without an outcome.
    pub(crate) fn end<T>(self, outcome: Result<T, HookError>, fuel: u64) -> Result<T, HookError> {
        self.meter.called(self.begun.elapsed(), fuel);
        self.span.record("fuel", fuel);
        match &outcome {
            Ok(_) => self.pass.succeeded(),
            Err(error) => {
                self.span.record("fault", error.fault.kind());
                if error.counts {
                    self.plugin.set_aside(self.hook, || error.fault.to_string());
                    self.pass.failed(&error.fault);
                }
            }
        }
        outcome
    }
}
