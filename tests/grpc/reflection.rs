//! Reflection: standard clients learn every message from the server, including those of plugins.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::support::{PATIENCE, Server, Setup, eventually, gvk, skipped, tenancy};
use prost::Message as _;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto};
use tokio::{process::Command, time::timeout};

/// Tests of both versions of the protocol.
macro_rules! protocol {
    ($version:ident) => {
        mod $version {
            use super::*;
            use tonic_reflection::pb::$version::{
                ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
                server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
            };

            async fn ask(server: &Server, question: MessageRequest) -> MessageResponse {
                let mut client = ServerReflectionClient::new(server.channel().await);
                let request = ServerReflectionRequest { host: "me".into(), message_request: Some(question) };
                let mut answers = client
                    .server_reflection_info(tokio_stream::once(request.clone()))
                    .await
                    .unwrap()
                    .into_inner();
                let answer = answers.message().await.unwrap().unwrap();
                assert_eq!(answer.original_request, Some(request));
                assert_eq!(answer.valid_host, "me");
                answer.message_response.unwrap()
            }

            async fn files(server: &Server, question: MessageRequest) -> Vec<FileDescriptorProto> {
                match ask(server, question).await {
                    MessageResponse::FileDescriptorResponse(files) => files
                        .file_descriptor_proto
                        .iter()
                        .map(|bytes| FileDescriptorProto::decode(bytes.as_slice()).unwrap())
                        .collect(),
                    other => panic!("{other:?}"),
                }
            }

            async fn symbol(server: &Server, symbol: &str) -> Vec<FileDescriptorProto> {
                files(server, MessageRequest::FileContainingSymbol(symbol.into())).await
            }

            async fn error(server: &Server, question: MessageRequest) -> (i32, String) {
                match ask(server, question).await {
                    MessageResponse::ErrorResponse(error) => (error.error_code, error.error_message),
                    other => panic!("{other:?}"),
                }
            }

            /// The file that declares each symbol, all requested on one stream.
            async fn declared_in(server: &Server, symbols: &[String]) -> Vec<Option<String>> {
                let mut client = ServerReflectionClient::new(server.channel().await);
                let requests: Vec<_> = symbols
                    .iter()
                    .map(|symbol| ServerReflectionRequest {
                        host: String::new(),
                        message_request: Some(MessageRequest::FileContainingSymbol(symbol.clone())),
                    })
                    .collect();
                let mut answers =
                    client.server_reflection_info(tokio_stream::iter(requests)).await.unwrap().into_inner();
                let mut declared_in = Vec::new();
                for symbol in symbols {
                    declared_in.push(match answers.message().await.unwrap().unwrap().message_response.unwrap() {
                        MessageResponse::FileDescriptorResponse(files) => {
                            let first = files.file_descriptor_proto[0].as_slice();
                            Some(FileDescriptorProto::decode(first).unwrap().name().to_owned())
                        }
                        MessageResponse::ErrorResponse(error) if error.error_code == 5 => None,
                        other => panic!("{symbol}: {other:?}"),
                    });
                }
                declared_in
            }

            #[tokio::test]
            async fn services_are_listed() {
                let server = Server::start().await;
                let MessageResponse::ListServicesResponse(list) =
                    ask(&server, MessageRequest::ListServices("*".into())).await
                else {
                    panic!("no list");
                };
                let names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
                for name in [
                    "hashicorp.consul.resource.ResourceService",
                    "grpc.health.v1.Health",
                    "grpc.reflection.v1.ServerReflection",
                    "grpc.reflection.v1alpha.ServerReflection",
                    "conduit.proxy.destination.Destination",
                    "io.linkerd.proxy.destination.Destination",
                    "io.linkerd.proxy.inbound.InboundServerPolicies",
                    "io.linkerd.proxy.outbound.OutboundPolicies",
                ] {
                    assert!(names.iter().any(|known| known == name), "{names:?}");
                    whole(&symbol(&server, name).await);
                }
            }

            #[tokio::test]
            async fn symbols_lead_to_whole_files() {
                let server = Setup::new().guest("prior").start().await;
                for (asked, file) in [
                    ("hashicorp.consul.resource.Resource", "resource.proto"),
                    ("hashicorp.consul.resource.ResourceService", "resource.proto"),
                    // A method, a field, with and without a leading dot.
                    ("hashicorp.consul.resource.ResourceService.Write", "resource.proto"),
                    ("hashicorp.consul.resource.Resource.data", "resource.proto"),
                    (".hashicorp.consul.resource.Resource", "resource.proto"),
                    ("hashicorp.consul.internal.demo.v2.Artist", "demo/v2/demo.proto"),
                    ("hashicorp.consul.internal.demo.v2.Genre", "demo/v2/demo.proto"),
                    ("hashicorp.consul.internal.demo.v1.Artist", "demo/v1/demo.proto"),
                    ("google.protobuf.Any", "google/protobuf/any.proto"),
                    // The details of errors: grpcurl shows what it can look up.
                    ("google.rpc.BadRequest", "google/rpc/error_details.proto"),
                    ("google.rpc.RetryInfo", "google/rpc/error_details.proto"),
                    ("mortise.v1.Diagnostic", "mortise/v1/diagnostic.proto"),
                    // Loaded from the plugin folder.
                    ("mortise.test.v1.Thing", "mortise/test/v1/thing.proto"),
                ] {
                    let found = symbol(&server, asked).await;
                    assert!(found[0].name().ends_with(file), "{asked}: {}", found[0].name());
                    whole(&found);
                    let by_name =
                        files(&server, MessageRequest::FileByFilename(found[0].name().to_owned())).await;
                    assert_eq!(by_name, found, "{asked}");
                }
            }

            #[tokio::test]
            async fn every_symbol_is_found_by_its_real_name_and_by_no_other() {
                let server = Setup::new().guest("prior").start().await;
                let mut files = BTreeMap::new();
                for known in [
                    "conduit.proxy.destination.Destination",
                    "hashicorp.consul.resource.ResourceService",
                    "io.linkerd.proxy.destination.Destination",
                    "io.linkerd.proxy.outbound.OutboundPolicies",
                    "mortise.v1.ControllerService",
                    "mortise.v1.PluginService",
                    "mortise.v1.ServerService",
                    "mortise.v1.TypeService",
                    "hashicorp.consul.internal.demo.v1.Artist",
                    "hashicorp.consul.internal.demo.v2.Artist",
                    "google.protobuf.FileDescriptorProto",
                    "grpc.health.v1.Health",
                    "grpc.reflection.v1.ServerReflection",
                    "grpc.reflection.v1alpha.ServerReflection",
                    "mortise.test.v1.Thing",
                ] {
                    files.extend(symbol(&server, known).await.into_iter().map(|file| (file.name().to_owned(), file)));
                }
                let (symbols, homes): (Vec<_>, Vec<_>) = files
                    .iter()
                    .flat_map(|(home, file)| symbols(file).into_iter().map(move |symbol| (symbol, Some(home.clone()))))
                    .unzip();
                for known in [
                    "google.protobuf.EDITION_PROTO2",
                    "google.protobuf.FieldDescriptorProto.TYPE_DOUBLE",
                    "grpc.health.v1.HealthCheckResponse.SERVING",
                    "grpc.reflection.v1.ServerReflectionRequest.message_request",
                    "hashicorp.consul.internal.demo.v2.GENRE_JAZZ",
                    "hashicorp.consul.resource.ResourceService.Write",
                ] {
                    assert!(symbols.iter().any(|symbol| symbol == known), "{known} is served");
                }
                let found = declared_in(&server, &symbols).await;
                for ((symbol, home), found) in symbols.iter().zip(homes).zip(found) {
                    assert_eq!(found, home, "{symbol}");
                }

                let mut made_up: Vec<_> = symbols.iter().map(|symbol| format!("{symbol}.nope")).collect();
                made_up.extend(
                    [
                        "google.protobuf.Edition.EDITION_PROTO2",
                        "google.protobuf.nope",
                        "grpc.health.v1.HealthCheckResponse.ServingStatus.SERVING",
                        "hashicorp.consul.internal.demo.v2.Genre.GENRE_JAZZ",
                        "hashicorp.consul.resource.Resource.",
                        "hashicorp.consul.resource.ResourceService.Nope",
                        "EDITION_PROTO2",
                    ]
                    .map(str::to_owned),
                );
                let found = declared_in(&server, &made_up).await;
                for (symbol, found) in made_up.iter().zip(found) {
                    assert_eq!(found, None, "{symbol}");
                }
            }

            #[tokio::test]
            async fn extensions_of_every_message_are_listed() {
                let server = Server::start().await;
                for name in [
                    "grpc.health.v1.HealthCheckRequest",
                    "grpc.reflection.v1.ServerReflectionRequest",
                    "grpc.reflection.v1alpha.ServerReflectionRequest",
                    "hashicorp.consul.resource.Resource",
                ] {
                    match ask(&server, MessageRequest::AllExtensionNumbersOfType(name.into())).await {
                        MessageResponse::AllExtensionNumbersResponse(answer) => {
                            assert_eq!((answer.base_type_name.as_str(), answer.extension_number), (name, Vec::new()));
                        }
                        other => panic!("{name}: {other:?}"),
                    }
                }
            }

            #[tokio::test]
            async fn unknown_symbols_are_not_found_and_the_stream_continues() {
                let server = Server::start().await;
                for name in ["nothing.v1.Nothing", "hashicorp.consul.resource.Nothing", "", ".", "mortise.test.v1.Thing"] {
                    let (code, message) =
                        error(&server, MessageRequest::FileContainingSymbol(name.into())).await;
                    assert_eq!(code, 5, "{name:?}: {message}");
                }
                assert_eq!(error(&server, MessageRequest::FileByFilename("nothing.proto".into())).await.0, 5);
                let unknown = MessageRequest::AllExtensionNumbersOfType("nothing.v1.Nothing".into());
                assert_eq!(error(&server, unknown).await.0, 5);

                let mut client = ServerReflectionClient::new(server.channel().await);
                let questions = [
                    None,
                    Some(MessageRequest::FileContainingSymbol("nothing.v1.Nothing".into())),
                    Some(MessageRequest::FileContainingSymbol("hashicorp.consul.resource.ID".into())),
                ];
                let requests = questions.map(|message_request| ServerReflectionRequest {
                    host: String::new(),
                    message_request,
                });
                let mut answers =
                    client.server_reflection_info(tokio_stream::iter(requests)).await.unwrap().into_inner();
                let mut next = async || answers.message().await.unwrap().unwrap().message_response.unwrap();
                assert!(matches!(next().await, MessageResponse::ErrorResponse(error) if error.error_code == 3));
                assert!(matches!(next().await, MessageResponse::ErrorResponse(error) if error.error_code == 5));
                assert!(matches!(next().await, MessageResponse::FileDescriptorResponse(_)));
            }
        }
    };
}

