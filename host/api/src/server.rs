//! Listening, serving, and stopping without dropping a call.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use futures::{StreamExt as _, future::BoxFuture, stream};
use metrics_exporter_prometheus::PrometheusHandle;
use mortise_plugin_manager::Manager;
use mortise_plugin_manager::controllers::ControllerManager;
use mortise_region::Replication;
use mortise_resource::data::server_status_response::ScheduledBackups;
use mortise_service::ResourceService;
use mortise_service::registry::Registry;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinError,
    time::{sleep, timeout},
};
use tonic::{service::Routes, transport::Server};
use tonic_reflection::pb::{
    v1::server_reflection_server::ServerReflectionServer as ReflectionV1,
    v1alpha::server_reflection_server::ServerReflectionServer as ReflectionV1Alpha,
};

use crate::{
    authority::{Authority, AuthorityError, IdentityOptions},
    configuration::Configuration,
    dns::{self, DnsOptions, DnsPorts},
    grpc::{
        auth_service::AuthApi,
        calls::{CallLimits, Calls, SMALL_MESSAGE_BYTES},
        change_service::ChangeApi,
        connections::{self, ConnectionLimits},
        content_type::ContentTypeLayer,
        controller_service::ControllerApi,
        destination::{Conduit, Destination, DestinationOptions, Linkerd, Outbound},
        function_service::FunctionApi,
        health::{self, Health, ServerHealth},
        identity::IdentityApi,
        in_process::InProcess,
        inbound::InboundApi,
        ownership_service::OwnershipApi,
        plugin_service::PluginApi,
        query_service::QueryApi,
        reflection::Reflection,
        region_service::RegionApi,
        server_service::ServerApi,
        services::OptionalServices,
        type_service::TypeApi,
        watch_service::WatchApi,
    },
    health::health_server::HealthServer,
    http::{self, HttpOptions},
    linkerd::{
        identity::identity_server::IdentityServer, inbound::inbound_server_policies_server::InboundServerPoliciesServer,
    },
    observability::{
        metrics::upkeep,
        metrics_page::MetricsPage,
        requests::{HttpCounts, RequestCounts},
        server_status::{ServerInfo, Sources},
    },
    places::Places,
    plugin_stubs::{
        auth_service_server::AuthServiceServer, change_service_server::ChangeServiceServer,
        controller_service_server::ControllerServiceServer, function_service_server::FunctionServiceServer,
        ownership_service_server::OwnershipServiceServer, plugin_service_server::PluginServiceServer,
        query_service_server::QueryServiceServer, region_service_server::RegionServiceServer,
        server_service_server::ServerServiceServer, type_service_server::TypeServiceServer,
        watch_service_server::WatchServiceServer,
    },
    tasks::{Task, first_ended},
    tls::{Tls, TlsError, TlsOptions},
    transport::LocalConnections,
    write_health::WriteHealth,
};

/// Longest time for gRPC connections to close after their last call: longer than one is read after its end
/// (`grpc::lingering`), so that a slow client does not lose its last answer to the end of the process.
const CONNECTION_CLOSE_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Concurrent calls of one gRPC connection. A client may give up as many before they begin, and may make the server
/// reset as many for faults of HTTP/2 over the life of the connection; one more ends the connection with GOAWAY.
const MAX_STREAMS: u32 = 2_048;

/// Longest wait for the answer to the ping of a silent gRPC connection before the connection is closed.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Options of the server, in config.toml.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Address of gRPC; port 0 lets the system pick one.
    pub grpc_addr: SocketAddr,
    /// Address of HTTP; port 0 lets the system pick one.
    pub http_addr: SocketAddr,
    /// Largest request, bytes.
    pub max_request_bytes: usize,
    /// Concurrent connections of the gRPC port; further ones are closed. A new connection has
    /// [`HttpOptions::request_timeout`] to send its first bytes.
    pub max_connections: usize,
    /// Concurrent calls of a caller, over all its connections, while access control is on.
    pub caller_streams: usize,
    /// Silence of a gRPC connection before its client is pinged.
    pub keep_alive: Duration,
    /// Longest time for calls in flight to finish at shutdown.
    pub grace: Duration,
    /// Bytes of arriving gRPC messages; beyond them, messages over 4 KiB are refused (`grpc.inbound_buffer_bytes`).
    pub request_bytes: usize,
    /// Bytes of large gRPC answers that wait for their clients; beyond them, the answers that were read least recently
    /// end (`grpc.outbound_buffer_bytes`).
    pub answer_bytes: usize,
    /// Longest time for the upload of a plugin.
    pub upload_timeout: Duration,
    /// The destination API.
    pub destination: DestinationOptions,
    /// Options of the HTTP port.
    pub http: HttpOptions,
    /// The identity service; `None` serves no identities.
    pub identity: Option<IdentityOptions>,
    /// TLS for gRPC and HTTP; without it, both are in the clear.
    pub tls: Option<TlsOptions>,
    /// Options of the DNS port; `None` serves no DNS.
    pub dns: Option<DnsOptions>,
}

