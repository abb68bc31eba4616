//! Blocking queries: a request with the index of the present answer waits for the next one.

use std::pin::pin;

use mortise_resource::{data, pb::condition::State};
use serde_json::json;

use super::{answer_until, deploy, entries_until, index, report};
use crate::support::{Server, Setup, http::Answer, id, plugins::Plugins as _, tokens::Guarded};

const WAITING: &str = "mortise_consul_blocking_queries";

/// The path of a question that waits behind an index.
fn behind(path: &str, index: u64) -> String {
    let sign = if path.contains('?') { '&' } else { '?' };
    format!("{path}{sign}index={index}&wait=10m")
}

/// Waits until so many queries wait.
async fn waiting(server: &Server, count: u32) {
    server.metric_until(WAITING, f64::from(count)).await;
}

#[track_caller]
fn status(answer: &Answer) -> String {
    answer.ok()[0]["Checks"][0]["Status"].as_str().unwrap().to_owned()
}

/// Every change of the service ends its query once; a change of another service ends none.
#[tokio::test]
async fn a_waiting_query_ends_once_and_by_its_own_service() {
    let server = Server::start().await;
    let (web, db) = (deploy(&server, "web", "192.0.2.1").await, deploy(&server, "db", "192.0.2.2").await);
    let of_web = entries_until(&server, "/v1/health/service/web", 1).await;
    let of_db = entries_until(&server, "/v1/health/service/db", 1).await;
    let (mut web_index, mut db_index) = (index(&of_web), index(&of_db));
    for (state, expected) in [(State::True, "passing"), (State::False, "critical"), (State::True, "passing")] {
        let (web_path, db_path) =
            (behind("/v1/health/service/web", web_index), behind("/v1/health/service/db", db_index));
        let (mut of_web, mut of_db) = (pin!(server.fetch(&web_path)), pin!(server.fetch(&db_path)));
        tokio::select! {
            answer = &mut of_web => panic!("web has not changed: {answer:?}"),
            answer = &mut of_db => panic!("db has not changed: {answer:?}"),
            () = waiting(&server, 2) => {}
        }
        // The change of db ends its query alone.
        let answer = tokio::select! {
            answer = &mut of_web => panic!("web has not changed: {answer:?}"),
            answer = async { report(&server, &db, state, "", "").await; of_db.await } => answer,
        };
        assert_eq!(status(&answer), expected);
        assert!(index(&answer) > db_index);
        db_index = index(&answer);
        // So does the next change of db, with a query that began later: web's still waits.
        let db_path = behind("/v1/health/checks/db", index(&server.fetch("/v1/health/checks/db").await));
        let answer = tokio::select! {
            answer = &mut of_web => panic!("web has not changed: {answer:?}"),
            (answer, ()) = async {
                tokio::join!(server.fetch(&db_path), async {
                    waiting(&server, 2).await;
                    report(&server, &db, state, "", "another text").await;
                })
            } => answer,
        };
        assert_eq!(answer.ok()[0]["Output"], "another text");
        db_index = db_index.max(index(&server.fetch("/v1/health/service/db").await));
        report(&server, &web, state, "", "").await;
        let answer = of_web.await;
        assert_eq!(status(&answer), expected);
        assert!(index(&answer) > web_index);
        web_index = index(&answer);
    }
    waiting(&server, 0).await;
}

/// An index changes if and only if its answer does.
#[tokio::test]
async fn an_index_belongs_to_an_answer() {
    let server = Server::start().await;
    let web = deploy(&server, "web", "192.0.2.1").await;
    let health = entries_until(&server, "/v1/health/service/web", 1).await;
    let catalog = server.fetch("/v1/catalog/service/web").await;
    let absent = server.fetch("/v1/health/service/none").await;
    deploy(&server, "db", "192.0.2.2").await;
    entries_until(&server, "/v1/health/service/db", 1).await;
    for (path, before) in [
        ("/v1/health/service/web", &health),
        ("/v1/catalog/service/web", &catalog),
        ("/v1/health/service/none", &absent),
    ] {
        assert_eq!(index(&server.fetch(path).await), index(before), "{path}");
    }
    report(&server, &web, State::True, "", "well").await;
    assert!(index(&server.fetch("/v1/health/service/web").await) > index(&health));
    assert_eq!(index(&server.fetch("/v1/catalog/service/web").await), index(&catalog), "it shows no health");
    server.delete(&web, "").await.unwrap();
    let gone = entries_until(&server, "/v1/health/service/web", 0).await;
    assert!(index(&gone) > index(&health), "it grows when instances go");
}

#[tokio::test]
async fn lists_wait_for_the_namespace() {
    let server = Server::start().await;
    deploy(&server, "web", "192.0.2.1").await;
    let all = json!({ "web": ["eu", "v1"] });
    let services = answer_until(&server, "/v1/catalog/services", |answer| answer.ok() == all).await;
    let path = behind("/v1/catalog/services", index(&services));
    let (answer, ()) = tokio::join!(server.fetch(&path), async {
        waiting(&server, 1).await;
        deploy(&server, "db", "192.0.2.2").await;
    });
    assert!(answer.ok()["db"].is_array(), "{answer:?}");
    let path = behind("/v1/health/service/later", index(&server.fetch("/v1/health/service/later").await));
    let (answer, ()) = tokio::join!(server.fetch(&path), async {
        waiting(&server, 1).await;
        deploy(&server, "later", "192.0.2.3").await;
    });
    assert_eq!(answer.ok()[0]["Service"]["ID"], "later-1", "a service that did not exist");
}

