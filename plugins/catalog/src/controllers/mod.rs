//! The controllers: endpoints of services, checks of workloads. Neither knows the other; the status of a workload is
//! between them.

pub(crate) mod checks;
pub(crate) mod endpoints;

#[cfg(test)]
mod tests;
