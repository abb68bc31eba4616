//! Facts about the server in Consul's form: it is the only server, and the leader, of its datacenter.

use std::net::SocketAddr;

use mortise_service::ResourceService;
use serde_json::{Value, json};

use super::super::version::VERSION;

/// Name of the datacenter of a server without a region: Consul's default.
const DATACENTER: &str = "dc1";

/// Name of the server on a machine without a name.
const NODE: &str = "mortise";

/// The facts.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// Name of the machine.
    node: String,
    /// The region, or Consul's default.
    pub(super) datacenter: String,
    /// Address of gRPC.
    address: SocketAddr,
}

impl Facts {
    /// Collects the facts about a server with this address of gRPC.
    pub(crate) fn new(service: &ResourceService, address: SocketAddr) -> Self {
        let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let datacenter = service.region().unwrap_or(DATACENTER).to_owned();
        Self { node: if node.is_empty() { NODE.to_owned() } else { node }, datacenter, address }
    }

    /// `/v1/status/leader`.
    pub(super) fn leader(&self) -> Value {
        json!(self.address.to_string())
    }

    /// `/v1/status/peers`.
    pub(super) fn peers(&self) -> Value {
        json!([self.address.to_string()])
    }

    /// `/v1/catalog/datacenters`.
    pub(super) fn datacenters(&self) -> Value {
        json!([self.datacenter])
    }

    /// `/v1/agent/self`.
    pub(super) fn own(&self) -> Value {
        json!({
            "Config": {
                "Datacenter": self.datacenter,
                "PrimaryDatacenter": self.datacenter,
                "NodeName": self.node,
                "NodeID": "",
                "Revision": "",
                "Server": true,
                "Version": VERSION,
            },
            "Coord": null,
            "Member": {
                "Name": self.node,
                "Addr": self.address.ip().to_string(),
                "Port": self.address.port(),
                "Tags": { "dc": self.datacenter, "role": "consul", "build": VERSION },
                "Status": 1,
            },
            "Meta": {},
            "Stats": {},
        })
    }
}
