//! The owner's server: the real services' wire, over the simulated network.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use mortise_resource::{
    data::{
        AcceptPeerRequest, AcceptPeerResponse, AdoptRequest, AdoptResponse, BatchGetRequest, BatchGetResponse,
        IdentifyRequest, IdentifyResponse, RegionStatusRequest, RegionStatusResponse, SearchRequest, SearchResponse,
        UpdateRequest, UpdateResponse, WatchResourceRequest, WatchResourceResponse, WatchResourcesRequest,
        WatchResourcesResponse,
    },
    grpc::{
        STORE_HEADER,
        mortise::{
            query_service_server::{QueryService, QueryServiceServer},
            region_service_server::{RegionService, RegionServiceServer},
            watch_service_server::{WatchService, WatchServiceServer},
        },
    },
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::watch,
};
use tonic::{
    Request, Response, Status,
    transport::{
        Server,
        server::{Connected, Router},
    },
};
use turmoil::net::{TcpListener, TcpStream};

use super::owner::Owner;

/// Port of the server.
pub(super) const PORT: u16 = 8502;

/// The services of an owner. Cheap to clone.
#[derive(Clone)]
struct Services(Arc<Mutex<Owner>>);

/// A connection.
struct Accepted(TcpStream);

/// A watch.
struct OpenWatch {
    owner: Arc<Mutex<Owner>>,
    newest: watch::Receiver<u64>,
    messages: VecDeque<WatchResourcesResponse>,
    position: u64,
}

/// Serves until the host goes down.
pub(super) async fn serve(owner: Arc<Mutex<Owner>>) -> turmoil::Result {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    let connections = stream::unfold(listener, async |listener| {
        let accepted = listener.accept().await.map(|(stream, _)| Accepted(stream));
        Some((accepted, listener))
    });
    let services = Services(owner);
    let router: Router = Server::builder()
        .add_service(RegionServiceServer::new(services.clone()))
        .add_service(QueryServiceServer::new(services.clone()))
        .add_service(WatchServiceServer::new(services));
    router.serve_with_incoming(connections.boxed()).await?;
    Ok(())
}

impl Services {
    /// Refuses a call for another store.
    fn check<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let store = request.metadata().get(STORE_HEADER).and_then(|store| store.to_str().ok()).unwrap_or_default();
        match store == self.0.lock().store_id {
            true => Ok(()),
            false => Err(Status::failed_precondition("the call is for the store of another server")),
        }
    }
}

impl OpenWatch {
    async fn next(mut self) -> Option<(Result<WatchResourcesResponse, Status>, Self)> {
        loop {
            if let Some(message) = self.messages.pop_front() {
                return Some((Ok(message), self));
            }
            self.newest.borrow_and_update();
            (self.messages, self.position) = self.owner.lock().next_messages(self.position)?;
            if self.messages.is_empty() {
                self.newest.changed().await.ok()?;
            }
        }
    }
}

#[tonic::async_trait]
impl RegionService for Services {
    async fn identify(&self, _: Request<IdentifyRequest>) -> Result<Response<IdentifyResponse>, Status> {
        let owner = self.0.lock();
        Ok(Response::new(IdentifyResponse {
            region: owner.region.clone(),
            store_id: owner.store_id.clone(),
            newest_version: *owner.newest.borrow(),
        }))
    }

    async fn status(&self, _: Request<RegionStatusRequest>) -> Result<Response<RegionStatusResponse>, Status> {
        Err(Status::unimplemented("Status"))
    }

    async fn accept(&self, _: Request<AcceptPeerRequest>) -> Result<Response<AcceptPeerResponse>, Status> {
        Err(Status::unimplemented("Accept"))
    }

    async fn adopt(&self, _: Request<AdoptRequest>) -> Result<Response<AdoptResponse>, Status> {
        Err(Status::unimplemented("Adopt"))
    }
}

#[tonic::async_trait]
impl QueryService for Services {
    async fn search(&self, _: Request<SearchRequest>) -> Result<Response<SearchResponse>, Status> {
        Err(Status::unimplemented("Search"))
    }

    async fn batch_get(&self, request: Request<BatchGetRequest>) -> Result<Response<BatchGetResponse>, Status> {
        self.check(&request)?;
        let resources = self.0.lock().get(&request.into_inner().ids);
        Ok(Response::new(BatchGetResponse { resources, ..BatchGetResponse::default() }))
    }

    async fn update(&self, _: Request<UpdateRequest>) -> Result<Response<UpdateResponse>, Status> {
        Err(Status::unimplemented("Update"))
    }
}

#[tonic::async_trait]
impl WatchService for Services {
    type WatchResourceStream = BoxStream<'static, Result<WatchResourceResponse, Status>>;
    type WatchResourcesStream = BoxStream<'static, Result<WatchResourcesResponse, Status>>;

    async fn watch_resource(
        &self,
        _: Request<WatchResourceRequest>,
    ) -> Result<Response<Self::WatchResourceStream>, Status> {
        Err(Status::unimplemented("WatchResource"))
    }

    async fn watch_resources(
        &self,
        request: Request<WatchResourcesRequest>,
    ) -> Result<Response<Self::WatchResourcesStream>, Status> {
        self.check(&request)?;
        let request = request.into_inner();
        if request.resource_type.is_none_or(|followed| followed.kind != "Thing") {
            // Another type of the host, without resources.
            let empty = WatchResourcesResponse {
                is_current: true,
                resume_token: "t0".into(),
                ..WatchResourcesResponse::default()
            };
            return Ok(Response::new(stream::iter([Ok(empty)]).chain(stream::pending()).boxed()));
        }
        let mut owner = self.0.lock();
        let newest = owner.newest.subscribe();
        let begun = owner.begin(&request.resume_token);
        let (messages, position) = begun.ok_or_else(|| Status::out_of_range("the token is not known"))?;
        drop(owner);
        let watch = OpenWatch { owner: self.0.clone(), newest, messages, position };
        Ok(Response::new(stream::unfold(watch, OpenWatch::next).boxed()))
    }
}

impl Connected for Accepted {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Accepted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