protocol!(v1);
protocol!(v1alpha);

/// Asserts that every import of every file is present, once.
fn whole(files: &[FileDescriptorProto]) {
    for import in files.iter().flat_map(|file| &file.dependency) {
        assert!(files.iter().any(|file| file.name() == import), "{import} is missing");
    }
    let mut names: Vec<_> = files.iter().map(FileDescriptorProto::name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), files.len());
}

/// Full names of everything that a file declares. An enum's values are siblings of the enum.
fn symbols(file: &FileDescriptorProto) -> Vec<String> {
    let scope = file.package();
    let mut all = Vec::new();
    file.message_type.iter().for_each(|message| message_symbols(scope, message, &mut all));
    file.enum_type.iter().for_each(|declared| enum_symbols(scope, declared, &mut all));
    all.extend(file.extension.iter().map(|extension| within(scope, extension.name())));
    for service in &file.service {
        let service_name = within(scope, service.name());
        all.extend(service.method.iter().map(|method| within(&service_name, method.name())));
        all.push(service_name);
    }
    all
}

fn message_symbols(scope: &str, message: &DescriptorProto, all: &mut Vec<String>) {
    let scope = within(scope, message.name());
    all.extend(message.field.iter().chain(&message.extension).map(|field| within(&scope, field.name())));
    all.extend(message.oneof_decl.iter().map(|oneof| within(&scope, oneof.name())));
    message.nested_type.iter().for_each(|nested| message_symbols(&scope, nested, all));
    message.enum_type.iter().for_each(|nested| enum_symbols(&scope, nested, all));
    all.push(scope);
}

