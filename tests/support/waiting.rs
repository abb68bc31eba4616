//! Waiting for expected events, by polls and barriers.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

use mortise_resource::pb;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    time::{sleep, timeout},
};
use tonic::Code;

use super::{PATIENCE, Server, album, artist, gvk, id_of, tenancy};

/// Pause between two polls.
const POLL_PAUSE: Duration = Duration::from_millis(20);

/// Polls until `look` succeeds. A failing look returns the state that it saw; the last one is shown after `PATIENCE`.
pub async fn until<T, S: Debug>(what: &str, mut look: impl AsyncFnMut() -> Result<T, S>) -> T {
    let mut last = None;
    let looks = async {
        loop {
            match look().await {
                Ok(found) => return found,
                Err(seen) => last = Some(seen),
            }
            sleep(POLL_PAUSE).await;
        }
    };
    match timeout(PATIENCE, looks).await {
        Ok(found) => found,
        Err(_) => panic!("not in time: {what}; last seen: {last:?}"),
    }
}

/// Polls like `until`, for work in proportion to its size: `PATIENCE` begins again whenever the state changes.
pub async fn progress_until<T, S: Debug + PartialEq>(what: &str, mut look: impl AsyncFnMut() -> Result<T, S>) -> T {
    let (mut last, mut since) = (None, Instant::now());
    loop {
        let seen = match look().await {
            Ok(found) => return found,
            Err(seen) => Some(seen),
        };
        if seen != last {
            (last, since) = (seen, Instant::now());
        }
        assert!(since.elapsed() < PATIENCE, "no progress: {what}; last seen: {last:?}");
        sleep(POLL_PAUSE).await;
    }
}

/// Polls until the condition holds, or panics after `PATIENCE`.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    until(what, async || if holds().await { Ok(()) } else { Err("it does not hold") }).await;
}

/// Stops the server's process with a signal, and waits until each of its threads stands still. Linux hands the signal
/// to one thread; on a busy machine the others go on with their work until that thread has run.
pub async fn pause(server: &Server) {
    server.signal("STOP");
    let threads = format!("/proc/{}/task", server.pid());
    eventually("each thread stands still", async || {
        std::fs::read_dir(&threads).unwrap().all(|thread| {
            // A thread that has ended has no file any more.
            let stat = std::fs::read_to_string(thread.unwrap().path().join("stat"));
            stat.map_or(true, |stat| stat.rsplit_once(") ").unwrap().1.starts_with('T'))
        })
    })
    .await;
}

/// Reads until the server closes the connection; returns the text, and the result of the last read.
pub async fn until_closed(stream: &mut (impl AsyncRead + Unpin)) -> (String, std::io::Result<usize>) {
    let mut answer = Vec::new();
    let end = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the server closes in time");
    (String::from_utf8_lossy(&answer).into_owned(), end)
}

/// Every tombstone.
pub async fn tombstones(server: &Server) -> Vec<pb::Resource> {
    server.list(gvk("internal.v1.Tombstone"), tenancy("*", "*"), "").await.unwrap()
}

/// Whether no resource has that id.
pub async fn is_gone(server: &Server, id: &pb::Id) -> bool {
    match server.read(id).await {
        Ok(_) => false,
        Err(status) if status.code() == Code::NotFound => true,
        Err(status) => panic!("reading {}: {status}", id.name),
    }
}

/// Deletes an artist and waits until the reaper has removed its album, so all earlier deletions have been processed.
/// Returns the artist's id.
pub async fn reaped(server: &Server) -> pb::Id {
    let owner = id_of(&server.write(artist("reaped-last")).await.unwrap());
    let child = id_of(&server.write(album("reaped-last", Some(&owner))).await.unwrap());
    server.delete(&owner, "").await.unwrap();
    until_gone(server, &child).await;
    owner
}

/// Waits until no resource has that id.
pub async fn until_gone(server: &Server, id: &pb::Id) {
    eventually(&format!("{} is gone", id.name), || is_gone(server, id)).await;
}
