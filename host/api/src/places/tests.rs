use super::*;

/// Takes places for connections, each a millisecond after the one before.
fn taken(places: &Arc<Places>, addresses: &[&str], begun: Instant) -> Vec<Option<Place>> {
    let take =
        |(n, address): (usize, &&str)| places.take(Source::from_key(*address), begun + Duration::from_millis(n as u64));
    addresses.iter().enumerate().map(take).collect()
}

fn has_left(place: Option<&Place>) -> bool {
    place.unwrap().usage.has_to_leave.load(Ordering::Relaxed)
}

#[test]
fn an_idle_connection_of_the_largest_address_makes_room() {
    let (places, now) = (Places::new("test", 6), Instant::now() + IDLE_TIME * 10);
    let held = taken(&places, &["b", "crowd", "crowd", "crowd", "crowd", "b"], now - IDLE_TIME * 9);
    let busy = held[1].as_ref().unwrap().usage.begin_call();
    held[2].as_ref().unwrap().usage.note_known_caller();
    let left = || held.iter().map(|place| has_left(place.as_ref())).collect::<Vec<_>>();
    let honest = places.take(Source::from_key("honest"), now).expect("an idle one gives way");
    assert_eq!(left(), [false, false, false, true, false, false], "a stranger, idle for longest");
    let second = places.take(Source::from_key("honest"), now).expect("another one");
    assert_eq!(left(), [false, false, false, true, true, false]);
    let itself = places.take(Source::from_key("b"), now).expect("a third one, at its own expense");
    assert_eq!(left(), [true, false, false, true, true, false]);
    drop(busy);
    drop((honest, second, itself, held));
    assert!(places.state.lock().addresses.is_empty());
    assert_eq!(places.state.lock().leaving, 0, "all have left");
}

#[test]
fn an_address_does_not_replace_its_own_connections_at_once() {
    let (places, begun) = (Places::new("test", 2), Instant::now());
    let held = taken(&places, &["a", "a"], begun);
    assert!(places.take(Source::from_key("a"), begun + IDLE_TIME / 2).is_none());
    assert!(places.take(Source::from_key("a"), begun + IDLE_TIME * 2).is_some());
    assert!(has_left(held[0].as_ref()));
}

#[test]
fn an_address_leaves_a_part_to_others() {
    let (places, later) = (Places::new("test", 8), Instant::now() + IDLE_TIME * 10);
    let held = taken(&places, &["crowd"; 7], later - IDLE_TIME * 9);
    let busy: Vec<_> = held.iter().flatten().map(|place| place.usage.begin_call()).collect();
    assert!(places.take(Source::from_key("crowd"), later).is_none(), "the rest is for other addresses");
    let honest = places.take(Source::from_key("honest"), later).expect("a place is left");
    let second = honest.usage.begin_call();
    drop(busy);
    assert!(places.take(Source::from_key("crowd"), later).is_some(), "at the expense of its own");
    assert!(!has_left(Some(&honest)));
    drop(second);
}

/// Takes places for connections with calls, each a millisecond after the one before.
fn busy(places: &Arc<Places>, addresses: &[&str], begun: Instant) -> (Vec<Option<Place>>, Vec<RunningCall>) {
    let (mut held, mut calls) = (Vec::new(), Vec::new());
    for (n, address) in addresses.iter().enumerate() {
        let place = places.take(Source::from_key(*address), begun + Duration::from_millis(n as u64));
        calls.extend(place.as_ref().map(|place| place.usage.begin_call()));
        held.push(place);
    }
    (held, calls)
}

fn left(held: &[Option<Place>]) -> Vec<usize> {
    (0..held.len()).filter(|n| has_left(held[*n].as_ref())).collect()
}

#[test]
fn a_busy_connection_of_the_largest_address_makes_room() {
    let (places, later) = (Places::new("test", 7), Instant::now() + IDLE_TIME * 10);
    let (held, _calls) = busy(&places, &["b", "a", "a", "a", "b", "c", "a"], later - IDLE_TIME * 9);
    let take = |address: &str| places.take(Source::from_key(address), later);
    let honest = take("honest").expect("the newest of the largest gives way");
    assert_eq!(left(&held), [6]);
    assert!(held[6].as_ref().unwrap().usage.ends_calls());
    let second = take("other").expect("the next one");
    assert_eq!(left(&held), [3, 6]);
    assert!(take("c").is_none(), "no other address has two more than it");
    let third = take("yet another").expect("one of an address that has two");
    assert_eq!(left(&held), [3, 4, 6], "the newest");
    let fourth = take("one more").expect("the last address that has two");
    assert_eq!(left(&held), [2, 3, 4, 6]);
    let fifth = take("another").expect("an idle one");
    assert!(
        [&honest, &second, &third, &fourth].into_iter().any(|place| has_left(Some(place))),
        "of those without calls"
    );
    drop((honest, second, third, fourth, fifth, held));
    assert_eq!(places.state.lock().leaving, 0, "all have left");
}

#[test]
fn addresses_with_equally_many_busy_connections_do_not_replace_each_other() {
    let (places, later) = (Places::new("test", 4), Instant::now() + IDLE_TIME * 10);
    let (held, _calls) = busy(&places, &["a", "b", "c", "d"], later - IDLE_TIME * 9);
    for address in ["a", "e"] {
        assert!(places.take(Source::from_key(address), later).is_none());
    }
    assert_eq!(left(&held), [0; 0]);
}

/// Each of many addresses with a connection leaves callers with credentials their reserve.
#[test]
fn a_part_is_for_callers_with_credentials() {
    let (places, begun) = (Places::with_reserve("test", 8, true), Instant::now());
    let crowd = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let (held, _calls) = busy(&places, &crowd, begun);
    let take = |address: &str, after: Duration| places.take(Source::from_key(address), begun + after);
    assert!(take("agent", IDLE_TIME / 2).is_none(), "each may still authenticate");
    let mut known = Vec::new();
    for n in 2..4 {
        let agent = take("agent", IDLE_TIME * n).expect("a place of the reserve");
        agent.usage.note_known_caller();
        known.push((agent.usage.begin_call(), agent));
    }
    assert_eq!(left(&held), [6, 7], "the newest");
    assert!(take("agent", IDLE_TIME * 9).is_none(), "the others keep three quarters");
    assert!(take("stranger", IDLE_TIME * 9).is_none(), "and those that have authenticated keep theirs");
    assert!(known.iter().all(|(_, agent)| !has_left(Some(agent))));
}

/// Connections with authenticated callers beyond the reserve are shared by address as all others.
#[test]
fn callers_with_credentials_keep_a_part_and_not_all() {
    for authenticated in 2..=4 {
        let (places, later) = (Places::with_reserve("test", 8, true), Instant::now() + IDLE_TIME * 10);
        let (held, _calls) = busy(&places, &["a", "a", "a", "a", "b", "c", "d", "e"], later - IDLE_TIME * 9);
        for place in held.iter().flatten().take(authenticated) {
            place.usage.note_known_caller();
        }
        let (newcomers, _calls) = busy(&places, &["f", "g", "h"], later);
        assert_eq!(newcomers.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(left(&held), [2, 3], "with {authenticated}");
    }
}
