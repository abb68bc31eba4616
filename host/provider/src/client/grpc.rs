//! A server over gRPC.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use mortise_resource::{
    data::{
        BackupRequest, BackupResponse, CallFunctionRequest, DisableRequest, EnableRequest, FunctionInfo,
        GetTypeRequest, ImportRequest, ImportResponse, InspectRequest, ListFunctionsRequest, ListTypesRequest,
        MoveRequest, MoveResponse, PlanDeleteRequest, PlanDeleteResponse, PlanRequest, PlanResponse, ResetRequest,
        RollbackRequest, SearchRequest, SearchResponse, WhoAmIRequest, call_function_response::Outcome,
    },
    grpc::{
        AuthServiceClient, ChangeServiceClient, FunctionServiceClient, OwnershipServiceClient, PluginServiceClient,
        QueryServiceClient, ResourceServiceClient, ServerServiceClient, TypeServiceClient,
    },
    pb,
    types::gvk,
};
use tonic::{
    Code, Request, Response, Status, Streaming,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};

use super::{ResourceClient, retry::while_hooks_are_late};
use crate::schema::{PluginChange, TypeDescription};

/// Largest answer in bytes.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// A server behind a channel. Each call carries the token, and fails after the timeout.
#[derive(Clone)]
pub struct GrpcClient {
    channel: Channel,
    token: Option<MetadataValue<Ascii>>,
    address: String,
    timeout: Duration,
}

