//! Histories of three regions in one process, over the real code of this crate and real stores in a directory in
//! memory: stores that come back empty or old, foreign servers at an address, and peers that lie.
//!
//! `MORTISE_REGION_HISTORIES` sets the number of histories, `MORTISE_REGION_SEED` the first seed. A failure names its
//! seed; the choices of a history follow from it. [`network`] has one region, and the owner of its replicas, over a
//! simulated network.

mod histories;
mod network;
mod sim_peer;
mod world;
