//! Grants of operators to single plugins beyond their own types: `[plugin.<name>.grants]` in config.toml.
//!
//! A plugin's reconcilers may read and write resources of the plugin's own types only. Other types, directories,
//! secrets and hosts for HTTP and TCP are granted one by one, by name; a fault in a grant is a fault of the
//! configuration, found when that is read. A refusal for a missing grant names the setting to add.

pub(crate) mod check;
pub(crate) mod granted_host;
pub(crate) mod hosts;
pub(crate) mod http_hosts;
pub(crate) mod limits;
pub(crate) mod requests;
pub(crate) mod tcp_hosts;

use std::{collections::BTreeMap, fmt, path::PathBuf};

use mortise_resource::{pb, types::Gvk};
use serde::{Deserialize, Serialize};

pub use limits::{GrantedLimits, Instances};

use crate::grants::{
    check::Check,
    granted_host::{GrantedHost, HttpRates, RateUsedUp},
    hosts::HostPort,
    http_hosts::Target,
    requests::GrantRequests,
    tcp_hosts::TcpHost,
};
use crate::units::Size;

/// Grants of one plugin: `[plugin.<name>.grants]` in config.toml. The default grants nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Grants {
    /// Types that the plugin may read, list and watch.
    pub read: Vec<TypePattern>,
    /// Types that the plugin may also write and delete.
    pub write: Vec<TypePattern>,
    /// Directories, by their names for the plugin.
    pub directories: BTreeMap<String, Directory>,
    /// Secrets, by their names for the plugin.
    pub secrets: BTreeMap<String, Secret>,
    /// Hosts for HTTP requests.
    pub http: Vec<GrantedHost>,
    /// Hosts and ports for TCP connections.
    pub tcp: Vec<TcpHost>,
    /// Instances for hooks.
    pub instances: Instances,
    /// Limits of hooks beyond the host's.
    #[serde(skip_serializing_if = "GrantedLimits::is_empty")]
    pub limits: GrantedLimits,
}

/// A granted directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Directory {
    /// Path of the directory on the host.
    pub path: PathBuf,
    /// Whether the plugin may write and remove files in it.
    #[serde(default)]
    pub write: bool,
    /// Most bytes of its files together after a write; `None` for 64 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Size>,
    /// Check of files that the plugin writes, before each takes its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
}

/// Source of a granted secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SecretTable", into = "SecretTable")]
pub enum Secret {
    /// A file, which is read each time.
    File(PathBuf),
    /// A variable of the server's environment.
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
    /// `None`: every kind.
    kind: Option<String>,
}

impl TypePattern {
    /// Whether this pattern covers every type that `other` covers.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        self.group == other.group
            && self.group_version == other.group_version
            && (self.kind.is_none() || self.kind == other.kind)
    }

    /// Whether this pattern covers a type.
    #[must_use]
    pub fn covers(&self, gvk: &Gvk) -> bool {
        self.group == gvk.group
            && self.group_version == gvk.group_version
            && self.kind.as_ref().is_none_or(|kind| *kind == gvk.kind)
    }
}

/// Reason that a text is not a pattern of types.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// A `*` elsewhere than for the kind.
    #[error("{text:?}: `*` may stand for a whole kind only, such as \"demo.v2.*\"")]
    Wildcard {
        /// The text of the entry.
        text: String,
    },
    /// The text does not have three parts.
    #[error("{text:?} is not a type; write it as \"demo.v2.Artist\", or \"demo.v2.*\" for every kind")]
    NotAType {
        /// The text of the entry.
        text: String,
    },
}

