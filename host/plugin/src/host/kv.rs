//! `kv`: the plugin's own durable values.

use mortise_resource::Code;

use crate::{
    bindings::imports::mortise::plugin::kv::Host,
    failure::Failure,
    host::{call_context::HostCallResult, state::State},
};

/// Longest key, bytes.
const MAX_KEY: usize = 256;

impl Host for State {
    async fn get(&mut self, key: String) -> HostCallResult<Option<Vec<u8>>> {
        const WHAT: &str = "kv.get";
        self.ask(WHAT, |question| async move {
            check_key(WHAT, &key)?;
            let value = question.host.kv_get(key).await?;
            question.check_size(WHAT, value.as_ref().map_or(0, Vec::len))?;
            Ok(value)
        })
        .await
    }

    async fn set(&mut self, key: String, value: Vec<u8>) -> HostCallResult<()> {
        const WHAT: &str = "kv.set";
        self.ask(WHAT, |question| async move {
            check_key(WHAT, &key)?;
            question.check_size(WHAT, value.len())?;
            question.host.kv_set(key, value).await
        })
        .await
    }

    async fn remove(&mut self, key: String) -> HostCallResult<()> {
        const WHAT: &str = "kv.remove";
        self.ask(WHAT, |question| async move {
            check_key(WHAT, &key)?;
            question.host.kv_remove(key).await
        })
        .await
    }

    async fn keys(&mut self, prefix: String) -> HostCallResult<Vec<String>> {
        const WHAT: &str = "kv.keys";
        self.ask(WHAT, |question| async move {
            let keys = question.host.kv_keys(prefix).await?;
            question.check_size(WHAT, keys.iter().map(|key| key.len() + 8).sum())?;
            Ok(keys)
        })
        .await
    }
}

fn check_key(what: &str, key: &str) -> Result<(), Failure> {
    if (1..=MAX_KEY).contains(&key.len()) {
        return Ok(());
    }
    Err(Failure::new(Code::InvalidArgument, format!("{what}: a key has 1 to {MAX_KEY} bytes, got: {}", key.len())))
}
