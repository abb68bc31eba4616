//! Server reflection over the current registry, so that a stock client can encode a type that was loaded a moment ago.
//! Versions v1 and v1alpha differ in name only.
//!
//! Files are looked up in the host's descriptors, then in those of each plugin. A file is sent with all of its imports
//! from the same source: two plugins may have different files of the same name.

use std::{pin::Pin, sync::Arc};

use arc_swap::ArcSwap;
use futures::{Stream, stream};
use mortise_resource::grpc::DISCOVERY_DESCRIPTORS;
use mortise_service::ResourceService;
use mortise_service::registry::Registry;
use prost_reflect::{DescriptorPool, FileDescriptor, ServiceDescriptor};
use tonic::{Code, Request, Response, Status, Streaming};

use super::{
    imports::with_imports,
    services::{OptionalServices, served},
};

/// The sources of reflection.
#[derive(Clone)]
pub(crate) struct Reflection {
    registry: Arc<ArcSwap<Registry>>,
    /// Signals the stop of the server, which ends every stream.
    service: ResourceService,
    /// Health, reflection itself, and the APIs of proxies as far as they are served.
    own: DescriptorPool,
    /// The details of errors.
    details: DescriptorPool,
    parts: OptionalServices,
}

/// Descriptors of health.
const HEALTH_DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/health.bin"));

/// Folder of the messages in the details of errors; tonic has their files without it.
const DETAILS_FOLDER: &str = "google/rpc/";

impl Reflection {
    pub(crate) fn new(
        registry: Arc<ArcSwap<Registry>>,
        service: ResourceService,
        parts: OptionalServices,
    ) -> Result<Self, prost_reflect::DescriptorError> {
        let mut own = DescriptorPool::new();
        for set in [
            HEALTH_DESCRIPTORS,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ] {
            own.decode_file_descriptor_set(set)?;
        }
        if parts.discovery || parts.identity {
            own.decode_file_descriptor_set(DISCOVERY_DESCRIPTORS)?;
        }
        let without_folder = DescriptorPool::decode(tonic_types::pb::FILE_DESCRIPTOR_SET)?;
        let mut details = DescriptorPool::new();
        details.add_file_descriptor_protos(without_folder.file_descriptor_protos().cloned().map(|mut file| {
            if file.package() == "google.rpc" {
                file.name = Some(format!("{DETAILS_FOLDER}{}", file.name()));
            }
            file
        }))?;
        Ok(Self { registry, service, own, details, parts })
    }

    /// Full names of all methods of this server, such as `hashicorp.consul.resource.ResourceService/Write`.
    pub(crate) fn methods(&self) -> Vec<String> {
        let methods = |service: ServiceDescriptor| {
            let name = |m: prost_reflect::MethodDescriptor| format!("{}/{}", service.full_name(), m.name());
            service.methods().map(name).collect::<Vec<_>>()
        };
        self.services().flat_map(methods).collect()
    }

    /// All services of this server, by name.
    fn services(&self) -> impl Iterator<Item = ServiceDescriptor> {
        let registry = self.registry.load_full();
        served(self.parts)
            .filter_map(move |one| self.pools(&registry).find_map(|pool| pool.get_service_by_name(one.name)))
    }

    fn pools<'a>(&'a self, registry: &'a Registry) -> impl Iterator<Item = &'a DescriptorPool> {
        registry.pools().chain([&self.own, &self.details])
    }

    fn find(&self, look: impl Fn(&DescriptorPool) -> Option<FileDescriptor>) -> Option<Vec<Vec<u8>>> {
        let registry = self.registry.load();
        let file = self.pools(&registry).find_map(look)?;
        // Clients take the first file for the requested one.
        Some(with_imports(file).into_iter().rev().map(|file| file.encode_to_vec()).collect())
    }

    fn by_symbol(&self, symbol: &str) -> Option<Vec<Vec<u8>>> {
        self.find(|pool| file_of(pool, symbol))
    }

    fn by_name(&self, name: &str) -> Option<Vec<Vec<u8>>> {
        self.find(|pool| pool.get_file_by_name(name))
    }

    fn by_extension(&self, message: &str, number: u32) -> Option<Vec<Vec<u8>>> {
        self.find(|pool| {
            let message = pool.get_message_by_name(message)?;
            message.get_extension(number).map(|extension| extension.parent_file())
        })
    }

    fn extensions(&self, message: &str) -> Option<Vec<i32>> {
        let registry = self.registry.load();
        let message = self.pools(&registry).find_map(|pool| pool.get_message_by_name(message))?;
        Some(message.extensions().filter_map(|extension| i32::try_from(extension.number()).ok()).collect())
    }
}

/// The file that declares a symbol, directly or as a member.
fn file_of(pool: &DescriptorPool, symbol: &str) -> Option<FileDescriptor> {
    pool.get_message_by_name(symbol)
        .map(|d| d.parent_file())
        .or_else(|| pool.get_enum_by_name(symbol).map(|d| d.parent_file()))
        .or_else(|| pool.get_service_by_name(symbol).map(|d| d.parent_file()))
        .or_else(|| pool.get_extension_by_name(symbol).map(|d| d.parent_file()))
        .or_else(|| file_of_member(pool, symbol))
}