/// The reason why the server does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is in use, or does not belong to this machine.
    #[error("cannot listen on {addr} ({setting}): {source}")]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// The setting that names it.
        setting: &'static str,
        /// Fault from the system.
        source: io::Error,
    },
    /// The files of TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The files of the authority for identities cannot be used.
    #[error(transparent)]
    Identity(#[from] AuthorityError),
    /// The transport failed.
    #[error("serving gRPC: {0}")]
    Grpc(#[from] tonic::transport::Error),
    /// The compiled-in descriptors are broken.
    #[error("reflection: {0}")]
    Reflection(#[from] prost_reflect::DescriptorError),
    /// A task that must run as long as the server ended.
    #[error("{task} ended by itself, so the server stops; start it again: {}", reason(.source))]
    Task {
        /// Name of the task.
        task: &'static str,
        /// The task's panic; without one, the log has the reason.
        #[source]
        source: Option<JoinError>,
    },
    /// The system does not report a port's address.
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn reason(ended: &Option<JoinError>) -> String {
    ended.as_ref().map_or_else(|| "it gave no reason".to_owned(), JoinError::to_string)
}

/// The services behind the ports.
pub struct Services {
    /// Facts about the process.
    pub about: ServerInfo,
    /// The resource service.
    pub service: ResourceService,
    /// The registry of types.
    pub registry: Arc<ArcSwap<Registry>>,
    /// The manager of plugins.
    pub manager: Manager,
    /// The manager of controllers.
    pub controller_manager: ControllerManager,
    /// The replication from other regions.
    pub regions: Replication,
    /// The recorded metrics.
    pub metrics: PrometheusHandle,
    /// The configuration.
    pub configuration: Arc<dyn Configuration>,
    /// The state of scheduled backups, if there are any.
    pub backups: watch::Receiver<Option<ScheduledBackups>>,
}

/// Open ports that are not served yet. Clients that connect wait for
/// [`OpenPorts::serve`].
pub struct OpenPorts {
    pub(crate) grpc: TcpListener,
    pub(crate) http: TcpListener,
    pub(crate) dns: Option<DnsPorts>,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) authority: Option<Arc<Authority>>,
    pub(crate) local: Option<LocalConnections>,
    pub(crate) options: ServerOptions,
}

impl OpenPorts {
    /// Serves until `stop` resolves; then ends watches, lets calls in flight finish, and returns.
    ///
    /// # Errors
    /// The transport failed, or a necessary task ended.
    pub fn serve(self, parts: Services, stop: BoxFuture<'static, ()>) -> BoxFuture<'static, Result<(), ServeError>> {
        Box::pin(async move {
            let Services {
                about,
                service,
                registry,
                manager,
                controller_manager,
                regions,
                metrics,
                configuration,
                backups,
            } = parts;
            let (ready_tx, ready) = watch::channel(true);
            let write_health = WriteHealth::new(&service);
            let health = watch::Sender::new(ServerHealth { serving: true, sound: write_health.fault().is_none() });
            let mut following =
                Task::spawn("the task that reports health", health::follow(health.clone(), write_health.clone()));
            let optional =
                OptionalServices { discovery: self.options.destination.enabled, identity: self.authority.is_some() };
            let reflection = Reflection::new(registry.clone(), service.clone(), optional)?;
            let methods = reflection.methods();
            let counts = RequestCounts::new(methods.clone());
            let http_counts = HttpCounts::default();
            let page = MetricsPage::new(
                metrics.clone(),
                controller_manager.clone(),
                counts.clone(),
                http_counts.clone(),
                about.clone(),
            );
            let sources = Sources {
                about,
                service: service.clone(),
                controller_manager: controller_manager.clone(),
                regions: regions.clone(),
                metrics: page.clone(),
                counts: counts.clone(),
                http_counts: http_counts.clone(),
                configuration: configuration.clone(),
                backups,
            };
            let facts = http::Facts::new(&service, self.grpc.local_addr()?);
            let message_bytes = self.options.max_request_bytes;
            let server = ServerServiceServer::new(ServerApi { sources, manager: manager.clone(), configuration })
                .max_decoding_message_size(message_bytes);
            let plugins =
                PluginServiceServer::new(PluginApi::new(manager, service.clone(), self.options.upload_timeout))
                    .max_decoding_message_size(message_bytes);
            let controllers = ControllerServiceServer::new(ControllerApi(controller_manager.clone()))
                .max_decoding_message_size(message_bytes);
            let types = TypeServiceServer::new(TypeApi(registry)).max_decoding_message_size(message_bytes);

            let changes = ChangeServiceServer::new(ChangeApi(service.clone())).max_decoding_message_size(message_bytes);
            let queries = QueryServiceServer::new(QueryApi(service.clone())).max_decoding_message_size(message_bytes);
            let ownership =
                OwnershipServiceServer::new(OwnershipApi(service.clone())).max_decoding_message_size(message_bytes);
            let watches = WatchServiceServer::new(WatchApi(service.clone())).max_decoding_message_size(message_bytes);
            let functions =
                FunctionServiceServer::new(FunctionApi(service.clone())).max_decoding_message_size(message_bytes);

            let (stopping_tx, stopping) = watch::channel(false);
            let until = |mut stopping: watch::Receiver<bool>| async move {
                // An error means that the sender is gone, which also means stop.
                let _ = stopping.wait_for(|stopping| *stopping).await;
            };
            let bounds = ConnectionLimits {
                connections: self.options.max_connections,
                has_reserve: service.access().is_some(),
                preface: self.options.http.request_timeout,
            };
            let limits = CallLimits {
                request_bytes: self.options.request_bytes,
                request_timeout: self.options.http.request_timeout,
                answer_bytes: self.options.answer_bytes,
                stall_timeout: self.options.http.stall_timeout,
                message_bytes: self.options.max_request_bytes,
                caller_streams: self.options.caller_streams,
            };
            let calls = Calls::new(limits, service.clone(), &methods, &counts);
            let destination = self.options.destination.clone();
            let destination =
                destination.enabled.then(|| Destination::new(service.clone(), destination, calls.shared_bytes()));
            let inbound = destination.as_ref().map(|destination| {
                InboundServerPoliciesServer::new(InboundApi::new(destination.clone()))
                    .max_decoding_message_size(message_bytes)
            });
            let identity = self.authority.clone().map(|authority| {
                IdentityServer::new(IdentityApi::new(service.clone(), authority, self.tls.clone()))
                    .max_decoding_message_size(message_bytes)
            });
            let local = match self.local {
                Some(local) => connections::accept_local(local, bounds, stopping.clone()).boxed(),
                None => stream::pending().boxed(),
            };
            let mut routes = Routes::builder();
            routes
                .add_service(plugins)
                .add_service(types)
                .add_service(controllers)
                .add_service(RegionServiceServer::new(RegionApi(regions)).max_decoding_message_size(message_bytes))
                .add_service(server)
                .add_service(AuthServiceServer::new(AuthApi(service.clone())).max_decoding_message_size(message_bytes))
                .add_service(changes)
                .add_service(functions)
                .add_service(queries)
                .add_service(ownership)
                .add_service(watches);
            let routes = routes.routes().prepare();
            let in_process = InProcess::new(&calls, routes.clone());
            let grpc = Server::builder()
                .max_concurrent_streams(MAX_STREAMS)
                .http2_max_pending_accept_reset_streams(Some(MAX_STREAMS as usize))
                .http2_max_local_error_reset_streams(Some(MAX_STREAMS as usize))
                .initial_stream_window_size(1 << 20)
                .initial_connection_window_size(4 << 20)
                // Notices clients that vanished during a watch.
                .http2_keepalive_interval(Some(self.options.keep_alive))
                .http2_keepalive_timeout(Some(KEEP_ALIVE_TIMEOUT))
                .layer(ContentTypeLayer)
                .layer(calls.layer())
                .add_routes(routes)
                .add_optional_service(identity)
                .add_optional_service(inbound)
                .add_optional_service(destination.as_ref().map(Destination::service_for::<Conduit>))
                .add_optional_service(destination.as_ref().map(Destination::service_for::<Linkerd>))
                .add_optional_service(destination.as_ref().map(Destination::service_for::<Outbound>))
                .add_service(
                    HealthServer::new(Health::new(health.subscribe(), optional))
                        .max_decoding_message_size(message_bytes),
                )
                .add_service(ReflectionV1::new(reflection.clone()).max_decoding_message_size(SMALL_MESSAGE_BYTES))
                .add_service(ReflectionV1Alpha::new(reflection).max_decoding_message_size(SMALL_MESSAGE_BYTES))
                .serve_with_incoming_shutdown(
                    stream::select(
                        connections::accept(self.grpc, bounds, self.tls.clone(), stopping.clone()).boxed(),
                        local,
                    ),
                    until(stopping.clone()),
                );
            let mut upkeep = Task::spawn("the upkeep of metrics", upkeep(metrics));
            let mut watching = Task::spawn("the supervision of answers", {
                let calls = calls.clone();
                let changes = service.access().map(|access| access.changes());
                async move { calls.supervise(changes).await }
            });
            let hosts = http::Hosts::new(self.http.local_addr()?, self.options.http.allowed.clone(), self.tls.clone());
            let probes = http::probes(ready.clone(), write_health, http_counts.clone());
            let options = self.options.http.clone();
            let shared = http::Shared::new(service.clone(), page, ready, options, hosts, facts, in_process);
            let router = http::router(shared, http_counts);
            let places = Places::with_reserve("http", self.options.http.max_connections, service.access().is_some());
            let serving =
                http::serve(self.http, places, router, probes, self.options.http, self.tls.clone(), stopping.clone());
            let mut http = Task::spawn("the HTTP port", serving);
            let mut dns = self.dns.map(|ports| {
                let serving = dns::serve(ports, service.clone(), stopping);
                Task::spawn("the DNS port", async move {
                    if let Err(e) = serving.await {
                        tracing::error!("the DNS port: {e}");
                    }
                })
            });
            let mut reloading = self.tls.map(|tls| Task::spawn("the reload of TLS files", tls.follow()));
            let mut rotating =
                self.authority.map(|authority| Task::spawn("the reload of the authority's files", authority.follow()));

            tokio::pin!(grpc);
            // Without one of these tasks the server would look alive but not work. So the server ends, and the program
            // that supervises it (systemd, an orchestrator) starts it again.
            let tasks = [&mut following, &mut http, &mut upkeep, &mut watching];
            tokio::select! {
                served = &mut grpc => return Ok(served?),
                (task, source) = first_ended(tasks.into_iter().chain(&mut dns).chain(&mut reloading).chain(&mut rotating)) => {
                    service.stop();
                    return Err(ServeError::Task { task, source });
                }
                () = stop => {}
            }
            ready_tx.send_replace(false);
            following.end().await;
            health.send_modify(|health| health.serving = false);
            service.stop();
            stopping_tx.send_replace(true);
            calls.stop();
            // A connection whose client does not read may stay open; no call in it can end.
            let (calls_over, http_over) = (AtomicBool::new(false), AtomicBool::new(false));
            let left = async {
                calls.ended().await;
                calls_over.store(true, Ordering::Relaxed);
                sleep(CONNECTION_CLOSE_TIMEOUT).await;
            };
            let finishing = async {
                let serving = async {
                    tokio::select! {
                        served = &mut grpc => served,
                        () = left => Ok(()),
                    }
                };
                let http = async {
                    http.ended().await;
                    http_over.store(true, Ordering::Relaxed);
                };
                tokio::join!(serving, http).0
            };
            match timeout(self.options.grace, finishing).await {
                Ok(served) => served?,
                // Connections alone were left, whose clients do not end them.
                Err(_) if calls_over.load(Ordering::Relaxed) && http_over.load(Ordering::Relaxed) => {}
                Err(_) => {
                    tracing::warn!(grace = ?self.options.grace, "some calls did not finish in time (limit shutdown_grace_ms)")
                }
            }
            Ok(())
        })
    }
}
