//! WASI 0.2 without any access: runtimes of other languages, and Rust's standard library, import it even if they do not
//! use it.
//!
//! # Contract
//! Every function of `wasi:{cli,clocks,filesystem,io,random,sockets}@0.2.*` that a component imports exists, in the
//! type that the component wants, in any version 0.2.x. None reaches anything outside of the instance:
//!
//! - stdout and stderr go to the plugin's log, line by line, at levels info and warn, within `Limits::log_bytes`;
//! - stdin is at its end; there are no arguments, no variables, no working directory, no preopened directories;
//! - sockets and names are denied (`access-denied`), and files cannot be used, since no directory is open;
//! - clocks do not tell the time: the wall clock says 1970-01-01, the monotonic clock begins at 0 in each instance,
//!   moves by a microsecond at each reading, and at once by the time that a guest waits;
//! - random numbers come from a generator with a fixed seed, so that hooks are deterministic. They are not secret;
//! - exit ends the call, as the plugin's fault;
//! - `wasi:http/{types,outgoing-handler}` exist too, and deny every request, except in a controller (`http`).
//!
//! # Cost
//! Nothing for components that import none of it. Calls are typed at run time, about a microsecond each.
//!
//! # Limits
//! No call waits, so none can block a thread. Every call counts towards `Limits::host_calls`, its arguments towards
//! `sandbox.reply_bytes`, and handles towards `Limits::handles`. The state of an instance is a clock, a seed and two
//! unfinished lines.

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
