//! The table in docs/security.md of who may do what: each cell is an answer of the server.

use mortise_api::{AuthServiceClient, PluginServiceClient, ServerServiceClient};
use mortise_resource::{data, pb};
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tonic::{Code, Status};

use super::allow;
use crate::support::{tokens::*, *};

const BEGIN: &str = "<!-- rights: a test writes this table (MORTISE_UPDATE_GOLDEN=1) -->\n";
const END: &str = "<!-- rights: end -->\n";

/// The callers: heading, name of the token, rules by area, rules by type. The last one has `global-management`.
fn callers() -> Vec<(&'static str, &'static str, &'static str, Vec<data::TypeRule>)> {
    let access = || allow(&["*"], &["mortise/Token", "mortise/Policy"]);
    let escalate = allow(&["escalate"], &["mortise/Token", "mortise/Policy"]);
    vec![
        ("no token", "", "", vec![]),
        ("`*:*`", "all", "", vec![allow(&["*"], &["*"])]),
        ("`operator = \"read\"`", "reader", "operator = \"read\"", vec![]),
        ("`operator = \"write\"`", "operator", "operator = \"write\"", vec![]),
        ("`*:mortise/Token,mortise/Policy`", "clerk", "", vec![access()]),
        ("the same and `escalate`", "registrar", "", vec![access(), escalate]),
        ("`global-management`", "manager", "", vec![]),
    ]
}

/// Whether the caller may: any answer but a refusal of the caller counts.
fn may<T>(answer: Result<T, Status>) -> bool {
    !answer.is_err_and(|status| matches!(status.code(), Code::PermissionDenied | Code::Unauthenticated))
}

fn token(name: &str, policies: &[String]) -> pb::WriteRequest {
    let secret_sha256 = Sha256::digest(name).to_vec();
    let token = data::Token { secret_sha256, policies: policies.to_vec(), ..data::Token::default() };
    pb::WriteRequest { resource: Some(resource(id("mortise.v1.Token", name), Some(any("mortise.v1.Token", &token)))) }
}

fn policy(name: &str, rules: &str, type_rules: Vec<data::TypeRule>) -> pb::WriteRequest {
    let policy = data::Policy { rules: rules.to_owned(), type_rules, ..data::Policy::default() };
    pb::WriteRequest {
        resource: Some(resource(id("mortise.v1.Policy", name), Some(any("mortise.v1.Policy", &policy)))),
    }
}

/// Asks everything as one caller; returns row and answer.
async fn ask(
    guarded: &Guarded,
    name: &str,
    secret: &str,
    rules: (&str, Vec<data::TypeRule>),
) -> Vec<(&'static str, bool)> {
    let mut client = guarded.resources(secret).await;
    let channel = guarded.channel(secret).await;
    let mut rows = Vec::new();
    let own: Vec<String> = match name {
        "" => vec![],
        "manager" => vec!["global-management".into()],
        name => vec![name.into()],
    };
    let unique = |what: &str| format!("{what}-{}", if name.is_empty() { "none" } else { name });
    for (kind, read, list) in [
        ("mortise.v1.Token", "tokens: read", "tokens: list"),
        ("mortise.v1.Policy", "policies: read", "policies: list"),
    ] {
        rows.push((read, may(client.read(pb::ReadRequest { id: Some(id(kind, "strong")) }).await)));
        let of = pb::ListRequest {
            r#type: Some(gvk(kind)),
            tenancy: Some(pb::Tenancy::default()),
            name_prefix: String::new(),
        };
        rows.push((list, may(client.list(of).await)));
        if kind == "mortise.v1.Token" {
            rows.push((
                "tokens: write one that grants own permissions",
                may(client.write(token(&unique("same"), &own)).await),
            ));
            let more = client.write(token(&unique("more"), &["strong".into(), "wide".into()])).await;
            rows.push(("tokens: write one that grants more", may(more)));
            let (mut taken, victim) = (token(&unique("victim"), &["strong".into(), "wide".into()]), unique("victim"));
            guarded.token(&victim, &["strong", "wide"], |_| {}).await;
            let data = taken.resource.as_mut().and_then(|resource| resource.data.as_mut());
            data.unwrap().value = data::Token {
                secret_sha256: vec![9; 32],
                policies: vec!["strong".into(), "wide".into()],
                ..data::Token::default()
            }
            .encode_to_vec();
            rows.push(("tokens: give one that grants more a new secret", may(client.write(taken).await)));
            let request = pb::DeleteRequest { id: Some(id(kind, &victim)), version: String::new() };
            rows.push(("tokens: delete", may(client.delete(request).await)));
            let mut auth = AuthServiceClient::new(channel.clone());
            let request = data::CanIRequest {
                verb: "read".into(),
                id: Some(id("demo.v2.Artist", "korn")),
                as_token: "strong".into(),
                ..data::CanIRequest::default()
            };
            rows.push(("tokens: ask what the holder may do (`can-i --as`)", may(auth.can_i(request).await)));
        } else {
            let same = client.write(policy(&unique("same"), rules.0, rules.1.clone())).await;
            rows.push(("policies: write one that grants own permissions", may(same)));
            let wide = vec![allow(&["*"], &["demo/*", "tenancy/*"])];
            let more = client.write(policy(&unique("more"), "operator = \"write\"\nacl = \"write\"", wide)).await;
            rows.push(("policies: write one that grants more", may(more)));
            guarded.policy(&unique("victim"), "", vec![]).await;
            let request = pb::DeleteRequest { id: Some(id(kind, &unique("victim"))), version: String::new() };
            rows.push(("policies: delete", may(client.delete(request).await)));
        }
    }
    let mut plugins = PluginServiceClient::new(channel.clone());
    let follow = data::LogsRequest { name: "demo".into(), ..data::LogsRequest::default() };
    let looked =
        may(plugins.inspect(data::InspectRequest { name: "demo".into() }).await) && may(plugins.logs(follow).await);
    rows.push(("plugins: inspect, logs", looked));
    let changed = [
        may(plugins.install(tokio_stream::empty()).await),
        may(plugins.remove(data::RemoveRequest { name: "none".into() }).await),
        may(plugins.rollback(data::RollbackRequest { name: "none".into() }).await),
        may(plugins.reset(data::ResetRequest { name: "none".into() }).await),
        may(plugins.disable(data::DisableRequest { name: "none".into() }).await),
        may(plugins.enable(data::EnableRequest { name: "none".into() }).await),
    ];
    assert!(changed.iter().all(|one| *one == changed[0]), "{name}: {changed:?}");
    rows.push(("plugins: install, remove, roll back, reset, disable, enable", changed[0]));
    let record = resource(id("mortise.v1.Plugin", "demo"), Some(any("mortise.v1.Plugin", &data::Plugin::default())));
    rows.push((
        "plugins: write the server's record of one",
        may(client.write(pb::WriteRequest { resource: Some(record) }).await),
    ));
    let mut server = ServerServiceClient::new(channel.clone());
    let identity = pb::Id { name: "web.mesh.example".into(), ..pb::Id::default() };
    let request = data::CanIRequest { verb: "certify".into(), id: Some(identity), ..data::CanIRequest::default() };
    let certified = AuthServiceClient::new(channel.clone()).can_i(request).await;
    rows.push(("certificates: get one for an identity", certified.is_ok_and(|answer| answer.into_inner().allowed)));
    rows.push(("backups: take one", may(server.backup(data::BackupRequest::default()).await)));
    rows.push(("audit: its state (`mortise status`)", may(server.status(data::ServerStatusRequest {}).await)));
    rows
}

