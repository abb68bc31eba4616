//! Links `wasi:http` in the engine for controllers.

use wasmtime::component::{Linker, Resource, ResourceTable};
use wasmtime_wasi_http::{
    Error, RequestOptions, WasiHttpCtxView, WasiHttpView,
    p2::{
        bindings::http::{outgoing_handler, types::ErrorCode},
        types::HostOutgoingRequest,
    },
};
use wasmtime_wasi_io::IoView;

use super::http::Http;
use crate::host::state::State;

/// Links `wasi:http` and the `wasi:io` that belongs to it.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wasmtime_wasi_io::add_to_linker_async(linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    // Replaces wasmtime's `http-error-code`, which finds no code: its bodies fail with another type than it looks for.
    linker.allow_shadowing(true);
    linker.instance("wasi:http/types@0.2.12")?.func_wrap(
        "http-error-code",
        |mut store, (fault,): (Resource<wasmtime_wasi_io::streams::Error>,)| {
            let fault = store.data_mut().table().get(&fault)?;
            let known = fault.downcast_ref::<ErrorCode>().cloned();
            Ok((known.or_else(|| fault.downcast_ref::<Error>().map(code)),))
        },
    )?;
    // Replaces wasmtime's `handle`, which does not free the options of a request although it owns them.
    linker.instance("wasi:http/outgoing-handler@0.2.12")?.func_wrap(
        "handle",
        |mut store, (request, options): (Resource<HostOutgoingRequest>, Option<Resource<RequestOptions>>)| {
            let given = options.as_ref().map(Resource::rep);
            let mut view = store.data_mut().http();
            let handled = outgoing_handler::Host::handle(&mut view, request, options);
            if let Some(options) = given {
                view.table.delete(Resource::<RequestOptions>::new_own(options))?;
            }
            Ok((handled.map_or_else(|fault| fault.downcast().map(Err), |answer| Ok(Ok(answer)))?,))
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Code for the error of a body.
fn code(fault: &Error) -> ErrorCode {
    match fault {
        Error::HttpRequestBodySize(size) => ErrorCode::HttpRequestBodySize(*size),
        Error::HttpResponseBodySize(size) => ErrorCode::HttpResponseBodySize(*size),
        Error::HttpResponseTimeout => ErrorCode::HttpResponseTimeout,
        Error::ConnectionReadTimeout => ErrorCode::ConnectionReadTimeout,
        other => ErrorCode::InternalError(Some(other.to_string())),
    }
}

impl State {
    /// HTTP state of the instance; counts a host call of the guest.
    fn counted(&mut self) -> &mut Http {
        self.host_calls = self.host_calls.saturating_add(1);
        let exhausted = self.host_calls > self.limits.host_calls;
        // Exists already wherever `wasi:http` is linked.
        let http = self.http.get_or_insert_with(|| Box::new(Http::new(&self.limits)));
        http.outgoing.exhausted = exhausted;
        http
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let Http { ctx, table, outgoing, .. } = self.counted();
        WasiHttpCtxView { ctx, table, hooks: outgoing }
    }
}

impl IoView for State {
    fn table(&mut self) -> &mut ResourceTable {
        &mut self.counted().table
    }
}
