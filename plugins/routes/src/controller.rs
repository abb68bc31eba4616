//! Makes the directory so as the Routes say.
//!
//! # Contract
//! - A change of a Route concerns all that share its hostname, and those that share the one it had before, which its
//!   file tells. Their files and their status are brought in order together.
//! - What the Routes say is taken from the controller's cache alone: it never goes back, so no file does. What is
//!   decided on a cache that is behind is decided anew when it has caught up, since that wakes the controller.
//! - A Route has a file only after it has the finalizer. It loses the finalizer after its file is gone, and after no
//!   other file names it.
//! - A file is written only if its text changes, and only after it was checked ([`crate::plan`]).
//!
//! # Cost
//! Each reconcile reads the files of all Routes of the hostname: some thousand Routes of one hostname are too many, of
//! many hostnames are not.
//!
//! # Limits
//! The finalizer waits for the directory: without the grant, a Route that has a file cannot go. Files whose Routes were
//! lost with the data directory stay, until they are imported ([`crate::adopt`]).

use std::time::Duration;

use mortise_plugin::{
    Condition, Context, Controller, Error, Failure, Finalizer, Index, Key, Mapper, Outcome, Reconciler, Request,
    Status, Typed, Watch, pb, reference_to, settings,
};

use crate::{
    ROUTE, UPSTREAMS,
    file::{self, RouteName},
    plan::{FileAction, Member, Verdict, plan},
    proto::edge::v1::{Route, Upstream},
    settings::listen,
};

/// The directory, as it is granted.
pub(crate) const DIRECTORY: &str = "nginx";

/// The index of Routes by hostname.
const BY_HOSTNAME: &str = "hostname";

/// The key of the status, and the finalizer.
const KEY: &str = "edge.v1/routes";
const RELEASE: Finalizer = Finalizer::new(KEY);

/// How long until a directory that was not granted is tried again. Grants change with a start of the plugin.
const UNGRANTED: Duration = Duration::from_secs(300);

pub(crate) static ROUTES: Controller<Routes> = Controller::new("routes", ROUTE, Routes)
    .indexes(&[Index::by_value(BY_HOSTNAME, "hostname")])
    .watches(&[&Watch::new(UPSTREAMS, Mapper::SameName)]);

pub(crate) struct Routes;

impl Reconciler for Routes {
    type Managed = Route;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Route>) -> Result<Outcome, Error> {
        let work = RouteFiles { ctx, files: ctx.files(DIRECTORY), listen: listen(&settings()) };
        let seen = ctx.cache().get(ROUTE, request.id())?;
        let done = match &seen {
            None => work.forget(request.id(), None),
            Some(route) if route.is_marked() => work.release(route),
            Some(route) if !RELEASE.is_on(route) => work.add_finalizer(route),
            Some(route) => work.write_hostname(route),
        };
        match (done, seen) {
            (Ok(()), _) => Ok(Outcome::Done),
            (Err(RouteError::Directory(failure)), Some(route)) => not_applied(ctx, &route, &failure),
            // Where nothing can be written, nothing was.
            (Err(RouteError::Directory(failure)), None) if failure.code == Failure::DENIED => Ok(Outcome::Done),
            (Err(RouteError::Directory(failure)), None) => Err(failure.into()),
            (Err(RouteError::Other(error)), _) => Err(error),
        }
    }
}

/// Why a reconcile came to no end.
enum RouteError {
    /// The directory is not there, or not granted, or full: the Route's status says so.
    Directory(Failure),
    Other(Error),
}

impl From<Failure> for RouteError {
    fn from(failure: Failure) -> Self {
        Self::Other(failure.into())
    }
}

/// One reconcile.
struct RouteFiles<'a> {
    ctx: &'a Context<'a>,
    files: mortise_plugin::Files<'a>,
    listen: String,
}

