//! A watch that outlives cuts and restarts.

use std::{collections::BTreeMap, time::Duration};

use tonic::{Code, Status};

use crate::{
    api::{hashicorp::consul::resource::Resource, mortise::v1::resource_change::ChangeType},
    client::Client,
};

/// First wait between two attempts; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// Longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Ends of a watch after which another attempt makes sense.
const PASSING: [Code; 5] = [Code::Unavailable, Code::Aborted, Code::ResourceExhausted, Code::Internal, Code::Unknown];

/// Keeps the artists of the client's namespace.
#[derive(Default)]
pub struct Watch {
    known: BTreeMap<String, Resource>,
    token: String,
    shown: Option<String>,
    /// Number of streams that went on where the one before ended.
    pub resumed: u32,
    /// Number of streams that had to begin from a snapshot, though the one before had a token.
    pub reset: u32,
}

impl Watch {
    /// Calls `show` with the sorted names when they have changed, until it returns false.
    ///
    /// # Errors
    /// Another attempt would end the same: the token is unknown, a permission is missing, the request is wrong.
    pub async fn run(&mut self, client: &Client, mut show: impl FnMut(&str) -> bool) -> Result<(), Status> {
        let mut wait = FIRST_WAIT;
        loop {
            match self.follow(client, &mut show, &mut wait).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(status) if PASSING.contains(&status.code()) => {}
                Err(status) => return Err(status),
            }
            tokio::time::sleep(wait).await;
            wait = LONGEST_WAIT.min(wait * 2);
        }
    }

    /// Follows one stream, and returns whether `show` has enough.
    async fn follow(
        &mut self,
        client: &Client,
        show: &mut impl FnMut(&str) -> bool,
        wait: &mut Duration,
    ) -> Result<bool, Status> {
        let mut first = !self.token.is_empty();
        let mut pending = if first { self.known.clone() } else { BTreeMap::new() };
        let mut stream = client.watches.clone().watch_resources(client.everything(&self.token)).await?.into_inner();
        while let Some(message) = stream.message().await? {
            *wait = FIRST_WAIT;
            if message.is_hard_reset {
                self.reset += u32::from(first);
                self.token.clear();
                pending.clear();
            } else if message.is_soft_reset {
                pending = self.known.clone();
            } else {
                self.resumed += u32::from(first);
            }
            first = false;
            for change in message.changes {
                match change.change_type {
                    Some(ChangeType::Current(current)) => {
                        let resource = current.resource.unwrap_or_default();
                        pending.insert(resource.id.clone().unwrap_or_default().name, resource);
                    }
                    Some(ChangeType::Removed(removed)) => {
                        pending.remove(&removed.name.unwrap_or_default().name);
                    }
                    _ => {}
                }
            }
            if !message.is_current {
                continue;
            }
            // The changes up to here belong together, and the token is behind them.
            self.known = pending.clone();
            self.token = message.resume_token;
            let names = self.known.keys().map(String::as_str).collect::<Vec<_>>().join(" ");
            if self.shown.as_ref() != Some(&names) {
                let more = show(&names);
                self.shown = Some(names);
                if !more {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}
