//! `POST /rpc/mortise.v1.PluginService/Install`: the body is the component, and parameters are the fields of the first
//! message of gRPC. A signature is in a header, since it is long.
//!
//! # Limits
//! The body passes through in pieces. The service bounds it: the size of a component, the time of an upload and the
//! number of uploads at once (`grpc::plugin_service`).

use async_stream::try_stream;
use axum::{http::HeaderMap, response::Response};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::Stream;
use hyper::body::Bytes;
use mortise_plugin_manager::Manager;
use mortise_resource::{Code, Error, SERVER_STOPPING, data::InstallRequest, wire::put_bytes};
use prost::Message as _;

use super::{
    call::RpcCall,
    methods::{SIGNATURE_HEADER, UPLOAD_PARAMETERS},
    request_body::RequestBody,
    unary,
};
use crate::http::{
    error::{ErrorKind, HttpError},
    media::Content,
    query::Query,
};

/// The number of `InstallRequest.chunk`.
const CHUNK_FIELD: u32 = 3;

/// Largest piece of a component, bytes.
const MAX_CHUNK_BYTES: usize = 256 << 10;

/// Uploads the body, and installs it.
pub(super) async fn install(call: &RpcCall) -> Result<Response, HttpError> {
    let (query, headers) = (Query::from_parts(&call.parts), &call.parts.headers);
    let first = Content::Component.format(headers).and_then(|_| first_message(&query, headers));
    let answers = call.send(messages(first, &call.body)).await?;
    unary::answer(call, answers).await
}

/// The first message: everything but the component.
fn first_message(query: &Query, headers: &HeaderMap) -> Result<InstallRequest, HttpError> {
    let parameters: Vec<_> =
        UPLOAD_PARAMETERS.iter().filter(|(_, place, _)| *place == "query").map(|(name, ..)| *name).collect();
    query.check_rpc(&parameters)?;
    let named_by_manifest = query.flag("named_by_manifest")?;
    let dry_run = query.flag("dry_run")?;
    let (name, sha256) = (query.value("name").to_owned(), query.value("sha256").to_owned());
    if sha256.is_empty() {
        let what = "sha256 is required: the SHA-256 of the component in hexadecimal, as `sha256sum FILE` prints it";
        return Err(HttpError::new(ErrorKind::Head, what));
    }
    if name.is_empty() && !named_by_manifest {
        let what = "name is required; named_by_manifest=true takes the name in the component's manifest instead";
        return Err(HttpError::new(ErrorKind::Head, what));
    }
    let signature_file = signature(headers)?;
    Ok(InstallRequest { name, sha256, signature_file, named_by_manifest, dry_run, ..InstallRequest::default() })
}

/// The signature file in the header; empty without one.
fn signature(headers: &HeaderMap) -> Result<Vec<u8>, HttpError> {
    let mut all = headers.get_all(SIGNATURE_HEADER).iter();
    let Some(text) = all.next() else { return Ok(Vec::new()) };
    let bytes = BASE64_STANDARD.decode(text.as_bytes()).ok().filter(|bytes| !bytes.is_empty());
    match bytes {
        Some(bytes) if all.next().is_none() && bytes.len() <= Manager::MAX_SIGNATURE_BYTES => Ok(bytes),
        _ => {
            let (name, limit) = (SIGNATURE_HEADER, Manager::MAX_SIGNATURE_BYTES);
            let what =
                format!("the header {name} takes a .minisig file in base64, of at most {limit} bytes before that");
            Err(HttpError::new(ErrorKind::Head, what))
        }
    }
}

/// The messages of an upload.
fn messages(
    first: Result<InstallRequest, HttpError>,
    body: &RequestBody,
) -> impl Stream<Item = Result<Bytes, HttpError>> + Send + 'static {
    let body = body.clone();
    try_stream! {
        yield Bytes::from(first?.encode_to_vec());
        let mut body = body.lend();
        while let Some(piece) = body.next().await {
            let mut piece = piece.map_err(ended_early)?;
            while !piece.is_empty() {
                let chunk = piece.split_to(piece.len().min(MAX_CHUNK_BYTES));
                let mut message = Vec::with_capacity(chunk.len() + 8);
                put_bytes(CHUNK_FIELD, &chunk, &mut message);
                yield Bytes::from(message);
            }
        }
    }
}

/// The error for a body that ended before its end.
fn ended_early(fault: axum::Error) -> HttpError {
    let text = fault.to_string();
    let code = if text.starts_with(SERVER_STOPPING) { Code::Unavailable } else { Code::InvalidArgument };
    Error::new(code, format!("the upload ended early: {text}")).into()
}
