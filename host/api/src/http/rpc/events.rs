//! An RPC with a stream of answers, as server-sent events: `message` for each, with the message as JSON on one line;
//! then `end` if the answer is complete, or `closed` with a problem object if the server ended it. Comments keep the
//! connection alive meanwhile.

use std::convert::Infallible;

use axum::response::{
    IntoResponse as _, Response,
    sse::{Event, KeepAlive, Sse},
};
use futures::{Stream, stream};
use mortise_resource::{Code, Error, SERVER_STOPPING};
use mortise_text::Indent;
use prost_reflect::MessageDescriptor;
use tokio::sync::OwnedSemaphorePermit;

use super::{call::RpcCall, print::print};
use crate::{
    grpc::{in_process::Answers, status::error_of},
    http::{Shared, error::HttpError, watch},
};

/// Makes the call.
pub(super) async fn events(call: &RpcCall) -> Result<Response, HttpError> {
    let permit = watch::permit(&call.shared);
    let answers = call.make(permit.as_ref().map(|_| ()).map_err(|full| full.clone().into())).await?;
    let open = OpenAnswer {
        answers,
        message: call.method.output(),
        shared: call.shared.clone(),
        path: call.parts.uri.path().to_owned(),
        _permit: permit?,
    };
    let keep_alive = KeepAlive::new().interval(call.shared.options.keep_alive).text("alive");
    Ok(watch::unbuffered(Sse::new(open.stream()).keep_alive(keep_alive).into_response()))
}

/// An open answer.
struct OpenAnswer {
    answers: Answers,
    message: MessageDescriptor,
    shared: Shared,
    path: String,
    _permit: OwnedSemaphorePermit,
}

impl OpenAnswer {
    fn stream(self) -> impl Stream<Item = Result<Event, Infallible>> {
        stream::unfold(Some(self), async |open| {
            let mut open = open?;
            match open.next().await {
                Ok(Some(event)) => Some((Ok(event), Some(open))),
                Ok(None) => Some((Ok(Event::default().event("end").data("{}")), None)),
                Err(error) => Some((Ok(watch::ended(&open.shared, &open.path, error)), None)),
            }
        })
    }

    /// The next message; `None` at the end of a complete answer.
    async fn next(&mut self) -> Result<Option<Event>, Error> {
        match self.answers.next().await.map_err(|status| error_of(&status))? {
            Some(message) => {
                let text = print(&self.shared, self.message.clone(), message, Indent::Compact).await?;
                Ok(Some(Event::default().event("message").data(text)))
            }
            // A stream that the stop of the server ends looks complete over gRPC, too.
            None if !*self.shared.ready.borrow() => Err(Error::new(Code::Unavailable, SERVER_STOPPING)),
            None => Ok(None),
        }
    }
}
