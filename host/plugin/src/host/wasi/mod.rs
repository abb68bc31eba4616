//! WASI 0.2 with nothing in it: other languages' runtimes, and Rust's standard library, import it whether they use it or
//! not.
//!
//! # Contract
//! Every function of `wasi:{cli,clocks,filesystem,io,random,sockets}@0.2.*` that a component imports is there, in the type
//! that the component wants, whatever 0.2.x that is. None reaches anything outside of the instance:
//!
//! - stdout and stderr go to the plugin's log, a line for a line, at levels info and warn, within `sandbox.log_bytes`;
//! - stdin is at its end; there are no arguments, no variables, no working directory, no preopened directories;
//! - sockets and names are denied (`access-denied`), and nothing can be done with a file, since there is none to begin with;
//! - clocks do not tell the time: the wall clock stands at 1970-01-01, the monotonic clock begins at 0 in each instance,
//!   moves by a microsecond each time it is read, and by as much as a guest says it will wait, at once;
//! - random numbers come from a generator with a fixed seed: hooks are deterministic. They are no secret;
//! - exit ends the call, as the plugin's fault;
//! - `wasi:http/{types,outgoing-handler}` are there too, and deny every request, but in a controller (`http`).
//!
//! # Cost
//! Nothing for components that import none of it. Calls are typed at run time, about a microsecond each.
//!
//! # Limits
//! No call waits, so none can block a thread; every call counts towards `sandbox.host_calls`, what it hands over towards
//! `sandbox.reply_bytes`, and handles towards `sandbox.handles`. The state of an instance is a clock, a seed and two
//! unfinished lines.

mod answer;
mod http;
mod metered;
mod stub;

pub(crate) use http::{Call as HttpCall, Http};

use wasmtime::{
    Engine,
    component::{Component, Linker, ResourceDynamic, ResourceType, Val, types::ComponentItem},
};

use crate::host::state::State;

/// Packages that are linked.
pub(crate) const PACKAGES: [&str; 6] = ["cli", "clocks", "filesystem", "io", "random", "sockets"];

/// What is linked of `wasi:http`.
const HTTP: [&str; 2] = ["http/types", "http/outgoing-handler"];

/// The resources of these packages; a handle's type is its place here.
const RESOURCES: [&str; 25] = [
    "error",
    "pollable",
    "input-stream",
    "output-stream",
    "terminal-input",
    "terminal-output",
    "descriptor",
    "directory-entry-stream",
    "network",
    "tcp-socket",
    "udp-socket",
    "incoming-datagram-stream",
    "outgoing-datagram-stream",
    "resolve-address-stream",
    "fields",
    "incoming-request",
    "outgoing-request",
    "request-options",
    "response-outparam",
    "incoming-response",
    "incoming-body",
    "future-trailers",
    "outgoing-response",
    "outgoing-body",
    "future-incoming-response",
];

/// How much a guest may write to stdout or stderr at once, bytes: what `check-write` says.
const CHUNK: usize = 4096;

/// Longest line of stdout or stderr that is kept together, bytes.
const LINE: usize = 1024;

/// What an instance has of WASI.
#[derive(Debug, Default)]
pub(crate) struct Wasi {
    /// Nanoseconds since the instance began, as it is told.
    clock: u64,
    /// State of the random generator.
    seed: u64,
    /// What was written to stdout and to stderr since the last end of line.
    unfinished: [Vec<u8>; 2],
}

/// `cli/stdout` of `wasi:cli/stdout@0.2.6`; none for what is not linked.
pub(crate) fn interface(import: &str) -> Option<&str> {
    let (interface, version) = import.strip_prefix("wasi:")?.split_once('@')?;
    let (package, _) = interface.split_once('/')?;
    let patch = version.strip_prefix("0.2.")?;
    let released = !patch.is_empty() && patch.bytes().all(|b| b.is_ascii_digit());
    (released && (PACKAGES.contains(&package) || HTTP.contains(&interface))).then_some(interface)
}

/// Whether a component sends HTTP requests.
pub(crate) fn sends_http(engine: &Engine, component: &Component) -> bool {
    component
        .component_type()
        .imports(engine)
        .any(|(import, _)| interface(import).is_some_and(|one| HTTP.contains(&one)))
}

