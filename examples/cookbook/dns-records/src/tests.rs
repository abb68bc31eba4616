//! Tests of the reconciler and of the import, in a world with a provider in memory.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use mortise_plugin::{
    Failure, HttpRequest, HttpResponse, Typed, pb,
    testing::{World, with_settings},
};

use crate::{
    PLUGIN, RECORD, ZONE,
    proto::dns::v1::{Record, Zone},
    sync::{REMOVE, STATUS},
};

const SETTINGS: &str = r#"{"endpoint": "http://dns.test", "token": "s3cret", "retry_seconds": 5}"#;

const URL: &str = "http://dns.test/zones/example.org/records/www/A";

/// Provider in memory: records by URL, the requests so far, and a fault to answer with.
#[derive(Default)]
struct Fake {
    records: BTreeMap<String, Vec<u8>>,
    requests: Vec<String>,
    fault: Option<Result<HttpResponse, Failure>>,
}

impl Fake {
    fn answer(&mut self, request: &HttpRequest) -> Result<HttpResponse, Failure> {
        self.requests.push(format!("{} {}", request.method, request.url));
        if let Some(fault) = &self.fault {
            return fault.clone();
        }
        if !request.headers.contains(&("authorization".to_owned(), b"Bearer s3cret".to_vec())) {
            return Ok(HttpResponse::new(401));
        }
        let found = match request.method.as_str() {
            "PUT" => self.records.insert(request.url.clone(), request.body.clone()).or_else(|| Some(Vec::new())),
            "DELETE" => self.records.remove(&request.url),
            _ => self.records.get(&request.url).cloned(),
        };
        Ok(found.map_or_else(|| HttpResponse::new(404), |body| HttpResponse::new(200).with_body(body)))
    }
}

/// A world with a zone and a record, and its provider.
fn world() -> (World, Rc<RefCell<Fake>>, pb::Id) {
    let (world, fake) = (World::new(&PLUGIN), Rc::new(RefCell::new(Fake::default())));
    let provider = fake.clone();
    world.answer_http(move |request| provider.borrow_mut().answer(request));
    let zone = Zone { domain: "example.org".into(), ttl: 600 };
    world.put(&Typed::new(ZONE.id("example-org", &World::tenancy()), zone)).unwrap();
    let record = Record {
        zone: "example-org".into(),
        host: "www".into(),
        r#type: "A".into(),
        values: vec!["192.0.2.1".into()],
        ttl: 0,
    };
    let id = world.put(&Typed::new(RECORD.id("www", &World::tenancy()), record)).unwrap().id().clone();
    (world, fake, id)
}

fn reason(world: &World, id: &pb::Id) -> String {
    let record = world.get::<Record>(id).unwrap();
    record.status_under(STATUS).unwrap().conditions[0].reason.clone()
}

