//! Courses of leases: two servers with the same controller, of which one holds the lease. The lease is revoked,
//! returned and given again at any moment, beside changes of resources, broken watches and other definitions.
//!
//! # Checks
//! - Code of a controller runs only with the lease. After a return of the lease none runs; after a revocation, only the
//!   run that was under way, or about to begin.
//! - Each run has the order of [`crate::Reconciler`], and runs of a server do not overlap.
//! - A resource is never reconciled twice at once on a server.
//! - After a pause no code runs, after another definition none of the former one.
//! - At the end, the other server has no run, and the holder has reconciled each resource in its newest version; no
//!   task waits for ever.

mod judge;
mod record;
mod world;

use std::sync::Arc;

use shuttle::future::{block_on, yield_now};

use self::world::{Server, World};
use crate::dice::{below, one_in};

/// Names of the resources.
const NAMES: [&str; 2] = ["a", "b"];

/// Makes a course.
pub fn run() {
    block_on(course());
}

async fn course() {
    let world = Arc::new(World::default());
    let servers = [0, 1].map(|number| Server::start(number, &world));
    let [mut holder, mut other] = servers.each_ref();
    world.put(name());
    holder.grant();
    for _ in 0..1 + below(5) {
        match below(8) {
            0 => world.put(name()),
            1 => world.delete(name()),
            2 => world.break_watches(),
            3 => holder.replace().await,
            4 => {
                holder.revoke();
                pass().await;
                holder.grant();
            }
            5 => {
                holder.revoke();
                pass().await;
                (holder, other) = (other, holder);
                holder.grant();
            }
            6 => {
                holder.give_back().await;
                (holder, other) = (other, holder);
                holder.grant();
                other.resume();
            }
            _ => {}
        }
        pass().await;
    }
    world.reconciled_by(holder.number).await;
    world.without_run(other.number).await;
    for server in [holder, other] {
        server.end().await;
    }
    judge::judge(&world.record());
}

fn name() -> &'static str {
    NAMES.get(below(NAMES.len())).copied().unwrap_or_default()
}

/// Lets some steps of other tasks pass.
async fn pass() {
    if one_in(2) {
        for _ in 0..below(30) {
            yield_now().await;
        }
    }
}
