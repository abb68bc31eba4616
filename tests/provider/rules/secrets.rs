//! Sensitive attributes.

use super::{EVERYTHING, attached};

#[tokio::test]
async fn lists_hide_data_with_secrets() {
    let (_server, core) = attached().await;
    let block = core.data_sources["mortise_resources"].block.as_ref().unwrap();
    let resources = block.attributes.iter().find(|one| one.name == "resources").unwrap();
    let sensitive = |name: &str| {
        resources.nested_type.as_ref().unwrap().attributes.iter().find(|one| one.name == name).unwrap().sensitive
    };
    assert!(sensitive("data") && !sensitive("name"));
    // The type itself hides what its message marks, as a resource and as a data source.
    let block = &core.schemas[EVERYTHING].block.as_ref().unwrap().block_types[0].block.as_ref().unwrap();
    let hidden: Vec<_> = block.attributes.iter().filter(|one| one.sensitive).map(|one| one.name.as_str()).collect();
    assert_eq!(hidden, ["secret_wo", "secret"]);
}
