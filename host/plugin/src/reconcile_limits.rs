//! Resource limits of one reconcile. Every limit is finite; those not listed here are the hooks' ([`Limits`]).

use mortise_resource::manifest;

use crate::limits::Limits;

/// Limits of one call of a controller: a reconcile, a mapping, an initialisation: `[controllers]` in config.toml.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReconcileLimits {
    /// Instances of all controllers at once, warm ones included; 0 chooses by the machine.
    pub instances: u32,
    /// Work of one call, in wasmtime's fuel units.
    pub fuel: u64,
    /// Processor time of one call and its waits for host calls, milliseconds.
    pub deadline_ms: u64,
    /// Linear memory of one instance, bytes.
    pub memory_bytes: usize,
    /// Host calls of one call.
    pub host_calls: u32,
    /// Wall clock of one host call, milliseconds.
    pub host_call_ms: u64,
    /// Most bytes of the files of a granted directory together, if its grant sets no number of its own.
    pub directory_bytes: u64,
    /// Most files of a granted directory.
    pub directory_files: u64,
}

impl Default for ReconcileLimits {
    fn default() -> Self {
        Self {
            instances: 0,
            fuel: 1_000_000_000,
            deadline_ms: 30_000,
            memory_bytes: 64 << 20,
            host_calls: 10_000,
            host_call_ms: 5_000,
            directory_bytes: 64 << 20,
            directory_files: 10_000,
        }
    }
}

impl ReconcileLimits {
    /// All limits of a reconcile of a plugin with the limits `asked` in its manifest: these, and the hooks' for the
    /// rest. A manifest lowers the memory alone; fuel and time in a manifest concern requests.
    pub(crate) fn over(&self, hooks: &Limits, asked: &manifest::Limits) -> Limits {
        let base = Limits {
            fuel: self.fuel,
            deadline_ms: self.deadline_ms,
            memory_bytes: self.memory_bytes,
            host_calls: self.host_calls,
            ..hooks.clone()
        };
        base.with_controller_settings().lowered_to(&manifest::Limits {
            memory_bytes: asked.memory_bytes,
            fuel: 0,
            deadline_ms: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_lowers_memory_and_nothing_else() {
        let (ours, hooks) = (ReconcileLimits::default(), Limits::default());
        let asked = manifest::Limits { memory_bytes: 1 << 20, fuel: 1, deadline_ms: 1 };
        let limits = ours.over(&hooks, &asked);
        assert_eq!((limits.fuel, limits.deadline_ms, limits.host_calls), (1_000_000_000, 30_000, 10_000));
        assert_eq!(limits.memory_bytes, 1 << 20);
        assert_eq!(limits.memory_setting(), "limits.memory_bytes of the plugin's own manifest");
        let limits = ours.over(&hooks, &manifest::Limits::default());
        assert_eq!(limits.memory_bytes, 64 << 20);
        let settings =
            [limits.fuel_setting(), limits.deadline_setting(), limits.memory_setting(), limits.host_calls_setting()];
        let expected = ["fuel", "deadline_ms", "memory_bytes", "host_calls"].map(|name| format!("controllers.{name}"));
        assert_eq!(settings.map(str::to_owned), expected);
        assert_eq!(limits.reply_bytes, hooks.reply_bytes, "the hooks' where there is none here");
    }
}
