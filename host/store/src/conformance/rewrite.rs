//! Tests of Rewrite: another form of the same resource, without an event.

use mortise_resource::pb;

use super::fixtures::{Event, commit, everything, id, list, next, read, resource, ulid, watch, write};
use crate::{Backend, Batch, Consistency, Mutation, StoreError};

/// Returns the resource with data of this many bytes, each the mark.
fn with_data(resource: &pb::Resource, mark: u8, len: usize) -> pb::Resource {
    let mut resource = resource.clone();
    // An `Any`, without a dependency on the crate that defines it.
    let data = resource.data.insert(Default::default());
    (data.type_url, data.value) = ("test".into(), vec![mark; len]);
    resource
}

async fn rewrite<B: Backend>(store: &B, resource: &pb::Resource) -> Option<pb::Resource> {
    let stored = commit(store, Batch::single(Mutation::Rewrite(Box::new(resource.clone())))).await.unwrap();
    assert_eq!(stored.len(), 1);
    stored.into_iter().next().flatten()
}

/// Version and generation stay; reads and lists show the new form; the version is valid for the next write.
pub async fn changes_the_content_and_nothing_else<B: Backend>(store: &B) {
    let old = write(store, &with_data(&resource("a"), 1, 10)).await;
    let new = with_data(&old, 2, 20);
    assert_eq!(rewrite(store, &new).await.as_ref(), Some(&new));
    assert_eq!(read(store, &id(&old)).await.as_ref(), Some(&new));
    assert_eq!(list(store, &everything()).await, std::slice::from_ref(&new));
    assert_ne!(write(store, &new).await.version, old.version);
}

/// A resource that was replaced, deleted or created again meanwhile is left alone.
pub async fn another_version_or_uid_has_no_effect<B: Backend>(store: &B) {
    let first = write(store, &resource("a")).await;
    let second = write(store, &first).await;
    assert_eq!(rewrite(store, &with_data(&first, 1, 1)).await, None);
    let mut stranger = with_data(&second, 1, 1);
    stranger.id.as_mut().unwrap().uid = ulid();
    assert_eq!(rewrite(store, &stranger).await, None);
    assert_eq!(read(store, &id(&second)).await, Some(second.clone()));
    store.delete_cas(&id(&second), &second.version).await.unwrap();
    assert_eq!(rewrite(store, &second).await, None);
    assert_eq!(read(store, &id(&second)).await, None);
}

/// A watch gets the next write, but no event for the rewrite; a new watch's snapshot has the new form.
pub async fn is_no_event<B: Backend>(store: &B) {
    let stored = write(store, &resource("a")).await;
    let (_, mut open) = watch(store, &everything()).await;
    let new = with_data(&stored, 1, 9);
    rewrite(store, &new).await.unwrap();
    let (snapshot, _) = watch(store, &everything()).await;
    assert_eq!(snapshot, std::slice::from_ref(&new));
    let written = write(store, &new).await;
    assert_eq!(next(&mut open).await, Event::Upsert(written));
}

/// A failed batch leaves the old form.
pub async fn is_all_or_nothing_with_its_batch<B: Backend>(store: &B) {
    let stored = write(store, &resource("a")).await;
    let stale = pb::Resource { version: "nonsense".into(), ..stored.clone() };
    let mutations = vec![Mutation::Rewrite(Box::new(with_data(&stored, 1, 9))), Mutation::Put(Box::new(stale))];
    let failed = store.commit(Batch::new(mutations)).await;
    assert!(matches!(failed, Err(StoreError::CasFailure { mutation: 1 })), "{failed:?}");
    assert_eq!(read(store, &id(&stored)).await, Some(stored));
}

/// The new form is whole for any sizes of the two forms, and the resource can be written and deleted after it.
pub async fn large_and_small_take_each_other_s_place<B: Backend>(store: &B) {
    let mut stored = write(store, &with_data(&resource("a"), 0, 10)).await;
    for (mark, len) in [(1, 50_000), (2, 50_001), (3, 9_000), (4, 0), (5, 4_096), (6, 60_000), (7, 100)] {
        stored = with_data(&stored, mark, len);
        assert_eq!(rewrite(store, &stored).await.as_ref(), Some(&stored), "{len}");
        assert_eq!(read(store, &id(&stored)).await.as_ref(), Some(&stored), "{len}");
    }
    let stored = write(store, &with_data(&stored, 8, 30_000)).await;
    store.delete_cas(&id(&stored), &stored.version).await.unwrap();
    assert_eq!(list(store, &everything()).await, []);
}

/// Reads and lists beside rewrites show a whole form each time, and never an error.
pub async fn readers_see_one_form_or_the_other<B: Backend>(store: &B) {
    let forms = [(1, 20_000), (2, 20_000), (3, 10), (4, 40_000)];
    let stored = write(store, &with_data(&resource("a"), 1, 20_000)).await;
    let whole = |seen: &pb::Resource| {
        let data = seen.data.clone().unwrap().value;
        assert!(forms.iter().any(|(mark, len)| data == vec![*mark; *len]), "{} bytes", data.len());
    };
    let rewrite = async {
        for turn in 0..100 {
            let (mark, len) = forms[turn % forms.len()];
            rewrite(store, &with_data(&stored, mark, len)).await.unwrap();
        }
    };
    let reading = async {
        for _ in 0..300 {
            whole(&store.read(Consistency::Eventual, &id(&stored)).await.unwrap());
            whole(&list(store, &everything()).await[0]);
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(rewrite, reading);
}
