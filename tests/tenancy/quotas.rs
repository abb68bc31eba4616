//! Quotas: the limits of a tenancy, for every kind of write; a full one can be emptied.

use mortise_resource::pb;
use tonic::Code;

use crate::support::*;

#[tokio::test]
async fn a_type_in_a_tenancy_holds_so_many_and_no_other_is_hurt() {
    let server = Setup::new().env("MORTISE_QUOTAS_RESOURCES", 3).start().await;
    make_place(&server, "default", "blue").await;
    let mut written = Vec::new();
    for name in ["a", "b", "c"] {
        written.push(server.write(artist(name)).await.unwrap());
    }
    let (code, text) = refusal(server.write(artist("d")).await);
    assert_eq!(code, Code::ResourceExhausted);
    assert!(
        text.contains("quotas.resources") && text.contains("demo.Artist") && text.contains("namespace default"),
        "{text}"
    );
    assert!(is_gone(&server, &id("demo.v2.Artist", "d")).await);
    // Another type, another place, a change of an existing resource, and its status.
    server.write(album("d", Some(&id_of(&written[0])))).await.unwrap();
    server.write(at(artist("d"), "default", "blue")).await.unwrap();
    let changed = server.write(noted(artist("a"), &[("note", "longer than before")])).await.unwrap();
    let request = pb::WriteStatusRequest {
        id: changed.id.clone(),
        version: String::new(),
        key: "tests".to_owned(),
        status: Some(pb::Status { observed_generation: changed.generation, ..pb::Status::default() }),
    };
    server.write_status(request).await.unwrap();
    // A deletion makes room for another resource; a dry run takes none.
    server.mutate_and_validate(artist("d")).await.unwrap();
    server.delete(&id_of(&written[2]), "").await.unwrap();
    server.write(artist("d")).await.unwrap();
    assert_eq!(refusal(server.write(artist("e")).await).0, Code::ResourceExhausted);
    let metrics = server.metrics().await;
    assert!(metrics.contains("mortise_quota_refused_total{quota=\"resources\"} 2"), "{metrics}");
}

#[tokio::test]
async fn a_tenancy_that_is_full_of_bytes_can_be_emptied_and_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let start = || Setup::new().data_dir(dir.path()).env("MORTISE_QUOTAS_BYTES", 64 << 10).start();
    let server = start().await;
    let big = |name: &str| noted(artist(name), &[("finalizers", "tests"), ("filler", &"x".repeat(4_000))]);
    let mut names = Vec::new();
    let (code, text) = loop {
        let name = format!("artist-{}", names.len());
        match server.write(big(&name)).await {
            Ok(_) => names.push(name),
            Err(status) => break refusal::<()>(Err(status)),
        }
        assert!(names.len() < 20, "64 KiB hold 16 of 4 KB at most");
    };
    assert!(names.len() >= 12, "{names:?}");
    assert_eq!(code, Code::ResourceExhausted);
    assert!(text.contains("quotas.bytes") && text.contains("namespace default"), "{text}");
    assert!(server.stop().await.success());

    let server = start().await;
    assert_eq!(refusal(server.write(big("one-more")).await).0, Code::ResourceExhausted, "it is counted anew");
    // Growth is refused, but shrinking is allowed; so is a deletion, though its mark adds bytes.
    let longer = noted(artist(&names[0]), &[("finalizers", "tests"), ("filler", &"x".repeat(9_000))]);
    assert_eq!(refusal(server.write(longer).await).0, Code::ResourceExhausted);
    for name in &names {
        server.delete(&id("demo.v2.Artist", name), "").await.unwrap();
        let marked = server.read(&id("demo.v2.Artist", name)).await.unwrap();
        assert!(marked.metadata.contains_key("deletionTimestamp"), "{marked:?}");
        let mut released = marked.clone();
        released.metadata.remove("finalizers");
        server.write(released).await.unwrap();
        assert!(is_gone(&server, &id("demo.v2.Artist", name)).await);
    }
    server.write(big("one-more")).await.unwrap();
}

#[tokio::test]
async fn writers_who_race_do_not_exceed_a_quota_together() {
    let server = Setup::new().env("MORTISE_QUOTAS_RESOURCES", 50).start().await;
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..120 {
        let mut client = server.client();
        tasks.spawn(async move {
            client
                .write(pb::WriteRequest { resource: Some(artist(&format!("artist-{i}"))) })
                .await
                .map_err(|e| e.code())
        });
    }
    let answers = tasks.join_all().await;
    let written = answers.iter().filter(|answer| answer.is_ok()).count();
    let refused = answers.iter().filter(|answer| answer.as_ref().err() == Some(&Code::ResourceExhausted)).count();
    let listed = server.list(gvk("demo.v2.Artist"), tenancy("default", "default"), "").await.unwrap().len();
    assert_eq!((written, refused, listed), (50, 70, 50));
}
