//! Resources in memory, with the server's rules as far as reconcilers notice them.

use std::collections::BTreeMap;

use mortise_resource::{meta, name, pb, tenancy::WILDCARD, ulid};
use prost_types::Timestamp;

use crate::Failure;

/// Key of a resource: group, kind, partition, namespace, name.
type Slot = (String, String, String, String, String);

/// Resources and their recent changes: the store of a [`super::World`], and of `mortise plugin test`.
///
/// Uids, generations and versions follow from the order of writes and the given times, so the same writes store the
/// same resources.
#[derive(Debug, Default)]
pub struct Store {
    resources: BTreeMap<Slot, pb::Resource>,
    commits: u64,
    changes: Vec<pb::Resource>,
}

fn slot(id: &pb::Id) -> Slot {
    let of = id.r#type.clone().unwrap_or_default();
    let at = id.tenancy.clone().unwrap_or_default();
    (of.group, of.kind, at.partition, at.namespace, id.name.clone())
}

/// Whether the resource has this group and kind; the version does not belong to a resource's identity.
#[must_use]
pub fn is_type(resource: &pb::Resource, of: &pb::Type) -> bool {
    let found = resource.id.as_ref().and_then(|id| id.r#type.as_ref());
    found.is_some_and(|found| found.group == of.group && found.kind == of.kind)
}

/// Whether an id is under a key of an index. In lists, the first tenancy unit that is empty or `*` ends the key, and so
/// does a missing name.
#[must_use]
pub fn is_under(id: &pb::Id, key: &pb::Id, listing: bool) -> bool {
    let kind = |id: &pb::Id| id.r#type.as_ref().map(|of| (of.group.clone(), of.kind.clone()));
    if kind(id) != kind(key) {
        return false;
    }
    let (is, wanted) = (id.tenancy.clone().unwrap_or_default(), key.tenancy.clone().unwrap_or_default());
    for (is, wanted) in [(is.partition, wanted.partition), (is.namespace, wanted.namespace)] {
        if listing && (wanted.is_empty() || wanted == WILDCARD) {
            return true;
        }
        if is != wanted {
            return false;
        }
    }
    id.name == key.name || (listing && key.name.is_empty())
}

fn id_of(resource: &pb::Resource) -> pb::Id {
    resource.id.clone().unwrap_or_default()
}

fn conflict(what: &str) -> Failure {
    Failure::new(Failure::CONFLICT, format!("CAS operation failed for {what:?}"))
}

fn invalid(text: impl Into<String>) -> Failure {
    Failure::new(Failure::INVALID, text)
}

impl Store {
    /// Takes the resources that were written or deleted since the last call, in order.
    pub fn take_changes(&mut self) -> Vec<pb::Resource> {
        std::mem::take(&mut self.changes)
    }

    /// Every resource, in order of type, tenancy and name.
    pub fn all(&self) -> impl Iterator<Item = &pb::Resource> {
        self.resources.values()
    }

    /// The resource of this id; if it has a uid, only that incarnation.
    #[must_use]
    pub fn read(&self, id: &pb::Id) -> Option<&pb::Resource> {
        let found = self.resources.get(&slot(id))?;
        (id.uid.is_empty() || id.uid == found.id.as_ref()?.uid).then_some(found)
    }

    /// Writes a resource with a server's rules; answers the stored one. `now` is in milliseconds since 1970.
    ///
    /// # Errors
    /// The server's, with its texts.
    pub fn write(&mut self, mut incoming: pb::Resource, now: u64) -> Result<pb::Resource, Failure> {
        let id = incoming.id.get_or_insert_default();
        id.tenancy.get_or_insert_default();
        if id.r#type.is_none() {
            return Err(invalid("resource.id.type is required"));
        }
        if let Some(fault) = name::fault(&id.name) {
            return Err(invalid(format!("resource.id.name invalid: {fault}")));
        }
        let key = slot(id);
        match self.resources.get(&key).cloned() {
            None => self.admit_new(&mut incoming, now)?,
            Some(stored) => admit_update(&stored, &mut incoming)?,
        }
        incoming.generation = self.ulid(now);
        if meta::is_marked(&incoming.metadata) && !meta::has_finalizers(&incoming.metadata) {
            self.remove(&key, now);
            return Ok(incoming);
        }
        Ok(self.commit(key, incoming))
    }

    fn admit_new(&mut self, incoming: &mut pb::Resource, now: u64) -> Result<(), Failure> {
        if !incoming.version.is_empty() {
            return Err(conflict(&id_of(incoming).name));
        }
        if !incoming.status.is_empty() {
            return Err(invalid("resource.status can only be set using the WriteStatus endpoint"));
        }
        if meta::is_marked(&incoming.metadata) {
            return Err(invalid("resource.metadata.deletionTimestamp can't be set on resource creation"));
        }
        if let Some(owner) = incoming.owner.as_mut().filter(|owner| owner.uid.is_empty()) {
            *owner = self.read(owner).map(id_of).ok_or_else(|| invalid("resource.owner does not exist"))?;
        }
        let uid = self.ulid(now);
        incoming.id.get_or_insert_default().uid = uid;
        Ok(())
    }

    /// Writes the status under a key; an empty version accepts any stored one.
    ///
    /// # Errors
    /// The server's, with its texts.
    pub fn write_status(
        &mut self,
        id: &pb::Id,
        version: &str,
        key: &str,
        mut status: pb::Status,
        now: u64,
    ) -> Result<pb::Resource, Failure> {
        if id.uid.is_empty() {
            return Err(invalid("id.uid is required"));
        }
        if key.is_empty() {
            return Err(invalid("key is required"));
        }
        if !ulid::is_valid(&status.observed_generation) {
            return Err(invalid("status.observed_generation is not valid"));
        }
        for (place, condition) in status.conditions.iter().enumerate() {
            if condition.r#type.is_empty() {
                return Err(invalid(format!("status.conditions[{place}].type is required")));
            }
            let tenancy = condition.resource.as_ref().map(|about| about.tenancy.clone().unwrap_or_default());
            if tenancy.is_some_and(|at| at.partition.is_empty() || at.namespace.is_empty()) {
                return Err(invalid(format!("status.conditions[{place}].resource.tenancy is not complete")));
            }
        }
        let gone = || Failure::new(Failure::NOT_FOUND, "resource not found");
        let mut resource = self.read(id).cloned().ok_or_else(gone)?;
        if !version.is_empty() && version != resource.version {
            return Err(conflict(&id.name));
        }
        status.updated_at = Some(timestamp(now));
        resource.status.insert(key.to_owned(), status);
        Ok(self.commit(slot(id), resource))
    }

    /// Deletes a resource and all that it owns, or marks it while it has finalizers. A missing resource is not an
    /// error.
    ///
    /// # Errors
    /// The server's, with its texts.
    pub fn delete(&mut self, id: &pb::Id, version: &str, now: u64) -> Result<(), Failure> {
        let Some(stored) = self.read(id).cloned() else { return Ok(()) };
        if !version.is_empty() && version != stored.version {
            return Err(conflict(&id.name));
        }
        if !meta::has_finalizers(&stored.metadata) {
            self.remove(&slot(id), now);
        } else if !meta::is_marked(&stored.metadata) {
            let mut marked = stored;
            marked.metadata.insert(meta::DELETION_TIMESTAMP.to_owned(), timestamp(now).to_string());
            marked.generation = self.ulid(now);
            self.commit(slot(id), marked);
        }
        Ok(())
    }

    /// Removes a resource, and all that it owns.
    fn remove(&mut self, key: &Slot, now: u64) {
        let Some(removed) = self.resources.remove(key) else { return };
        let uid = id_of(&removed).uid;
        self.changes.push(removed);
        let owned = self.owned(&uid).map(id_of).collect::<Vec<_>>();
        for child in owned {
            // Without a version the deletion cannot fail.
            let _ = self.delete(&child, "", now);
        }
    }

    /// Resources that the incarnation owns.
    pub fn owned<'s>(&'s self, uid: &'s str) -> impl Iterator<Item = &'s pb::Resource> {
        self.all().filter(move |one| one.owner.as_ref().is_some_and(|owner| owner.uid == uid))
    }

    fn commit(&mut self, key: Slot, mut resource: pb::Resource) -> pb::Resource {
        self.commits = self.commits.saturating_add(1);
        resource.version = self.commits.to_string();
        self.changes.push(resource.clone());
        self.resources.insert(key, resource.clone());
        resource
    }

    /// A ULID of that time, different each time.
    fn ulid(&mut self, now: u64) -> String {
        self.commits = self.commits.saturating_add(1);
        let digits = |mut number: u64, count: usize| {
            let mut text = vec![b'0'; count];
            for place in text.iter_mut().rev() {
                let digit = usize::try_from(number & 31).unwrap_or_default();
                *place = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ".get(digit).copied().unwrap_or(b'0');
                number >>= 5;
            }
            String::from_utf8(text).unwrap_or_default()
        };
        digits(now, 10) + &digits(self.commits, 16)
    }
}

