//! A resource's `meta`: the client's part is stored and replaced, the server's part follows the writes.

use mortise_api::QueryServiceClient;
use mortise_resource::{
    data::UpdateRequest,
    goten::{Meta, OwnerReference, ServicesInfo, lifecycle::State},
    pb,
};
use tonic::Code;

use crate::support::{Server, Setup, album, any, artist, demo, id, id_of, noted, refusal, resource};

fn with(resource: pb::Resource, meta: Meta) -> pb::Resource {
    pb::Resource { meta: Some(Box::new(meta)), ..resource }
}

fn labels(pairs: &[(&str, &str)]) -> Meta {
    let labels = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Meta { labels, ..Meta::default() }
}

fn meta(resource: &pb::Resource) -> Meta {
    *resource.meta.clone().expect("every resource has a meta")
}

fn millis(time: Option<prost_types::Timestamp>) -> i64 {
    time.map_or(0, |time| time.seconds * 1_000 + i64::from(time.nanos / 1_000_000))
}

#[tokio::test]
async fn the_servers_part_follows_what_is_written() {
    let server = Server::start().await;
    let first = server.write(artist("korn")).await.unwrap();
    let made = meta(&first);
    assert_eq!(made.uuid, id_of(&first).uid);
    assert_eq!(made.resource_version, first.version);
    assert_eq!((made.generation, made.lifecycle.unwrap().state()), (1, State::Active));
    assert_eq!((made.create_time, made.delete_time), (made.update_time, None));
    assert_eq!(server.read(&id_of(&first)).await.unwrap(), first);

    // The same write again: another version, the same content.
    let again = server.write(pb::Resource { version: String::new(), ..first.clone() }).await.unwrap();
    assert_eq!((meta(&again).generation, meta(&again).create_time), (1, made.create_time));
    assert_ne!(meta(&again).resource_version, made.resource_version);
    assert!(millis(meta(&again).update_time) >= millis(made.update_time));

    // Labels and metadata do not count as content; data does.
    let labelled = server.write(with(artist("korn"), labels(&[("env", "prod")]))).await.unwrap();
    assert_eq!(meta(&labelled).generation, 1);
    assert_eq!(meta(&server.write(noted(artist("korn"), &[("a", "b")])).await.unwrap()).generation, 1);
    let changed = pb::Resource { data: artist("other").data, ..artist("korn") };
    assert_eq!(meta(&server.write(changed).await.unwrap()).generation, 2);
    let status = pb::Status { observed_generation: first.generation.clone(), ..pb::Status::default() };
    let request =
        pb::WriteStatusRequest { id: first.id.clone(), key: "k".into(), status: Some(status), ..Default::default() };
    let noted = server.write_status(request).await.unwrap();
    assert_eq!((meta(&noted).generation, &meta(&noted).resource_version), (2, &noted.version));

    // A client's values are ignored.
    let lie = Meta {
        uuid: "mine".into(),
        generation: 99,
        create_time: Some(prost_types::Timestamp::default()),
        shards: [("byNameMod16".to_owned(), 3)].into(),
        ..labels(&[("env", "test")])
    };
    let told = meta(&server.write(with(artist("korn"), lie)).await.unwrap());
    assert_eq!((told.uuid, told.create_time, told.generation), (made.uuid, made.create_time, 3));
    assert_eq!((told.labels["env"].as_str(), told.shards.len()), ("test", 0));
}

#[tokio::test]
async fn the_version_in_meta_is_compared_where_version_is_left_out() {
    let server = Server::start().await;
    let of = |version: &str, data: &str| {
        let meta = Meta { resource_version: version.to_owned(), ..Meta::default() };
        pb::Resource { data: artist(data).data, ..with(artist("korn"), meta) }
    };
    let conflict = |result: Result<pb::Resource, tonic::Status>| refusal(result).0 == Code::Aborted;
    assert!(conflict(server.write(of("7", "new")).await), "there is no such version");
    let first = server.write(artist("korn")).await.unwrap();
    let second = server.write(of(&first.version, "second")).await.unwrap();
    assert!(conflict(server.write(of(&first.version, "late")).await));
    assert!(conflict(server.write(pb::Resource { version: first.version.clone(), ..of(&second.version, "x") }).await));
    let third = pb::Resource { version: second.version.clone(), ..of(&first.version, "third") };
    let third = server.write(third).await.unwrap();

    let mut queries = QueryServiceClient::new(server.channel().await);
    let mut update = async |version: &str, allow_missing: bool, name: &str| {
        let resource = pb::Resource { id: artist(name).id, ..of(version, "updated") };
        let request = UpdateRequest { resource: Some(resource), allow_missing, ..UpdateRequest::default() };
        queries.update(request).await.map(|answer| answer.into_inner().resource.unwrap())
    };
    assert!(conflict(update(&second.version, false, "korn").await));
    update(&third.version, false, "korn").await.unwrap();
    update(&third.version, true, "new").await.unwrap();
}

