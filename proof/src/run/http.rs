//! Calls over HTTP, and resources as JSON. Their refusals have the codes of gRPC, so that both are recorded alike.
//!
//! JSON shows a part of a resource: the digest and the edition of a [`State`] stay open ([`State::is_partial`]).

use std::{collections::BTreeMap, net::SocketAddr};

use mortise_proof::record::{Incarnation, Key, OPEN_EDITION, Scope, State};
use mortise_resource::meta;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tonic::{Code, Status};

use super::convert::{self, scope_place, type_of};

/// Longest answer, bytes.
const MAX_ANSWER: u64 = 16 << 20;

/// Asks a server; returns the JSON of the answer, or null without a body.
pub(crate) async fn ask(addr: SocketAddr, method: &str, path: &str, body: Option<Value>) -> Result<Value, Status> {
    let lost = |error: std::io::Error| Status::unavailable(error.to_string());
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    // An answer of HTTP/1.0 ends with its connection.
    let head = format!("{method} {path} HTTP/1.0\r\nhost: {addr}\r\ncontent-length: {}\r\n\r\n", body.len());
    let mut connection = TcpStream::connect(addr).await.map_err(lost)?;
    connection.write_all((head + &body).as_bytes()).await.map_err(lost)?;
    let mut answer = String::new();
    connection.take(MAX_ANSWER).read_to_string(&mut answer).await.map_err(lost)?;
    let cut = || Status::unavailable("the answer is cut off");
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(cut)?;
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    if length.is_some_and(|length| length.parse() != Ok(body.len())) {
        return Err(cut());
    }
    match status {
        "204" => Ok(Value::Null),
        "200" => serde_json::from_str(body).map_err(|_| cut()),
        _ => Err(refusal(status, body)),
    }
}

/// Returns the refusal of the service behind an answer.
fn refusal(status: &str, text: &str) -> Status {
    let problem: Value = serde_json::from_str(text).unwrap_or_default();
    let code = problem.get("code").and_then(Value::as_str);
    let code = (0..=16).map(Code::from_i32).find(|known| code == Some(format!("{known:?}").as_str()));
    Status::new(code.unwrap_or(Code::Unknown), format!("HTTP {status}: {text}"))
}

/// Path and place of a resource; the version is a condition.
pub(crate) fn path(key: &Key, version: Option<u64>) -> String {
    let scope = Scope { kind: key.kind.clone(), namespace: Some(key.namespace.clone()), name: None };
    let version = version.map(|version| format!("&version={version}")).unwrap_or_default();
    list_path(&scope).replacen('?', &format!("/{}?", key.name), 1) + &version
}

/// Path of the list of a scope.
pub(crate) fn list_path(scope: &Scope) -> String {
    let (kind, place) = (type_of(&scope.kind), scope_place(scope));
    let kind = format!("{}/{}/{}", kind.group, kind.group_version, kind.kind.to_lowercase());
    format!("/api/{kind}?partition={}&namespace={}", place.partition, place.namespace)
}

/// The body of a write.
pub(crate) fn body(
    key: &Key,
    content: &str,
    owner: Option<&Incarnation>,
    metadata: &BTreeMap<String, String>,
) -> Value {
    let field = convert::content_path(&key.kind).trim_start_matches("data.");
    let mut body = json!({ "data": { field: content }, "metadata": metadata });
    if let (Some(owner), Some(fields)) = (owner, body.as_object_mut()) {
        let (kind, place) = (type_of(&owner.key.kind), convert::place(&owner.key.namespace));
        let id = json!({
            "name": owner.key.name, "uid": owner.uid,
            "type": { "group": kind.group, "groupVersion": kind.group_version, "kind": kind.kind },
            "tenancy": { "partition": place.partition, "namespace": place.namespace },
        });
        fields.insert("owner".to_owned(), id);
    }
    body
}

/// Returns the resources of a list.
pub(crate) fn states(list: &Value) -> Vec<State> {
    list.pointer("/resources").and_then(Value::as_array).into_iter().flatten().map(state).collect()
}

/// Returns the form of a resource in a record.
pub(crate) fn state(resource: &Value) -> State {
    let Incarnation { key, uid } = incarnation(resource.get("id").unwrap_or(&Value::Null));
    let content = format!("/{}", convert::content_path(&key.kind).replace('.', "/"));
    let metadata: BTreeMap<String, String> =
        entries(resource, "metadata").map(|(name, value)| (name, text(value, ""))).collect();
    let statuses = entries(resource, "status").map(|(name, status)| (name, text(status, "/conditions/0/message")));
    State {
        content: text(resource, &content),
        key,
        uid,
        version: text(resource, "/version").parse().unwrap_or_default(),
        generation: text(resource, "/generation"),
        edition: OPEN_EDITION,
        owner: resource.get("owner").map(incarnation),
        is_marked: meta::is_marked(&metadata),
        has_finalizers: meta::has_finalizers(&metadata),
        statuses: statuses.collect(),
        references: Vec::new(),
        digest: 0,
    }
}

fn incarnation(id: &Value) -> Incarnation {
    let place = convert::namespace(&text(id, "/tenancy/partition"), &text(id, "/tenancy/namespace"));
    let key = Key { kind: text(id, "/type/kind"), namespace: place, name: text(id, "/name") };
    Incarnation { key, uid: text(id, "/uid") }
}

/// Returns the text at a JSON pointer; empty without one.
fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn entries<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = (String, &'v Value)> + use<'v> {
    let object = value.get(name).and_then(Value::as_object);
    object.into_iter().flatten().map(|(name, value)| (name.clone(), value))
}
