//! Searches of hooks: their results and limits; they never wait.

use std::{fs, sync::Arc};

use mortise_api::QueryServiceClient;
use mortise_resource::{data::SearchRequest, pb};
use mortise_test_guests::Thing;
use tonic::Code;

use crate::support::{Server, Setup, artist, decoded, eventually, gvk, id, mortise, refusal, tenancy, thing};

const TYPE: &str = "hook_search.v1.Thing";

fn said(name: &str, text: &str, items: &[&str]) -> pb::Resource {
    let items = items.iter().map(|item| (*item).to_owned()).collect();
    thing("hook_search", name, &Thing { text: text.into(), items, ..Thing::default() })
}

fn number(stored: &pb::Resource) -> i64 {
    decoded::<Thing>(stored).number
}

#[tokio::test]
async fn hooks_find_stored_resources() {
    let server = Setup::new().guest("hook-search").start().await;
    let first = server.write(said("a", "red", &[])).await.unwrap();
    assert_eq!(number(&first), 0);
    let (code, text) = refusal(server.write(said("b", "red", &[])).await);
    assert_eq!(code, Code::InvalidArgument);
    assert!(text.contains(r#"text "red" is that of a"#), "{text}");
    // An update does not conflict with the resource itself, and its `mutate` counts the resource itself.
    assert_eq!(number(&server.write(said("a", "red", &[])).await.unwrap()), 1);
    server.write(said("b", "blue", &[])).await.unwrap();
    let counted = server.write(said("c", "green", &[r#"count data.text IN ("red", "blue", "grey")"#])).await.unwrap();
    assert_eq!(number(&counted), 2);
    // Every acknowledged write is found, and no deleted resource.
    server.delete(&id(TYPE, "a"), "").await.unwrap();
    server.write(said("d", "red", &[])).await.unwrap();
    for n in 0..200 {
        server.write(said(&format!("n-{n:03}"), &format!("text {n}"), &[])).await.unwrap();
        let taken = refusal(server.write(said("other", &format!("text {n}"), &[])).await);
        assert!(taken.1.contains(&format!("is that of n-{n:03}")), "{taken:?}");
    }
    // Searches have the plugin's rights: the read rule for callers is the plugin's own.
    server.write(said("hidden", "secret", &[])).await.unwrap();
    assert_eq!(refusal(server.read(&id(TYPE, "hidden")).await).0, Code::PermissionDenied);
    let (_, text) = refusal(server.write(said("e", "secret", &[])).await);
    assert!(text.contains("is that of hidden"), "{text}");
}

#[tokio::test]
async fn invalid_searches_are_errors_of_the_hook() {
    let server = Setup::new().guest("hook-search").config("").start().await;
    for (items, says) in [
        (["ask data.txet = 1"], "code 3: "),
        (["foreign"], "code 7: "),
        (["authorize"], "code 9: lookup.search is for mutate, validate, plan and reconcilers; authorize-write has no"),
    ] {
        let (_, text) = refusal(server.write(said("a", "x", &items)).await);
        assert!(text.contains(says), "{items:?}: {text}");
    }
    server.configure("[plugin.hook-search.grants]\nread = [\"demo.v2.Artist\"]\n");
    let write = || async { refusal(server.write(said("a", "x", &["foreign"])).await).1 };
    eventually("the grant is in effect", || async { write().await.contains("found 0") }).await;
    server.write(artist("one")).await.unwrap();
    assert!(write().await.contains("code 13: "), "an artist is no thing");
    assert!(server.read(&id(TYPE, "a")).await.is_err(), "nothing was stored");
}

/// A hook that searches keeps its instance meanwhile, so searches must not wait for another: with one instance for the
/// plugin, and a type whose reads need a hook, all writes complete.
#[tokio::test]
async fn searches_wait_for_no_instance() {
    for (concurrency, writers) in [(1, 8), (4, 64)] {
        let setup = Setup::new().guest("hook-search");
        let setup = setup.env("MORTISE_SANDBOX_CONCURRENCY", concurrency).env("MORTISE_SANDBOX_DEADLINE_MS", 10_000);
        let server = Arc::new(setup.start().await);
        let mut writes = tokio::task::JoinSet::new();
        for n in 0..writers {
            let server = server.clone();
            writes.spawn(async move {
                for round in 0..5 {
                    server.write(said(&format!("a-{n}-{round}"), &format!("{n} {round}"), &[])).await.unwrap();
                }
            });
        }
        let begun = std::time::Instant::now();
        while let Some(done) = writes.join_next().await {
            done.unwrap();
        }
        println!("{} writes, {concurrency} instances: {:?}", writers * 5, begun.elapsed());
        let counted = server.write(said("last", "all", &["count data.number >= 0"])).await.unwrap();
        assert_eq!(number(&counted), writers * 5);
    }
}

/// A search over the limit is refused without counting as a fault, stores nothing, and quarantines no hook; with an
/// index it succeeds.
#[tokio::test]
async fn a_search_of_a_hook_is_bounded() {
    let server = Setup::new().guest("hook-search").start().await;
    for n in 0..2_100 {
        server.write(said(&format!("n-{n:04}"), &format!("text {n}"), &[])).await.unwrap();
    }
    for _ in 0..30 {
        let (code, text) = refusal(server.write(said("a", "x", &["count data.number = 7"])).await);
        assert_eq!(code, Code::ResourceExhausted, "{text}");
        assert!(text.contains("hook mutate could not search: the search of a hook looks at more than 2048"), "{text}");
    }
    assert!(server.read(&id(TYPE, "a")).await.is_err());
    let found = server.write(said("a", "x", &[r#"count data.text = "text 1999""#])).await.unwrap();
    assert_eq!(number(&found), 1, "by the index, and the hook is not quarantined");
    let request =
        SearchRequest { r#type: Some(gvk(TYPE)), tenancy: Some(tenancy("default", "default")), ..Default::default() };
    let mut client = QueryServiceClient::new(server.channel().await);
    let page = client.search(SearchRequest { include_paging_info: true, ..request }).await.unwrap().into_inner();
    assert_eq!(page.total_results_count, 2_101);
    assert_health(&server).await;
}

/// Cases of `mortise plugin test` provide stored resources for hooks.
#[tokio::test]
async fn cases_have_a_store_for_hooks() {
    let dir = tempfile::tempdir().unwrap();
    let cases = dir.path().join("cases.yaml");
    let thing = |name: &str, text: &str| {
        format!(
            "{{type: hook_search.v1.Thing, name: {name}, data: {{text: {text}, items: ['count data.text = \"red\"']}}}}"
        )
    };
    let case = |name: &str, stored: &str, expect: &str| {
        format!("---\ncase: {name}\nstore: [{stored}]\nwrite: {}\nexpect: {{{expect}}}\n", thing("new", "red"))
    };
    let counted = "allow: true, data: {text: red, items: ['count data.text = \"red\"']}";
    let content = case("alone", &thing("a", "blue"), counted)
        + &case("taken", &thing("a", "red"), "diagnostics: [{error: 'text \"red\" is that of a'}]");
    fs::write(&cases, content).unwrap();
    let guest = mortise_test_guests::component("hook-search");
    let args = ["plugin", "test", guest.to_str().unwrap(), "--cases", cases.to_str().unwrap()];
    let (code, out, err) = mortise(&args, &[]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("2 passed"), "{out}");
}

async fn assert_health(server: &Server) {
    let plugin = server.read(&id("mortise.v1.Plugin", "hook-search")).await.unwrap();
    let status = plugin.status.values().next().unwrap();
    let healthy = status.conditions.iter().find(|one| one.r#type == "Healthy").unwrap();
    assert_eq!(healthy.state(), pb::condition::State::True, "{healthy:?}");
}
