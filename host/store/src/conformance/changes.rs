//! Tests of watches of changes, from the present content and from a position on.

use mortise_resource::pb;

use super::fixtures::{
    decoded, delete, everything, id, labelled, numbered, page, places, query, resource, resource_in, tenancy, type_of,
    write,
};
use crate::{
    Backend, ChangeEvent, ChangeStep, ChangeWatch, OpenedChanges, Position, PriorState, Query, ScanPart, Term,
    TermField, TermSubject,
};

/// A change in the model.
#[derive(Debug, Clone, PartialEq)]
struct Step {
    before: Option<pb::Resource>,
    now: Option<pb::Resource>,
}

fn step(change: ChangeEvent) -> Step {
    let before = match change.before {
        PriorState::Absent => None,
        PriorState::Resource(resource) => Some(decoded(&resource)),
        PriorState::Unknown => panic!("the history has everything: {:?}", change.now),
    };
    Step { before, now: change.now.as_ref().map(decoded) }
}

async fn next<W: ChangeWatch + ?Sized>(watch: &mut W) -> ChangeEvent {
    match watch.next().await.unwrap() {
        ChangeStep::Change(change) => change,
        ChangeStep::CaughtUp(position) => panic!("caught up at {position:?}"),
    }
}

/// Returns every change up to the end of the replay.
async fn replay<B: Backend>(store: &B, query: &Query, part: &ScanPart, from: Position) -> (Vec<Step>, Position) {
    let mut watch = store.changes_after(query, part, &[], from).await.unwrap().expect("it is in the history");
    let mut steps = Vec::new();
    loop {
        assert_eq!(watch.ready().unwrap(), None);
        assert_eq!(watch.newest(), None);
        match watch.next().await.unwrap() {
            ChangeStep::Change(change) => steps.push(step(change)),
            ChangeStep::CaughtUp(position) => {
                assert_eq!(watch.newest(), Some(position));
                return (steps, position);
            }
        }
    }
}

fn of_label(value: &str) -> ScanPart {
    ScanPart { label: Some(("env".into(), value.into())), after: None }
}

fn is_in(part: &ScanPart, resource: &pb::Resource) -> bool {
    let labels = resource.meta.as_deref().map(|meta| meta.labels.clone()).unwrap_or_default();
    part.label.as_ref().is_none_or(|(label, value)| labels.get(label) == Some(value))
}

fn concerning(steps: &[Step], part: &ScanPart, query: &Query) -> Vec<Step> {
    let matches = |resource: &Option<pb::Resource>| {
        resource.as_ref().is_some_and(|resource| {
            is_in(part, resource) && resource.id.as_ref().unwrap().name.starts_with(&query.name_prefix)
        })
    };
    steps.iter().filter(|step| matches(&step.before) || matches(&step.now)).cloned().collect()
}

fn env(values: &[&str]) -> Term {
    Term { subject: TermSubject::Label("env".into()), values: values.iter().map(|value| (*value).to_owned()).collect() }
}

/// Makes conjunctions of terms; the field is the last digit of the number, unknown for 9.
fn terms() -> [Vec<Term>; 8] {
    let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    let name = Term { subject: TermSubject::Name, values: values(&["r-03", "r-11", "none"]) };
    let digit = TermField::new("digit", |resource| digit(&decoded(resource)).map(|digit| vec![digit]));
    let digit = |texts: &[&str]| Term { subject: TermSubject::Field(digit.clone()), values: values(texts) };
    let elsewhere = Term::for_tenancy(&tenancy("default", "elsewhere"));
    [
        Vec::new(),
        vec![env(&["a", "b"])],
        vec![name.clone()],
        vec![digit(&["1"])],
        vec![Term::for_tenancy(&tenancy("default", "default")), env(&["a"]), digit(&["1", "2", "3", "4"])],
        vec![digit(&["5", "6"]), name, env(&["b", "c"])],
        vec![digit(&[])],
        vec![elsewhere, env(&["a"])],
    ]
}

fn digit(resource: &pb::Resource) -> Option<String> {
    let number = resource.metadata.get("n").cloned().unwrap_or_default();
    number.chars().last().filter(|digit| *digit != '9').map(String::from)
}

/// Whether each term holds for a step; true where that is unknown.
fn holds(step: &Step, terms: &[Term]) -> bool {
    terms.iter().all(|Term { subject, values }| {
        !values.is_empty()
            && step.before.iter().chain(&step.now).any(|resource| match subject {
                TermSubject::Name => values.contains(&id(resource).name),
                TermSubject::NamePrefix => values.iter().any(|prefix| id(resource).name.starts_with(prefix)),
                TermSubject::Partition => values.contains(&id(resource).tenancy.unwrap().partition),
                TermSubject::Namespace => values.contains(&id(resource).tenancy.unwrap().namespace),
                TermSubject::Tenancy => values == &Term::for_tenancy(&id(resource).tenancy.unwrap()).values,
                TermSubject::Label(label) => resource
                    .meta
                    .as_deref()
                    .and_then(|meta| meta.labels.get(label))
                    .is_some_and(|it| values.contains(it)),
                TermSubject::Field(_) => digit(resource).is_none_or(|digit| values.contains(&digit)),
            })
    })
}

/// A watch opened in the midst of a history.
struct Live {
    begun: usize,
    query: Query,
    part: ScanPart,
    terms: Vec<Term>,
    opened: OpenedChanges,
    found: Vec<Step>,
}

