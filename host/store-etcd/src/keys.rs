//! Keys in etcd, below the prefix: readable, and reversible.
//!
//! | key | value |
//! |---|---|
//! | `stamp` | id of the store and format of its content |
//! | `head` | written by every commit: the places of its deletions |
//! | `r/GROUP/KIND/PARTITION/NAMESPACE/NAME` | a resource |
//! | `t/GROUP/KIND/PARTITION/NAMESPACE/NAME` | touched by every new reference to the resource |
//! | `servers/ID`, `servers/ID/1` | last transactions of a server, of one lane each |
//! | `members/ID` | a server that runs, under its lease |
//! | `placement/NAME` | the server that does a piece of work, under its lease |
//! | `plugins/plan/NAME` | the state that a plugin shall have on every server |
//! | `plugins/report/NAME/ID` | outcome of the plan on a server |
//! | `components/DIGEST/meta`, `components/DIGEST/NUMBER` | the component of a plan, in chunks |
//! | `uploads/DIGEST` | a component that no plan has yet, under a lease |
//!
//! `%`, `/` and control characters of a segment are written as `%` and two digits.

use std::fmt::Write as _;

use mortise_store::{ExpectedId, TypeKey};

use crate::record::Versions;

/// Number of segments of a resource's key.
const SEGMENTS: usize = 5;

/// Keys below a prefix.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: String,
    /// Versions of the store below the prefix.
    pub(crate) versions: Versions,
}

/// A key below the prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    /// Position of the newest commit.
    Head,
    /// A resource.
    Resource(ExpectedId),
    /// The plan of a plugin, or a report about it.
    Plan,
    /// Another key, without content.
    Other,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), versions: Versions::default() }
    }

    /// Returns the keys of a store with these versions.
    pub(crate) fn with_versions(self, versions: Versions) -> Self {
        Self { versions, ..self }
    }

    /// Returns the prefix of all keys.
    pub(crate) fn all(&self) -> Vec<u8> {
        self.prefix.clone().into_bytes()
    }

    pub(crate) fn stamp(&self) -> Vec<u8> {
        self.named("stamp")
    }

    pub(crate) fn head(&self) -> Vec<u8> {
        self.named("head")
    }

    /// Returns the prefix of the keys of resources.
    pub(crate) fn resources(&self) -> Vec<u8> {
        self.named("r/")
    }

    /// Returns the key of a server's lane. The first one's is the only one of earlier releases.
    pub(crate) fn lane(&self, server: &str, number: usize) -> Vec<u8> {
        match number {
            0 => self.named(&format!("servers/{server}")),
            number => self.named(&format!("servers/{server}/{number}")),
        }
    }

    /// Returns the prefix of the keys of members.
    pub(crate) fn members(&self) -> Vec<u8> {
        self.named("members/")
    }

    pub(crate) fn member(&self, id: &str) -> Vec<u8> {
        self.named(&format!("members/{id}"))
    }

    /// Returns the server of a member's key.
    pub(crate) fn member_of(&self, key: &[u8]) -> Option<String> {
        std::str::from_utf8(key.strip_prefix(self.members().as_slice())?).ok().map(str::to_owned)
    }

    /// Returns the prefix of the keys of placed work.
    pub(crate) fn placements(&self) -> Vec<u8> {
        self.named("placement/")
    }

    /// Returns the name of the work of a placement's key.
    pub(crate) fn placed(&self, key: &[u8]) -> Option<String> {
        plain(std::str::from_utf8(key.strip_prefix(self.placements().as_slice())?).ok()?)
    }

    pub(crate) fn placement(&self, name: &str) -> Vec<u8> {
        self.named(&format!("placement/{}", escaped(name)))
    }

    /// Returns the prefix of the keys of plans.
    pub(crate) fn plans(&self) -> Vec<u8> {
        self.named("plugins/plan/")
    }

    pub(crate) fn plan(&self, plugin: &str) -> Vec<u8> {
        self.named(&format!("plugins/plan/{}", escaped(plugin)))
    }

    /// Returns the plugin of a plan's key.
    pub(crate) fn plugin_of(&self, key: &[u8]) -> Option<String> {
        plain(std::str::from_utf8(key.strip_prefix(self.plans().as_slice())?).ok()?)
    }

    /// Returns the prefix of the keys of all reports.
    pub(crate) fn reports(&self) -> Vec<u8> {
        self.named("plugins/report/")
    }

    /// Returns the prefix of the keys of a plan's reports.
    pub(crate) fn reports_of(&self, plugin: &str) -> Vec<u8> {
        self.named(&format!("plugins/report/{}/", escaped(plugin)))
    }

    pub(crate) fn report(&self, plugin: &str, server: &str) -> Vec<u8> {
        [self.reports_of(plugin), server.as_bytes().to_vec()].concat()
    }

    /// Returns the plugin and the server of a report's key.
    pub(crate) fn reporter_of(&self, key: &[u8]) -> Option<(String, String)> {
        let (plugin, server) =
            std::str::from_utf8(key.strip_prefix(self.reports().as_slice())?).ok()?.split_once('/')?;
        Some((plain(plugin)?, server.to_owned()))
    }

    /// Returns the prefix of the keys of all components.
    pub(crate) fn components(&self) -> Vec<u8> {
        self.named("components/")
    }

    /// Returns the prefix of the keys of a component.
    pub(crate) fn component(&self, digest: &str) -> Vec<u8> {
        self.named(&format!("components/{digest}/"))
    }

    pub(crate) fn component_meta(&self, digest: &str) -> Vec<u8> {
        self.named(&format!("components/{digest}/meta"))
    }

    pub(crate) fn component_chunk(&self, digest: &str, number: u64) -> Vec<u8> {
        self.named(&format!("components/{digest}/{number:06}"))
    }

    /// Returns the digest of a component's key.
    pub(crate) fn digest_of(&self, key: &[u8]) -> Option<String> {
        let rest = std::str::from_utf8(key.strip_prefix(self.components().as_slice())?).ok()?;
        rest.split_once('/').map(|(digest, _)| digest.to_owned())
    }

    pub(crate) fn upload(&self, digest: &str) -> Vec<u8> {
        self.named(&format!("uploads/{digest}"))
    }

    pub(crate) fn resource(&self, id: &ExpectedId) -> Vec<u8> {
        self.named(&format!("r/{}", path(id)))
    }

    pub(crate) fn touch(&self, id: &ExpectedId) -> Vec<u8> {
        self.named(&format!("t/{}", path(id)))
    }

    /// Reads a key. A resource's key that cannot be read counts as another one's.
    pub(crate) fn parse(&self, key: &[u8]) -> Key {
        let Some(rest) = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix(self.prefix.as_str())) else {
            return Key::Other;
        };
        match rest.strip_prefix("r/") {
            _ if rest == "head" => Key::Head,
            _ if rest.starts_with("plugins/") => Key::Plan,
            Some(path) => id(path).map_or(Key::Other, Key::Resource),
            None => Key::Other,
        }
    }

    fn named(&self, rest: &str) -> Vec<u8> {
        format!("{}{rest}", self.prefix).into_bytes()
    }
}

