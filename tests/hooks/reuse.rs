//! Instances that serve several requests: between which callers, until when, and that no answer shows it.

use std::sync::Arc;

use mortise_plugin_host::{
    Call, CallerClass, Grants, Limits, MutateReply, Plugin, PluginSettings, Quarantine, Sandbox, SandboxOptions,
    grants::Instances,
};
use mortise_resource::{authorizer::AllowAll, pb};
use mortise_test_guests::{Thing, component};
use prost::Message as _;

use crate::support::{
    Server, Setup, artist, at, decoded, gvk, id, mortise, resource, tenancy, thing, tokens::Guarded, until,
};

const GRANT: &str = "[plugin.keeps-secret.grants]\ninstances = \"reuse\"\n";
const REUSED: &str = "mortise_plugin_instances_reused_total{plugin=\"keeps-secret\"}";

fn text(text: &str) -> Thing {
    Thing { text: text.into(), ..Thing::default() }
}

fn keeping(name: &str, data: &str) -> pb::Resource {
    thing("keeps_secret", name, &text(data))
}

/// Writes a thing, and returns its text afterwards.
async fn written(server: &Server, name: &str, data: &str) -> String {
    decoded::<Thing>(&server.write(keeping(name, data)).await.unwrap()).text
}

async fn start(grants: &str) -> Server {
    Setup::new().guest("keeps-secret").config(grants).start().await
}

#[tokio::test]
async fn reuse_needs_the_grant_of_the_operator() {
    let server = start("").await;
    for _ in 0..4 {
        assert_eq!(written(&server, "a", "secret").await, "secret");
        assert_eq!(written(&server, "b", "tell").await, "");
    }
    assert_eq!(server.metric(REUSED).await, Some(0.0));
    // A change of the grant applies at once, in both directions.
    server.configure(GRANT);
    until("an instance is reused", async || {
        written(&server, "a", "secret").await;
        let told = written(&server, "b", "tell").await;
        if told == "secret" { Ok(()) } else { Err(told) }
    })
    .await;
    server.configure("[plugin.keeps-secret]\n");
    until("no instance is reused", async || {
        written(&server, "a", "secret").await;
        let told = written(&server, "b", "tell").await;
        if told.is_empty() { Ok(()) } else { Err(told) }
    })
    .await;
}

#[tokio::test]
async fn an_instance_serves_one_identity_in_one_namespace() {
    let guarded = Guarded::start(Setup::new().guest("keeps-secret").config(GRANT)).await;
    let mut other = id("tenancy.v2beta1.Namespace", "other");
    other.tenancy = Some(tenancy("default", ""));
    guarded.write(resource(other, None)).await;
    guarded.policy("writers", "operator = \"write\"", Vec::new()).await;
    let alice = guarded.token("alice-al", &["writers"], |_| {}).await;
    let bob = guarded.token("bob-bobs", &["writers"], |_| {}).await;
    let told = async |secret: &str, resource: pb::Resource| {
        let mut client = guarded.resources(secret).await;
        let response = client.write(pb::WriteRequest { resource: Some(resource) }).await.unwrap().into_inner();
        decoded::<Thing>(&response.resource.unwrap()).text
    };
    for round in 0..8 {
        let secret = format!("of alice {round}");
        assert_eq!(told(&alice, keeping("a", &secret)).await, secret);
        assert_eq!(told(&bob, keeping("b", "tell")).await, "", "another identity");
        assert_eq!(told(&guarded.management, keeping("c", "tell")).await, "", "nor an operator");
        assert_eq!(told(&alice, at(keeping("d", "tell"), "default", "other")).await, "", "another namespace");
        assert_eq!(told(&alice, keeping("e", "tell")).await, secret, "the same identity: the instance is reused");
        // What `tell` finds is kept by none of the others.
        told(&bob, keeping("b", "")).await;
    }
    // The same identity with other rights.
    assert_eq!(told(&alice, keeping("a", "old")).await, "old");
    guarded.policy("writers", "operator = \"read\"", Vec::new()).await;
    assert_eq!(told(&alice, keeping("e", "tell")).await, "");
}

