//! `mortise apply` of one file with many resources, against clients that write the same ones: the share of a server's
//! durable writes that the command line reaches. And again, when no resource has changed.

use std::{
    fmt::Write as _,
    path::Path,
    time::{Duration, Instant},
};

use mortise_plugin_demo::proto::hashicorp::consul::internal::demo::v2;
use prost::Message as _;
use tokio::process::Command;

use crate::{
    Outcome,
    calls::{artist, fill},
    report::{Line, Unit, median},
    servers::{Server, resident_mib_of, sibling},
};

/// Interval between samples of the command's memory.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(5);

/// Time and memory of one run of the command.
struct Run {
    seconds: f64,
    /// The largest sample.
    mib: f64,
}

/// The artists of [`fill`], as YAML.
fn file(count: usize) -> Outcome<String> {
    let mut text = String::new();
    for i in 0..count {
        let resource = artist(&format!("artist-{i:07}"));
        let data = v2::Artist::decode(resource.data.unwrap_or_default().value.as_slice())?;
        write!(text, "---\ntype: demo.v2.Artist\nname: artist-{i:07}\ndata:\n  name: {}\n", data.name)?;
        text.push_str("  genre: GENRE_JAZZ\n  groupMembers:\n");
        for (name, instrument) in data.group_members {
            writeln!(text, "    {name}: {instrument}")?;
        }
    }
    Ok(text)
}

async fn apply(server: &Server, file: &Path) -> Outcome<Run> {
    let begun = Instant::now();
    let mut child = Command::new(sibling("mortise")?)
        .args(["apply", "--quiet", "--grpc-addr", &server.addr.to_string(), "-f"])
        .arg(file)
        .stdout(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let pid = child.id().ok_or("it ended")?.to_string();
    let mut mib = 0_f64;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            () = tokio::time::sleep(SAMPLE_INTERVAL) => mib = mib.max(resident_mib_of(&pid).unwrap_or(0.0)),
        }
    };
    if !status.success() {
        return Err(format!("mortise apply: {status}").into());
    }
    Ok(Run { seconds: begun.elapsed().as_secs_f64(), mib })
}

pub(crate) async fn measure(rounds: usize, count: usize) -> Outcome<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("many.yaml");
    std::fs::write(&path, file(count)?)?;
    let rate = |seconds: f64| count as f64 / seconds;
    let (mut direct, mut applied, mut again, mut ratios, mut mib) = (vec![], vec![], vec![], vec![], 0_f64);
    for _ in 0..rounds {
        let data = tempfile::tempdir()?;
        let server = Server::mortise(data.path(), &[]).await?;
        let begun = Instant::now();
        fill(&server, count).await?;
        direct.push(rate(begun.elapsed().as_secs_f64()));
        server.stop().await?;

        let data = tempfile::tempdir()?;
        let server = Server::mortise(data.path(), &[]).await?;
        let (first, second) = (apply(&server, &path).await?, apply(&server, &path).await?);
        applied.push(rate(first.seconds));
        again.push(rate(second.seconds));
        ratios.push(rate(first.seconds) / direct.last().copied().unwrap_or(f64::NAN));
        mib = mib.max(first.mib).max(second.mib);
        server.stop().await?;
    }
    Line::of(format!("apply of {count} resources of one file"))
        .figure("apply", median(applied), Unit::PerSecond)
        .figure("clients that write them", median(direct), Unit::PerSecond)
        .figure("ratio of rates", median(ratios), Unit::Ratio)
        .figure("applied again", median(again), Unit::PerSecond)
        .figure("memory of apply", mib, Unit::Mebibytes)
        .print()
}
