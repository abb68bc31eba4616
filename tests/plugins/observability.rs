//! Visible signs of plugins: logs, backtraces, metrics, spans.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Server, Setup, artist, eventually, id, mortise, thing};
use mortise_test_guests::{Thing, component_with_lines};

fn boom(group: &str, name: &str, number: i64) -> mortise_resource::pb::Resource {
    thing(group, name, &Thing { number, ..Thing::default() })
}

/// Samples of one metric: its labels as text, and its value.
async fn samples(server: &Server, name: &str) -> BTreeMap<String, f64> {
    let (status, text) = server.get("/metrics").await;
    assert_eq!(status, 200);
    let of = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let labels = series.strip_prefix(name)?;
        let labels = labels.strip_prefix('{').and_then(|l| l.strip_suffix('}')).or(labels.is_empty().then_some(""))?;
        Some((labels.to_owned(), value.parse().ok()?))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(of).collect()
}

#[tokio::test]
async fn a_backtrace_names_function_file_and_line() {
    let bytes = std::fs::read(component_with_lines("panic")).unwrap();
    let server = Setup::new().tolerant().component("panic", bytes).start().await;
    server.write(boom("panicking", "boom-validate", 7)).await.unwrap_err();
    eventually("the backtrace is logged", || async { server.log().contains("wasm backtrace") }).await;
    eventually("function, file and line are in it", || async {
        server.log().lines().any(|line| {
            let Some((_, place)) = line.split_once("panic::give_up at ") else { return false };
            place.contains("examples/panic.rs:")
        })
    })
    .await;
    let log = server.log();
    let frames = log.lines().skip_while(|line| !line.starts_with("wasm backtrace:")).skip(1);
    let frames: Vec<_> = frames.take_while(|line| line.starts_with("  ")).collect();
    assert!((2..=64).contains(&frames.len()), "{log}");
    assert!(frames.iter().all(|frame| !frame.contains("_ZN") && !frame.contains("wasmtime")), "{frames:?}");
    assert!(frames[0].trim_start().starts_with("0: "), "{frames:?}");
}

/// Functions have names even without line numbers.
#[tokio::test]
async fn a_backtrace_without_lines_names_functions() {
    let server = Setup::new().tolerant().guest("panic").start().await;
    server.write(boom("panicking", "boom-validate", 7)).await.unwrap_err();
    eventually("the backtrace is logged", || async {
        server.log().lines().any(|line| line.starts_with("  ") && line.ends_with("panic::give_up"))
    })
    .await;
}

