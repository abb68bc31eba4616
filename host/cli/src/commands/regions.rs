//! `mortise regions`: the peers, their replicas here, and the deferred resources; decisions about peers ([`operate`]).

mod operate;

use std::time::Duration;

use clap::{Args, Subcommand};
use mortise_resource::{
    data::{HeldBackReason, PeerRegion, PeerState, PeerType, RegionStatusRequest, RegionStatusResponse},
    types::{describe, gvk},
};

use super::server_status::std_duration;
use crate::{
    Cell, CliError, Connect, Exit, Style, Table, Ui,
    output::json::{self, AnswerFormat},
    output::ui,
};

pub(super) const EXAMPLES: &str = "\
mortise regions
mortise regions us-1
mortise regions accept us-1
mortise regions adopt --from us-1 --dry-run";

/// Arguments of `regions`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Regions {
    #[command(subcommand)]
    command: Option<RegionsCommand>,
    /// The peer to show in full, with each type and each missing resource
    #[arg(value_name = "PEER")]
    peer: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: AnswerFormat,
    #[command(flatten)]
    connect: Connect,
}

/// Subcommands of `regions`.
#[derive(Debug, Subcommand)]
enum RegionsCommand {
    /// Accepts the present store of a stopped peer, and the removals of its next snapshots
    #[command(after_help = super::after(operate::ACCEPT_EXAMPLES))]
    Accept(Box<operate::Accept>),
    /// Makes the replicas from a lost region this region's own, or removes them
    #[command(after_help = super::after(operate::ADOPT_EXAMPLES))]
    Adopt(Box<operate::Adopt>),
}

impl Regions {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        match self.command {
            Some(RegionsCommand::Accept(accept)) => return accept.run().await,
            Some(RegionsCommand::Adopt(adopt)) => return adopt.run().await,
            None => {}
        }
        let session = self.connect.session().await?;
        let mut status = session.call("regions", session.regions().status(RegionStatusRequest {})).await?;
        let ui = self.connect.ui();
        if let Some(name) = &self.peer {
            status.peers.retain(|peer| peer.name == *name);
            if status.peers.is_empty() {
                return Err(CliError::failed(format!("no peer is named {name:?}"))
                    .remedy("`mortise regions` lists the peers of the server"));
            }
        }
        match (self.output == AnswerFormat::Json, &self.peer) {
            (true, _) => ui::print(json::message("mortise.v1.RegionStatusResponse", &status)?)?,
            (false, _) if status.region.is_empty() => ui::line("the server is in no region (region.name)")?,
            (false, None) => {
                ui::line(format!("this server: {}", status.region))?;
                if !status.peers.is_empty() {
                    ui::print(table(&status).render(&ui))?;
                }
            }
            (false, Some(_)) => {
                for peer in &status.peers {
                    ui::print(describe_one(peer, &ui))?;
                }
            }
        }
        Ok(Exit::Done)
    }
}

fn table(status: &RegionStatusResponse) -> Table {
    let headings = ["peer", "state", "types", "lag", "applied", "conflicts", "deferred", "last error"];
    let mut table = Table::new(headings);
    for peer in &status.peers {
        let types = peer.types.iter().filter(|decl| decl.state() != PeerState::UnknownThere);
        let held = || peer.types.iter().flat_map(|decl| &decl.held_back);
        let conflicts = held().filter(|held| held.reason() == HeldBackReason::Conflict).count();
        let others = held().count() - conflicts;
        let lag = peer.types.iter().map(|decl| std_duration(decl.lag.as_ref())).max().unwrap_or_default();
        table.row(vec![
            peer.name.as_str().into(),
            state(peer.state()),
            types.count().to_string().into(),
            lag_text(lag).into(),
            peer.types.iter().map(|decl| decl.applied).sum::<u64>().to_string().into(),
            bad_number(conflicts),
            bad_number(others),
            if peer.stopped.is_empty() { &peer.last_error } else { &peer.stopped }.as_str().into(),
        ]);
    }
    table
}

fn describe_one(peer: &PeerRegion, ui: &Ui) -> String {
    let mut out = format!("peer     {}\naddress  {}\nstate    {}\n", peer.name, peer.address, state_name(peer.state()));
    if !peer.store_id.is_empty() {
        out.push_str(&format!("store    {}\n", peer.store_id));
    }
    if !peer.stopped.is_empty() {
        out.push_str(&format!("stopped  {}\n", peer.stopped));
    }
    if !peer.last_error.is_empty() {
        out.push_str(&format!("error    {}\n", peer.last_error));
    }
    out.push('\n');
    let mut types = Table::new(["type", "state", "lag", "applied", "snapshots", "deferred", "last error"]);
    for decl in &peer.types {
        types.row(type_row(decl));
    }
    out.push_str(&types.render(ui));
    let held: Vec<_> = peer.types.iter().flat_map(|decl| &decl.held_back).collect();
    if !held.is_empty() {
        out.push('\n');
        let mut table = Table::new(["not here", "why", "detail"]);
        for deferred in held {
            let what = deferred.id.as_ref().map(describe).unwrap_or_default();
            table.row(vec![what.into(), reason(deferred.reason()).into(), deferred.detail.as_str().into()]);
        }
        out.push_str(&table.render(ui));
    }
    out
}

fn type_row(peer_type: &PeerType) -> Vec<Cell> {
    vec![
        peer_type.r#type.as_ref().map(gvk).unwrap_or_default().into(),
        state(peer_type.state()),
        lag_text(std_duration(peer_type.lag.as_ref())).into(),
        peer_type.applied.to_string().into(),
        peer_type.snapshots.to_string().into(),
        bad_number(peer_type.held_back.len()),
        peer_type.last_error.as_str().into(),
    ]
}

fn bad_number(number: usize) -> Cell {
    Cell::styled(if number > 0 { Style::Bad } else { Style::Plain }, number.to_string())
}

fn lag_text(lag: Duration) -> String {
    match lag.is_zero() {
        true => "-".to_owned(),
        false => format!("{} s", lag.as_secs()),
    }
}

fn state(state: PeerState) -> Cell {
    let style = match state {
        PeerState::Current => Style::Good,
        PeerState::Failed | PeerState::Stopped => Style::Bad,
        _ => Style::Warn,
    };
    Cell::styled(style, state_name(state))
}

pub(super) fn state_name(state: PeerState) -> &'static str {
    match state {
        PeerState::Current => "Current",
        PeerState::Snapshot => "Snapshot",
        PeerState::Failed => "Failed",
        PeerState::UnknownThere => "UnknownThere",
        PeerState::Stopped => "Stopped",
        PeerState::Connecting | PeerState::Unspecified => "Connecting",
    }
}

pub(super) fn reason(reason: HeldBackReason) -> &'static str {
    match reason {
        HeldBackReason::Conflict => "Conflict",
        HeldBackReason::Schema => "NewerSchema",
        HeldBackReason::Invalid => "Invalid",
        HeldBackReason::Place => "NoPlace",
        HeldBackReason::Policy => "Policy",
        HeldBackReason::Store | HeldBackReason::Unspecified => "Store",
    }
}
