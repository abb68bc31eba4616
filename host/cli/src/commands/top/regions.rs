//! The tab of replicas from other regions.

use std::collections::BTreeMap;

use mortise_resource::{data::PeerState, types::gvk};

use super::{
    sample::Span,
    sheet::{Column, Field, Sheet},
    tabs::{left, right, short, tail},
};
use crate::{
    commands::{regions::state_name, server_status::std_duration},
    output::{table::one_line, ui::Style as Tone},
};

pub(super) const COLUMNS: &[Column] =
    &[left("PEER"), tail("TYPE"), left("STATE"), right("LAG"), right("APPLIED/S"), right("DEFERRED"), left("FAULT")];

/// The rows: each type of each peer.
pub(super) fn sheet(span: &Span<'_>) -> Sheet {
    let mut sheet = Sheet::new(COLUMNS);
    let status = match &span.now.regions {
        Ok(status) => status,
        Err(fault) => {
            sheet.note = one_line(fault);
            return sheet;
        }
    };
    let before = span.before.regions.iter().flat_map(|status| &status.peers);
    let was: BTreeMap<(&str, String), u64> = before
        .flat_map(|peer| peer.types.iter().map(move |entry| (peer, entry)))
        .map(|(peer, entry)| ((peer.name.as_str(), entry.r#type.as_ref().map(gvk).unwrap_or_default()), entry.applied))
        .collect();
    for peer in &status.peers {
        let fault = if peer.stopped.is_empty() { &peer.last_error } else { &peer.stopped };
        if peer.types.is_empty() {
            let absent = || Field::number(-1.0, "-".to_owned());
            sheet.extend(std::iter::once(vec![
                Field::text(&peer.name),
                Field::text("-"),
                peer_state(peer.state()),
                absent(),
                absent(),
                absent(),
                Field::text(fault),
            ]));
        }
        sheet.extend(peer.types.iter().map(|entry| {
            let name = entry.r#type.as_ref().map(gvk).unwrap_or_default();
            let lag = std_duration(entry.lag.as_ref());
            let held = entry.held_back.len() as u64;
            let applied = was.get(&(peer.name.as_str(), name.clone())).copied().unwrap_or(0);
            vec![
                Field::text(&peer.name),
                Field::text(&name),
                peer_state(entry.state()),
                Field::number(lag.as_secs_f64(), if lag.is_zero() { "0".to_owned() } else { short(lag) }),
                Field::rate(span.rate(entry.applied, applied)),
                Field::count(held).toned(if held > 0 { Tone::Warn } else { Tone::Plain }),
                Field::text(if entry.last_error.is_empty() { fault } else { &entry.last_error }),
            ]
        }));
    }
    if sheet.rows.is_empty() {
        sheet.note = match status.region.as_str() {
            "" => "the server is in no region (region.name)".to_owned(),
            region => format!("the region {} has no peers", one_line(region)),
        };
    }
    sheet
}

fn peer_state(state: PeerState) -> Field {
    let tone = match state {
        PeerState::Current => Tone::Good,
        PeerState::UnknownThere => Tone::Dim,
        PeerState::Failed | PeerState::Stopped => Tone::Bad,
        PeerState::Connecting | PeerState::Unspecified | PeerState::Snapshot => Tone::Warn,
    };
    Field::text(state_name(state)).toned(tone)
}
