//! Sends a component to a server, and reads the conditions of the plugin.

use mortise_cli::{CliError, Session};
use mortise_resource::{data, pb};
use sha2::{Digest as _, Sha256};

/// Bytes of the component in one message.
const PIECE: usize = 256 << 10;

/// Installs a component; returns when it serves.
///
/// # Errors
/// The server's refusal, with the next step.
pub(super) async fn install(session: &Session, name: &str, bytes: &[u8]) -> Result<data::InstallResponse, CliError> {
    let sha256 = format!("{:x}", Sha256::digest(bytes));
    let first = data::InstallRequest { name: name.to_owned(), sha256, ..Default::default() };
    let pieces = bytes.chunks(PIECE).map(|piece| data::InstallRequest { chunk: piece.to_vec(), ..Default::default() });
    let messages: Vec<_> = std::iter::once(first).chain(pieces).collect();
    let mut client = session.plugins();
    let answer = session.call(format!("installing {name}"), client.install(tokio_stream::iter(messages))).await;
    answer.map_err(|mut fault| {
        if fault.remedy.is_none() {
            fault.remedy = Some(format!(
                "fix what the server names; `mortise plugin inspect {name}` shows what serves, `mortise plugin logs {name}` \
                 its log"
            ));
        }
        fault
    })
}

/// Describes the conditions of a resource of type mortise.v1.Plugin, one a line.
pub(super) fn conditions(plugin: Option<&pb::Resource>) -> Vec<String> {
    let Some(status) = plugin.and_then(|plugin| plugin.status.get("mortise")) else { return Vec::new() };
    let say = |condition: &pb::Condition| {
        let state = match condition.state() {
            pb::condition::State::True => "yes",
            pb::condition::State::False => "NO",
            pb::condition::State::Unknown => "not yet",
        };
        let reason = if condition.reason.is_empty() { String::new() } else { format!(" ({})", condition.reason) };
        let message = if condition.message.is_empty() { String::new() } else { format!(": {}", condition.message) };
        format!("{} {state}{reason}{message}", condition.r#type)
    };
    status.conditions.iter().map(say).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_said_in_a_line_each() {
        let condition = pb::Condition {
            r#type: "Loaded".into(),
            state: pb::condition::State::False.into(),
            reason: "TypeLost".into(),
            message: "demo.v1.Thing has resources".into(),
            ..pb::Condition::default()
        };
        let status = pb::Status { conditions: vec![condition], ..pb::Status::default() };
        let plugin = pb::Resource { status: [("mortise".to_owned(), status)].into(), ..pb::Resource::default() };
        assert_eq!(conditions(Some(&plugin)), ["Loaded NO (TypeLost): demo.v1.Thing has resources"]);
        assert!(conditions(None).is_empty());
    }
}
