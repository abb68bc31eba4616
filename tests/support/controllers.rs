//! Reports of a plugin's controllers, and waiting for their effects.

use mortise_api::ControllerServiceClient;
use mortise_resource::{
    data,
    pb::{self, Condition},
};

use crate::support::{Server, until};

/// Reports of a plugin's controllers, or of all.
async fn reports(server: &Server, plugin: &str) -> Vec<data::ControllerReport> {
    let mut client = ControllerServiceClient::new(server.channel().await);
    let request = data::ListControllersRequest { plugin: plugin.into() };
    client.list(request).await.unwrap().into_inner().controllers
}

/// The report of a controller, by its full name.
pub async fn report(server: &Server, name: &str) -> data::ControllerReport {
    let all = reports(server, "").await;
    let names: Vec<_> = all.iter().map(|one| one.name.clone()).collect();
    all.into_iter().find(|one| one.name == name).unwrap_or_else(|| panic!("no {name} among {names:?}"))
}

/// Full names of a plugin's running controllers.
pub async fn controllers(server: &Server, plugin: &str) -> Vec<String> {
    reports(server, plugin).await.into_iter().map(|one| one.name).collect()
}

/// Waits until a controller's report fulfils a condition.
pub async fn report_until(
    server: &Server,
    name: &str,
    holds: impl Fn(&data::ControllerReport) -> bool,
) -> data::ControllerReport {
    until(name, async || {
        let seen = reports(server, "").await.into_iter().find(|one| one.name == name).ok_or(None)?;
        if holds(&seen) { Ok(seen) } else { Err(Some(seen)) }
    })
    .await
}

/// Waits until a controller had nothing to do at ten looks in a row, and returns its reconciles so far. The server
/// answers each look, so a slow one gets more time.
pub async fn idle(server: &Server, name: &str) -> u64 {
    let mut looks = Vec::new();
    until(name, async || {
        let seen = report(server, name).await;
        let is_idle = seen.queued + seen.running + seen.mapper_queued == 0;
        if !is_idle || looks.last() != Some(&seen.reconciles) {
            looks.clear();
        }
        looks.push(seen.reconciles);
        if looks.len() > 10 { Ok(seen.reconciles) } else { Err(seen) }
    })
    .await
}

/// Waits until a resource exists and fulfils a condition.
pub async fn read_until(server: &Server, id: &pb::Id, holds: impl Fn(&pb::Resource) -> bool) -> pb::Resource {
    until(&id.name, async || {
        let seen = server.read(id).await;
        if seen.as_ref().is_ok_and(&holds) { Ok(seen.unwrap()) } else { Err(seen) }
    })
    .await
}

/// Waits until a resource has a matching condition under a status key.
pub async fn condition_until(
    server: &Server,
    id: &pb::Id,
    key: &str,
    kind: &str,
    holds: impl Fn(&Condition) -> bool,
) -> Condition {
    let find = |resource: &pb::Resource| {
        let conditions = &resource.status.get(key)?.conditions;
        conditions.iter().find(|condition| condition.r#type == kind).cloned()
    };
    let resource = read_until(server, id, |resource| find(resource).is_some_and(|condition| holds(&condition))).await;
    find(&resource).unwrap()
}

/// The id of a plugin's own resource.
pub fn plugin(name: &str) -> pb::Id {
    pb::Id {
        uid: String::new(),
        name: name.into(),
        r#type: Some(crate::support::gvk("mortise.v1.Plugin")),
        tenancy: Some(pb::Tenancy::default()),
    }
}
