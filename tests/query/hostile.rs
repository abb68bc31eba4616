//! Filters, selectors, orders and masks of any shape, beside honest clients: each is answered, or refused with a code
//! and a reason; memory does not grow, and small requests of others are served all the time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use fastrand::Rng;
use mortise_api::{QueryServiceClient, WatchServiceClient};
use mortise_resource::{
    data::{SearchRequest, WatchResourcesRequest},
    goten::{LabelSelector, LabelSelectorRequirement, WatchType},
    pb,
};
use prost_types::FieldMask;
use tokio::task::JoinSet;
use tonic::{Code, transport::Channel};

use crate::support::{PATIENCE, Server, artist, gvk, id, labelled};

const ARTIST: &str = "demo.v2.Artist";
/// Memory that the server may keep afterwards, MiB.
const KEPT_MIB: usize = 192;
/// Concurrent hostile clients.
const HOSTILE: u64 = 8;

/// Valid conditions.
const FITTING: [&str; 8] = [
    r#"data.name != "x""#,
    r#"data.genre IN ("GENRE_JAZZ", "GENRE_POP", 7)"#,
    r#"meta.labels.env = "prod""#,
    r#"metadata.k > "1""#,
    r#"NOT meta.tags HAS ANY ("a", "b")"#,
    "data.group_members.x IS NULL",
    r#"meta.create_time > "2020-01-01T00:00:00Z""#,
    r#"name = "-/-/a1""#,
];

/// A condition that is valid, or nearly.
fn condition(random: &mut Rng) -> String {
    if random.u8(..3) > 0 {
        return FITTING[random.usize(..FITTING.len())].to_owned();
    }
    let paths = [
        "data.name",
        "data.genre",
        "meta.labels.env",
        r"meta.labels.a\.b",
        "metadata.k",
        "name",
        "id.uid",
        "meta.tags",
        "meta.generation",
        "meta.create_time",
        "data.group_members.x",
        "status.x.conditions.type",
        "version",
        "nope.x",
        "data",
        "meta.owner_references.kind",
        "id.type",
    ];
    let values = [
        "\"x\"",
        "1",
        "-1e308",
        "1e999",
        "TRUE",
        "NULL",
        "\"GENRE_JAZZ\"",
        "GENRE_JAZZ",
        "\"2020-01-01T00:00:00Z\"",
        "{}",
        "{a: 1}",
        "\"default/-/x\"",
        "99999999999999999999999999",
        "NaN",
    ];
    let path = paths[random.usize(..paths.len())];
    let mut value = || values[random.usize(..values.len())];
    let (one, other) = (value(), value());
    match random.u8(..9) {
        0 => format!("{path} IS NULL"),
        1 => format!("{path} IS NOT NAN"),
        2 => format!("{path} IN ({one}, {other})"),
        3 => format!("{path} NOT IN [{one}]"),
        4 => format!("{path} CONTAINS {one}"),
        5 => format!("{path} HAS ALL ({one}, {other})"),
        6 => format!("NOT {path} LIKE {one}"),
        7 => format!("{path} {} {one}", ["=", "==", "!=", "<", "<=", ">", ">="][random.usize(..7)]),
        _ => format!("{path} {one} -- {other}\n"),
    }
}

