//! `mortise plugin conformance`: plugins that keep the rules, and one that breaks each.

use std::fs;

use mortise_test_guests::component;

use crate::authoring::workflow::{Done, plugin};

/// Checks a guest with a resource of this name and data.
async fn checked(guest: &str, resource: &str, args: &[&str]) -> Done {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("resource.yaml"), resource).unwrap();
    let file = component(guest);
    let mut all = vec!["conformance", file.to_str().unwrap(), "--resource", "resource.yaml"];
    all.extend(args);
    plugin(dir.path(), &all).await
}

#[tokio::test]
async fn plugins_that_keep_the_rules_pass() {
    for (guest, of) in [("reconcile-copy", "reconcile_copy.v1.Thing"), ("version-stamp-1", "version_stamp.v1.Thing")] {
        let done = checked(guest, &format!("type: {of}\nname: ordinary\ndata: {{text: hello}}\n"), &[]).await;
        assert_eq!(done.code, Some(0), "{guest}: {}{}", done.out, done.err);
        assert!(done.out.contains(" 0 broken, "), "{guest}: {}", done.out);
        assert!(done.out.contains("kept      ") && done.out.contains(": its manifest is the same at each call"));
    }
}

/// Without a resource of the author's, one is made by the descriptors.
#[tokio::test]
async fn a_resource_is_made_where_none_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let file = component("reconcile-copy");
    let every_hook = component("every-hook");
    let done = plugin(dir.path(), &["conformance", every_hook.to_str().unwrap()]).await;
    assert!(done.out.contains(": authorize asks for a permission, or denies"), "{}{}", done.out, done.err);
    let done = plugin(dir.path(), &["conformance", file.to_str().unwrap(), "--format", "json"]).await;
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
    let json: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!((json["plugin"].as_str(), json["broken"].as_u64()), (Some("reconcile-copy"), Some(0)), "{json}");
    let rules: Vec<_> = json["rules"].as_array().unwrap().iter().map(|row| row["rule"].as_str().unwrap()).collect();
    assert!(rules.contains(&"reconcile comes to rest: without a change it changes nothing"), "{rules:?}");
}

#[tokio::test]
async fn each_broken_rule_is_found_and_named() {
    for (guest, data, says) in [
        ("mutate-id", "", "its answer has another id"),
        ("mutate-owner", "", "its answer has another owner"),
        ("mutate-status", "", "its answer has another status"),
        ("mutate-twice", "", "a second call changed the answer of the first"),
        ("panic", "", "mutate ends without a fault for whatever a client may send"),
        ("reconcile-self", "", "run 10 still changes something: write reconcile_self.v1.Thing/boom"),
        ("reconcile-trap", "number: 13", "it logged: panicked at "),
    ] {
        let group = guest.replace('-', "_").replace("panic", "panicking");
        let resource = format!("type: {group}.v1.Thing\nname: boom\ndata: {{{data}}}\n");
        let done = checked(guest, &resource, &[]).await;
        assert_eq!(done.code, Some(1), "{guest}: {}{}", done.out, done.err);
        assert!(done.out.contains("BROKEN  ") && done.out.contains(says), "{guest}: {}", done.out);
        assert!(done.err.contains(" rules of the contract are broken\n"), "{guest}: {}", done.err);
    }
}
