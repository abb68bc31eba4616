//! mortise.v1.ServerService: the numbers of the server, and their use in `status`, `top` and `controllers`.

use mortise_api::ServerServiceClient;
use mortise_resource::data::{ServerStatusRequest, ServerStatusResponse};
use tonic::transport::Channel;

use crate::support::{Server, Setup, artist, gvk, is_left_out_over_etcd, mortise, tenancy};

async fn client(server: &Server) -> ServerServiceClient<Channel> {
    ServerServiceClient::new(server.channel().await)
}

async fn status(server: &Server) -> ServerStatusResponse {
    client(server).await.status(ServerStatusRequest {}).await.unwrap().into_inner()
}

fn count(status: &ServerStatusResponse, kind: &str) -> u64 {
    let resources = &status.store.as_ref().unwrap().resources;
    resources.iter().find(|count| count.kind == kind).map_or(0, |count| count.count)
}

fn calls(status: &ServerStatusResponse, method: &str) -> u64 {
    status.requests.iter().find(|requests| requests.method.ends_with(method)).map_or(0, |requests| requests.count)
}

#[tokio::test]
async fn status_counts_resources_and_follows_changes() {
    if is_left_out_over_etcd("the history of a copy begins with its filling") {
        return;
    }
    let server = Server::start().await;
    let first = status(&server).await;
    assert_eq!((first.version.as_str(), first.mode.as_str()), (env!("CARGO_PKG_VERSION"), "dev"));
    assert_eq!(count(&first, "Artist"), 0);
    for n in 0..20 {
        server.write(artist(&format!("a-{n}"))).await.unwrap();
    }
    let gone = server.write(artist("gone")).await.unwrap();
    server.delete(gone.id.as_ref().unwrap(), "").await.unwrap();
    let _watch = server.watch(gvk("demo.v2.Artist"), Some(tenancy("default", "default")), "").await.unwrap();
    let now = status(&server).await;
    assert_eq!((count(&now, "Artist"), now.watches), (20, 1));
    assert_eq!(calls(&now, "ResourceService/Write") - calls(&first, "ResourceService/Write"), 21);
    assert_eq!(calls(&now, "ResourceService/Delete"), 1);
    assert_eq!(calls(&now, "ServerService/Status"), 2);
    let write = now.requests.iter().find(|requests| requests.method.ends_with("ResourceService/Write")).unwrap();
    let codes: Vec<_> = write.codes.iter().map(|code| (code.code.as_str(), code.count)).collect();
    assert_eq!((codes, write.durations.iter().sum::<u64>()), (vec![("OK", 21)], 21));
    assert_eq!(write.durations.len(), now.duration_bounds.len() + 1);
    let watched: Vec<_> = now.watches_by_type.iter().map(|count| (count.kind.as_str(), count.count)).collect();
    assert_eq!(watched, [("Artist", 1)]);
    let store = now.store.unwrap();
    assert!(store.commit >= 22 && store.first_event == 1 && store.event_bytes > 0 && store.bytes_on_disk > 0);
    assert!(store.data_dir.starts_with('/') && !store.temporary && store.refuses_writes.is_empty());
    let demo = now.plugins.iter().find(|plugin| plugin.name == "demo").unwrap();
    assert_eq!((demo.stage.as_str(), demo.faults), ("Serving", 0));
    assert!(demo.calls >= 21, "{demo:?}");
    assert!(now.controllers.iter().any(|controller| controller.state == "Running"), "{:?}", now.controllers);
    let process = now.process.unwrap();
    assert_eq!(process.pid, server.child.id().unwrap());
    assert!(process.resident_bytes > 1 << 20 && process.threads > 2 && process.open_files > 3);
    assert_eq!(now.warnings, [""; 0]);
    let metrics = server.metrics().await;
    assert!(
        metrics.contains("mortise_grpc_requests_total{method=\"hashicorp.consul.resource.ResourceService/Write\"} 21")
    );
    let routes = status(&server).await.http_requests;
    let asked = routes.iter().find(|route| route.method == "/metrics").unwrap();
    assert!(asked.count >= 1 && asked.codes.iter().all(|code| code.code == "200"), "{asked:?}");
}

/// Counts are exact after a restart, too, when they must be counted again.
#[tokio::test]
async fn counts_survive_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let setup = || Setup::new().data_dir(data.path());
    let server = setup().start().await;
    for n in 0..7 {
        server.write(artist(&format!("a-{n}"))).await.unwrap();
    }
    assert!(server.stop().await.success());
    let server = setup().start().await;
    server.write(artist("b")).await.unwrap();
    assert_eq!(count(&status(&server).await, "Artist"), 8);
}

#[tokio::test]
async fn commands_show_the_status() {
    let server = Server::start().await;
    server.write(artist("korn")).await.unwrap();
    let addr = server.grpc.to_string();
    let run = async |args: &[&str]| {
        let mut all = args.to_vec();
        all.extend(["--grpc-addr", &addr]);
        let (code, out, err) = mortise(&all, &[]).await;
        assert_eq!((code, err.as_str()), (Some(0), ""), "{args:?}");
        out
    };
    let out = run(&["status"]).await;
    for expected in [
        "server        mortise 0",
        "(dev), up ",
        "demo.Artist",
        "PLUGIN",
        "Serving",
        "CONTROLLER",
        "watches       0 of",
    ] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    let out = run(&["top", "--once", "--interval", "100ms"]).await;
    for expected in ["% cpu", "changes/s", "hashicorp.consul.resource.ResourceService/Write", "CALLS/S", "RECONCILES/S"]
    {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    let out = run(&["controllers"]).await;
    assert!(out.starts_with("NAME") && out.contains("Running"), "{out}");
    let name = out.lines().nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    let out = run(&["controllers", &name]).await;
    assert!(out.contains("since start") && out.contains("reconciles"), "{out}");
    let (code, _, err) = mortise(&["controllers", "nobody", "--grpc-addr", &addr], &[]).await;
    assert!(code == Some(1) && err.contains("no controller is named \"nobody\""), "{err}");
}
