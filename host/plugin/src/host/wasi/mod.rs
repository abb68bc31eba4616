//! WASI 0.2 with nothing in it: other languages' runtimes, and Rust's standard library, import it whether they use it
//! or not.
//!
//! # Contract
//! Every function of `wasi:{cli,clocks,filesystem,io,random,sockets}@0.2.*` that a component imports is there, in the
//! type that the component wants, whatever 0.2.x that is. None reaches anything outside of the instance:
//!
//! - stdout and stderr go to the plugin's log, a line for a line, at levels info and warn, within `Limits::log_bytes`;
//! - stdin is at its end; there are no arguments, no variables, no working directory, no preopened directories;
//! - sockets and names are denied (`access-denied`), and nothing can be done with a file, since there is none to begin
//!   with;
//! - clocks do not tell the time: the wall clock says 1970-01-01, the monotonic clock begins at 0 in each instance,
//!   moves by a microsecond each time it is read, and by as much as a guest says it will wait, at once;
//! - random numbers come from a generator with a fixed seed: hooks are deterministic. They are no secret;
//! - exit ends the call, as the plugin's fault;
//! - `wasi:http/{types,outgoing-handler}` are there too, and deny every request, but in a controller (`http`).
//!
//! # Cost
//! Nothing for components that import none of it. Calls are typed at run time, about a microsecond each.
//!
//! # Limits
//! No call waits, so none can block a thread; every call counts towards `Limits::host_calls`, what it hands over
//! towards `sandbox.reply_bytes`, and handles towards `Limits::handles`. The state of an instance is a clock, a seed
//! and two unfinished lines.

mod answer;
mod handles;
pub(crate) mod http;
mod http_link;
pub(crate) mod interfaces;
pub(crate) mod link;
mod metered;
pub(crate) mod printed;
pub(crate) mod sandboxed;
mod stub;