#[tokio::test]
async fn metrics_count_what_plugins_do() {
    let server = Setup::new().tolerant().guest("panic").guest("infinite-loop").guest("missing-hook").start().await;
    for n in 0..3 {
        server.write(boom("panicking", &format!("fine-{n}"), 0)).await.unwrap();
    }
    server.write(boom("panicking", "boom-validate", 7)).await.unwrap_err();
    server.write(boom("infinite_loop", "boom-mutate", 7)).await.unwrap_err();
    let calls = samples(&server, "mortise_plugin_calls_total").await;
    assert_eq!(calls[r#"plugin="panic",hook="mutate""#], 4.0);
    assert_eq!(calls[r#"plugin="panic",hook="validate""#], 4.0);
    assert_eq!(calls[r#"plugin="panic",hook="authorize-write""#], 3.0);
    assert_eq!(calls[r#"plugin="infinite-loop",hook="mutate""#], 1.0);
    let faults = samples(&server, "mortise_plugin_faults_total").await;
    assert_eq!(faults[r#"plugin="panic",hook="validate",kind="trap""#], 1.0);
    assert_eq!(faults[r#"plugin="infinite-loop",hook="mutate",kind="fuel""#], 1.0);
    assert_eq!(faults.len(), 2, "{faults:?}");
    let seconds = samples(&server, "mortise_plugin_call_seconds_count").await;
    assert_eq!(seconds[r#"plugin="panic",hook="mutate""#], 4.0);
    let buckets = samples(&server, "mortise_plugin_call_seconds_bucket").await;
    assert_eq!(buckets[r#"plugin="panic",hook="mutate",le="+Inf""#], 4.0);
    assert!(buckets.contains_key(r#"plugin="panic",hook="mutate",le="0.001""#), "{buckets:?}");
    let fuel = samples(&server, "mortise_plugin_fuel_total").await;
    assert!(fuel[r#"plugin="infinite-loop",hook="mutate""#] >= 49_000_000.0, "{fuel:?}");
    assert!(fuel[r#"plugin="panic",hook="mutate""#] > 0.0, "{fuel:?}");
    let peak = samples(&server, "mortise_plugin_memory_peak_bytes").await[r#"plugin="panic""#];
    assert!(peak >= 65_536.0 && peak % 65_536.0 == 0.0, "{peak}");
    // Its last instance is removed in the background, after the answer.
    eventually("no instance is left", || async {
        samples(&server, "mortise_plugin_instances").await[r#"plugin="panic""#] == 0.0
    })
    .await;
    assert!(samples(&server, "mortise_plugin_instances_limit").await[""] >= 32.0);
    let loads = samples(&server, "mortise_plugin_loads_total").await;
    assert_eq!(loads[r#"plugin="panic",outcome="new""#], 1.0);
    assert_eq!(loads[r#"plugin="(others)",outcome="refused""#], 1.0);
}

/// A plugin with a fault, or with long work, runs at low priority from then on; others do not, and answers stay the
/// same.
#[tokio::test]
async fn a_plugin_that_takes_more_than_its_share_runs_at_low_priority() {
    let server = Setup::new().tolerant().guest("panic").guest("log-flood").start().await;
    let aside = async || samples(&server, "mortise_plugin_calls_low_priority_total").await;
    server.write(artist("korn")).await.unwrap();
    server.write(boom("panicking", "fine", 0)).await.unwrap();
    assert!(aside().await.values().all(|calls| *calls == 0.0), "{:?}", aside().await);

    server.write(boom("panicking", "boom-validate", 7)).await.unwrap_err();
    let stored = server.write(boom("panicking", "fine", 0)).await.unwrap();
    assert_eq!(server.read(stored.id.as_ref().unwrap()).await.unwrap(), stored);
    let calls = aside().await;
    assert_eq!(calls[r#"plugin="panic",hook="validate""#], 1.0, "{calls:?}");
    assert!(server.log().contains("its hooks run at low priority until 60s pass without another cause: trapped"));

    for _ in 0..20 {
        server.write(boom("log_flood", "boom", 9_000)).await.ok();
        server.write(artist("korn")).await.unwrap();
    }
    let calls = aside().await;
    assert!(calls.iter().any(|(of, calls)| of.contains("log-flood") && *calls > 0.0), "{calls:?}");
    assert!(calls.iter().all(|(of, calls)| !of.contains("demo") || *calls == 0.0), "{calls:?}");
    assert!(server.log().contains("of processor time after its first tick"), "why");
}

#[tokio::test]
async fn compile_time_is_measured_when_there_is_something_to_compile() {
    let cache = tempfile::tempdir().unwrap();
    let start = || Setup::new().tolerant().guest("prior").env("MORTISE_CACHE_DIR", cache.path().display()).start();
    let first = start().await;
    let took = samples(&first, "mortise_plugin_compile_seconds_sum").await[r#"plugin="prior""#];
    assert!(took > 0.0 && took < 60.0, "{took}");
    drop(first);
    assert_eq!(samples(&start().await, "mortise_plugin_compile_seconds_count").await, BTreeMap::new());
}

/// The table of docs/metrics.md has everything on the page, with its meaning; and the page has every metric of plugins
/// in the table.
#[tokio::test]
async fn the_table_of_metrics_is_true() {
    let cache = tempfile::tempdir().unwrap();
    let server = Setup::new()
        .tolerant()
        .guest("panic")
        .guest("log-flood")
        .env("MORTISE_CACHE_DIR", cache.path().display())
        .start()
        .await;
    server.write(artist("korn")).await.unwrap();
    server.write(boom("panicking", "boom-validate", 7)).await.unwrap_err();
    // The number of dropped lines depends on time.
    let mut text = String::new();
    eventually("lines are dropped", async || {
        server.write(boom("log_flood", "boom-mutate", 100)).await.unwrap();
        text = server.metrics().await;
        text.contains("mortise_plugin_logs_dropped_total")
    })
    .await;
    let of = |comment: &str| -> BTreeSet<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(comment));
        lines.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    let (shown, explained) = (of("# TYPE "), of("# HELP "));
    assert_eq!(shown, explained, "each has a text");
    let docs = include_str!("../../docs/metrics.md");
    let known: BTreeSet<String> =
        docs.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split('`').next()?.to_owned())).collect();
    assert!(shown.is_subset(&known), "not in docs/metrics.md: {:?}", shown.difference(&known));
    let of_plugins = |names: &BTreeSet<String>| -> BTreeSet<String> {
        names.iter().filter(|name| name.starts_with("mortise_plugin_")).cloned().collect()
    };
    let mut unseen = of_plugins(&known);
    // Only a reconciler sends requests: tests/controllers/http.rs.
    assert!(unseen.remove("mortise_plugin_http_requests_total"));
    // Only a reconciler connects: tests/controllers/tcp.rs.
    assert!(unseen.remove("mortise_plugin_tcp_connects_total"));
    // Only a reconciler sets probes: host/plugin/src/probes/tests.rs.
    assert!(unseen.remove("mortise_plugin_probes"));
    assert!(unseen.remove("mortise_plugin_probe_attempts_total"));
    // Only a plugin with a source in a registry has it: tests/plugins/registries.rs.
    assert!(unseen.remove("mortise_plugin_source_fault"));
    assert_eq!(of_plugins(&shown), unseen);
}

#[tokio::test]
async fn spans_are_logged_on_request() {
    let server = Setup::new().tolerant().guest("prior").env("MORTISE_LOG_SPANS", true).start().await;
    server.write(boom("prior", "label", 3)).await.unwrap();
    server.read(&id("prior.v1.Thing", "label")).await.unwrap();
    eventually("spans of request and hook", || async {
        let log = server.log();
        let has = |parts: &[&str]| log.lines().any(|line| parts.iter().all(|part| line.contains(part)));
        has(&["rpc{", r#"method="Write""#, r#"type="prior.v1.Thing""#, r#"name="label""#, "time.busy"])
            && has(&["rpc{", "hook{", r#"plugin="prior""#, r#"version="0.1.0""#, r#"hook="validate""#, "fuel="])
            && has(&["rpc{", r#"method="Read""#])
    })
    .await;
    let quiet = Setup::new().tolerant().guest("prior").start().await;
    quiet.write(boom("prior", "label", 3)).await.unwrap();
    assert!(!quiet.log().contains("rpc{"), "{}", quiet.log());
}

#[tokio::test]
async fn a_plugins_log_has_a_level_of_its_own() {
    let config = |level: &str| format!("[plugin.log-flood]\nlog_level = \"{level}\"\n");
    for (level, said) in [("warn", 0), ("info", 3)] {
        let server = Setup::new().tolerant().guest("log-flood").config(config(level)).start().await;
        server.write(boom("log_flood", "boom-mutate", 3)).await.unwrap();
        eventually(level, || async { server.log().matches("flood flood").count() >= said }).await;
        assert_eq!(server.log().lines().filter(|line| line.contains("flood flood")).count(), said);
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, config("loud")).unwrap();
    let (code, _, stderr) = mortise(&["dev", "--config", file.path().to_str().unwrap()], &[]).await;
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("plugin.log-flood.log_level \"loud\" is not a level"), "{stderr}");
}

/// A request may log 16 KiB; many requests together are limited, too.
#[tokio::test]
async fn the_rate_of_a_plugins_log_is_bounded() {
    let server =
        Setup::new().tolerant().guest("log-flood").env("MORTISE_PLUGIN_LOGS_LINES_PER_SECOND", 5).start().await;
    let begun = std::time::Instant::now();
    for n in 0..40 {
        server.write(boom("log_flood", "boom-mutate", 10 + n)).await.unwrap();
    }
    let seconds = begun.elapsed().as_secs() as usize + 2;
    let flood = server.log().lines().filter(|line| line.contains("flood flood")).count();
    assert!((1..=5 * seconds).contains(&flood), "{flood} lines in {seconds} s");
    eventually("dropped lines are logged", || async { server.log().contains("plugin_logs.lines_per_second") }).await;
    let dropped = samples(&server, "mortise_plugin_logs_dropped_total").await[r#"plugin="log-flood""#];
    assert!(dropped >= 300.0, "{dropped}");
}
