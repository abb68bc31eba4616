//! Controllers: endpoints of services, checks of workloads. They are independent; the status of a workload connects
//! them.

pub(crate) mod checks;
pub(crate) mod endpoints;

#[cfg(test)]
mod tests;
