//! Write and resources that are marked for deletion: reserved metadata, and allowed changes.

use crate::support::{
    Server, album, any, artist, decoded, demo, gvk, id, id_of, invalid, is_gone, metadata, noted, refusal, tenancy,
};
use mortise_resource::pb;
use tonic::Code;

const ALBUM: &str = "demo.v2.Album";
const ALBUM_MESSAGE: &str = "hashicorp.consul.internal.demo.v2.Album";
const STAMP: &str = "deletionTimestamp";
const AT: &str = "2026-01-01T00:00:00Z";

/// Writes a resource with metadata, and marks it directly; returns its latest state.
async fn marked(server: &Server, name: &str, stamp: &str, pairs: &[(&str, &str)]) -> pb::Resource {
    let mut stored = server.write(noted(album(name, None), pairs)).await.unwrap();
    stored.metadata.insert(STAMP.into(), stamp.into());
    server.write(stored).await.unwrap()
}

fn set(resource: &pb::Resource, key: &str, value: &str) -> pb::Resource {
    let mut resource = resource.clone();
    resource.metadata.insert(key.into(), value.into());
    resource
}

fn unset(resource: &pb::Resource, key: &str) -> pb::Resource {
    let mut resource = resource.clone();
    resource.metadata.remove(key);
    resource
}

fn other_data(resource: &pb::Resource) -> pb::Resource {
    pb::Resource { data: album("another", None).data, ..resource.clone() }
}

fn blanket(resource: &pb::Resource) -> pb::Resource {
    pb::Resource { version: String::new(), ..resource.clone() }
}

#[tokio::test]
async fn blanket_writes_keep_the_reserved_keys_that_they_leave_out() {
    let server = Server::start().await;
    server.write(noted(album("debut", None), &[("finalizers", "a b"), ("free", "x")])).await.unwrap();
    let written = server.write(noted(album("debut", None), &[("other", "y")])).await.unwrap();
    assert_eq!(written.metadata, metadata(&[("finalizers", "a b"), ("other", "y")]));
    // An existing key counts, even if it is empty.
    let written = server.write(noted(album("debut", None), &[("finalizers", "c")])).await.unwrap();
    assert_eq!(written.metadata, metadata(&[("finalizers", "c")]));
    let written = server.write(noted(album("debut", None), &[("finalizers", "")])).await.unwrap();
    assert_eq!(written.metadata, metadata(&[("finalizers", "")]));

    let held = marked(&server, "held", AT, &[("finalizers", "a b")]).await;
    let written = server.write(noted(album("held", None), &[("finalizers", "b")])).await.unwrap();
    assert_eq!(written.metadata, metadata(&[("finalizers", "b"), (STAMP, AT)]), "the mark is kept");
    assert_eq!(written.id, held.id);
}

#[tokio::test]
async fn conditional_writes_keep_nothing() {
    let server = Server::start().await;
    let stored = server.write(noted(album("debut", None), &[("finalizers", "a")])).await.unwrap();
    let dropped = server.write(unset(&stored, "finalizers")).await.unwrap();
    assert_eq!(dropped.metadata, metadata(&[]));
    let held = marked(&server, "held", AT, &[("finalizers", "a")]).await;
    assert_eq!(refusal(server.write(unset(&held, STAMP)).await), invalid("cannot remove deletionTimestamp"));
    // A write without the finalizers removes all of them.
    server.write(unset(&held, "finalizers")).await.unwrap();
    assert!(is_gone(&server, &id(ALBUM, "held")).await);
}

#[tokio::test]
async fn the_mark_cannot_be_removed_or_modified() {
    let server = Server::start().await;
    let held = marked(&server, "held", AT, &[("finalizers", "a"), ("k", "v")]).await;
    // The fault comes before all other faults of the write.
    let spoilt = other_data(&set(&held, "k", "w"));
    assert_eq!(refusal(server.write(unset(&spoilt, STAMP)).await), invalid("cannot remove deletionTimestamp"));
    for other in ["", "2026-01-01T00:00:01Z"] {
        let modified = set(&spoilt, STAMP, other);
        assert_eq!(refusal(server.write(modified.clone()).await), invalid("cannot modify deletionTimestamp"));
        assert_eq!(refusal(server.write(blanket(&modified)).await), invalid("cannot modify deletionTimestamp"));
    }
    // The version is checked before.
    let mut stale = unset(&spoilt, STAMP);
    stale.version = "wrong".into();
    assert_eq!(refusal(server.write(stale).await).0, Code::Aborted);

    let empty = marked(&server, "empty", "", &[("finalizers", "a b")]).await;
    assert_eq!(refusal(server.write(unset(&empty, STAMP)).await), invalid("cannot remove deletionTimestamp"));
    let filled = server.write(set(&set(&empty, STAMP, AT), "finalizers", "b")).await.unwrap();
    assert_eq!(filled.metadata[STAMP], AT, "an empty value may be filled in");
}