#[tokio::test]
async fn faults_end_the_instance_and_show_in_no_other_call() {
    let server = start(GRANT).await;
    for (name, data) in [("boom-mutate", "x"), ("boom-answer", "x")] {
        assert_eq!(written(&server, "a", "secret").await, "secret");
        assert_eq!(written(&server, "b", "tell").await, "secret", "reused before {name}");
        let fault = server.write(keeping(name, data)).await.unwrap_err();
        assert_eq!(fault.code(), tonic::Code::Internal, "{fault}");
        assert_eq!(written(&server, "b", "tell").await, "", "a fresh instance after {name}");
    }
    // An instance whose memory has grown is dropped, too.
    assert_eq!(written(&server, "a", "grow").await, "grow");
    assert_eq!(written(&server, "b", "tell").await, "");
}

/// The hook refuses if its instance has mutated more than one thing, which a reused one has.
#[tokio::test]
async fn authorize_hooks_have_fresh_instances() {
    let server = start(GRANT).await;
    for round in 0..10 {
        written(&server, "a", &format!("round {round}")).await;
    }
    assert!(server.metric(REUSED).await.unwrap() >= 9.0);
}

#[tokio::test]
async fn a_reload_drops_idle_instances() {
    let server = start(GRANT).await;
    let instances = "mortise_plugin_instances{plugin=\"keeps-secret\"}";
    assert_eq!(written(&server, "a", "secret").await, "secret");
    server.metric_until(instances, 1.0).await;
    server.configure(format!("{GRANT}[plugin.keeps-secret.settings]\nnew = true\n"));
    server.metric_until(instances, 0.0).await;
    assert_eq!(written(&server, "b", "tell").await, "");
}

#[tokio::test]
async fn an_idle_instance_is_dropped_in_time() {
    let server = Setup::new().guest("keeps-secret").config(GRANT).limit("instance_idle_ms", 200).start().await;
    let instances = "mortise_plugin_instances{plugin=\"keeps-secret\"}";
    assert_eq!(written(&server, "a", "secret").await, "secret");
    server.metric_until(instances, 0.0).await;
    assert_eq!(written(&server, "b", "tell").await, "");
}

/// A plugin in a sandbox of its own.
async fn load(guest: &str, limits: Limits, reuses_all: bool, instances: Instances) -> (Arc<Plugin>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let many = 1_000_000;
    let options = SandboxOptions {
        quarantine: Quarantine { faults: many, probation_faults: many, ..Quarantine::default() },
        reuses_all,
        ..SandboxOptions::default()
    };
    let limits = Limits { low_priority_ms: 0, deadline_ms: 10_000, ..limits };
    let sandbox = Sandbox::with_options(&limits, options, dir.path().to_owned()).unwrap();
    let mut settings = PluginSettings::default();
    settings.grant(guest, Grants { instances, ..Grants::default() });
    let bytes = std::fs::read(component(guest)).unwrap();
    (Plugin::load(&sandbox, guest, &bytes, &settings).await.unwrap(), dir)
}

fn class(number: u64) -> CallerClass {
    CallerClass::new(number, 0, Some(pb::Tenancy { partition: "default".into(), namespace: "default".into() }))
}

/// A request with `mutate`; whether its instance had served others.
async fn is_reused(plugin: &Arc<Plugin>, of: u64) -> bool {
    let mut call = Call::new(plugin.clone(), Arc::new(AllowAll));
    call.share_within(|| class(of));
    call.mutate(keeping("a", "x").encode_to_vec()).await.unwrap();
    call.is_reused()
}

