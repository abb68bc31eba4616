//! Connections, and the calls of this example.

use std::{error::Error, future::Future, time::Duration};

use prost::Message as _;
use tonic::{
    Code, Request, Response, Status,
    metadata::MetadataValue,
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};
use tonic_types::StatusExt as _;

use crate::api::{
    goten::types::WatchType,
    hashicorp::consul::{
        internal::demo::v2::Artist,
        resource::{
            DeleteRequest, Id, ReadRequest, Resource, Tenancy, Type, WriteRequest,
            resource_service_client::ResourceServiceClient,
        },
    },
    mortise::v1::{
        WatchResourcesRequest, WhoAmIRequest, WhoAmIResponse, auth_service_client::AuthServiceClient,
        watch_service_client::WatchServiceClient,
    },
};

/// Time for a read or a write.
const CALL_TIME: Duration = Duration::from_secs(30);
/// Attempts of a call, the first one included.
const MAX_ATTEMPTS: u32 = 5;
/// Wait before the second attempt, if the server names none; it doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// Size of the largest answer. A list may be larger than the 4 MiB that gRPC accepts by default.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Name of the message of an artist, in an `Any`.
const ARTIST_URL: &str = "type.googleapis.com/hashicorp.consul.internal.demo.v2.Artist";

/// Reads are repeated after both codes.
const READ_AGAIN: &[Code] = &[Code::Unavailable, Code::ResourceExhausted];
/// Writes are repeated only after the refusal of a rate: a write that ended with UNAVAILABLE may have been done.
const WRITE_AGAIN: &[Code] = &[Code::ResourceExhausted];

/// A channel, which is meant to be shared by all calls of a program. It connects at the first call.
///
/// # Errors
/// A file of TLS cannot be read, or the address is malformed.
pub fn connect(address: &str) -> Result<Channel, Box<dyn Error>> {
    let mut endpoint = if address.starts_with("unix:") {
        // The server knows the users of its machine.
        Endpoint::from_shared(address.to_owned())?
    } else {
        let authority = Certificate::from_pem(std::fs::read(std::env::var("MORTISE_CA_FILE")?)?);
        Endpoint::from_shared(format!("https://{address}"))?
            .tls_config(ClientTlsConfig::new().ca_certificate(authority))?
    };
    // Notices a server that went away without a word.
    endpoint = endpoint.http2_keep_alive_interval(Duration::from_secs(30)).keep_alive_timeout(Duration::from_secs(10));
    Ok(endpoint.connect_lazy())
}

/// Adds a token to each call.
#[derive(Clone)]
pub struct Token(Option<MetadataValue<tonic::metadata::Ascii>>);

impl Token {
    /// A token by its secret; without one, calls are anonymous.
    ///
    /// # Errors
    /// The secret has bytes that a header cannot have.
    pub fn new(secret: Option<&str>) -> Result<Self, Box<dyn Error>> {
        Ok(Self(secret.map(|secret| format!("Bearer {secret}").parse()).transpose()?))
    }
}

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

type Transport = InterceptedService<Channel, Token>;

/// The calls of this example, for one namespace.
#[derive(Clone)]
pub struct Client {
    resources: ResourceServiceClient<Transport>,
    pub watches: WatchServiceClient<Transport>,
    auth: AuthServiceClient<Transport>,
    tenancy: Tenancy,
}

/// A request with a deadline, which the server gets, too.
fn timed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_TIME);
    request
}

/// Repeats a call that ends with one of the codes. tonic has no service config; this is what it would do.
async fn repeated<T, F>(codes: &[Code], call: impl Fn() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let mut wait = FIRST_WAIT;
    for _ in 1..MAX_ATTEMPTS {
        match call().await {
            Err(status) if codes.contains(&status.code()) => {
                let asked = status.get_details_retry_info().and_then(|info| info.retry_delay);
                tokio::time::sleep(asked.unwrap_or(wait)).await;
                wait *= 2;
            }
            ended => return ended.map(Response::into_inner),
        }
    }
    call().await.map(Response::into_inner)
}

