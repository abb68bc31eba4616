//! Bodies of requests and answers, and the refusals of bodies.

use serde_json::{Value, json};

use super::put_raw;
use crate::support::{
    Server, artist, concept, demo,
    http::{ARTISTS, PROBLEM},
    id, id_of,
};

const NO_SCHEMA: (u16, &str) = (400, "Request body didn't follow the resource schema");
const NO_FORMAT: (u16, &str) = (400, "Request body format is invalid");

#[tokio::test]
async fn metadata_and_owner_stand_in_the_body() {
    let server = Server::start().await;
    let owner = id_of(&server.write(artist("korn")).await.unwrap());
    let body = |owner: Value| json!({ "data": { "title": "Issues", "yearOfRelease": 1999 }, "metadata": { "b": "2", "a": "1" }, "owner": owner });
    let by_name = json!({
        "name": "korn",
        "type": { "group": "demo", "group_version": "v2", "kind": "Artist" },
        "tenancy": { "partition": "default", "namespace": "default" },
    });
    let put = server.ask("PUT", "/api/demo/v2/album/issues").json(&body(by_name)).await_answer().await.ok();
    assert_eq!(put["metadata"], json!({ "a": "1", "b": "2" }));
    assert_eq!(put["owner"]["uid"], owner.uid);
    let by_uid = put["owner"].clone();
    assert_eq!(by_uid["type"]["groupVersion"], "v2");
    let again = server.ask("PUT", "/api/demo/v2/album/issues").json(&body(by_uid)).await_answer().await.ok();
    assert_eq!(again["owner"], put["owner"]);

    let read = server.fetch("/api/demo/v2/album/issues").await.body;
    let back = put_raw(&server, "/api/demo/v2/album/issues", &read).await.ok();
    assert_eq!(back["data"], again["data"], "what was read can be written: other keys are ignored");
    let refused = server.put("/api/demo/v2/album/issues", json!({ "title": "x" })).await;
    assert_eq!(refused.said(), (400, "rpc error: code = InvalidArgument desc = owner cannot be changed"));
    let stored = server.read(&id("demo.v2.Album", "issues")).await.unwrap();
    assert_eq!(crate::support::decoded::<demo::v2::Album>(&stored).year_of_release, 1999);
    let nobody = json!({ "data": {}, "owner": {} });
    let refused = server.ask("PUT", "/api/demo/v2/album/x").json(&nobody).await_answer().await;
    assert_eq!(refused.said(), (400, "rpc error: code = InvalidArgument desc = resource.owner.type is required"));
}

#[tokio::test]
async fn bodies_of_the_wrong_format_are_refused() {
    let server = Server::start().await;
    let korn = format!("{ARTISTS}/korn");
    for body in [
        "",
        " ",
        "nonsense",
        "[]",
        "7",
        "\"x\"",
        "{",
        "{\"data\": {\"name\": \"x\"}",
        "{\"data\": {\"name\": \"x\"}} {}",
        "{\"data\": {\"name\": \"x\"},}",
        "{\"data\": {\"name\": \"x\"}, \"metadata\": []}",
        "{\"data\": {\"name\": \"x\"}, \"metadata\": {\"a\": 1}}",
        "{\"data\": {\"name\": \"x\"}, \"metadata\": {\"a\": null}}",
        "{\"data\": {\"name\": \"x\"}, \"metadata\": {\"a\": \"1\", \"a\": \"2\"}}",
        "{\"data\": {\"name\": \"x\"}, \"data\": {\"name\": \"y\"}}",
        "{\"data\": {\"name\": \"x\"}, \"owner\": {\"name\": \"a\", \"name\": \"b\"}}",
        "{\"data\": {\"name\": \"x\"}, \"owner\": \"korn\"}",
        "{\"data\": {\"name\": \"x\"}, \"owner\": {\"nome\": \"korn\"}}",
        "{\"data\": {\"name\": \"x\"}, \"owner\": {\"type\": {\"kind\": 7}}}",
        "{\"data\": nope}",
    ] {
        assert_eq!(put_raw(&server, &korn, body).await.said(), NO_FORMAT, "{body}");
    }
    let deep = format!("{{\"data\": {{\"name\": {}1{}}}}}", "[".repeat(20_000), "]".repeat(20_000));
    assert_eq!(put_raw(&server, &korn, &deep).await.code(), 400);
    let latin = server
        .ask("PUT", &korn)
        .header("accept", "text/plain")
        .body(&b"{\"data\": {\"name\": \"K\xf6rn\"}}"[..])
        .await_answer()
        .await;
    assert_eq!(latin.said(), NO_FORMAT);
    assert_eq!(server.fetch(&korn).await.code(), 404, "nothing is stored");
}