#[tokio::test]
async fn an_instance_serves_a_bounded_number_of_requests() {
    let limits = Limits { instances: 8, reuses: 5, ..Limits::default() };
    let (plugin, _dir) = load("keeps-secret", limits, false, Instances::Reuse).await;
    let mut reused = Vec::new();
    for _ in 0..11 {
        reused.push(is_reused(&plugin, 1).await);
    }
    let expected: Vec<bool> = (0..11).map(|number| number % 5 != 0).collect();
    assert_eq!(reused, expected);
}

#[tokio::test]
async fn idle_instances_are_bounded_in_number_and_in_bytes() {
    let most = async |limits: Limits| {
        let (plugin, _dir) = load("keeps-secret", limits, false, Instances::Reuse).await;
        for number in 0..40 {
            assert!(!is_reused(&plugin, number).await);
        }
        let mut kept = 0;
        // The newest first, so that asking changes nothing.
        for number in (0..40).rev() {
            if !is_reused(&plugin, number).await {
                break;
            }
            kept += 1;
        }
        kept
    };
    assert_eq!(most(Limits { instances: 64, idle_instances: 3, ..Limits::default() }).await, 3);
    assert_eq!(most(Limits { instances: 10, ..Limits::default() }).await, 5, "half of the slots");
    assert_eq!(most(Limits { instances: 64, idle_bytes: 1 << 10, ..Limits::default() }).await, 0);
    let (plugin, _dir) = load("keeps-secret", Limits::default(), false, Instances::Fresh).await;
    assert!(!is_reused(&plugin, 1).await && !is_reused(&plugin, 1).await, "without a grant");
}

/// A request without a free slot takes that of an idle instance, also one that may not wait.
#[tokio::test]
async fn idle_instances_keep_no_request_waiting() {
    let limits = Limits { instances: 2, ..Limits::default() };
    let (plugin, _dir) = load("keeps-secret", limits, false, Instances::Reuse).await;
    let mut held = Vec::new();
    for number in 0..2 {
        assert!(!is_reused(&plugin, number).await);
        let mut call = Call::new(plugin.clone(), Arc::new(AllowAll)).without_waiting();
        call.validate(keeping("a", "x").encode_to_vec(), None).await.unwrap();
        held.push(call);
    }
}

/// Answers of one request: `mutate`, `validate` or both.
async fn answers(plugin: &Arc<Plugin>, of: u64, resource: &pb::Resource, hooks: u8) -> (Vec<String>, bool) {
    let mut call = Call::new(plugin.clone(), Arc::new(AllowAll));
    call.share_within(|| class(of));
    let (mut said, mut resource, mut reused) = (Vec::new(), resource.encode_to_vec(), false);
    if hooks != 1 {
        let reply = call.mutate(resource.clone()).await;
        reused |= call.is_reused();
        if let Ok(MutateReply::Changed(bytes)) = &reply {
            resource.clone_from(bytes);
        }
        said.push(reply.map_or_else(|fault| fault.to_string(), |reply| format!("{reply:?}")));
    }
    if hooks != 0 {
        let reply = call.validate(resource, None).await;
        reused |= call.is_reused();
        said.push(reply.map_or_else(|fault| fault.to_string(), |reply| format!("{reply:?}")));
    }
    (said, reused)
}

/// Compares random sequences of calls by three identities, fresh and reused. Returns the number of sequences with a
/// difference, and of calls in reused instances.
async fn compare(guest: &str, sequences: u64, resource: impl Fn(&mut fastrand::Rng) -> pb::Resource) -> (u64, u64) {
    let limits = Limits { instances: 16, ..Limits::default() };
    let (fresh, _dir) = load(guest, limits.clone(), false, Instances::Fresh).await;
    let (reused, _dir2) = load(guest, limits, true, Instances::Fresh).await;
    let (mut differ, mut met) = (0, 0);
    for seed in 0..sequences {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut differs = false;
        for _ in 0..random.u8(1..=6) {
            // The instances of the sequence before stay: a sequence begins in any state.
            let (of, resource, hooks) = (random.u64(0..3), resource(&mut random), random.u8(0..3));
            let (expected, never) = answers(&fresh, of, &resource, hooks).await;
            let (found, was_reused) = answers(&reused, of, &resource, hooks).await;
            assert!(!never);
            met += u64::from(was_reused);
            differs |= expected != found;
        }
        differ += u64::from(differs);
    }
    (differ, met)
}

