//! Checks beyond the range of a single setting: settings that need each other, and names.

use std::path::Path;

use mortise_api::ClientCerts;

use super::{
    error::SettingError,
    plugin, region,
    table::{Config, Dns, Identity, Plugins, Tls},
};
use crate::bundled;

/// Longest zone of a workload, bytes, as the plugin `catalog` has it.
const MAX_WORKLOAD_ZONE_BYTES: usize = 63;

impl Config {
    /// Checks all settings. The text of a fault begins with the key, by which its origin is found.
    pub(crate) fn check(&self) -> Result<(), SettingError> {
        self.faults().into_iter().next().map_or(Ok(()), Err)
    }

    /// Returns the faults of all settings, at most one for each table whose settings need each other.
    pub(crate) fn faults(&self) -> Vec<SettingError> {
        let mut found = Vec::new();
        let known = bundled::ALL.map(|(name, _)| name).join(", ");
        let unbundled = self.plugins.bundled.iter().filter(|name| bundled::find(name).is_none());
        found.extend(unbundled.map(|name| SettingError::NotBundled { name: name.clone(), known: known.clone() }));
        found.extend(self.plugins.check_trust().err());
        found.extend(self.tls.check().err());
        found.extend(self.identity.check().err());
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let unnamed = self.http.allowed_hosts.iter().filter(|name| name.is_empty() || !name.chars().all(is_name));
        found.extend(unnamed.map(|name| SettingError::NotAHostName { text: name.clone() }));
        let wrong = self.http.allowed_origins.iter().filter(|origin| !is_origin(origin));
        found.extend(wrong.map(|origin| SettingError::NotAnOrigin { text: origin.clone() }));
        let (zone, short) = (&self.destination.zone, &self.dns.short_zone);
        for (key, zone) in [("destination.zone", zone), ("dns.short_zone", short)] {
            let is_none = key == "dns.short_zone" && zone.is_empty();
            if !is_none && !is_zone(zone) {
                found.push(SettingError::NotAZone { key, text: zone.clone() });
            }
        }
        if zone == short {
            found.push(SettingError::SameZone { text: zone.clone() });
        }
        found.extend(self.dns.check().err());
        found.extend(self.store.check().err());
        found.extend(self.backup.check().err());
        found.extend(region::faults(self));
        found.extend(self.log.filter().err());
        found.extend(plugin::faults(&self.plugin));
        found
    }
}

/// Whether a text is the origin of a web page, as browsers send it: scheme, host, and a port if it is not the usual
/// one.
fn is_origin(text: &str) -> bool {
    let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    authority.is_some_and(|authority| !authority.is_empty() && authority.chars().all(is_part))
}

/// Whether a text is a DNS name in lower case, 200 bytes at most, so that labels fit in front.
fn is_zone(zone: &str) -> bool {
    let is_label = |label: &str| {
        let is_part = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(is_part)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    zone.len() <= 200 && zone.split('.').all(is_label)
}

impl Config {
    /// Refuses an authority for identities without tokens: it would certify every name for everyone. `has_tokens` is
    /// `acl.enabled`, which `mortise dev` takes only from a given setting.
    pub(crate) fn check_authority(&self, has_tokens: bool) -> Result<(), SettingError> {
        match self.identity.cert_file.as_os_str().is_empty() || has_tokens {
            true => Ok(()),
            false => Err(SettingError::AuthorityWithoutTokens),
        }
    }

    /// Refuses ports that other machines reach without TLS or without tokens, unless `allow_insecure` is set.
    /// `has_tokens` is `acl.enabled`, which `mortise dev` takes only from a given setting.
    pub(crate) fn check_exposure(&self, has_tokens: bool) -> Result<(), SettingError> {
        let missing = match (self.tls.cert_file.as_os_str().is_empty(), has_tokens) {
            (false, true) => return Ok(()),
            (true, true) => "TLS (tls.cert_file and tls.key_file; `mortise tls init` makes them)",
            (false, false) => "tokens (acl.enabled)",
            (true, false) => "tokens (acl.enabled) and TLS (tls.cert_file and tls.key_file)",
        };
        let ports = [("grpc_addr", self.grpc_addr), ("http_addr", self.http_addr)];
        match ports.into_iter().find(|(_, addr)| !addr.ip().to_canonical().is_loopback()) {
            Some((key, addr)) if !self.allow_insecure => Err(SettingError::Exposed { key, addr, missing }),
            _ => Ok(()),
        }
    }
}

impl Dns {
    fn check(&self) -> Result<(), SettingError> {
        let zone = &self.prefer_zone;
        if zone.len() > MAX_WORKLOAD_ZONE_BYTES || zone.chars().any(char::is_control) {
            return Err(SettingError::NotAWorkloadZone { text: zone.clone() });
        }
        if zone.is_empty() && self.prefer_zone_alone_from > 0 {
            return Err(SettingError::Alone { given: "dns.prefer_zone_alone_from", missing: "dns.prefer_zone" });
        }
        Ok(())
    }
}

impl Plugins {
    fn check_trust(&self) -> Result<(), SettingError> {
        let is_digest = |text: &&String| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        if let Some(text) = self.pinned.iter().find(|text| !is_digest(text)) {
            return Err(SettingError::NotADigest { text: text.clone() });
        }
        if self.require_signed && self.trusted_keys.is_empty() {
            return Err(SettingError::NoTrustedKeys);
        }
        let (dir, keys) = ("plugins.code_dir", "plugins.code_keys");
        match (self.code_dir.as_os_str().is_empty(), self.code_keys.is_empty()) {
            (false, true) => Err(SettingError::Alone { given: dir, missing: keys }),
            (true, false) => Err(SettingError::Alone { given: keys, missing: dir }),
            _ => Ok(()),
        }
    }
}

impl Identity {
    fn check(&self) -> Result<(), SettingError> {
        let given = |path: &Path| !path.as_os_str().is_empty();
        let alone = |given, missing| Err(SettingError::Alone { given, missing });
        match (given(&self.cert_file), given(&self.key_file), self.trust_domain.is_empty()) {
            (true, false, _) => alone("identity.cert_file", "identity.key_file"),
            (false, true, _) => alone("identity.key_file", "identity.cert_file"),
            (true, true, true) => alone("identity.cert_file", "identity.trust_domain"),
            (_, _, false) if !is_zone(&self.trust_domain) => {
                Err(SettingError::NotAZone { key: "identity.trust_domain", text: self.trust_domain.clone() })
            }
            _ => Ok(()),
        }
    }
}

impl Tls {
    fn check(&self) -> Result<(), SettingError> {
        let Self { cert_file, key_file, client_ca_file, client_certs, .. } = self;
        let given = |path: &Path| !path.as_os_str().is_empty();
        let alone = |given, missing| Err(SettingError::Alone { given, missing });
        match (given(cert_file), given(key_file), given(client_ca_file)) {
            (true, false, _) => alone("tls.cert_file", "tls.key_file"),
            (false, true, _) => alone("tls.key_file", "tls.cert_file"),
            (false, false, true) => alone("tls.client_ca_file", "tls.cert_file"),
            (_, _, false) if *client_certs == ClientCerts::Required => alone("tls.client_certs", "tls.client_ca_file"),
            _ => Ok(()),
        }
    }
}
