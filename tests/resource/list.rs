//! List: validation, wildcards, filters, permission, order.

use crate::support::{
    Server, Setup, any, artist, at, concept, deny_thing, gvk, id, id_in, id_of, label, make_place, name_rule, names,
    noted, places, refusal, resource, tenancy, thing, with_metadata,
};
use mortise_resource::pb;
use tonic::Code;

const CONCEPT: &str = "demo.v1.Concept";
const LABEL: &str = "demo.v1.RecordLabel";
const BOSS: &str = "demo.v1.Executive";

fn invalid<T: std::fmt::Debug>(result: Result<T, tonic::Status>) -> String {
    let (code, message) = refusal(result);
    assert_eq!(code, Code::InvalidArgument);
    message
}

#[tokio::test]
async fn requests_are_validated_in_order() {
    let server = Server::start().await;
    let list = async |t: Option<&str>, tenancy: Option<pb::Tenancy>, prefix: &str| {
        let request = pb::ListRequest { r#type: t.map(gvk), tenancy, name_prefix: prefix.into() };
        invalid(server.client().list(request).await)
    };
    assert_eq!(list(None, None, "UP").await, "type is required");
    assert_eq!(list(Some("demo.v9.Artist"), None, "UP").await, "tenancy is required");
    let bad = Some(tenancy("B_d", "B_d"));
    assert_eq!(list(Some("demo.v9.Artist"), bad.clone(), "UP").await, "resource type demo.v9.Artist not registered");
    assert_eq!(list(Some("demo.v2.artist"), bad.clone(), "").await, "resource type demo.v2.artist not registered");
    let partition = format!("tenancy.partition invalid: {}", name_rule("B_d"));
    assert_eq!(list(Some(LABEL), bad, "UP").await, partition);
    let namespace = format!("tenancy.namespace invalid: {}", name_rule("**"));
    assert_eq!(list(Some(LABEL), Some(tenancy("*", "**")), "UP").await, namespace);
    let prefix = "name_prefix invalid: must be lowercase alphanumeric, got: UP";
    assert_eq!(list(Some(LABEL), Some(tenancy("", "n")), "UP").await, prefix);
    let scope = "partition scoped type demo.v1.RecordLabel cannot have a namespace. got: n";
    assert_eq!(list(Some(LABEL), Some(tenancy("", "n")), "").await, scope);
    assert_eq!(list(Some(LABEL), Some(tenancy("*", "n")), "").await, scope);
}

#[tokio::test]
async fn a_partly_filled_type_is_not_registered() {
    let server = Server::start().await;
    let partly = pb::Type { kind: String::new(), ..gvk(CONCEPT) };
    let expected = "resource type demo.v1. not registered";
    assert_eq!(invalid(server.list(partly, tenancy("", ""), "").await), expected);
}

#[tokio::test]
async fn a_prefix_need_only_be_lower_case() {
    let server = Server::start().await;
    for name in ["foo", "foo-1", "foo1", "fo", "barfoo"] {
        server.write(concept(name)).await.unwrap();
    }
    let list = async |prefix: &str| server.list(gvk(CONCEPT), tenancy("", ""), prefix).await;
    assert_eq!(names(&list("foo").await.unwrap()), ["foo", "foo-1", "foo1"]);
    assert_eq!(names(&list("foo-").await.unwrap()), ["foo-1"]);
    assert_eq!(names(&list("foo-1").await.unwrap()), ["foo-1"]);
    assert_eq!(names(&list("").await.unwrap()).len(), 5);
    for nothing in ["foo_", "foo.", "*", "-", "ß", "foo-12", "\0", "foo\0", "\u{10ffff}", &"x".repeat(10_000)] {
        assert!(list(nothing).await.unwrap().is_empty(), "{nothing:?}");
    }
    for upper in ["Foo", "fOo", "Ä"] {
        let expected = format!("name_prefix invalid: must be lowercase alphanumeric, got: {upper}");
        assert_eq!(invalid(list(upper).await), expected);
    }
}

/// Concepts, labels and executives in three partitions.
async fn furnished() -> Server {
    let server = Server::start().await;
    make_place(&server, "default", "n").await;
    make_place(&server, "p", "n").await;
    make_place(&server, "q", "default").await;
    server.write(resource(id_in("tenancy.v2beta1.Namespace", "m", "p", ""), None)).await.unwrap();
    for (partition, namespace) in
        [("default", "default"), ("default", "n"), ("p", "default"), ("p", "m"), ("p", "n"), ("q", "default")]
    {
        server.write(at(concept("x"), partition, namespace)).await.unwrap();
    }
    for partition in ["default", "p", "q"] {
        server.write(label("x", partition)).await.unwrap();
    }
    server.write(resource(id(BOSS, "x"), None)).await.unwrap();
    server
}

#[tokio::test]
async fn wildcards_and_defaults_by_scope() {
    let server = furnished().await;
    let list = async |t, p, n| places(&server.list(gvk(t), tenancy(p, n), "").await.unwrap());
    assert_eq!(list(CONCEPT, "", "").await, ["default/default/x"]);
    assert_eq!(list(CONCEPT, "default", "default").await, ["default/default/x"]);
    assert_eq!(list(CONCEPT, "*", "").await, ["default/default/x", "p/default/x", "q/default/x"]);
    assert_eq!(list(CONCEPT, "", "*").await, ["default/default/x", "default/n/x"]);
    assert_eq!(list(CONCEPT, "p", "*").await, ["p/default/x", "p/m/x", "p/n/x"]);
    assert_eq!(list(CONCEPT, "p", "").await, ["p/default/x"]);
    assert_eq!(list(CONCEPT, "*", "n").await, ["default/n/x", "p/n/x"]);
    let all = ["default/default/x", "default/n/x", "p/default/x", "p/m/x", "p/n/x", "q/default/x"];
    assert_eq!(list(CONCEPT, "*", "*").await, all);

    assert_eq!(list(LABEL, "", "").await, ["default//x"]);
    assert_eq!(list(LABEL, "p", "").await, ["p//x"]);
    assert_eq!(list(LABEL, "*", "").await, ["default//x", "p//x", "q//x"]);
    // If the scope has no such unit, a wildcard is harmless.
    assert_eq!(list(LABEL, "p", "*").await, ["p//x"]);
    assert_eq!(list(LABEL, "*", "*").await, ["default//x", "p//x", "q//x"]);
    for (p, n) in [("", ""), ("*", ""), ("", "*"), ("*", "*")] {
        assert_eq!(list(BOSS, p, n).await, ["//x"], "{p:?} {n:?}");
    }
}

#[tokio::test]
async fn units_are_not_prefixes() {
    let server = Server::start().await;
    for namespace in ["n", "n-1", "n1"] {
        make_place(&server, "default", namespace).await;
        server.write(at(concept("x"), "default", namespace)).await.unwrap();
    }
    let list = async |n: &str| places(&server.list(gvk(CONCEPT), tenancy("", n), "").await.unwrap());
    assert_eq!(list("n").await, ["default/n/x"]);
    assert_eq!(list("n-1").await, ["default/n-1/x"]);
}

#[tokio::test]
async fn cluster_types_have_no_tenancy_check_here() {
    let server = furnished().await;
    for (p, n) in [("default", ""), ("", "default"), ("p", "n")] {
        assert!(server.list(gvk(BOSS), tenancy(p, n), "").await.unwrap().is_empty(), "{p:?} {n:?}");
    }
}

#[tokio::test]
async fn other_group_versions_are_left_out() {
    let server = Server::start().await;
    server.write(artist("v2")).await.unwrap();
    let data = crate::support::demo::v1::Artist { name: "x".into(), ..Default::default() };
    let data = any("hashicorp.consul.internal.demo.v1.Artist", &data);
    server.write(resource(id("demo.v1.Artist", "v1"), Some(data))).await.unwrap();
    for version in ["v1", "v2"] {
        let t = gvk(&format!("demo.{version}.Artist"));
        assert_eq!(names(&server.list(t.clone(), tenancy("*", "*"), "v").await.unwrap()), [version]);
        assert_eq!(names(&server.list(t, tenancy("", ""), "").await.unwrap()), [version]);
    }
}

#[tokio::test]
async fn in_byte_order_of_partition_namespace_and_name() {
    let server = Server::start().await;
    make_place(&server, "a", "z").await;
    make_place(&server, "a-b", "a").await;
    make_place(&server, "a0", "a").await;
    let expected: Vec<_> = ["a/z", "a-b/a", "a0/a", "default/default"]
        .into_iter()
        .flat_map(|place| ["0", "a", "a-b", "a0", "ab", "b"].map(|name| format!("{place}/{name}")))
        .collect();
    for place in expected.iter().rev() {
        let parts: Vec<_> = place.split('/').collect();
        server.write(at(concept(parts[2]), parts[0], parts[1])).await.unwrap();
    }
    assert_eq!(places(&server.list(gvk(CONCEPT), tenancy("*", "*"), "").await.unwrap()), expected);
}

#[tokio::test]
async fn nothing_is_no_error() {
    let server = Server::start().await;
    for (t, p, n) in [(CONCEPT, "", ""), (CONCEPT, "nowhere", "*"), (LABEL, "nowhere", ""), (BOSS, "", "")] {
        assert!(server.list(gvk(t), tenancy(p, n), "").await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn whole_resources_and_all_of_them() {
    let server = Server::start().await;
    let mut written = Vec::new();
    for n in 0..500 {
        written.push(server.write(artist(&format!("a-{n:03}"))).await.unwrap());
    }
    assert_eq!(server.list(gvk("demo.v2.Artist"), tenancy("", ""), "").await.unwrap(), written);
    server.delete(&id_of(&written[0]), "").await.unwrap();
    server.write(noted(artist("a-001"), &[("finalizers", "x")])).await.unwrap();
    server.delete(&id_of(&written[1]), "").await.unwrap();
    let found = server.list(gvk("demo.v2.Artist"), tenancy("", ""), "").await.unwrap();
    assert_eq!(found.len(), 499, "deleted ones are not there, marked ones are");
    assert!(found[0].metadata.contains_key("deletionTimestamp"));
}

#[tokio::test]
async fn the_consistency_header_is_accepted() {
    let server = Server::start().await;
    for mode in ["consistent", "Consistent", "stale", ""] {
        let written = server.write(concept("x")).await.unwrap();
        let request =
            pb::ListRequest { r#type: Some(gvk(CONCEPT)), tenancy: Some(tenancy("", "")), name_prefix: String::new() };
        let request = with_metadata(request, "x-consul-consistency-mode", mode);
        let found = server.client().list(request).await.unwrap().into_inner().resources;
        assert_eq!(found, [written], "{mode:?}");
    }
}

#[tokio::test]
async fn unreadable_resources_are_left_out() {
    let server = Setup::new().guest("deny").start().await;
    for name in ["open", "secret-name", "need-open", "ask-open"] {
        server.write(deny_thing("ById", name, "open")).await.unwrap();
        server.write(deny_thing("ByContent", name, "open")).await.unwrap();
    }
    for (kind, text) in [("ById", "by-id"), ("ByContent", "by-content")] {
        server.write(deny_thing(kind, text, "secret")).await.unwrap();
        let found = server.list(gvk(&format!("deny.v1.{kind}")), tenancy("", ""), "").await.unwrap();
        assert_eq!(names(&found), ["ask-open", "need-open", "open"], "the resource is at hand, whatever the kind");
    }
    let secret = server.list(gvk("deny.v1.ById"), tenancy("*", "*"), "secret").await.unwrap();
    assert!(secret.is_empty());
}

#[tokio::test]
async fn the_list_rule_is_asked_after_validation() {
    let server = Setup::new().guest("deny").start().await;
    let list = async |p, n, prefix| server.list(gvk("deny.v1.ById"), tenancy(p, n), prefix).await;
    let denied = (Code::PermissionDenied, "Permission denied: no lists here".to_owned());
    assert_eq!(refusal(list("nolist", "", "").await), denied);
    assert_eq!(refusal(list("", "nolist", "").await), denied);
    assert_eq!(refusal(list("*", "nolist", "x").await), denied);
    assert!(invalid(list("", "nolist", "UP").await).starts_with("name_prefix invalid"));
    assert!(invalid(list("B_d", "nolist", "").await).starts_with("tenancy.partition invalid"));
    assert!(list("", "asklist", "").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_rule_that_fails_fails_the_call() {
    let server = Setup::new().guest("panic").start().await;
    let honest = Default::default();
    server.write(thing("panicking", "honest", &honest)).await.unwrap();
    let list = async |n| server.list(gvk("panicking.v1.Thing"), tenancy("", n), "").await;
    assert_eq!(names(&list("").await.unwrap()), ["honest"]);
    let (code, message) = refusal(list("boom-list").await);
    assert_eq!(code, Code::Internal);
    assert!(message.starts_with("failed list acl: "), "{message}");
    server.write(thing("panicking", "boom-read", &honest)).await.unwrap();
    let (code, message) = refusal(list("").await);
    assert_eq!(code, Code::Internal);
    assert!(message.starts_with("failed read acl: "), "{message}");
    // Only requested resources are authorized.
    let found = server.list(gvk("panicking.v1.Thing"), tenancy("", ""), "honest").await.unwrap();
    assert_eq!(names(&found), ["honest"]);
}

/// Lists find nothing between a name and the same name with a zero byte at its end, wherever the wildcards are.
#[tokio::test]
async fn a_prefix_with_a_zero_byte_matches_nothing() {
    let server = Server::start().await;
    server.write(concept("ab")).await.unwrap();
    server.write(label("ab", "")).await.unwrap();
    let patience = std::time::Duration::from_secs(10);
    for (t, place) in [
        (CONCEPT, tenancy("", "")),
        (CONCEPT, tenancy("", "*")),
        (CONCEPT, tenancy("*", "")),
        (CONCEPT, tenancy("*", "*")),
        (LABEL, tenancy("*", "")),
    ] {
        for prefix in ["ab\0", "a\0", "\0", "ab\0c"] {
            let listed = tokio::time::timeout(patience, server.list(gvk(t), place.clone(), prefix)).await;
            assert_eq!(listed.expect("an answer").unwrap(), [], "{place:?} {prefix:?}");
            let mut watch = server.watch(gvk(t), Some(place.clone()), prefix).await.unwrap();
            assert_eq!(tokio::time::timeout(patience, watch.snapshot()).await.expect("a snapshot"), []);
        }
    }
}

/// The rest of long lists and of long snapshots is read on threads of low priority; short ones are not.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn long_lists_are_read_at_low_priority() {
    /// Niceness of each thread of this name, and the processor time of all of them in hundredths of a second.
    fn threads(server: &Server, name: &str) -> (Vec<i64>, u64) {
        let (mut niceness, mut took) = (Vec::new(), 0);
        for task in std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap() {
            // The thread may have ended since.
            let Ok(stat) = std::fs::read_to_string(task.unwrap().path().join("stat")) else { continue };
            let (before, after) = stat.rsplit_once(')').unwrap();
            if before.ends_with(name) {
                let fields: Vec<i64> =
                    after.split_whitespace().skip(1).take(16).map(|field| field.parse().unwrap()).collect();
                took += (fields[10] + fields[11]) as u64;
                niceness.push(fields[15]);
            }
        }
        (niceness, took)
    }
    const LOW: &str = "mortise-lowprio";
    let server = Server::start().await;
    let low = (threads(&server, "mortise-worker").0[0] + 15).min(19);
    let write = async |from: usize, to: usize| {
        let mut writing = tokio::task::JoinSet::new();
        for lane in 0..64 {
            let mut client = server.client();
            writing.spawn(async move {
                for n in (from + lane..to).step_by(64) {
                    let resource = Some(artist(&format!("a-{n:05}")));
                    client.write(pb::WriteRequest { resource }).await.unwrap();
                }
            });
        }
        writing.join_all().await;
    };
    let list = async || server.list(gvk("demo.v2.Artist"), tenancy("", ""), "").await.unwrap().len();
    write(0, 1_000).await;
    assert_eq!(list().await, 1_000);
    assert_eq!(server.watch(gvk("demo.v2.Artist"), None, "").await.unwrap().snapshot().await.len(), 1_000);
    assert!(threads(&server, LOW).0.is_empty(), "for what is short");

    write(1_000, 8_000).await;
    assert_eq!(server.watch(gvk("demo.v2.Artist"), None, "").await.unwrap().snapshot().await.len(), 8_000);
    assert!(threads(&server, LOW).0.contains(&low), "for a snapshot");
    let mut lists = 0;
    let took = loop {
        assert_eq!(list().await, 8_000);
        lists += 1;
        let (niceness, took) = threads(&server, LOW);
        assert!(niceness.iter().all(|nice| *nice == low), "{niceness:?}");
        if took >= 20 || lists == 100 {
            break took;
        }
    };
    println!("{lists} lists of 8,000 took {} ms on threads of low priority", took * 10);
    assert!(took >= 20, "{lists} lists took {} ms there", took * 10);
}
