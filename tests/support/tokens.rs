//! A server that requires tokens.

use mortise_resource::{data, pb};
use sha2::{Digest as _, Sha256};
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};

use crate::support::*;

/// Puts a token on every call.
#[derive(Clone)]
pub struct As(pub Option<MetadataValue<Ascii>>);

impl Interceptor for As {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("x-consul-token", token.clone());
        }
        Ok(request)
    }
}

pub type Holder = InterceptedService<Channel, As>;

/// A server that requires tokens, and its first token.
pub struct Guarded {
    pub server: Server,
    /// Secret of the first token.
    pub management: String,
}

impl Guarded {
    pub async fn start(setup: Setup) -> Self {
        let server = setup.acl().start().await;
        let file = server.data_dir.join("bootstrap-token");
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&file).unwrap()) & 0o777;
        assert_eq!(mode, 0o600, "nobody else reads it");
        let management = std::fs::read_to_string(file).unwrap().trim().to_owned();
        assert_eq!(management.len(), 64);
        Self { server, management }
    }

    pub async fn channel(&self, secret: &str) -> Holder {
        let token = (!secret.is_empty()).then(|| secret.parse().unwrap());
        InterceptedService::new(self.server.channel().await, As(token))
    }

    pub async fn resources(&self, secret: &str) -> mortise_api::ResourceServiceClient<Holder> {
        mortise_api::ResourceServiceClient::new(self.channel(secret).await)
    }

    /// Writes with all rights.
    pub async fn write(&self, resource: pb::Resource) -> pb::Resource {
        let mut client = self.resources(&self.management).await;
        client.write(pb::WriteRequest { resource: Some(resource) }).await.unwrap().into_inner().resource.unwrap()
    }

    pub async fn delete(&self, id: pb::Id) {
        let mut client = self.resources(&self.management).await;
        client.delete(pb::DeleteRequest { id: Some(id), version: String::new() }).await.unwrap();
    }

    pub async fn policy(&self, name: &str, rules: &str, type_rules: Vec<data::TypeRule>) -> pb::Resource {
        let policy = data::Policy { description: String::new(), rules: rules.to_owned(), type_rules };
        self.write(resource(id("mortise.v1.Policy", name), Some(any("mortise.v1.Policy", &policy)))).await
    }

    /// A token with policies; its secret is its name, repeated.
    pub async fn token(&self, name: &str, policies: &[&str], change: impl FnOnce(&mut data::Token)) -> String {
        let secret = name.repeat(8);
        let mut token = data::Token {
            secret_sha256: Sha256::digest(secret.as_bytes()).to_vec(),
            policies: policies.iter().map(|one| (*one).to_owned()).collect(),
            ..data::Token::default()
        };
        change(&mut token);
        self.write(resource(id("mortise.v1.Token", name), Some(any("mortise.v1.Token", &token)))).await;
        secret
    }
}
