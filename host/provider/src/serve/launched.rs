//! A process that core started for one phase of a command.
//!
//! It prints the address where it listens, serves, and ends when core asks. A core that dies asks for nothing; so the
//! process ends a while after its last connection, or if the first one never comes. Ctrl-C is core's concern: the
//! signal reaches the whole group of processes, and core wants to finish in good order.

use std::{io::Write as _, pin::Pin, sync::Arc, time::Duration};

use tokio::{
    net::{UnixListener, UnixStream},
    signal::unix::{SignalKind, signal},
    sync::{mpsc, oneshot, watch},
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Server, server::Router};

use super::{
    MAX_MESSAGE_BYTES,
    connection::{Connection, Connections},
    handshake::{CLIENT_CERT_VARIABLE, MULTIPLEX_VARIABLE, is_cookie, line, speaks_6},
    log,
    plugin::{Broker, Controller, Stdio},
    tls::{TlsError, config},
};
use crate::{
    client::Connector,
    proto::{
        plugin::{
            grpc_broker_server::GrpcBrokerServer, grpc_controller_server::GrpcControllerServer,
            grpc_stdio_server::GrpcStdioServer,
        },
        tfplugin6::provider_server::ProviderServer,
    },
    rpc::{ProviderService, Session},
    schema::SchemaCache,
};

/// Longest wait for the first connection.
const FIRST_CONNECTION_WAIT: Duration = Duration::from_secs(60);
/// Time without connections after which the process ends.
const IDLE_TIME: Duration = Duration::from_secs(5);
/// Time for calls under way at the end: core kills the process after two seconds.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);
/// Pause after a connection could not be accepted.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// Longest handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Reasons why a process cannot be a provider.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A person started it.
    #[error(
        "this is a provider for Terraform and OpenTofu, which start it themselves: put its directory into dev_overrides \
         or filesystem_mirror of the command line's configuration (docs/terraform.md), or use `mortise provider attach`"
    )]
    NotByCore,
    /// Core is too old, or too new.
    #[error("this provider speaks version 6 of the plugin protocol, and the program that started it does not")]
    Version,
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The socket, stdout or a signal failed.
    #[error("{what}: {source}")]
    System {
        /// Failed step.
        what: &'static str,
        /// Cause.
        source: std::io::Error,
    },
    /// Serving failed.
    #[error("serving: {0}")]
    Serve(#[from] tonic::transport::Error),
}

fn system_error(what: &'static str) -> impl FnOnce(std::io::Error) -> LaunchError {
    move |source| LaunchError::System { what, source }
}

/// Most calls of a connection at once: core makes one for each resource, as many as its `-parallelism`.
const MAX_CALLS: u32 = 1_000;

/// The services of a socket.
pub(super) async fn router(controller: Controller) -> Router {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_service_status("plugin", tonic_health::ServingStatus::Serving).await;
    let provider = ProviderServer::new(ProviderService)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    Server::builder()
        .max_concurrent_streams(MAX_CALLS)
        .add_service(provider)
        .add_service(GrpcControllerServer::new(controller))
        .add_service(GrpcStdioServer::new(Stdio))
        .add_service(GrpcBrokerServer::new(Broker))
        .add_service(health)
}

