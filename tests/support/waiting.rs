//! Waiting for what must happen, by polls and barriers.

use std::time::Duration;

use mortise_resource::pb;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    time::timeout,
};
use tonic::Code;

use super::{PATIENCE, Server, album, artist, gvk, id_of, tenancy};

/// Polls until a look succeeds. A look that fails returns what it saw instead; the last of these is shown after `PATIENCE`.
pub async fn until<T, S: std::fmt::Debug>(what: &str, mut look: impl AsyncFnMut() -> Result<T, S>) -> T {
    let mut last = None;
    let looks = async {
        loop {
            match look().await {
                Ok(found) => return found,
                Err(seen) => last = Some(seen),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    match timeout(PATIENCE, looks).await {
        Ok(found) => found,
        Err(_) => panic!("not in time: {what}; last seen: {last:?}"),
    }
}

/// Tries until it holds, or fails after a while.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    until(what, async || if holds().await { Ok(()) } else { Err("it does not hold") }).await;
}

/// Everything that comes until the server closes the connection, and how it was closed.
pub async fn until_closed(stream: &mut (impl AsyncRead + Unpin)) -> (String, std::io::Result<usize>) {
    let mut answer = Vec::new();
    let end = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the server closes in time");
    (String::from_utf8_lossy(&answer).into_owned(), end)
}

/// Every tombstone.
pub async fn tombstones(server: &Server) -> Vec<pb::Resource> {
    server.list(gvk("internal.v1.Tombstone"), tenancy("*", "*"), "").await.unwrap()
}

/// Whether there is nothing of that id.
pub async fn is_gone(server: &Server, id: &pb::Id) -> bool {
    match server.read(id).await {
        Ok(_) => false,
        Err(status) if status.code() == Code::NotFound => true,
        Err(status) => panic!("reading {}: {status}", id.name),
    }
}

/// Deletes an artist and waits until the reaper has taken its album: it has looked at all that was deleted before. Answers
/// the artist's id.
pub async fn reaped(server: &Server) -> pb::Id {
    let owner = id_of(&server.write(artist("reaped-last")).await.unwrap());
    let child = id_of(&server.write(album("reaped-last", Some(&owner))).await.unwrap());
    server.delete(&owner, "").await.unwrap();
    until_gone(server, &child).await;
    owner
}

/// Waits until there is nothing of that id.
pub async fn until_gone(server: &Server, id: &pb::Id) {
    eventually(&format!("{} is gone", id.name), || is_gone(server, id)).await;
}
