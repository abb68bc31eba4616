//! Deletions: what a plan says about them, and resources that are on their way out.

use mortise_api::OwnershipServiceClient;
use mortise_provider::{proto::tfplugin6::diagnostic::Severity, value::Value};
use mortise_resource::data::SetBlockDeletionRequest;
use tokio::time::timeout;

use super::{EVERYTHING, attached, id_of, summaries, text, with};
use crate::support::{PATIENCE, controllers::read_until, owned, resource};

#[tokio::test]
async fn a_resource_that_is_being_deleted_is_planned_with_a_warning_and_its_destroy_can_be_repeated() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let timeouts = Value::object([("create", text("1h")), ("update", text("1h")), ("delete", text("100ms"))]);
    let config = with(core.config(EVERYTHING, "held", &[]), "timeouts", timeouts);
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    let mut stored = server.read(&id_of("held")).await.unwrap();
    stored.metadata.insert("finalizers".into(), "cleaner".into());
    server.write(stored).await.unwrap();
    let made = core.refresh(&made).await.unwrap().unwrap();
    let (faults, _) = timeout(PATIENCE, core.destroy(&made)).await.expect("its own timeout").unwrap_err();
    assert!(summaries(&faults).contains("A longer `timeouts.delete` gives it more time"), "{faults:?}");
    let seen = core.refresh(&made).await.unwrap().unwrap();
    // The same configuration, and another one.
    let planned = core.plan(EVERYTHING, Some(&seen), &config).await.unwrap();
    assert!(planned.replace.is_empty() && planned.state.get("data") == seen.state.get("data"), "{planned:?}");
    let said = summaries(&planned.warnings);
    assert!(said.contains("is being deleted") && said.contains("cleaner"), "{said}");
    let other = core.config(EVERYTHING, "held", &[("text", text("x"))]);
    let planned = core.plan(EVERYTHING, Some(&seen), &other).await.unwrap();
    assert!(summaries(&planned.warnings).contains("is being deleted"), "{planned:?}");
    let (faults, _) = core.apply(EVERYTHING, Some(&seen), &other, &planned).await.unwrap_err();
    assert!(summaries(&faults).contains("is being deleted"), "{faults:?}");
    let (warned, _) = core.plan_destroy(&seen).await.unwrap();
    assert!(summaries(&warned).contains("finalizers: cleaner"), "they last: {warned:?}");
    let freeing = async {
        let mut marked = read_until(&server, &id_of("held"), |_| true).await;
        marked.metadata.insert("finalizers".into(), String::new());
        server.write(marked).await.unwrap();
    };
    freeing.await;
    core.destroy(&seen).await.unwrap();
}

#[tokio::test]
async fn a_destroy_plan_shows_what_goes_too_and_what_protects() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let config = core.config(EVERYTHING, "owner", &[]);
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    assert_eq!(summaries(&core.plan_destroy(&made).await.unwrap().0), "", "alone");
    let owner = server.read(&id_of("owner")).await.unwrap();
    for name in ["one", "two"] {
        server.write(owned(resource(id_of(name), owner.data.clone()), owner.id.as_ref().unwrap())).await.unwrap();
    }
    let (warned, _) = core.plan_destroy(&made).await.unwrap();
    let said = summaries(&warned);
    assert!(said.contains("deletes 2 other resources") && said.contains("one") && said.contains("two"), "{said}");
    let mut ownership = OwnershipServiceClient::new(server.channel().await);
    let request = SetBlockDeletionRequest { id: owner.id.clone(), version: String::new(), block_deletion: true };
    ownership.set_block_deletion(request).await.unwrap();
    let (warned, _) = core.plan_destroy(&made).await.unwrap();
    assert!(warned.iter().all(|one| one.severity() == Severity::Warning), "{warned:?}");
    assert!(summaries(&warned).contains("mortise protect --off"), "{warned:?}");
    let (faults, _) = core.destroy(&made).await.unwrap_err();
    assert!(summaries(&faults).contains("mortise protect --off"), "{faults:?}");
}
