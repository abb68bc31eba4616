//! The files of one hostname.

use std::collections::{BTreeMap, BTreeSet};

use mortise_plugin::{Failure, Key, Typed};

use super::{BY_HOSTNAME, FINALIZER, RouteError, RouteFiles, report};
use crate::{
    ROUTE, UPSTREAMS,
    file::{self, RouteName, has_server},
    lookup::has_variable,
    plan::{FileAction, Member, RouteResult, Step, plan},
    proto::edge::v1::{Route, RouteUpstreams, Upstream},
};

/// Refusals of files by the operator's check, by the places of their Routes.
type Refusals = BTreeMap<usize, Failure>;

/// The Route that leaves a hostname during a reconcile.
#[derive(Clone, Copy)]
enum Leaver<'r> {
    Absent,
    /// It keeps its part of the hostname.
    Included(&'r Typed<Route>),
    /// It has no part of the hostname.
    Excluded(&'r RouteName),
}

impl RouteFiles<'_> {
    /// Writes the files of the Route's hostname, and those of its former hostname.
    pub(super) fn write_hostname(&self, route: &Typed<Route>) -> Result<(), RouteError> {
        let (hostname, own) = (&route.data.hostname, RouteName::of(route.id()));
        let mut sharing = self.sharing(hostname)?;
        if !sharing.iter().any(|one| one.id() == route.id()) {
            // Routes with an empty hostname are not in the index.
            sharing.push(route.clone());
        }
        let place = sharing.iter().position(|one| one.id() == route.id());
        let text = self.read(&own.file())?;
        let former = text.as_deref().and_then(file::hostname).filter(|former| former != hostname);
        if let Some(former) = former {
            self.prepare_move(route, former, text.as_deref(), (&sharing, place))?;
        }
        let written = self.write_all(hostname, &sharing, Leaver::Absent);
        if let Some(former) = former {
            let is_there = self.read(&own.file())?.as_deref().and_then(file::hostname) == Some(former);
            let leaver = if is_there { Leaver::Included(route) } else { Leaver::Excluded(&own) };
            let left = self.write_all(former, &self.sharing(former)?, leaver);
            // The fault of the Route's own hostname counts.
            if written.is_ok() {
                left?;
            }
        }
        let mut refusals = written?;
        match place.and_then(|place| refusals.remove(&place)) {
            // Tried again: a name may resolve later.
            Some(failure) => Err(RouteError::Refused(failure)),
            None => Ok(()),
        }
    }

    /// Prepares the former hostname for a move: another Route's file gets the `server` block. If the new file of the
    /// Route lacks something that the block names, the Route leaves the hostname now.
    fn prepare_move(
        &self,
        route: &Typed<Route>,
        former: &str,
        text: Option<&str>,
        (sharing, place): (&[Typed<Route>], Option<usize>),
    ) -> Result<(), RouteError> {
        let members = self.members(&route.data.hostname, sharing, Leaver::Absent, &Refusals::new())?;
        let steps = plan(&route.data.hostname, &self.nginx, &members).unwrap_or_default();
        let action = steps.iter().find(|step| Some(step.member) == place).map(|step| &step.action);
        let has_all = match action {
            Some(FileAction::Put(new)) => has_variable(new) || !text.is_some_and(has_variable),
            Some(FileAction::Keep) | None => true,
            Some(FileAction::Remove) => false,
        };
        if has_all {
            match self.write_all(former, &self.sharing(former)?, Leaver::Included(route)) {
                // The former file may be what the check refuses.
                Err(RouteError::Refused(_)) => {}
                done => return done.map(drop),
            }
        }
        self.write_without(former, &RouteName::of(route.id()), text)
    }

    /// Routes of a hostname that may have files.
    fn sharing(&self, hostname: &str) -> Result<Vec<Typed<Route>>, RouteError> {
        let mut found = self.ctx.cache().list(ROUTE, BY_HOSTNAME, Key::Value(hostname))?;
        found.retain(|one| one.data.hostname == hostname && !one.is_marked() && FINALIZER.is_on(one));
        Ok(found)
    }

    /// The Routes of a hostname with their present files; then those that have another hostname by now, but whose new
    /// files were refused: the `server` block still names them.
    fn members(
        &self,
        hostname: &str,
        routes: &[Typed<Route>],
        leaver: Leaver<'_>,
        refusals: &Refusals,
    ) -> Result<Vec<Member>, RouteError> {
        let mut members = Vec::new();
        for (number, route) in routes.iter().enumerate() {
            let before = self.read(&RouteName::of(route.id()).file())?;
            let refused = refusals.get(&number).map(|failure| failure.message.clone());
            let upstreams = self.upstreams(route)?;
            members.push(Member { route: route.clone(), upstreams, before, refused, is_leaving: false });
        }
        let mut known: BTreeSet<_> = members.iter().map(|member| RouteName::of(member.route.id()).file()).collect();
        let blocks = members.iter().filter_map(|member| member.before.as_deref()).filter(|text| has_server(text));
        let mut named: Vec<_> = blocks.flat_map(file::targets).collect();
        match leaver {
            Leaver::Absent => {}
            Leaver::Included(route) => named.push(RouteName::of(route.id())),
            Leaver::Excluded(name) => _ = known.insert(name.file()),
        }
        for name in named {
            if !known.insert(name.file()) {
                continue;
            }
            let route = self.ctx.cache().get(ROUTE, &ROUTE.id(name.name(), &name.tenancy()))?;
            let Some(route) = route.filter(|one| !one.is_marked() && FINALIZER.is_on(one)) else { continue };
            let before = self.read(&name.file())?;
            if before.as_deref().and_then(file::hostname) == Some(hostname) {
                members.push(Member { route, upstreams: Vec::new(), before, refused: None, is_leaving: true });
            }
        }
        Ok(members)
    }

    /// Writes the files of a hostname's Routes, then their statuses. A Route whose file the operator's check refuses
    /// keeps its former part, and the others go on with that: returns the refusals, by the places of the Routes.
    fn write_all(&self, hostname: &str, routes: &[Typed<Route>], leaver: Leaver<'_>) -> Result<Refusals, RouteError> {
        let mut refusals = Refusals::new();
        loop {
            let members = self.members(hostname, routes, leaver, &refusals)?;
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
                    // A Route that leaves has its status from its own hostname.
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
    pub(super) fn write_without(&self, hostname: &str, left: &RouteName, text: Option<&str>) -> Result<(), RouteError> {
        let (routes, leaver) = (self.sharing(hostname)?, Leaver::Excluded(left));
        let own = text.filter(|text| file::hostname(text).is_some());
        let idle = own.map(file::without_upstreams).filter(|idle| Some(idle.as_str()) != own);
        match (self.write_all(hostname, &routes, leaver), idle) {
            (Err(RouteError::Refused(_)), Some(idle)) => {
                self.files.write(&left.file(), idle.as_bytes()).map_err(RouteError::Directory)?;
                self.write_all(hostname, &routes, leaver).map(drop)
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
        Ok(computed.map(|computed: Typed<RouteUpstreams>| computed.data.upstreams).unwrap_or_default())
    }
}
