//! The RPCs of Mortise's own services as JSON: `/rpc`.

mod access;
mod install;
mod streams;

use std::collections::BTreeSet;

use mortise_resource::DESCRIPTORS;
use mortise_text::{Indent, TypeTable, answer_to_json};
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};
use tonic::{
    Request, Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

use crate::support::{
    Server, Setup, artist,
    http::{ARTISTS, Answer},
    until_closed,
};

/// Bytes as they are.
#[derive(Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes::BufMut::put_slice(to, &item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut item = vec![0; bytes::Buf::remaining(from)];
        bytes::Buf::copy_to_slice(from, &mut item);
        Ok(Some(item))
    }
}

/// The answer to an empty request over gRPC.
async fn over_grpc(server: &Server, method: &str) -> Result<Vec<u8>, Status> {
    let mut client = tonic::client::Grpc::new(server.channel().await);
    client.ready().await.unwrap();
    let path = format!("/{method}").parse().unwrap();
    client.unary(Request::new(Vec::new()), path, Raw).await.map(tonic::Response::into_inner)
}

/// The answer to a request over HTTP.
async fn call(server: &Server, method: &str, body: Value) -> Answer {
    server.ask("POST", &format!("/rpc/{method}")).json(&body).await_answer().await
}

/// The methods of `GET /rpc`.
async fn methods(server: &Server) -> Vec<Value> {
    let list = server.fetch("/rpc").await.ok();
    let services = list["services"].as_array().unwrap().clone();
    services.iter().flat_map(|service| service["methods"].as_array().unwrap().clone()).collect()
}

/// Methods whose answers differ from one call to the next.
const VOLATILE: [&str; 3] = ["ServerService/Status", "ServerService/Metrics", "ControllerService/List"];

#[tokio::test]
async fn every_method_with_one_answer_gives_the_one_of_grpc() {
    let server = Server::start().await;
    let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
    let (mut succeeded, mut refused) = (0, 0);
    for method in methods(&server).await {
        if method["serverStreaming"] == true || method["clientStreaming"] == true {
            continue;
        }
        let name = method["path"].as_str().unwrap().strip_prefix("/rpc/").unwrap();
        let there = over_grpc(&server, name).await;
        let here = server.ask("POST", &format!("/rpc/{name}")).await_answer().await;
        match there {
            Ok(bytes) => {
                succeeded += 1;
                let message = pool.get_message_by_name(method["response"].as_str().unwrap()).unwrap();
                let message = DynamicMessage::decode(message, bytes.as_slice()).unwrap();
                let wanted = answer_to_json(&message, &TypeTable::new(), Indent::Compact).unwrap();
                let (wanted, found) = (serde_json::from_str::<Value>(&wanted).unwrap(), here.ok());
                if VOLATILE.iter().any(|volatile| name.ends_with(volatile)) {
                    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
                    assert_eq!(keys(&found), keys(&wanted), "{name}");
                } else {
                    assert_eq!(found, wanted, "{name}");
                }
            }
            Err(status) => {
                refused += 1;
                let problem = here.json();
                assert_eq!(problem["code"], format!("{:?}", status.code()), "{name}: {here:?}");
                assert_eq!(problem["detail"], status.message(), "{name}");
            }
        }
    }
    assert!(succeeded >= 9 && refused >= 12, "{succeeded} {refused}");
}

