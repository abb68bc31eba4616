//! The configuration of the running server, as the server service needs it. The program that starts the ports implements
//! it, since it knows the settings.

use mortise_resource::{
    Error,
    data::{ReloadResponse, SettingsResponse},
};

/// The configuration of the running server.
#[tonic::async_trait]
pub trait Configuration: Send + Sync {
    /// Reads the configuration and its files again, and applies what needs no restart. Reloads take turns.
    ///
    /// # Errors
    /// `FailedPrecondition`: the configuration is rejected, and nothing was changed.
    async fn reload(&self) -> Result<ReloadResponse, Error>;

    /// Describes the settings as they were last read, without the values of plugins' settings.
    ///
    /// # Errors
    /// `Internal`: they cannot be written as TOML.
    async fn settings(&self) -> Result<SettingsResponse, Error>;

    /// Returns the keys of changed settings that take effect with a restart, sorted.
    fn restart_needed(&self) -> Vec<String>;

    /// Returns the fault of the configuration as it was last read, if it was rejected.
    fn fault(&self) -> Option<String>;
}