fn enum_symbols(scope: &str, declared: &EnumDescriptorProto, all: &mut Vec<String>) {
    all.push(within(scope, declared.name()));
    all.extend(declared.value.iter().map(|value| within(scope, value.name())));
}

fn within(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

/// A Python with the modules that the clients need. CI installs it; elsewhere the tests print that they are skipped.
async fn python() -> Option<PathBuf> {
    let python = std::env::var_os("MORTISE_TEST_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from);
    let check = Command::new(&python).args(["-c", "import grpc, grpc_reflection.v1alpha.reflection"]).output().await;
    if check.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    assert!(std::env::var_os("MORTISE_TEST_PYTHON").is_none(), "MORTISE_TEST_PYTHON lacks grpcio or grpcio-reflection");
    skipped("no python3 with the modules of `pip install grpcio grpcio-reflection`");
    None
}

/// Runs a client from the repository against a server; returns its output.
async fn run(server: &Server, script: &str) -> Option<String> {
    let python = python().await?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(script);
    let mut command = Command::new(python);
    command.arg(script).arg(server.grpc.to_string()).env("PYTHONDONTWRITEBYTECODE", "1").kill_on_drop(true);
    let output = timeout(PATIENCE * 2, command.output()).await.expect("the client ends").unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}\n{}", server.log());
    Some(out.into_owned())
}

#[tokio::test]
async fn a_python_client_without_stubs_does_everything() {
    let server = Setup::new().guest("prior").start().await;
    if let Some(out) = run(&server, "tests/grpc/reflect.py").await {
        assert!(out.ends_with("everything works\n"), "{out}");
    }
}

#[tokio::test]
async fn the_example_client_works() {
    let server = Server::start().await;
    if let Some(out) = run(&server, "examples/client-python/client.py").await {
        assert!(out.contains("stored korn") && out.contains("GENRE_DISCO"), "{out}");
    }
}

/// The same client, with types that were loaded while the server ran.
#[tokio::test]
async fn a_python_client_encodes_a_type_that_was_loaded_a_moment_ago() {
    let server = Server::start().await;
    let prior = std::fs::read(mortise_test_guests::component("prior")).unwrap();
    std::fs::write(server.plugin_dir.join("prior.wasm"), prior).unwrap();
    eventually("the type is there", async || server.list(gvk("prior.v1.Thing"), tenancy("*", "*"), "").await.is_ok())
        .await;
    if let Some(out) = run(&server, "tests/grpc/reflect.py").await {
        assert!(out.ends_with("everything works\n"), "{out}");
    }
}
