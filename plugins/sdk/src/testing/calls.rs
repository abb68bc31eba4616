//! Calls of reconcilers into a [`World`].

use std::time::Duration;

use mortise_query::in_memory;
use mortise_resource::{
    data::{UpdateRequest, UpdateResponse},
    pb,
    probes::Probes,
};
use prost::Message;

use super::{
    World,
    failures::{decode, refused},
    world::Values,
};
use crate::{Failure, HttpRequest, HttpResponse, Key, host::Host};

fn encode(resources: Vec<pb::Resource>) -> Vec<Vec<u8>> {
    resources.iter().map(Message::encode_to_vec).collect()
}

/// Most private bytes of one resource.
const MAX_PRIVATE_BYTES: usize = 64 << 10;

fn with_uid(id: &[u8]) -> Result<pb::Id, Failure> {
    let id = decode::<pb::Id>(id)?;
    if id.uid.is_empty() { Err(Failure::new(Failure::INVALID, "id.uid is required")) } else { Ok(id) }
}

impl Host for World {
    fn read(&self, id: &[u8]) -> Result<Vec<u8>, Failure> {
        self.fails("read")?;
        let id = decode::<pb::Id>(id)?;
        let gone = || Failure::new(Failure::NOT_FOUND, format!("there is no {:?}", id.name));
        self.store.borrow().read(&id).map(Message::encode_to_vec).ok_or_else(gone)
    }

    fn list(&self, of: pb::Type, tenancy: pb::Tenancy, name_prefix: &str) -> Result<Vec<Vec<u8>>, Failure> {
        self.fails("list")?;
        Ok(encode(self.lookup().list(&of, &tenancy, name_prefix)))
    }

    fn list_by_owner(&self, owner: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
        self.fails("list-by-owner")?;
        let owner = decode::<pb::Id>(owner)?;
        if owner.uid.is_empty() {
            return Err(Failure::new(Failure::INVALID, "owner uid is required"));
        }
        Ok(self.store.borrow().owned(&owner.uid).map(Message::encode_to_vec).collect())
    }

    fn write(&self, resource: &[u8]) -> Result<Vec<u8>, Failure> {
        self.fails("write")?;
        let resource = self.hooks(decode(resource)?)?;
        self.store.borrow_mut().write(resource, self.now.get()).map(|stored| stored.encode_to_vec())
    }

    fn write_status(&self, id: &[u8], version: &str, key: &str, status: &[u8]) -> Result<Vec<u8>, Failure> {
        self.fails("write-status")?;
        let (id, status) = (decode(id)?, decode(status)?);
        let stored = self.store.borrow_mut().write_status(&id, version, key, status, self.now.get());
        stored.map(|stored| stored.encode_to_vec())
    }

    fn delete(&self, id: &[u8], version: &str) -> Result<(), Failure> {
        self.fails("delete")?;
        self.store.borrow_mut().delete(&decode(id)?, version, self.now.get())
    }

    fn search(&self, request: &[u8]) -> Result<Vec<u8>, Failure> {
        self.fails("queries.search")?;
        Ok(self.lookup().search(&decode(request)?)?.encode_to_vec())
    }