/// Serves as a provider until core ends it.
///
/// # Errors
/// See [`LaunchError`].
pub async fn launch(
    connector: Arc<dyn Connector>,
    prefix: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(), LaunchError> {
    if !is_cookie(env) {
        return Err(LaunchError::NotByCore);
    }
    if !speaks_6(env) {
        return Err(LaunchError::Version);
    }
    log::start(env);
    // Takes and ignores interrupts until the process ends.
    let mut interrupts = signal(SignalKind::interrupt()).map_err(system_error("listening for signals"))?;
    tokio::spawn(async move { while interrupts.recv().await.is_some() {} });
    let tls = env(CLIENT_CERT_VARIABLE).filter(|pem| !pem.is_empty()).map(|pem| config(&pem)).transpose()?;
    // Only the user may enter the directory; it is removed at the end.
    let dir = tempfile::Builder::new().prefix("mortise-provider-").tempdir();
    let dir = dir.map_err(system_error("making a directory for the socket"))?;
    let socket = dir.path().join("s");
    let listener = UnixListener::bind(&socket).map_err(system_error("opening the socket"))?;
    let handshake = line(&socket, tls.as_ref().map(|(_, own)| own.as_ref()), env(MULTIPLEX_VARIABLE).is_some());
    let mut out = std::io::stdout().lock();
    writeln!(out, "{handshake}").and_then(|()| out.flush()).map_err(system_error("writing to stdout"))?;
    drop(out);

    let end = watch::Sender::new(false);
    let connections = Connections::default();
    let served = router(Controller(Some(end.clone()))).await;
    let stopped = stopped(end.subscribe(), connections.count());
    match tls {
        Some((config, _)) => {
            let incoming = accept_tls(listener, TlsAcceptor::from(Arc::new(config)), connector, prefix, connections);
            within_grace(stopped, |stopped| served.serve_with_incoming_shutdown(incoming, stopped)).await?;
        }
        None => {
            let incoming = accept_plain(listener, connector, prefix, connections);
            within_grace(stopped, |stopped| served.serve_with_incoming_shutdown(incoming, stopped)).await?;
        }
    }
    Ok(())
}

/// Serves until `stopped`, and then for [`SHUTDOWN_GRACE`] at most: streams that core keeps open do not hold up the
/// end.
pub(super) async fn within_grace<E, S: Future<Output = Result<(), E>>>(
    stopped: impl Future<Output = ()>,
    serve: impl FnOnce(Pin<Box<dyn Future<Output = ()> + Send>>) -> S,
) -> Result<(), E> {
    let (begin, begun) = oneshot::channel::<()>();
    let serving = serve(Box::pin(async {
        // An error also means the end.
        let _ = begun.await;
    }));
    let ending = async {
        stopped.await;
        let _ = begin.send(());
        sleep(SHUTDOWN_GRACE).await;
    };
    tokio::select! {
        served = serving => served,
        () = ending => Ok(()),
    }
}

/// Resolves when core asks for the end, or when no connection is left.
async fn stopped(mut end: watch::Receiver<bool>, mut connections: watch::Receiver<usize>) {
    let asked = async {
        // An error means that core can no longer ask.
        let _ = end.wait_for(|end| *end).await;
    };
    let alone = async {
        if timeout(FIRST_CONNECTION_WAIT, connections.wait_for(|count| *count > 0)).await.is_err() {
            return;
        }
        loop {
            let _ = connections.wait_for(|count| *count == 0).await;
            sleep(IDLE_TIME).await;
            if *connections.borrow() == 0 {
                return;
            }
        }
    };
    tokio::select! {
        () = asked => {}
        () = alone => {}
    }
}

type Incoming<S> = ReceiverStream<Result<Connection<S>, std::io::Error>>;

/// The next connection. A failed accept, for lack of file descriptors for example, does not end the listener.
async fn next(listener: &UnixListener) -> UnixStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(why) => {
                tracing::warn!("a connection cannot be accepted: {why}; trying again");
                sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

fn accept_plain(
    listener: UnixListener,
    connector: Arc<dyn Connector>,
    prefix: &str,
    connections: Connections,
) -> Incoming<UnixStream> {
    let (sender, receiver) = mpsc::channel(1);
    let (prefix, schemas) = (prefix.to_owned(), Arc::<SchemaCache>::default());
    tokio::spawn(async move {
        loop {
            let stream = next(&listener).await;
            let connection =
                Connection::new(stream, Session::new(connector.clone(), &prefix, schemas.clone()), connections.open());
            if sender.send(Ok(connection)).await.is_err() {
                return;
            }
        }
    });
    ReceiverStream::new(receiver)
}

fn accept_tls(
    listener: UnixListener,
    acceptor: TlsAcceptor,
    connector: Arc<dyn Connector>,
    prefix: &str,
    connections: Connections,
) -> Incoming<tokio_rustls::server::TlsStream<UnixStream>> {
    let (sender, receiver) = mpsc::channel(1);
    let (prefix, schemas) = (prefix.to_owned(), Arc::<SchemaCache>::default());
    tokio::spawn(async move {
        loop {
            let stream = next(&listener).await;
            let (sender, acceptor) = (sender.clone(), acceptor.clone());
            let (session, connections) =
                (Session::new(connector.clone(), &prefix, schemas.clone()), connections.clone());
            // A silent connection does not hold up others.
            tokio::spawn(async move {
                match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => {
                        let connection = Connection::new(stream, session, connections.open());
                        // At the end of the process the receiver is gone.
                        let _ = sender.send(Ok(connection)).await;
                    }
                    Ok(Err(why)) => tracing::warn!("the TLS handshake of a connection failed: {why}"),
                    Err(_) => {
                        tracing::warn!("a connection did not finish its TLS handshake within {HANDSHAKE_TIMEOUT:?}")
                    }
                }
            });
        }
    });
    ReceiverStream::new(receiver)
}