impl TryFrom<String> for TypePattern {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Self, PatternError> {
        match text.parse() {
            Ok(Gvk { group, group_version, kind }) if !group.contains('*') => {
                if group_version.contains('*') || (kind.contains('*') && kind != "*") {
                    return Err(PatternError::Wildcard { text });
                }
                Ok(Self { group, group_version, kind: Some(kind).filter(|kind| kind != "*") })
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

/// Permissions of a plugin's reconcilers: its own types, and everything both requested and granted.
#[derive(Debug, Clone)]
pub(crate) struct Permit {
    plugin: String,
    own: Vec<Gvk>,
    /// Types of others that its controllers manage or watch, which counts as a request.
    watched: Vec<Gvk>,
    /// `None`: the manifest has no requests, and everything counts as requested.
    requests: Option<GrantRequests>,
    grants: Grants,
    rates: HttpRates,
}

impl Permit {
    /// Permissions of the named plugin with its own types, the other types that its controllers need, and its requests.
    pub(crate) fn new(
        plugin: &str,
        own: Vec<Gvk>,
        watched: Vec<Gvk>,
        requests: Option<GrantRequests>,
        grants: Grants,
    ) -> Self {
        let rates = HttpRates::new(&grants.http);
        Self { plugin: plugin.to_owned(), own, watched, requests, grants, rates }
    }

    /// Permissions for tests: of a plugin without types and without requests.
    #[cfg(test)]
    pub(crate) fn of(plugin: &str, grants: Grants) -> Self {
        Self::new(plugin, Vec::new(), Vec::new(), None, grants)
    }

    /// Whether a type may be read.
    pub(crate) fn reads(&self, gvk: &Gvk) -> bool {
        let granted = |grants: &[TypePattern]| grants.iter().any(|granted| granted.covers(gvk));
        self.own.contains(gvk)
            || ((granted(&self.grants.read) || granted(&self.grants.write))
                && (self.watched.contains(gvk) || self.requests_allow(|requests| requests.reads(gvk))))
    }

    /// Whether a type may be written. A write answers the stored resource, so it includes reading.
    pub(crate) fn writes(&self, gvk: &Gvk) -> bool {
        let granted = || self.grants.write.iter().any(|granted| granted.covers(gvk));
        self.own.contains(gvk) || (granted() && self.requests_allow(|requests| requests.writes(gvk)))
    }

    /// Whether a resource may be read.
    pub(crate) fn reads_resource(&self, resource: &pb::Resource) -> bool {
        let resource_type = resource.id.as_ref().and_then(|id| id.r#type.as_ref());
        resource_type.is_some_and(|resource_type| self.reads(&resource_type.into()))
    }

    /// Whether an HTTP request may go to `target`.
    pub(crate) fn sends_to(&self, target: &Target) -> bool {
        self.grants.http.iter().any(|granted| granted.host.covers(target))
            && self.requests_allow(|requests| requests.http(target))
    }

    /// Waits for the turn of a granted HTTP request.
    ///
    /// # Errors
    /// [`RateUsedUp`], at once, if the turn comes after `until`.
    pub(crate) async fn http_turn(&self, target: &Target, until: tokio::time::Instant) -> Result<(), RateUsedUp> {
        self.rates.turn(target, until).await
    }

    /// Whether a TCP connection may go to `to`.
    pub(crate) fn connects_to(&self, to: &HostPort) -> bool {
        self.grants.tcp.iter().any(|granted| granted.covers(to)) && self.requests_allow(|requests| requests.tcp(to))
    }

    /// A directory, if it is granted and requested.
    pub(crate) fn directory(&self, name: &str) -> Option<&Directory> {
        self.grants.directories.get(name).filter(|_| self.requests_allow(|requests| requests.directory(name)))
    }

    /// A secret, if it is granted and requested.
    pub(crate) fn secret(&self, name: &str) -> Option<&Secret> {
        self.grants.secrets.get(name).filter(|_| self.requests_allow(|requests| requests.secret(name)))
    }

    fn requests_allow(&self, asks: impl Fn(&GrantRequests) -> bool) -> bool {
        self.requests.as_ref().is_none_or(asks)
    }

    /// Key of one of the plugin's grants in config.toml.
    pub(crate) fn key(&self, what: &str) -> String {
        format!("plugin.{}.grants.{what}", self.plugin)
    }

    /// Next step for a type that may not be read, or not be written.
    pub(crate) fn remedy(&self, gvk: &Gvk, list: TypeGrant) -> String {
        let (list, asked) = match list {
            TypeGrant::Read => {
                ("read", self.watched.contains(gvk) || self.requests_allow(|requests| requests.reads(gvk)))
            }
            TypeGrant::Write => ("write", self.requests_allow(|requests| requests.writes(gvk))),
        };
        self.remedy_for(asked, &format!("{list} = [\"{gvk}\"]"))
    }

    /// Next step for a host that HTTP requests may not go to.
    pub(crate) fn http_remedy(&self, target: &Target) -> String {
        self.remedy_for(self.requests_allow(|requests| requests.http(target)), &format!("http = [\"{target}\"]"))
    }

    /// Next step for a host and port that connections may not go to.
    pub(crate) fn tcp_remedy(&self, to: &HostPort) -> String {
        self.remedy_for(self.requests_allow(|requests| requests.tcp(to)), &format!("tcp = [\"{to}\"]"))
    }

    /// Next step for a directory that the plugin does not have.
    pub(crate) fn directory_remedy(&self, name: &str) -> String {
        let asked = self.requests_allow(|requests| requests.directory(name));
        self.remedy_for(asked, &format!("directories.{name} = {{ path = \"…\" }}"))
    }

    /// Next step for a secret that the plugin does not have.
    pub(crate) fn secret_remedy(&self, name: &str) -> String {
        let asked = self.requests_allow(|requests| requests.secret(name));
        self.remedy_for(asked, &format!("secrets.{name} = {{ file = \"…\" }}"))
    }

    /// Next step for a missing permission. `entry` is the line of the grant in config.toml.
    fn remedy_for(&self, asked: bool, entry: &str) -> String {
        if asked {
            format!("grant it with {} in config.toml", self.key(entry))
        } else {
            "the plugin's manifest does not ask for it; add a GrantRequest to the plugin".to_owned()
        }
    }
}

/// The two lists of types that an operator grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypeGrant {
    /// `read`.
    Read,
    /// `write`.
    Write,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::http_hosts::HttpHost;

    fn pattern(text: &str) -> Result<TypePattern, String> {
        TypePattern::try_from(text.to_owned()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_pattern_covers_a_kind_or_all_of_them() {
        let (artist, album) = (Gvk::new("demo", "v2", "Artist"), Gvk::new("demo", "v2", "Album"));
        let older = Gvk::new("demo", "v1", "Artist");
        let exact = pattern("demo.v2.Artist").unwrap();
        assert!(exact.covers(&artist) && !exact.covers(&album) && !exact.covers(&older));
        let all = pattern("demo.v2.*").unwrap();
        assert!(all.covers(&artist) && all.covers(&album) && !all.covers(&older));
        assert_eq!((exact.to_string(), all.to_string()), ("demo.v2.Artist".into(), "demo.v2.*".into()));
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
        let permit = Permit::new("demo", vec![own.clone()], Vec::new(), None, grants);
        assert!(permit.reads(&own) && permit.writes(&own));
        let read = Gvk::new("edge", "v1", "Route");
        assert!(permit.reads(&read) && !permit.writes(&read));
        let written = Gvk::new("mesh", "v1", "Proxy");
        assert!(permit.reads(&written) && permit.writes(&written));
        let other = Gvk::new("edge", "v1", "Gateway");
        assert!(!permit.reads(&other) && !permit.writes(&other));
        assert_eq!(
            permit.remedy(&other, TypeGrant::Write),
            "grant it with plugin.demo.grants.write = [\"edge.v1.Gateway\"] in config.toml"
        );
    }

    #[test]
    fn neither_asking_nor_granting_gives_anything_alone() {
        use mortise_resource::manifest::{self as wire, grant_request::Wants};
        let requests = [
            Wants::Directory("both".into()),
            Wants::Directory("asked".into()),
            Wants::Secret("both".into()),
            Wants::Http("*.example.net".into()),
            Wants::Http("http://*".into()),
            Wants::Tcp("*".into()),
            Wants::Read("edge.v1.*".into()),
            Wants::Write("mesh.v1.Proxy".into()),
        ];
        let requests = requests.map(|wants| wire::GrantRequest { wants: Some(wants), reason: "r".into() }).to_vec();
        let requests = GrantRequests::read(wire::GrantRequests { requests }).unwrap();
        let directory = || Directory { path: "/x".into(), write: true, bytes: None, check: None };
        let host = |text: &str| GrantedHost::from(HttpHost::try_from(text.to_owned()).unwrap());
        let connect = |text: &str| TcpHost::try_from(text.to_owned()).unwrap();
        let grants = Grants {
            read: vec![
                pattern("edge.v1.Route").unwrap(),
                pattern("demo.v2.Artist").unwrap(),
                pattern("w.v1.*").unwrap(),
            ],
            write: vec![pattern("edge.v1.Gateway").unwrap(), pattern("mesh.v1.*").unwrap()],
            directories: [("both".to_owned(), directory()), ("granted".to_owned(), directory())].into(),
            secrets: ["both", "granted"].map(|name| (name.to_owned(), Secret::Env("X".into()))).into(),
            http: vec![host("a.example.net"), host("b.example.org"), host("http://192.0.2.7:8080")],
            tcp: vec![connect("db.internal:5432"), connect("*.example.net:22")],
            ..Grants::default()
        };
        let watched = Gvk::new("w", "v1", "Watched");
        let permit = Permit::new("p", Vec::new(), vec![watched.clone()], Some(requests.clone()), grants.clone());
        let gvk = |group, kind| Gvk::new(group, "v1", kind);
        assert!(permit.directory("both").is_some() && permit.secret("both").is_some());
        assert!(permit.directory("granted").is_none() && permit.directory("asked").is_none());
        assert!(permit.secret("granted").is_none());
        let sends = |host| permit.sends_to(&Target::read("https", host).unwrap());
        assert!(sends("a.example.net") && !sends("b.example.org") && !sends("c.example.net"));
        // Asked for everywhere, and granted in few places.
        let plain = |address| permit.sends_to(&Target::read("http", address).unwrap());
        assert!(plain("192.0.2.7:8080") && !plain("192.0.2.8:8080") && !plain("a.example.net"));
        let connects = |address| permit.connects_to(&HostPort::read(address, None).unwrap());
        assert!(connects("db.internal:5432") && connects("a.example.net:22"));
        assert!(!connects("db.internal:5433") && !connects("example.net:22") && !connects("192.0.2.7:22"));
        let remedy = permit.tcp_remedy(&HostPort::read("192.0.2.7:22", None).unwrap());
        assert_eq!(remedy, "grant it with plugin.p.grants.tcp = [\"192.0.2.7:22\"] in config.toml");
        assert!(permit.reads(&gvk("edge", "Route")) && !permit.reads(&gvk("edge", "Other")));
        assert!(!permit.reads(&Gvk::new("demo", "v2", "Artist")), "granted, and not asked for");
        assert!(
            permit.reads(&gvk("edge", "Gateway")) && !permit.writes(&gvk("edge", "Gateway")),
            "asked for reading alone"
        );
        assert!(permit.writes(&gvk("mesh", "Proxy")) && !permit.writes(&gvk("mesh", "Other")));
        assert!(permit.reads(&watched), "a watch asks for its type");
        assert!(permit.remedy(&gvk("mesh", "Other"), TypeGrant::Write).contains("does not ask for it"));
        assert!(
            permit
                .remedy(&gvk("edge", "Other"), TypeGrant::Read)
                .contains("plugin.p.grants.read = [\"edge.v1.Other\"]")
        );
        assert!(permit.directory_remedy("granted").contains("does not ask for it"));
        assert!(permit.directory_remedy("asked").contains("plugin.p.grants.directories.asked = "));

        let without = Permit::new("p", Vec::new(), Vec::new(), None, grants.clone());
        assert!(without.directory("granted").is_some() && without.reads(&Gvk::new("demo", "v2", "Artist")));
        let unrequested: Vec<_> =
            grants.iter().filter(|grant| !requests.is_requested(grant)).map(|request| request.to_string()).collect();
        assert_eq!(
            unrequested,
            ["directories.granted", "secrets.granted", "http b.example.org", "read demo.v2.Artist", "read w.v1.*"]
        );
        let missing: Vec<_> = requests
            .iter()
            .filter(|request| !grants.includes(&request.grant))
            .map(|include| include.grant.to_string())
            .collect();
        // Those for any host leave the choice to the operator, who has made it.
        assert_eq!(missing, ["directories.asked", "http *.example.net", "read edge.v1.*"]);
    }
}
