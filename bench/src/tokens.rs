//! The cost of a token: Read and Write with a token with rules by area and by type, against the same server without
//! tokens. And the cost of the audit record of a Write.

use std::{path::Path, sync::Arc};

use mortise_acl::hash_secret;
use mortise_resource::{data, pb, types};
use prost::Message;
use tonic::{
    Request,
    metadata::{Ascii, MetadataValue},
};

use crate::{
    Outcome,
    calls::{artist, hooked, name},
    report::line,
    servers::{Client, Server},
    versus::{Costs, Rounds, Work},
};

/// Resources to read.
const NAMES: usize = 1_000;

/// The secret of the measured token.
const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Rules of the token: the demo types by area and name, the type with every hook by type.
const RULES: &str = r#"
key_prefix "resource/demo.v2." { policy = "write" }
key_prefix "resource/demo.v2.Artist/locked-" { policy = "deny" }
key_prefix "resource/" { policy = "read" }
operator = "read"
"#;

type Secret = Option<MetadataValue<Ascii>>;

fn request<T>(message: T, secret: &Secret) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(secret) = secret {
        request.metadata_mut().insert("x-consul-token", secret.clone());
    }
    request
}

struct Reads(Vec<Client>, Secret);

impl Work for Reads {
    async fn call(&self, client: usize, turn: u64) -> Outcome<()> {
        let id = artist(&name(client, turn, NAMES)).id;
        let mut stub = self.0.get(client).ok_or("no such client")?.clone();
        stub.read(request(pb::ReadRequest { id }, &self.1)).await?;
        Ok(())
    }
}

struct Writes(Vec<Client>, Secret);

impl Work for Writes {
    async fn call(&self, client: usize, turn: u64) -> Outcome<()> {
        let resource = Some(hooked(&format!("artist-{client}-{}", turn % 16)));
        let mut stub = self.0.get(client).ok_or("no such client")?.clone();
        stub.write(request(pb::WriteRequest { resource }, &self.1)).await?;
        Ok(())
    }
}

/// Measured pairs of servers: the memory layout of a process makes one slower than the other by some percent, for as
/// long as it lives.
const PAIRS: usize = 5;

const CLIENTS: [usize; 2] = [1, 64];

/// Measures tokens and records.
pub(crate) async fn measure(rounds: Rounds) -> Outcome<()> {
    let of_pair = Rounds { count: rounds.count.div_ceil(PAIRS), ..rounds };
    line(&format!("tokens: the same server with a token's rules and without; {PAIRS} pairs of servers"))?;
    let mut reads = CLIENTS.map(|clients| Costs::new("Read", ["with", "without"], clients));
    let mut writes = CLIENTS.map(|clients| Costs::new("Write", ["with", "without"], clients));
    for pair in 0..PAIRS {
        let dirs = [tempfile::tempdir()?, tempfile::tempdir()?];
        let [with, without] = &dirs;
        let acl = [("MORTISE_ACL_ENABLED", "true")];
        // The sides take turns to be first.
        let (asked, open) = if pair % 2 == 0 {
            let asked = Server::mortise(with.path(), &acl).await?;
            (asked, Server::mortise(without.path(), &[]).await?)
        } else {
            let open = Server::mortise(without.path(), &[]).await?;
            (Server::mortise(with.path(), &acl).await?, open)
        };
        let token = make_token(&asked, with.path()).await?;
        for (server, secret) in [(&asked, &token), (&open, &None)] {
            let mut client = server.client().await?;
            for i in 0..NAMES {
                let resource = Some(artist(&format!("artist-{i:07}")));
                client.write(request(pb::WriteRequest { resource }, secret)).await?;
            }
        }
        for (costs, clients) in reads.iter_mut().zip(CLIENTS) {
            let (a, b) = (asked.clients(clients).await?, open.clients(clients).await?);
            let (with, without) = (Arc::new(Reads(a, token.clone())), Arc::new(Reads(b, None)));
            costs.measure((&asked, &with), (&open, &without), of_pair).await?;
        }
        for (costs, clients) in writes.iter_mut().zip(CLIENTS) {
            let (a, b) = (asked.clients(clients).await?, open.clients(clients).await?);
            let (with, without) = (Arc::new(Writes(a, token.clone())), Arc::new(Writes(b, None)));
            costs.measure((&asked, &with), (&open, &without), of_pair).await?;
        }
        asked.stop().await?;
        open.stop().await?;
    }
    reads.into_iter().chain(writes).try_for_each(Costs::print)?;
    records(rounds).await
}

/// Measures the cost of the audit record of a Write.
async fn records(rounds: Rounds) -> Outcome<()> {
    let dirs = [tempfile::tempdir()?, tempfile::tempdir()?];
    let [with, without] = &dirs;
    let recorded = Server::mortise(with.path(), &[("MORTISE_AUDIT_EVENTS", "changes")]).await?;
    let silent = Server::mortise(without.path(), &[("MORTISE_AUDIT_EVENTS", "none")]).await?;
    line("audit: the same server with a record of each Write and without")?;
    for clients in CLIENTS {
        let (a, b) = (recorded.clients(clients).await?, silent.clients(clients).await?);
        let (with, without) = (Arc::new(Writes(a, None)), Arc::new(Writes(b, None)));
        let mut costs = Costs::new("Write", ["with", "without"], clients);
        costs.measure((&recorded, &with), (&silent, &without), rounds).await?;
        costs.print()?;
    }
    if std::fs::read_dir(with.path().join("data/audit"))?.count() == 0 {
        return Err("nothing was recorded".into());
    }
    recorded.stop().await?;
    silent.stop().await
}

/// Writes the policy and the token as the operator; returns the token.
async fn make_token(server: &Server, dir: &Path) -> Outcome<Secret> {
    let operator = std::fs::read_to_string(dir.join("data/bootstrap-token"))?;
    let operator = Some(operator.trim().parse()?);
    let rule = data::TypeRule {
        types: vec!["every_hook/*".to_owned()],
        verbs: vec!["read".to_owned(), "list".to_owned(), "write".to_owned()],
        partitions: vec!["default".to_owned()],
        ..data::TypeRule::default()
    };
    let policy = data::Policy { rules: RULES.to_owned(), type_rules: vec![rule], ..data::Policy::default() };
    let token = data::Token {
        secret_sha256: hash_secret(SECRET).to_vec(),
        policies: vec!["measured".to_owned()],
        ..data::Token::default()
    };
    let mut client = server.client().await?;
    let documents =
        [("Policy", types::policy(), policy.encode_to_vec()), ("Token", types::token(), token.encode_to_vec())];
    for (message, kind, value) in documents {
        let id = pb::Id { name: "measured".to_owned(), r#type: Some(kind.to_pb()), ..pb::Id::default() };
        let data = prost_types::Any { type_url: format!("type.googleapis.com/mortise.v1.{message}"), value };
        let resource = Some(pb::Resource { id: Some(id), data: Some(data), ..pb::Resource::default() });
        client.write(request(pb::WriteRequest { resource }, &operator)).await?;
    }
    Ok(Some(SECRET.parse()?))
}
