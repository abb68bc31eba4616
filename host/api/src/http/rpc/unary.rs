//! An RPC with one answer: 200, and the message as JSON.

use std::convert::Infallible;

use axum::{
    body::{Body, Bytes},
    response::{IntoResponse as _, Response},
};
use futures::stream;
use mortise_text::Indent;

use super::{call::RpcCall, print::print};
use crate::{
    grpc::{in_process::Answers, status::error_of},
    http::{error::HttpError, json::JSON},
};

/// Bytes of a large answer that are handed to the connection at once.
const PIECE_BYTES: usize = 64 << 10;

/// Makes the call.
pub(super) async fn unary(call: &RpcCall) -> Result<Response, HttpError> {
    answer(call, call.make(Ok(())).await?).await
}

/// Prints the only message of an answer.
pub(super) async fn answer(call: &RpcCall, answers: Answers) -> Result<Response, HttpError> {
    let message = answers.only().await.map_err(|status| error_of(&status))?;
    // The layer's own bound ends with the call: the share stands for the message, and then for the text.
    let held = call.shared.bodies.share(message.len())?;
    let printed = print(&call.shared, call.method.output(), message, Indent::Spaces(2)).await?;
    drop(held);
    let Some(share) = call.shared.bodies.share(printed.len())? else {
        return Ok(([JSON], printed).into_response());
    };
    let text = Bytes::from(printed);
    let pieces = (0..text.len()).step_by(PIECE_BYTES).map(move |from| {
        let _held_until_sent = &share;
        Ok::<_, Infallible>(text.slice(from..text.len().min(from + PIECE_BYTES)))
    });
    Ok(([JSON], Body::from_stream(stream::iter(pieces))).into_response())
}
