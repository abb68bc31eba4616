//! PATCH: merge patches and JSON patches, their conditions, limits, and races with other writers.

use serde_json::{Value, json};

use crate::support::{
    Server, album, artist,
    http::{ARTISTS, Answer},
    id, id_of, owned,
};

const MERGE: &str = "application/merge-patch+json";
const OPERATIONS: &str = "application/json-patch+json";

async fn patch(server: &Server, path: &str, format: &str, body: &Value) -> Answer {
    server.ask("PATCH", path).header("content-type", format).body(body.to_string()).await_answer().await
}

#[tokio::test]
async fn a_merge_patch_changes_what_it_names() {
    let server = Server::start().await;
    let korn = format!("{ARTISTS}/korn");
    let body = json!({
        "data": { "name": "Korn", "groupMembers": { "drums": "David", "bass": "Fieldy" } },
        "metadata": { "a": "1", "b": "2" },
        "meta": { "labels": { "env": "prod", "tier": "web" } },
    });
    server.ask("PUT", &korn).json(&body).await_answer().await.ok();
    let change = json!({
        "data": { "genre": "GENRE_METAL", "groupMembers": { "drums": "Ray", "bass": null } },
        "metadata": { "a": null },
        "meta": { "labels": { "tier": null } },
    });
    let answer = patch(&server, &korn, MERGE, &change).await;
    let patched = answer.ok();
    assert_eq!(patched["data"], json!({ "name": "Korn", "genre": "GENRE_METAL", "groupMembers": { "drums": "Ray" } }));
    assert_eq!((&patched["metadata"], &patched["meta"]["labels"]), (&json!({ "b": "2" }), &json!({ "env": "prod" })));
    assert_eq!(answer.header("etag"), format!("\"{}\"", patched["version"].as_str().unwrap()));
    assert_eq!(server.fetch(&korn).await.ok(), patched);

    let same = patch(&server, &korn, MERGE, &json!({ "data": { "name": "Korn" } })).await.ok();
    assert_eq!(same, patched, "a patch without an effect stores nothing");
    let unlabelled = patch(&server, &korn, MERGE, &json!({ "meta": null })).await.ok();
    assert_eq!((unlabelled.get("meta"), &unlabelled["data"]), (None, &patched["data"]));
    assert_eq!(patch(&server, &format!("{ARTISTS}/absent"), MERGE, &json!({})).await.code(), 404, "it creates nothing");
}

#[tokio::test]
async fn operations_of_a_json_patch_apply_together_or_not_at_all() {
    let server = Server::start().await;
    let path = "/api/demo/v2/album/issues";
    server.put(path, json!({ "title": "Issues", "tracks": ["Dead", "Falling"] })).await.ok();
    let before = server.fetch(path).await.ok();
    let operations = json!([
        { "op": "test", "path": "/data/title", "value": "Issues" },
        { "op": "add", "path": "/data/tracks/1", "value": "Trash" },
        { "op": "move", "from": "/data/tracks/0", "path": "/data/tracks/2" },
        { "op": "add", "path": "/metadata", "value": { "a": "b" } },
    ]);
    let patched = patch(&server, path, OPERATIONS, &operations).await.ok();
    assert_eq!(patched["data"]["tracks"], json!(["Trash", "Falling", "Dead"]));
    assert_eq!(patched["metadata"], json!({ "a": "b" }));
    assert_ne!(patched["version"], before["version"]);

    for (operation, path_of_fault) in [
        (json!({ "op": "test", "path": "/data/title", "value": "Other" }), "data.title"),
        (json!({ "op": "remove", "path": "/data/tracks/9" }), "data.tracks[9]"),
        (json!({ "op": "replace", "path": "/data/nothing", "value": 1 }), "data.nothing"),
    ] {
        let operations = json!([{ "op": "replace", "path": "/data/title", "value": "x" }, operation]);
        let problem = patch(&server, path, OPERATIONS, &operations).await.problem(409, "patch-failed");
        assert_eq!(problem["violations"][0]["path"], path_of_fault, "{problem}");
        assert!(problem["detail"].as_str().unwrap().starts_with("operation 1 ("), "{problem}");
    }
    assert_eq!(server.fetch(path).await.ok(), patched, "nothing has changed");
}

