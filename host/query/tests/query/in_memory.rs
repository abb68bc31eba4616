//! Searches and updates of resources at hand.

use mortise_query::in_memory::{self, InMemoryError};
use mortise_resource::{
    data::{SearchRequest, UpdateRequest, update_request::Cas},
    pb,
};
use prost_types::FieldMask;

use crate::common::{SCHEMA, resource};

fn albums() -> Vec<pb::Resource> {
    let album = |n: usize| {
        let mut album = resource(&format!(r#"{{"title": "t{n}", "trackCount": {}}}"#, n % 3));
        album.id.as_mut().unwrap().name = format!("a{n}");
        album
    };
    (0..7).map(album).collect()
}

fn names(found: &[pb::Resource]) -> Vec<String> {
    found.iter().map(|resource| resource.id.clone().unwrap().name).collect()
}

#[test]
fn pages_there_and_back_are_the_whole() {
    let request = SearchRequest { order_by: "data.track_count desc".into(), ..SearchRequest::default() };
    let search = |request: &SearchRequest| in_memory::search(albums(), request, &SCHEMA).unwrap();
    let whole = names(&search(&request).resources);
    assert_eq!(whole, ["a5", "a2", "a4", "a1", "a6", "a3", "a0"]);
    let mut paged = SearchRequest { page_size: 3, include_paging_info: true, ..request };
    let (mut there, mut offsets) = (Vec::new(), Vec::new());
    let last = loop {
        let page = search(&paged);
        offsets.push((page.current_offset, page.total_results_count));
        there.extend(names(&page.resources));
        if page.next_page_token.is_empty() {
            break page;
        }
        paged.page_token = page.next_page_token;
    };
    assert_eq!((there, offsets), (whole.clone(), vec![(0, 7), (3, 7), (6, 7)]));
    let mut back = vec![names(&last.resources)];
    paged.page_token = last.prev_page_token;
    while !paged.page_token.is_empty() {
        let page = search(&paged);
        back.push(names(&page.resources));
        paged.page_token = page.prev_page_token;
    }
    back.reverse();
    assert_eq!(back.concat(), whole);
}

#[test]
fn filters_and_masks_are_the_servers() {
    let request = SearchRequest {
        filter: "data.track_count = 2".into(),
        field_mask: Some(FieldMask { paths: vec!["data.title".into()] }),
        ..SearchRequest::default()
    };
    let found = in_memory::search(albums(), &request, &SCHEMA).unwrap();
    assert_eq!(names(&found.resources), ["a2", "a5"]);
    assert!(found.resources[0].version.is_empty());
    let wrong = SearchRequest { filter: "data.nope = 2".into(), ..SearchRequest::default() };
    assert!(matches!(in_memory::search(albums(), &wrong, &SCHEMA), Err(InMemoryError::Query(_))));
}

#[test]
fn updates_change_what_the_mask_names_on_their_condition() {
    let stored = albums().remove(1);
    let mut incoming = resource(r#"{"title": "new", "trackCount": 9}"#);
    incoming.id.clone_from(&stored.id);
    let mask = |path: &str| Some(FieldMask { paths: vec![path.to_owned()] });
    let mut request =
        UpdateRequest { resource: Some(incoming.clone()), update_mask: mask("data.title"), ..UpdateRequest::default() };
    let next = in_memory::update(Some(&stored), &request, &SCHEMA).unwrap();
    let expected = resource(r#"{"title": "new", "trackCount": 1}"#);
    assert_eq!((next.data, next.id), (expected.data, stored.id.clone()));
    request.cas = Some(Cas { conditional_state: Some(incoming), field_mask: mask("data.track_count") });
    assert!(matches!(in_memory::update(Some(&stored), &request, &SCHEMA), Err(InMemoryError::Condition)));
}
