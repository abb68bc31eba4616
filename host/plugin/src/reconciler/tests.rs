mod busy;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use async_trait::async_trait;
use mortise_resource::Code;
use parking_lot::Mutex;
use tokio::sync::Barrier;

use super::{guest, *};
use crate::{
    Grants, HealthState, Limits, PluginSettings, ReconcileLimits, Sandbox, SandboxOptions,
    failure::Failure,
    health::call_time::CallTime,
    host::{
        reconciler_host::{CacheKey, EachResource},
        state::State,
    },
};

const ALL: [&str; 10] = ["count", "error", "grow", "loop", "now", "read", "spin", "trap", "work", "x-cancelled"];

/// A host that answers reads by their names.
#[derive(Default)]
struct Answers {
    reads: AtomicUsize,
    /// The thread of the last read.
    thread: Mutex<Option<String>>,
    together: Option<Barrier>,
}

#[async_trait]
impl ReconcilerHost for Answers {
    async fn read(&self, id: pb::Id) -> Result<pb::Resource, Failure> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        *self.thread.lock() = thread::current().name().map(str::to_owned);
        let mut resource = pb::Resource { id: Some(id.clone()), ..pb::Resource::default() };
        match id.name.as_str() {
            "absent" => return Err(Failure::new(Code::NotFound, "there is none")),
            "slow" => std::future::pending().await,
            "large" => drop(resource.metadata.insert("k".into(), "x".repeat(2_000))),
            "busy" => {
                let begun = std::time::Instant::now();
                while begun.elapsed() < Duration::from_millis(20) {}
            }
            "deep" => assert_eq!(dig(700), 700),
            "together" => {
                self.together.as_ref().unwrap().wait().await;
            }
            _ => {}
        }
        Ok(resource)
    }

    async fn list(&self, _: pb::Type, _: pb::Tenancy, _: String, _: EachResource<'_>) -> Result<(), Failure> {
        unreachable!("the guest does not ask")
    }

    async fn list_by_owner(&self, _: pb::Id, _: EachResource<'_>) -> Result<(), Failure> {
        unreachable!("the guest does not ask")
    }

    async fn write(&self, _: pb::Resource) -> Result<pb::Resource, Failure> {
        unreachable!("the guest does not ask")
    }

    async fn write_status(&self, _: pb::Id, _: String, _: String, _: pb::Status) -> Result<pb::Resource, Failure> {
        unreachable!("the guest does not ask")
    }

    async fn delete(&self, _: pb::Id, _: String) -> Result<(), Failure> {
        unreachable!("the guest does not ask")
    }

    async fn cache_get(&self, _: pb::Type, _: String, _: CacheKey) -> Result<Option<pb::Resource>, Failure> {
        unreachable!("the guest does not ask")
    }

    async fn cache_list(&self, _: pb::Type, _: String, _: CacheKey, _: EachResource<'_>) -> Result<(), Failure> {
        unreachable!("the guest does not ask")
    }
}

/// Takes a KB of stack for each step.
#[inline(never)]
fn dig(steps: usize) -> usize {
    let room = std::hint::black_box([0_u8; 1024]);
    if steps == 0 { room[0].into() } else { dig(steps - 1) + 1 + usize::from(room[1]) }
}

/// Time that no test uses up.
fn far() -> CallTime {
    let long = Duration::from_secs(600);
    CallTime::of_controllers(long, Instant::now() + long, Arc::default())
}

/// A reconciler of the test guest, and its host.
struct Set {
    reconciler: Reconciler,
    host: Arc<Answers>,
    cancel: Cancel,
    sandbox: Sandbox,
    _cache: tempfile::TempDir,
}

