//! Gives the resource an owner in mutate: itself.

use mortise_plugin::pb::Resource;

mortise_test_guests::overreaching!("mutate-owner", "mutate_owner", adopt);

fn adopt(resource: &mut Resource) {
    resource.owner = resource.id.clone();
}