#[tokio::test]
async fn a_patch_of_the_wrong_form_is_refused_with_the_place() {
    let server = Server::start().await;
    let korn = format!("{ARTISTS}/korn");
    let owner = id_of(&server.write(artist("korn")).await.unwrap());
    server.write(owned(album("issues", None), &owner)).await.unwrap();
    let before = server.fetch(&korn).await.ok();
    for (format, body, path) in [
        (MERGE, json!({ "data": { "nome": "x" } }), "data.nome"),
        (MERGE, json!({ "data": { "genre": "GENRE_NOISE" } }), "data.genre"),
        (MERGE, json!({ "data": null }), "data"),
        (MERGE, json!({ "id": { "name": "other" } }), "id"),
        (MERGE, json!({ "status": { "x": {} } }), "status"),
        (MERGE, json!({ "version": "7" }), "version"),
        (MERGE, json!({ "owner": { "name": "x" } }), "owner"),
        (OPERATIONS, json!([{ "op": "remove", "path": "/generation" }]), "generation"),
        (OPERATIONS, json!([{ "op": "nope", "path": "/data" }]), "[0]"),
    ] {
        let answer = patch(&server, &korn, format, &body).await;
        assert_eq!(answer.code(), 400, "{body}: {answer:?}");
        assert_eq!(answer.json()["violations"][0]["path"], path, "{body}: {answer:?}");
        assert!(answer.json()["violations"][0].get("line").is_none(), "the client did not send this text: {answer:?}");
    }
    let issues = "/api/demo/v2/album/issues";
    assert_eq!(patch(&server, issues, MERGE, &json!({ "owner": null })).await.code(), 400);
    for (format, body) in [(MERGE, "[]"), (MERGE, "{"), (OPERATIONS, "{}"), (OPERATIONS, "")] {
        let answer = server.ask("PATCH", &korn).header("content-type", format).body(body).await_answer().await;
        answer.problem(400, "malformed-body");
    }
    for format in ["application/json", "application/strategic-merge-patch+json", "text/plain", ""] {
        let answer = patch(&server, &korn, format, &json!({})).await;
        answer.problem(415, "unsupported-media-type");
        assert_eq!(answer.header("accept-patch"), format!("{MERGE}, {OPERATIONS}"), "{format}");
    }
    let options = server.ask("OPTIONS", &korn).await_answer().await;
    assert_eq!(options.header("accept-patch"), format!("{MERGE}, {OPERATIONS}"));
    assert_eq!(patch(&server, &format!("{korn}?verison=1"), MERGE, &json!({})).await.code(), 400);
    assert_eq!(server.fetch(&korn).await.ok(), before, "nothing has changed");
}

#[tokio::test]
async fn a_patch_happens_only_if_its_conditions_hold() {
    let server = Server::start().await;
    let korn = format!("{ARTISTS}/korn");
    let renamed = |name: &str| json!({ "data": { "name": name } });
    let conditional = async |name: &str, value: &str| {
        let asking = server.ask("PATCH", &korn).header("content-type", MERGE).header(name, value);
        asking.body(renamed("x").to_string()).await_answer().await
    };
    assert_eq!(conditional("if-match", "*").await.code(), 412, "there is nothing");
    let first = server.put(&korn, json!({ "name": "Korn" })).await.header("etag").to_owned();
    let version = first.trim_matches('"');
    let second = server.put(&korn, json!({ "name": "KoRn" })).await.header("etag").to_owned();
    for (name, value) in
        [("if-match", &*first), ("if-match", "W/\"1\""), ("if-none-match", &*second), ("if-none-match", "*")]
    {
        conditional(name, value).await.problem(412, "precondition-failed");
    }
    let old = patch(&server, &format!("{korn}?version={version}"), MERGE, &renamed("x")).await;
    old.problem(409, "aborted");
    assert_eq!(server.fetch(&korn).await.ok()["data"]["name"], "KoRn", "nothing has changed");
    assert_eq!(conditional("if-match", &format!("{first}, {second}")).await.ok()["data"]["name"], "x");
}

/// Every patch of many at once has its effect, and none undoes another.
#[tokio::test]
async fn no_patch_is_lost_among_other_writers() {
    let server = Server::start().await;
    let korn = format!("{ARTISTS}/korn");
    server.put(&korn, json!({ "name": "Korn" })).await.ok();
    let all = (0..24).map(|n| {
        let (server, korn) = (&server, &korn);
        async move {
            let member = format!("member{n}");
            let body = match n % 2 {
                0 => (MERGE, json!({ "data": { "groupMembers": { member: "x" } } })),
                _ => (OPERATIONS, json!([{ "op": "add", "path": format!("/metadata/{member}"), "value": "x" }])),
            };
            patch(server, korn, body.0, &body.1).await.code()
        }
    });
    let seeded = patch(&server, &korn, MERGE, &json!({ "metadata": { "seed": "x" } })).await;
    assert_eq!(seeded.code(), 200);
    let codes = futures::future::join_all(all).await;
    assert_eq!(codes, [200; 24]);
    let stored = server.fetch(&korn).await.ok();
    assert_eq!(stored["data"]["groupMembers"].as_object().unwrap().len(), 12, "{stored}");
    assert_eq!(stored["metadata"].as_object().unwrap().len(), 13, "{stored}");
}

/// Data without a form in JSON has another key, stays as it is, and can be written back.
#[tokio::test]
async fn data_that_json_cannot_express_stays() {
    let server = Server::start().await;
    let path = "/api/demo/v2/artist/odd";
    let mut odd = artist("odd");
    // A field of an unknown number is printed; bytes that are not a message are not.
    odd.data.as_mut().unwrap().value.extend([0xfa, 0x07, 0x01, 0x41]);
    server.write(odd).await.unwrap();
    let before = server.read(&id("demo.v2.Artist", "odd")).await.unwrap();
    let patched = patch(&server, path, MERGE, &json!({ "metadata": { "a": "b" } })).await.ok();
    assert_eq!(patched["metadata"], json!({ "a": "b" }));
    let after = server.read(&id("demo.v2.Artist", "odd")).await.unwrap();
    assert_eq!(after.data, before.data);
}
