//! Writes the files of the Routes.
//!
//! # Contract
//! - A change of a Route concerns all Routes of its hostname, and those of its former hostname, which is in its file.
//!   Their files and their statuses are written together.
//! - Routes are read from the controller's cache alone: the cache never goes back in time, so no file does. A decision
//!   on a cache that is behind is made again: the change that was missing wakes the controller.
//! - A Route has a file only after it has the finalizer. It loses the finalizer after its file is gone, and after no
//!   other file names it.
//! - A file is written only if its text changes, and only after it was checked ([`crate::plan`]).
//!
//! # Cost
//! Each reconcile reads the files of all Routes of the hostname: some thousand Routes of one hostname are too many; the
//! same number over many hostnames is fine.
//!
//! # Limits
//! The finalizer needs the directory: without the grant, a Route that has a file cannot be deleted. If Routes were lost
//! with the data directory, their files stay, until they are imported ([`crate::adopt`]).

use std::time::Duration;

use mortise_plugin::{
    Condition, Context, Controller, Error, Failure, Finalizer, Index, Key, Mapper, Outcome, Reconciler, Request,
    Status, Typed, Watch, pb, reference_to, settings,
};

use crate::{
    ROUTE, UPSTREAMS,
    file::{self, RouteName},
    plan::{FileAction, Member, RouteResult, plan},
    proto::edge::v1::{Route, Upstream},
    settings::Nginx,
};

/// Name of the granted directory.
pub(crate) const DIRECTORY: &str = "nginx";

/// Index of Routes by hostname.
const BY_HOSTNAME: &str = "hostname";

/// Key of the status, and of the finalizer.
const KEY: &str = "edge.v1/routes";
const FINALIZER: Finalizer = Finalizer::new(KEY);

/// Delay until a directory that was not granted is tried again. Grants change when the plugin is loaded.
const UNGRANTED_RETRY_DELAY: Duration = Duration::from_secs(300);

pub(crate) static ROUTES: Controller<Routes> = Controller::new("routes", ROUTE, Routes)
    .indexes(&[Index::by_value(BY_HOSTNAME, "hostname")])
    .watches(&[&Watch::new(UPSTREAMS, Mapper::SameName)]);

pub(crate) struct Routes;

impl Reconciler for Routes {
    type Managed = Route;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Route>) -> Result<Outcome, Error> {
        let work = RouteFiles { ctx, files: ctx.files(DIRECTORY), nginx: Nginx::of(&settings()) };
        let seen = ctx.cache().get(ROUTE, request.id())?;
        let done = match &seen {
            None => work.forget(request.id(), None),
            Some(route) if route.is_marked() => work.release(route),
            Some(route) if !FINALIZER.is_on(route) => work.add_finalizer(route),
            Some(route) => work.write_hostname(route),
        };
        match (done, seen) {
            (Ok(()), _) => Ok(Outcome::Done),
            (Err(RouteError::Directory(failure)), Some(route)) => not_applied(ctx, &route, &failure),
            // A directory that was never granted holds no files.
            (Err(RouteError::Directory(failure)), None) if failure.code == Failure::DENIED => Ok(Outcome::Done),
            (Err(RouteError::Directory(failure)), None) => Err(failure.into()),
            (Err(RouteError::Other(error)), _) => Err(error),
        }
    }
}

/// Error of a reconcile.
enum RouteError {
    /// The directory does not exist, is not granted, or is full: the Route's status reports it.
    Directory(Failure),
    Other(Error),
}

impl From<Failure> for RouteError {
    fn from(failure: Failure) -> Self {
        Self::Other(failure.into())
    }
}

/// State of one reconcile.
struct RouteFiles<'a> {
    ctx: &'a Context<'a>,
    files: mortise_plugin::Files<'a>,
    nginx: Nginx,
}

