//! Performs the health checks of workloads, and writes the results to the status `catalog.v1/check-NAME`.
//!
//! # Contract
//! - A check by `ttl` passes while the last report of a client is younger than the `ttl`. After that the status becomes
//!   failed, unless a client reported meanwhile. No client can report while the server is stopped or its machine sleeps:
//!   after that, and after a start, a report counts as made at that moment ([`steady`]).
//! - A check by `http` or `tcp` goes to the workload's first address when its interval is over (10 s by default). Its
//!   status is written when the result changes, so a check that keeps passing costs no write.
//! - Hosts that are not granted are not reached: the status names the grant to add.
//!
//! # Limits
//! Only the instance that performed a check knows the check's time. Another instance, or a new one, performs the check
//! once more; an instance with the times of [`MAX_KEPT_TIMES`] checks forgets them all. Checks of one workload run one
//! by one, for [`MAX_CHECKS_TIME`] in one reconcile.

mod steady;

use std::{collections::BTreeMap, net::Ipv6Addr, sync::Mutex, time::Duration};

use mortise_plugin::{
    Condition, Context, Controller, Error, Failure, HttpRequest, Outcome, Reconciler, Request, Status, Typed,
    prost_types::Timestamp,
};

use crate::{
    WORKLOAD,
    health::{self, PASSING},
    proto::catalog::v1::{HealthCheck, Workload, health_check::Check},
};

/// Longest time that one reconcile spends on checks.
const MAX_CHECKS_TIME: Duration = Duration::from_secs(12);

/// Delay until a reconcile continues that had no time for all checks.
const CONTINUE_DELAY: Duration = Duration::from_secs(1);

/// Workloads that are checked at once, each in an instance that waits for answers.
const PARALLEL: u32 = 16;

/// Most checks whose times an instance keeps.
const MAX_KEPT_TIMES: usize = 4_096;

/// Times of the last checks by this instance, on the clock of [`Context::elapsed`], by the workload's uid and the
/// check's name.
static CHECK_TIMES: Mutex<BTreeMap<(String, String), Duration>> = Mutex::new(BTreeMap::new());

pub(crate) static CONTROLLER: Controller<Checks> = Controller::new("checks", WORKLOAD, Checks).parallel(PARALLEL);

pub(crate) struct Checks;

impl Reconciler for Checks {
    type Managed = Workload;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Workload>) -> Result<Outcome, Error> {
        let Some(workload) = request.read(ctx)? else { return Ok(Outcome::Done) };
        if workload.data.checks.is_empty() || workload.is_marked() {
            return Ok(Outcome::Done);
        }
        let started = ctx.elapsed();
        let mut next: Option<Duration> = None;
        for check in &workload.data.checks {
            if ctx.cancelled() || ctx.elapsed().saturating_sub(started) > MAX_CHECKS_TIME {
                next = Some(CONTINUE_DELAY);
                break;
            }
            let wait = perform_if_due(ctx, &workload, check)?;
            next = match (next, wait) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        Ok(next.map_or(Outcome::Done, Outcome::RequeueAfter))
    }
}

/// Performs one check if it is due; answers the time until it is due again.
fn perform_if_due(
    ctx: &Context<'_>,
    workload: &Typed<Workload>,
    check: &HealthCheck,
) -> Result<Option<Duration>, Failure> {
    let perform = match &check.check {
        Some(Check::Ttl(ttl)) => return expire(ctx, workload, &check.name, length(ttl)),
        Some(perform) => perform,
        None => return Ok(None),
    };
    let interval = check.interval.as_ref().map_or(Duration::from_secs(10), length);
    let place = (workload.id().uid.clone(), check.name.clone());
    let before = performed().get(&place).copied();
    if let Some(wait) = before.and_then(|before| remaining(before, interval, ctx.elapsed())) {
        return Ok(Some(wait));
    }
    let timeout = check.timeout.as_ref().map_or(Duration::from_secs(1), length);
    let found = match address(workload, perform) {
        Some(target) => perform_check(ctx, perform, &target, timeout),
        None => Condition::fails(PASSING).reason("NoPort").message("the workload has no port of that name"),
    };
    let mut times = performed();
    if times.len() >= MAX_KEPT_TIMES {
        times.clear();
    }
    times.insert(place, ctx.elapsed());
    drop(times);
    ignore_not_found(
        Status::new(health::status_key(&check.name), workload).with(found).write_if_changed(ctx, workload).map(drop),
    )?;
    Ok(Some(interval))
}