#[test]
fn a_record_is_written_once() {
    with_settings(SETTINGS, || {
        let (world, fake, id) = world();
        world.settle().unwrap();
        assert_eq!(fake.borrow().records[URL], br#"{"ttl":600,"values":["192.0.2.1"]}"#);
        assert_eq!(fake.borrow().requests.iter().filter(|one| one.starts_with("PUT")).count(), 1);
        assert_eq!(reason(&world, &id), "Written");
        let record = world.get::<Record>(&id).unwrap();
        assert_eq!(record.metadata["finalizers"], REMOVE);
    });
}

#[test]
fn a_change_of_the_zone_reaches_its_records() {
    with_settings(SETTINGS, || {
        let (world, fake, _) = world();
        world.settle().unwrap();
        let mut zone = world.list(ZONE).remove(0);
        zone.data.ttl = 60;
        world.put(&zone).unwrap();
        world.settle().unwrap();
        assert_eq!(fake.borrow().records[URL], br#"{"ttl":60,"values":["192.0.2.1"]}"#);
    });
}

#[test]
fn the_provider_is_left_alone_while_it_asks_for_it() {
    with_settings(SETTINGS, || {
        let (world, fake, id) = world();
        fake.borrow_mut().fault = Some(Ok(HttpResponse::new(503).with_header("retry-after", "20")));
        let settled = world.settle().unwrap();
        assert_eq!(settled.later[0].wait, Duration::from_secs(20));
        assert_eq!(reason(&world, &id), "ProviderBusy");
        assert_eq!(fake.borrow().requests.len(), 1, "the status wakes the reconciler, which asks no more");
        world.advance(Duration::from_secs(19));
        assert_eq!(world.settle().unwrap().later[0].wait, Duration::from_secs(1));
        fake.borrow_mut().fault = None;
        world.advance(Duration::from_secs(1));
        world.settle().unwrap();
        assert_eq!(reason(&world, &id), "Written");
    });
}

#[test]
fn a_deletion_waits_for_the_provider() {
    with_settings(SETTINGS, || {
        let (world, fake, id) = world();
        world.settle().unwrap();
        fake.borrow_mut().fault = Some(Err(Failure::new(Failure::UNAVAILABLE, "connection refused")));
        world.delete(&id).unwrap();
        assert_eq!(world.settle().unwrap().later[0].wait, Duration::from_secs(5));
        assert_eq!(reason(&world, &id), "ProviderAway");
        fake.borrow_mut().fault = None;
        world.advance(Duration::from_secs(5));
        world.settle().unwrap();
        assert!(world.get::<Record>(&id).is_none() && fake.borrow().records.is_empty());
    });
}

#[test]
fn a_deletion_waits_while_the_provider_removes_the_record() {
    with_settings(SETTINGS, || {
        let (world, fake, id) = world();
        world.settle().unwrap();
        fake.borrow_mut().fault = Some(Ok(HttpResponse::new(202).with_header("retry-after", "9")));
        world.delete(&id).unwrap();
        let later = world.settle().unwrap().later.remove(0);
        assert_eq!(
            (later.wait, later.reason.as_deref()),
            (Duration::from_secs(9), Some("the provider removes the record"))
        );
        assert_eq!(world.get::<Record>(&id).unwrap().metadata["finalizers"], REMOVE);
        fake.borrow_mut().fault = None;
        fake.borrow_mut().records.clear();
        world.settle().unwrap();
        assert!(world.get::<Record>(&id).is_none(), "404 is the end");
    });
}

#[test]
fn a_wrong_setting_is_named() {
    let findings = |text: &str| {
        PLUGIN.check(text).iter().map(|one| format!("{}: {}", one.path, one.summary)).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(findings(SETTINGS), "");
    assert_eq!(findings("{}"), "endpoint: required; set it");
    assert!(findings(r#"{"endpoint": "https://a", "tokn": "t"}"#).starts_with("tokn: unknown setting"));
    assert!(findings(r#"{"endpoint": "https://a/"}"#).starts_with("endpoint: must be a URL"));
}

#[test]
fn a_wrong_token_is_no_reason_to_try_again() {
    with_settings(r#"{"endpoint": "http://dns.test"}"#, || {
        let (world, _, id) = world();
        world.settle().unwrap();
        assert_eq!(reason(&world, &id), "NotConfigured", "neither a token nor a secret");
        world.grant_secret("token", b"wrong");
        assert_eq!(world.settle().unwrap().later, []);
        assert_eq!(reason(&world, &id), "TokenRefused");
        world.grant_secret("token", b"s3cret\n");
        world.settle().unwrap();
        assert_eq!(reason(&world, &id), "Written");
    });
}

#[test]
fn a_record_of_the_provider_is_imported() {
    with_settings(SETTINGS, || {
        let (world, _, id) = world();
        world.settle().unwrap();
        let import = |external_id: &str| world.import(RECORD, &World::tenancy(), external_id);
        let found = import("example.org/www/A").unwrap().resource;
        assert_eq!((found.name(), found.data.zone.as_str(), found.data.ttl), ("www-example-org-a", "example-org", 600));
        assert_eq!(found.data.values, world.get::<Record>(&id).unwrap().data.values);
        let refused = |external_id: &str| import(external_id).unwrap_err().message;
        assert_eq!(refused("example.org/mail/A"), "the provider has no A record mail in example.org");
        assert!(refused("www.example.org").starts_with("an id is DOMAIN/HOST/TYPE"));
    });
}

#[test]
fn a_plan_has_the_finalizer() {
    let (world, _, id) = world();
    let plan = world.plan(&world.get::<Record>(&id).unwrap()).unwrap();
    assert_eq!(plan.predicted.metadata["finalizers"], REMOVE);
}
