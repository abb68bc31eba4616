//! The state that the tasks of one run share, and the errors that end a run.

use std::sync::Arc;

use crate::{
    controller::Controller,
    definition::Definition,
    reconciler::RunContext,
    request::ReconcileError,
    source::{Source, SourceError},
};

/// The state that the tasks of a run share.
pub(crate) struct Run {
    pub(crate) controller: Arc<Controller>,
    pub(crate) definition: Arc<Definition>,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) context: Arc<RunContext>,
}

/// An error that ends a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("initializer failed: {0}")]
    Initializer(#[source] ReconcileError),
    #[error("watch of {resource_type} broke: {source}")]
    Watch { resource_type: String, source: SourceError },
    #[error("a task of the run failed: {0}")]
    Task(#[source] tokio::task::JoinError),
}
