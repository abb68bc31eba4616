//! Values of plans and reports.

use mortise_store::plans::{Plan, PlannedComponent, Wanted};
use prost::Message;

/// Value of a plan's key.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PlanRecord {
    /// 1 serve, 2 disabled, 3 removed.
    #[prost(uint32, tag = "1")]
    wanted: u32,
    /// SHA-256 of the component; empty without one.
    #[prost(string, tag = "2")]
    pub(super) digest: String,
    /// Signature of the component.
    #[prost(bytes = "vec", optional, tag = "3")]
    signature: Option<Vec<u8>>,
    /// Server that got the command.
    #[prost(string, tag = "4")]
    server: String,
}

/// Value of a report's key.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ReportRecord {
    /// Revision of the plan.
    #[prost(int64, tag = "1")]
    pub(super) revision: i64,
    /// Reason for not following it; empty if it was followed.
    #[prost(string, tag = "2")]
    pub(super) fault: String,
}

/// Value of the key `meta` of a component.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ComponentRecord {
    /// Size, bytes.
    #[prost(uint64, tag = "1")]
    pub(super) size: u64,
    /// Number of chunks.
    #[prost(uint64, tag = "2")]
    pub(super) chunks: u64,
}

/// Numbers of the states in a record.
const STATES: [(u32, Wanted); 3] = [(1, Wanted::Serve), (2, Wanted::Disabled), (3, Wanted::Removed)];

impl PlanRecord {
    pub(super) fn new(plan: &Plan, server: &str) -> Self {
        let wanted = STATES.iter().find(|(_, state)| *state == plan.wanted).map_or(0, |(number, _)| *number);
        let component = plan.component.clone();
        let (digest, signature) = component.map(|found| (found.digest, found.signature)).unwrap_or_default();
        Self { wanted, digest, signature, server: server.to_owned() }
    }

    /// Returns the plan and the server that made it; `None` for a state that this release does not know.
    pub(super) fn plan(self, plugin: &str) -> Option<(Plan, String)> {
        let (_, wanted) = *STATES.iter().find(|(number, _)| *number == self.wanted)?;
        let Self { digest, signature, server, .. } = self;
        let component = (!digest.is_empty()).then_some(PlannedComponent { digest, signature });
        Some((Plan { plugin: plugin.to_owned(), wanted, component }, server))
    }

    /// Returns whether other servers need the content of the component.
    pub(super) fn needs_content(&self) -> bool {
        self.wanted != 3 && !self.digest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_come_back_and_an_unknown_state_is_no_plan() {
        for wanted in [Wanted::Serve, Wanted::Disabled, Wanted::Removed] {
            for component in [None, Some(PlannedComponent { digest: "d".into(), signature: Some(vec![1]) })] {
                let plan = Plan { plugin: "p".into(), wanted, component };
                let record = PlanRecord::new(&plan, "s");
                assert_eq!(record.needs_content(), wanted != Wanted::Removed && plan.component.is_some());
                assert_eq!(record.plan("p"), Some((plan, "s".to_owned())));
            }
        }
        assert_eq!(PlanRecord { wanted: 4, ..PlanRecord::default() }.plan("p"), None);
    }
}
