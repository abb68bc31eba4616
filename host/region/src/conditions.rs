//! The stored state of a peer, as conditions of its `mortise.v1.RegionPeer`.
//!
//! They contain only facts that change seldom, so neither the lag of a peer nor the number of its resources. A message
//! has at most 1,024 bytes, since parts of it are the peer's own texts. A deferred resource is `HeldBack` on the wire.

use mortise_resource::{
    data::{HeldBack, HeldBackReason, PeerRegion, PeerState, PeerType},
    pb::{Condition, Id, condition::State},
    types::gvk,
};

use crate::trust::Trust;

/// Most types, and most resources, that a message names.
const MAX_NAMED: usize = 3;
/// Most bytes of a message.
const MAX_MESSAGE_BYTES: usize = 1_024;

/// The conditions of a peer: `Current`, whether the replicas are up to date, `Complete`, whether no resource is
/// deferred, and `Accepted`, whether the server at the address is the known one.
pub(crate) fn conditions(peer: &PeerRegion, trust: &Trust) -> Vec<Condition> {
    let current = current(peer);
    let complete = complete(peer, current.state == i32::from(State::True));
    vec![current, complete, accepted(trust)]
}

fn accepted(trust: &Trust) -> Condition {
    let bound = trust.bound.as_ref().filter(|bound| !bound.id.is_empty());
    match (&trust.stop, bound) {
        (Some(reason), _) => condition("Accepted", State::False, reason.name(), reason.to_string()),
        (None, Some(bound)) => condition("Accepted", State::True, "Bound", format!("store {}", bound.id)),
        (None, None) if trust.is_older => {
            let what = "the peer's release has no ids of stores; only the limit of removals protects its replicas";
            condition("Accepted", State::Unknown, "OlderRelease", what.to_owned())
        }
        (None, None) => condition("Accepted", State::Unknown, "NotAsked", String::new()),
    }
}

