//! Answers of the functions of WASI.

use wasmtime::{
    StoreContextMut,
    component::{
        ResourceAny, ResourceDynamic, Val,
        types::{ComponentFunc, Type},
    },
};

use super::{handles::handle, printed::MAX_WRITE_BYTES, stub};
use crate::host::{abort_reason::AbortReason, state::State};

/// Most random bytes of one call.
const MAX_RANDOM_BYTES: u64 = 64 << 10;

/// Cases of WASI's error types that mean a refusal, and the end of a stream.
const REFUSAL_CASES: [&str; 5] = ["access-denied", "access", "not-permitted", "closed", "HTTP-request-denied"];

/// Representation of a request body's stream, whose content is discarded.
const DISCARDED_STREAM: u32 = 3;

/// Answers a call, or ends it. Releases the handles in its arguments.
pub(super) fn answer(
    store: &mut StoreContextMut<'_, State>,
    interface: &str,
    function: &str,
    ty: &ComponentFunc,
    arguments: &[Val],
) -> wasmtime::Result<Option<Val>> {
    let mut first = None;
    for argument in arguments {
        release(store, argument, &mut first)?;
    }
    let state = store.data_mut();
    Ok(match (interface, function) {
        ("cli/exit", _) => return Err(AbortReason::Exit { status: status(arguments) }.into()),
        ("cli/stdin", "get-stdin") => Some(handle(store, "input-stream", 0)?),
        ("cli/stdout", "get-stdout") => Some(handle(store, "output-stream", 1)?),
        ("cli/stderr", "get-stderr") => Some(handle(store, "output-stream", 2)?),
        ("sockets/instance-network", "instance-network") => Some(handle(store, "network", 0)?),

        ("io/error", _) => Some(Val::String("plugins have no files and no network".into())),
        ("io/poll", "poll") => Some(poll(arguments)?),
        ("io/poll", "[method]pollable.ready") => Some(Val::Bool(true)),
        ("io/poll", "[method]pollable.block") => None,
        ("io/streams", _) => match function.split_once('.') {
            Some((_, "subscribe")) => Some(handle(store, "pollable", 0)?),
            Some(("[method]output-stream", "check-write")) => Some(done(Some(Val::U64(MAX_WRITE_BYTES as u64)))),
            Some(("[method]output-stream", "write" | "blocking-write-and-flush")) => {
                let bytes = arguments
                    .iter()
                    .find_map(|argument| if let Val::List(bytes) = argument { Some(bytes) } else { None });
                let bytes =
                    bytes.into_iter().flatten().filter_map(|byte| if let Val::U8(b) = byte { Some(*b) } else { None });
                match first {
                    Some(DISCARDED_STREAM) => {}
                    stream => state.print(stream.unwrap_or(1), bytes),
                }
                Some(done(None))
            }
            Some(("[method]output-stream", "flush" | "blocking-flush")) => Some(done(None)),
            _ => denied(interface, function, ty)?,
        },

        ("clocks/monotonic-clock", "now") => {
            state.wasi.clock = state.wasi.clock.saturating_add(1_000);
            Some(Val::U64(state.wasi.clock))
        }
        ("clocks/monotonic-clock", "resolution") => Some(Val::U64(1_000)),
        // Waiting moves the clock: the time has come at once.
        ("clocks/monotonic-clock", "subscribe-duration") => {
            state.wasi.clock = state.wasi.clock.saturating_add(number(arguments));
            Some(handle(store, "pollable", 0)?)
        }
        ("clocks/monotonic-clock", "subscribe-instant") => {
            state.wasi.clock = state.wasi.clock.max(number(arguments));
            Some(handle(store, "pollable", 0)?)
        }
        ("clocks/wall-clock", "now") => Some(datetime(0)),
        ("clocks/wall-clock", "resolution") => Some(datetime(1)),

        ("random/random", "get-random-bytes") | ("random/insecure", "get-insecure-random-bytes") => {
            let count = number(arguments);
            if count > MAX_RANDOM_BYTES {
                return Err(AbortReason::Random { limit: MAX_RANDOM_BYTES }.into());
            }
            let bytes = (0..count).map(|_| Val::U8(state.wasi.random().to_le_bytes()[0]));
            Some(Val::List(bytes.collect()))
        }
        ("random/random", "get-random-u64") | ("random/insecure", "get-insecure-random-u64") => {
            Some(Val::U64(state.wasi.random()))
        }
        ("random/insecure-seed", _) => {
            Some(Val::Tuple(vec![Val::U64(state.wasi.random()), Val::U64(state.wasi.random())]))
        }
        // All parts of a request can be made; none is sent.
        ("http/types", function) => match returned_resource(function) {
            Some(("output-stream", _)) => Some(done(Some(handle(store, "output-stream", DISCARDED_STREAM)?))),
            Some((resource, ResourceForm::Plain)) => Some(handle(store, resource, 0)?),
            Some((resource, ResourceForm::Done)) => Some(done(Some(handle(store, resource, 0)?))),
            None if is_set(function) => Some(done(None)),
            None if function == "[method]fields.has" => Some(Val::Bool(false)),
            None if function == "[method]outgoing-request.method" => Some(Val::Variant("get".into(), None)),
            None => denied(interface, function, ty)?,
        },
        _ => denied(interface, function, ty)?,
    })
}

