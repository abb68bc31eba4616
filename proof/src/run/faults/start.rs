//! Faults at a start: the server does not start, its log says why, and once the fault is gone it starts with everything
//! that was acknowledged.

use std::path::Path;

use mortise_test_process::Outcome;

use super::{
    super::server::Server,
    probe::Probes,
    scenario::{Cause, Scenario},
    shim::Shim,
};

/// Writes before the kill.
const WRITES: usize = 20;

/// Runs the course of a fault at a start; returns the number of calls that met it.
pub(crate) async fn run(
    binary: &Path,
    mut env: Vec<(String, String)>,
    shim: &Shim,
    scenario: &Scenario,
) -> Outcome<u64> {
    let Cause::Calls(rules) = scenario.cause else { return Err("a start meets failing calls only".into()) };
    // The first start with tokens makes one.
    let needs_token = scenario.log.contains(&"bootstrap-token");
    if needs_token {
        env.push(("MORTISE_ACL_ENABLED".to_owned(), "true".to_owned()));
    }
    let mut server = Server::prepare(binary, tempfile::tempdir()?, env)?;
    let mut version = String::new();
    if !needs_token {
        let addr = server.restart().await?;
        let mut probes = Probes::new(addr).await?;
        for _ in 0..WRITES {
            version = probes.write().await?.version;
        }
        server.kill().await?;
    }
    shim.set(rules)?;
    if server.restart().await.is_ok() {
        return Err("the server starts".into());
    }
    let hits = shim.hits()?;
    let log = server.log()?;
    let error = log.lines().last().unwrap_or_default();
    if hits == 0 || !scenario.log.iter().all(|part| error.contains(part)) {
        return Err(format!("{hits} calls met the fault; the log ends with: {error}").into());
    }
    shim.clear()?;
    let addr = server.restart().await?;
    if !needs_token && Probes::new(addr).await?.stored().await?.version != version {
        return Err("the last acknowledged write is lost".into());
    }
    server.stop().await?;
    Ok(hits)
}
