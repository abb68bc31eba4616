//! Files of the plugin `routes` that the operator has checked before they take their place: by stubs, and by a real
//! nginx with the configuration of the plugin's README.

use std::fs;

use mortise_plugin_routes::proto::edge::v1::{Route, Upstream};
use mortise_resource::pb;

use crate::support::{
    eventually,
    nginx::{Edge, Nginx, blocks, installed, route, upstream},
};

/// The line of the grant in the README's first configuration.
const GRANT: &str = "write = true }";

/// A server whose directory is checked by a script of the shell, with the paths of placeholders as `$1` and so on.
async fn checked_by(script: &str, placeholders: &str, more: &str) -> Edge {
    let check =
        format!("write = true, check = {{ command = [\"sh\", \"-c\", '{script}', \"sh\", {placeholders}] }} }}");
    Edge::configured(|toml| format!("{}\n{more}", toml.replace(GRANT, &check))).await
}

fn to(hostname: &str, address: &str) -> Route {
    Route { upstreams: vec![Upstream { address: address.into(), weight: 1 }], ..route(hostname, "/", &[]) }
}

fn text(edge: &Edge, name: &str) -> String {
    fs::read_to_string(edge.files().join(format!("default.default.{name}.conf"))).unwrap_or_default()
}

fn is_refused(condition: &pb::Condition) -> bool {
    condition.state() == pb::condition::State::False && condition.reason == "Refused"
}

#[tokio::test]
async fn a_refused_file_leaves_the_last_good_one_and_other_routes_go_on() {
    let script = "if grep -l bad.example \"$1\"/*.conf; then exit 7; fi";
    let edge = checked_by(script, "\"{dir}\"", "").await;
    assert_eq!(edge.apply("web", &to("www.example.org", "10.0.0.1:80")).await.1.reason, "Written");
    let former = text(&edge, "web");
    let (_, refused) = edge.apply("web", &to("www.example.org", "bad.example:80")).await;
    assert!(is_refused(&refused), "{refused:?}");
    let says = "the former file stays in place: file \"default.default.web.conf\" was refused by \"sh\" (exit status: 7): \
                default.default.web.conf";
    assert_eq!(refused.message, says);
    assert_eq!(text(&edge, "web"), former);
    assert_eq!(edge.apply("api", &to("api.example.org", "10.0.0.2:80")).await.1.reason, "Written");
    assert_eq!(edge.names(), ["default.default.api.conf", "default.default.web.conf"], "nothing of the check is left");
    // A Route of the same hostname goes on beside the former part of the refused one.
    let beside = Route { path_prefix: "/beside".into(), ..to("www.example.org", "10.0.0.3:80") };
    let (id, written) = edge.apply("beside", &beside).await;
    assert_eq!(written.reason, "Written");
    assert!(text(&edge, "web").contains("location = /beside") && text(&edge, "web").contains("10.0.0.1:80"));
    edge.delete(&id).await;
    assert!(!text(&edge, "web").contains("/beside"));
    assert_eq!(edge.apply("web", &to("www.example.org", "10.0.0.4:80")).await.1.reason, "Written");
    assert!(text(&edge, "web").contains("10.0.0.4:80"));
}

#[tokio::test]
async fn a_check_that_hangs_or_is_missing_is_named_and_holds_up_no_other_route() {
    let script = "if grep -q slow.example \"$1\"; then sleep 60; fi";
    let edge = checked_by(script, "\"{file}\"", "[controllers]\nhost_call_ms = \"4s\"\n").await;
    let (_, hung) = edge.apply("slow", &to("slow.example.org", "slow.example:80")).await;
    assert_eq!(hung.reason, "NotWritten");
    assert!(hung.message.contains("\"sh\" did not end in time, and was stopped"), "{}", hung.message);
    assert!(hung.message.contains("plugin.routes.grants.directories.nginx.check"), "{}", hung.message);
    let other = edge.server.write(crate::support::nginx::named("web", &to("www.example.org", "10.0.0.1:80"))).await;
    other.unwrap();
    eventually("the other Route is written", async || text(&edge, "web").contains("10.0.0.1:80")).await;
    assert_eq!(text(&edge, "slow"), "");

    let edge = Edge::configured(|toml| {
        toml.replace(GRANT, "write = true, check = { command = [\"no-such-nginx\", \"-t\"] } }")
    })
    .await;
    let (id, missing) = edge.apply("web", &to("www.example.org", "10.0.0.1:80")).await;
    assert_eq!(missing.reason, "NotWritten");
    assert!(missing.message.contains("the program \"no-such-nginx\" cannot be started: No such file"), "{missing:?}");
    edge.delete(&id).await;
}

/// The configuration of the README: a host name that does not resolve does not reach the directory.
#[tokio::test]
async fn nginx_refuses_a_name_that_does_not_resolve_before_it_is_in_place() {
    let Some(program) = installed() else { return };
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(config.path(), blocks("nginx")[1]).unwrap();
    let edge = Edge::configured(|toml| {
        let (grant, checked) = ("[plugin.routes.grants.directories]\n", blocks("toml")[1]);
        let (before, behind) = toml.split_once(grant).unwrap();
        let (line, behind) = behind.split_once('\n').unwrap();
        let path = line.split('"').nth(1).unwrap();
        let checked = checked
            .replace("/var/lib/mortise/nginx", path)
            .replace("/usr/sbin/nginx", program)
            // The resolver may be out of reach.
            .replace("command = [", "command = [\"env\", \"RES_OPTIONS=timeout:1 attempts:1\", ")
            .replace("/etc/mortise/nginx-check.conf", &config.path().display().to_string());
        format!("{before}{checked}\n{behind}")
    })
    .await;
    let Some(nginx) = Nginx::start(&edge).await else { return };
    let a = upstream("A").await;
    edge.apply("web", &route("www.example.org", "/", &[(a, 1)])).await;
    let (id, refused) = edge.apply("gone", &to("gone.example.org", "gone.invalid:80")).await;
    assert!(is_refused(&refused), "{refused:?}");
    let says = "nginx: [emerg] host not found in upstream \"gone.invalid:80\" in default.default.gone.conf:";
    assert!(refused.message.contains(says), "{}", refused.message);
    assert_eq!(edge.names(), ["default.default.web.conf"]);
    let (_, refused) = edge.apply("web", &to("www.example.org", "gone.invalid:80")).await;
    assert!(is_refused(&refused), "{refused:?}");
    nginx.reload().await;
    edge.answers("www.example.org", "/", 200, "I am A").await;
    edge.delete(&id).await;
}
