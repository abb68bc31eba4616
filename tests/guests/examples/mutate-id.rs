//! Changes the resource's name in mutate.

use mortise_plugin::pb::Resource;

mortise_test_guests::overreaching!("mutate-id", "mutate_id", rename);

fn rename(resource: &mut Resource) {
    resource.id.get_or_insert_default().name = "somebody-else".to_owned();
}