impl RouteFiles<'_> {
    /// Puts the finalizer on a Route, which wakes this controller again.
    fn add_finalizer(&self, seen: &Typed<Route>) -> Result<(), RouteError> {
        // Fails without the directory: with the finalizer, the Route could then not be deleted.
        self.read(&RouteName::of(seen.id()).file())?;
        let stored = self.ctx.read::<Route>(seen.id())?;
        if let Some(mut route) = stored.filter(|route| !route.is_marked() && !FINALIZER.is_on(route)) {
            FINALIZER.add(self.ctx, &mut route)?;
        }
        Ok(())
    }

    /// Writes the files of the Route's hostname, and before that those of its former hostname.
    fn write_hostname(&self, route: &Typed<Route>) -> Result<(), RouteError> {
        let hostname = &route.data.hostname;
        let text = self.read(&RouteName::of(route.id()).file())?;
        if let Some(former) = text.as_deref().and_then(file::hostname).filter(|former| former != hostname) {
            self.write_all(former, self.sharing(former)?)?;
        }
        let mut sharing = self.sharing(hostname)?;
        if !sharing.iter().any(|one| one.id() == route.id()) {
            // Routes with an empty hostname are not in the index.
            sharing.push(route.clone());
        }
        self.write_all(hostname, sharing)
    }

    /// Cleans up after a marked Route, and removes its finalizer.
    fn release(&self, seen: &Typed<Route>) -> Result<(), RouteError> {
        if !FINALIZER.is_on(seen) {
            return Ok(());
        }
        self.forget(seen.id(), Some(&seen.data.hostname))?;
        let stored = self.ctx.read::<Route>(seen.id())?;
        if let Some(mut route) = stored.filter(|route| FINALIZER.is_on(route)) {
            FINALIZER.remove(self.ctx, &mut route)?;
        }
        Ok(())
    }

    /// Removes the file of a Route that is gone from the cache or marked, after all references to it in other files are
    /// removed.
    fn forget(&self, id: &pb::Id, hostname: Option<&str>) -> Result<(), RouteError> {
        let name = RouteName::of(id).file();
        let text = self.read(&name)?;
        let former = text.as_deref().and_then(file::hostname);
        for hostname in hostname.into_iter().chain(former.filter(|former| hostname != Some(former))) {
            self.write_all(hostname, self.sharing(hostname)?)?;
        }
        // Without a Route, a file without this plugin's head belongs to others.
        if former.is_some() || (hostname.is_some() && text.is_some()) {
            self.files.remove(&name).map_err(RouteError::Directory)?;
        }
        Ok(())
    }

    /// Routes of a hostname that may have files.
    fn sharing(&self, hostname: &str) -> Result<Vec<Typed<Route>>, RouteError> {
        let mut found = self.ctx.cache().list(ROUTE, BY_HOSTNAME, Key::Value(hostname))?;
        found.retain(|one| one.data.hostname == hostname && !one.is_marked() && FINALIZER.is_on(one));
        Ok(found)
    }

    /// Writes the files of a hostname's Routes, then their statuses.
    fn write_all(&self, hostname: &str, routes: Vec<Typed<Route>>) -> Result<(), RouteError> {
        let mut members = Vec::new();
        for route in routes {
            let before = self.read(&RouteName::of(route.id()).file())?;
            let upstreams = self.upstreams(&route)?;
            members.push(Member { route, upstreams, before });
        }
        let steps = match plan(hostname, &self.nginx, &members) {
            Ok(steps) => steps,
            Err(error) => {
                for member in &members {
                    write_status(
                        self.ctx,
                        &member.route,
                        condition(&member.route, &RouteResult::Invalid(error.to_string())),
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

    /// Upstreams of a Route: its own, or those of the service that it names.
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

fn condition(route: &Typed<Route>, verdict: &RouteResult) -> Condition {
    match verdict {
        RouteResult::Written => {
            let text = format!("{} is in place; nginx uses it after a reload", RouteName::of(route.id()).file());
            Condition::holds("Applied").reason("Written").message(text)
        }
        RouteResult::Conflict(other) => {
            let text = format!(
                "the route {} is older and has the same hostname and path prefix; change one of them",
                RouteName::of(other).shown()
            );
            Condition::fails("Applied").reason("Conflict").message(text).about(reference_to(other))
        }
        RouteResult::Invalid(fault) => {
            Condition::fails("Applied").reason("Invalid").message(format!("the former file stays in place: {fault}"))
        }
    }
}

/// Reports in the status that the directory cannot be used.
fn not_applied(ctx: &Context<'_>, route: &Typed<Route>, failure: &Failure) -> Result<Outcome, Error> {
    let applied = Condition::fails("Applied");
    if failure.code != Failure::DENIED {
        write_status(ctx, route, applied.reason("NotWritten").message(failure.message.clone()))?;
        return Err(failure.clone().into());
    }
    let text = format!(
        "{}; this plugin needs {DIRECTORY} = {{ path = \"…\", write = true }} in [plugin.routes.grants.directories]",
        failure.message
    );
    write_status(ctx, route, applied.reason("NotGranted").message(text.clone()))?;
    Ok(Outcome::Deferred(UNGRANTED_RETRY_DELAY, text))
}

/// Writes the status, unless the Route has been deleted meanwhile.
fn write_status(ctx: &Context<'_>, route: &Typed<Route>, condition: Condition) -> Result<(), Failure> {
    match Status::new(KEY, route).with(condition).write_if_changed(ctx, route) {
        Err(failure) if !failure.is_not_found() => Err(failure),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
