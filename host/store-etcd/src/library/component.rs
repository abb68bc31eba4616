//! Components in chunks.

use prost::Message;

use super::{CHUNK_BYTES, Library, UPLOAD_SECONDS, record::ComponentRecord};
use crate::client::{Fault, Transaction};

/// Largest component that is read, bytes: what a damaged record may claim. Settings bound components more tightly.
const MAX_COMPONENT_BYTES: u64 = 1 << 30;

impl Library {
    /// Writes a component unless it is there. Returns the revision in which it became complete.
    pub(super) async fn write_component(&self, digest: &str, content: &[u8]) -> Result<i64, Fault> {
        let lease = self.client.grant_lease(UPLOAD_SECONDS).await?;
        let upload = self.keys.upload(digest);
        let mut begin = Transaction::default();
        begin.put_leased(upload.clone(), self.placements.server().as_bytes().to_vec(), lease);
        let begun = self.client.txn(begin.into_request()).await?;
        let begun = begun.header.map_or(0, |header| header.revision);
        // From here on nothing removes the component, until the lease ends.
        if let Some(meta) = self.one(self.keys.component_meta(digest)).await? {
            return Ok(meta.create_revision);
        }
        let mut chunks = 0;
        for chunk in content.chunks(CHUNK_BYTES) {
            let mut put = Transaction::default();
            put.put(self.keys.component_chunk(digest, chunks), chunk.to_vec());
            self.client.txn(put.into_request()).await?;
            chunks += 1;
        }
        let record = ComponentRecord { size: content.len() as u64, chunks };
        let mut end = Transaction::default();
        end.expect_revision(upload.clone(), begun);
        end.put(self.keys.component_meta(digest), record.encode_to_vec());
        end.tell_if_refused(upload, true);
        let ended = self.client.txn(end.into_request()).await?;
        match ended.succeeded {
            true => Ok(ended.header.map_or(0, |header| header.revision)),
            // Another server uploads the same component, or this one took too long.
            false => match self.one(self.keys.component_meta(digest)).await? {
                Some(meta) => Ok(meta.create_revision),
                None => Err(Fault::interrupted_upload()),
            },
        }
    }

    /// Reads a component; `None` if it is not there, or is being removed.
    pub(super) async fn read_component(&self, digest: &str) -> Result<Option<Vec<u8>>, Fault> {
        let Some(meta) = self.one(self.keys.component_meta(digest)).await? else { return Ok(None) };
        let Ok(ComponentRecord { size, chunks }) = ComponentRecord::decode(&*meta.value) else { return Ok(None) };
        if size > MAX_COMPONENT_BYTES {
            return Ok(None);
        }
        let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
        for number in 0..chunks {
            match self.one(self.keys.component_chunk(digest, number)).await? {
                Some(chunk) if content.len() + chunk.value.len() <= content.capacity() => {
                    content.extend_from_slice(&chunk.value);
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(content))
    }
}