#[tokio::test]
async fn data_that_is_not_of_the_type_is_refused() {
    let server = Server::start().await;
    let korn = format!("{ARTISTS}/korn");
    for body in [
        "null",
        "{}",
        "{\"metadata\": {}}",
        "{\"data\": null}",
        "{\"data\": 7}",
        "{\"data\": \"x\"}",
        "{\"data\": [{\"name\": \"x\"}]}",
        "{\"data\": {\"name\": 7}}",
        "{\"data\": {\"name\": \"x\", \"nome\": \"y\"}}",
        "{\"data\": {\"name\": \"x\", \"@type\": \"type.googleapis.com/hashicorp.consul.internal.demo.v2.Artist\"}}",
        "{\"data\": {\"name\": \"x\", \"genre\": \"GENRE_NOISE\"}}",
        "{\"data\": {\"name\": \"x\", \"groupMembers\": {\"a\": 1}}}",
        "{\"data\": {\"name\": \"x\", \"groupMembers\": []}}",
        "{\"data\": {\"name\": \"x\", \"name\": \"y\"}}",
        "{\"data\": {\"name\": \"x\", \"groupMembers\": {}, \"group_members\": {}}}",
        "{\"data\": {\"name\": \"x\", \"groupMembers\": {\"a\": \"1\", \"a\": \"1\"}}}",
    ] {
        assert_eq!(put_raw(&server, &korn, body).await.said(), NO_SCHEMA, "{body}");
    }
    for (data, ok) in [
        ("{\"yearOfRelease\": 1e3}", true),
        ("{\"yearOfRelease\": \"1999\"}", true),
        ("{\"yearOfRelease\": 1.5}", false),
    ] {
        let put = put_raw(&server, "/api/demo/v2/album/x", &format!("{{\"data\": {data}}}")).await;
        assert_eq!(put.code() == 200, ok, "{data}: {put:?}");
    }
    assert_eq!(server.fetch(&korn).await.code(), 404, "nothing is stored");
}

#[tokio::test]
async fn problems_name_the_field() {
    let server = Server::start().await;
    let korn = format!("{ARTISTS}/korn");
    for (body, path) in [
        ("{\"data\": {\"name\": 7}}", "data.name"),
        ("{\"data\": {\"name\": \"x\", \"genre\": \"GENRE_NOISE\"}}", "data.genre"),
        ("{\"data\": {\"groupMembers\": {\"drums\": 1}}}", "data.group_members[\"drums\"]"),
        ("{\"data\": {\"group_members\": {\"drums\": 1}}}", "data.group_members[\"drums\"]"),
        ("{\"data\": null}", "data"),
        ("{\"data\": {}, \"metadata\": {\"a\": 1}}", "metadata.a"),
        ("{\"data\": {}, \"owner\": {\"type\": {\"groupVersion\": 1}}}", "owner.type.group_version"),
    ] {
        let answer = server.ask("PUT", &korn).header("accept", PROBLEM).body(body).await_answer().await;
        let problem = answer.problem(400, "malformed-body");
        assert_eq!(problem["violations"][0]["path"], path, "{body}: {problem}");
        assert!(problem["detail"].as_str().unwrap().starts_with("Request body "), "{problem}");
        assert_eq!(problem["instance"], korn);
    }
    for (body, line, column) in [
        ("{\"data\": {\"name\": 7}}", 1, 19),
        ("{\n  \"data\": {\n    \"name\": \"x\",\n    \"nome\": 1\n  }\n}", 4, 5),
        ("{\n  \"metadata\": {\"a\": 1}\n}", 2, 21),
    ] {
        let answer = server.ask("PUT", &korn).body(body).await_answer().await;
        let fault = &answer.problem(400, "malformed-body")["violations"][0];
        assert_eq!((&fault["line"], &fault["column"]), (&json!(line), &json!(column)), "{body}: {fault}");
    }
    let festival = "{\"data\": {\"artists\": [{\"name\": \"a\"}, {\"groupMembers\": {\"x\": []}}]}}";
    let answer =
        server.ask("PUT", "/api/demo/v2/festival/x").header("accept", PROBLEM).body(festival).await_answer().await;
    assert_eq!(answer.problem(400, "malformed-body")["violations"][0]["path"], "data.artists[1].group_members[\"x\"]");

    let nameless = server.ask("PUT", &korn).header("accept", PROBLEM).json(&json!({ "data": {} })).await_answer().await;
    let problem = nameless.problem(400, "invalid-argument");
    assert_eq!(problem["detail"], "artist.name required");
    assert_eq!(problem["violations"], json!([{ "path": "data.name", "summary": "artist.name required" }]));
    assert_eq!(
        server.put(&korn, json!({})).await.said(),
        (400, "rpc error: code = InvalidArgument desc = artist.name required")
    );
}