/// Returns the end of the range of all keys with a prefix, which is not empty and does not end with the byte 255.
pub(crate) fn range_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    end
}

fn path(id: &ExpectedId) -> String {
    let ExpectedId { type_key, partition, namespace, name, .. } = id;
    let segments = [&type_key.group, &type_key.kind, partition, namespace, name].map(|segment| escaped(segment));
    segments.join("/")
}

fn escaped(segment: &str) -> String {
    let mut text = String::with_capacity(segment.len());
    for c in segment.chars() {
        match c {
            '%' | '/' => drop(write!(text, "%{:02x}", c as u32)),
            c if c.is_ascii_control() => drop(write!(text, "%{:02x}", c as u32)),
            c => text.push(c),
        }
    }
    text
}

fn plain(segment: &str) -> Option<String> {
    let mut parts = segment.split('%');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        text.push(char::from(u8::from_str_radix(digits, 16).ok()?));
        text.push_str(rest);
    }
    Some(text)
}

fn id(path: &str) -> Option<ExpectedId> {
    let segments: Vec<_> = path.split('/').map(plain).collect::<Option<_>>()?;
    let [group, kind, partition, namespace, name] = <[String; SEGMENTS]>::try_from(segments).ok()?;
    Some(ExpectedId { type_key: TypeKey { group, kind }, partition, namespace, name, uid: String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_whatever_is_in_their_segments() {
        let keys = Keys::new("/m/");
        for name in ["plain", "a/b", "100%", "%2f", "line\nfeed", "\u{1F600}", "-"] {
            for namespace in ["", "a/b%"] {
                let id = ExpectedId {
                    type_key: TypeKey { group: "g".into(), kind: "K".into() },
                    partition: "default".into(),
                    namespace: namespace.into(),
                    name: name.into(),
                    uid: String::new(),
                };
                let key = keys.resource(&id);
                assert_eq!(keys.parse(&key), Key::Resource(id), "{}", String::from_utf8_lossy(&key));
            }
        }
        assert_eq!(keys.parse(b"/m/head"), Key::Head);
        assert_eq!(keys.parse(&keys.report("p", "s")), Key::Plan);
        assert_eq!(keys.reporter_of(&keys.report("a/b", "s")), Some(("a/b".into(), "s".into())));
        assert_eq!(keys.plugin_of(&keys.plan("a/b")).as_deref(), Some("a/b"));
        assert_eq!(keys.digest_of(&keys.component_chunk("d", 7)).as_deref(), Some("d"));
        for other in [&b"/m/r/g/K/p/n"[..], b"/m/r/g/K/p/n/a/b", b"/m/t/g/K/p/n/a", b"/other/head", b"/m/r/%zz////"] {
            assert_eq!(keys.parse(other), Key::Other);
        }
    }
}
