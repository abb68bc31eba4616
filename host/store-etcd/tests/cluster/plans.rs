//! Plans of plugins, and components that are larger than a value of etcd.

use mortise_store::plans::{Plan, PlannedComponent, Plans as _, Report, Wanted};
use mortise_store_etcd::EtcdBackend;

use crate::servers::Servers;

fn plan(plugin: &str, wanted: Wanted, digest: &str) -> Plan {
    let component = PlannedComponent { digest: digest.into(), signature: Some(b"signed".to_vec()) };
    Plan { plugin: plugin.into(), wanted, component: Some(component) }
}

/// Content that differs in each byte of a chunk's length.
fn content(size: usize) -> Vec<u8> {
    (0..size).map(|n| (n % 251) as u8).collect()
}

async fn component(server: &EtcdBackend, digest: &str) -> Option<Vec<u8>> {
    server.library().component(digest).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_component_and_its_plan_are_seen_on_every_server() {
    let Some(cluster) = Servers::start(2).await else { return };
    let [first, second] = [&cluster.servers[0], &cluster.servers[1]];
    let large = content((5 << 20) + 17);
    let mut changes = second.library().changes();
    changes.mark_unchanged();
    let stored = plan("p", Wanted::Serve, "d1");
    first.library().upload("d1", &large).await.unwrap();
    let revision = first.library().store(&stored, Some(&large)).await.unwrap();
    changes.changed().await.unwrap();
    let found = second.library().list().await.unwrap();
    assert_eq!((found.len(), &found[0].plan, found[0].revision), (1, &stored, revision));
    assert_eq!((found[0].server.as_str(), found[0].reports.len()), (first.server(), 0));
    assert_eq!(component(second, "d1").await.as_deref(), Some(&large[..]));

    second.library().report("p", revision, Some("why")).await.unwrap();
    let report = Report { server: second.server().to_owned(), fault: Some("why".to_owned()) };
    assert_eq!(first.library().list().await.unwrap()[0].reports, [report]);
    // A later plan has no reports yet, and takes none about the earlier one.
    let later = first.library().store(&plan("p", Wanted::Disabled, "d1"), Some(&large)).await.unwrap();
    second.library().report("p", revision, None).await.unwrap();
    let found = first.library().list().await.unwrap();
    assert_eq!((found[0].revision, found[0].reports.len(), later > revision), (later, 0, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_component_goes_with_the_last_plan_that_names_it() {
    let Some(cluster) = Servers::start(2).await else { return };
    let [first, second] = [&cluster.servers[0], &cluster.servers[1]];
    let (old, new) = (content(700_000), content(1_300_000));
    for plugin in ["p", "q"] {
        first.library().store(&plan(plugin, Wanted::Serve, "old"), Some(&old)).await.unwrap();
    }
    // The upload ends long before its lease does, which would keep the component for minutes.
    first.library().end_uploads().await.unwrap();
    second.library().store(&plan("p", Wanted::Serve, "new"), Some(&new)).await.unwrap();
    assert_eq!(component(first, "old").await.as_deref(), Some(&old[..]), "another plugin has it");
    second.library().store(&plan("q", Wanted::Removed, "old"), None).await.unwrap();
    assert_eq!(component(first, "old").await, None);
    assert_eq!(component(first, "new").await.as_deref(), Some(&new[..]));
    // What was removed can come again.
    first.library().store(&plan("q", Wanted::Serve, "old"), Some(&old)).await.unwrap();
    assert_eq!(component(second, "old").await.as_deref(), Some(&old[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_without_a_plan_is_kept_for_its_time_only() {
    let Some(cluster) = Servers::start(1).await else { return };
    let library = cluster.servers[0].library();
    library.upload("early", &content(10)).await.unwrap();
    library.store(&plan("p", Wanted::Serve, "other"), Some(&content(20))).await.unwrap();
    assert!(component(&cluster.servers[0], "early").await.is_some(), "its plan may come yet");
    library.end_uploads().await.unwrap();
    library.store(&plan("p", Wanted::Serve, "other"), Some(&content(20))).await.unwrap();
    assert_eq!(component(&cluster.servers[0], "early").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_list_each_other_with_what_they_tell_and_hold() {
    use mortise_store::{Backend as _, MemberInfo};

    let Some(cluster) = Servers::start(2).await else { return };
    let [first, second] = [&cluster.servers[0], &cluster.servers[1]];
    let started_at = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(1_234_567_890_123);
    let info = MemberInfo {
        version: "1.2.3".into(),
        grpc_address: "10.0.0.1:1".into(),
        http_address: "10.0.0.1:2".into(),
        started_at,
    };
    second.introduce(info.clone());
    let mut held = first.hold("work");
    held.wait_for(|held| *held).await.unwrap();
    let mut changes = first.library().changes();
    loop {
        let found = first.members().await.unwrap().unwrap().members;
        let names: Vec<_> = found.iter().map(|member| member.name.as_str()).collect();
        if names.len() == 2 && found.iter().any(|member| member.info.is_some()) {
            let own = found.iter().find(|member| member.is_this).unwrap();
            assert_eq!((own.name.as_str(), own.holds.as_slice()), (first.server(), &["work".to_owned()][..]));
            let other = found.iter().find(|member| !member.is_this).unwrap();
            assert_eq!((other.name.as_str(), other.info.as_ref(), other.lag), (second.server(), Some(&info), 0));
            break;
        }
        let _ = tokio::time::timeout(std::time::Duration::from_millis(100), changes.changed()).await;
    }
}
