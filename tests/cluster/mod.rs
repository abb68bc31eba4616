//! Several servers that share their content through etcd (docs/cluster.md).

mod access;
mod etcd;
mod migrate;
mod placement;
mod plugins;
mod sharing;
mod upgrade;

use std::sync::atomic::{AtomicU64, Ordering};

use mortise_api::ServerServiceClient;
use mortise_resource::data::{ListMembersRequest, Member};

use crate::support::{Server, Setup, skipped, until};

/// A place in etcd that the servers of a test share.
struct Shared {
    endpoint: String,
    prefix: String,
}

impl Shared {
    /// Returns a new place; `None`, said loudly, without etcd.
    fn new() -> Option<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let Some(endpoint) = mortise_test_process::etcd::shared().unwrap() else {
            skipped("no etcd: servers that share their content");
            return None;
        };
        let prefix = format!("/shared-{}/", NEXT.fetch_add(1, Ordering::Relaxed));
        Some(Self { endpoint: endpoint.to_owned(), prefix })
    }

    /// The setting of a server in this place.
    fn setup(&self) -> Setup {
        Setup::new()
            .arg("--store-engine")
            .arg("etcd")
            .arg("--etcd-endpoints")
            .arg(&self.endpoint)
            .env("MORTISE_STORE_ETCD_PREFIX", &self.prefix)
    }

    async fn start(&self) -> Server {
        self.setup().start().await
    }
}

/// Waits until a server knows so many members that have opened their ports; returns them.
async fn members(server: &Server, count: usize) -> Vec<Member> {
    let mut client = ServerServiceClient::new(server.channel().await);
    until("all servers are members", async || {
        let found = client.list_members(ListMembersRequest {}).await.unwrap().into_inner().members;
        let known = found.iter().filter(|member| !member.version.is_empty()).count();
        if known == count && found.len() == count { Ok(found) } else { Err(found) }
    })
    .await
}