/// The file that declares a field, a oneof, a method or an enum value.
fn file_of_member(pool: &DescriptorPool, symbol: &str) -> Option<FileDescriptor> {
    let (parent, name) = split(symbol);
    if let Some(message) = pool.get_message_by_name(parent)
        && (message.get_field_by_name(name).is_some() || message.oneofs().any(|oneof| oneof.name() == name))
    {
        return Some(message.parent_file());
    }
    if let Some(service) = pool.get_service_by_name(parent) {
        return service.methods().any(|method| method.name() == name).then(|| service.parent_file());
    }
    // An enum's values belong to the scope of the enum.
    pool.all_enums()
        .find(|d| split(d.full_name()).0 == parent && d.get_value_by_name(name).is_some())
        .map(|d| d.parent_file())
}

/// Splits a symbol into its scope, empty at the top, and its last name.
fn split(symbol: &str) -> (&str, &str) {
    symbol.rsplit_once('.').unwrap_or(("", symbol))
}

/// A version of the protocol.
macro_rules! protocol {
    ($version:ident) => {
        pub(crate) mod $version {
            use super::*;
            use tonic_reflection::pb::$version::{
                ErrorResponse, ExtensionNumberResponse, FileDescriptorResponse, ListServiceResponse,
                ServerReflectionRequest, ServerReflectionResponse, ServiceResponse,
                server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
                server_reflection_server::ServerReflection,
            };

            fn reply(reflection: &Reflection, asked: Option<&MessageRequest>) -> Result<MessageResponse, Status> {
                let files = |found: Option<Vec<Vec<u8>>>, wanted: &str| {
                    found
                        .map(|file_descriptor_proto| {
                            MessageResponse::FileDescriptorResponse(FileDescriptorResponse { file_descriptor_proto })
                        })
                        .ok_or_else(|| Status::not_found(format!("{wanted} is not known to this server")))
                };
                match asked {
                    Some(MessageRequest::FileByFilename(name)) => files(reflection.by_name(name), name),
                    Some(MessageRequest::FileContainingSymbol(symbol)) => {
                        files(reflection.by_symbol(symbol.trim_start_matches('.')), symbol)
                    }
                    Some(MessageRequest::FileContainingExtension(e)) => {
                        let number = u32::try_from(e.extension_number).unwrap_or(0);
                        files(reflection.by_extension(&e.containing_type, number), &e.containing_type)
                    }
                    Some(MessageRequest::AllExtensionNumbersOfType(name)) => reflection
                        .extensions(name)
                        .map(|extension_number| {
                            MessageResponse::AllExtensionNumbersResponse(ExtensionNumberResponse {
                                base_type_name: name.clone(),
                                extension_number,
                            })
                        })
                        .ok_or_else(|| Status::not_found(format!("{name} is not known to this server"))),
                    Some(MessageRequest::ListServices(_)) => {
                        let names = reflection.services().map(|service| service.full_name().to_owned());
                        let service = names.map(|name| ServiceResponse { name }).collect();
                        Ok(MessageResponse::ListServicesResponse(ListServiceResponse { service }))
                    }
                    None => Err(Status::invalid_argument("message_request is required")),
                }
            }

            #[tonic::async_trait]
            impl ServerReflection for Reflection {
                type ServerReflectionInfoStream =
                    Pin<Box<dyn Stream<Item = Result<ServerReflectionResponse, Status>> + Send>>;

                async fn server_reflection_info(
                    &self,
                    request: Request<Streaming<ServerReflectionRequest>>,
                ) -> Result<Response<Self::ServerReflectionInfoStream>, Status> {
                    let state = (self.clone(), request.into_inner(), Box::pin(self.service.stopped()));
                    let replies = stream::try_unfold(state, |(reflection, mut requests, mut stopped)| async move {
                        let request = tokio::select! {
                            // Requests from before the stop are still answered.
                            biased;
                            request = requests.message() => request?,
                            () = &mut stopped => return Err(Status::unavailable("the server is stopping")),
                        };
                        let Some(request) = request else { return Ok(None) };
                        let message = reply(&reflection, request.message_request.as_ref()).unwrap_or_else(|e| {
                            MessageResponse::ErrorResponse(ErrorResponse {
                                error_code: Code::from(e.code()) as i32,
                                error_message: e.message().to_owned(),
                            })
                        });
                        let reply = ServerReflectionResponse {
                            valid_host: request.host.clone(),
                            original_request: Some(request),
                            message_response: Some(message),
                        };
                        Ok(Some((reply, (reflection, requests, stopped))))
                    });
                    Ok(Response::new(Box::pin(replies)))
                }
            }
        }
    };
}

protocol!(v1);
protocol!(v1alpha);
