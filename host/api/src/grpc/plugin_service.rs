//! The plugin service on gRPC. Uploads are collected here, within the limit of a component; the manager does the rest.
//!
//! At most [`MAX_UPLOADS`] components are uploaded at the same time. At the limit, an upload without a message for a
//! second, or one of a caller with more uploads, ends for a new one ([`crate::places`]).
//!
//! A complete component makes way for the next upload, and stays in memory until it is installed, which may wait for
//! the plugin's turn. All such components together take at most [`MAX_UPLOADS`] times the limit of one.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures::Stream;
use mortise_plugin_manager::Manager;
use mortise_resource::{Code, Error, data};
use mortise_service::{ResourceService, Source};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout},
};
use tonic::{Request, Response, Status, Streaming};

use super::{
    call_context::CallContext,
    plugin_logs::LogReader,
    status::{answer, status},
};
use crate::{
    call::call_span,
    places::{Places, Usage},
    plugin_stubs::plugin_service_server::PluginService,
};

/// Concurrent uploads; each is held in memory until it is complete.
const MAX_UPLOADS: usize = 4;

/// The unit for counting components during installation, bytes.
const INSTALL_UNIT_BYTES: usize = 1 << 10;

/// Concurrently read logs.
const MAX_LOG_READERS: usize = 64;

/// The service, for gRPC.
pub(crate) struct PluginApi {
    manager: Manager,
    /// Signals the stop of the server.
    service: ResourceService,
    uploads: Arc<Places>,
    /// The budget of components during installation, in units of [`INSTALL_UNIT_BYTES`].
    installs: Semaphore,
    /// Longest time for an upload.
    upload_timeout: Duration,
    readers: Arc<Semaphore>,
}

impl PluginApi {
    pub(crate) fn new(manager: Manager, service: ResourceService, upload_timeout: Duration) -> Self {
        let installs = Semaphore::new(units(manager.component_limit()) * MAX_UPLOADS);
        let (uploads, readers) = (Places::new("uploads", MAX_UPLOADS), Arc::new(Semaphore::new(MAX_LOG_READERS)));
        Self { manager, service, uploads, installs, upload_timeout, readers }
    }

    async fn receive_and_install(
        &self,
        caller: Source,
        stream: Streaming<data::InstallRequest>,
    ) -> Result<data::InstallResponse, Error> {
        let upload = self.uploads.take(caller, Instant::now()).ok_or_else(|| {
            Error::new(Code::ResourceExhausted, format!("{MAX_UPLOADS} plugins are being uploaded already; try again"))
        })?;
        let uploading = timeout(self.upload_timeout, self.upload(stream, &upload.usage));
        let uploaded = tokio::select! {
            uploaded = uploading => uploaded,
            () = upload.usage.has_to_leave() => {
                let what = "the upload ended for another one: it sent nothing for a while, or its caller has more; try again";
                return Err(Error::new(Code::Aborted, what));
            }
        };
        let uploaded = uploaded.map_err(|_| {
            let limit = self.upload_timeout.as_millis();
            let what = format!("the upload did not finish within {limit} ms (limit grpc.upload_timeout_ms); try again");
            Error::new(Code::DeadlineExceeded, what)
        })?;
        let Upload { name, sha256, signature, dry_run, bytes } = uploaded?;
        let _install = begin_install(&self.installs, bytes.len())?;
        drop(upload);
        let (plugin, unchanged) = match dry_run {
            true => self.manager.try_install(name, &sha256, bytes, signature).await?,
            false => self.manager.install(name, &sha256, bytes, signature).await?,
        };
        Ok(data::InstallResponse { plugin: Some(plugin), unchanged, dry_run })
    }

    /// Receives a whole component.
    async fn upload(&self, mut stream: Streaming<data::InstallRequest>, usage: &Usage) -> Result<Upload, Error> {
        let broken = |e: Status| {
            let code = match e.code() {
                // The caller has lost the permission.
                tonic::Code::Unauthenticated => Code::Unauthenticated,
                tonic::Code::PermissionDenied => Code::PermissionDenied,
                _ => Code::InvalidArgument,
            };
            Error::new(code, format!("the upload ended early: {}", e.message()))
        };
        let first = stream.message().await.map_err(broken)?;
        let first = first.ok_or_else(|| Error::invalid("name is required, in the first message"))?;
        let data::InstallRequest {
            name,
            sha256,
            chunk: mut bytes,
            signature,
            signature_file,
            named_by_manifest,
            dry_run,
        } = first;
        let is_missing = [("name", name.is_empty() && !named_by_manifest), ("sha256", sha256.is_empty())];
        for (field, is_missing) in is_missing {
            if is_missing {
                return Err(Error::invalid(format!("{field} is required, in the first message")));
            }
        }
        if named_by_manifest && !name.is_empty() {
            return Err(Error::invalid("name and named_by_manifest exclude each other; send one"));
        }
        let name = (!named_by_manifest).then_some(name);
        let signature = match (signature.is_empty(), signature_file.is_empty()) {
            (true, _) => signature_file,
            (false, true) => signature.into_bytes(),
            (false, false) => return Err(Error::invalid("signature and signature_file exclude each other; send one")),
        };
        if signature.len() > Manager::MAX_SIGNATURE_BYTES {
            let limit = Manager::MAX_SIGNATURE_BYTES;
            return Err(Error::invalid(format!(
                "signature has more than {limit} bytes; send the content of a .minisig file"
            )));
        }
        while let Some(next) = stream.message().await.map_err(broken)? {
            if (!next.name.is_empty() && Some(&next.name) != name.as_ref())
                || (!next.sha256.is_empty() && next.sha256 != sha256)
            {
                return Err(Error::invalid("name and sha256 belong in the first message and cannot change after it"));
            }
            if bytes.len().saturating_add(next.chunk.len()) > self.manager.component_limit() {
                return Err(self.manager.too_large());
            }
            bytes.extend_from_slice(&next.chunk);
            usage.touch();
        }
        let signature = Some(signature).filter(|bytes| !bytes.is_empty());
        Ok(Upload { name, sha256, signature, dry_run, bytes })
    }
}

