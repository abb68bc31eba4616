//! Events of resources, without a server.

use jiff::Timestamp;
use mortise_resource::{
    data::{ControllerReport, ReconcileError},
    pb,
};
use serde_json::json;

use super::{
    compare::differences,
    event::{Event, EventKind, Moment, Wanted, moment_text, timestamp, to_message},
    failures::Failures,
    printer::yaml,
    remains,
};

fn id(name: &str, namespace: &str) -> pb::Id {
    pb::Id {
        name: name.into(),
        r#type: Some(pb::Type { group: "demo".into(), group_version: "v2".into(), kind: "Artist".into() }),
        tenancy: Some(pb::Tenancy { partition: "default".into(), namespace: namespace.into() }),
        uid: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(),
    }
}

fn wanted(name: Option<&str>, namespace: &str) -> Wanted {
    let id = id("", namespace);
    Wanted {
        ty: id.r#type.unwrap(),
        units: pb::Tenancy { partition: String::new(), namespace: namespace.into() },
        name: name.map(str::to_owned),
    }
}

fn at(seconds: i64) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds, nanos: 500 }
}

#[test]
fn a_type_a_place_and_a_name_choose_resources() {
    assert!(wanted(None, "").has(&id("korn", "default")));
    assert!(wanted(None, "*").has(&id("korn", "blue")));
    assert!(wanted(Some("korn"), "blue").has(&id("korn", "blue")));
    assert!(!wanted(Some("korn"), "blue").has(&id("miles", "blue")));
    assert!(!wanted(None, "").has(&id("korn", "blue")));
    let other = pb::Id { r#type: Some(pb::Type { kind: "Album".into(), ..id("", "").r#type.unwrap() }), ..id("a", "") };
    assert!(!wanted(None, "*").has(&other));
}

#[test]
fn changed_fields_are_named_by_their_paths() {
    let mut found = Vec::new();
    let before = json!({"data": {"genre": "A", "tracks": [1], "same": 1}, "name": "korn"});
    let now = json!({"data": {"genre": "B", "tracks": [1, 2], "same": 1, "new": {"x": 1}}, "name": "korn"});
    differences("", &before, &now, 0, &mut found);
    assert_eq!(found, ["data.genre", "data.new.x", "data.tracks"]);
    // Deep ones by their parents.
    let deep = |value: u8| json!({"a": {"b": {"c": {"d": {"e": value}}}}});
    let mut found = Vec::new();
    differences("", &deep(1), &deep(2), 0, &mut found);
    assert_eq!(found, ["a.b.c.d"]);
}

#[test]
fn a_resource_shows_its_creation_its_last_change_and_its_conditions() {
    let condition = pb::Condition {
        r#type: "Accepted".into(),
        state: pb::condition::State::False.into(),
        reason: "NoArtist".into(),
        message: "it has no artist".into(),
        resource: None,
    };
    let status = pb::Status { conditions: vec![condition], updated_at: Some(at(1_800_000_000)), ..Default::default() };
    let resource = pb::Resource {
        id: Some(id("korn", "default")),
        generation: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(),
        status: [("demo".to_owned(), status)].into_iter().collect(),
        meta: Some(Box::default()),
        ..pb::Resource::default()
    };
    let events = remains::of(&resource);
    let texts: Vec<_> = events.iter().map(|event| (event.kind, event.text.as_str())).collect();
    let expected = [
        (EventKind::Created, "seen in its uid"),
        (EventKind::Condition, "Accepted=False by demo: NoArtist: it has no artist"),
    ];
    assert_eq!(texts, expected);
}

#[test]
fn failures_are_shown_once_and_again_when_they_repeat() {
    let error = |last, count| ReconcileError {
        id: Some(id("korn", "default")),
        message: "no port".into(),
        count,
        first: Some(at(1_000)),
        last: Some(at(last)),
    };
    let report = |last, count| ControllerReport {
        name: "demo/albums".into(),
        last_errors: vec![error(last, count)],
        ..ControllerReport::default()
    };
    let wanted = [wanted(None, "")];
    let mut failures = Failures::default();
    let texts = |events: Vec<Event>| events.into_iter().map(|event| event.text).collect::<Vec<_>>();
    assert_eq!(texts(failures.of(&[report(1_000, 1)], &wanted)), ["demo/albums: no port"]);
    assert!(failures.of(&[report(1_000, 1)], &wanted).is_empty());
    let again = texts(failures.of(&[report(2_000, 2)], &wanted));
    assert_eq!(again, ["demo/albums: no port (2 times since 1970-01-01T00:16:40Z)"]);
    assert!(failures.of(&[report(3_000, 3)], &[super::tests::wanted(Some("miles"), "")]).is_empty());
}

#[test]
fn times_are_to_the_second_and_unknown_ones_come_first() {
    let time = Timestamp::new(1_000, 999_999_999).unwrap();
    assert_eq!(moment_text(time), "1970-01-01T00:16:40Z");
    assert_eq!(timestamp(to_message(time)), Some(time));
    let event = |moment| Event { moment, kind: EventKind::Deleted, id: pb::Id::default(), text: String::new() };
    let mut events = [event(Moment::At(time)), event(Moment::Unknown)];
    events.sort_by_key(Event::moment);
    assert_eq!(events.first().unwrap().moment, Moment::Unknown);
}

#[test]
fn an_event_is_an_item_of_yaml() {
    let text = yaml(&json!({"event": "written", "what": "a \"b\": c"}));
    assert_eq!(text, "- event: \"written\"\n  what: \"a \\\"b\\\": c\"\n");
}
