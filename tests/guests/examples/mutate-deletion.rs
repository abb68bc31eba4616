//! Marks the resource for deletion in mutate.

use mortise_plugin::{meta::DELETION_TIMESTAMP, pb::Resource};

mortise_test_guests::overreaching!("mutate-deletion", "mutate_deletion", mark);

fn mark(resource: &mut Resource) {
    resource.metadata.insert(DELETION_TIMESTAMP.to_owned(), "2000-01-01T00:00:00Z".to_owned());
}