#[tokio::test]
async fn resources_have_the_form_of_the_http_api_in_both_directions() {
    let server = Server::start().await;
    server.write(artist("korn")).await.unwrap();
    let korn = json!({ "type": { "group": "demo", "groupVersion": "v2", "kind": "Artist" }, "name": "korn" });
    let get = call(&server, "mortise.v1.QueryService/BatchGet", json!({ "ids": [korn] })).await.ok();
    let resource = &get["resources"][0];
    let plain = server.fetch(&format!("{ARTISTS}/korn")).await.ok();
    for field in ["data", "id", "version", "generation"] {
        assert_eq!(resource[field], plain[field], "{field}: {get}");
    }
    assert!(resource["meta"]["createTime"].is_string(), "the meta of the server is there, too: {get}");
    let sent = json!({ "resource": { "id": korn, "data": { "name": "KoRn", "genre": "GENRE_METAL" } } });
    let planned = call(&server, "mortise.v1.ChangeService/Plan", sent).await.ok();
    assert_eq!(planned["resource"]["data"]["name"], "KoRn", "{planned}");
    let typed = json!({ "resource": { "id": korn, "data": {
        "@type": "type.googleapis.com/hashicorp.consul.internal.demo.v2.Artist", "name": "KoRn", "genre": "GENRE_METAL",
    } } });
    assert_eq!(call(&server, "mortise.v1.ChangeService/Plan", typed).await.ok(), planned, "as gRPC's JSON has it");
    let wrong = json!({ "resource": { "id": korn, "data": { "nome": "KoRn" } } });
    let problem = call(&server, "mortise.v1.ChangeService/Plan", wrong).await.problem(400, "malformed-body");
    assert_eq!(problem["violations"][0]["path"], "resource.data.nome", "{problem}");

    let inspected = call(&server, "mortise.v1.PluginService/Inspect", json!({ "name": "demo" })).await.ok();
    assert_eq!((&inspected["plugin"]["id"]["name"], &inspected["stage"]), (&json!("demo"), &json!("Serving")));
    assert!(inspected["plugin"]["data"]["digest"].is_string(), "{inspected}");
    let tree = call(&server, "mortise.v1.OwnershipService/GetTree", json!({ "id": korn, "depth": 1 })).await;
    assert_eq!(tree.ok(), json!({}));
    let plan = call(&server, "mortise.v1.OwnershipService/PlanDelete", json!({ "id": korn })).await.ok();
    assert_eq!(plan["steps"][0]["action"], "ACTION_DELETE", "{plan}");
}

#[tokio::test]
async fn faults_of_the_service_have_their_details() {
    let server = Server::start().await;
    let label = json!({ "type": { "group": "demo", "groupVersion": "v2", "kind": "Artist" }, "name": "korn" });
    let body = json!({ "resource": { "id": label, "data": {} } });
    let problem = call(&server, "mortise.v1.ChangeService/Plan", body).await.problem(400, "invalid-argument");
    assert_eq!(problem["violations"], json!([{ "path": "data.name", "summary": "artist.name required" }]), "{problem}");
    assert_eq!(problem["instance"], "/rpc/mortise.v1.ChangeService/Plan");
    let missing = call(&server, "mortise.v1.PluginService/Rollback", json!({ "name": "nothing" })).await;
    missing.problem(404, "not-found");
    let text = server.ask("POST", "/rpc/mortise.v1.PluginService/Reset").header("accept", "text/plain");
    let text = text.json(&json!({ "name": "nothing" })).await_answer().await;
    assert!(text.said().1.starts_with("rpc error: code = NotFound desc = "), "{text:?}");
}