/// Form in which a function returns a resource: plain, or in a result.
enum ResourceForm {
    Plain,
    Done,
}

/// Resource that a function of `http/types` makes.
fn returned_resource(function: &str) -> Option<(&'static str, ResourceForm)> {
    Some(match function {
        "[constructor]fields" | "[method]fields.clone" | "[method]outgoing-request.headers" => {
            ("fields", ResourceForm::Plain)
        }
        "[static]fields.from-list" => ("fields", ResourceForm::Done),
        "[constructor]outgoing-request" => ("outgoing-request", ResourceForm::Plain),
        "[constructor]request-options" => ("request-options", ResourceForm::Plain),
        "[method]outgoing-request.body" => ("outgoing-body", ResourceForm::Done),
        "[method]outgoing-body.write" => ("output-stream", ResourceForm::Done),
        _ => return None,
    })
}

/// Whether a function of `http/types` sets a field.
fn is_set(function: &str) -> bool {
    let method = function.split_once('.').map_or("", |(_, method)| method);
    method.starts_with("set-")
        || ["set", "delete", "append"].map(|method| format!("[method]fields.{method}")).contains(&function.to_owned())
}

/// Refuses in the form of the function's result: its error, none, an empty list, or no value. A function that has no
/// such form ends the call.
fn denied(interface: &str, function: &str, ty: &ComponentFunc) -> wasmtime::Result<Option<Val>> {
    let refused = match ty.results().next() {
        None => return Ok(None),
        Some(Type::Option(_)) => Some(Val::Option(None)),
        Some(Type::List(_)) => Some(Val::List(Vec::new())),
        Some(Type::Result(result)) => match result.err() {
            None => Some(Val::Result(Err(None))),
            Some(Type::Enum(all)) => {
                let named = REFUSAL_CASES.into_iter().find(|refusal| all.names().any(|name| name == *refusal));
                named.map(|name| Val::Result(Err(Some(Box::new(Val::Enum(name.to_owned()))))))
            }
            Some(Type::Variant(all)) => {
                let mut cases = all.cases().filter(|case| case.ty.is_none()).map(|case| case.name.to_owned());
                let named = cases.find(|name| REFUSAL_CASES.contains(&name.as_str()));
                named.map(|name| Val::Result(Err(Some(Box::new(Val::Variant(name, None))))))
            }
            Some(_) => None,
        },
        Some(_) => None,
    };
    match refused {
        Some(answer) => Ok(Some(answer)),
        None => Err(wasmtime::Error::msg(format!("plugins may not call wasi:{interface} {function}"))),
    }
}

/// Releases the handles in an argument. `first` becomes the representation of the first handle.
fn release(store: &mut StoreContextMut<'_, State>, argument: &Val, first: &mut Option<u32>) -> wasmtime::Result<()> {
    let read_single = |store: &mut StoreContextMut<'_, State>, any: ResourceAny, first: &mut Option<u32>| {
        if stub::release(store, any)? {
            return Ok(());
        }
        let rep = ResourceDynamic::try_from_resource_any(any, store)?.rep();
        first.get_or_insert(rep);
        wasmtime::Result::Ok(())
    };
    match argument {
        Val::Resource(any) => read_single(store, *any, first),
        Val::List(all) | Val::Tuple(all) => all.iter().try_for_each(|inner| match inner {
            // A list of bytes may be long.
            Val::U8(_) => Ok(()),
            inner => release(store, inner, first),
        }),
        Val::Option(Some(inner)) => release(store, inner, first),
        // No other argument holds a handle.
        _ => Ok(()),
    }
}

/// Answers that everything is ready.
fn poll(arguments: &[Val]) -> wasmtime::Result<Val> {
    match arguments.first() {
        Some(Val::List(all)) if !all.is_empty() => {
            Ok(Val::List((0..).zip(all).map(|(place, _)| Val::U32(place)).collect()))
        }
        _ => Err(wasmtime::Error::msg("wasi:io/poll got an empty list; pass at least one pollable")),
    }
}

fn done(value: Option<Val>) -> Val {
    Val::Result(Ok(value.map(Box::new)))
}

fn number(arguments: &[Val]) -> u64 {
    arguments
        .iter()
        .find_map(|argument| if let Val::U64(number) = argument { Some(*number) } else { None })
        .unwrap_or(0)
}

/// Status that was passed to `exit` or `exit-with-code`.
fn status(arguments: &[Val]) -> u8 {
    match arguments.first() {
        Some(Val::U8(status)) => *status,
        Some(Val::Result(Ok(_))) => 0,
        _ => 1,
    }
}

fn datetime(seconds: u64) -> Val {
    Val::Record(vec![("seconds".into(), Val::U64(seconds)), ("nanoseconds".into(), Val::U32(0))])
}