/// The number of records of changes and refusals of a caller in the audit log.
fn records(guarded: &Guarded, accessor: &str) -> usize {
    let text = std::fs::read_to_string(guarded.server.data_dir.join("audit/audit.jsonl")).unwrap();
    let marks = if accessor.is_empty() {
        "\"caller\":\"anonymous token\"".into()
    } else {
        format!("\"accessor\":\"{accessor}\"")
    };
    text.lines().filter(|line| line.contains(&marks)).count()
}

#[tokio::test]
async fn the_page_has_the_table_of_who_may_do_what() {
    let guarded = Guarded::start(Setup::new().env("MORTISE_AUDIT_EVENTS", "changes")).await;
    guarded.policy("strong", "operator = \"write\"", vec![allow(&["*"], &["*"])]).await;
    guarded.policy("wide", "", vec![allow(&["read"], &["mortise/Token"]), allow(&["*"], &["demo/*"])]).await;
    guarded.token("strong", &["strong"], |_| {}).await;
    let mut table: Vec<(&str, Vec<bool>)> = Vec::new();
    for (_, name, rules, type_rules) in callers() {
        if !name.is_empty() && name != "manager" {
            guarded.policy(name, rules, type_rules.clone()).await;
        }
        let secret = match name {
            "" => String::new(),
            "manager" => guarded.token(name, &["global-management"], |_| {}).await,
            name => guarded.token(name, &[name], |_| {}).await,
        };
        let before = records(&guarded, name);
        let mut rows = ask(&guarded, name, &secret, (rules, type_rules)).await;
        // Each of the changes and of the refused requests has its record, whoever made it.
        let least = rows.iter().filter(|(row, done)| !*done || row.contains("write") || row.contains("delete")).count();
        eventually("the records are in the file", async || records(&guarded, name) >= before + least).await;
        rows.push(("audit: change something, or be refused, without a record", false));
        // No method of any service reads or changes the log.
        assert!(!mortise_resource::DESCRIPTORS.windows(5).any(|word| word == b"Audit"));
        rows.push(("audit: read or change the log over the network", false));
        for (row, done) in rows {
            match table.iter_mut().find(|(known, _)| *known == row) {
                Some((_, cells)) => cells.push(done),
                None => table.push((row, vec![done])),
            }
        }
    }
    let headings: Vec<_> = callers().iter().map(|(heading, ..)| *heading).collect();
    let mut text = format!("| | {} |\n|---|{}\n", headings.join(" | "), "---|".repeat(headings.len()));
    for (row, cells) in &table {
        assert_eq!(cells.len(), headings.len(), "{row}");
        let cells: Vec<_> = cells.iter().map(|done| if *done { "yes" } else { "no" }).collect();
        text.push_str(&format!("| {row} | {} |\n", cells.join(" | ")));
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = page.split_once(BEGIN).expect("the page has the beginning of the table");
    let (shown, tail) = rest.split_once(END).expect("the page has the end of the table");
    if std::env::var_os("MORTISE_UPDATE_GOLDEN").is_some_and(|wanted| wanted == "1") {
        std::fs::write(&path, format!("{head}{BEGIN}{text}{END}{tail}")).unwrap();
    } else {
        assert_eq!(shown, text, "MORTISE_UPDATE_GOLDEN=1 writes the table");
    }
}
