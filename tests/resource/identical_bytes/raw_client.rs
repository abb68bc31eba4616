//! A client of messages as raw bytes.

use std::collections::BTreeMap;

use bytes::{Buf as _, BufMut as _, Bytes};
use mortise_resource::pb;
use prost::{
    Message,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field},
};
use tokio::time::timeout;
use tonic::{
    Request, Status, Streaming,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
    transport::Channel,
};

use super::random_resources::Kind;
use crate::support::{PATIENCE, Server, gvk};

/// A codec of messages as raw bytes.
#[derive(Debug, Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Bytes;
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

    fn encode(&mut self, item: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(message.copy_to_bytes(message.remaining())))
    }
}

pub(super) struct Client(Grpc<Channel>);

impl Client {
    pub(super) async fn of(server: &Server) -> Self {
        Self(Grpc::new(server.channel().await).max_decoding_message_size(usize::MAX))
    }

    fn path(method: &str) -> PathAndQuery {
        format!("/hashicorp.consul.resource.ResourceService/{method}").parse().unwrap()
    }

    pub(super) async fn call(&self, method: &str, request: Request<Vec<u8>>) -> Bytes {
        let mut grpc = self.0.clone();
        grpc.ready().await.unwrap();
        let answer = timeout(PATIENCE, grpc.unary(request, Self::path(method), Raw)).await.expect("an answer in time");
        answer.unwrap_or_else(|status| panic!("{method}: {status}")).into_inner()
    }

    /// The only resource of an answer.
    pub(super) async fn resource(&self, method: &str, request: Request<Vec<u8>>) -> Bytes {
        let mut found = parts(&self.call(method, request).await, 1);
        assert_eq!(found.len(), 1, "{method} answers one resource");
        found.remove(0)
    }

    /// The resources of an answer, by their ids.
    pub(super) async fn resources(&self, method: &str, request: impl Message) -> BTreeMap<Key, Bytes> {
        let found = parts(&self.call(method, Request::new(request.encode_to_vec())).await, 1);
        let count = found.len();
        let by_key: BTreeMap<_, _> = found.into_iter().map(|bytes| (key(&bytes), bytes)).collect();
        assert_eq!(by_key.len(), count, "{method} answers each resource once");
        by_key
    }

    pub(super) async fn watch(&self, kind: &Kind) -> Watch {
        let request = pb::WatchListRequest { r#type: Some(gvk(kind.gvk)), ..Default::default() }.encode_to_vec();
        let mut grpc = self.0.clone();
        grpc.ready().await.unwrap();
        let answer = grpc.server_streaming(Request::new(request), Self::path("WatchList"), Raw).await;
        Watch(answer.unwrap().into_inner())
    }
}

/// An open watch.
pub(super) struct Watch(Streaming<Bytes>);

pub(super) const UPSERT: u32 = 1;
pub(super) const DELETE: u32 = 2;
const END_OF_SNAPSHOT: u32 = 3;

impl Watch {
    /// The kind of the next event, and its resource, which is empty at the end of the snapshot.
    pub(super) async fn next(&mut self) -> (u32, Bytes) {
        let event = timeout(PATIENCE, self.0.message()).await.expect("an event comes in time").unwrap();
        let event = event.expect("a watch never ends without a status");
        let mut found = [UPSERT, DELETE, END_OF_SNAPSHOT].into_iter().filter_map(|number| {
            let inner = parts(&event, number).pop()?;
            Some((number, parts(&inner, 1).pop().unwrap_or_default()))
        });
        found.next().expect("an event is never empty")
    }

    pub(super) async fn snapshot(&mut self) -> BTreeMap<Key, Bytes> {
        let mut all = BTreeMap::new();
        loop {
            match self.next().await {
                (UPSERT, bytes) => assert!(all.insert(key(&bytes), bytes).is_none(), "each resource once"),
                (number, _) => {
                    assert_eq!(number, END_OF_SNAPSHOT);
                    return all;
                }
            }
        }
    }
}

/// The values of a length-delimited field.
pub(super) fn parts(message: &Bytes, number: u32) -> Vec<Bytes> {
    let (mut rest, mut found) = (message.clone(), Vec::new());
    while rest.has_remaining() {
        let (tag, wire_type) = decode_key(&mut rest).unwrap();
        if (tag, wire_type) == (number, WireType::LengthDelimited) {
            let length = decode_varint(&mut rest).unwrap();
            found.push(rest.split_to(length.try_into().unwrap()));
        } else {
            skip_field(wire_type, tag, &mut rest, DecodeContext::default()).unwrap();
        }
    }
    found
}

/// Type, partition, namespace, name.
pub(super) type Key = [String; 4];

pub(super) fn key(resource: &Bytes) -> Key {
    let id = pb::Resource::decode(resource.clone()).unwrap().id.unwrap();
    let (kind, place) = (id.r#type.unwrap(), id.tenancy.unwrap());
    [format!("{}.{}.{}", kind.group, kind.group_version, kind.kind), place.partition, place.namespace, id.name]
}
