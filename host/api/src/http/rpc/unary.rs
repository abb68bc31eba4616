//! An RPC with one answer: 200, and the message as JSON.

use axum::response::{IntoResponse as _, Response};
use mortise_text::Indent;

use super::{call::RpcCall, print::print};
use crate::{
    grpc::{in_process::Answers, status::error_of},
    http::{error::HttpError, json::JSON},
};

/// Makes the call.
pub(super) async fn unary(call: &RpcCall) -> Result<Response, HttpError> {
    answer(call, call.make(Ok(())).await?).await
}

/// Prints the only message of an answer.
pub(super) async fn answer(call: &RpcCall, answers: Answers) -> Result<Response, HttpError> {
    let message = answers.only().await.map_err(|status| error_of(&status))?;
    let printed = print(&call.shared, call.method.output(), message, Indent::Spaces(2)).await?;
    Ok(([JSON], printed).into_response())
}