#[tokio::test]
async fn errors_are_problems_unless_text_is_preferred() {
    let server = Server::start().await;
    let path = format!("{ARTISTS}/nobody");
    for (accept, problem) in [
        ("*/*", true),
        ("text/html, */*;q=0.8", true),
        ("application/problem+json, text/plain", true),
        ("text/plain", false),
        ("text/plain, */*;q=0.9", false),
        ("text/plain, application/problem+json;q=0.5", false),
        ("application/problem+json", true),
        ("application/problem+json, */*", true),
        ("application/json", true),
        ("application/json;q=0.9, text/plain;q=0.1", true),
    ] {
        let answer = server.ask("GET", &path).header("accept", accept).await_answer().await;
        assert_eq!(answer.code(), 404);
        if problem {
            let problem = answer.problem(404, "not-found");
            assert_eq!((&problem["code"], &problem["detail"]), (&json!("NotFound"), &json!("resource not found")));
        } else {
            assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8", "{accept}");
            assert_eq!(answer.body, "rpc error: code = NotFound desc = resource not found");
        }
    }
    let nowhere = server.ask("GET", "/api/nope/v1/nope").header("accept", PROBLEM).await_answer().await;
    nowhere.problem(404, "no-route");
}

#[tokio::test]
async fn resources_without_data_and_with_status_are_printed() {
    let server = Server::start().await;
    let written = server.write(concept("bare")).await.unwrap();
    let bare = server.fetch("/api/demo/v1/concept/bare").await.ok();
    assert_eq!(bare["data"], json!({}), "every answer has data");
    assert_eq!(server.fetch("/api/demo/v1/concept").await.ok()["resources"], json!([bare]));

    let status = mortise_resource::pb::Status {
        observed_generation: written.generation.clone(),
        conditions: vec![mortise_resource::pb::Condition {
            r#type: "Accepted".into(),
            state: 1,
            reason: "Fine".into(),
            message: "<&>".into(),
            resource: None,
        }],
        updated_at: None,
    };
    let request = mortise_resource::pb::WriteStatusRequest {
        id: written.id.clone(),
        version: String::new(),
        key: "tester".into(),
        status: Some(status),
    };
    server.write_status(request).await.unwrap();
    let printed = server.fetch("/api/demo/v1/concept/bare").await.ok();
    let status = &printed["status"]["tester"];
    assert_eq!(status["observedGeneration"], written.generation);
    assert_eq!(
        status["conditions"],
        json!([{ "type": "Accepted", "state": "STATE_TRUE", "reason": "Fine", "message": "<&>" }])
    );
    assert!(status["updatedAt"].as_str().unwrap().ends_with('Z'), "{status}");
    server.put("/api/demo/v1/concept/bare", json!({})).await.ok();
    let kept = server.fetch("/api/demo/v1/concept/bare").await.ok();
    assert_eq!((&kept["status"], &kept["data"]), (&printed["status"], &json!({})));
}