/// Links what a component imports of WASI. With `http`, its requests are sent: that is for controllers, and each of their
/// stores has an [`Http`].
pub(crate) fn link(
    linker: &mut Linker<State>,
    engine: &Engine,
    component: &Component,
    http: bool,
) -> wasmtime::Result<()> {
    if http {
        http::link(linker)?;
    }
    for (import, item) in component.component_type().imports(engine) {
        let (Some(interface), ComponentItem::ComponentInstance(instance)) = (interface(import), item.ty) else {
            continue;
        };
        if http && (interface.starts_with("io/") || HTTP.contains(&interface)) {
            continue;
        }
        let mut target = linker.instance(import)?;
        for (name, item) in instance.exports(engine) {
            match item.ty {
                ComponentItem::ComponentFunc(_) => {
                    let (interface, function) = (interface.to_owned(), name.to_owned());
                    target.func_new(name, move |mut store, ty, arguments, results| {
                        store.data_mut().count_host_call()?;
                        let answer = answer::answer(&mut store, &interface, &function, &ty, arguments)?;
                        if let (Some(place), Some(answer)) = (results.first_mut(), answer) {
                            *place = answer;
                        }
                        Ok(())
                    })?;
                }
                ComponentItem::Resource(_) => {
                    let theirs = if http { stub::kind(name) } else { None };
                    let of = theirs.unwrap_or_else(|| ResourceType::host_dynamic(kind(name)));
                    target.resource(name, of, |_, _| Ok(()))?
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// A resource's place among [`RESOURCES`]; one that is not there can never exist.
fn kind(resource: &str) -> u32 {
    // Other names that `http/types` has for them.
    let resource = match resource {
        "headers" | "trailers" => "fields",
        "io-error" => "error",
        same => same,
    };
    let place = RESOURCES.iter().position(|known| *known == resource).unwrap_or(RESOURCES.len());
    u32::try_from(place).unwrap_or(u32::MAX)
}

/// A new handle.
fn handle(store: &mut wasmtime::StoreContextMut<'_, State>, resource: &str, rep: u32) -> wasmtime::Result<Val> {
    if let Some(theirs) = stub::handle(store, resource, rep)? {
        return Ok(theirs);
    }
    Ok(Val::Resource(ResourceDynamic::new_own(rep, kind(resource)).try_into_resource_any(store)?))
}

impl Wasi {
    /// The next random number (SplitMix64, which needs no more than a counter).
    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl State {
    /// Takes bytes of stdout (1) or stderr (2), and logs the lines that are whole.
    fn print(&mut self, stream: u32, bytes: impl Iterator<Item = u8>) {
        for byte in bytes {
            let [out, err] = &mut self.wasi.unfinished;
            let line = if stream == 2 { err } else { out };
            if byte != b'\n' {
                line.push(byte);
            }
            if byte == b'\n' || line.len() >= LINE {
                self.end_line(stream);
            }
        }
    }

    fn end_line(&mut self, stream: u32) {
        let [out, err] = &mut self.wasi.unfinished;
        let line = std::mem::take(if stream == 2 { err } else { out });
        if !line.is_empty() {
            let level = if stream == 2 { 2 } else { 3 };
            self.log(level, String::from_utf8_lossy(&line).into_owned(), Vec::new());
        }
    }

    /// Logs what stdout and stderr were left with.
    pub(crate) fn end_lines(&mut self) {
        if let Some(http) = &self.http {
            for (stream, bytes) in (1..).zip(http.printed.take()) {
                self.print(stream, bytes.into_iter());
            }
        }
        self.end_line(1);
        self.end_line(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_released_versions_of_what_is_linked() {
        assert_eq!(interface("wasi:cli/stdout@0.2.6"), Some("cli/stdout"));
        assert_eq!(interface("wasi:io/streams@0.2.10"), Some("io/streams"));
        assert_eq!(interface("wasi:http/types@0.2.0"), Some("http/types"));
        assert_eq!(interface("wasi:http/outgoing-handler@0.2.6"), Some("http/outgoing-handler"));
        for other in [
            "wasi:cli/stdout@0.3.0",
            "wasi:cli/stdout@0.2.0-rc-2023-11-10",
            "wasi:cli/stdout@0.2.",
            "wasi:cli/stdout",
            "wasi:http/incoming-handler@0.2.6",
            "wasi:http/types@0.3.0",
            "wasi:clocksmith/x@0.2.0",
            "other:cli/stdout@0.2.6",
        ] {
            assert_eq!(interface(other), None, "{other}");
        }
    }

    #[test]
    fn random_numbers_are_the_same_every_time() {
        let (mut one, mut two) = (Wasi::default(), Wasi::default());
        let first = one.random();
        assert_eq!(first, two.random());
        assert_ne!(first, one.random());
    }
}
