//! Controllers: endpoints of services and their slices, virtual addresses, routes, checks of workloads. They are
//! independent; the status of a workload connects them.

pub(crate) mod addresses;
pub(crate) mod checks;
pub(crate) mod endpoints;
mod layout;
pub(crate) mod routes;
pub(crate) mod slices;

#[cfg(test)]
mod tests;