/// A random history with its positions, and the changes that watches opened in its midst get.
pub async fn each_change_comes_once_from_any_start<B: Backend>(store: &B) {
    let queries = [everything(), query("*", "*", "r-1")];
    let parts = [ScanPart::default(), of_label("a"), of_label("b"), of_label("none")];
    // A linear congruential generator; its high bits are random enough for a history.
    let mut seed: u64 = 20;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let mut stored: Vec<Option<pb::Resource>> = vec![None; 12];
    let mut steps: Vec<Step> = Vec::new();
    let mut positions: Vec<Position> = Vec::new();
    let mut live: Vec<Live> = Vec::new();
    for n in 0..400_u64 {
        if n % 10 == 7 && n < 360 {
            let (query, part, terms) = (&queries[random(2)], &parts[random(4)], &terms()[random(8)]);
            let mut opened = store.open_changes(query, part, terms).await.unwrap();
            let mut content = Vec::new();
            while let Some(page) = page(&mut opened.content).await {
                content.extend(page);
            }
            let expected = stored.iter().flatten().filter(|resource| {
                is_in(part, resource) && resource.id.as_ref().unwrap().name.starts_with(&query.name_prefix)
            });
            assert_eq!(places(&content), places(&expected.cloned().collect::<Vec<_>>()));
            assert_eq!(opened.position, positions.last().copied().unwrap_or_default());
            let (query, part, terms) = (query.clone(), part.clone(), terms.clone());
            live.push(Live { begun: steps.len(), query, part, terms, opened, found: Vec::new() });
        }
        let slot = random(stored.len());
        let before = stored[slot].take();
        if let Some(stored) = before.as_ref().filter(|_| random(4) == 0) {
            delete(store, stored).await;
        } else {
            let base = before.clone().unwrap_or_else(|| resource(&format!("r-{slot:02}")));
            let value = ["a", "b", "c"][random(3)];
            stored[slot] = Some(write(store, &numbered(labelled(base, "env", value), n)).await);
        }
        steps.push(Step { before, now: stored[slot].clone() });
        // Changes outside these queries move the positions, too.
        if n % 10 == 0 {
            let other = resource_in(type_of("v1", "B"), tenancy("default", "default"), &format!("other-{n}"));
            write(store, &labelled(other, "env", "a")).await;
        }
        for Live { opened, found, .. } in &mut live {
            found.extend(opened.changes.ready().unwrap().map(step));
            assert_eq!(opened.changes.ready().unwrap(), None, "each once");
        }
        positions.push(store.open_changes(&everything(), &ScanPart::default(), &[]).await.unwrap().position);
    }
    let (mut compared, mut hidden) = (0, 0);
    for Live { begun, query, part, terms, opened, mut found } in live {
        let mut expected = concerning(&steps[begun..], &part, &query);
        hidden += expected.len().saturating_sub(found.len());
        found.retain(|step| holds(step, &terms));
        expected.retain(|step| holds(step, &terms));
        assert_eq!(found, expected, "{terms:?}");
        assert_eq!(opened.changes.newest(), positions.last().copied());
        compared += found.len();
    }
    assert!(compared > 500, "{compared} live, {hidden} hidden");
    for (begun, position) in [(0, Position::default())].into_iter().chain((1..).zip(positions.iter().copied())) {
        for query in &queries {
            for part in &parts {
                let (found, end) = replay(store, query, part, position).await;
                assert_eq!(found, concerning(&steps[begun..], part, query), "from {begun}");
                assert_eq!(end, *positions.last().unwrap());
                compared += found.len();
            }
        }
    }
    assert!(compared > 100_000, "{compared}");
}

/// A resumed watch also gets the changes after its replay.
pub async fn a_replay_continues_with_live_changes<B: Backend>(store: &B) {
    let first = write(store, &labelled(resource("r"), "env", "a")).await;
    let from = store.open_changes(&everything(), &of_label("a"), &[]).await.unwrap().position;
    let second = write(store, &numbered(first.clone(), 2)).await;
    let mut watch = store.changes_after(&everything(), &of_label("a"), &[env(&["a"])], from).await.unwrap().unwrap();
    let third = write(store, &labelled(second.clone(), "env", "b")).await;
    write(store, &numbered(third.clone(), 4)).await;
    assert_eq!(step(next(&mut *watch).await), Step { before: Some(first), now: Some(second.clone()) });
    assert!(matches!(watch.next().await.unwrap(), ChangeStep::CaughtUp(_)));
    assert_eq!(step(next(&mut *watch).await), Step { before: Some(second), now: Some(third) });
    assert_eq!(watch.ready().unwrap(), None, "it has left");
}

/// Positions that the store never had, and those of another history, are rejected.
pub async fn a_position_of_elsewhere_is_not_followed<B: Backend>(store: &B) {
    let stored = write(store, &resource("r")).await;
    let here = store.open_changes(&everything(), &ScanPart::default(), &[]).await.unwrap().position;
    for position in [
        Position { sequence: here.sequence + 1, ..here },
        Position { sequence: u64::MAX, ..here },
        Position { check: here.check ^ 1, ..here },
        Position { sequence: 0, check: 1 },
    ] {
        assert!(store.changes_after(&everything(), &ScanPart::default(), &[], position).await.unwrap().is_none());
    }
    delete(store, &stored).await;
    let (steps, end) = replay(store, &everything(), &ScanPart::default(), here).await;
    assert_eq!(steps.len(), 1);
    assert_eq!(steps[0].before.as_ref().map(id), Some(id(&stored)));
    assert_ne!(end, here);
}
