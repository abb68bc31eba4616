//! Consul's HTTP mapping: routes, methods, parameters, bodies, codes. Watches: `http/watch.rs`; extensions of Consul's
//! API: `http/types.rs`; limits and unusual clients: `http/limits.rs`.

mod bodies;
mod codes;
mod conditions;
mod parameters;
mod routes;

use crate::support::{Server, http::Answer};

/// The answer to a client of Consul's, which prefers text.
async fn put_raw(server: &Server, path: &str, body: &str) -> Answer {
    server.ask("PUT", path).header("accept", "text/plain, */*;q=0.9").body(body.to_owned()).await_answer().await
}
