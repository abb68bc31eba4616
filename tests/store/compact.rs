//! `mortise compact`.

use mortise_resource::pb;

use crate::support::{Setup, artist, id_of, is_left_out_over_etcd, mortise};

#[tokio::test]
async fn a_store_that_was_emptied_gives_its_space_back() {
    if is_left_out_over_etcd("the data directory holds a copy, not the content") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let setup = || {
        Setup::new().data_dir(&data).env("MORTISE_STORE_HISTORY_EVENTS", 10).env("MORTISE_STORE_CACHE_BYTES", 1 << 20)
    };
    let server = setup().start().await;
    let kept = server.write(artist("kept")).await.unwrap();
    let mut written = Vec::new();
    for n in 0..60 {
        let metadata = [("text".to_owned(), "x".repeat(200_000))].into();
        written.push(server.write(pb::Resource { metadata, ..artist(&format!("a-{n}")) }).await.unwrap());
    }
    for resource in &written {
        server.delete(&id_of(resource), "").await.unwrap();
    }
    let dir = data.to_str().unwrap().to_owned();
    let compact = ["compact", "--data-dir", &dir];
    let (code, _, errors) = mortise(&compact, &[]).await;
    assert!(code == Some(1) && errors.contains("in use by another process"), "{code:?} {errors}");
    assert!(server.stop().await.success());
    let (code, out, errors) = mortise(&compact, &[]).await;
    assert_eq!(code, Some(0), "{errors}");
    let sizes: Vec<f64> = out.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [before, now] = sizes[..] else { panic!("{out}") };
    assert!(before > 4.0 && now < before / 2.0, "{out}");
    let (code, out, errors) = mortise(&["check", "--data-dir", &dir], &[]).await;
    assert!(code == Some(0) && out.contains("no problems found"), "{out}{errors}");
    let server = setup().start().await;
    assert_eq!(server.read(&id_of(&kept)).await.unwrap().version, kept.version);
    assert!(server.stop().await.success());
    let nowhere = place.path().join("nowhere");
    let (code, _, errors) = mortise(&["compact", "--data-dir", nowhere.to_str().unwrap()], &[]).await;
    assert!(code == Some(2) && errors.contains("holds no store"), "{code:?} {errors}");
    assert!(!nowhere.exists());
}
