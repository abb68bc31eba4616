//! What can be wrong with a configuration.

use std::{num::ParseIntError, path::PathBuf, str::ParseBoolError};

use super::range::OutOfRange;

/// Why there is no configuration: a fault, with the place where it is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read the configuration {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("configuration {}: {source}", path.display())]
    File { path: PathBuf, source: SettingError },
    #[error("environment variable {name}: {source}")]
    Environment { name: String, source: SettingError },
    /// By flags or defaults.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

/// What is wrong with a setting. Rules that several settings are judged by have texts that begin with the key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingError {
    /// The text of the file, or what it says, does not fit. Says the line where there is one.
    #[error("{0}")]
    Toml(#[source] Box<toml::de::Error>),
    #[error("{0}")]
    Defaults(#[source] Box<toml::ser::Error>),
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    #[error("must be a whole number, got {text:?}")]
    NoNumber { text: String, source: ParseIntError },
    #[error("{number} is no number of 64 bits")]
    LongNumber { number: i128, source: std::num::TryFromIntError },
    #[error("must be true or false, got {text:?}")]
    NoBool { text: String, source: ParseBoolError },
    #[error("{key}: {}, got {text:?}", source.message())]
    Variable { key: String, text: String, source: Box<toml::de::Error> },
    #[error("http.allowed_hosts holds host names without scheme and port, got {text:?}")]
    NotAHostName { text: String },
    #[error("{key} is a name of the DNS in lower case, without a dot at either end, got {text:?}")]
    NotAZone { key: &'static str, text: String },
    #[error("{key} {what}")]
    Region { key: String, what: &'static str },
    #[error("{given} is given, which has no effect without {missing}; give both, or neither")]
    TlsAlone { given: &'static str, missing: &'static str },
    #[error(
        "{key} = {addr} is reached by other machines, and it lacks {missing}; set them up (docs/security.md), listen on \
         loopback, or say allow_insecure = true"
    )]
    Exposed { key: &'static str, addr: std::net::SocketAddr, missing: &'static str },
    #[error("plugins.bundled names {name:?}, which this binary does not have; it has {known}")]
    NotBundled { name: String, known: String },
    #[error("plugins.trusted_keys: {text:?}: {source}; give a public key of minisign, or a file that holds one")]
    TrustedKey { text: String, source: Box<mortise_keys::signature::KeyError> },
    #[error(
        "plugins.require_signed is set, and there are no plugins.trusted_keys, so that no plugin could be loaded; `mortise plugin keygen` \
         makes a pair"
    )]
    NoTrustedKeys,
    #[error("plugins.age_identity_file: {0}")]
    AgeIdentity(#[source] Box<mortise_plugin_host::IdentityError>),
    #[error(
        "plugins.age_identity_file {} is within data_dir: who had that would have the key, too; keep it elsewhere", path.display()
    )]
    AgeIdentityWithData { path: std::path::PathBuf },
    #[error("plugins.pinned holds SHA-256 digests, 64 hexadecimal digits each, got {text:?}")]
    NotADigest { text: String },
    #[error("log.level {level:?} is no filter: {fault}; use error, warn, info, debug or trace")]
    LogLevel { level: String, fault: FilterError },
    #[error("plugin.{plugin}.log_level {level:?} is no level; use off, error, warn, info, debug or trace")]
    PluginLogLevel { plugin: String, level: String },
    #[error("{key}: must be finite: plugins are told their settings as JSON, which has no inf and no nan")]
    NotFinite { key: String },
}

/// What is wrong with `log.level`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilterError {
    #[error("{word:?} is no level, and a target needs one, as in \"{word}=debug\"")]
    LoneWord { word: String },
    #[error(transparent)]
    Syntax(#[from] tracing_subscriber::filter::ParseError),
}

impl From<toml::de::Error> for SettingError {
    fn from(source: toml::de::Error) -> Self {
        Self::Toml(Box::new(source))
    }
}
