//! Plugins as resources, and the service that manages them.

use mortise_api::PluginServiceClient;
use mortise_resource::{
    data,
    pb::{self, condition::State, watch_event::Event},
};
use prost::Message as _;
use tonic::{Code, Status, transport::Channel};

use crate::support::{Server, Watch, gvk, id, tenancy, until};

/// Fields of a plugin's resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub data: data::Plugin,
    pub loaded: State,
    pub reason: String,
    pub message: String,
    pub healthy: State,
    pub generation: String,
    pub observed_generation: String,
    pub resource: pb::Resource,
}

impl From<pb::Resource> for Seen {
    fn from(resource: pb::Resource) -> Self {
        let status = &resource.status["mortise"];
        let condition = |kind: &str| status.conditions.iter().find(|c| c.r#type == kind).unwrap().clone();
        let loaded = condition("Loaded");
        Self {
            data: data::Plugin::decode(resource.data.as_ref().unwrap().value.as_slice()).unwrap(),
            loaded: loaded.state(),
            reason: loaded.reason,
            message: loaded.message,
            healthy: condition("Healthy").state(),
            generation: resource.generation.clone(),
            observed_generation: status.observed_generation.clone(),
            resource,
        }
    }
}

pub trait Plugins {
    async fn plugin(&self, name: &str) -> Option<Seen>;
    async fn plugin_names(&self) -> Vec<String>;
    async fn plugin_until(&self, name: &str, holds: impl Fn(&Seen) -> bool) -> Seen;
    async fn watch_plugins(&self) -> Watch;
    async fn plugins(&self) -> PluginServiceClient<Channel>;
    async fn install(&self, name: &str, bytes: &[u8]) -> Result<data::InstallResponse, Status>;
    async fn install_signed(&self, name: &str, bytes: &[u8], signature: &str) -> Result<data::InstallResponse, Status>;
}

impl Plugins for Server {
    async fn plugin(&self, name: &str) -> Option<Seen> {
        match self.read(&id("mortise.v1.Plugin", name)).await {
            Ok(resource) => Some(resource.into()),
            Err(status) if status.code() == Code::NotFound => None,
            Err(status) => panic!("{status}"),
        }
    }

    async fn plugin_names(&self) -> Vec<String> {
        let all = self.list(gvk("mortise.v1.Plugin"), tenancy("", ""), "").await.unwrap();
        crate::support::names(&all)
    }

    async fn plugin_until(&self, name: &str, holds: impl Fn(&Seen) -> bool) -> Seen {
        until(name, async || {
            let seen = self.plugin(name).await;
            seen.clone().filter(&holds).ok_or(seen)
        })
        .await
    }

    /// A watch of every plugin, after its snapshot.
    async fn watch_plugins(&self) -> Watch {
        let mut watch = self.watch(gvk("mortise.v1.Plugin"), None, "").await.unwrap();
        watch.snapshot().await;
        watch
    }

    async fn plugins(&self) -> PluginServiceClient<Channel> {
        PluginServiceClient::new(self.channel().await)
    }

    async fn install(&self, name: &str, bytes: &[u8]) -> Result<data::InstallResponse, Status> {
        self.install_signed(name, bytes, "").await
    }

    async fn install_signed(&self, name: &str, bytes: &[u8], signature: &str) -> Result<data::InstallResponse, Status> {
        let (name, signature) = (name.to_owned(), signature.to_owned());
        let mut messages = vec![data::InstallRequest { name, sha256: sha256(bytes), signature, ..Default::default() }];
        messages.extend(
            bytes.chunks(64 << 10).map(|chunk| data::InstallRequest { chunk: chunk.to_vec(), ..Default::default() }),
        );
        self.plugins().await.install(tokio_stream::iter(messages)).await.map(tonic::Response::into_inner)
    }
}

impl Watch {
    /// The reasons of a plugin's condition `Loaded`, without direct repetitions, up to the given one.
    pub async fn story(&mut self, name: &str, until: &str) -> Vec<String> {
        let mut story: Vec<String> = Vec::new();
        loop {
            let Event::Upsert(upsert) = self.next().await.unwrap() else { continue };
            let resource = upsert.resource.unwrap();
            if resource.id.as_ref().unwrap().name != name {
                continue;
            }
            let seen = Seen::from(resource);
            if story.last() != Some(&seen.reason) {
                story.push(seen.reason.clone());
            }
            if seen.reason == until {
                return story;
            }
        }
    }
}

/// The digest in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    mortise_plugin_manager::files::digest(bytes)
}
