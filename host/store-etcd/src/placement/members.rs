//! The list of the servers that share a store.

use std::collections::BTreeMap;

use mortise_store::{Member, Members};

use super::{Placements, report::MemberRecord};
use crate::{barrier::head, client::Fault};

impl Placements {
    /// Lists the running servers.
    pub(crate) async fn members(&self) -> Result<Members, Fault> {
        // Read after the reports, so that a lag is never told as smaller than it was.
        let members = self.list(self.keys.members()).await?;
        let placed = self.list(self.keys.placements()).await?;
        let newest = head(&self.client, &self.keys).await?;
        let mut holds: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for kv in &placed {
            if let (Ok(server), Some(name)) = (std::str::from_utf8(&kv.value), self.keys.placed(&kv.key)) {
                holds.entry(server.to_owned()).or_default().push(name);
            }
        }
        let member = |(name, record): (String, MemberRecord)| {
            let applied = record.applied.min(newest);
            let (holds, is_this) = (holds.remove(&name).unwrap_or_default(), *name == *self.server);
            Member {
                name,
                newest_version: self.keys.versions.last(applied),
                lag: newest.saturating_sub(applied).unsigned_abs(),
                info: record.info(),
                holds,
                is_this,
            }
        };
        let members = members.iter().filter_map(|kv| self.member(kv)).map(member).collect();
        Ok(Members { members, newest_version: self.keys.versions.last(newest) })
    }
}