/// The number of units for so many bytes.
fn units(bytes: usize) -> usize {
    bytes.div_ceil(INSTALL_UNIT_BYTES).max(1)
}

/// Reserves memory for a component until it is installed.
fn begin_install(installs: &Semaphore, bytes: usize) -> Result<SemaphorePermit<'_>, Error> {
    let room = u32::try_from(units(bytes)).ok().and_then(|units| installs.try_acquire_many(units).ok());
    room.ok_or_else(|| {
        let what = "the components being installed already use all the memory for uploads; try again";
        Error::new(Code::ResourceExhausted, what)
    })
}

/// A received component.
struct Upload {
    /// `None` for the name in the manifest.
    name: Option<String>,
    sha256: String,
    /// The content of the signature file, if one was sent.
    signature: Option<Vec<u8>>,
    dry_run: bool,
    bytes: Vec<u8>,
}

#[tonic::async_trait]
impl PluginService for PluginApi {
    async fn install(
        &self,
        request: Request<Streaming<data::InstallRequest>>,
    ) -> Result<Response<data::InstallResponse>, Status> {
        let by = request.extensions().get::<CallContext>().map(|call| &call.by);
        let caller = by.and_then(|by| Source::of_caller(&*by.authorizer, Some(&by.origin))).unwrap_or_default();
        answer(call_span("plugins.Install"), self.receive_and_install(caller, request.into_inner())).await
    }

    async fn remove(&self, request: Request<data::RemoveRequest>) -> Result<Response<data::RemoveResponse>, Status> {
        let removed = self.manager.remove(request.into_inner().name);
        answer(call_span("plugins.Remove"), removed).await
    }

    async fn rollback(
        &self,
        request: Request<data::RollbackRequest>,
    ) -> Result<Response<data::RollbackResponse>, Status> {
        let rolled_back = self.manager.rollback(request.into_inner().name);
        answer(call_span("plugins.Rollback"), async {
            rolled_back.await.map(|plugin| data::RollbackResponse { plugin: Some(plugin) })
        })
        .await
    }

    async fn reset(&self, request: Request<data::ResetRequest>) -> Result<Response<data::ResetResponse>, Status> {
        let reset = self.manager.reset(request.into_inner().name);
        answer(call_span("plugins.Reset"), async {
            reset.await.map(|plugin| data::ResetResponse { plugin: Some(plugin) })
        })
        .await
    }

    async fn disable(&self, request: Request<data::DisableRequest>) -> Result<Response<data::DisableResponse>, Status> {
        let disabled = self.manager.disable(request.into_inner().name);
        answer(call_span("plugins.Disable"), async {
            disabled.await.map(|plugin| data::DisableResponse { plugin: Some(plugin) })
        })
        .await
    }

    async fn enable(&self, request: Request<data::EnableRequest>) -> Result<Response<data::EnableResponse>, Status> {
        let enabled = self.manager.enable(request.into_inner().name);
        answer(call_span("plugins.Enable"), async {
            enabled.await.map(|plugin| data::EnableResponse { plugin: Some(plugin) })
        })
        .await
    }

    async fn inspect(&self, request: Request<data::InspectRequest>) -> Result<Response<data::InspectResponse>, Status> {
        answer(call_span("plugins.Inspect"), self.manager.inspect(request.into_inner().name)).await
    }

    type LogsStream = Pin<Box<dyn Stream<Item = Result<data::LogLine, Status>> + Send>>;

    async fn logs(&self, request: Request<data::LogsRequest>) -> Result<Response<Self::LogsStream>, Status> {
        let wanted = request.into_inner();
        self.manager.inspect(wanted.name.clone()).await.map_err(status)?;
        let permit = self.readers.clone().try_acquire_owned().map_err(|_| {
            let what = format!("{MAX_LOG_READERS} logs of plugins are being read already; try again");
            status(Error::new(Code::ResourceExhausted, what))
        })?;
        let lines = LogReader::open(self.manager.logs(), wanted, self.service.stopped(), permit);
        Ok(Response::new(Box::pin(lines.stream())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_that_are_being_installed_are_bounded_in_bytes() {
        let limit = 10 * INSTALL_UNIT_BYTES + 1;
        let installs = Semaphore::new(units(limit) * MAX_UPLOADS);
        let large: Vec<_> = (0..MAX_UPLOADS).map(|_| begin_install(&installs, limit).expect("it fits")).collect();
        let refused = begin_install(&installs, 1).unwrap_err();
        assert_eq!(refused.code, Code::ResourceExhausted, "{refused}");
        assert!(refused.message.contains("being installed already"), "{refused}");
        drop(large);
        let small: Vec<_> =
            (0..44).map(|_| begin_install(&installs, INSTALL_UNIT_BYTES).expect("many small ones fit")).collect();
        assert!(begin_install(&installs, 1).is_err());
        drop(small);
    }
}
