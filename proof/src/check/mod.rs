//! The rules, and the order of states that they share.
//!
//! | module | rules |
//! |---|---|
//! | [`timeline`] | a version has one content and one resource |
//! | [`linear`] | calls on a resource take effect in an order that agrees with their times; no read is stale |
//! | [`states`] | uid, generation, content and statuses of consecutive states; compare-and-swap; order of versions |
//! | [`moves`] | a move and an import make a new resource; a move ends the former one and keeps its content |
//! | [`references`] | no reference dangles; one is cleared, and a deletion refused, only for a reason |
//! | [`deletions`] | a resource goes only by a deletion, and takes its owned resources along |
//! | [`cuts`] | lists and snapshots are as of one commit |
//! | [`watches`] | events in order, each once, none missing, also over a resumption |
//! | [`pages`] | rows of STATEFUL watches |
//! | [`access`] | rights of tokens at calls and watches |

pub mod access;
pub mod cuts;
pub mod deletions;
pub mod linear;
pub mod moves;
pub mod pages;
pub mod references;
pub mod states;
pub mod timeline;
mod violation;
pub mod watches;

use crate::record::History;
use timeline::Timeline;
pub use violation::Violation;

/// Judges a history; returns every broken promise, in a fixed order.
#[must_use]
pub fn judge(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let timeline = Timeline::read(history, &mut found);
    let orders = linear::check(history, &timeline, &mut found);
    states::check(history, &timeline, &mut found);
    moves::check(history, &timeline, &mut found);
    references::check(history, &timeline, &orders, &mut found);
    deletions::check(history, &timeline, &orders, &mut found);
    cuts::check(history, &timeline, &mut found);
    watches::check(history, &timeline, &mut found);
    pages::check(history, &timeline, &mut found);
    access::check(history, &mut found);
    found.sort();
    found.dedup();
    found
}
