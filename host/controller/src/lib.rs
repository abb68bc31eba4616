//! Controllers: code that brings resources of one type in order, called whenever one of them, or anything that it depends
//! on, has changed.
//!
//! A [`Definition`] names the managed type, the watched types with their [`Mapper`]s, and a [`Reconciler`].
//! [`Controllers`] runs it where its lease is held. Here are queues, mappers, caches, waits, leases and the reconcile loop;
//! nothing of wasm, gRPC or the store, which stand behind [`Reconciler`] and [`Source`].
//!
//! # Contract
//! - After the last change of a resource, or of anything that maps to it, it is reconciled at least once. Changes in
//!   between may be seen as one.
//! - A resource is never reconciled twice at the same time; by default nothing in one controller is.
//! - Nothing is mapped or reconciled before the cache is complete.
//! - A failure concerns one resource, which is tried again; a panic is a failure. What breaks a whole run begins anew.
//! - A run has ended before the next begins, also when a lease is lost and regained at once. Ending waits for the
//!   reconciles that began, up to a deadline.
//!
//! The rules and their numbers are Consul's where nothing else is said. Different on purpose: a resource waits in one place
//! only, with or without uid ([`Key`]); deduplicated work has the newest content; mappers are asked about former versions
//! too ([`mapper`]); what was deleted between two runs is reconciled by the second; keys in parallel; controllers that wake
//! themselves are slowed down ([`Definition::self_wakes`]); one watch primes and goes on.
//!
//! # Cost and limits
//! An idle controller does nothing: it has tasks that await its watches, and one timer. Memory is bounded by the number of
//! resources: each has a place in the queue once, a timer once, and a place in the cache of each controller that watches
//! its type.

pub mod backoff;
pub mod cache;
mod cause;
pub mod circular;
mod controllers;
mod core;
mod custom;
mod definition;
mod feed;
pub mod index;
mod item;
mod key;
mod latch;
mod lease;
pub mod mapper;
mod mapping;
mod meter;
mod queue;
mod reconcile;
mod reconciler;
mod request;
mod ring;
mod run;
mod source;
mod status;
mod supervisor;
#[cfg(test)]
mod tests;
mod work;

pub use async_trait::async_trait;

pub use crate::{
    backoff::Backoff,
    cache::{Cache, CacheError},
    controllers::{Controllers, ControllersError},
    custom::{CustomEvent, CustomSource},
    definition::{Definition, DefinitionError},
    index::{By, ID, Index, IndexKey, Keys, References},
    key::Key,
    lease::{Always, Leases, Placement},
    mapper::{Map, Mapper},
    reconciler::{Context, Reconciler},
    request::{Outcome, ReconcileError, Request},
    ring::Note,
    source::{Event, Source, SourceError, Watch},
    status::{State, Status},
};
