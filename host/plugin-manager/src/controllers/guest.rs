//! A plugin's reconciler for the runtime: its warm instances behind the traits of the runtime.

use std::{future::pending, sync::Arc};

use async_trait::async_trait;
use mortise_controller::{Context, Map, Outcome, ReconcileError, Request};
use mortise_plugin_host as guest;
use mortise_resource::pb;

use super::host::{Client, ControllerContext};

/// A controller of a plugin.
pub(crate) struct Controller {
    /// The plugin's instances, shared by its controllers.
    pub(crate) reconciler: Arc<guest::Reconciler>,
    /// Its name in the manifest.
    pub(crate) name: Arc<str>,
    /// Whether it exports an initializer.
    pub(crate) initializes: bool,
    pub(crate) shared: Arc<ControllerContext>,
}

#[async_trait]
impl mortise_controller::Reconciler for Controller {
    async fn reconcile(&self, context: &Context, request: Request) -> Result<Outcome, ReconcileError> {
        let id = request.id(context.managed());
        let (host, cancel) = (Client::new(&self.shared, context), guest::Cancel::default());
        let call = || self.reconciler.reconcile(&self.name, &id, host, &cancel);
        match call_until_cancelled(context, &cancel, call).await {
            Ok(guest::Outcome::Done) => Ok(Outcome::Done),
            Ok(guest::Outcome::RequeueNow) => Ok(Outcome::Now),
            Ok(guest::Outcome::RequeueAfter(wait)) => Ok(Outcome::After(wait)),
            Ok(guest::Outcome::Deferred { after, reason }) => Ok(Outcome::Deferred(after, reason)),
            Err(e) => Err(failed(e)),
        }
    }

    async fn initialize(&self, context: &Context) -> Result<(), ReconcileError> {
        if !self.initializes {
            return Ok(());
        }
        let (host, cancel) = (Client::new(&self.shared, context), guest::Cancel::default());
        let call = || self.reconciler.initialize(&self.name, host, &cancel);
        call_until_cancelled(context, &cancel, call).await.map_err(failed)
    }
}

#[async_trait]
impl Map for Controller {
    async fn map(&self, context: &Context, resource: &pb::Resource) -> Result<Vec<pb::Id>, ReconcileError> {
        let host = Client::new(&self.shared, context);
        self.reconciler.map(&self.name, resource, host, &guest::Cancel::default()).await.map_err(failed)
    }
}

/// Waits for a call, and cancels the guest when the run is ending. The call may continue until the runtime drops it.
/// `call` makes the future in place, since it is large.
async fn call_until_cancelled<F: Future>(
    context: &Context,
    cancel: &guest::Cancel,
    call: impl FnOnce() -> F,
) -> F::Output {
    let tell = async {
        context.cancelled().await;
        cancel.cancel();
        pending::<()>().await;
    };
    tokio::select! {
        biased;
        answer = call() => answer,
        () = tell => pending().await,
    }
}

fn failed(error: guest::ReconcileError) -> ReconcileError {
    match error {
        guest::ReconcileError::Guest(message) => ReconcileError::new(message),
        guest::ReconcileError::Fault(error) => {
            let text = error.for_operators();
            let failed = match error.fault {
                guest::HookFault::Quarantined { retry_in, .. } => ReconcileError::refused(text, retry_in),
                _ if error.counts => ReconcileError::fault(text),
                _ => ReconcileError::new(text),
            };
            failed.caused_by(error)
        }
    }
}
