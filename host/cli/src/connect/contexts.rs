//! The contexts file: named servers, each with its connection settings and its partition and namespace.
//!
//! TOML, at `$MORTISE_CONTEXTS`, else `$XDG_CONFIG_HOME/mortise/contexts.toml`, else `~/.config/mortise/contexts.toml`.
//! It holds no tokens, only the names of files that hold them. It is written as a whole, to a new file that replaces
//! the old one, so that a reader never sees half of it.

use std::{collections::BTreeMap, io::Write as _, path::PathBuf};

use mortise_durable_fs::{AtomicFile, FsError, make_private_dir, parent_dir};
use serde::{Deserialize, Serialize};

use crate::{env::Env, error::CliError};

/// Content of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contexts {
    /// Context in use when none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) context: BTreeMap<String, Context>,
}

/// Settings of one server, with the partition and namespace to work in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Context {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) grpc_addr: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_cert: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_key: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls_server_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) partition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
}

impl Contexts {
    /// Path of the file, even if it does not exist; `None` on a machine without a home directory.
    pub(crate) fn path(env: Env<'_>) -> Option<PathBuf> {
        let set = |name| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        set("MORTISE_CONTEXTS").or_else(|| {
            let config = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
            Some(config.join("mortise").join("contexts.toml"))
        })
    }

    /// Reads the file; a missing file holds no contexts.
    pub(crate) fn load(env: Env<'_>) -> Result<Self, CliError> {
        let Some(path) = Self::path(env) else { return Ok(Self::default()) };
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let wrong = || CliError::usage(format!("contexts file {}", path.display()));
                toml::from_str(&text).map_err(|e| wrong().caused_by(e))
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(e) => Err(CliError::file("cannot read the contexts file", &path, e)),
        }
    }

    /// Writes the file in one step.
    pub(crate) fn store(&self, env: Env<'_>) -> Result<PathBuf, CliError> {
        let path = Self::path(env).ok_or_else(|| {
            CliError::usage("the contexts file has no place").remedy("set MORTISE_CONTEXTS to a file's name")
        })?;
        let text = toml::to_string(self).map_err(|e| CliError::failed("contexts").caused_by(e))?;
        let write = || {
            make_private_dir(parent_dir(&path))?;
            let mut file = AtomicFile::new_beside(&path)?;
            file.write_all(text.as_bytes()).map_err(FsError::with_path(&path, "write"))?;
            file.replace_durably()
        };
        write().map_err(|FsError { source: e, .. }| CliError::file("cannot write the contexts file", &path, e))?;
        Ok(path)
    }

    /// Returns the named context, or the current one, or an empty one.
    pub(crate) fn pick(&self, named: Option<&str>) -> Result<Context, CliError> {
        match named.or(self.current.as_deref()) {
            None => Ok(Context::default()),
            Some(name) => self.get(name).cloned(),
        }
    }

    /// Returns a context by name.
    pub(crate) fn get(&self, name: &str) -> Result<&Context, CliError> {
        self.context.get(name).ok_or_else(|| {
            let known: Vec<_> = self.context.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            CliError::usage(format!("the context {name:?} does not exist; known: {known}"))
                .remedy("`mortise context set NAME --grpc-addr HOST:PORT` creates one")
        })
    }
}