fn current(peer: &PeerRegion) -> Condition {
    let behind = |peer_type: &&PeerType| ![PeerState::Current, PeerState::UnknownThere].contains(&peer_type.state());
    let types: Vec<&PeerType> = peer.types.iter().filter(behind).collect();
    let (state, reason) = match peer.state() {
        PeerState::Current => return condition("Current", State::True, "Current", String::new()),
        PeerState::Failed if peer.unreachable_since.is_some() => (State::False, "Unreachable"),
        PeerState::Failed => (State::False, "Failed"),
        PeerState::Stopped => return condition("Current", State::False, "Stopped", peer.stopped.clone()),
        PeerState::Snapshot => (State::False, "Snapshot"),
        PeerState::Connecting | PeerState::UnknownThere | PeerState::Unspecified => (State::Unknown, "Connecting"),
    };
    let named: Vec<String> = types.iter().take(MAX_NAMED).filter_map(|decl| decl.r#type.as_ref()).map(gvk).collect();
    let more =
        if types.len() > MAX_NAMED { format!(" and {} more types", types.len() - MAX_NAMED) } else { String::new() };
    let why = if peer.last_error.is_empty() { String::new() } else { format!(": {}", peer.last_error) };
    condition("Current", state, reason, format!("{}{more}{why}", named.join(", ")))
}

fn complete(peer: &PeerRegion, is_current: bool) -> Condition {
    let deferred = || peer.types.iter().flat_map(|decl| &decl.held_back);
    let is_conflict = |held: &&HeldBack| held.reason() == HeldBackReason::Conflict;
    let (all, conflicts) = (deferred().count(), deferred().filter(is_conflict).count());
    match (all, conflicts) {
        (0, _) if is_current => condition("Complete", State::True, "Complete", String::new()),
        (0, _) => condition("Complete", State::Unknown, "NotCurrent", String::new()),
        (_, 0) => {
            let message = format!("{all} resources are missing or outdated here: {}", names(deferred()));
            condition("Complete", State::False, "HeldBack", message)
        }
        _ => {
            let names = names(deferred().filter(is_conflict));
            let message =
                format!("{all} resources are missing here, {conflicts} because another has the name: {names}");
            condition("Complete", State::False, "Conflict", message)
        }
    }
}

fn condition(kind: &str, state: State, reason: &str, mut message: String) -> Condition {
    message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
    Condition { r#type: kind.into(), state: state.into(), reason: reason.into(), message, resource: None }
}

fn names<'a>(deferred: impl Iterator<Item = &'a HeldBack>) -> String {
    let ids = deferred.filter_map(|held| held.id.as_ref());
    let describe = |id: &Id| format!("{} {}", id.r#type.as_ref().map(gvk).unwrap_or_default(), id.name);
    ids.take(MAX_NAMED).map(describe).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use mortise_resource::pb::Type;

    use super::*;
    use crate::trust::StopReason;

    fn peer(state: PeerState, deferred: &[HeldBackReason]) -> PeerRegion {
        let artist = Type { group: "demo".into(), group_version: "v1".into(), kind: "Artist".into() };
        let held = |(number, reason): (usize, &HeldBackReason)| HeldBack {
            id: Some(Id { name: format!("n{number}"), r#type: Some(artist.clone()), ..Default::default() }),
            reason: (*reason).into(),
            detail: String::new(),
        };
        let peer_type = PeerType {
            r#type: Some(artist.clone()),
            state: state.into(),
            held_back: deferred.iter().enumerate().map(held).collect(),
            ..PeerType::default()
        };
        let last_error = if state == PeerState::Failed { "refused".to_owned() } else { String::new() };
        PeerRegion { state: state.into(), types: vec![peer_type], last_error, ..PeerRegion::default() }
    }

    fn shown(peer: &PeerRegion) -> Vec<(State, String, String)> {
        let all = conditions(peer, &Trust::default()).into_iter().take(2);
        all.map(|condition| (condition.state(), condition.reason, condition.message)).collect()
    }

    #[test]
    fn a_peer_is_complete_once_it_is_current_and_nothing_is_deferred() {
        let text = |text: &str| text.to_owned();
        assert_eq!(
            shown(&peer(PeerState::Current, &[])),
            [(State::True, text("Current"), text("")), (State::True, text("Complete"), text(""))]
        );
        assert_eq!(
            shown(&peer(PeerState::Failed, &[])),
            [
                (State::False, text("Failed"), text("demo.v1.Artist: refused")),
                (State::Unknown, text("NotCurrent"), text(""))
            ]
        );
        let mut unreachable = peer(PeerState::Failed, &[]);
        unreachable.unreachable_since = Some(prost_types::Timestamp::default());
        assert_eq!(shown(&unreachable)[0].1, "Unreachable");
    }

    #[test]
    fn conflicts_are_named_before_other_deferred_resources() {
        let [_, complete] = &shown(&peer(PeerState::Current, &[HeldBackReason::Place, HeldBackReason::Conflict]))[..]
        else {
            panic!("two conditions");
        };
        assert_eq!((complete.0, complete.1.as_str()), (State::False, "Conflict"));
        assert_eq!(complete.2, "2 resources are missing here, 1 because another has the name: demo.v1.Artist n1");
        let [_, complete] = &shown(&peer(PeerState::Current, &[HeldBackReason::Place; 5]))[..] else {
            panic!("two conditions");
        };
        assert_eq!(complete.1, "HeldBack");
        assert!(complete.2.ends_with("demo.v1.Artist n0, demo.v1.Artist n1, demo.v1.Artist n2"), "{}", complete.2);
    }

    #[test]
    fn a_peer_is_accepted_while_the_known_store_answers() {
        let accepted = |trust: &Trust| {
            let condition = accepted(trust);
            (condition.state(), condition.reason)
        };
        let mut trust = Trust::default();
        assert_eq!(accepted(&trust), (State::Unknown, "NotAsked".to_owned()));
        trust.is_older = true;
        assert_eq!(accepted(&trust), (State::Unknown, "OlderRelease".to_owned()));
        trust.bound = Some(mortise_service::AcceptedStore { id: "01".into(), accepts_removals: false });
        assert_eq!(accepted(&trust), (State::True, "Bound".to_owned()));
        trust.stop = Some(StopReason::OtherRegion { peer: "eu".into(), found: String::new() });
        assert_eq!(accepted(&trust), (State::False, "OtherRegion".to_owned()));
    }

    #[test]
    fn what_a_peer_words_is_cut() {
        let mut wordy = peer(PeerState::Failed, &[]);
        wordy.last_error = "é".repeat(1 << 20);
        let message = &shown(&wordy)[0].2;
        assert!((MAX_MESSAGE_BYTES - 3..=MAX_MESSAGE_BYTES).contains(&message.len()), "{}", message.len());
    }
}
