//! The reload after SIGHUP and by `mortise reload`: settings, files of TLS and of the authority, and the file of the
//! audit log.
//!
//! A faulty configuration changes nothing. Files that do not fit together are refused by themselves, as after
//! any other change. The log and the caller get each change, and the settings that need a restart. Reloads take turns.

use std::sync::Arc;

use mortise_api::{AuthorityFiles, Configuration, TlsFiles, TlsReload};
use mortise_audit::AuditLog;
use mortise_plugin_manager::Manager;
use mortise_resource::{
    Code, Error,
    data::{ReloadResponse, SettingsResponse},
};
use tokio::sync::Mutex;

use crate::{
    in_force,
    settings::{LiveState, without_excerpt},
    signals::Signals,
    systemd,
};

/// Note above the settings of a server for development.
const DEV_NOTE: &str = "\
# The server was started by `mortise dev`: where these are defaults, it has a data directory and a plugin folder of its own,
# further bundled plugins, no tokens, no audit log, and a DNS port that may be missing.
";

/// The parts of a server that a reload concerns.
pub(crate) struct Reloader {
    pub(crate) manager: Manager,
    pub(crate) audit: Option<AuditLog>,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) authority: Option<AuthorityFiles>,
    pub(crate) state: LiveState,
    /// Held by a reload.
    pub(crate) turn: Mutex<()>,
}

impl Reloader {
    /// Reloads after each signal, for ever.
    pub(crate) async fn follow(self: Arc<Self>, signals: Signals) {
        loop {
            signals.reload().await;
            systemd::reloading();
            // The log has the outcome.
            let _ = self.reload_by("SIGHUP").await;
            systemd::reloaded();
        }
    }

    /// Reloads, and logs the outcome. `cause` begins the lines.
    async fn reload_by(&self, cause: &str) -> Result<ReloadResponse, Error> {
        let _turn = self.turn.lock().await;
        if let Err(fault) = self.manager.reload_settings().await {
            let rejected = "nothing was reloaded, since the configuration is rejected";
            tracing::error!("{cause}: {rejected}: {}", fault.what);
            let text = format!("{rejected}: {}", without_excerpt(&fault.what));
            return Err(Error::new(Code::FailedPrecondition, text));
        }
        let mut answer = ReloadResponse {
            changed: self.state.take_changes(),
            restart_needed: self.state.restart_needed(),
            ..ReloadResponse::default()
        };
        let mut refused = String::new();
        if let Some(audit) = &self.audit {
            audit.reopen();
            answer.files.push("the file of the audit log".to_owned());
        }
        if let Some(tls) = &self.tls {
            refused.extend(note(&mut answer, "the files of TLS", tls.reload().await));
        }
        if let Some(authority) = &self.authority {
            let outcome = authority.reload().await;
            refused.extend(note(&mut answer, "the files of the authority for identities", outcome));
        }
        let done: Vec<_> = ["settings"].into_iter().chain(answer.files.iter().map(String::as_str)).collect();
        tracing::info!("{cause}: reloaded {}{refused}", done.join(", "));
        Ok(answer)
    }
}

/// Adds the outcome of reading files again to the answer. Returns the part of the log's line about a refusal: the log has
/// the fault already.
fn note(answer: &mut ReloadResponse, files: &str, outcome: TlsReload) -> Option<String> {
    match outcome {
        TlsReload::Loaded => answer.files.push(files.to_owned()),
        TlsReload::Unchanged => answer.files.push(format!("{files}, which are the same")),
        TlsReload::Refused(fault) => {
            let refused = format!("{files} are refused, so those from before stay in service");
            answer.refused.push(format!("{refused}: {fault}"));
            return Some(format!("; {refused}"));
        }
    }
    None
}

#[async_trait::async_trait]
impl Configuration for Reloader {
    async fn reload(&self) -> Result<ReloadResponse, Error> {
        self.reload_by("a caller's reload").await
    }

    async fn settings(&self) -> Result<SettingsResponse, Error> {
        let (config, source) = (self.state.config(), self.state.source().clone());
        let file = source.file().map(|file| file.display().to_string()).unwrap_or_default();
        // The places of the keys are read from the file.
        let described = tokio::task::spawn_blocking(move || in_force::describe(&config, &source)).await;
        let text = described.map_err(|e| e.to_string()).and_then(|text| text.map_err(|e| e.to_string()));
        let text = text.map_err(|fault| Error::internal(format!("the settings cannot be shown: {fault}")))?;
        let head = if self.state.is_dev() { DEV_NOTE } else { "" };
        Ok(SettingsResponse { text: format!("{head}{text}"), file })
    }

    fn restart_needed(&self) -> Vec<String> {
        self.state.restart_needed()
    }

    fn fault(&self) -> Option<String> {
        self.state.fault()
    }
}
