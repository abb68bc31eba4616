//! State that all routes share.

use std::sync::Arc;

use mortise_service::ResourceService;
use prost_reflect::MessageDescriptor;
use tokio::sync::{Semaphore, watch as signal};

use super::{
    body,
    consul::{Consul, Facts},
    cors::Origins,
    hosts::Hosts,
    openapi,
    options::HttpOptions,
};
use crate::{grpc::in_process::InProcess, observability::metrics_page::MetricsPage, recent_messages::RecentMessages};

/// State of the routes. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(super) service: ResourceService,
    pub(super) rpcs: InProcess,
    pub(super) metrics: MetricsPage,
    pub(super) ready: signal::Receiver<bool>,
    pub(super) options: HttpOptions,
    pub(super) openapi: Arc<openapi::Cached>,
    pub(super) bodies: body::Budget,
    pub(super) watches: Arc<Semaphore>,
    pub(super) consul: Arc<Consul>,
    pub(super) hosts: Hosts,
    #[cfg(feature = "ui")]
    pub(super) sessions: super::ui::sessions::Sessions,
    pub(super) origins: Origins,
    /// Resources of recent events as JSON, by the message of their data.
    pub(super) recent_texts: Arc<RecentMessages<MessageDescriptor, Arc<str>>>,
}

impl Shared {
    /// Creates the state.
    pub(crate) fn new(
        service: ResourceService,
        metrics: MetricsPage,
        ready: signal::Receiver<bool>,
        options: HttpOptions,
        hosts: Hosts,
        facts: Facts,
        rpcs: InProcess,
    ) -> Self {
        let watches = Arc::new(Semaphore::new(options.max_watches()));
        Self {
            consul: Consul::new(service.clone(), facts, (watches.clone(), options.max_watches())),
            service,
            rpcs,
            metrics,
            ready,
            openapi: Arc::default(),
            bodies: body::Budget::new(options.max_body_bytes),
            watches,
            origins: Origins::new(options.allowed.clone()),
            options,
            #[cfg(feature = "ui")]
            sessions: super::ui::sessions::Sessions::new(hosts.has_tls(), hosts.port()),
            hosts,
            recent_texts: Arc::default(),
        }
    }
}