/// Fails a check whose last client report is older than its time.
fn expire(
    ctx: &Context<'_>,
    workload: &Typed<Workload>,
    name: &str,
    ttl: Duration,
) -> Result<Option<Duration>, Failure> {
    let key = health::status_key(name);
    let Some(said) = workload.status_under(&key).filter(|_| health::passes(workload, name)) else { return Ok(None) };
    let reported = steady::report_time(ctx, time(said.updated_at.as_ref()))?;
    if let Some(wait) = remaining(reported, ttl, ctx.now()) {
        return Ok(Some(wait));
    }
    let text = format!("no client reported within {ttl:?}");
    let expired = Condition::fails(PASSING).reason("Expired").message(text);
    // A client that was faster wakes this controller again.
    match Status::new(key, workload).with(expired).write_unchanged(ctx, workload) {
        Err(failure) if failure.is_conflict() => Ok(None),
        written => ignore_not_found(written).map(|()| None),
    }
}

/// Destination of a check.
struct Target<'w> {
    host: &'w str,
    port: u16,
}

/// The workload's first address, and the port that the check names.
fn address<'w>(workload: &'w Typed<Workload>, check: &Check) -> Option<Target<'w>> {
    let port = match check {
        Check::Http(http) => &http.port,
        Check::Tcp(tcp) => &tcp.port,
        Check::Ttl(_) => return None,
    };
    let named = || workload.data.ports.iter().find(|one| one.name == *port).map(|one| one.port);
    let port = port.parse().ok().or_else(|| u16::try_from(named()?).ok())?;
    Some(Target { host: &workload.data.addresses.first()?.host, port })
}

fn perform_check(ctx: &Context<'_>, check: &Check, target: &Target<'_>, timeout: Duration) -> Condition {
    let Target { host, port } = target;
    let at = if host.parse::<Ipv6Addr>().is_ok() { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let (what, done) = match check {
        Check::Http(http) => {
            let url = format!("{}://{at}{}", http.scheme, http.path);
            let answer = ctx.http().send(&HttpRequest::get(url.clone()).timeout(timeout));
            (format!("GET {url}"), answer.map(Some))
        }
        Check::Tcp(_) | Check::Ttl(_) => {
            (format!("a connection to {at}"), ctx.tcp().connect(host, *port, timeout).map(|_| None))
        }
    };
    match done {
        Ok(Some(answer)) if !answer.is_success() => {
            Condition::fails(PASSING).reason("Status").message(format!("{what} was answered {}", answer.status))
        }
        Ok(Some(answer)) => {
            Condition::holds(PASSING).reason("Answered").message(format!("{what} was answered {}", answer.status))
        }
        Ok(None) => Condition::holds(PASSING).reason("Connected").message(format!("{what} was accepted")),
        Err(failure) => {
            let reason = match failure.code {
                Failure::DENIED => "NotGranted",
                Failure::LATE => "Timeout",
                _ => "Unreachable",
            };
            Condition::fails(PASSING).reason(reason).message(format!("{what}: {}", failure.message))
        }
    }
}

/// Time that is left of `length`, counted from `since`.
fn remaining(since: Duration, length: Duration, now: Duration) -> Option<Duration> {
    since.checked_add(length)?.checked_sub(now).filter(|left| !left.is_zero())
}

fn length(given: &prost_types::Duration) -> Duration {
    Duration::try_from(*given).unwrap_or_default()
}

fn time(stamp: Option<&Timestamp>) -> Duration {
    let (seconds, nanos) = stamp.map_or((0, 0), |stamp| (stamp.seconds, stamp.nanos));
    Duration::new(u64::try_from(seconds).unwrap_or(0), u32::try_from(nanos).unwrap_or(0))
}

/// A workload that was deleted meanwhile needs no status.
fn ignore_not_found(written: Result<(), Failure>) -> Result<(), Failure> {
    match written {
        Err(failure) if !failure.is_not_found() => Err(failure),
        _ => Ok(()),
    }
}

fn performed() -> std::sync::MutexGuard<'static, BTreeMap<(String, String), Duration>> {
    CHECK_TIMES.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
