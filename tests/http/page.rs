//! The page at `/ui`, and its sessions.

use serde_json::json;

use crate::support::{
    Server, Setup,
    http::{ARTISTS, Answer},
    id,
    tokens::Guarded,
};

#[tokio::test]
async fn every_address_of_the_page_is_the_page_and_files_are_kept() {
    let server = Server::start().await;
    let lead = server.fetch("/ui").await;
    assert_eq!((lead.code(), lead.header("location")), (303, "/ui/"));
    let page = server.fetch("/ui/").await;
    assert_eq!((page.code(), page.header("content-type")), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!((page.header("cache-control"), page.header("x-content-type-options")), ("no-cache", "nosniff"));
    for address in ["/ui/r/demo.v2.Artist/korn", "/ui/r/demo.v2.Artist/a%2Fb", "/ui/../ui/", "/ui/index.html"] {
        let same = server.fetch(address).await;
        assert_eq!((same.code(), &same.body), (200, &page.body), "{address}");
    }
    let again = server.ask("GET", "/ui/").header("if-none-match", page.header("etag")).await_answer().await;
    assert_eq!((again.code(), again.body.as_str()), (304, ""));
    let script = page.body.split('"').find(|part| part.starts_with("/ui/assets/") && part.ends_with(".js")).unwrap();
    let script = server.fetch(script).await;
    assert_eq!((script.code(), script.header("content-type")), (200, "text/javascript; charset=utf-8"));
    assert!(script.header("cache-control").contains("immutable"), "{:?}", script.headers);
    server.fetch("/ui/assets/gone.js").await.problem(404, "no-route");
    assert_eq!(server.ask("POST", "/ui/").await_answer().await.code(), 405);
    assert_eq!(server.fetch("/v1/session").await.ok(), json!({ "accessor_id": "", "signed_in": false }));
}

/// Signs in; returns the pair of the cookie.
fn cookie(answer: &Answer) -> String {
    assert_eq!(answer.code(), 204, "{answer:?}");
    answer.header("set-cookie").split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_session_has_the_rights_of_its_token_and_goes_with_it() {
    let guarded = Guarded::start(Setup::new()).await;
    let rules = "key_prefix \"resource/\" { policy = \"write\" }";
    guarded.policy("writers", rules, Vec::new()).await;
    let secret = guarded.token("person", &["writers"], |_| {}).await;
    let server = &guarded.server;
    let sign_in = |token: &str| server.ask("POST", "/v1/session").json(&json!({ "token": token }));
    assert_eq!(sign_in(&secret).await_answer().await.code(), 403, "a form of another page cannot send the header");
    for wrong in ["", "unknown"] {
        let refused = sign_in(wrong).header("x-mortise-ui", "1").await_answer().await;
        assert_eq!((refused.code(), refused.header("set-cookie")), (401, ""));
    }
    let misspelt = server.ask("POST", "/v1/session").header("x-mortise-ui", "1").json(&json!({ "tokens": secret }));
    assert_eq!(misspelt.await_answer().await.code(), 400);
    let signed_in = sign_in(&secret).header("x-mortise-ui", "1").await_answer().await;
    let pair = cookie(&signed_in);
    assert!(!pair.contains(&secret), "the cookie is not the token: {pair}");

    let with = |method: &str, path: &str| server.ask(method, path).header("cookie", &pair);
    assert_eq!(server.fetch("/v1/types").await.code(), 403, "nothing without it");
    assert_eq!(with("GET", "/v1/types").await_answer().await.code(), 200);
    let shown = with("GET", "/v1/session").await_answer().await.ok();
    assert_eq!(shown["signed_in"], true, "{shown}");
    let korn = format!("{ARTISTS}/korn");
    let body = json!({ "data": { "name": "Korn" } });
    let refused = with("PUT", &korn).json(&body).await_answer().await;
    assert!(refused.code() == 403 && refused.body.contains("X-Mortise-UI"), "{refused:?}");
    with("PUT", &korn).header("x-mortise-ui", "1").json(&body).await_answer().await.ok();
    let made_up = format!("{}=made-up", pair.split_once('=').unwrap().0);
    let other = server.ask("GET", &korn).header("cookie", &made_up).await_answer().await;
    assert_eq!(other.code(), 401, "{other:?}");
    assert_eq!(server.ask("GET", "/ui/").header("cookie", &made_up).await_answer().await.code(), 200);

    let second = cookie(&sign_in(&secret).header("x-mortise-ui", "1").await_answer().await);
    let out = with("DELETE", "/v1/session").header("x-mortise-ui", "1").await_answer().await;
    assert!(out.code() == 204 && out.header("set-cookie").contains("Max-Age=0"), "{out:?}");
    assert_eq!(with("GET", &korn).await_answer().await.code(), 401);
    let with_second = |path: &str| server.ask("GET", path).header("cookie", &second);
    assert_eq!(with_second(&korn).await_answer().await.code(), 200, "other sessions of the token go on");
    guarded.delete(id("mortise.v1.Token", "person")).await;
    assert_eq!(with_second(&korn).await_answer().await.code(), 401);
    assert_eq!(with_second("/v1/session").await_answer().await.code(), 401);
}