/// The wait of a query without a change ends with the same answer and the same index.
#[tokio::test]
async fn a_query_waits_no_longer_than_asked() {
    let server = Server::start().await;
    deploy(&server, "web", "192.0.2.1").await;
    let before = entries_until(&server, "/v1/health/service/web", 1).await;
    let path = format!("/v1/health/service/web?index={}&wait=50ms", index(&before));
    let after = server.fetch(&path).await;
    assert_eq!((index(&after), after.ok()), (index(&before), before.ok()));
    // An index from elsewhere is answered at once.
    for other in [index(&before) - 1, index(&before) + 1_000_000, u64::MAX] {
        let answer = server.fetch(&behind("/v1/health/service/web", other)).await;
        assert_eq!(index(&answer), index(&before), "{other}");
    }
}

#[tokio::test]
async fn a_hundred_waiting_queries_end_with_the_server() {
    let server = Setup::new().long_grace().start().await;
    deploy(&server, "web", "192.0.2.1").await;
    let before = entries_until(&server, "/v1/health/service/web", 1).await;
    let path = behind("/v1/health/service/web", index(&before));
    let all = futures::future::join_all((0..100).map(|_| server.fetch(&path)));
    let (answers, ()) = tokio::join!(all, async {
        waiting(&server, 100).await;
        server.signal("TERM");
    });
    for answer in answers {
        assert_eq!((answer.code(), answer.header("content-type")), (503, "text/plain; charset=utf-8"));
        assert!(answer.body.contains("the server is stopping"), "{answer:?}");
    }
    let mut server = server;
    assert!(server.ended().await.success());
}

#[tokio::test]
async fn clients_that_leave_wait_no_longer() {
    let server = Server::start().await;
    deploy(&server, "web", "192.0.2.1").await;
    let before = entries_until(&server, "/v1/health/service/web", 1).await;
    let path = behind("/v1/health/service/web", index(&before));
    {
        let all = futures::future::join_all((0..10).map(|_| server.fetch(&path)));
        tokio::select! {
            answers = all => panic!("{answers:?}"),
            () = waiting(&server, 10) => {}
        }
    }
    waiting(&server, 0).await;
}

/// A caller has half of the places at most, and all callers together have those of watches.
#[tokio::test]
async fn waiting_queries_are_bounded() {
    let server = Setup::new().env("MORTISE_HTTP_MAX_CONNECTIONS", 16).start().await;
    deploy(&server, "web", "192.0.2.1").await;
    let before = entries_until(&server, "/v1/health/service/web", 1).await;
    let path = behind("/v1/health/service/web", index(&before));
    let all = futures::future::join_all((0..6).map(|_| server.fetch(&path)));
    tokio::select! {
        answers = all => panic!("{answers:?}"),
        () = async {
            waiting(&server, 6).await;
            let refused = server.fetch(&path).await;
            assert_eq!((refused.code(), refused.header("content-type")), (429, "text/plain; charset=utf-8"));
            assert!(refused.body.contains("http.max_connections"), "{refused:?}");
            server.fetch("/v1/health/service/web").await.ok();
        } => {}
    }
    waiting(&server, 0).await;
}

/// Without the plugin the stored health is that of an earlier time.
#[tokio::test]
async fn a_waiting_query_ends_when_the_catalog_does() {
    let server = Server::start().await;
    deploy(&server, "web", "192.0.2.1").await;
    let before = entries_until(&server, "/v1/health/service/web", 1).await;
    let path = behind("/v1/health/service/web", index(&before));
    let (answer, ()) = tokio::join!(server.fetch(&path), async {
        waiting(&server, 1).await;
        let mut plugins = server.plugins().await;
        plugins.disable(data::DisableRequest { name: "catalog".into() }).await.unwrap();
    });
    assert_eq!((answer.code(), answer.header("content-type")), (503, "text/plain; charset=utf-8"), "{answer:?}");
    assert_eq!(server.fetch("/v1/health/service/web").await.code(), 503);
}

/// A query ends when its token does.
#[tokio::test]
async fn a_waiting_query_of_a_revoked_token_ends() {
    let guarded = Guarded::start(Setup::new()).await;
    guarded.policy("readers", "key_prefix \"resource/\" { policy = \"list\" }", vec![]).await;
    let token = guarded.token("reader", &["readers"], |_| {}).await;
    let server = &guarded.server;
    let ask = async |path: &str| server.ask("GET", path).header("x-consul-token", &token).await_answer().await;
    let before = ask("/v1/health/service/web").await;
    let path = behind("/v1/health/service/web", index(&before));
    let management = guarded.management.clone();
    let (answer, ()) = tokio::join!(ask(&path), async {
        crate::support::eventually("the query waits", async || {
            let page = server.ask("GET", "/metrics").header("x-consul-token", &management).await_answer().await;
            page.body.lines().any(|line| line == format!("{WAITING} 1"))
        })
        .await;
        guarded.delete(id("mortise.v1.Token", "reader")).await;
    });
    assert_eq!(answer.code(), 401, "{answer:?}");
}