#[tokio::test]
async fn the_clients_part_is_kept_when_absent_and_replaced_when_there() {
    let server = Server::start().await;
    let whole = Meta {
        tags: vec!["a".into(), "b".into()],
        annotations: [("note".to_owned(), "x".to_owned())].into(),
        owner_references: vec![OwnerReference { kind: "a/B".into(), name: "c".into(), ..Default::default() }],
        services: Some(ServicesInfo {
            owning_service: "s".into(),
            allowed_services: vec!["z".into(), "a".into(), "z".into()],
        }),
        ..labels(&[("env", "prod"), ("none", "")])
    };
    let stored = server.write(with(artist("korn"), whole.clone())).await.unwrap();
    let client = |meta: Meta| (meta.tags, meta.labels, meta.annotations, meta.owner_references);
    assert_eq!(client(meta(&stored)), client(whole.clone()));
    assert_eq!(meta(&stored).services.unwrap().allowed_services, ["a", "z"], "sorted, each once");

    // Without `meta` it stays as it is, without a version and with one.
    let kept = server.write(artist("korn")).await.unwrap();
    assert_eq!(client(meta(&kept)), client(whole.clone()));
    let kept = server.write(pb::Resource { version: kept.version.clone(), ..artist("korn") }).await.unwrap();
    assert_eq!(client(meta(&kept)), client(whole.clone()));
    let less = meta(&server.write(with(artist("korn"), labels(&[("env", "test")]))).await.unwrap());
    assert_eq!(client(less), client(labels(&[("env", "test")])));
    let nothing = meta(&server.write(with(artist("korn"), Meta::default())).await.unwrap());
    assert_eq!(client(nothing), client(Meta::default()));
}

#[tokio::test]
async fn meta_shows_a_mark_of_deletion() {
    let server = Server::start().await;
    let held =
        server.write(noted(with(artist("korn"), labels(&[("env", "prod")])), &[("finalizers", "a")])).await.unwrap();
    server.delete(&id_of(&held), "").await.unwrap();
    let marked = meta(&server.read(&id_of(&held)).await.unwrap());
    assert_eq!(marked.lifecycle.unwrap().state(), State::Deleting);
    assert!(marked.delete_time.is_some() && millis(marked.delete_time) >= millis(marked.create_time));
    assert_eq!((marked.generation, marked.labels.len()), (1, 1));
}

#[tokio::test]
async fn values_over_a_limit_are_refused_by_name() {
    let server = Server::start().await;
    let stored = server.write(album("debut", None)).await.unwrap();
    let tags = |tags: Vec<String>| Meta { tags, ..Meta::default() };
    for (bad, text) in [
        (tags(vec!["a".into(), "a".into()]), "resource.meta.tags[1] repeats \"a\"; name each tag once"),
        (tags(vec![String::new()]), "resource.meta.tags[0] is empty"),
        (tags((0..33).map(|n| n.to_string()).collect()), "resource.meta.tags has 33 entries; the limit is 32"),
        (labels(&[("", "x")]), "resource.meta.labels[\"\"] is empty"),
        (labels(&[("a", "b\0")]), "resource.meta.labels[\"a\"] contains a zero byte"),
    ] {
        let refused = server.write(with(album("debut", None), bad)).await;
        assert_eq!(refusal(refused), (Code::InvalidArgument, text.to_owned()));
    }
    let many = Meta { labels: (0..65).map(|n| (n.to_string(), String::new())).collect(), ..Meta::default() };
    assert_eq!(server.write(with(album("debut", None), many)).await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(server.read(&id_of(&stored)).await.unwrap(), stored);
}

#[tokio::test]
async fn meta_survives_hooks_and_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().data_dir(dir.path()).start().await;
    // `mutate` fills in a genre.
    let stored = server.write(with(genreless("korn"), labels(&[("env", "prod")]))).await.unwrap();
    assert_eq!(meta(&stored).labels["env"], "prod");
    assert!(server.stop().await.success());
    let server = Setup::new().data_dir(dir.path()).start().await;
    assert_eq!(server.read(&id_of(&stored)).await.unwrap(), stored);
    assert_eq!(meta(&server.write(genreless("korn")).await.unwrap()).labels["env"], "prod");
}

fn genreless(name: &str) -> pb::Resource {
    let data = demo::v2::Artist { name: name.into(), ..Default::default() };
    resource(id("demo.v2.Artist", name), Some(any("hashicorp.consul.internal.demo.v2.Artist", &data)))
}