#[tokio::test]
async fn marking_by_hand_changes_nothing_else() {
    let server = Server::start().await;
    let stored = server.write(noted(album("debut", None), &[("finalizers", "a"), ("k", "v")])).await.unwrap();
    let mark = set(&stored, STAMP, AT);
    for changed in [set(&mark, "k", "w"), unset(&mark, "k"), set(&mark, "new", ""), set(&mark, "finalizers", "")] {
        let changed = other_data(&changed);
        assert_eq!(refusal(server.write(changed).await), invalid("cannot modify metadata"), "before the data");
    }
    assert_eq!(refusal(server.write(other_data(&mark)).await), invalid("cannot modify data"));
    let written = server.write(mark).await.unwrap();
    assert_eq!(written.metadata[STAMP], AT);
    assert_ne!(written.generation, stored.generation);

    // A mark needs no finalizers; any value marks.
    let bare = marked(&server, "bare", "whenever", &[]).await;
    assert_eq!(server.read(&id(ALBUM, "bare")).await.unwrap(), bare, "it stays until it is deleted");
    server.delete(&id(ALBUM, "bare"), "").await.unwrap();
    assert!(is_gone(&server, &id(ALBUM, "bare")).await);
}

#[tokio::test]
async fn a_marked_resource_can_only_lose_finalizers() {
    let server = Server::start().await;
    let held = marked(&server, "held", AT, &[("finalizers", "a b c"), ("k", "v")]).await;
    let no_op = "cannot no-op write resource marked for deletion";
    assert_eq!(refusal(server.write(held.clone()).await), invalid(no_op));
    let carried_over = refusal(server.write(noted(album("held", None), &[("k", "v")])).await);
    let hint = "without metadata.finalizers it keeps its finalizers; write the names that stay, or an empty text";
    assert_eq!(carried_over, invalid(format!("{no_op}; {hint}")));
    for changed in [set(&held, "k", "w"), unset(&held, "k"), set(&held, "new", "")] {
        let changed = other_data(&set(&changed, "finalizers", "a"));
        assert_eq!(refusal(server.write(changed).await), invalid("cannot modify metadata"));
    }
    let changed = other_data(&set(&held, "finalizers", "a b c d"));
    assert_eq!(refusal(server.write(changed).await), invalid("cannot modify data"), "before the finalizers");
    let mut same = set(&held, "finalizers", "a");
    same.data.as_mut().unwrap().type_url = ALBUM_MESSAGE.into();
    assert_eq!(refusal(server.write(same).await), invalid("cannot modify data"), "the url is data too");
    for kept in ["c b a", "a  b c a", "a b c d", "a b d", "d"] {
        let changed = set(&held, "finalizers", kept);
        let text = "expected at least one finalizer to be removed";
        assert_eq!(refusal(server.write(changed).await), invalid(text), "{kept:?}");
    }
    assert_eq!(server.read(&id(ALBUM, "held")).await.unwrap(), held);
    let lost = server.write(set(&held, "finalizers", " c\ta\n")).await.unwrap();
    assert_ne!((&lost.version, &lost.generation), (&held.version, &held.generation));
    let lost = server.write(noted(album("held", None), &[("finalizers", "a"), ("k", "v")])).await.unwrap();
    assert_eq!(lost.metadata, metadata(&[("finalizers", "a"), ("k", "v"), (STAMP, AT)]));
    // Another GroupVersion is other data.
    let v1 = demo::v1::Album { name: "held".into(), ..Default::default() };
    let mut v1 = pb::Resource { data: Some(any("hashicorp.consul.internal.demo.v1.Album", &v1)), ..lost };
    v1.id.as_mut().unwrap().r#type = Some(gvk("demo.v1.Album"));
    assert_eq!(refusal(server.write(set(&v1, "finalizers", "")).await), invalid("cannot modify data"));
}