    fn update(&self, request: &[u8]) -> Result<Vec<u8>, Failure> {
        self.fails("queries.update")?;
        let request: UpdateRequest = decode(request)?;
        let incoming = request.resource.clone().unwrap_or_default();
        let id = incoming.id.unwrap_or_default();
        let stored = self.store.borrow().read(&id).cloned();
        let answer = |resource| UpdateResponse { resource: Some(resource), warnings: Vec::new() }.encode_to_vec();
        if stored.is_none() && !request.allow_missing {
            return Err(Failure::new(Failure::NOT_FOUND, format!("there is no {:?}", id.name)));
        }
        let expected = incoming.version;
        if stored.as_ref().is_some_and(|stored| !expected.is_empty() && stored.version != expected) {
            return Err(Failure::new(Failure::CONFLICT, "CAS operation failed"));
        }
        let schema = self.lookup().schema(&id.r#type.unwrap_or_default());
        let next = in_memory::update(stored.as_ref(), &request, &schema).map_err(|fault| refused(&fault))?;
        if stored.is_some_and(|stored| stored == next) {
            return Ok(answer(next));
        }
        let next = self.hooks(next)?;
        self.store.borrow_mut().write(next, self.now.get()).map(answer)
    }

    fn cache_get(&self, of: pb::Type, index: &str, key: Key<'_>) -> Result<Option<Vec<u8>>, Failure> {
        self.fails("cache.get")?;
        Ok(encode(self.indexed(&of, index, key, false)?).into_iter().next())
    }

    fn cache_list(&self, of: pb::Type, index: &str, key: Key<'_>) -> Result<Vec<Vec<u8>>, Failure> {
        self.fails("cache.list")?;
        Ok(encode(self.indexed(&of, index, key, true)?))
    }

    fn cache_page(
        &self,
        of: pb::Type,
        tenancy: pb::Tenancy,
        (index, key): (&str, Key<'_>),
        (from, before): (&str, &str),
        limit: u32,
    ) -> Result<(Vec<Vec<u8>>, bool), Failure> {
        self.fails("cache-pages.list")?;
        let mut found = self.indexed(&of, index, key, true)?;
        let name = |one: &pb::Resource| one.id.as_ref().map(|id| id.name.clone()).unwrap_or_default();
        found.retain(|one| {
            let is_here = one.id.as_ref().is_some_and(|id| id.tenancy.as_ref() == Some(&tenancy));
            is_here && name(one).as_str() >= from && (before.is_empty() || name(one).as_str() < before)
        });
        found.sort_by_key(name);
        let most = if limit == 0 { usize::MAX } else { usize::try_from(limit).unwrap_or(usize::MAX) };
        let more = found.len() > most;
        found.truncate(most);
        Ok((encode(found), more))
    }

    fn set_probes(&self, of: &[u8], probes: &[u8]) -> Result<(), Failure> {
        self.fails("probes.set")?;
        let (id, probes): (pb::Id, Probes) = (decode(of)?, decode(probes)?);
        if !probes.probes.is_empty() && id.uid.is_empty() {
            return Err(Failure::new(Failure::INVALID, "of.uid is required"));
        }
        self.probes.borrow_mut().insert(id.name, probes);
        Ok(())
    }

    fn kv_get(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        self.fails("kv.get")?;
        Ok(self.value(key))
    }

    fn kv_set(&self, key: &str, value: &[u8]) -> Result<(), Failure> {
        self.fails("kv.set")?;
        if key.is_empty() || key.len() > 256 {
            return Err(Failure::new(Failure::INVALID, "a key has 1 to 256 bytes"));
        }
        self.values.borrow_mut().insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn kv_remove(&self, key: &str) -> Result<(), Failure> {
        self.fails("kv.remove")?;
        self.values.borrow_mut().remove(key);
        Ok(())
    }

    fn kv_keys(&self, prefix: &str) -> Result<Vec<String>, Failure> {
        self.fails("kv.keys")?;
        Ok(self.values.borrow().keys().filter(|key| key.starts_with(prefix)).cloned().collect())
    }

    fn private_bytes_get(&self, id: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        self.fails("private-bytes.get")?;
        Ok(self.private_bytes(&with_uid(id)?))
    }

    fn private_bytes_set(&self, id: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.fails("private-bytes.set")?;
        let id = with_uid(id)?;
        if value.len() > MAX_PRIVATE_BYTES {
            let text = format!("{} bytes for one resource are more than {MAX_PRIVATE_BYTES}", value.len());
            return Err(Failure::new(Failure::EXHAUSTED, text));
        }
        if self.store.borrow().read(&id).is_none() {
            return Err(Failure::new(Failure::NOT_FOUND, "resource not found"));
        }
        self.private.borrow_mut().insert(id.uid, value.to_owned());
        Ok(())
    }

    fn private_bytes_remove(&self, id: &[u8]) -> Result<(), Failure> {
        self.fails("private-bytes.remove")?;
        self.private.borrow_mut().remove(&with_uid(id)?.uid);
        Ok(())
    }

    fn file_read(&self, directory: &str, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        self.fails("files.read")?;
        self.in_directory(directory, |files| files.get(name).cloned())
    }

    fn file_write(&self, directory: &str, name: &str, content: &[u8]) -> Result<(), Failure> {
        self.fails("files.write")?;
        if name.is_empty() || matches!(name, "." | "..") || name.contains(['/', '\\']) {
            return Err(Failure::new(Failure::INVALID, format!("{name:?} is not a plain name")));
        }
        self.in_directory(directory, |files| files.insert(name.to_owned(), content.to_owned())).map(drop)
    }

    fn file_remove(&self, directory: &str, name: &str) -> Result<(), Failure> {
        self.fails("files.remove")?;
        self.in_directory(directory, |files| files.remove(name)).map(drop)
    }

    fn file_list(&self, directory: &str) -> Result<Vec<String>, Failure> {
        self.fails("files.list")?;
        self.in_directory(directory, |files| files.keys().cloned().collect())
    }

    fn secret(&self, name: &str) -> Result<Vec<u8>, Failure> {
        self.fails("secrets.get")?;
        let denied = || Failure::new(Failure::DENIED, format!("the secret {name:?} is not granted"));
        self.secrets.borrow().get(name).cloned().ok_or_else(denied)
    }

    fn http(&self, request: &HttpRequest) -> Result<HttpResponse, Failure> {
        self.fails("http")?;
        let parts = request.parts()?;
        self.answers.borrow().as_ref().map_or_else(|| Err(parts.denied()), |answer| answer(request))
    }

    fn tcp_connect(&self, host: &str, port: u16, timeout_ms: u32) -> Result<u32, Failure> {
        self.fails("tcp.connect")?;
        if host.is_empty() || port == 0 || timeout_ms == 0 {
            return Err(Failure::new(Failure::INVALID, "a host, a port and a timeout are required"));
        }
        let denied = || Failure::new(Failure::DENIED, format!("connections to {host}:{port} are not granted"));
        let took = self.connects.borrow().as_ref().map_or_else(|| Err(denied()), |answer| answer(host, port))?;
        if took > Duration::from_millis(timeout_ms.into()) {
            let text = format!("{host}:{port} did not answer in time (timeout {timeout_ms} ms)");
            return Err(Failure::new(Failure::LATE, text));
        }
        Ok(u32::try_from(took.as_micros()).unwrap_or(u32::MAX))
    }

    fn now(&self) -> u64 {
        self.now.get()
    }

    fn elapsed(&self) -> u64 {
        self.now.get().saturating_sub(self.slept.get()).saturating_mul(1_000_000)
    }

    fn cancelled(&self) -> bool {
        self.cancelled.get()
    }
}

impl World {
    fn in_directory<T>(&self, name: &str, work: impl FnOnce(&mut Values) -> T) -> Result<T, Failure> {
        let denied = || Failure::new(Failure::DENIED, format!("the directory {name:?} is not granted"));
        self.directories.borrow_mut().get_mut(name).map(work).ok_or_else(denied)
    }
}
