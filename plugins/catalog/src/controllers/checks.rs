//! Has the host perform the health checks of workloads; it writes the results to the status `catalog.v1/check-NAME`.
//!
//! # Contract
//! - A check by `ttl` passes while the last report of a client is younger than the `ttl`. No client can report while
//!   the server is stopped or its machine sleeps: the timer stands still meanwhile, and begins again after a start.
//! - A check by `http`, `tcp` or `grpc` goes to the workload's first address when its interval is over. Its status is
//!   written when the result changes, so a check that keeps passing costs no write.
//! - Hosts that are not granted are not reached: the status names the grant to add.
//! - Checks wait for each other only within a group: the workloads whose names differ behind the last dash alone, as
//!   those of a service do.
//!
//! # Cost
//! A reconcile passes the checks of one workload to the host, and waits for none of them.

use std::net::Ipv6Addr;

use mortise_plugin::{
    Condition, Context, Controller, Error, Failure, Outcome, Reconciler, Request, Status, Typed,
    probes::{GrpcProbe, HttpProbe, Probe, ProbeTls, Probes, StatusRange, TcpProbe, probe},
};

use crate::{
    WORKLOAD,
    health::{self, PASSING},
    proto::catalog::v1::{CheckTls, HealthCheck, HttpCheck, Workload, health_check::Check},
};

#[cfg(test)]
mod tests;

/// Workloads whose checks are passed on at once.
const PARALLEL: u32 = 4;

pub(crate) static CONTROLLER: Controller<Checks> = Controller::new("checks", WORKLOAD, Checks).parallel(PARALLEL);

pub(crate) struct Checks;

impl Reconciler for Checks {
    type Managed = Workload;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Workload>) -> Result<Outcome, Error> {
        let workload = request.read(ctx)?.filter(|workload| !workload.is_marked());
        let Some(workload) = workload.filter(|workload| !workload.data.checks.is_empty()) else {
            ctx.set_probes(request.id(), &Probes::default())?;
            return Ok(Outcome::Done);
        };
        let mut probes = Vec::new();
        for check in &workload.data.checks {
            match probe(&workload, check) {
                Some(probe) => probes.push(probe),
                None => write_no_port(ctx, &workload, check)?,
            }
        }
        let name = workload.name();
        let group = name.rsplit_once('-').map_or(name, |(group, _)| group);
        let namespace = workload.id().tenancy.clone().unwrap_or_default().namespace;
        let probes = Probes {
            probes,
            group: format!("{namespace}/{group}"),
            version: workload.version().to_owned(),
            generation: workload.generation().to_owned(),
        };
        ctx.set_probes(workload.id(), &probes)?;
        Ok(Outcome::Done)
    }
}

/// The host's form of a check; `None` if the workload has no port of its name.
fn probe(workload: &Typed<Workload>, check: &HealthCheck) -> Option<Probe> {
    let key = health::status_key(&check.name);
    let host = workload.data.addresses.first()?.host.clone();
    let port = |port: &str| port_number(&workload.data, port);
    let what = match check.check.as_ref()? {
        Check::Ttl(ttl) => probe::Check::Report(*ttl),
        Check::Http(http) => probe::Check::Http(request(http, &host, port(&http.port)?)),
        Check::Tcp(tcp) => probe::Check::Tcp(TcpProbe { port: port(&tcp.port)?, host }),
        Check::Grpc(grpc) => probe::Check::Grpc(GrpcProbe {
            port: port(&grpc.port)?,
            host,
            service: grpc.service.clone(),
            tls: grpc.tls.as_ref().map(trust),
        }),
    };
    Some(Probe {
        stored: workload.status_under(&key),
        key,
        condition: PASSING.to_owned(),
        check: Some(what),
        interval: check.interval,
        timeout: check.timeout,
        passing_after: check.passing_after,
        failing_after: check.failing_after,
        delete_after: check.deregister_after,
    })
}

fn request(http: &HttpCheck, host: &str, port: u32) -> HttpProbe {
    let at = if host.parse::<Ipv6Addr>().is_ok() { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let mut headers = http.headers.clone();
    if !http.host.is_empty() {
        headers.insert("host".to_owned(), http.host.clone());
    }
    HttpProbe {
        url: format!("{}://{at}{}", http.scheme, http.path),
        method: http.method.clone(),
        headers,
        statuses: http.statuses.iter().map(|range| StatusRange { from: range.from, to: range.to }).collect(),
        body: http.body.clone(),
        redirects: http.redirects,
        tls: http.tls.as_ref().map(trust),
    }
}

fn trust(tls: &CheckTls) -> ProbeTls {
    ProbeTls { ca: tls.ca.clone(), server_name: tls.server_name.clone() }
}

/// The number of a port that a check names.
fn port_number(workload: &Workload, port: &str) -> Option<u32> {
    let named = || workload.ports.iter().find(|one| one.name == port).map(|one| one.port);
    port.parse::<u16>().ok().map(u32::from).or_else(named)
}

/// Tells that a check cannot be performed. A workload that was deleted meanwhile needs no status.
fn write_no_port(ctx: &Context<'_>, workload: &Typed<Workload>, check: &HealthCheck) -> Result<(), Failure> {
    let text = "the workload has no port of that name";
    let found = Condition::fails(PASSING).reason("NoPort").message(text);
    match Status::new(health::status_key(&check.name), workload).with(found).write_if_changed(ctx, workload) {
        Err(failure) if !failure.is_not_found() => Err(failure),
        _ => Ok(()),
    }
}
