//! Watches of a page, compared with searches over random histories.

use std::time::Duration;

use mortise_resource::{data::WatchResourcesRequest, goten::Meta, pb};
use prost_types::FieldMask;
use tokio::time::timeout;

use super::{PageClient, stateful};
use crate::support::{Server, any, demo, gvk, id, id_of, noted, resource};

const ARTIST: &str = "demo.v2.Artist";

/// Filters without a required value, with required labels and fields, and with several of these.
const FILTERS: [&str; 10] = [
    "",
    r#"meta.labels.env = "prod""#,
    r#"metadata.n >= "3""#,
    r#"metadata.n = "3""#,
    r#"data.groupMembers.lead = "l1""#,
    r#"data.groupMembers.lead IN ("l1", "l2") meta.labels.env = "prod""#,
    r#"meta.labels.env IN ("prod", "none")"#,
    r#"name IN ("c01", "c02", "c03", "c04", "c05")"#,
    r#"metadata.n IN ("1", "2", "4") data.genre = "GENRE_JAZZ" data.groupMembers.lead = "l0""#,
    r#"data.groupMembers.lead = "l1" OR (metadata.n = "2" data.groupMembers.lead = "l2")"#,
];

fn artist(name: &str, lead: &str, env: &str, n: &str) -> pb::Resource {
    let group_members = [("lead".to_owned(), lead.to_owned())].into_iter().collect();
    let data = demo::v2::Artist { name: name.into(), genre: demo::v2::Genre::Jazz.into(), group_members };
    let artist = resource(id(ARTIST, name), Some(any("hashicorp.consul.internal.demo.v2.Artist", &data)));
    let meta = Meta { labels: [("env".to_owned(), env.to_owned())].into(), ..Meta::default() };
    noted(pb::Resource { meta: Some(Box::new(meta)), ..artist }, &[("n", n)])
}

/// The page built from the changes equals that of a search after each write and its messages.
/// `MORTISE_WATCH_HISTORIES` sets the number of histories, `MORTISE_WATCH_SEED` selects them.
#[tokio::test]
async fn a_watched_page_is_that_of_a_search_after_each_message() {
    let of = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let histories: u64 = of("MORTISE_WATCH_HISTORIES", 40);
    let mut random = fastrand::Rng::with_seed(of("MORTISE_WATCH_SEED", 20));
    let server = Server::start().await;
    let (mut compared, mut told, mut tokens) = (0, 0, 0);
    for history in 0..histories {
        let filter = FILTERS[random.usize(..FILTERS.len())];
        let order =
            ["", "name desc", "metadata.n", "metadata.n desc, name", "meta.update_time desc"][random.usize(..5)];
        let mut request = WatchResourcesRequest {
            resource_type: Some(gvk(ARTIST)),
            max_chunk_size: random.i32(0..3),
            ..stateful(filter, order, random.i32(1..7))
        };
        if random.u8(..4) == 0 {
            request.field_mask = Some(FieldMask { paths: vec!["metadata.n".into()] });
        }
        let mut client = PageClient::open(&server, request.clone()).await;
        // Some watch a later page, and some of these the one before it.
        for _ in 0..random.usize(..3) {
            let (_, (prev, next)) = client.page(&server).await;
            let token = if random.u8(..3) == 0 { prev } else { next };
            if !token.is_empty() {
                request.page_token = token;
                client = PageClient::open(&server, request.clone()).await;
                tokens += 1;
            }
        }
        client.current().await;
        let (rows, page_tokens) = client.page(&server).await;
        assert_eq!((&client.rows, &client.tokens), (&rows, &page_tokens), "history {history}: {request:?}");
        for _ in 0..12 {
            let name = format!("c{:02}", random.u8(..16));
            let found = server.read(&id(ARTIST, &name)).await;
            match found {
                Ok(found) if random.u8(..3) == 0 => server.delete(&id_of(&found), "").await.unwrap(),
                _ => {
                    let env = ["prod", "test"][random.usize(..2)];
                    let n = random.u8(..6).to_string();
                    server.write(artist(&name, ["l0", "l1", "l2"][random.usize(..3)], env, &n)).await.unwrap();
                }
            }
            let (rows, page_tokens) = client.page(&server).await;
            if (&client.rows, &client.tokens) != (&rows, &page_tokens) {
                client.current().await;
                told += 1;
            }
            assert_eq!(client.rows, rows, "history {history}: {request:?}");
            assert_eq!(client.tokens, page_tokens, "history {history}: {request:?}");
            compared += 1;
        }
        assert!(timeout(Duration::from_millis(5), client.stream.message()).await.is_err(), "nothing more");
    }
    println!("{histories} histories, {compared} pages compared, {told} messages, {tokens} later pages");
    assert!(compared == histories * 12 && told > histories && tokens > histories / 4);
}
