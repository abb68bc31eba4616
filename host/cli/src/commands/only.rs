//! Writes that only create, or only replace: `mortise create` and `mortise replace`.
//!
//! A creation is one call, which fails if the resource exists. A replacement is a read and a write of the version that
//! was read, or that the file has.

use mortise_resource::{data::UpdateRequest, pb};

use super::apply::Outcome;
use crate::{
    CliError, Connect, Exit, Session, Tenancy,
    apply::{
        files::Files,
        plan::{self, Change},
    },
    resources::{
        catalog::Catalog,
        ids::{id_of, placed_title},
    },
};

/// Version that no stored resource has: an update that would change a resource fails with it, and one that creates does
/// not look at it.
const NO_VERSION: &str = "0";

/// Kind of a write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum WriteMode {
    /// Creates or updates, and leaves a resource that is as wanted.
    #[default]
    Apply,
    /// Creates; an existing resource is a failure.
    Create,
    /// Replaces; a missing resource is a failure.
    Replace,
}

/// Arguments of the commands that write files in another mode.
pub(super) struct ChangeArgs {
    pub(super) files: Files,
    pub(super) dry_run: bool,
    pub(super) quiet: bool,
    pub(super) tenancy: Tenancy,
    pub(super) connect: Connect,
}

/// Writes a resource, or plans the write.
pub(super) async fn write(
    mode: WriteMode,
    dry_run: bool,
    session: &Session,
    catalog: &Catalog,
    wanted: pb::Resource,
) -> Result<Outcome, CliError> {
    let title = placed_title(&id_of(&wanted));
    if dry_run {
        let plan = plan::dry_run(session, catalog, &wanted, |_| false).await?;
        return match (mode, &plan.before) {
            (WriteMode::Create, Some(_)) => Err(exists(&title)),
            (WriteMode::Replace, None) => Err(missing(&title)),
            _ => Ok(Outcome::Planned(Box::new(plan))),
        };
    }
    match mode {
        WriteMode::Replace => replace(&title, session, wanted).await,
        WriteMode::Apply | WriteMode::Create => create(&title, session, wanted).await,
    }
}

async fn create(title: &str, session: &Session, wanted: pb::Resource) -> Result<Outcome, CliError> {
    let resource = pb::Resource { version: NO_VERSION.to_owned(), ..wanted };
    let request = UpdateRequest { resource: Some(resource), allow_missing: true, ..UpdateRequest::default() };
    let call = async { session.queries().update(request).await };
    match session.call(title, call).await {
        Ok(answer) => {
            let stored = answer.resource.unwrap_or_default();
            Ok(Outcome::Done(Change::Created, stored.into(), answer.warnings))
        }
        Err(error) if error.code == Some(tonic::Code::Aborted) => Err(exists(title)),
        Err(error) => Err(error),
    }
}

async fn replace(title: &str, session: &Session, wanted: pb::Resource) -> Result<Outcome, CliError> {
    let Some(stored) = plan::stored(session, &wanted).await? else { return Err(missing(title)) };
    let version = if wanted.version.is_empty() { stored.version } else { wanted.version.clone() };
    let request = pb::WriteRequest { resource: Some(pb::Resource { version, ..wanted }) };
    let answer = session.call(title, async { session.resources().write(request).await }).await?;
    Ok(Outcome::Done(Change::Updated, answer.resource.unwrap_or_default().into(), answer.warnings))
}

fn exists(title: &str) -> CliError {
    let error = CliError::new(Exit::Failed, format!("{title}: it exists already"));
    error.remedy("`mortise apply` creates or updates, `mortise replace` replaces")
}

fn missing(title: &str) -> CliError {
    let error = CliError::new(Exit::Failed, format!("{title}: it does not exist"));
    error.remedy("`mortise create` creates, `mortise apply` creates or updates")
}