fn random_thing(group: &'static str) -> impl Fn(&mut fastrand::Rng) -> pb::Resource {
    move |random| {
        let names = ["a", "b", "boom-mutate", "c", "boom-validate", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"];
        let texts = ["tell", "one", "two", "", "three"];
        let name = random.choice(names).unwrap();
        let data = Thing { number: random.i64(0..3), ..text(random.choice(texts).unwrap()) };
        thing(group, name, &data)
    }
}

/// An honest guest that normalizes its input, and one that panics now and then: 10,000 sequences.
#[tokio::test]
async fn fresh_and_reused_answers_agree_in_random_sequences() {
    let any_artist = |random: &mut fastrand::Rng| {
        let names = ["a", "b", "korn"];
        let mut artist = artist(random.choice(names).unwrap());
        artist.id.as_mut().unwrap().r#type = Some(gvk("every_hook.v1.Artist"));
        if random.u8(0..4) == 0 {
            artist.data.as_mut().unwrap().value.clear();
        }
        artist.metadata.insert("round".into(), random.u8(0..4).to_string());
        artist
    };
    let (differ, met) = compare("every-hook", 6_000, any_artist).await;
    assert_eq!(differ, 0);
    assert!(met > 10_000, "{met} calls met an instance that had served others");
    let (differ, met) = compare("panic", 4_000, random_thing("panicking")).await;
    assert_eq!(differ, 0, "a panic shows in no other call");
    assert!(met > 5_000, "{met} calls met an instance that had served others");
}

/// The comparison finds a guest that is not pure.
#[tokio::test]
async fn a_guest_that_keeps_something_differs() {
    let (differ, _) = compare("keeps-secret", 200, random_thing("keeps_secret")).await;
    assert!(differ > 50, "{differ} of 200");
}

#[tokio::test]
async fn plugin_test_finds_the_guest_that_keeps_something() {
    let dir = tempfile::tempdir().unwrap();
    let cases = dir.path().join("cases.yaml");
    let case = |name: &str, group: &str, text: &str, expect: &str| {
        format!(
            "---\ncase: {name}\nmutate: {{type: {group}.v1.Thing, name: x, data: {{text: {text}}}}}\nexpect: {{{expect}}}\n"
        )
    };
    let two = |group: &str, second: &str| {
        case("first", group, "secret", "unchanged: true") + &case("second", group, "tell", second)
    };
    let test = async |guest: &str, content: String| {
        std::fs::write(&cases, content).unwrap();
        let (component, cases) = (component(guest), cases.to_str().unwrap());
        let args = ["plugin", "test", component.to_str().unwrap(), "--cases", cases, "--reuse", "--seed", "7"];
        mortise(&args, &[]).await
    };
    let (code, out, err) = test("keeps-secret", two("keeps_secret", "data: {}, idempotent: false")).await;
    assert_eq!(code, Some(1), "{out}{err}");
    for part in [
        "second ... ok",
        "second (reused) ... FAILED",
        "it answers otherwise after the case \"first\" in the same instance",
        "-data: {}\n+data:\n+  text: secret",
    ] {
        assert!(out.contains(part), "{part:?} in {out}{err}");
    }
    let (code, out, err) = test("panic", two("panicking", "unchanged: true")).await;
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("first (reused) ... ok") && out.contains("second (reused) ... ok"), "{out}");
    assert!(out.contains(" requests met an instance that had served others (--seed 7)"), "{out}");
}
