//! Courses of controllers under shuttle; each prints its seed.

use mortise_simulation_controller::{explore::explore, leases};

#[test]
fn a_lease_that_is_handed_over_has_one_holder_and_loses_no_work() {
    explore("leases", 1_000, leases::run);
}