/// A filter that is long, deep, wide, random, or nearly valid.
fn filter(random: &mut Rng) -> String {
    match random.u8(..14) {
        0..=3 => (0..random.usize(1..8))
            .map(|_| condition(random))
            .collect::<Vec<_>>()
            .join([" AND ", " OR ", " ", " | "][random.usize(..4)]),
        4 => {
            let deep = random.usize(1..200);
            format!("{}{}{}", "(".repeat(deep), condition(random), ")".repeat(deep))
        }
        5 => "(".repeat(random.usize(1..70_000)),
        6 => format!("{}data.name = \"x\"", "NOT ".repeat(random.usize(1..20_000))),
        7 => {
            let many = random.usize(1..3_000);
            format!("data.name IN ({})", (0..many).map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(","))
        }
        8 => format!("data.name = \"{}\"", "x".repeat(random.usize(1..80_000))),
        9 => vec![condition(random); random.usize(1..1_500)].join(" OR "),
        10 => (0..random.usize(1..500)).map(|_| char::from_u32(random.u32(..0x11_0000)).unwrap_or('"')).collect(),
        11 => format!("metadata.k = {}1{}", "{a: ".repeat(random.usize(1..5_000)), "}".repeat(random.usize(1..5_000))),
        12 => format!("{}.x = 1", vec!["data"; random.usize(1..2_000)].join(".")),
        _ => {
            // A valid filter, broken at a random place.
            let mut text: Vec<char> = condition(random).repeat(random.usize(1..20)).chars().collect();
            let at = random.usize(..text.len());
            text[at] = ['(', ')', '"', '\\', '\0', ',', '{', '-'][random.usize(..8)];
            text.into_iter().collect()
        }
    }
}

fn selector(random: &mut Rng) -> Option<LabelSelector> {
    let wide = if random.u8(..10) == 0 { random.usize(1..2_000) } else { random.usize(1..5) };
    let requirement = |random: &mut Rng| LabelSelectorRequirement {
        key: ["env", "", "a.b", "x"][random.usize(..4)].to_owned(),
        operator: ["In", "NotIn", "Exists", "DoesNotExist", "in"][random.usize(..5)].to_owned(),
        values: vec!["prod".to_owned(); if random.bool() { 0 } else { random.usize(1..1_200) }],
    };
    match random.u8(..8) {
        0 => Some(LabelSelector {
            match_labels: [("env".to_owned(), "prod".to_owned())].into(),
            match_expressions: (0..wide).map(|_| requirement(random)).collect(),
        }),
        _ => None,
    }
}

fn search(random: &mut Rng) -> SearchRequest {
    let order = match random.u8(..12) {
        0 => vec!["data.name desc"; random.usize(1..64)].join(","),
        1 => "data.group_members".to_owned(),
        2 => "meta.update_time, data.genre desc".to_owned(),
        _ => String::new(),
    };
    let paths = match random.u8(..12) {
        0 => vec!["data.name".to_owned(); random.usize(1..1_500)],
        1 => vec![format!("data{}", ".group_members".repeat(random.usize(1..2_000)))],
        _ => Vec::new(),
    };
    SearchRequest {
        r#type: Some(gvk(ARTIST)),
        filter: filter(random),
        selector: selector(random),
        order_by: order,
        field_mask: (!paths.is_empty()).then_some(FieldMask { paths }),
        page_size: if random.u8(..20) == 0 { -1 } else { random.i32(0..2_000) },
        page_token: if random.u8(..20) == 0 { "r.e.S.////".to_owned() } else { String::new() },
        view: if random.u8(..20) == 0 { 7 } else { random.i32(0..5) },
        include_paging_info: random.bool(),
        explain: true,
        ..SearchRequest::default()
    }
}

async fn ask(channel: &Channel, random: &mut Rng) -> Code {
    let request = search(random);
    let code = |status: tonic::Status| status.code();
    if random.u8(..8) > 0 {
        let mut client = QueryServiceClient::new(channel.clone());
        let asked = client.search(request);
        return tokio::time::timeout(PATIENCE, asked).await.expect("an answer in time").map_or_else(code, |_| Code::Ok);
    }
    let SearchRequest { filter, selector, order_by, field_mask, page_size, page_token, view, .. } = request;
    let request = WatchResourcesRequest {
        resource_type: Some(gvk(ARTIST)),
        r#type: if random.bool() { WatchType::Stateful } else { WatchType::Stateless }.into(),
        filter,
        selector,
        order_by: if random.bool() { order_by } else { String::new() },
        field_mask,
        page_size: if random.bool() { page_size } else { 0 },
        page_token,
        view,
        max_chunk_size: random.i32(-1..5_000),
        resume_token: if random.u8(..9) == 0 { "AQAA".to_owned() } else { String::new() },
        ..WatchResourcesRequest::default()
    };
    let mut opened = match WatchServiceClient::new(channel.clone()).watch_resources(request).await {
        Ok(opened) => opened.into_inner(),
        Err(status) => return status.code(),
    };
    let first = tokio::time::timeout(PATIENCE, opened.message()).await.expect("a message in time");
    first.map_or_else(code, |_| Code::Ok)
}

