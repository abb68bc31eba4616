//! Creation with a generated name, links between pages, and YAML bodies.

use serde_json::json;

use crate::support::{
    Server,
    http::{ARTISTS, Answer},
    make_place,
};

async fn post(server: &Server, path: &str) -> Answer {
    server.ask("POST", path).json(&json!({ "data": { "name": "Korn" } })).await_answer().await
}

#[tokio::test]
async fn a_post_creates_a_resource_with_a_generated_name() {
    let server = Server::start().await;
    make_place(&server, "p", "n").await;
    for (query, prefix, place) in [
        ("?generate_name=korn-", "korn-", ""),
        ("?generateName=korn-", "korn-", ""),
        ("", "", ""),
        ("?generate_name=x&partition=p&ns=n", "x", "?partition=p&namespace=n"),
    ] {
        let answer = post(&server, &format!("{ARTISTS}{query}")).await;
        assert_eq!(answer.code(), 201, "{query}: {answer:?}");
        let created = answer.json();
        let name = created["id"]["name"].as_str().unwrap();
        assert!(name.starts_with(prefix) && name.len() == prefix.len() + 10, "{name}");
        assert_eq!(answer.header("location"), format!("{ARTISTS}/{name}{place}"));
        assert_eq!(answer.header("etag"), format!("\"{}\"", created["version"].as_str().unwrap()));
        assert_eq!(server.fetch(answer.header("location")).await.ok(), created);
    }
    let again = [post(&server, ARTISTS).await.json(), post(&server, ARTISTS).await.json()];
    assert_ne!(again[0]["id"]["name"], again[1]["id"]["name"]);
    let before = server.fetch(&format!("{ARTISTS}?partition=*&namespace=*")).await.ok();
    for (path, body, code) in [
        (format!("{ARTISTS}?generate_name=KORN"), json!({ "data": { "name": "x" } }), 400),
        (format!("{ARTISTS}?generate_nmae=korn"), json!({ "data": { "name": "x" } }), 400),
        (format!("{ARTISTS}?version=1"), json!({ "data": { "name": "x" } }), 400),
        (ARTISTS.to_owned(), json!({ "data": {} }), 400),
        (format!("{ARTISTS}/korn"), json!({ "data": { "name": "x" } }), 405),
    ] {
        let answer = server.ask("POST", &path).json(&body).await_answer().await;
        assert_eq!(answer.code(), code, "{path} {body}: {answer:?}");
    }
    assert_eq!(
        server.fetch(&format!("{ARTISTS}?partition=*&namespace=*")).await.ok(),
        before,
        "nothing else was created"
    );
}

#[tokio::test]
async fn pages_are_linked() {
    let server = Server::start().await;
    for name in ["a", "b", "c", "d", "e"] {
        server.put(&format!("{ARTISTS}/{name}"), json!({ "name": name })).await.ok();
    }
    let mut address = format!("{ARTISTS}?page_size=1&filter=data.name%20%21%3D%20%22c%22&order_by=data.name%20desc");
    let mut names = Vec::new();
    let mut pages = 0;
    while !address.is_empty() {
        let page = server.fetch(&address).await;
        names.extend(
            page.ok()["resources"].as_array().unwrap().iter().map(|r| r["id"]["name"].as_str().unwrap().to_owned()),
        );
        pages += 1;
        assert!(pages <= 5, "{page:?}");
        let links: Vec<_> = page.header("link").split(", ").map(str::to_owned).collect();
        let next = links.iter().find_map(|link| link.strip_suffix("; rel=\"next\""));
        assert_eq!(next.is_some(), page.json().get("nextPageToken").is_some());
        address = next.map(|link| link.trim_matches(['<', '>']).to_owned()).unwrap_or_default();
    }
    assert_eq!(names, ["e", "d", "b", "a"], "{pages} pages");
    assert_eq!(server.fetch(ARTISTS).await.header("link"), "", "a list is whole");
}

#[tokio::test]
async fn yaml_is_a_body_like_json() {
    let server = Server::start().await;
    let (korn, owned) = (format!("{ARTISTS}/korn"), "/api/demo/v2/album/issues");
    let yaml = async |method: &str, path: &str, body: &str| {
        server.ask(method, path).header("content-type", "application/yaml").body(body.to_owned()).await_answer().await
    };
    let body = "# a comment\nname: another name is ignored\ndata:\n  name: 1.10\n  genre: GENRE_METAL\n  group_members: {drums: no}\n\
                metadata: {a: b}\nmeta:\n  labels: {env: prod}\n";
    let put = yaml("PUT", &korn, body).await.ok();
    assert_eq!(put["data"], json!({ "name": "1.10", "genre": "GENRE_METAL", "groupMembers": { "drums": "no" } }));
    assert_eq!((&put["metadata"], &put["meta"]["labels"]), (&json!({ "a": "b" }), &json!({ "env": "prod" })));
    let owner = "owner:\n  type: demo.v2.Artist\n  name: korn\n  tenancy: {partition: default, namespace: default}\n";
    let album = yaml("PUT", owned, &format!("{owner}data: {{title: Issues}}\n")).await.ok();
    assert_eq!(album["owner"]["uid"], put["id"]["uid"]);
    let dry = yaml("POST", &format!("{korn}/_validate"), "data: {name: x}").await.ok();
    assert_eq!(dry["resource"]["data"]["name"], "x");
    let created = yaml("POST", &format!("{ARTISTS}?generate_name=y-"), "data: {name: x}").await;
    assert_eq!(created.code(), 201);

    let stored = server.fetch(&korn).await.ok();
    for (body, path, line, column) in [
        ("data:\n  name: x\n  nome: y\n", "data.nome", 3, 3),
        ("data:\n  name: x\n  genre: GENRE_NOISE\n", "data.genre", 3, 10),
        ("metadata:\n  a: [1]\ndata: {}\n", "metadata[\"a\"]", 2, 6),
        ("metadata: {}\n", "data", 1, 1),
        ("data: {}\n---\ndata: {}\n", "", 3, 1),
    ] {
        let answer = yaml("PUT", &korn, body).await;
        let fault = &answer.problem(400, "malformed-body")["violations"][0];
        let place = (&fault["path"], &fault["line"], &fault["column"]);
        assert_eq!(place, (&json!(path), &json!(line), &json!(column)), "{body}: {fault}");
    }
    for body in ["", "- a\n", "data: *a\n", "data: [\n", "x\n", "data: {name: x}\ndata: {name: y}\n"] {
        assert_eq!(yaml("PUT", &korn, body).await.code(), 400, "{body:?}");
    }
    let bomb = (1..40)
        .fold("a0: &a0 [x, x]\n".to_owned(), |text, n| format!("{text}a{n}: &a{n} [*a{}, *a{}]\n", n - 1, n - 1));
    assert_eq!(yaml("PUT", &korn, &format!("{bomb}data: {{name: x}}\n")).await.code(), 400);
    assert_eq!(server.fetch(&korn).await.ok(), stored, "nothing has changed");
}
