//! Resource limits of plugins. Every limit is finite by default; the effective one is the smaller of the host's and the
//! plugin's own.

use std::time::Duration;

use mortise_resource::manifest;

/// Limits of one request to a plugin, of the plugin as a whole, and of all plugins together. `[sandbox]` in config.toml
/// sets some; the others are fixed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Instances of all plugins at once; 0 chooses by the machine: 128, or 32 with less than 1 GiB of memory.
    pub instances: u32,
    /// Work of all hooks of one request, in wasmtime's fuel units: about one for each instruction.
    pub fuel: u64,
    /// Processor time of all hooks of one request, milliseconds.
    pub deadline_ms: u64,
    /// Processor time of `describe`, which runs once when a plugin is loaded, milliseconds.
    pub describe_deadline_ms: u64,
    /// Time beyond its own for which a busy machine may hold a call up, the wait of a request for an instance included,
    /// milliseconds. A call that takes longer fails, which is not the plugin's fault.
    pub max_delay_ms: u64,
    /// Linear memory of one instance, bytes; a multiple of 64 KiB.
    pub memory_bytes: usize,
    /// Elements of one table.
    pub table_elements: usize,
    /// Core instances in one instance of a component (adapters count).
    pub core_instances: usize,
    /// Tables in one instance of a component.
    pub tables: usize,
    /// Linear memories in one instance of a component.
    pub memories: usize,
    /// Live handles to host resources.
    pub handles: usize,
    /// Most bytes of one reply, or of the arguments of one host call.
    pub reply_bytes: usize,
    /// Host calls of one request.
    pub host_calls: u32,
    /// Log text of one request, bytes; the rest is dropped and counted.
    pub log_bytes: usize,
    /// Requests of one plugin that run at once; the others wait, within the bound on their whole time.
    pub concurrency: usize,
    /// Time for which a plugin's calls run on threads of low priority after a call that faulted or took more than a
    /// millisecond or two of processor time, milliseconds; 0 never lowers the priority.
    pub low_priority_ms: u64,
    /// Size of a component's file, bytes.
    pub component_bytes: usize,
    /// Settings of one plugin, bytes of JSON.
    pub settings_bytes: usize,
    /// Cached decisions of authorize hooks of one plugin; 0 asks the plugin each time.
    pub remembered_decisions: usize,
    /// Cores that compile a plugin at once; 0 chooses half of the machine's, at least one.
    pub compile_threads: usize,
    /// Compiled code kept in `cache_dir`, bytes; the least recently used goes first, and 0 keeps none.
    pub code_cache_bytes: u64,
    /// The limits that the plugin lowered for itself. Not a setting.
    pub own: LoweredLimits,
}

/// The limits that a plugin lowered for itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoweredLimits {
    fuel: bool,
    deadline: bool,
    memory: bool,
    /// Whether the other limits are those of controllers, which have a section of their own.
    controllers: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            instances: 0,
            fuel: 50_000_000,
            deadline_ms: 200,
            describe_deadline_ms: 1_000,
            max_delay_ms: 10_000,
            memory_bytes: 32 << 20,
            table_elements: 10_000,
            core_instances: 64,
            tables: 8,
            memories: 2,
            handles: 1_000,
            reply_bytes: 4 << 20,
            host_calls: 10_000,
            log_bytes: 16 << 10,
            concurrency: 16,
            low_priority_ms: 60_000,
            component_bytes: 32 << 20,
            settings_bytes: 64 << 10,
            remembered_decisions: 16_384,
            compile_threads: 0,
            code_cache_bytes: 1 << 30,
            own: LoweredLimits::default(),
        }
    }
}

impl Limits {
    /// These limits, lowered to those in the plugin's manifest. A plugin cannot raise one.
    #[must_use]
    pub fn lowered_to(&self, asked: &manifest::Limits) -> Self {
        let lower = |host: u64, plugin: u64| if plugin == 0 { host } else { host.min(plugin) };
        let memory = lower(self.memory_bytes as u64, asked.memory_bytes);
        let mut lowered = Self {
            fuel: lower(self.fuel, asked.fuel),
            deadline_ms: lower(self.deadline_ms, asked.deadline_ms),
            memory_bytes: usize::try_from(memory).unwrap_or(self.memory_bytes),
            ..self.clone()
        };
        lowered.own = LoweredLimits {
            fuel: lowered.fuel < self.fuel,
            deadline: lowered.deadline_ms < self.deadline_ms,
            memory: lowered.memory_bytes < self.memory_bytes,
            controllers: self.own.controllers,
        };
        lowered
    }

    /// These limits, with the names of the settings for controllers.
    #[must_use]
    pub(crate) fn with_controller_settings(mut self) -> Self {
        self.own.controllers = true;
        self
    }

    /// Setting or field of the manifest that set the limit of fuel, for errors: raising another one would not help.
    pub(crate) fn fuel_setting(&self) -> &'static str {
        match self.own {
            LoweredLimits { fuel: true, .. } => "limits.fuel of the plugin's own manifest",
            LoweredLimits { controllers: true, .. } => "controllers.fuel",
            _ => "sandbox.fuel",
        }
    }

    /// Setting or field that set the limit of time.
    pub(crate) fn deadline_setting(&self) -> &'static str {
        match self.own {
            LoweredLimits { deadline: true, .. } => "limits.deadline_ms of the plugin's own manifest",
            LoweredLimits { controllers: true, .. } => "controllers.deadline_ms",
            _ => "sandbox.deadline_ms",
        }
    }

    /// Setting or field that set the limit of memory.
    pub(crate) fn memory_setting(&self) -> &'static str {
        match self.own {
            LoweredLimits { memory: true, .. } => "limits.memory_bytes of the plugin's own manifest",
            LoweredLimits { controllers: true, .. } => "controllers.memory_bytes",
            _ => "sandbox.memory_bytes",
        }
    }

    /// Setting or field that set the limit on host calls.
    pub(crate) fn host_calls_setting(&self) -> &'static str {
        if self.own.controllers { "controllers.host_calls" } else { "fixed for hooks" }
    }

    /// Own time of one request: processor time, and for a controller's call its waits for the host.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        Duration::from_millis(self.deadline_ms)
    }

    /// Processor time of `describe`.
    #[must_use]
    pub fn describe_deadline(&self) -> Duration {
        Duration::from_millis(self.describe_deadline_ms)
    }

    /// Longest time for which a busy machine may hold a call up.
    #[must_use]
    pub fn max_delay(&self) -> Duration {
        Duration::from_millis(self.max_delay_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_lowers_but_never_raises() {
        let host = Limits::default();
        let asked = manifest::Limits { memory_bytes: 1 << 20, fuel: u64::MAX, deadline_ms: 0 };
        let effective = host.lowered_to(&asked);
        assert_eq!(effective.memory_bytes, 1 << 20);
        assert_eq!(effective.fuel, host.fuel);
        assert_eq!(effective.deadline_ms, host.deadline_ms);
        assert_eq!(effective.memory_setting(), "limits.memory_bytes of the plugin's own manifest");
        assert_eq!(effective.fuel_setting(), "sandbox.fuel");
        assert_eq!(effective.deadline_setting(), "sandbox.deadline_ms");
    }
}
