//! Tests of the controller, of the upgrade and of the function, in a world in memory.

use std::time::Duration;

use mortise_plugin::{
    Typed, Value, pb,
    prost::Message,
    prost_types,
    testing::{World, call},
};

use crate::{
    COMMAND, PLUGIN, RUN, SCHEDULE,
    proto::jobs::v1::{Command, Run, Schedule, ScheduleV1},
    schedule::STATUS,
    upgrade::upgrade,
};

/// A world with a command and a schedule of every minute.
fn world() -> (World, pb::Id) {
    let world = World::new(&PLUGIN);
    let command = Command { line: "backup /srv".into() };
    world.put(&Typed::new(COMMAND.id("backup", &World::tenancy()), command)).unwrap();
    let every = Some(prost_types::Duration { seconds: 60, nanos: 0 });
    let schedule = Schedule { command: "backup".into(), every, keep: 1 };
    let stored = world.put(&Typed::new(SCHEDULE.id("nightly", &World::tenancy()), schedule)).unwrap();
    (world, stored.id().clone())
}

/// Settles the world, and returns the time until the next run.
fn wait(world: &World) -> Duration {
    world.settle().unwrap().later[0].wait
}

#[test]
fn a_run_is_made_when_it_is_due() {
    let (world, id) = world();
    world.advance(Duration::from_secs(20));
    assert_eq!(wait(&world), Duration::from_secs(40));
    assert_eq!(world.list(RUN), []);
    world.advance(Duration::from_secs(40));
    assert_eq!(wait(&world), Duration::from_secs(60));
    let run = world.list(RUN).remove(0);
    assert_eq!((run.name(), run.data.line.as_str()), ("nightly-1735689660", "backup /srv"));
    assert_eq!(run.data.due.unwrap().to_string(), "2025-01-01T00:01:00Z");
    let status = world.get::<Schedule>(&id).unwrap().status_under(STATUS).unwrap();
    assert_eq!(status.conditions[0].message, "The next run is at 2025-01-01T00:02:00Z.");
}

#[test]
fn one_run_stands_for_all_that_were_missed() {
    let (world, _) = world();
    wait(&world);
    world.sleep(Duration::from_secs(3600));
    wait(&world);
    assert_eq!(world.list(RUN).len(), 1);
    world.delete(world.list(RUN)[0].id()).unwrap();
    wait(&world);
    assert_eq!(world.list(RUN), [], "a deleted run is not made again");
}

#[test]
fn a_result_lets_older_runs_go() {
    let (world, _) = world();
    wait(&world);
    for _ in 0..2 {
        world.advance(Duration::from_secs(60));
        wait(&world);
    }
    for mut run in world.list(RUN) {
        run.data.result = "done".into();
        world.put(&run).unwrap();
    }
    wait(&world);
    assert_eq!(world.list(RUN).iter().map(Typed::<Run>::name).collect::<Vec<_>>(), ["nightly-1735689720"]);
}

#[test]
fn old_data_is_upgraded() {
    let old = ScheduleV1 { command: "backup".into(), minutes: 90 };
    let new = upgrade(1, &old.encode_to_vec()).unwrap();
    assert_eq!((new.command.as_str(), new.every.unwrap().seconds, new.keep), ("backup", 5400, 3));
    assert!(upgrade(1, b"\xff").is_err() && upgrade(3, b"").is_err());
}

#[test]
fn a_plan_warns_of_moved_times() {
    let (world, id) = world();
    let mut schedule = world.get::<Schedule>(&id).unwrap();
    assert!(world.plan(&schedule).unwrap().warnings.is_empty());
    schedule.data.every = Some(prost_types::Duration { seconds: 90, nanos: 0 });
    let plan = world.plan(&schedule).unwrap();
    assert_eq!(plan.warnings.iter().next().unwrap().path.to_string(), "data.every");
}

#[test]
fn the_function_lists_times() {
    let next = |after: &str, seconds: i64, count: i64| {
        call(&PLUGIN, "next_times", &[after.into(), seconds.into(), count.into()]).map_err(|fault| fault.to_string())
    };
    let times = next("2025-01-01T00:00:30Z", 60, 2).unwrap();
    assert_eq!(times, Value::List(vec!["2025-01-01T00:01:00Z".into(), "2025-01-01T00:02:00Z".into()]));
    assert!(next("yesterday", 60, 2).unwrap_err().starts_with("argument 0: must be a time"));
    assert!(next("2025-01-01T00:00:30Z", 0, 2).unwrap_err().starts_with("argument 1: every must be"));
    assert!(next("2025-01-01T00:00:30Z", 60, 0).unwrap_err().starts_with("argument 2: must be 1 to 100"));
}
