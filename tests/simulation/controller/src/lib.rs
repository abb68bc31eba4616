//! Controllers of two servers that hand over a lease, under shuttle, a randomized scheduler of tasks.
//!
//! The files of `host/controller` are compiled a second time here. `parking_lot` and `tokio` are then [`locks`],
//! [`task`] and [`time`], so that every lock and every await is a point at which the scheduler may go on with any other
//! task. The shipped controllers are the same with and without this crate.
//!
//! # Contract
//! [`leases::run`] is one course, with checks that panic. [`explore`] makes many courses from a seed; the seed of a
//! failed one is printed.
//!
//! # Limits
//! Channels and notifications of tokio are single steps. `tokio::select!` looks at its branches in their order. A timer
//! ends after any number of steps, so courses say nothing about the lengths of waits.

#![allow(
    rustdoc::broken_intra_doc_links,
    rustdoc::private_intra_doc_links,
    reason = "the files link to parts of the crate that are not here"
)]
#![allow(dead_code, reason = "the files of the controllers have more than a simulation uses")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "courses panic to report")]

// The files of the controllers name this crate by these.
extern crate self as parking_lot;
extern crate self as tokio;

#[path = "../../../../host/controller/src/cache/mod.rs"]
mod cache;
#[path = "../../../../host/controller/src/controller.rs"]
mod controller;
#[path = "../../../../host/controller/src/controllers/mod.rs"]
mod controllers;
#[path = "../../../../host/controller/src/definition.rs"]
mod definition;
#[path = "../../../../host/controller/src/durations.rs"]
mod durations;
#[path = "../../../../host/controller/src/key.rs"]
mod key;
#[path = "../../../../host/controller/src/lease.rs"]
mod lease;
#[path = "../../../../host/controller/src/loop_detection.rs"]
mod loop_detection;
#[path = "../../../../host/controller/src/mapper.rs"]
mod mapper;
#[path = "../../../../host/controller/src/queue/mod.rs"]
mod queue;
#[path = "../../../../host/controller/src/reconciler.rs"]
mod reconciler;
#[path = "../../../../host/controller/src/request.rs"]
mod request;
#[path = "../../../../host/controller/src/restart_backoff.rs"]
mod restart_backoff;
#[path = "../../../../host/controller/src/run/mod.rs"]
mod run;
#[path = "../../../../host/controller/src/source.rs"]
mod source;
#[path = "../../../../host/controller/src/status/mod.rs"]
mod status;

#[path = "../../store/src/dice.rs"]
mod dice;
#[path = "../../store/src/explore.rs"]
pub mod explore;
pub mod leases;
#[path = "../../store/src/locks.rs"]
pub mod locks;
mod selection;
pub mod task;
pub mod time;

pub use async_trait::async_trait;
pub use mortise_resource::backoff::Backoff;
pub use tokio_itself::{pin, sync};

pub use crate::{
    cache::{By, Cache, CacheError, ID, Index, IndexKey, Keys, References},
    controllers::{Controllers, ControllersError},
    definition::{Definition, DefinitionError},
    key::Key,
    lease::{AlwaysLeased, Leases, Placement},
    locks::{Mutex, MutexGuard, RwLock},
    mapper::{Map, Mapper},
    reconciler::{Context, Reconciler},
    request::{Outcome, ReconcileError, Request},
    source::{Event, Source, SourceError, Watch},
    status::{RecentError, State, Status},
    task::spawn,
};