/// Checks a write against the stored resource, by the server's rules.
fn admit_update(stored: &pb::Resource, incoming: &mut pb::Resource) -> Result<(), Failure> {
    let (was, is) = (id_of(stored), incoming.id.get_or_insert_default());
    if !is.uid.is_empty() && is.uid != was.uid {
        return Err(Failure::new(Failure::PRECONDITION, format!("wrong uid for {:?}", was.name)));
    }
    is.uid.clone_from(&was.uid);
    if incoming.version.is_empty() {
        for key in [meta::DELETION_TIMESTAMP, meta::FINALIZERS] {
            if let (Some(value), false) = (stored.metadata.get(key), incoming.metadata.contains_key(key)) {
                incoming.metadata.insert(key.to_owned(), value.clone());
            }
        }
    } else if incoming.version != stored.version {
        return Err(conflict(&was.name));
    }
    if let (Some(owner), Some(before)) = (&mut incoming.owner, &stored.owner)
        && owner.uid.is_empty()
    {
        owner.uid.clone_from(&before.uid);
    }
    if incoming.owner != stored.owner {
        return Err(invalid("owner cannot be changed"));
    }
    if incoming.status.is_empty() {
        incoming.status.clone_from(&stored.status);
    } else if incoming.status != stored.status {
        return Err(invalid("resource.status can only be set using the WriteStatus endpoint"));
    }
    let marked = meta::is_marked(&stored.metadata);
    if marked && !meta::is_marked(&incoming.metadata) {
        return Err(invalid("cannot remove deletionTimestamp"));
    }
    if marked && meta::has_finalizers(&stored.metadata) {
        let (before, after) = (meta::finalizers(&stored.metadata), meta::finalizers(&incoming.metadata));
        if incoming.data != stored.data {
            return Err(invalid("cannot modify data"));
        }
        if after.len() >= before.len() || !after.is_subset(&before) {
            return Err(invalid("expected at least one finalizer to be removed"));
        }
    }
    Ok(())
}

fn timestamp(now: u64) -> Timestamp {
    Timestamp { seconds: i64::try_from(now / 1000).unwrap_or(i64::MAX), nanos: 0 }
}