async fn set_up(limits: Limits, controllers: ReconcileLimits, grants: Grants) -> Set {
    let cache = tempfile::tempdir().unwrap();
    let policy = SandboxOptions { controllers, ..SandboxOptions::default() };
    let sandbox = Sandbox::with_options(&Limits { instances: 4, ..limits }, policy, cache.path().into()).unwrap();
    let mut settings = PluginSettings::default();
    settings.grant("tested", grants);
    let bytes = guest::component(&guest::manifest("tested", &ALL));
    let plugin = Plugin::load(&sandbox, "tested.wasm", &bytes, &settings).await.unwrap();
    let reconciler = Reconciler::new(&plugin).unwrap();
    Set { reconciler, host: Arc::default(), cancel: Cancel::new(), sandbox, _cache: cache }
}

async fn usual() -> Set {
    set_up(Limits::default(), ReconcileLimits::default(), Grants::default()).await
}

fn named(kind: &str, name: &str) -> pb::Id {
    let (group, group_version, kind) = ("test".into(), "v1".into(), kind.into());
    pb::Id { r#type: Some(pb::Type { group, group_version, kind }), name: name.into(), ..pb::Id::default() }
}

impl Set {
    async fn call(&self, controller: &str, name: &str) -> Result<Outcome, ReconcileError> {
        let id = named("Thing", name);
        self.reconciler.reconcile(controller, &id, self.host.clone(), &self.cancel).await
    }

    /// Number of calls that the serving instance has counted.
    async fn count(&self) -> u128 {
        match self.call("count", "a").await {
            Ok(Outcome::RequeueAfter(count)) => count.as_millis(),
            other => panic!("{other:?}"),
        }
    }

    async fn fault(&self, controller: &str, name: &str) -> HookError {
        match self.call(controller, name).await {
            Err(ReconcileError::Fault(fault)) => fault,
            other => panic!("{other:?}"),
        }
    }

    /// The guest's own error, with the text that it got from the host.
    async fn heard(&self, name: &str) -> String {
        match self.call("read", name).await {
            Err(ReconcileError::Guest(heard)) => heard,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn an_instance_serves_one_call_after_another_until_it_is_worn() {
    let set = usual().await;
    for n in 1..=1_000 {
        assert_eq!(set.count().await, n);
    }
    assert_eq!(set.count().await, 1, "another one after a thousand calls");
    assert_eq!(set.count().await, 2);
    assert_eq!(set.call("grow", "a").await.unwrap(), Outcome::Done);
    assert_eq!(set.count().await, 1, "another one when its memory grew");
    assert!(matches!(set.fault("trap", "a").await.fault, HookFault::Trap { .. }));
    assert_eq!(set.count().await, 1, "another one after a trap");
}

#[tokio::test]
async fn what_the_guest_hears_is_what_the_host_answers() {
    let set = usual().await;
    assert_eq!(set.call("read", "there").await.unwrap(), Outcome::Done);
    assert_eq!(set.heard("absent").await, "there is none");
    match set.call("error", "a").await {
        Err(ReconcileError::Guest(text)) => assert_eq!(text, "error"),
        other => panic!("{other:?}"),
    }
    assert_eq!(set.count().await, 1, "an error is an answer like others: the instance goes on");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    match set.call("now", "a").await.unwrap() {
        Outcome::RequeueAfter(after) => assert!(after.abs_diff(now) < Duration::from_secs(5), "{after:?} {now:?}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(set.call("x-cancelled", "a").await.unwrap(), Outcome::Done);
    set.cancel.cancel();
    assert_eq!(set.call("x-cancelled", "a").await.unwrap(), Outcome::RequeueNow);
}

#[tokio::test]
async fn the_code_for_hooks_serves_here_too() {
    let set = usual().await;
    let controller_engine = set.sandbox.inner().controller_engine().unwrap();
    assert_eq!(
        crate::engine::configuration::fingerprint(&controller_engine.engine),
        crate::engine::configuration::fingerprint(&set.sandbox.inner().engine)
    );
    let more = ReconcileLimits { memory_bytes: 300 << 20, ..ReconcileLimits::default() };
    let set = set_up(Limits::default(), more, Grants::default()).await;
    let controller_engine = set.sandbox.inner().controller_engine().unwrap();
    assert_ne!(
        crate::engine::configuration::fingerprint(&controller_engine.engine),
        crate::engine::configuration::fingerprint(&set.sandbox.inner().engine)
    );
    assert_eq!(set.count().await, 1, "compiled once more where memories are larger");
}

#[tokio::test]
async fn a_plugin_without_controllers_makes_no_second_engine() {
    let cache = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new(&Limits { instances: 4, ..Limits::default() }, cache.path().into()).unwrap();
    let bytes = guest::component(&guest::manifest("plain", &[]));
    let plugin = Plugin::load(&sandbox, "plain.wasm", &bytes, &PluginSettings::default()).await.unwrap();
    assert!(Reconciler::new(&plugin).is_none());
    assert!(!sandbox.inner().has_controller_engine());
}

#[tokio::test]
async fn any_concurrency_is_taken() {
    for concurrency in [0, 1 << 61, usize::MAX] {
        let set =
            set_up(Limits { concurrency, ..Limits::default() }, ReconcileLimits::default(), Grants::default()).await;
        assert_eq!(set.count().await, 1);
    }
}

#[tokio::test]
async fn every_limit_ends_a_call_and_is_named() {
    let tight =
        ReconcileLimits { fuel: 1_000_000_000_000, deadline_ms: 150, host_calls: 20, ..ReconcileLimits::default() };
    let set = set_up(Limits::default(), tight, Grants::default()).await;
    let late = set.fault("spin", "a").await;
    assert_eq!(late.fault, HookFault::Deadline { limit_ms: 150, setting: "controllers.deadline_ms" });
    assert!(late.counts, "it was at work all the time");
    let late = set.fault("read", "slow").await;
    assert_eq!(late.fault, HookFault::Deadline { limit_ms: 150, setting: "controllers.deadline_ms" });
    assert!(!late.counts, "it waited for the host");
    let often = set.fault("loop", "a").await;
    assert_eq!(often.fault, HookFault::HostCalls { limit: 20, setting: "controllers.host_calls" });

    let little = ReconcileLimits { fuel: 100_000, ..ReconcileLimits::default() };
    let set = set_up(Limits::default(), little, Grants::default()).await;
    let empty = set.fault("spin", "a").await;
    assert_eq!(empty.fault, HookFault::Fuel { limit: 100_000, setting: "controllers.fuel" });
    assert_eq!(set.count().await, 1, "each call has fuel of its own");
}

#[tokio::test]
async fn a_guest_that_does_not_fit_is_refused_when_it_is_loaded() {
    let cache = tempfile::tempdir().unwrap();
    let controllers = ReconcileLimits { memory_bytes: 64 << 10, ..ReconcileLimits::default() };
    let policy = SandboxOptions { controllers, ..SandboxOptions::default() };
    let limits = Limits { instances: 4, ..Limits::default() };
    let sandbox = Sandbox::with_options(&limits, policy, cache.path().into()).unwrap();
    let bytes = guest::component(&guest::manifest("tested", &ALL));
    let refused = Plugin::load(&sandbox, "tested.wasm", &bytes, &PluginSettings::default()).await.err().unwrap();
    assert_eq!(
        refused.to_string(),
        "needs 262144 bytes of memory to start, more than the limit of 65536 (controllers.memory_bytes)"
    );
}

/// The host's answers may go as deep as on its usual threads.
#[tokio::test]
async fn there_is_room_for_deep_answers() {
    let set = usual().await;
    assert_eq!(set.call("read", "deep").await.unwrap(), Outcome::Done);
}

#[tokio::test]
async fn a_host_call_that_takes_too_long_or_answers_too_much_is_heard_of() {
    let impatient = ReconcileLimits { host_call_ms: 30, ..ReconcileLimits::default() };
    // The manifest is an answer too.
    let bytes = guest::manifest("tested", &ALL).encode_to_vec().len();
    let set = set_up(Limits { reply_bytes: bytes, ..Limits::default() }, impatient, Grants::default()).await;
    let heard = set.heard("slow").await;
    assert_eq!(heard, "resources.read did not answer within 30 ms (limit controllers.host_call_ms)");
    assert_eq!(set.call("read", "large").await.unwrap(), Outcome::Done);

    let set = usual().await;
    let mut call_context = State::new(
        "p".into(),
        "{}".into(),
        Arc::new(Limits { reply_bytes: 1_000, ..Limits::default() }),
        set.sandbox.logs().clone(),
        far(),
    );
    call_context.call_context = Some(set.reconciler.call_context(set.host.clone(), &set.cancel));
    use crate::bindings::imports::mortise::plugin::resources::Host as _;
    let heard = call_context.read(named("Thing", "large").encode_to_vec()).await.unwrap().unwrap_err();
    assert_eq!(heard.code, 8);
    assert!(heard.message.contains("are more than the limit of 1000 (sandbox.reply_bytes)"), "{}", heard.message);
}

#[tokio::test]
async fn types_of_others_are_refused_before_the_host_is_asked_unless_granted() {
    let foreign = named("Other", "a");
    let set = usual().await;
    let refused = set.reconciler.reconcile("read", &foreign, set.host.clone(), &set.cancel).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "this plugin may not read test.v1.Other: grant it with plugin.tested.grants.read = [\"test.v1.Other\"] in \
         config.toml"
    );
    assert_eq!(set.host.reads.load(Ordering::SeqCst), 0);
    let grants = serde_json::from_str(r#"{ "read": ["test.v1.*"] }"#).unwrap();
    let set = set_up(Limits::default(), ReconcileLimits::default(), grants).await;
    let done = set.reconciler.reconcile("read", &foreign, set.host.clone(), &set.cancel).await.unwrap();
    assert_eq!((done, set.host.reads.load(Ordering::SeqCst)), (Outcome::Done, 1));
}

#[tokio::test]
async fn a_controller_of_a_foreign_type_needs_a_grant_to_be_loaded() {
    let cache = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new(&Limits { instances: 4, ..Limits::default() }, cache.path().into()).unwrap();
    let mut manifest = guest::manifest("tested", &["count"]);
    manifest.controllers[0].manages.as_mut().unwrap().kind = "Other".into();
    let bytes = guest::component(&manifest);
    let mut settings = PluginSettings::default();
    let refused = Plugin::load(&sandbox, "tested.wasm", &bytes, &settings).await.err().unwrap().to_string();
    assert_eq!(
        refused,
        "grants: controller count manages test.v1.Other, which is not a type of the plugin's own; grant it with \
         plugin.tested.grants.read = [\"test.v1.Other\"] in config.toml"
    );
    let grants: Grants = serde_json::from_str(r#"{ "read": ["test.v1.Other"] }"#).unwrap();
    settings.grant("tested", grants);
    let plugin = Plugin::load(&sandbox, "tested.wasm", &bytes, &settings).await.unwrap();
    assert!(plugin.has_settings(&settings));
    assert!(!plugin.has_settings(&PluginSettings::default()), "other grants make another plugin");
}

#[tokio::test]
async fn faults_quarantine_reconciling_and_errors_do_not() {
    let set = usual().await;
    for _ in 0..20 {
        assert!(matches!(set.call("error", "a").await, Err(ReconcileError::Guest(_))));
    }
    let health = set.reconciler.plugin().health();
    assert_eq!(health.report().state, HealthState::Healthy);
    assert_eq!(health.report().hooks.iter().map(|hook| hook.hook).collect::<Vec<_>>(), ["reconcile"]);
    for _ in 0..10 {
        set.fault("trap", "a").await;
    }
    assert!(matches!(set.fault("count", "a").await.fault, HookFault::Quarantined { .. }));
    assert!(!health.is_quarantined(Hook::Mutate));
    health.reset();
    assert_eq!(set.count().await, 1);
}

#[tokio::test]
async fn heavy_controllers_are_set_aside_and_hooks_are_not() {
    let set = usual().await;
    set.call("read", "busy").await.unwrap();
    set.call("read", "a").await.unwrap();
    let aside = || set.host.thread.lock().as_deref() == Some("mortise-lowprio");
    assert!(!aside(), "what the host does for a controller is not its work");
    set.call("work", "a").await.unwrap();
    set.call("read", "a").await.unwrap();
    assert!(aside());
    assert!(set.reconciler.plugin().low_priority_threads(Hook::Mutate).is_none());
}

#[tokio::test]
async fn calls_at_once_have_instances_of_their_own() {
    let mut set = usual().await;
    set.host = Arc::new(Answers { together: Some(Barrier::new(2)), ..Answers::default() });
    // Each waits until the other has begun.
    let (first, two) = tokio::join!(set.call("read", "together"), set.call("read", "together"));
    assert_eq!((first.unwrap(), two.unwrap()), (Outcome::Done, Outcome::Done));
}

#[tokio::test]
async fn warm_instances_make_room_for_those_that_are_needed() {
    let limits = ReconcileLimits { instances: 1, deadline_ms: 2_000, ..ReconcileLimits::default() };
    let mut set = set_up(Limits::default(), limits, Grants::default()).await;
    assert_eq!((set.count().await, set.count().await), (1, 2));
    let other = Reconciler::new(set.reconciler.plugin()).unwrap();
    let first = std::mem::replace(&mut set.reconciler, other);
    assert_eq!(set.count().await, 1, "another reconciler has instances of its own, and gets the slot");
    let second = std::mem::replace(&mut set.reconciler, first);
    assert_eq!(set.count().await, 1, "and the other way round");

    // A waiting call gets the slot of the working instance when that is done, though it could be kept warm.
    let id = named("Thing", "slow");
    let slow = second.reconcile("read", &id, set.host.clone(), &set.cancel);
    let (slow, counted) = tokio::join!(slow, async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        set.count().await
    });
    assert!(matches!(slow, Err(ReconcileError::Fault(_))), "{slow:?}");
    assert_eq!(counted, 1);

    let controller_engine = set.sandbox.inner().controller_engine().unwrap();
    let _held = controller_engine.slot(Instant::now() + Duration::from_secs(1)).await.unwrap();
    let busy = set.fault("count", "a").await;
    assert_eq!(busy.fault, HookFault::Busy { limit: 1, setting: "controllers.instances" });
    assert!(!busy.counts);
}

#[tokio::test]
async fn a_call_that_is_given_up_ends_its_instance() {
    let set = usual().await;
    assert_eq!(set.count().await, 1);
    let slow = tokio::time::timeout(Duration::from_millis(20), set.call("read", "slow")).await;
    assert!(slow.is_err());
    assert_eq!(set.count().await, 1, "what a call left half done is not entered again");
}

#[tokio::test]
async fn hooks_hear_that_they_may_not_ask() {
    let set = usual().await;
    let limits = Arc::new(Limits::default());
    let logs = set.sandbox.logs().clone();
    let mut state = State::new("p".into(), "{}".into(), limits, logs, far());
    use crate::bindings::imports::mortise::plugin::{clock, kv};
    let heard = kv::Host::get(&mut state, "key".into()).await.unwrap().unwrap_err();
    assert_eq!((heard.code, heard.message.contains("only a reconciler may call kv.get")), (9, true));
    let ended = clock::Host::now(&mut state).unwrap_err();
    let fault = crate::engine::store::classify(&ended, &state);
    assert_eq!(fault, HookFault::Answer("it called clock.now, which only reconcilers may call".into()));
}
