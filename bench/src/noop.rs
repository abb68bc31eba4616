//! The server that does nothing, the ceiling of comparisons: tonic with the same messages, answered at once. A second
//! ceiling, for writes, first puts each message into a file and waits for the disk, several with one sync; it has no
//! hooks, no rules and no index.

use std::{net::SocketAddr, path::Path, pin::Pin};

use futures::{Stream, StreamExt as _, stream};
use mortise_api::stubs::resource_service_server::{ResourceService, ResourceServiceServer};
use mortise_resource::pb::{
    self,
    watch_event::{EndOfSnapshot, Event, Upsert},
};
use prost::Message as _;
use tokio::{net::TcpListener, sync::broadcast};
use tonic::{Request, Response, Status, transport::Server, transport::server::TcpIncoming};

use crate::{
    Outcome, calls,
    disk::{self, Disk},
    report::line,
};

struct Noop {
    resource: pb::Resource,
    list: Vec<pb::Resource>,
    changes: broadcast::Sender<pb::Resource>,
    disk: Option<Disk>,
}

/// Serves until the process is killed. `durable` is the file for writes.
pub(crate) async fn serve(addr: SocketAddr, list: usize, durable: Option<&Path>) -> Outcome<()> {
    let stored = |i: usize| {
        let mut resource = calls::artist(&format!("artist-{i:07}"));
        if let Some(id) = &mut resource.id {
            id.uid = ulid::Ulid::generate().to_string();
            id.tenancy = Some(pb::Tenancy { partition: "default".into(), namespace: "default".into() });
        }
        resource.version = i.to_string();
        resource.generation = ulid::Ulid::generate().to_string();
        resource
    };
    let disk = durable.map(disk::start).transpose()?;
    let changes = broadcast::Sender::new(4_096);
    let noop = Noop { resource: stored(0), list: (0..list).map(stored).collect(), changes, disk };
    let listener = TcpListener::bind(addr).await?;
    line(&format!("grpc={}", listener.local_addr()?))?;
    Server::builder()
        .max_concurrent_streams(2048)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20)
        .add_service(ResourceServiceServer::new(noop).max_decoding_message_size(50 << 20))
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
        .await?;
    Ok(())
}

#[tonic::async_trait]
impl ResourceService for Noop {
    type WatchListStream = Pin<Box<dyn Stream<Item = Result<pb::WatchEvent, Status>> + Send>>;

    async fn read(&self, _: Request<pb::ReadRequest>) -> Result<Response<pb::ReadResponse>, Status> {
        Ok(Response::new(pb::ReadResponse { resource: Some(self.resource.clone()) }))
    }

    async fn write(&self, request: Request<pb::WriteRequest>) -> Result<Response<pb::WriteResponse>, Status> {
        let resource = request.into_inner().resource;
        if let (Some(disk), Some(resource)) = (&self.disk, &resource) {
            disk.keep(resource.encode_to_vec()).await.ok_or_else(|| Status::internal("the disk failed"))?;
        }
        if let Some(resource) = &resource {
            // Fails without watchers.
            let _ = self.changes.send(resource.clone());
        }
        Ok(Response::new(pb::WriteResponse { resource, warnings: Vec::new() }))
    }

    async fn list(&self, _: Request<pb::ListRequest>) -> Result<Response<pb::ListResponse>, Status> {
        Ok(Response::new(pb::ListResponse { resources: self.list.clone() }))
    }

    async fn write_status(
        &self,
        _: Request<pb::WriteStatusRequest>,
    ) -> Result<Response<pb::WriteStatusResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn list_by_owner(
        &self,
        _: Request<pb::ListByOwnerRequest>,
    ) -> Result<Response<pb::ListByOwnerResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn delete(&self, _: Request<pb::DeleteRequest>) -> Result<Response<pb::DeleteResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn watch_list(&self, _: Request<pb::WatchListRequest>) -> Result<Response<Self::WatchListStream>, Status> {
        let upsert = |resource| Event::Upsert(Upsert { resource: Some(resource) });
        let message = |event| Ok(pb::WatchEvent { event: Some(event) });
        let snapshot = self.list.clone().into_iter().map(upsert).chain([Event::EndOfSnapshot(EndOfSnapshot {})]);
        let changes = stream::unfold(self.changes.subscribe(), move |mut changes| async move {
            let changed = changes.recv().await.map(|resource| message(upsert(resource)));
            Some((changed.unwrap_or_else(|_| Err(Status::aborted("too slow"))), changes))
        });
        Ok(Response::new(Box::pin(stream::iter(snapshot.map(message)).chain(changes))))
    }

    async fn mutate_and_validate(
        &self,
        _: Request<pb::MutateAndValidateRequest>,
    ) -> Result<Response<pb::MutateAndValidateResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }
}