impl Client {
    pub fn new(channel: &Channel, token: &Token, namespace: &str) -> Self {
        let transport = || InterceptedService::new(channel.clone(), token.clone());
        Self {
            resources: ResourceServiceClient::new(transport()).max_decoding_message_size(MAX_ANSWER_BYTES),
            watches: WatchServiceClient::new(transport()).max_decoding_message_size(MAX_ANSWER_BYTES),
            auth: AuthServiceClient::new(transport()),
            tenancy: Tenancy { partition: "default".into(), namespace: namespace.into() },
        }
    }

    pub fn id(&self, name: &str) -> Id {
        Id { r#type: Some(artist_type()), name: name.into(), tenancy: Some(self.tenancy.clone()), uid: String::new() }
    }

    pub async fn who(&self) -> Result<WhoAmIResponse, Status> {
        let call = || {
            let mut auth = self.auth.clone();
            async move { auth.who_am_i(timed(WhoAmIRequest {})).await }
        };
        repeated(READ_AGAIN, call).await
    }

    pub async fn read(&self, name: &str) -> Result<Resource, Status> {
        let request = ReadRequest { id: Some(self.id(name)) };
        let call = || {
            let (mut resources, request) = (self.resources.clone(), timed(request.clone()));
            async move { resources.read(request).await }
        };
        present(repeated(READ_AGAIN, call).await?.resource)
    }

    /// Creates or replaces; with a version in the resource, it replaces only that version.
    pub async fn write(&self, resource: Resource) -> Result<Resource, Status> {
        let request = WriteRequest { resource: Some(resource) };
        let call = || {
            let (mut resources, request) = (self.resources.clone(), timed(request.clone()));
            async move { resources.write(request).await }
        };
        present(repeated(WRITE_AGAIN, call).await?.resource)
    }

    pub async fn delete(&self, id: Id) -> Result<(), Status> {
        let request = DeleteRequest { id: Some(id), version: String::new() };
        let call = || {
            let (mut resources, request) = (self.resources.clone(), timed(request.clone()));
            async move { resources.delete(request).await }
        };
        repeated(WRITE_AGAIN, call).await?;
        Ok(())
    }

    /// Changes a resource in spite of other writers: when one was faster, it reads again. `change` may run several
    /// times.
    pub async fn update(&self, name: &str, change: impl Fn(&mut Resource)) -> Result<Resource, Status> {
        loop {
            let mut resource = self.read(name).await?;
            change(&mut resource);
            match self.write(resource).await {
                Err(status) if status.code() == Code::Aborted => {}
                ended => return ended,
            }
        }
    }

    pub fn artist(&self, name: &str, title: &str) -> Resource {
        let artist = Artist { name: title.into(), ..Artist::default() };
        let data = prost_types::Any { type_url: ARTIST_URL.into(), value: artist.encode_to_vec() };
        Resource { id: Some(self.id(name)), data: Some(data), ..Resource::default() }
    }

    /// All artists of the namespace: from the token on, or with a snapshot.
    pub fn everything(&self, resume_token: &str) -> WatchResourcesRequest {
        WatchResourcesRequest {
            r#type: WatchType::Stateless.into(),
            resource_type: Some(artist_type()),
            tenancy: Some(self.tenancy.clone()),
            resume_token: resume_token.into(),
            ..WatchResourcesRequest::default()
        }
    }
}

fn artist_type() -> Type {
    Type { group: "demo".into(), group_version: "v2".into(), kind: "Artist".into() }
}

fn present(resource: Option<Resource>) -> Result<Resource, Status> {
    resource.ok_or_else(|| Status::internal("the answer has no resource"))
}

/// The content of an artist.
///
/// # Errors
/// The bytes are not of an artist.
pub fn artist_of(resource: &Resource) -> Result<Artist, prost::DecodeError> {
    Artist::decode(resource.data.as_ref().map_or(&[][..], |data| &data.value))
}

/// The code with which a call ended, and the fields that an INVALID_ARGUMENT is about.
pub fn code_of<T>(ended: &Result<T, Status>) -> String {
    let Err(status) = ended else { return "Ok".into() };
    let faults = status.get_details_bad_request().map(|request| request.field_violations).unwrap_or_default();
    faults.iter().fold(format!("{:?}", status.code()), |words, fault| format!("{words} {}", fault.field))
}
