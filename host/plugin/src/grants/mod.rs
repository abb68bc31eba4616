//! What operators grant to single plugins beyond their own types: `[plugin.<name>.grants]` in config.toml.
//!
//! A plugin's reconcilers may read and write resources of the plugin's own types, and nothing else. Types of others,
//! directories, secrets and hosts for HTTP are granted one by one, by name; a fault in a grant is a fault of the configuration, found when
//! that is read. What is refused for want of a grant names the setting to add.

pub(crate) mod http_hosts;

use std::{collections::BTreeMap, fmt, path::PathBuf};

use mortise_resource::{pb, types::Gvk};
use serde::{Deserialize, Serialize};

use crate::{
    grants::http_hosts::{HttpHost, Target},
    manifest::document::Manifest,
};

/// What one plugin is granted. Part of config.toml as `[plugin.<name>.grants]`. The default grants nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Grants {
    /// Types that it may read, list, and watch.
    pub read: Vec<TypePattern>,
    /// Types that it may also write and delete.
    pub write: Vec<TypePattern>,
    /// Directories, by the names that the plugin knows them by.
    pub directories: BTreeMap<String, Directory>,
    /// Secrets, by the names that the plugin knows them by.
    pub secrets: BTreeMap<String, Secret>,
    /// Hosts that it may send HTTP requests to.
    pub http: Vec<HttpHost>,
}

/// A granted directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Directory {
    /// Where it is.
    pub path: PathBuf,
    /// Whether files in it may be written and removed.
    #[serde(default)]
    pub write: bool,
}

/// Where the host reads a granted secret from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SecretTable", into = "SecretTable")]
pub enum Secret {
    /// In a file, which is read each time.
    File(PathBuf),
    /// In a variable of the server's environment.
    Env(String),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    env: Option<String>,
}

impl TryFrom<SecretTable> for Secret {
    type Error = &'static str;

    fn try_from(table: SecretTable) -> Result<Self, Self::Error> {
        match (table.file, table.env) {
            (Some(file), None) => Ok(Self::File(file)),
            (None, Some(env)) if !env.is_empty() && !env.contains(['=', '\0']) => Ok(Self::Env(env)),
            (None, Some(_)) => Err("env must be the name of a variable"),
            _ => Err("a secret is either { file = \"…\" } or { env = \"…\" }"),
        }
    }
}

impl From<Secret> for SecretTable {
    fn from(secret: Secret) -> Self {
        match secret {
            Secret::File(file) => Self { file: Some(file), env: None },
            Secret::Env(env) => Self { file: None, env: Some(env) },
        }
    }
}

/// A type such as `demo.v2.Artist`, or every kind of a group in one version, such as `demo.v2.*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TypePattern {
    group: String,
    group_version: String,
    /// None: every kind.
    kind: Option<String>,
}

impl TypePattern {
    /// Whether it covers a type.
    #[must_use]
    pub fn covers(&self, of: &Gvk) -> bool {
        self.group == of.group
            && self.group_version == of.group_version
            && self.kind.as_ref().is_none_or(|kind| *kind == of.kind)
    }
}

/// Why a text covers no types.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// A `*` in another place than the kind's.
    #[error("{text:?}: `*` may stand for a whole kind only, such as \"demo.v2.*\"")]
    Wildcard {
        /// As it was written.
        text: String,
    },
    /// Not three names.
    #[error("{text:?} is no type; write it as \"demo.v2.Artist\", or \"demo.v2.*\" for every kind")]
    NotAType {
        /// As it was written.
        text: String,
    },
}

impl TryFrom<String> for TypePattern {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Self, PatternError> {
        let parts: Vec<_> = text.split('.').collect();
        match parts.as_slice() {
            [group, group_version, kind] if parts.iter().all(|part| !part.is_empty()) && !group.contains('*') => {
                if group_version.contains('*') || (kind.contains('*') && *kind != "*") {
                    return Err(PatternError::Wildcard { text });
                }
                Ok(Self {
                    group: (*group).to_owned(),
                    group_version: (*group_version).to_owned(),
                    kind: (*kind != "*").then(|| (*kind).to_owned()),
                })
            }
            _ => Err(PatternError::NotAType { text }),
        }
    }
}

impl From<TypePattern> for String {
    fn from(pattern: TypePattern) -> Self {
        pattern.to_string()
    }
}

impl fmt::Display for TypePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.group, self.group_version, self.kind.as_deref().unwrap_or("*"))
    }
}

/// A controller needs a type that is neither the plugin's own nor granted.
#[derive(Debug, thiserror::Error)]
#[error("controller {controller} {does} {of}, which is not a type of the plugin's own; {remedy}")]
pub struct NotGranted {
    controller: String,
    /// `manages` or `watches`.
    does: &'static str,
    of: Gvk,
    remedy: String,
}

/// What a plugin's reconcilers may do: its own types, and what is granted.
#[derive(Debug, Clone)]
pub(crate) struct Permit {
    plugin: String,
    own: Vec<Gvk>,
    pub(crate) grants: Grants,
}

