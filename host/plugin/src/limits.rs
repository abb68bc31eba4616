//! Resource limits of plugins. Every limit is finite by default; the effective one is the smaller of the host's and the
//! plugin's own.

use std::time::Duration;

use mortise_resource::manifest;

use crate::grants::GrantedLimits;

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
    /// Requests that one instance serves at most, where instances are reused.
    pub reuses: u32,
    /// Idle instances of one plugin, where instances are reused.
    pub idle_instances: usize,
    /// Linear memory of the idle instances of one plugin, bytes.
    pub idle_bytes: usize,
    /// Time after which an idle instance is dropped, milliseconds.
    pub idle_ms: u64,
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
    /// Whether the plugin asks for more than it has.
    asks_fuel: bool,
    asks_deadline: bool,
    asks_memory: bool,
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
            tables: 64,
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
            reuses: 128,
            idle_instances: 16,
            idle_bytes: 64 << 20,
            idle_ms: 60_000,
            code_cache_bytes: 1 << 30,
            own: LoweredLimits::default(),
        }
    }
}

impl Limits {
    /// The limits of one plugin's hooks: what it asks for, where that is less than these limits or granted.
    ///
    /// # Errors
    /// The most memory that can be granted on this machine, bytes, if it is less than what is granted and asked for.
    pub(crate) fn for_plugin(
        &self,
        asked: &manifest::Limits,
        granted: &GrantedLimits,
        most_memory: u64,
    ) -> Result<Self, u64> {
        let host =
            manifest::Limits { memory_bytes: self.memory_bytes as u64, fuel: self.fuel, deadline_ms: self.deadline_ms };
        let raised = granted.over(&host, asked);
        if raised.memory_bytes > most_memory.max(host.memory_bytes) {
            return Err(most_memory);
        }
        let base = Self {
            memory_bytes: usize::try_from(raised.memory_bytes).unwrap_or(self.memory_bytes),
            fuel: raised.fuel,
            deadline_ms: raised.deadline_ms,
            ..self.clone()
        };
        let mut limits = base.lowered_to(asked);
        let own = &mut limits.own;
        (own.asks_fuel, own.asks_deadline, own.asks_memory) = (
            asked.fuel > raised.fuel,
            asked.deadline_ms > raised.deadline_ms,
            asked.memory_bytes > raised.memory_bytes,
        );
        own.fuel |= raised.fuel > host.fuel && !own.asks_fuel;
        own.deadline |= raised.deadline_ms > host.deadline_ms && !own.asks_deadline;
        own.memory |= raised.memory_bytes > host.memory_bytes && !own.asks_memory;
        Ok(limits)
    }

    /// Limits of these that the plugin asks to be higher, as `limits.fuel 100`, in a plugin's own terms.
    pub(crate) fn missing(&self, asked: &manifest::Limits) -> impl Iterator<Item = String> {
        let all = [
            (self.own.asks_memory, "memory_bytes", asked.memory_bytes),
            (self.own.asks_fuel, "fuel", asked.fuel),
            (self.own.asks_deadline, "deadline_ms", asked.deadline_ms),
        ];
        all.into_iter().filter(|(asks, ..)| *asks).map(|(_, name, amount)| format!("limits.{name} {amount}"))
    }

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
            ..self.own
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
            LoweredLimits { asks_fuel: true, .. } => {
                "grants.limits.fuel of the plugin, which asks for more than sandbox.fuel"
            }
            LoweredLimits { controllers: true, .. } => "controllers.fuel",
            _ => "sandbox.fuel",
        }
    }

    /// Setting or field that set the limit of time.
    pub(crate) fn deadline_setting(&self) -> &'static str {
        match self.own {
            LoweredLimits { deadline: true, .. } => "limits.deadline_ms of the plugin's own manifest",
            LoweredLimits { asks_deadline: true, .. } => {
                "grants.limits.deadline_ms of the plugin, which asks for more than sandbox.deadline_ms"
            }
            LoweredLimits { controllers: true, .. } => "controllers.deadline_ms",
            _ => "sandbox.deadline_ms",
        }
    }

    /// Setting or field that set the limit of memory.
    pub(crate) fn memory_setting(&self) -> &'static str {
        match self.own {
            LoweredLimits { memory: true, .. } => "limits.memory_bytes of the plugin's own manifest",
            LoweredLimits { asks_memory: true, .. } => {
                "grants.limits.memory_bytes of the plugin, which asks for more than sandbox.memory_bytes"
            }
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
    use crate::units::{Millis, Size};

    #[test]
    fn a_limit_is_raised_as_far_as_it_is_asked_for_and_granted() {
        let host = Limits::default();
        let asked = manifest::Limits { memory_bytes: 48 << 20, fuel: 200_000_000, deadline_ms: 1_000 };
        let granted = GrantedLimits { memory_bytes: Some(Size(64 << 20)), fuel: Some(100_000_000), deadline_ms: None };
        let limits = host.for_plugin(&asked, &granted, 64 << 20).unwrap();
        assert_eq!((limits.memory_bytes, limits.fuel, limits.deadline_ms), (48 << 20, 100_000_000, 200));
        assert_eq!(limits.memory_setting(), "limits.memory_bytes of the plugin's own manifest");
        assert_eq!(limits.fuel_setting(), "grants.limits.fuel of the plugin, which asks for more than sandbox.fuel");
        assert_eq!(
            limits.deadline_setting(),
            "grants.limits.deadline_ms of the plugin, which asks for more than sandbox.deadline_ms"
        );
        assert_eq!(limits.missing(&asked).collect::<Vec<_>>(), ["limits.fuel 200000000", "limits.deadline_ms 1000"]);
        assert_eq!(host.for_plugin(&asked, &granted, 32 << 20), Err(32 << 20), "more than a memory may have");

        // Nothing is raised that is not asked for, and less stays less.
        let modest = manifest::Limits { memory_bytes: 1 << 20, fuel: 0, deadline_ms: 0 };
        let granted = GrantedLimits { deadline_ms: Some(Millis(9_000)), ..granted };
        let limits = host.for_plugin(&modest, &granted, 64 << 20).unwrap();
        assert_eq!((limits.memory_bytes, limits.fuel, limits.deadline_ms), (1 << 20, host.fuel, 200));
        assert_eq!(limits.fuel_setting(), "sandbox.fuel");
    }

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
