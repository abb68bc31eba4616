//! The backup on gRPC. It starts while no plugin is being loaded or removed, and proceeds as fast as the client reads.

use std::pin::Pin;

use futures::Stream;
use mortise_backup::{BackupError, Head, Piece, Sources};
use mortise_plugin_manager::{Manager, Pause};
use mortise_resource::{
    Code, Error,
    data::{BackupResponse, backup_response::Begins},
};
use mortise_service::ResourceService;
use mortise_store::{Snapshot, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::Status;
use tracing::Span;

use super::status::status;
use crate::call::run_guarded;

/// Most pieces of the archive that wait for the client, some 256 KiB each.
const MAX_QUEUED_PIECES: usize = 4;

/// The stream to the client.
pub(crate) type Pieces = Pin<Box<dyn Stream<Item = Result<BackupResponse, Status>> + Send>>;

/// Begins a backup.
pub(crate) async fn backup(manager: &Manager, service: &ResourceService, config: bool) -> Result<Pieces, Error> {
    let (snapshot, sources) = begin(manager, service, config).await?;
    let (pieces, waiting) = mpsc::channel::<Piece>(MAX_QUEUED_PIECES);
    let (answers, out) = mpsc::channel(1);
    let (begun, begins) = oneshot::channel();
    let stopped = service.stopped();
    tokio::spawn(async move {
        let writing = mortise_backup::stream(snapshot, sources, |head| drop(begun.send(head)), pieces);
        let sending = async {
            if let Ok(head) = begins.await {
                let first = BackupResponse { begins: Some(announce(&head)), ..BackupResponse::default() };
                if answers.send(Ok(first)).await.is_err() {
                    return;
                }
            }
            let mut waiting = ReceiverStream::new(waiting);
            while let Some(Piece { bytes, records }) = waiting.next().await {
                let next = BackupResponse { begins: None, chunk: bytes, records };
                if answers.send(Ok(next)).await.is_err() {
                    return;
                }
            }
        };
        let ended = async {
            tokio::select! {
                (written, ()) = async { tokio::join!(writing, sending) } => written,
                () = stopped => Err(BackupError::Stopping),
            }
        };
        send_failure(ended, &answers).await;
    });
    Ok(Box::pin(ReceiverStream::new(out)))
}

/// Sends the failure of a backup to the client. Without it, the archive of a backup that panicked would look complete.
async fn send_failure(
    ended: impl Future<Output = Result<(), BackupError>>,
    answers: &mpsc::Sender<Result<BackupResponse, Status>>,
) {
    let fault = match run_guarded(Span::none(), async { Ok(ended.await) }).await {
        Ok(Ok(())) => return tracing::info!("a backup was taken"),
        Ok(Err(BackupError::ReaderGone)) => return tracing::info!("a backup was cancelled by its client"),
        Ok(Err(error)) => failure(error),
        Err(panic) => panic,
    };
    tracing::warn!("a backup failed: {fault}");
    // The client may be gone and need no answer.
    answers.send(Err(status(fault))).await.ok();
}

/// Opens store and files as of one moment. Loads of plugins wait meanwhile. `config`: the configuration's file, too.
///
/// # Errors
/// `ResourceExhausted`: too many backups are running. `Unavailable`: the server is stopping. Faults of the store and of
/// the files.
pub async fn begin(
    manager: &Manager,
    service: &ResourceService,
    config: bool,
) -> Result<(Box<dyn Snapshot>, Sources), Error> {
    let store = |e: StoreError| failure(e.into());
    let backend = service.backend();
    // Counts the resources if needed, before the pause of plugins begins.
    backend.stats().await.map_err(store)?;
    let pause = manager.pause().await?;
    let snapshot = backend.snapshot().await.map_err(store)?;
    let Pause { component_dir, plugin_dir, config: path, .. } = &pause;
    let (components, folder, path) = (component_dir.clone(), plugin_dir.clone(), path.clone().filter(|_| config));
    let opening = tokio::task::spawn_blocking(move || Sources::open(&components, &folder, path.as_deref()));
    let sources = opening.await.map_err(|e| Error::internal(e.to_string()))?.map_err(failure)?;
    drop(pause);
    Ok((snapshot, sources))
}

fn announce(head: &Head) -> Begins {
    let manifest = &head.manifest;
    let (resources, events) = (manifest.head().resources(), manifest.events);
    let taken_at = manifest.taken_at.parse::<jiff::Timestamp>().ok();
    Begins {
        commit: manifest.commit,
        resources,
        events,
        records: resources + events,
        files: manifest.kept_components + manifest.folder_files + u64::from(manifest.config),
        file_bytes: head.file_bytes,
        at: taken_at.map(|taken_at| std::time::SystemTime::from(taken_at).into()),
    }
}

fn failure(error: BackupError) -> Error {
    let code = match &error {
        BackupError::Store(StoreError::TooManySnapshots { .. }) => Code::ResourceExhausted,
        BackupError::Store(StoreError::Poisoned(_)) => Code::FailedPrecondition,
        BackupError::Stopping | BackupError::Store(StoreError::Closed) => Code::Unavailable,
        _ => Code::Internal,
    };
    Error::new(code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_backup_that_panics_does_not_look_complete() {
        let (answers, mut out) = mpsc::channel(1);
        send_failure(async { panic!("a test asked for this panic") }, &answers).await;
        drop(answers);
        assert_eq!(out.recv().await.unwrap().unwrap_err().code(), tonic::Code::Internal);
        assert!(out.recv().await.is_none());
    }
}
