//! Resources of a source: written, planned or printed.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use mortise_resource::{Scope, goten::Meta, pb, types::Gvk};
use mortise_text::{TypeTable, to_yaml};
use prost::Message;
use prost_reflect::DescriptorPool;

use super::plan::{LoadPlan, Place};
use crate::{
    CliError, Exit, Session, Ui,
    apply::plan::{self as change, Plan},
    apply::report,
    commands::apply::{Counts, Outcome, write},
    connect::throttle::Throttle,
    error::diagnostic_line,
    output::ui,
    resources::{
        catalog::Catalog,
        ids::{id_of, placed_title},
    },
};

/// Serialised `FileDescriptorSet` of the catalog's messages, imports included.
const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/catalog.bin"));

/// Group and version of the types.
const GROUP: &str = "catalog";
const VERSION: &str = "v1";

/// Kinds of the resources of a source.
pub(super) const KINDS: [&str; 2] = ["Workload", "Service"];

/// Returns the type of a kind.
pub(super) fn type_of(kind: &str) -> Gvk {
    Gvk::new(GROUP, VERSION, kind)
}

/// A resource of the file, and its place in the file.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) place: Place,
    pub(super) resource: pb::Resource,
}

/// Returns the resources of a plan. Workloads come first, so that a service finds them. `labels` are those of all.
pub(super) fn items(plan: LoadPlan, units: &pb::Tenancy, labels: &BTreeMap<String, String>) -> Vec<Item> {
    let or_default = |unit: &str| if unit.is_empty() { "default".to_owned() } else { unit.to_owned() };
    let tenancy = pb::Tenancy { partition: or_default(&units.partition), namespace: or_default(&units.namespace) };
    let meta = (!labels.is_empty()).then(|| Box::new(Meta { labels: labels.clone(), ..Meta::default() }));
    let resource = |kind: &str, name: String, data: Vec<u8>| pb::Resource {
        id: Some(pb::Id {
            name,
            r#type: Some(type_of(kind).to_pb()),
            tenancy: Some(tenancy.clone()),
            uid: String::new(),
        }),
        data: Some(prost_types::Any { type_url: format!("type.googleapis.com/{GROUP}.{VERSION}.{kind}"), value: data }),
        meta: meta.clone(),
        ..pb::Resource::default()
    };
    let [workload_kind, service_kind] = KINDS;
    let mut items = Vec::new();
    for (name, found) in plan.workloads {
        let workload = resource(workload_kind, name, found.data.encode_to_vec());
        items.push(Item { place: found.place, resource: pb::Resource { metadata: found.metadata, ..workload } });
    }
    for (name, found) in plan.services {
        let data = found.data().encode_to_vec();
        items.push(Item { place: found.place, resource: resource(service_kind, name, data) });
    }
    items
}

/// Prints the resources as YAML.
pub(super) fn print(items: &[Item]) -> Result<(), CliError> {
    let pool = DescriptorPool::decode(DESCRIPTORS).map_err(|error| CliError::because(Exit::Failed, error))?;
    let mut types = TypeTable::new();
    for kind in KINDS {
        if let Some(message) = pool.get_message_by_name(&format!("{GROUP}.{VERSION}.{kind}")) {
            types.add_message(type_of(kind), message, Some(Scope::Namespace), Vec::new());
        }
    }
    for item in items {
        ui::print(format!("---\n{}", to_yaml(&item.resource, &types)))?;
    }
    Ok(())
}

/// Plans all items without writing, in their order.
pub(super) async fn plan_all(
    items: Vec<Item>,
    session: &Session,
    catalog: &Catalog,
) -> Vec<(Item, Result<Plan, CliError>)> {
    let throttle = Throttle::default();
    let planned = stream::iter(items).map(|item| {
        let throttle = &throttle;
        async move {
            let plan =
                throttle.call(async || change::dry_run(session, catalog, &item.resource, |_: &pb::Id| false).await);
            let plan = plan.await;
            (item, plan)
        }
    });
    planned.buffered(Throttle::MOST).collect().await
}

/// Prints plans, and continues after a refusal.
pub(super) fn print_plans(
    planned: &[(Item, Result<Plan, CliError>)],
    catalog: &Catalog,
    ui: &Ui,
) -> Result<Counts, CliError> {
    let mut counts = Counts::default();
    for (item, plan) in planned {
        match plan {
            Ok(plan) => {
                counts.count(plan.change);
                ui::print(report::coloured(&plan.diff(catalog)?, ui))?;
                ui::line(format!("{} {} (dry run)", placed_title(&id_of(&item.resource)), plan.change.word()))?;
            }
            Err(error) if error.exit == Exit::Unreachable => return Err(error.clone()),
            Err(error) => {
                counts.fail();
                ui.note(&format!("mortise: {}: {error}", item.place));
            }
        }
    }
    Ok(counts)
}

/// Writes all items; continues after a refusal.
pub(super) async fn write_all(
    items: Vec<Item>,
    session: &Session,
    catalog: &Catalog,
    ui: &Ui,
) -> Result<Counts, CliError> {
    let throttle = Throttle::default();
    let mut counts = Counts::default();
    let mut coming = stream::iter(items)
        .map(|item| {
            let throttle = &throttle;
            async move {
                let done = throttle.call(async || write(session, catalog, item.resource.clone()).await).await;
                (item, done)
            }
        })
        .buffered(Throttle::MOST);
    while let Some((item, done)) = coming.next().await {
        match done {
            Ok(Outcome::Done(change, _, warnings)) => {
                counts.count(change);
                for warning in warnings {
                    ui.warn(&format!("{}: {}", item.place, diagnostic_line(&warning)));
                }
                ui::line(format!("{} {}", placed_title(&id_of(&item.resource)), change.word()))?;
            }
            Ok(Outcome::Planned(_) | Outcome::Orphan) => {}
            Ok(Outcome::Failed(error)) | Err(error) if error.exit == Exit::Unreachable => return Err(error),
            Ok(Outcome::Failed(error)) | Err(error) => {
                counts.fail();
                ui.note(&format!("mortise: {}: {error}", item.place));
            }
        }
    }
    Ok(counts)
}
