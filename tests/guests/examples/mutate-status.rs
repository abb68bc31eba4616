//! Gives the resource a status in mutate.

use mortise_plugin::pb::{Resource, Status};

mortise_test_guests::overreaching!("mutate-status", "mutate_status", report);

fn report(resource: &mut Resource) {
    resource.status.insert("guest".to_owned(), Status::default());
}
