//! gRPC messages for answers without a generated server: stored bytes are sent as they are, and an answer for many
//! clients is encoded once. A generated server would decode and encode it for each of them.

use std::convert::Infallible;

use ::http::{HeaderMap, HeaderValue, Response, header::CONTENT_TYPE};
use futures::stream;
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use mortise_resource::{EncodedResource, pb};
use mortise_service::{WatchEvent, Written};
use prost::{
    Message,
    bytes::{BufMut, BytesMut},
    encoding::{encode_varint, encoded_len_varint},
};
use tonic::{
    Code, Status,
    body::Body,
    codec::{BufferSettings, Streaming},
    metadata::GRPC_CONTENT_TYPE,
};
use tonic_prost::ProstCodec;

/// Bytes in front of a message: a flag for compression, and the length.
pub(super) const PREFIX_BYTES: usize = 5;

/// Bytes of the buffer into which a request is received. It grows for a longer request; most are shorter, and tonic's
/// default is eight times as long.
const REQUEST_BUFFER_BYTES: usize = 1 << 10;

/// Receives the only message of a request, and its end.
pub(super) async fn receive_message<M: Message + Default + 'static>(body: Body, limit: usize) -> Result<M, Status> {
    // The second number concerns answers alone.
    let decoder = ProstCodec::<(), M>::raw_decoder(BufferSettings::new(REQUEST_BUFFER_BYTES, 0));
    let mut messages = Streaming::new_request(decoder, body, None, Some(limit));
    let message = messages.message().await.map_err(|status| match status.code() {
        Code::OutOfRange => Status::resource_exhausted(status.message()),
        _ => status,
    })?;
    // Without a message, and behind a second one, the body ends with a status of its own.
    let rest = messages.message().await?;
    message.filter(|_| rest.is_none()).ok_or_else(|| Status::internal("the request's message was lost"))
}

/// Writes the prefix of an uncompressed message.
pub(super) fn prefix(out: &mut impl BufMut, length: usize) {
    out.put_u8(0);
    // Resources are far smaller, and lists are checked before.
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
}

/// Encodes and frames any message.
pub(super) fn framed(message: &impl Message) -> Bytes {
    let mut out = BytesMut::with_capacity(PREFIX_BYTES + message.encoded_len());
    prefix(&mut out, message.encoded_len());
    // Encoding fails only for a full buffer, and this one grows.
    let _ = message.encode(&mut out);
    out.freeze()
}

/// Frames a message whose first field is a resource: the answers to Read and WriteStatus.
pub(super) fn resource_frame(resource: &EncodedResource) -> Bytes {
    with_resource(resource, &())
}

/// Frames the answer to Write.
pub(super) fn write_frame(written: Written) -> Bytes {
    let Written { resource, warnings, .. } = written;
    with_resource(&resource, &pb::WriteResponse { resource: None, warnings })
}

/// Frames a resource as the first field, followed by the fields of `rest`.
fn with_resource(resource: &EncodedResource, rest: &impl Message) -> Bytes {
    let length = field_length(resource.bytes().len()) + rest.encoded_len();
    let mut out = BytesMut::with_capacity(PREFIX_BYTES + length);
    prefix(&mut out, length);
    field(&mut out, 1, resource.bytes().len());
    out.put_slice(resource.bytes());
    let _ = rest.encode(&mut out);
    out.freeze()
}

/// Bytes of an event's resource.
pub(super) fn event_bytes(event: &WatchEvent) -> usize {
    match event {
        WatchEvent::Upsert(resource) | WatchEvent::Delete(resource) => resource.bytes().len(),
        WatchEvent::EndOfSnapshot => 0,
    }
}

/// Appends an event of a watch.
pub(super) fn put_event(out: &mut BytesMut, event: &WatchEvent) {
    let (number, resource) = match event {
        WatchEvent::Upsert(resource) => (1, resource.bytes()),
        WatchEvent::Delete(resource) => (2, resource.bytes()),
        WatchEvent::EndOfSnapshot => {
            prefix(out, field_length(0));
            return field(out, 3, 0);
        }
    };
    let inner = field_length(resource.len());
    let length = field_length(inner);
    out.reserve(PREFIX_BYTES + length);
    prefix(out, length);
    field(out, number, inner);
    field(out, 1, resource.len());
    out.put_slice(resource);
}

/// Writes the head of a field with `length` bytes. The field number is below 16, so that it takes one byte.
fn field(out: &mut BytesMut, number: u8, length: usize) {
    out.put_u8(number << 3 | 2);
    encode_varint(length as u64, out);
}

fn field_length(length: usize) -> usize {
    1 + encoded_len_varint(length as u64) + length
}

/// The end of an answer, with its status.
pub(super) fn trailers(status: &Status) -> Result<Frame<Bytes>, Status> {
    let mut trailers = HeaderMap::new();
    status.add_header(&mut trailers)?;
    Ok(Frame::trailers(trailers))
}

/// The end of a successful answer.
pub(super) fn ok_trailers() -> Frame<Bytes> {
    Frame::trailers(HeaderMap::from_iter([(Status::GRPC_STATUS, HeaderValue::from_static("0"))]))
}

/// A gRPC response with this body.
pub(super) fn response(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, GRPC_CONTENT_TYPE);
    response
}

/// A response with one framed message.
pub(super) fn single_message(message: Bytes) -> Response<Body> {
    let frames = [Ok::<_, Infallible>(Frame::data(message)), Ok(ok_trailers())];
    response(Body::new(StreamBody::new(stream::iter(frames))))
}

#[cfg(test)]
mod tests {
    use mortise_resource::{Diagnostic, pb::watch_event};

    use super::*;

    fn resource(bytes: usize) -> pb::Resource {
        let data = prost_types::Any { type_url: "t".into(), value: vec![7; bytes] };
        pb::Resource { version: "1".into(), data: Some(data), ..pb::Resource::default() }
    }

    /// The bytes are the same as those of a generated server.
    #[test]
    fn messages_are_those_of_a_generated_server() {
        let mut events = 0;
        for size in [0, 1, 100, 127, 128, 16_383, 16_384, 1 << 21] {
            let resource = resource(size);
            let encoded = EncodedResource::encode(&resource).unwrap();
            let full = Some(resource.clone());
            assert_eq!(resource_frame(&encoded), framed(&pb::ReadResponse { resource: full.clone() }));
            assert_eq!(resource_frame(&encoded), framed(&pb::WriteStatusResponse { resource: full.clone() }));
            for count in 0..3 {
                let warnings = vec![Diagnostic { summary: "w".into(), ..Diagnostic::default() }; count];
                let (resource, before) = (encoded.clone(), String::new());
                let written = Written { resource, warnings: warnings.clone(), before };
                assert_eq!(write_frame(written), framed(&pb::WriteResponse { resource: full.clone(), warnings }));
            }
            for (event, message) in [
                (
                    WatchEvent::Upsert(encoded.clone()),
                    watch_event::Event::Upsert(watch_event::Upsert { resource: full.clone() }),
                ),
                (
                    WatchEvent::Delete(encoded.clone()),
                    watch_event::Event::Delete(watch_event::Delete { resource: full.clone() }),
                ),
                (WatchEvent::EndOfSnapshot, watch_event::Event::EndOfSnapshot(watch_event::EndOfSnapshot {})),
            ] {
                let mut out = BytesMut::new();
                put_event(&mut out, &event);
                assert_eq!(out, framed(&pb::WatchEvent { event: Some(message) }));
                events += 1;
            }
        }
        assert_eq!(events, 24);
    }
}
