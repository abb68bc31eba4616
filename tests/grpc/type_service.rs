//! mortise.v1.TypeService, and reflection, follow the plugins.

use std::fs;

use crate::support::{Server, Setup, eventually, gvk, plugins::Plugins as _, refusal};
use mortise_api::TypeServiceClient;
use mortise_resource::{data, manifest};
use mortise_test_guests::component;
use prost_types::FileDescriptorSet;
use tonic::Code;

async fn list(server: &Server) -> Vec<data::TypeInfo> {
    let mut client = TypeServiceClient::new(server.channel().await);
    client.list_types(data::ListTypesRequest {}).await.unwrap().into_inner().types
}

fn names(types: &[data::TypeInfo]) -> Vec<String> {
    types.iter().map(|t| mortise_resource::types::gvk(t.r#type.as_ref().unwrap())).collect()
}

#[tokio::test]
async fn types_are_listed_with_their_descriptions() {
    let server = Server::start().await;
    let types = list(&server).await;
    let names = names(&types);
    let mut sorted = names.clone();
    sorted.sort();
    assert_eq!(names, sorted);
    for host in ["internal.v1.Tombstone", "mortise.v1.Plugin", "tenancy.v2beta1.Namespace"] {
        let found = &types[names.iter().position(|n| n == host).unwrap()];
        assert_eq!((found.plugin.as_str(), found.orphaned), ("", false));
    }
    let artist = &types[names.iter().position(|n| n == "demo.v2.Artist").unwrap()];
    assert_eq!((artist.plugin.as_str(), artist.scope()), ("demo", manifest::Scope::Namespace));
    assert_eq!(artist.message, "hashicorp.consul.internal.demo.v2.Artist");
    assert!(artist.schema_version >= 1 && !artist.plugin_version.is_empty());
    assert!(artist.hooks.as_ref().unwrap().validate);
}

/// Asserts that a set contains everything that a client needs to encode the type, imports before their importers.
fn whole(set: &FileDescriptorSet) {
    let mut seen = Vec::new();
    for file in &set.file {
        for import in &file.dependency {
            assert!(seen.contains(&import.as_str()), "{import} comes after {}", file.name());
        }
        seen.push(file.name());
    }
}

#[tokio::test]
async fn a_type_comes_with_descriptors_as_soon_as_it_is_loaded() {
    let server = Setup::new().limit("plugin_rescan_ms", 200).start().await;
    let mut client = TypeServiceClient::new(server.channel().await);
    let wanted = data::GetTypeRequest { r#type: Some(gvk("prior.v1.Thing")) };
    let (code, message) = refusal(client.get_type(wanted.clone()).await);
    assert_eq!(code, Code::NotFound);
    assert!(message.contains("prior.v1.Thing not registered"), "{message}");
    assert_eq!(refusal(client.get_type(data::GetTypeRequest::default()).await).0, Code::InvalidArgument);

    server.install("prior", &fs::read(component("prior")).unwrap()).await.unwrap();
    let found = client.get_type(wanted.clone()).await.unwrap().into_inner();
    assert_eq!(found.r#type.unwrap().plugin, "prior");
    let set = found.descriptors.unwrap().decoded().unwrap();
    whole(&set);
    assert!(set.file.last().unwrap().message_type.iter().any(|m| m.name() == "Thing"));

    let mut plugins = server.plugins().await;
    plugins.remove(data::RemoveRequest { name: "prior".into() }).await.unwrap();
    eventually("the type goes", async || {
        // The type may still exist for a moment, without its plugin.
        client.clone().get_type(wanted.clone()).await.is_err_and(|status| status.code() == Code::NotFound)
    })
    .await;
}