impl Permit {
    pub(crate) fn new(manifest: &Manifest, grants: Grants) -> Self {
        let own = manifest.types.iter().map(|decl| decl.gvk.clone()).collect();
        Self { plugin: manifest.name.to_string(), own, grants }
    }

    /// For tests: of a plugin without types.
    #[cfg(test)]
    pub(crate) fn of(plugin: &str, grants: Grants) -> Self {
        Self { plugin: plugin.into(), own: Vec::new(), grants }
    }

    /// Whether a type may be read.
    pub(crate) fn reads(&self, of: &Gvk) -> bool {
        self.writes(of) || self.grants.read.iter().any(|granted| granted.covers(of))
    }

    /// Whether a type may be written. Writing answers what is stored, so it includes reading.
    pub(crate) fn writes(&self, of: &Gvk) -> bool {
        self.own.contains(of) || self.grants.write.iter().any(|granted| granted.covers(of))
    }

    /// Whether a resource may be read.
    pub(crate) fn reads_resource(&self, resource: &pb::Resource) -> bool {
        let of = resource.id.as_ref().and_then(|id| id.r#type.as_ref());
        of.is_some_and(|of| self.reads(&of.into()))
    }

    /// Whether an HTTP request may go there.
    pub(crate) fn sends_to(&self, target: &Target) -> bool {
        self.grants.http.iter().any(|granted| granted.covers(target))
    }

    /// The key of one of the plugin's grants.
    pub(crate) fn key(&self, what: &str) -> String {
        format!("plugin.{}.grants.{what}", self.plugin)
    }

    /// What to do about a type that is not granted; `list` is `read` or `write`.
    pub(crate) fn remedy(&self, of: &Gvk, list: &str) -> String {
        format!("grant it with {} = [\"{of}\"] in config.toml", self.key(list))
    }

    /// Refuses a manifest whose controllers manage or watch a type that is not granted.
    pub(crate) fn check(&self, manifest: &Manifest) -> Result<(), NotGranted> {
        for controller in &manifest.controllers {
            let watched = controller.watches.iter().map(|watch| ("watches", &watch.of));
            for (does, of) in std::iter::once(("manages", &controller.manages)).chain(watched) {
                if !self.reads(of) {
                    return Err(NotGranted {
                        controller: controller.name.to_string(),
                        does,
                        of: of.clone(),
                        remedy: self.remedy(of, "read"),
                    });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Result<TypePattern, String> {
        TypePattern::try_from(text.to_owned()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_pattern_covers_a_kind_or_all_of_them() {
        let (artist, album) = (Gvk::new("demo", "v2", "Artist"), Gvk::new("demo", "v2", "Album"));
        let older = Gvk::new("demo", "v1", "Artist");
        let one = pattern("demo.v2.Artist").unwrap();
        assert!(one.covers(&artist) && !one.covers(&album) && !one.covers(&older));
        let all = pattern("demo.v2.*").unwrap();
        assert!(all.covers(&artist) && all.covers(&album) && !all.covers(&older));
        assert_eq!((one.to_string(), all.to_string()), ("demo.v2.Artist".into(), "demo.v2.*".into()));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for bad in ["", "*", "demo", "demo.v2", "demo.*.Artist", "*.v2.Artist", "demo.v2.Art*", "a.b.c.d", "demo..A"] {
            let refused = pattern(bad).unwrap_err();
            assert!(refused.starts_with(&format!("{bad:?}")), "{bad}: {refused}");
        }
    }

    #[test]
    fn a_secret_stands_in_one_place() {
        let secret = |json: &str| serde_json::from_str::<Secret>(json).map_err(|e| e.to_string());
        assert_eq!(secret(r#"{"file":"/run/x"}"#), Ok(Secret::File("/run/x".into())));
        assert_eq!(secret(r#"{"env":"TOKEN"}"#), Ok(Secret::Env("TOKEN".into())));
        for bad in ["{}", r#"{"file":"/x","env":"X"}"#, r#"{"env":""}"#, r#"{"env":"A=B"}"#, r#"{"value":"s3cret"}"#] {
            let refused = secret(bad).unwrap_err();
            assert!(!refused.contains("s3cret"), "{refused}");
        }
    }

    #[test]
    fn own_types_need_no_grant_and_writing_includes_reading() {
        let grants = Grants {
            read: vec![pattern("edge.v1.Route").unwrap()],
            write: vec![pattern("mesh.v1.*").unwrap()],
            ..Grants::default()
        };
        let own = Gvk::new("demo", "v2", "Artist");
        let permit = Permit { plugin: "demo".into(), own: vec![own.clone()], grants };
        assert!(permit.reads(&own) && permit.writes(&own));
        let read = Gvk::new("edge", "v1", "Route");
        assert!(permit.reads(&read) && !permit.writes(&read));
        let written = Gvk::new("mesh", "v1", "Proxy");
        assert!(permit.reads(&written) && permit.writes(&written));
        let other = Gvk::new("edge", "v1", "Gateway");
        assert!(!permit.reads(&other) && !permit.writes(&other));
        assert_eq!(
            permit.remedy(&other, "write"),
            "grant it with plugin.demo.grants.write = [\"edge.v1.Gateway\"] in config.toml"
        );
    }
}
