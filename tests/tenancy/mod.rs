//! Partitions and namespaces: creation, deletion, quotas.

mod creation;
mod deletion;
mod quotas;
