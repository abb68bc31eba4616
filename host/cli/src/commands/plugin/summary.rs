//! Summaries of plugins.

use mortise_resource::{data, pb, types};
use prost::Message as _;

use crate::{CliError, Session};

/// A plugin as its resource tells it.
pub(crate) struct PluginSummary {
    pub(crate) name: String,
    pub(super) plugin: data::Plugin,
    /// Reasons and messages of its conditions.
    pub(super) stage: String,
    pub(super) health: String,
    pub(super) message: String,
}

impl From<&pb::Resource> for PluginSummary {
    fn from(resource: &pb::Resource) -> Self {
        let bytes = resource.data.as_ref().map(|any| any.value.as_slice()).unwrap_or_default();
        let conditions: Vec<_> = resource.status.values().flat_map(|status| &status.conditions).collect();
        let find = |kind: &str| conditions.iter().find(|condition| condition.r#type == kind);
        let reason = |kind: &str| find(kind).map(|condition| condition.reason.clone()).unwrap_or_default();
        let wrong = |c: &&&pb::Condition| c.state() != pb::condition::State::True && !c.message.is_empty();
        // Over etcd, each server has its conditions, and the worst ones stand for all.
        let mut messages: Vec<&str> = Vec::new();
        for condition in conditions.iter().filter(wrong) {
            if !messages.contains(&condition.message.as_str()) {
                messages.push(&condition.message);
            }
        }
        Self {
            name: resource.id.as_ref().map(|id| id.name.clone()).unwrap_or_default(),
            plugin: data::Plugin::decode(bytes).unwrap_or_default(),
            stage: reason("Loaded"),
            health: reason("Healthy"),
            message: messages.join("; "),
        }
    }
}

impl PluginSummary {
    /// Lists the plugins of a server.
    pub(crate) async fn all(session: &Session) -> Result<Vec<Self>, CliError> {
        let request = pb::ListRequest {
            r#type: Some(types::plugin().to_pb()),
            tenancy: Some(pb::Tenancy::default()),
            name_prefix: String::new(),
        };
        let resources = session.call("plugins", session.resources().list(request)).await?.resources;
        Ok(resources.iter().map(Self::from).collect())
    }

    /// `version 1.2.0 (sha256 0123456789ab)`.
    pub(super) fn what(&self) -> String {
        format!("version {} (sha256 {})", self.plugin.version, short(&self.plugin.digest))
    }
}

/// Enough of a digest for people.
pub(super) fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}
