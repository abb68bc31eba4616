//! Faults of a configuration.

use std::{path::PathBuf, str::ParseBoolError};

use super::range::RangeError;

/// A fault of the configuration, with its place.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read the configuration {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("configuration {}: {source}", path.display())]
    File { path: PathBuf, source: SettingError },
    #[error("environment variable {name}: {source}")]
    Environment { name: String, source: SettingError },
    /// A fault in flags or defaults.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

/// A fault of a setting. Texts of rules for several settings begin with the key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingError {
    /// The file does not parse, or has a wrong key or value. The text has the line if there is one.
    #[error(transparent)]
    Toml(Box<toml::de::Error>),
    #[error(transparent)]
    Defaults(Box<toml::ser::Error>),
    #[error(transparent)]
    Range(#[from] RangeError),
    #[error("{old} is now {new}")]
    Renamed { old: &'static str, new: &'static str },
    #[error("must be true or false, got {text:?}")]
    NoBool { text: String, source: ParseBoolError },
    #[error("{key}: {}, got {text:?}", source.message())]
    Variable { key: String, text: String, source: Box<toml::de::Error> },
    #[error("http.allowed_hosts must have host names without scheme and port, got {text:?}")]
    NotAHostName { text: String },
    #[error(
        "http.allowed_origins must have origins such as https://app.example.org, with http or https and without a path, got {text:?}"
    )]
    NotAnOrigin { text: String },
    #[error("{key} must be a DNS name in lower case without a dot at either end, got {text:?}")]
    NotAZone { key: &'static str, text: String },
    #[error("dns.short_zone is {text:?}, as destination.zone is; the names of the two differ, so choose another zone")]
    SameZone { text: String },
    #[error("dns.prefer_zone must be the zone of workloads: at most 63 bytes without control characters, got {text:?}")]
    NotAWorkloadZone { text: String },
    #[error("{key} {what}")]
    Region { key: String, what: &'static str },
    #[error("{given} has no effect without {missing}; set both, or neither")]
    Alone { given: &'static str, missing: &'static str },
    #[error(
        "identity.cert_file needs tokens (acl.enabled), or every caller would get a certificate for every identity; set \
         acl.enabled = true, or leave identity.cert_file out"
    )]
    AuthorityWithoutTokens,
    #[error(
        "{key} = {addr} is reachable from other machines, and lacks {missing}; set them up (docs/security.md), listen on \
         loopback, or allow it: --insecure, allow_insecure = true"
    )]
    Exposed { key: &'static str, addr: std::net::SocketAddr, missing: &'static str },
    #[error("plugins.bundled names {name:?}, which this binary does not have; it has {known}")]
    NotBundled { name: String, known: String },
    #[error("{key}: {text:?}: {source}; give a public key of minisign, or a file that holds one")]
    PublicKey { key: &'static str, text: String, source: Box<mortise_keys::signature::KeyError> },
    #[error(
        "plugins.require_signed needs keys in plugins.trusted_keys, or no plugin can be loaded; `mortise plugin keygen` makes a pair"
    )]
    NoTrustedKeys,
    #[error("plugins.age_identity_file: {0}")]
    AgeIdentity(#[source] Box<mortise_plugin_host::IdentityError>),
    #[error(
        "plugins.age_identity_file {} is in data_dir, so that a copy of the data has the key, too; keep it elsewhere", path.display()
    )]
    AgeIdentityWithData { path: std::path::PathBuf },
    #[error("plugins.pinned must have SHA-256 digests of 64 hexadecimal digits, got {text:?}")]
    NotADigest { text: String },
    #[error("store.etcd.endpoints must have addresses such as 127.0.0.1:2379, got {text:?}")]
    EtcdEndpoints { text: String },
    #[error("store.etcd.prefix must begin and end with a slash and have visible ASCII characters alone, got {text:?}")]
    EtcdPrefix { text: String },
    #[error("store.max_resource_bytes is over {largest}, the most that etcd takes; lower it, or use engine = \"sled\"")]
    TooLargeForEtcd { largest: u64 },
    #[error("backup.schedule {text:?} is not a schedule: {source}")]
    Schedule { text: String, source: Box<mortise_backup::ScheduleError> },
    #[error("{key} {}: {source}", path.display())]
    SecretFile { key: &'static str, path: PathBuf, source: std::io::Error },
    #[error("log.level {level:?} is not a filter: {source}; use error, warn, info, debug or trace")]
    LogLevel { level: String, source: FilterError },
    #[error("plugin.{plugin}.log_level {level:?} is not a level; use off, error, warn, info, debug or trace")]
    PluginLogLevel { plugin: String, level: String },
    #[error("plugin.{plugin}.source: {source}")]
    PluginSource { plugin: String, source: mortise_registry::ReferenceError },
    #[error("plugin.{plugin}.source: {plugin:?} is not a plugin's name; use lower-case letters, digits and '-'")]
    NotAPluginName { plugin: String },
    #[error("plugin.{plugin}.source: this plugin is in the binary; plugins.bundled switches it on")]
    SourceOfBundled { plugin: String },
    #[error(
        "plugin.{plugin}.update is {update}, but plugin.{plugin}.source is empty; name the place in a registry there"
    )]
    UpdateWithoutSource { plugin: String, update: mortise_registry::Update },
    #[error(
        "plugin.{plugin}.update is {update}, and the digest in plugin.{plugin}.source allows no other content; take \
         out one of them"
    )]
    UpdateOfDigest { plugin: String, update: mortise_registry::Update },
    #[error(
        "plugin.{plugin}.update is {update}, and the tag {tag:?} in plugin.{plugin}.source is not a version to count \
         from; give one such as 1.2.0"
    )]
    UpdateOfTag { plugin: String, update: mortise_registry::Update, tag: String },
    #[error("{key}: must be finite; plugins get their settings as JSON, which has no inf and no nan")]
    NotFinite { key: String },
}

/// A fault of `log.level`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilterError {
    #[error("{word:?} is not a level, and a target needs one, as in \"{word}=debug\"")]
    LoneWord { word: String },
    #[error(transparent)]
    Syntax(#[from] tracing_subscriber::filter::ParseError),
}

impl From<toml::de::Error> for SettingError {
    fn from(source: toml::de::Error) -> Self {
        Self::Toml(Box::new(source))
    }
}