impl RouteFiles<'_> {
    /// Puts the finalizer on a Route, which wakes this controller again.
    fn add_finalizer(&self, seen: &Typed<Route>) -> Result<(), RouteError> {
        // Not on one that can have no file: it could not be deleted.
        self.read(&RouteName::of(seen.id()).file())?;
        let stored = self.ctx.read::<Route>(seen.id())?;
        if let Some(mut route) = stored.filter(|route| !route.is_marked() && !RELEASE.is_on(route)) {
            RELEASE.add(self.ctx, &mut route)?;
        }
        Ok(())
    }

    /// Sees to the Route's hostname, and before that to the one it had.
    fn write_hostname(&self, route: &Typed<Route>) -> Result<(), RouteError> {
        let hostname = &route.data.hostname;
        let text = self.read(&RouteName::of(route.id()).file())?;
        if let Some(former) = text.as_deref().and_then(file::hostname).filter(|former| former != hostname) {
            self.write_all(former, self.sharing(former)?)?;
        }
        let mut sharing = self.sharing(hostname)?;
        if !sharing.iter().any(|one| one.id() == route.id()) {
            // An empty hostname is in no index.
            sharing.push(route.clone());
        }
        self.write_all(hostname, sharing)
    }

    /// Cleans up after a Route that is marked, and lets it go.
    fn release(&self, seen: &Typed<Route>) -> Result<(), RouteError> {
        if !RELEASE.is_on(seen) {
            return Ok(());
        }
        self.forget(seen.id(), Some(&seen.data.hostname))?;
        let stored = self.ctx.read::<Route>(seen.id())?;
        if let Some(mut route) = stored.filter(|route| RELEASE.is_on(route)) {
            RELEASE.remove(self.ctx, &mut route)?;
        }
        Ok(())
    }

    /// Removes the file of a Route that the cache has no more, or marked, after seeing to it that no other file names
    /// it.
    fn forget(&self, id: &pb::Id, hostname: Option<&str>) -> Result<(), RouteError> {
        let name = RouteName::of(id).file();
        let text = self.read(&name)?;
        let former = text.as_deref().and_then(file::hostname);
        for hostname in hostname.into_iter().chain(former.filter(|former| hostname != Some(former))) {
            self.write_all(hostname, self.sharing(hostname)?)?;
        }
        // When nobody is left to tell, one without our head is somebody else's.
        if former.is_some() || (hostname.is_some() && text.is_some()) {
            self.files.remove(&name).map_err(RouteError::Directory)?;
        }
        Ok(())
    }

    /// The Routes of a hostname that may have files.
    fn sharing(&self, hostname: &str) -> Result<Vec<Typed<Route>>, RouteError> {
        let mut found = self.ctx.cache().list(ROUTE, BY_HOSTNAME, Key::Value(hostname))?;
        found.retain(|one| one.data.hostname == hostname && !one.is_marked() && RELEASE.is_on(one));
        Ok(found)
    }

    /// Brings the files of a hostname's Routes in order, then says so.
    fn write_all(&self, hostname: &str, routes: Vec<Typed<Route>>) -> Result<(), RouteError> {
        let mut members = Vec::new();
        for route in routes {
            let before = self.read(&RouteName::of(route.id()).file())?;
            let upstreams = self.upstreams(&route)?;
            members.push(Member { route, upstreams, before });
        }
        let steps = match plan(hostname, &self.listen, &members) {
            Ok(steps) => steps,
            Err(error) => {
                for member in &members {
                    write_status(
                        self.ctx,
                        &member.route,
                        condition(&member.route, &Verdict::Invalid(error.to_string())),
                    )?;
                }
                return Err(RouteError::Other(error.into()));
            }
        };
        let of = |number: usize| members.get(number);
        for (member, step) in steps.iter().filter_map(|step| Some((of(step.member)?, step))) {
            let name = RouteName::of(member.route.id()).file();
            let done = match (&step.action, &member.before) {
                (FileAction::Put(text), before) if before.as_ref() != Some(text) => {
                    self.files.write(&name, text.as_bytes())
                }
                (FileAction::Remove, Some(_)) => self.files.remove(&name),
                _ => Ok(()),
            };
            done.map_err(RouteError::Directory)?;
        }
        for (member, step) in steps.iter().filter_map(|step| Some((of(step.member)?, step))) {
            write_status(self.ctx, &member.route, condition(&member.route, &step.verdict))?;
        }
        Ok(())
    }

    /// A Route's own upstreams, or those of the service that it names.
    fn upstreams(&self, route: &Typed<Route>) -> Result<Vec<Upstream>, RouteError> {
        if route.data.service.is_none() {
            return Ok(route.data.upstreams.clone());
        }
        let tenancy = route.id().tenancy.clone().unwrap_or_default();
        let computed = self.ctx.cache().get(UPSTREAMS, &UPSTREAMS.id(route.name(), &tenancy))?;
        Ok(computed.map(|computed| computed.data.upstreams).unwrap_or_default())
    }

    fn read(&self, name: &str) -> Result<Option<String>, RouteError> {
        let content = self.files.read(name).map_err(RouteError::Directory)?;
        Ok(content.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}

fn condition(route: &Typed<Route>, verdict: &Verdict) -> Condition {
    match verdict {
        Verdict::Written => {
            let text = format!("{} is in place; nginx has it when it has reloaded", RouteName::of(route.id()).file());
            Condition::holds("Applied").because("Written").message(text)
        }
        Verdict::Conflict(other) => {
            let text = format!(
                "the route {} is older and has the same hostname and path prefix; change one of them",
                RouteName::of(other).shown()
            );
            Condition::fails("Applied").because("Conflict").message(text).about(reference_to(other))
        }
        Verdict::Invalid(fault) => {
            Condition::fails("Applied").because("Invalid").message(format!("what was in place stays: {fault}"))
        }
    }
}

/// Says that the directory cannot be worked with.
fn not_applied(ctx: &Context<'_>, route: &Typed<Route>, failure: &Failure) -> Result<Outcome, Error> {
    let applied = Condition::fails("Applied");
    if failure.code != Failure::DENIED {
        write_status(ctx, route, applied.because("NotWritten").message(failure.message.clone()))?;
        return Err(failure.clone().into());
    }
    let text = format!(
        "{}; this plugin needs {DIRECTORY} = {{ path = \"…\", write = true }} in [plugin.routes.grants.directories]",
        failure.message
    );
    write_status(ctx, route, applied.because("NotGranted").message(text.clone()))?;
    Ok(Outcome::Deferred(UNGRANTED, text))
}

/// Writes the status, unless the Route is gone meanwhile.
fn write_status(ctx: &Context<'_>, route: &Typed<Route>, condition: Condition) -> Result<(), Failure> {
    match Status::new(KEY, route).with(condition).write_if_changed(ctx, route) {
        Err(failure) if !failure.is_not_found() => Err(failure),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
