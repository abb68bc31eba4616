//! An open watch of a list.

use mortise_resource::pb::{self, watch_event::Event};
use tokio::time::timeout;
use tonic::{Status, Streaming};

use super::{PATIENCE, Server};

/// An open watch.
pub struct Watch(pub Streaming<pb::WatchEvent>);

impl Watch {
    /// The next event, or the status that ended the stream.
    pub async fn next(&mut self) -> Result<Event, Status> {
        let event = timeout(PATIENCE, self.0.message()).await.expect("an event comes in time")?;
        Ok(event.expect("a watch never ends without a status").event.expect("an event is never empty"))
    }

    /// Resources up to the end of the snapshot.
    pub async fn snapshot(&mut self) -> Vec<pb::Resource> {
        let mut all = Vec::new();
        loop {
            match self.next().await.unwrap() {
                Event::Upsert(upsert) => all.push(upsert.resource.unwrap()),
                Event::EndOfSnapshot(_) => return all,
                Event::Delete(delete) => panic!("a delete within the snapshot: {delete:?}"),
            }
        }
    }

    pub async fn upsert(&mut self) -> pb::Resource {
        match self.next().await.unwrap() {
            Event::Upsert(upsert) => upsert.resource.unwrap(),
            other => panic!("expected an upsert, got {other:?}"),
        }
    }

    pub async fn deleted(&mut self) -> pb::Resource {
        match self.next().await.unwrap() {
            Event::Delete(delete) => delete.resource.unwrap(),
            other => panic!("expected a delete, got {other:?}"),
        }
    }

    /// Writes a resource that the watch shows, and expects it as the next event: earlier writes made no other event.
    pub async fn shows_next(&mut self, server: &Server, mark: pb::Resource) {
        let mark = server.write(mark).await.unwrap();
        assert_eq!(self.upsert().await, mark, "something came before");
    }
}
