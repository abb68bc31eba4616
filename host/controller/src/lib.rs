//! Controllers: code that reconciles resources of one type, called after each change of one of them or of a resource on
//! which it depends.
//!
//! A [`Definition`] names the managed type, the watched types with their [`Mapper`]s, and a [`Reconciler`].
//! [`Controllers`] runs it where its lease is held. The crate has the queues, mappers, caches, waits, leases and the
//! reconcile loop; wasm, gRPC and the store are behind [`Reconciler`] and [`Source`].
//!
//! # Contract
//! - After the last change of a resource, or of anything that maps to it, it is reconciled at least once. Changes in
//!   between may be seen as one.
//! - A resource is never reconciled twice at the same time; by default a controller reconciles one resource at a time.
//! - Mapping and reconciling begin when the cache is complete.
//! - A failure concerns one resource, and is retried; a panic is a failure. A broken run starts again.
//! - A run has ended before the next begins, even if a lease is lost and regained at once. The end waits for reconciles
//!   under way, up to a deadline.
//!
//! The rules and their numbers are Consul's, with these exceptions: a resource waits in one place only, with or without
//! uid ([`Key`]); deduplicated work has the newest content; mappers are asked about former versions too ([`Mapper`]); a
//! resource that was deleted between two runs is reconciled by the second; several keys may be reconciled at once;
//! controllers that wake themselves are throttled ([`Definition::self_wake_limit`]); the watch that fills the cache
//! continues.
//!
//! # Cost and limits
//! An idle controller costs no time: it has tasks that await its watches, and one timer. Memory is bounded by the
//! number of resources: each has a place in the queue once, a timer once, and a place in the cache of each controller
//! that watches its type.

mod cache;
mod controller;
mod controllers;
mod definition;
mod durations;
mod key;
mod lease;
mod loop_detection;
mod mapper;
mod queue;
mod reconciler;
mod request;
mod restart_backoff;
mod run;
mod source;
mod status;
#[cfg(test)]
mod tests;

pub use async_trait::async_trait;
pub use mortise_resource::backoff::Backoff;

pub use crate::{
    cache::{By, Cache, CacheError, ID, Index, IndexKey, Keys, References},
    controllers::{Controllers, ControllersError},
    definition::{Definition, DefinitionError},
    key::Key,
    lease::{AlwaysLeased, Leases, Placement},
    mapper::{Map, Mapper},
    reconciler::{Context, Reconciler},
    request::{Outcome, ReconcileError, Request},
    source::{Event, Source, SourceError, Watch},
    status::{RecentError, State, Status},
};
