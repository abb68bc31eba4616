//! PATCH of a resource: applies a merge patch or a JSON patch to the form of a GET, and writes the result.
//!
//! # Contract
//! The patched document is the stored resource; its data, metadata and meta may change. The write happens only if the
//! stored version is the patched one. After another writer's change, the patch is applied to the new version, unless
//! the request names one. A patch of anything else is a 400.
//!
//! # Cost and limits
//! Reads, prints, parses and writes the resource, again for each attempt; the attempts are those of the service. Large
//! resources are patched outside of the runtime's threads. The result is bounded like a body.

use std::sync::Arc;

use axum::response::Response;
use futures::FutureExt as _;
use mortise_resource::{Code, Error, pb};
use mortise_service::Computation;
use parking_lot::Mutex;
use prost_reflect::{DescriptorPool, MessageDescriptor};
use serde_json::Value;

use super::{
    body::SMALL_BODY_BYTES,
    body_json,
    conditions::{Conditions, Freshness},
    error::{ErrorKind, HttpError},
    item::answer_written,
    json::Printer,
    patch_document::Patch,
    request::TypeRequest,
};
use crate::call::{run_guarded, span};

/// The keys of a resource that a patch may change.
const PATCHED_KEYS: [&str; 4] = ["data", "metadata", "meta", "unprintableData"];

/// PATCH: changes a part of the resource.
pub(super) async fn patch(mut request: TypeRequest, name: String) -> Result<Response, HttpError> {
    let patch = request.patch().await?;
    let version = request.query.version_of_change()?;
    let conditions = Conditions::read(&request.parts.headers)?;
    let caller = request.caller();
    let id = request.id(name);
    let requires_presence = conditions.requires_presence();
    let attempt = Arc::new(Attempt {
        patch,
        version,
        conditions,
        printer: request.printer(),
        host: request.host.clone(),
        message: request.kind.schema.message().clone(),
        limit: request.shared.options.max_body_bytes,
        fault: Mutex::new(None),
    });
    let span = span("Update", Some(&id));
    let compute = Arc::clone(&attempt).computation();
    let written = run_guarded(span, Box::pin(request.shared.service.update_with(&caller, id, compute))).await;
    match written {
        Ok(written) => answer_written(&request, &written),
        Err(error) => Err(match attempt.fault.lock().take() {
            Some(fault) => fault,
            None if error.code == Code::NotFound && requires_presence => attempt.conditions.unmet(),
            None => error.into(),
        }),
    }
}

/// The change that each attempt makes to the stored resource.
struct Attempt {
    patch: Patch,
    /// The version of the request's parameter; empty for each.
    version: String,
    conditions: Conditions,
    printer: Printer,
    host: DescriptorPool,
    message: MessageDescriptor,
    /// Most bytes of the patched resource.
    limit: usize,
    /// The fault of the last attempt.
    fault: Mutex<Option<HttpError>>,
}

impl Attempt {
    fn computation(self: Arc<Self>) -> Computation {
        Arc::new(move |stored: pb::Resource| {
            let attempt = self.clone();
            async move {
                let is_small = stored.data.as_ref().is_none_or(|data| data.value.len() <= SMALL_BODY_BYTES);
                let computed = if is_small {
                    attempt.next(stored)
                } else {
                    let attempt = attempt.clone();
                    let computing = tokio::task::spawn_blocking(move || attempt.next(stored));
                    computing.await.unwrap_or_else(|_| Err(Error::internal("grpc: panic serving request").into()))
                };
                computed.map_err(|fault| {
                    let recorded = fault.to_service_error();
                    *attempt.fault.lock() = Some(fault);
                    recorded
                })
            }
            .boxed()
        })
    }

    /// Applies the patch to the stored resource.
    fn next(&self, stored: pb::Resource) -> Result<pb::Resource, HttpError> {
        if self.conditions.of_read(&stored.version)? == Freshness::Known {
            return Err(self.conditions.unmet());
        }
        if !self.version.is_empty() && self.version != stored.version {
            let what = "the version is not the stored one; read the resource again";
            return Err(Error::new(Code::Aborted, what).into());
        }
        let before = self.printer.value(&stored);
        let mut after = before.clone();
        self.patch.apply(&mut after)?;
        check_keys(&before, &after)?;
        let text = after.to_string();
        if text.len() > self.limit {
            let what = format!("the patched resource has more than {} bytes", self.limit);
            return Err(HttpError::new(ErrorKind::TooLarge, what));
        }
        let next = body_json::resource(&self.host, &self.message, text.as_bytes(), self.limit / 8);
        let next = next.map_err(HttpError::without_places)?;
        let same_data = ["data", "unprintableData"].iter().all(|key| before.get(key) == after.get(key));
        Ok(pb::Resource { data: if same_data { stored.data } else { next.data }, owner: stored.owner, ..next })
    }
}

/// Checks that a patch changes only the parts that a client may write.
fn check_keys(before: &Value, after: &Value) -> Result<(), HttpError> {
    let (Some(before), Some(after)) = (before.as_object(), after.as_object()) else {
        let what = "the patch leaves no resource; keep the object, and change its data, metadata or meta";
        return Err(HttpError::new(ErrorKind::Head, what));
    };
    let fixed = before.keys().chain(after.keys()).filter(|key| !PATCHED_KEYS.contains(&key.as_str()));
    match fixed.into_iter().find(|key| before.get(*key) != after.get(*key)) {
        None => Ok(()),
        Some(key) => {
            let why = match key.as_str() {
                "version" => "the server sets it; send If-Match to require a version",
                _ => "a patch cannot change it; data, metadata and meta can change",
            };
            let what = format!("{key}: {why}");
            Err(HttpError::new(ErrorKind::Head, what).with_violation(key.clone(), why.to_owned()))
        }
    }
}