/// Runs an honest client: a read, a write and a search by a label; returns the time of each round.
async fn honest(server: Arc<Server>, channel: Channel, over: Arc<AtomicBool>) -> Vec<Duration> {
    let mut took = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        server.read(&id(ARTIST, "honest")).await.expect("a read");
        server.write(labelled(artist("honest"), &[("honest", "yes")])).await.expect("a write");
        let request = SearchRequest {
            r#type: Some(gvk(ARTIST)),
            filter: r#"meta.labels.honest = "yes""#.into(),
            ..SearchRequest::default()
        };
        let found = QueryServiceClient::new(channel.clone()).search(request).await.expect("a search").into_inner();
        assert_eq!(found.resources.len(), 1);
        took.push(begun.elapsed());
    }
    took.sort();
    took
}

/// `MORTISE_HOSTILE_QUERIES` sets the number of queries, `MORTISE_HOSTILE_SEED` selects them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_queries_cost_bounded_work_and_hurt_no_other_client() {
    let of = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse::<u64>().unwrap());
    let (queries, seed) = (of("MORTISE_HOSTILE_QUERIES", 800), of("MORTISE_HOSTILE_SEED", 20));
    let server = Arc::new(Server::start().await);
    for n in 0..300 {
        let resource = labelled(artist(&format!("a{n}")), &[("env", ["prod", "test"][n % 2])]);
        server.write(pb::Resource { metadata: [("k".to_owned(), n.to_string())].into(), ..resource }).await.unwrap();
    }
    server.write(labelled(artist("honest"), &[("honest", "yes")])).await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let honest = tokio::spawn(honest(server.clone(), server.channel().await, over.clone()));
    let before = server.resident_bytes();
    let mut hostile = JoinSet::new();
    for lane in 0..HOSTILE {
        let channel = server.channel().await;
        hostile.spawn(async move {
            let mut random = Rng::with_seed(seed.wrapping_mul(HOSTILE) + lane);
            let (mut answered, mut refused, mut slowest) = (0_u64, 0_u64, Duration::ZERO);
            for _ in 0..queries / HOSTILE {
                let begun = Instant::now();
                match ask(&channel, &mut random).await {
                    Code::Ok => answered += 1,
                    Code::InvalidArgument | Code::ResourceExhausted => refused += 1,
                    code => panic!("{code:?}"),
                }
                slowest = slowest.max(begun.elapsed());
            }
            (answered, refused, slowest)
        });
    }
    let (mut answered, mut refused, mut slowest) = (0, 0, Duration::ZERO);
    while let Some(lane) = hostile.join_next().await {
        let lane = lane.unwrap();
        (answered, refused, slowest) = (answered + lane.0, refused + lane.1, slowest.max(lane.2));
    }
    over.store(true, Ordering::Relaxed);
    let took = honest.await.unwrap();
    let kept = server.resident_bytes().saturating_sub(before) >> 20;
    println!(
        "{answered} answered and {refused} refused, the slowest in {slowest:?}; beside them {} honest rounds, the median in \
         {:?}, the slowest in {:?}; {kept} MiB kept",
        took.len(),
        took[took.len() / 2],
        took[took.len() - 1],
    );
    assert_eq!(answered + refused, queries / HOSTILE * HOSTILE);
    assert!(answered > queries / 10 && refused > queries / 10, "{answered} answered, {refused} refused");
    assert!(took.len() > 10, "honest clients go on: {}", took.len());
    assert!(kept < KEPT_MIB, "{kept} MiB are kept");
}
