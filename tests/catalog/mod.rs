//! Service discovery: the endpoints that the plugin `catalog` computes, and DNS.

mod checks;
mod dns;
mod dns_answers;
pub mod endpoints;
mod existence;
mod short_names;
mod zones;
