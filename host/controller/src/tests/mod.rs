//! The rules, each by its name, against a scripted source and a clock that stands still while there is work.

mod kit;

mod caching;
mod ending;
mod failing;
mod harness;
mod mapping;
mod queueing;
mod starting;
mod waking;
