//! Calls beside the history, with the texts of their refusals.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use mortise_proof::record::{DEFAULT_NAMESPACE, Key};
use mortise_resource::{grpc::ResourceServiceClient, pb};
use mortise_test_process::{Outcome, channel};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tonic::{Code, Status, transport::Channel};

use super::super::{
    client::consistently,
    convert::{ARTIST, id, place, resource, type_of},
};

/// Time limit of a probe.
const LIMIT: Duration = Duration::from_secs(20);
/// Longest answer over HTTP, bytes.
const MAX_ANSWER: u64 = 1 << 16;

/// Calls to one life of a server.
pub(crate) struct Probes {
    channel: Channel,
    key: Key,
    count: u64,
    /// Rounds so far.
    pub(crate) rounds: u64,
    /// Refused writes by code and text.
    pub(crate) refused: BTreeMap<(i32, String), u64>,
    /// Faults of reads.
    pub(crate) unread: BTreeMap<(i32, String), u64>,
}

impl Probes {
    /// Connects to a server.
    pub(crate) async fn new(addr: SocketAddr) -> Outcome<Self> {
        let key = Key { kind: ARTIST.to_owned(), namespace: DEFAULT_NAMESPACE.to_owned(), name: "probe".to_owned() };
        let channel = channel(addr).await?;
        Ok(Self { channel, key, count: 0, rounds: 0, refused: BTreeMap::new(), unread: BTreeMap::new() })
    }

    /// Writes and reads once, and counts the refusals.
    pub(crate) async fn round(&mut self) {
        if let Err(status) = self.write().await {
            *self.refused.entry(named(&status)).or_default() += 1;
        }
        if let Err(status) = self.read().await {
            *self.unread.entry(named(&status)).or_default() += 1;
        }
        self.rounds += 1;
    }

    /// Writes the resource of the probes.
    pub(crate) async fn write(&mut self) -> Result<pb::Resource, Status> {
        self.count += 1;
        let request = resource(&self.key, "", None, &format!("probe-{}", self.count));
        let mut client = self.client();
        let write = client.write(pb::WriteRequest { resource: Some(request) });
        let written = limited(write).await?.into_inner().resource;
        written.ok_or_else(|| Status::internal("a write without a resource"))
    }

    /// Reads the resource of the probes in all ways.
    async fn read(&self) -> Result<(), Status> {
        self.stored().await?;
        let consistent = consistently(pb::ReadRequest { id: Some(id(&self.key, "")) }, true);
        limited(self.client().read(consistent)).await?;
        let list = pb::ListRequest {
            r#type: Some(type_of(ARTIST)),
            tenancy: Some(place(DEFAULT_NAMESPACE)),
            name_prefix: String::new(),
        };
        limited(self.client().list(list)).await?;
        Ok(())
    }

    /// Reads the resource of the probes.
    pub(crate) async fn stored(&self) -> Result<pb::Resource, Status> {
        let read = pb::ReadRequest { id: Some(id(&self.key, "")) };
        let found = limited(self.client().read(read)).await?.into_inner().resource;
        found.ok_or_else(|| Status::internal("a read without a resource"))
    }

    fn client(&self) -> ResourceServiceClient<Channel> {
        ResourceServiceClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }
}

async fn limited<T>(call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    tokio::time::timeout(LIMIT, call).await.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time")))
}

fn named(status: &Status) -> (i32, String) {
    (status.code().into(), status.message().to_owned())
}

/// Describes refusals.
pub(crate) fn describe(refusals: &BTreeMap<(i32, String), u64>) -> String {
    let each = |((code, text), count): (&(i32, String), &u64)| format!("{count} × {:?}: {text}", Code::from(*code));
    refusals.iter().map(each).collect::<Vec<_>>().join("; ")
}

/// Returns the status of a GET over HTTP.
pub(crate) async fn status_of(addr: SocketAddr, path: &str) -> Outcome<u16> {
    let mut connection = TcpStream::connect(addr).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    connection.take(MAX_ANSWER).read_to_string(&mut answer).await?;
    Ok(answer.split_whitespace().nth(1).ok_or("no status line")?.parse()?)
}
