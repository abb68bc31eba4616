//! The controller `schedule`: makes a run when one is due, and deletes old ones.
//!
//! If the server was stopped while several runs were due, one run stands for all of them.

use std::time::Duration;

use mortise_plugin::{
    Condition, Context, Controller, Error, Failure, Index, Key, Mapper, Outcome, Reconciler, Request, Status, Typed,
    Watch, reference_to,
};

use crate::{
    COMMAND, RUN, SCHEDULE,
    functions::timestamp,
    proto::jobs::v1::{Command, Run, Schedule},
    slots::{Every, EveryError},
};

/// Key of the status.
pub(crate) const STATUS: &str = "scheduled-jobs/schedule";

/// Looks at a schedule after changes of its runs, too: a result, or the deletion of one.
pub(crate) static CONTROLLER: Controller<Scheduler> = Controller::new("schedule", SCHEDULE, Scheduler).watches(&[
    &Watch::new(RUN, Mapper::Reference("schedule")).indexes(&[Index::by_reference("schedule", "schedule")]),
]);

/// Reason that a schedule has no runs.
#[derive(Debug, thiserror::Error)]
enum ScheduleError {
    /// The rules refuse such a schedule, so an earlier version of the plugin stored it.
    #[error("the schedule has no valid time: {0}; write it again")]
    Every(#[from] EveryError),
    /// The reference keeps the command from being deleted, so this is a fault of the host.
    #[error("the command {0:?} of the schedule is missing; create it")]
    NoCommand(String),
}

/// Makes the runs of one schedule.
pub(crate) struct Scheduler;

impl Reconciler for Scheduler {
    type Managed = Schedule;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Schedule>) -> Result<Outcome, Error> {
        let Some(schedule) = request.read(ctx)?.filter(|schedule| !schedule.is_marked()) else {
            return Ok(Outcome::Done);
        };
        let every = Every::of(&schedule.data).map_err(ScheduleError::from)?;
        let now = ctx.now().as_secs();
        let (due, next) = (every.last(now), every.next(now));
        if due > since(ctx, &schedule, now)? {
            start(ctx, &schedule, due)?;
            ctx.private_bytes(schedule.id()).set(due.to_string().as_bytes())?;
        }
        prune(ctx, &schedule)?;
        let message = format!("The next run is at {}.", timestamp(next));
        let scheduled = Condition::holds("Scheduled").reason("Waiting").message(message);
        Status::new(STATUS, &schedule).with(scheduled).write_if_changed(ctx, &schedule)?;
        Ok(Outcome::RequeueAfter(Duration::from_secs(next).saturating_sub(ctx.now())))
    }
}

/// Time of the last run, or at first that of the first look. The private bytes go with the schedule.
fn since(ctx: &Context<'_>, schedule: &Typed<Schedule>, now: u64) -> Result<u64, Failure> {
    let kept = ctx.private_bytes(schedule.id()).get()?;
    let since = kept.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok()?.parse().ok());
    if since.is_none() {
        ctx.private_bytes(schedule.id()).set(now.to_string().as_bytes())?;
    }
    Ok(since.unwrap_or(now))
}

/// Makes a run, unless an interrupted reconcile has made it already.
fn start(ctx: &Context<'_>, schedule: &Typed<Schedule>, due: u64) -> Result<(), Error> {
    let tenancy = schedule.id().tenancy.clone().unwrap_or_default();
    let id = RUN.id(format!("{}-{due}", schedule.name()), &tenancy);
    if ctx.read::<Run>(&id)?.is_some() {
        return Ok(());
    }
    let name = &schedule.data.command;
    let command = ctx.read::<Command>(&COMMAND.id(name, &tenancy))?;
    let command = command.ok_or_else(|| ScheduleError::NoCommand(name.clone()))?;
    let schedule = Some(reference_to(schedule.id()));
    let run = Run { schedule, due: Some(timestamp(due)), line: command.data.line, result: String::new() };
    ctx.write(&Typed::new(id, run))?;
    Ok(())
}

/// Deletes the oldest finished runs, as far as there are more than the schedule keeps.
fn prune(ctx: &Context<'_>, schedule: &Typed<Schedule>) -> Result<(), Error> {
    let mut finished = ctx.cache().list(RUN, "schedule", Key::Id(schedule.id()))?;
    finished.retain(|run| !run.data.result.is_empty() && !run.is_marked());
    finished.sort_by_key(|run| run.data.due.map_or(0, |due| due.seconds));
    let kept = usize::try_from(schedule.data.keep).unwrap_or(usize::MAX);
    for run in finished.iter().take(finished.len().saturating_sub(kept)) {
        // A result that a worker corrects at this moment stays for the next time.
        ctx.delete_unchanged(run)?;
    }
    Ok(())
}