#[tokio::test]
async fn without_finalizers_anything_but_a_no_op_is_let_through() {
    let server = Server::start().await;
    let bare = marked(&server, "bare", AT, &[("finalizers", " ")]).await;
    let no_op = "cannot no-op write resource marked for deletion";
    assert_eq!(refusal(server.write(bare.clone()).await), invalid(no_op));
    let written = server.write(set(&other_data(&bare), "k", "v")).await.unwrap();
    assert_eq!(refusal(server.write(unset(&written, STAMP)).await), invalid("cannot remove deletionTimestamp"));
    let held = server.write(set(&written, "finalizers", "a")).await.unwrap();
    assert_eq!(held.metadata["finalizers"], "a", "even finalizers may come back");
    server.delete(&id(ALBUM, "bare"), "").await.unwrap();
    assert_eq!(server.read(&id(ALBUM, "bare")).await.unwrap(), held, "and then they hold");
}

#[tokio::test]
async fn removing_the_last_finalizer_of_a_marked_resource_deletes_it() {
    let server = Server::start().await;
    for (name, conditional, value) in [("one", true, Some("")), ("two", true, None), ("three", false, Some(" \t"))] {
        server.write(noted(album(name, None), &[("finalizers", "a")])).await.unwrap();
        server.delete(&id(ALBUM, name), "").await.unwrap();
        let stored = server.read(&id(ALBUM, name)).await.unwrap();
        assert!(stored.metadata.contains_key(STAMP));
        let mut watch = server.watch(gvk(ALBUM), Some(tenancy("", "")), name).await.unwrap();
        watch.snapshot().await;
        let freed = value.map_or_else(|| unset(&stored, "finalizers"), |value| set(&stored, "finalizers", value));
        let answer = server.write(if conditional { freed } else { blanket(&freed) }).await.unwrap();
        assert_eq!(answer.id, stored.id);
        assert!(is_gone(&server, &id(ALBUM, name)).await);
        assert_eq!(watch.deleted().await.id, stored.id);
        // A client with Consul's habit deletes once more.
        server.delete(&id_of(&stored), "").await.unwrap();
        server.delete(&id(ALBUM, name), "").await.unwrap();
        let next = server.write(album(name, None)).await.unwrap();
        assert_ne!(next.id, stored.id, "the name is free");
        assert_eq!(next.metadata, metadata(&[]), "and nothing is left");
    }
}

#[tokio::test]
async fn unmarked_resources_lose_finalizers_and_stay() {
    let server = Server::start().await;
    server.write(noted(album("debut", None), &[("finalizers", "a")])).await.unwrap();
    server.write(noted(album("debut", None), &[("finalizers", "")])).await.unwrap();
    assert!(!is_gone(&server, &id(ALBUM, "debut")).await);
}

#[tokio::test]
async fn a_race_for_the_last_finalizers_ends_with_the_resource_gone() {
    let server = Server::start().await;
    server.write(noted(album("held", None), &[("finalizers", "a b")])).await.unwrap();
    server.delete(&id(ALBUM, "held"), "").await.unwrap();
    // Two controllers each remove their own finalizer, repeatedly, by compare-and-swap.
    let release = |own: &'static str| {
        let mut client = server.client();
        tokio::spawn(async move {
            loop {
                let request = pb::ReadRequest { id: Some(id(ALBUM, "held")) };
                let Ok(read) = client.read(request).await else { return };
                let mut stored = read.into_inner().resource.unwrap();
                let left = stored.metadata["finalizers"].split(' ').filter(|f| *f != own).collect::<Vec<_>>().join(" ");
                if left == stored.metadata["finalizers"] {
                    return;
                }
                stored.metadata.insert("finalizers".into(), left);
                match client.write(pb::WriteRequest { resource: Some(stored) }).await {
                    Ok(_) => return,
                    Err(status) => assert_eq!(status.code(), Code::Aborted, "{status}"),
                }
            }
        })
    };
    let (one, other) = (release("a"), release("b"));
    one.await.unwrap();
    other.await.unwrap();
    assert!(is_gone(&server, &id(ALBUM, "held")).await);
}

#[tokio::test]
async fn hooks_run_on_marked_resources_too() {
    let server = Server::start().await;
    let korn = server.write(noted(artist("korn"), &[("finalizers", "a b")])).await.unwrap();
    let korn = server.write(set(&korn, STAMP, AT)).await.unwrap();
    let mut nameless = set(&korn, "finalizers", "b");
    nameless.data.as_mut().unwrap().value.clear();
    assert_eq!(refusal(server.write(nameless).await), invalid("artist.name required"), "before the rules of deletion");
    let written = server.write(set(&korn, "finalizers", "b")).await.unwrap();
    assert_eq!(decoded::<demo::v2::Artist>(&written), decoded::<demo::v2::Artist>(&korn));
}
