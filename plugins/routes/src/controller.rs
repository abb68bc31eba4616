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
//! - If the operator has the directory checked, a file that is refused stays as it was, with its part of the hostname;
//!   the Route's status has the refusal, and the other Routes go on.
//!
//! # Cost
//! Each reconcile reads the files of all Routes of the hostname: some thousand Routes of one hostname are too many; the
//! same number over many hostnames is fine.
//!
//! # Limits
//! The finalizer needs the directory: without the grant, a Route that has a file cannot be deleted. If Routes were lost
//! with the data directory, their files stay, until they are imported ([`crate::adopt`]).

use std::{collections::BTreeMap, time::Duration};

use mortise_plugin::{
    Condition, Context, Controller, Error, Failure, Finalizer, Index, Key, Mapper, Outcome, Reconciler, Request,
    Status, Typed, Watch, pb, reference_to, settings,
};

use crate::{
    ROUTE, UPSTREAMS,
    file::{self, RouteName},
    plan::{FileAction, Member, RouteResult, Step, plan},
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

/// Reason of a condition about a file that the operator's check refused.
const REFUSED: &str = "Refused";

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
            (Err(RouteError::Refused(failure)), Some(route)) if route.is_marked() => not_applied(ctx, &route, &failure),
            (Err(RouteError::Refused(failure)), _) => Err(failure.into()),
            (Err(RouteError::Other(error)), _) => Err(error),
        }
    }
}

/// Refusals of files by the operator's check, by the places of their Routes.
type Refusals = BTreeMap<usize, Failure>;

/// Error of a reconcile.
enum RouteError {
    /// The directory does not exist, is not granted, or is full: the Route's status reports it.
    Directory(Failure),
    /// The operator's check refused a file: the status of its Route reports it.
    Refused(Failure),
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
            self.write_without(former, &RouteName::of(route.id()), text.as_deref())?;
        }
        let mut sharing = self.sharing(hostname)?;
        if !sharing.iter().any(|one| one.id() == route.id()) {
            // Routes with an empty hostname are not in the index.
            sharing.push(route.clone());
        }
        let place = sharing.iter().position(|one| one.id() == route.id());
        let mut refusals = self.write_all(hostname, &sharing)?;
        match place.and_then(|place| refusals.remove(&place)) {
            // Tried again: a name may resolve later.
            Some(failure) => Err(RouteError::Refused(failure)),
            None => Ok(()),
        }
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
        let route = RouteName::of(id);
        let name = route.file();
        let text = self.read(&name)?;
        let former = text.as_deref().and_then(file::hostname);
        for hostname in hostname.into_iter().chain(former.filter(|former| hostname != Some(former))) {
            self.write_without(hostname, &route, text.as_deref())?;
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

    /// Writes the files of a hostname's Routes, then their statuses. A Route whose file the operator's check refuses
    /// keeps its former part, and the others go on with that: returns the refusals, by the places of the Routes.
    fn write_all(&self, hostname: &str, routes: &[Typed<Route>]) -> Result<Refusals, RouteError> {
        let mut refusals = Refusals::new();
        loop {
            let mut members = Vec::new();
            for (number, route) in routes.iter().enumerate() {
                let before = self.read(&RouteName::of(route.id()).file())?;
                let refused = refusals.get(&number).map(|failure| failure.message.clone());
                members.push(Member { route: route.clone(), upstreams: self.upstreams(route)?, before, refused });
            }
            let steps = match plan(hostname, &self.nginx, &members) {
                Ok(steps) => steps,
                Err(error) => {
                    for route in routes {
                        report(self.ctx, route, &RouteResult::Invalid(error.to_string()))?;
                    }
                    return Err(RouteError::Other(error.into()));
                }
            };
            match self.put(&members, &steps)? {
                None => {
                    for (route, step) in steps.iter().filter_map(|step| Some((routes.get(step.member)?, step))) {
                        report(self.ctx, route, &step.verdict)?;
                    }
                    return Ok(refusals);
                }
                Some((number, failure)) if refusals.contains_key(&number) => {
                    // The former part is refused as well: another file is at fault.
                    if let Some(route) = routes.get(number) {
                        report(self.ctx, route, &RouteResult::Refused(failure.message.clone()))?;
                    }
                    return Err(RouteError::Refused(failure));
                }
                Some((number, failure)) => refusals.insert(number, failure),
            };
        }
    }

    /// Writes and removes the files of a plan, up to the first one that the check refuses: its member, and the refusal.
    fn put(&self, members: &[Member], steps: &[Step]) -> Result<Option<(usize, Failure)>, RouteError> {
        for step in steps {
            let Some(member) = members.get(step.member) else { continue };
            let name = RouteName::of(member.route.id()).file();
            let done = match (&step.action, &member.before) {
                (FileAction::Put(text), before) if before.as_ref() != Some(text) => {
                    self.files.write(&name, text.as_bytes())
                }
                (FileAction::Remove, Some(_)) => self.files.remove(&name),
                _ => Ok(()),
            };
            match done {
                Err(failure) if failure.code == Failure::INVALID => return Ok(Some((step.member, failure))),
                done => done.map_err(RouteError::Directory)?,
            }
        }
        Ok(None)
    }

    /// Writes the files of a hostname without a Route that has left it. The Route's own file may be what the check
    /// refuses; then it first gets a text that passes, since others may still name its upstreams.
    fn write_without(&self, hostname: &str, left: &RouteName, text: Option<&str>) -> Result<(), RouteError> {
        let routes = self.sharing(hostname)?;
        let own = text.filter(|text| file::hostname(text).is_some());
        let idle = own.map(file::without_upstreams).filter(|idle| Some(idle.as_str()) != own);
        match (self.write_all(hostname, &routes), idle) {
            (Err(RouteError::Refused(_)), Some(idle)) => {
                self.files.write(&left.file(), idle.as_bytes()).map_err(RouteError::Directory)?;
                self.write_all(hostname, &routes).map(drop)
            }
            (done, _) => done.map(drop),
        }
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
        RouteResult::Invalid(fault) => Condition::fails("Applied").reason("Invalid").message(kept(fault)),
        RouteResult::Refused(fault) => Condition::fails("Applied").reason(REFUSED).message(kept(fault)),
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

/// Writes a result into the status. A refusal that differs from the last one in numbers alone is the same: the output
/// of a program may have the time in it, and each write of a status would lead to the next check.
fn report(ctx: &Context<'_>, route: &Typed<Route>, verdict: &RouteResult) -> Result<(), Failure> {
    if let RouteResult::Refused(fault) = verdict
        && let Some(stored) = route.status_under(KEY)
        && let [last] = stored.conditions.as_slice()
        && stored.observed_generation == route.generation()
        && last.reason == REFUSED
        && without_numbers(&last.message) == without_numbers(&kept(fault))
    {
        return Ok(());
    }
    write_status(ctx, route, condition(route, verdict))
}

fn without_numbers(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// The message about a new file that is not in place.
fn kept(fault: &str) -> String {
    format!("the former file stays in place: {fault}")
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
