//! The answers to List and ListByOwner: already encoded and sent piece by piece, so that they are in memory once, and
//! sent pieces are freed.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use hyper::body::{Body as HttpBody, Bytes, Frame};
use mortise_service::EncodedList;
use prost::bytes::BytesMut;
use tonic::{Status, body::Body};

use super::frames;

/// The body of an answer.
///
/// # Errors
/// `ResourceExhausted`: the list exceeds the largest message, 4 GiB.
pub(super) fn list_body(list: EncodedList) -> Result<Body, Status> {
    if u32::try_from(list.bytes()).is_err() {
        return Err(Status::resource_exhausted(
            "the list has more than 4 GiB; list fewer with a name_prefix, or watch",
        ));
    }
    let mut prefix = BytesMut::with_capacity(frames::PREFIX_BYTES);
    frames::prefix(&mut prefix, list.bytes());
    Ok(Body::new(ListBody { next: Next::Prefix(prefix.freeze()), list }))
}

/// A list as the body of an answer.
struct ListBody {
    next: Next,
    list: EncodedList,
}

enum Next {
    Prefix(Bytes),
    Piece,
    End,
}

impl HttpBody for ListBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let (frame, next) = match std::mem::replace(&mut self.next, Next::End) {
            Next::Prefix(prefix) => (Frame::data(prefix), Next::Piece),
            Next::Piece => match self.list.next_piece() {
                Some(piece) => (Frame::data(piece), Next::Piece),
                None => (frames::ok_trailers(), Next::End),
            },
            Next::End => return Poll::Ready(None),
        };
        self.next = next;
        Poll::Ready(Some(Ok(frame)))
    }
}
