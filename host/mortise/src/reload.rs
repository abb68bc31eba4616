//! The reload after SIGHUP: settings, files of TLS and of the authority, and the file of the audit log.
//!
//! A faulty configuration changes nothing. Files that do not fit together are refused by themselves, as after
//! any other change. The log names each change, and the settings that need a restart.

use mortise_api::{AuthorityFiles, TlsFiles, TlsReload};
use mortise_audit::AuditLog;
use mortise_plugin_manager::Manager;

use crate::{signals::Signals, systemd};

/// The parts of a server that a reload concerns.
pub(crate) struct Reloader {
    pub(crate) manager: Manager,
    pub(crate) audit: Option<AuditLog>,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) authority: Option<AuthorityFiles>,
}

impl Reloader {
    /// Reloads after each signal, for ever.
    pub(crate) async fn follow(self, signals: Signals) {
        loop {
            signals.reload().await;
            systemd::reloading();
            self.reload().await;
            systemd::reloaded();
        }
    }

    async fn reload(&self) {
        if let Err(fault) = self.manager.reload_settings().await {
            tracing::error!("SIGHUP: nothing was reloaded, since the configuration is rejected: {}", fault.what);
            return;
        }
        let (mut done, mut refused) = (vec!["settings"], String::new());
        if let Some(audit) = &self.audit {
            audit.reopen();
            done.push("the file of the audit log");
        }
        if let Some(tls) = &self.tls {
            match tls.reload().await {
                TlsReload::Loaded => done.push("the files of TLS"),
                TlsReload::Unchanged => done.push("the files of TLS, which are the same"),
                TlsReload::Refused => {
                    refused.push_str("; the files of TLS are refused, so those from before stay in service");
                }
            }
        }
        if let Some(authority) = &self.authority {
            match authority.reload().await {
                TlsReload::Loaded => done.push("the files of the authority for identities"),
                TlsReload::Unchanged => done.push("the files of the authority for identities, which are the same"),
                TlsReload::Refused => {
                    refused.push_str("; the files of the authority for identities are refused, ");
                    refused.push_str("so those from before stay in service");
                }
            }
        }
        tracing::info!("SIGHUP: reloaded {}{refused}", done.join(", "));
    }
}