#[tokio::test]
async fn bodies_are_read_as_strictly_as_others() {
    let server = Setup::new().env("MORTISE_SERVICE_MAX_REQUEST_BYTES", 10_000).start().await;
    const METHOD: &str = "mortise.v1.OwnershipService/GetTree";
    for (body, path) in [
        (r#"{"id":{"nmae":"korn"}}"#, "id.nmae"),
        (r#"{"depht":1}"#, "depht"),
        (r#"{"depth":1,"depth":2}"#, "depth"),
        (r#"{"depth":"x"}"#, "depth"),
        (r#"{"depth":-1}"#, "depth"),
        (r#"{"id":[]}"#, "id"),
        ("[]", ""),
        ("null", ""),
        ("{", ""),
        ("{} {}", ""),
        ("\u{feff}nonsense", ""),
    ] {
        let answer = server.ask("POST", &format!("/rpc/{METHOD}")).body(body.to_owned()).await_answer().await;
        let problem = answer.problem(400, "malformed-body");
        assert_eq!(problem["violations"][0]["path"], path, "{body}: {problem}");
    }
    let raw = server.ask("POST", &format!("/rpc/{METHOD}")).body(&b"{\"id\":\"\xff\"}"[..]).await_answer().await;
    raw.problem(400, "malformed-body");
    for (name, value) in [("content-type", "application/yaml"), ("content-encoding", "gzip")] {
        let answer = server.ask("POST", &format!("/rpc/{METHOD}")).header(name, value).body("{}").await_answer().await;
        answer.problem(415, "unsupported-media-type");
    }
    for size in [10_001, 3_000_000] {
        let body = json!({ "id": { "name": "x".repeat(size) } });
        let problem = call(&server, METHOD, body).await.problem(413, "body-too-large");
        assert!(problem["detail"].as_str().unwrap().contains("service.max_request_bytes"), "{problem}");
    }
    for query in ["name=x", "pretty", "token=&token="] {
        let answer = server.ask("POST", &format!("/rpc/{METHOD}?{query}")).await_answer().await;
        answer.problem(400, "invalid-argument");
    }
    for empty in ["", " \n", "{}"] {
        let path = "/rpc/mortise.v1.AuthService/WhoAmI";
        let answer = server.ask("POST", path).body(empty.to_owned()).await_answer().await;
        assert_eq!(answer.ok()["name"], "anonymous token");
    }
}

#[tokio::test]
async fn a_body_that_never_ends_is_cut_off() {
    let server = Setup::new().env("MORTISE_HTTP_REQUEST_TIMEOUT_MS", 500).start().await;
    let mut stream = TcpStream::connect(server.http).await.unwrap();
    let head =
        "POST /rpc/mortise.v1.OwnershipService/GetTree HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    let (answer, _) = until_closed(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("http.request_timeout_ms"), "{answer}");
}

#[tokio::test]
async fn only_the_methods_of_mortises_own_services_are_there() {
    let server = Server::start().await;
    for (path, near) in [
        ("/rpc/mortise.v1.PluginService/rollback", "/rpc/mortise.v1.PluginService/Rollback"),
        ("/rpc/PluginService/Rollback", "/rpc/mortise.v1.PluginService/Rollback"),
        ("/rpc/mortise.v1.PluginService", "GET /rpc lists the RPCs"),
        ("/rpc/hashicorp.consul.resource.ResourceService/Read", "GET /rpc lists the RPCs"),
        ("/rpc/grpc.health.v1.Health/Check", "GET /rpc lists the RPCs"),
        ("/rpc/io.linkerd.proxy.identity.Identity/Certify", "GET /rpc lists the RPCs"),
    ] {
        let problem = server.ask("POST", path).await_answer().await.problem(404, "no-route");
        assert!(problem["detail"].as_str().unwrap().contains(near), "{path}: {problem}");
    }
    for method in ["GET", "PUT", "DELETE"] {
        let refused = server.ask(method, "/rpc/mortise.v1.PluginService/Rollback").await_answer().await;
        refused.problem(405, "method-not-allowed");
        assert_eq!(refused.header("allow"), "POST, OPTIONS");
    }
    let asked = server.ask("OPTIONS", "/rpc/mortise.v1.PluginService/Rollback").await_answer().await;
    assert_eq!((asked.code(), asked.header("allow")), (204, "POST, OPTIONS"));
    let backup = call(&server, "mortise.v1.ServerService/Backup", json!({})).await.problem(501, "unimplemented");
    assert!(backup["detail"].as_str().unwrap().contains("`mortise backup`"), "{backup}");
    let listed = methods(&server).await;
    assert!(listed.iter().all(|method| method["path"] != "/rpc/mortise.v1.ServerService/Backup"));
    let logs = listed.iter().find(|method| method["name"] == "Logs").unwrap();
    assert_eq!(
        logs,
        &json!({
            "name": "Logs", "path": "/rpc/mortise.v1.PluginService/Logs", "request": "mortise.v1.LogsRequest",
            "response": "mortise.v1.LogLine", "clientStreaming": false, "serverStreaming": true,
            "description": "Returns the last lines of a plugin's log and, on request, all later ones.",
        })
    );
    assert!(server.metrics().await.contains("route=\"/rpc\""));

    let health_alone = Setup::new().env("MORTISE_HTTP_API", false).start().await;
    assert_eq!(health_alone.fetch("/rpc").await.code(), 404);
    assert_eq!(call(&health_alone, "mortise.v1.AuthService/WhoAmI", json!({})).await.code(), 404);
}

#[tokio::test]
async fn the_document_of_the_rpcs_has_each_of_them() {
    let server = Server::start().await;
    let document = server.fetch("/v1/openapi/rpc.json").await.ok();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().unwrap();
    let listed = methods(&server).await;
    let wanted: BTreeSet<_> = listed.iter().map(|method| method["path"].as_str().unwrap()).collect();
    assert_eq!(paths.keys().map(String::as_str).collect::<BTreeSet<_>>(), wanted);
    // Every reference leads somewhere.
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(document.pointer(reference).is_some_and(|found| !found.is_null()), "{reference}");
    }
    let upload = &document["paths"]["/rpc/mortise.v1.PluginService/Install"]["post"];
    assert!(upload["requestBody"]["content"]["application/wasm"].is_object(), "{upload}");
    assert!(
        server.fetch("/v1/openapi.json").await.ok()["paths"]
            .as_object()
            .unwrap()
            .keys()
            .all(|path| !path.starts_with("/rpc"))
    );
}
