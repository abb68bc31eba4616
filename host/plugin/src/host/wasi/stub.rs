//! Inert streams and pollables in the types of wasmtime's `wasi:io`, which is linked for HTTP.

use wasmtime::{
    StoreContextMut,
    component::{Resource, ResourceAny, ResourceType, Val},
};
use wasmtime_wasi_io::{
    async_trait,
    bytes::Bytes,
    poll::{DynPollable, Pollable, subscribe},
    streams::{DynInputStream, DynOutputStream, Error, InputStream, OutputStream, StreamError, StreamResult},
};

use super::{
    http::Http,
    printed::{MAX_WRITE_BYTES, PrintedLines},
};
use crate::host::state::State;

/// The type of a resource of `wasi:io`; `None` for other resources.
pub(super) fn kind(resource: &str) -> Option<ResourceType> {
    Some(match resource {
        "error" => ResourceType::host::<Error>(),
        "pollable" => ResourceType::host::<DynPollable>(),
        "input-stream" => ResourceType::host::<DynInputStream>(),
        "output-stream" => ResourceType::host::<DynOutputStream>(),
        _ => return None,
    })
}

/// Makes a handle to a resource of `wasi:io`; `None` if wasmtime's is not linked, and for other resources.
pub(super) fn handle(
    store: &mut StoreContextMut<'_, State>,
    resource: &str,
    rep: u32,
) -> wasmtime::Result<Option<Val>> {
    let Some(Http { table, printed, .. }) = store.data_mut().http.as_deref_mut() else { return Ok(None) };
    Ok(Some(Val::Resource(match resource {
        "pollable" => {
            let ready = table.push(InertStream)?;
            subscribe(table, ready)?.try_into_resource_any(store)?
        }
        "input-stream" => {
            let stream: DynInputStream = Box::new(InertStream);
            table.push(stream)?.try_into_resource_any(store)?
        }
        "output-stream" => {
            let stream: DynOutputStream = Box::new(PrintedStream { printed: printed.clone(), err: rep == 2 });
            table.push(stream)?.try_into_resource_any(store)?
        }
        _ => return Ok(None),
    })))
}

/// Releases a lent handle to a resource of `wasi:io`; answers whether it was one. The inert functions get only errors
/// of those (`filesystem-error-code`).
pub(super) fn release(store: &mut StoreContextMut<'_, State>, any: ResourceAny) -> wasmtime::Result<bool> {
    if any.ty() != ResourceType::host::<Error>() {
        return Ok(false);
    }
    Resource::<Error>::try_from_resource_any(any, store)?;
    Ok(true)
}

/// A stream that is ready, and at its end.
struct InertStream;

#[async_trait]
impl Pollable for InertStream {
    async fn ready(&mut self) {}
}

impl InputStream for InertStream {
    fn read(&mut self, _: usize) -> StreamResult<Bytes> {
        Err(StreamError::Closed)
    }
}

/// stdout or stderr.
struct PrintedStream {
    printed: PrintedLines,
    err: bool,
}

#[async_trait]
impl Pollable for PrintedStream {
    async fn ready(&mut self) {}
}

impl OutputStream for PrintedStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.printed.write(self.err, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(MAX_WRITE_BYTES)
    }
}
