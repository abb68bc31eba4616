//! Fields that refer to other resources: the targets that a write needs, and the effect of a deletion on referrers.

mod deletions;
mod protection;
mod records;
mod targets;

use mortise_api::OwnershipServiceClient;
use mortise_resource::pb;
use mortise_test_guests::Node;
use tonic::transport::Channel;

use crate::support::{Server, Setup, any, gvk, id, names, resource, tenancy};

pub const NODE: &str = "references.v1.Node";
pub const HUB: &str = "references.v1.Hub";

pub async fn start() -> Server {
    setup().start().await
}

pub fn setup() -> Setup {
    Setup::new().guest("references").env("MORTISE_SERVICE_CASCADE_SECOND_PASS_MS", 300)
}

pub fn node(name: &str, node: &Node) -> pb::Resource {
    resource(id(NODE, name), Some(any("mortise.test.v1.Node", node)))
}

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

async fn all(server: &Server) -> Vec<String> {
    let mut names = names(&server.list(gvk(NODE), tenancy("*", "*"), "").await.unwrap());
    names.sort();
    names
}

async fn delete(server: &Server, name: &str) -> Result<(), tonic::Status> {
    server.delete(&id(NODE, name), "").await
}

pub async fn ownership(server: &Server) -> OwnershipServiceClient<Channel> {
    OwnershipServiceClient::new(server.channel().await)
}

/// The same types in a version of the plugin that declares no references: decoding drops unknown options.
fn undeclared() -> Vec<u8> {
    use mortise_resource::manifest::Scope;
    use prost::Message as _;
    let mut manifest = mortise_test_guests::good_manifest();
    let plain = prost_types::FileDescriptorSet::decode(mortise_test_guests::DESCRIPTORS).unwrap();
    (manifest.name, manifest.version) = ("references".into(), "0.0.1".into());
    manifest.descriptors = Some(prost::Message::decode(plain.encode_to_vec().as_slice()).unwrap());
    let template = manifest.types.remove(0);
    for (kind, scope) in [("Node", Scope::Namespace), ("Hub", Scope::Cluster)] {
        let mut one = template.clone();
        (one.group, one.kind) = ("references".into(), kind.into());
        (one.message, one.scope) = (format!("mortise.test.v1.{kind}"), scope.into());
        manifest.types.push(one);
    }
    mortise_test_guests::manifest_only(&manifest.encode_to_vec())
}
