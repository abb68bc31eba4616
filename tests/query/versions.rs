//! Reads that must not be older than a version, and updates that are only checked.

use mortise_api::QueryServiceClient;
use mortise_resource::{
    data::{BatchGetRequest, SearchRequest, UpdateRequest},
    meta::FINALIZERS,
    pb,
};
use prost_types::FieldMask;
use tonic::{Code, Request};

use crate::support::{Server, artist, demo, gvk, id, refusal, tenancy};

const ARTIST: &str = "demo.v2.Artist";

fn at_least<T>(message: T, version: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("x-mortise-at-least", version.parse().unwrap());
    request
}

#[tokio::test]
async fn versions_are_numbers_that_rise_and_reads_are_not_older() {
    let server = Server::start().await;
    let first = server.write(artist("korn")).await.unwrap();
    let second = server.write(artist("abba")).await.unwrap();
    let number = |resource: &pb::Resource| resource.version.parse::<u64>().unwrap();
    assert!(number(&first) < number(&second));
    let later = (number(&second) + 1_000).to_string();
    for (version, code) in [
        (first.version.as_str(), None),
        (second.version.as_str(), None),
        ("0", None),
        (later.as_str(), Some(Code::FailedPrecondition)),
        ("18446744073709551616", Some(Code::InvalidArgument)),
        ("-1", Some(Code::InvalidArgument)),
        ("", Some(Code::InvalidArgument)),
        ("latest", Some(Code::InvalidArgument)),
    ] {
        let mut queries = QueryServiceClient::new(server.channel().await);
        let search = SearchRequest { r#type: Some(gvk(ARTIST)), ..SearchRequest::default() };
        let batch = BatchGetRequest { ids: vec![id(ARTIST, "korn")], ..BatchGetRequest::default() };
        let read = pb::ReadRequest { id: Some(id(ARTIST, "korn")) };
        let list =
            pb::ListRequest { r#type: Some(gvk(ARTIST)), tenancy: Some(tenancy("", "")), ..pb::ListRequest::default() };
        let owned = pb::ListByOwnerRequest { owner: first.id.clone() };
        for (call, answer) in [
            ("Read", server.client().read(at_least(read, version)).await.map(drop)),
            ("List", server.client().list(at_least(list, version)).await.map(drop)),
            ("ListByOwner", server.client().list_by_owner(at_least(owned, version)).await.map(drop)),
            ("Search", queries.search(at_least(search, version)).await.map(drop)),
            ("BatchGet", queries.batch_get(at_least(batch, version)).await.map(drop)),
        ] {
            let found = answer.err().map(|status| {
                assert!(status.message().contains("x-mortise-at-least"), "{call}: {}", status.message());
                status.code()
            });
            assert_eq!(found, code, "{call} {version:?}");
        }
    }
}

#[tokio::test]
async fn an_update_that_is_only_checked_stores_nothing() {
    let server = Server::start().await;
    let stored = server.write(artist("korn")).await.unwrap();
    let mut client = QueryServiceClient::new(server.channel().await);
    let mut validate = async |resource: pb::Resource, allow_missing: bool| {
        let request =
            UpdateRequest { resource: Some(resource), allow_missing, validate_only: true, ..UpdateRequest::default() };
        client.update(request).await.map(|answer| answer.into_inner().resource.unwrap())
    };
    let genre = |resource: &pb::Resource| {
        let data = resource.data.as_ref().unwrap();
        <demo::v2::Artist as prost::Message>::decode(data.value.as_slice()).unwrap().genre
    };
    let mut jazz = artist("korn");
    let mut data: demo::v2::Artist = prost::Message::decode(jazz.data.as_ref().unwrap().value.as_slice()).unwrap();
    data.genre = demo::v2::Genre::Jazz.into();
    jazz.data.as_mut().unwrap().value = prost::Message::encode_to_vec(&data);
    let outcome = validate(jazz.clone(), false).await.unwrap();
    assert_eq!((genre(&outcome), &outcome.version), (demo::v2::Genre::Jazz.into(), &stored.version));
    assert_eq!(server.read(&id(ARTIST, "korn")).await.unwrap(), stored);
    // What an update would refuse is refused.
    let stale = pb::Resource { version: "1000000".into(), ..jazz };
    assert_eq!(refusal(validate(stale, false).await).0, Code::Aborted);
    assert_eq!(refusal(validate(artist("new"), false).await).0, Code::NotFound);
    validate(artist("new"), true).await.unwrap();
    assert_eq!(refusal(server.read(&id(ARTIST, "new")).await).0, Code::NotFound);
    let unowned = pb::Resource { owner: Some(id(ARTIST, "absent")), ..artist("new") };
    assert_eq!(refusal(validate(unowned, true).await).0, Code::InvalidArgument);
}

/// The last finalizer of a marked resource is removed by a write that stores nothing but the deletion.
#[tokio::test]
async fn an_update_that_is_only_checked_deletes_nothing() {
    let server = Server::start().await;
    let held = [(FINALIZERS.to_owned(), "someone".to_owned())];
    server.write(pb::Resource { metadata: held.into(), ..artist("korn") }).await.unwrap();
    server.delete(&id(ARTIST, "korn"), "").await.unwrap();
    let marked = server.read(&id(ARTIST, "korn")).await.unwrap();
    let mut freed = marked.clone();
    freed.metadata.remove(FINALIZERS).unwrap();
    let mut client = QueryServiceClient::new(server.channel().await);
    let mut update = async |validate_only: bool| {
        let update_mask = Some(FieldMask { paths: vec!["metadata".to_owned()] });
        let request =
            UpdateRequest { resource: Some(freed.clone()), update_mask, validate_only, ..UpdateRequest::default() };
        client.update(request).await.unwrap().into_inner().resource.unwrap()
    };
    assert_eq!(update(true).await.metadata, freed.metadata);
    assert_eq!(server.read(&id(ARTIST, "korn")).await.unwrap(), marked);
    update(false).await;
    assert_eq!(refusal(server.read(&id(ARTIST, "korn")).await).0, Code::NotFound);
}

/// The mask `*` replaces everything that a client may write, as no mask does, and keeps what holds a resource.
#[tokio::test]
async fn the_mask_of_everything_keeps_finalizers() {
    let server = Server::start().await;
    let mut client = QueryServiceClient::new(server.channel().await);
    let masks = [None, Some(vec!["*"]), Some(vec!["data.genre", "*"])];
    for (n, paths) in masks.into_iter().enumerate() {
        let name = format!("a{n}");
        let metadata = [(FINALIZERS, "someone"), ("other", "x")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        server.write(pb::Resource { metadata: metadata.into(), ..artist(&name) }).await.unwrap();
        let update_mask = paths.map(|paths| FieldMask { paths: paths.into_iter().map(str::to_owned).collect() });
        let request = UpdateRequest { resource: Some(artist(&name)), update_mask, ..UpdateRequest::default() };
        let updated = client.update(request).await.unwrap().into_inner().resource.unwrap();
        assert_eq!(updated.metadata, [(FINALIZERS.to_owned(), "someone".to_owned())].into(), "{n}");
        assert_eq!(updated.data, artist(&name).data);
    }
}