impl GrpcClient {
    /// Makes a client on a channel. `address` is for people.
    #[must_use]
    pub fn new(channel: Channel, token: Option<MetadataValue<Ascii>>, address: String, timeout: Duration) -> Self {
        Self { channel, token, address, timeout }
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("x-consul-token", token.clone());
        }
        request
    }

    /// Waits for the answer of a method, and logs the call: `about` is the resource, type or function in question.
    async fn answer<T>(
        &self,
        method: &'static str,
        about: &str,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Status> {
        let start = Instant::now();
        let answer = match tokio::time::timeout(self.timeout, call).await {
            Ok(answer) => answer.map(Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded(format!("no answer within {:?}", self.timeout))),
        };
        let code = answer.as_ref().err().map_or(Code::Ok, Status::code);
        let duration = format!("{:.1}ms", start.elapsed().as_secs_f64() * 1e3);
        tracing::debug!(method, id = about, duration, code = ?code, "called the server");
        answer
    }

    fn resources(&self) -> ResourceServiceClient<Channel> {
        ResourceServiceClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_ANSWER_BYTES)
            .max_encoding_message_size(MAX_ANSWER_BYTES)
    }

    fn changes(&self) -> ChangeServiceClient<Channel> {
        ChangeServiceClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_ANSWER_BYTES)
            .max_encoding_message_size(MAX_ANSWER_BYTES)
    }

    fn function_service(&self) -> FunctionServiceClient<Channel> {
        FunctionServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    fn ownership(&self) -> OwnershipServiceClient<Channel> {
        OwnershipServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    fn type_service(&self) -> TypeServiceClient<Channel> {
        TypeServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }
}

/// A resource's type, place and name, joined by slashes.
fn about(id: Option<&pb::Id>) -> String {
    let Some(id) = id else { return String::new() };
    let place = id.tenancy.iter().flat_map(|tenancy| [&tenancy.partition, &tenancy.namespace]);
    let mut parts = vec![id.r#type.as_ref().map(gvk).unwrap_or_default()];
    parts.extend(place.filter(|unit| !unit.is_empty()).cloned());
    parts.push(id.name.clone());
    parts.join("/")
}

pub(crate) fn resource(answer: Option<pb::Resource>) -> Result<pb::Resource, Status> {
    answer.ok_or_else(|| Status::internal("the server's answer holds no resource"))
}

#[async_trait]
impl ResourceClient for GrpcClient {
    async fn types(&self) -> Result<Vec<TypeDescription>, Status> {
        let mut service = self.type_service();
        let all = self.answer("ListTypes", "", service.list_types(self.request(ListTypesRequest {}))).await?.types;
        let mut described = Vec::with_capacity(all.len());
        for info in all {
            let request = self.request(GetTypeRequest { r#type: info.r#type.clone() });
            let about = info.r#type.as_ref().map(gvk).unwrap_or_default();
            match self.answer("GetType", &about, service.get_type(request)).await {
                Ok(answer) => {
                    let descriptors = answer.descriptors.unwrap_or_default();
                    described.push(TypeDescription { info: answer.r#type.unwrap_or(info), descriptors });
                }
                // The type went away with its plugin between the two calls.
                Err(status) if status.code() == Code::NotFound => {}
                Err(status) => return Err(status),
            }
        }
        Ok(described)
    }

    async fn plan(&self, resource: pb::Resource, create: bool) -> Result<PlanResponse, Status> {
        let about = about(resource.id.as_ref());
        let request = PlanRequest { resource: Some(resource), create };
        while_hooks_are_late(|| {
            let (mut service, request) = (self.changes(), self.request(request.clone()));
            self.answer("Plan", &about, async move { service.plan(request).await })
        })
        .await
    }

    async fn move_resource(&self, request: MoveRequest) -> Result<MoveResponse, Status> {
        let about = about(request.id.as_ref());
        while_hooks_are_late(|| {
            let (mut service, request) = (self.changes(), self.request(request.clone()));
            self.answer("Move", &about, async move { service.r#move(request).await })
        })
        .await
    }

    async fn import(&self, request: ImportRequest) -> Result<ImportResponse, Status> {
        let about = request.r#type.as_ref().map(gvk).unwrap_or_default();
        while_hooks_are_late(|| {
            let (mut service, request) = (self.changes(), self.request(request.clone()));
            self.answer("Import", &about, async move { service.import(request).await })
        })
        .await
    }

    async fn functions(&self) -> Result<Vec<FunctionInfo>, Status> {
        let request = self.request(ListFunctionsRequest {});
        Ok(self
            .answer("ListFunctions", "", async { self.function_service().list_functions(request).await })
            .await?
            .functions)
    }

    async fn call_function(&self, request: CallFunctionRequest) -> Result<Outcome, Status> {
        let about = format!("{}.{}", request.plugin, request.name);
        let request = self.request(request);
        let answer =
            self.answer("CallFunction", &about, async { self.function_service().call_function(request).await }).await?;
        answer.outcome.ok_or_else(|| Status::internal("the server's answer holds no result"))
    }

    async fn read(&self, id: pb::Id) -> Result<Option<pb::Resource>, Status> {
        let about = about(Some(&id));
        let request = self.request(pb::ReadRequest { id: Some(id) });
        match self.answer("Read", &about, async { self.resources().read(request).await }).await {
            Ok(answer) => resource(answer.resource).map(Some),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(status),
        }
    }

    async fn write(&self, resource: pb::Resource) -> Result<pb::Resource, Status> {
        let about = about(resource.id.as_ref());
        let request = pb::WriteRequest { resource: Some(resource) };
        let write = || {
            let (mut service, request) = (self.resources(), self.request(request.clone()));
            self.answer("Write", &about, async move { service.write(request).await })
        };
        self::resource(while_hooks_are_late(write).await?.resource)
    }

    async fn delete(&self, id: pb::Id) -> Result<(), Status> {
        let about = about(Some(&id));
        let request = self.request(pb::DeleteRequest { id: Some(id), version: String::new() });
        match self.answer("Delete", &about, async { self.resources().delete(request).await }).await {
            Ok(_) => Ok(()),
            Err(status) if status.code() == Code::NotFound => Ok(()),
            Err(status) => Err(status),
        }
    }

    async fn plan_delete(&self, id: pb::Id) -> Result<PlanDeleteResponse, Status> {
        let about = about(Some(&id));
        let request = self.request(PlanDeleteRequest { id: Some(id) });
        self.answer("PlanDelete", &about, async { self.ownership().plan_delete(request).await }).await
    }

    async fn own_place(&self) -> Result<pb::Tenancy, Status> {
        let request = self.request(WhoAmIRequest {});
        let mut service = AuthServiceClient::new(self.channel.clone());
        let known = self.answer("WhoAmI", "", async move { service.who_am_i(request).await }).await?;
        Ok(pb::Tenancy { partition: known.partition, namespace: known.namespace })
    }

    async fn search(&self, request: SearchRequest) -> Result<SearchResponse, Status> {
        let about = request.r#type.as_ref().map(gvk).unwrap_or_default();
        let request = self.request(request);
        let mut service = QueryServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES);
        self.answer("Search", &about, async move { service.search(request).await }).await
    }

    async fn plugin(&self, name: &str) -> Result<pb::Resource, Status> {
        let request = self.request(InspectRequest { name: name.to_owned() });
        let mut service = PluginServiceClient::new(self.channel.clone());
        resource(self.answer("Inspect", name, async move { service.inspect(request).await }).await?.plugin)
    }

    async fn change_plugin(&self, change: PluginChange, plugin: &str) -> Result<pb::Resource, Status> {
        let mut service = PluginServiceClient::new(self.channel.clone());
        let name = plugin.to_owned();
        let changed = match change {
            PluginChange::Disable => {
                let request = self.request(DisableRequest { name });
                self.answer("Disable", plugin, async move { service.disable(request).await }).await?.plugin
            }
            PluginChange::Enable => {
                let request = self.request(EnableRequest { name });
                self.answer("Enable", plugin, async move { service.enable(request).await }).await?.plugin
            }
            PluginChange::Reset => {
                let request = self.request(ResetRequest { name });
                self.answer("Reset", plugin, async move { service.reset(request).await }).await?.plugin
            }
            PluginChange::Rollback => {
                let request = self.request(RollbackRequest { name });
                self.answer("Rollback", plugin, async move { service.rollback(request).await }).await?.plugin
            }
        };
        resource(changed)
    }

    async fn backup(&self, request: BackupRequest) -> Result<Streaming<BackupResponse>, Status> {
        let request = self.request(request);
        let mut service = ServerServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES);
        self.answer("Backup", "", async move { service.backup(request).await }).await
    }

    fn address(&self) -> &str {
        &self.address
    }
}
