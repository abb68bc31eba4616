//! The least work of a durable server: waiting messages go to the end of a file with one write and one sync, and then
//! all of them are answered. The file has its full length from the start, so a sync changes no metadata.

use std::{
    fs::File,
    io::{Seek as _, Write as _},
    path::Path,
    sync::mpsc::{Receiver, Sender, channel},
};

use tokio::sync::oneshot;

use crate::Outcome;

/// Length of the file, bytes; it is overwritten from its beginning.
const FILE_BYTES: usize = 64 << 20;

/// A message, and the channel of the call that waits for it.
type PendingMessage = (Vec<u8>, oneshot::Sender<()>);

/// The file, and the thread that writes to it.
pub(crate) struct Disk(Sender<PendingMessage>);

impl Disk {
    /// Writes a message, and waits until it is on the disk; `None` on failure.
    pub(crate) async fn keep(&self, message: Vec<u8>) -> Option<()> {
        let (reply, kept) = oneshot::channel();
        self.0.send((message, reply)).ok()?;
        kept.await.ok()
    }
}

/// Makes the file and starts the thread.
pub(crate) fn start(path: &Path) -> Outcome<Disk> {
    let mut file = File::create(path)?;
    file.write_all(&vec![0; FILE_BYTES])?;
    file.sync_all()?;
    let (send, waiting) = channel();
    std::thread::Builder::new().name("disk".to_owned()).spawn(move || run(&mut file, &waiting))?;
    Ok(Disk(send))
}

/// Writes messages until the first error; waiting calls then see their channels closed.
fn run(file: &mut File, waiting: &Receiver<PendingMessage>) -> Outcome<()> {
    let mut position = FILE_BYTES;
    while let Ok(first) = waiting.recv() {
        let mut bytes = Vec::new();
        let mut replies = Vec::new();
        for (message, reply) in std::iter::once(first).chain(waiting.try_iter()) {
            bytes.extend_from_slice(&message);
            replies.push(reply);
        }
        if position + bytes.len() > FILE_BYTES {
            file.rewind()?;
            position = 0;
        }
        file.write_all(&bytes)?;
        position += bytes.len();
        file.sync_data()?;
        for reply in replies {
            // A dropped call needs no answer.
            reply.send(()).ok();
        }
    }
    Ok(())
}
