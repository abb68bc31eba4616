//! Results of filters.

use mortise_query::{Candidate, Filter, Schema};
use mortise_resource::{EncodedResource, pb};

use crate::common::{SCHEMA, check, message, resource, try_matches};

#[test]
fn integers_are_exact() {
    let candidate = resource(
        r#"{"trackCount": 5, "plays": "9007199254740993", "small": 4294967295, "large": "18446744073709551615",
            "signedSmall": -3, "signedLarge": "-9223372036854775808", "fixedSmall": 7, "fixedLarge": "8",
            "sfixedSmall": -9, "sfixedLarge": "-10"}"#,
    );
    check(
        &candidate,
        &[
            ("data.track_count = 5", true),
            ("data.trackCount > 4 data.track-count < 6", true),
            ("data.track_count = 5.0", true),
            ("data.track_count = 50e-1", true),
            (r#"data.track_count = "5""#, true),
            ("data.plays = 9007199254740993", true),
            ("data.plays = 9007199254740992", false),
            ("data.plays > 9007199254740992", true),
            ("data.small = 4294967295", true),
            ("data.large = 18446744073709551615", true),
            ("data.large > 18446744073709551614", true),
            ("data.signed_small <= -3", true),
            ("data.signed_large = -9223372036854775808", true),
            ("data.fixed_small = 7 data.fixed_large = 8 data.sfixed_small = -9 data.sfixed_large = -10", true),
            ("data.track_count IN (1, 5)", true),
            ("data.track_count NOT IN (1, 5)", false),
        ],
    );
}

#[test]
fn other_scalars() {
    let candidate = resource(
        r#"{"title": "Kind of Blue", "ratio": 0.1, "score": "NaN", "live": true, "cover": "AP8=", "genre": "GENRE_JAZZ",
            "released": "1959-08-17T00:00:00.5Z", "length": "2745.5s", "wrapped": "0", "wrappedText": "w", "wrappedFlag": true}"#,
    );
    check(
        &candidate,
        &[
            (r#"data.title = "Kind of Blue""#, true),
            (r#"data.title == "Kind of Blue""#, true),
            (r#"data.title > "K" data.title < "L""#, true),
            (r#"data.title < "a""#, true),
            ("data.ratio = 0.1", true),
            ("data.ratio > 0.1", false),
            ("data.score IS NAN", true),
            ("data.score IS NOT NAN", false),
            ("data.ratio IS NOT NAN", true),
            ("data.score = 1", false),
            ("data.score != 1", true),
            ("data.score < 1", false),
            ("data.live = TRUE", true),
            ("data.live != false", true),
            ("data.live > FALSE", true),
            (r#"data.cover = "AP8=""#, true),
            (r#"data.cover = "AP8""#, true),
            (r#"data.cover = "_wA""#, false),
            (r#"data.genre = "GENRE_JAZZ""#, true),
            ("data.genre = 1", true),
            (r#"data.genre < "GENRE_ROCK""#, true),
            (r#"data.genre IN ("GENRE_ROCK", 1)"#, true),
            (r#"data.released = "1959-08-17T00:00:00.500Z""#, true),
            (r#"data.released = "1959-08-17T01:00:00.5+01:00""#, true),
            (r#"data.released < "1960-01-01T00:00:00Z""#, true),
            (r#"data.length = "2745.500s""#, true),
            (r#"data.length > "2745s""#, true),
            ("data.wrapped = 0", true),
            ("data.wrapped IS NULL", false),
            (r#"data.wrapped_text = "w" data.wrapped_flag = TRUE"#, true),
        ],
    );
}

#[test]
fn what_is_absent() {
    let candidate = resource(r#"{"inners": [{"name": "x"}]}"#);
    check(
        &candidate,
        &[
            (r#"data.title = """#, true),
            ("data.title IS NULL", false),
            ("data.title = NULL", false),
            ("data.title != NULL", true),
            ("data.inner IS NULL", true),
            ("data.inner != NULL", false),
            ("data.inner.name IS NULL", true),
            (r#"data.inner.name = """#, true),
            ("data.inner.below.count = 0", true),
            ("data.inner.below.count < 1", true),
            ("data.names IS NULL", true),
            ("data.inners IS NULL", false),
            ("data.texts IS NULL", true),
            ("data.maybe IS NULL", true),
            ("data.maybe = 0", true),
            ("data.word IS NULL", true),
            ("data.genre = \"GENRE_NONE\"", true),
            ("meta.labels.none IS NULL", true),
            ("meta.labels.none = \"\"", true),
            ("meta.labels.none != \"x\"", true),
            ("meta.labels.empty IS NULL", false),
            ("meta.labels.region NOT IN (\"us\")", true),
            ("meta.labels.none NOT IN (\"us\")", true),
            ("data.released < \"2100-01-01T00:00:00Z\"", true),
            ("data.released <= \"0001-01-01T00:00:00Z\"", true),
            ("data.released != \"2100-01-01T00:00:00Z\"", true),
            ("data.released = \"2100-01-01T00:00:00Z\"", false),
            ("data.released > \"0001-01-01T00:00:00Z\"", false),
            ("data.released >= \"0001-01-01T00:00:00Z\"", false),
            ("meta.delete_time < \"2100-01-01T00:00:00Z\"", true),
            ("meta.syncing.owning_region = \"\" meta.syncing.owning_region IS NULL", true),
            ("data.wrapped = 0", true),
            ("data.wrapped IS NULL", true),
            ("data.score IS NAN", false),
            // Paths through a list see only existing messages.
            ("data.inners.count = 0", true),
            ("data.inners.below.name IS NULL", true),
            ("data.inners.name IS NOT NULL", true),
            ("data.inner.more IS NULL", true),
        ],
    );
    let empty = pb::Resource { data: None, meta: None, ..candidate };
    check(
        &empty,
        &[
            ("data IS NULL", true),
            ("data.title IS NULL", true),
            ("data.title = \"\"", true),
            ("meta.owner_references.name = \"\"", false),
            ("meta.owner_references.name != \"x\"", true),
            ("meta.owner_references.name IS NULL", true),
            ("NOT meta.owner_references.name = \"x\"", true),
            ("meta.tags CONTAINS \"red\"", false),
        ],
    );
}

#[test]
fn the_resource_itself() {
    check(
        &resource("{}"),
        &[
            (
                r#"id.name = "d1" id.tenancy.partition = "default" id.uid = "uid-d1" version = "17" generation = "01G""#,
                true,
            ),
            (r#"owner.name = "group""#, true),
            (r#"metadata.k = "v""#, true),
            (r#"metadata.a\.b = "dotted""#, true),
            (r#"status.sync.conditions.type = "Accepted""#, true),
            (r#"status.sync.conditions.state = "STATE_TRUE""#, true),
            (r#"status.other.conditions.state = "STATE_TRUE""#, false),
            ("status.other IS NULL", true),
            ("schema_version = 3 schemaVersion >= 3", true),
            ("meta.generation = 4", true),
            (r#"meta.create-time = "2023-11-14T22:13:20Z""#, true),
            (r#"meta.lifecycle.state = "ACTIVE""#, true),
            (r#"meta.shards.byName = 7"#, true),
            (r#"meta.labels.my-key = "1""#, true),
        ],
    );
}

#[test]
fn lists_maps_and_messages() {
    let candidate = resource(
        r#"{"names": ["a", "b"], "numbers": [1, 2], "genres": ["GENRE_ROCK"], "inner": {"name": "n", "below": {"count": 2}},
            "inners": [{"name": "x", "count": 1, "tags": ["t"]}, {"name": "y"}], "texts": {"k": "v", "k:l": "w"}, "byNumber": {"-5": "five"},
            "byBool": {"true": "9"}, "parts": {"one": {"name": "p"}}, "dates": ["2020-01-01T00:00:00Z"]}"#,
    );
    check(
        &candidate,
        &[
            (r#"data.names CONTAINS "a""#, true),
            (r#"data.names HAS "c""#, false),
            (r#"NOT data.names CONTAINS "c""#, true),
            (r#"data.names CONTAINS ANY ("c", "b")"#, true),
            (r#"data.names CONTAINS ALL ("a", "b")"#, true),
            (r#"data.names CONTAINS ALL ("a", "c")"#, false),
            ("data.numbers CONTAINS 2", true),
            (r#"data.genres CONTAINS "GENRE_ROCK""#, true),
            (r#"data.dates CONTAINS "2020-01-01T00:00:00Z""#, true),
            (r#"meta.tags CONTAINS "red""#, true),
            (r#"meta.labels CONTAINS "region:eu""#, true),
            (r#"meta.labels CONTAINS "x:y:z""#, true),
            (r#"data.texts CONTAINS ALL ("k:v", "k:l:w")"#, true),
            (r#"data.texts CONTAINS "k:w""#, false),
            // Through lists, any element counts, and a negated test holds if none does.
            (r#"data.inners.name = "y""#, true),
            (r#"data.inners.name != "y""#, false),
            (r#"data.inners.name != "z""#, true),
            (r#"NOT data.inners.name = "y""#, false),
            (r#"data.inners.name = "z""#, false),
            (r#"data.inners.name IN ("z", "x")"#, true),
            (r#"data.inners.name NOT IN ("x")"#, false),
            (r#"data.inners.tags CONTAINS "t""#, true),
            ("data.inners.count > 0", true),
            (r#"meta.owner_references.name = "two""#, true),
            (r#"meta.owner_references CONTAINS {"name": "one", "kind": "K"}"#, true),
            (r#"meta.owner_references CONTAINS {"name": "one"}"#, false),
            (r#"data.inners CONTAINS {"name" "y"}"#, true),
            (r#"data.inner = {"name": "n", "below": {"count": 2}}"#, true),
            (r#"data.inner = {"name": "n"}"#, false),
            (r#"data.inner != {"name": "n"}"#, true),
            (r#"data.inner IN ({"name": "n"}, {"name" "n" "below" {"count" 2}})"#, true),
            (r#"data.inner.below = {"name": "", "count": 2}"#, true),
            (r#"data.parts.one.name = "p""#, true),
            (r#"data.parts.one = {"name": "p"}"#, true),
            ("data.parts.two IS NULL", true),
            (r#"data.by_bool.true = 9"#, true),
            (r#"meta.services.allowed_services CONTAINS "x""#, true),
        ],
    );
}

#[test]
fn names_are_patterns() {
    check(
        &resource("{}"),
        &[
            (r#"name = "d1""#, true),
            (r#"name = "prod/d1""#, true),
            (r#"name = "default/prod/d1""#, true),
            (r#"name = "default/-/d1""#, true),
            (r#"name = "-/-/-""#, true),
            (r#"name = "dev/d1""#, false),
            (r#"name != "dev/d1""#, true),
            (r#"name IN ("d2", "prod/-")"#, true),
            (r#"name NOT IN ("d2", "prod/-")"#, false),
            ("name IS NULL", false),
            ("name IS NOT NULL", true),
            ("name = NULL", false),
        ],
    );
    for wrong in
        [r#"name = """#, r#"name = "a/b/c/d""#, r#"name = "a//d""#, r#"name = "/d1""#, "name = 1", "name < NULL"]
    {
        assert!(try_matches(wrong, &resource("{}")).is_err(), "{wrong}");
    }
}

#[test]
fn everything_matches_nothing_written() {
    check(&resource("{}"), &[("", true), ("()", true)]);
    assert!(Filter::parse("()", &SCHEMA).unwrap().is_everything());
}

#[test]
fn what_does_not_fit_is_refused_with_place_and_remedy() {
    let rows = [
        (r#"data.title = 1"#, r#"filter, at character 14: 1 does not fit; the field is a string in double quotes"#),
        (
            r#"data.live = "yes""#,
            r#"filter, at character 13: "yes" does not fit; the field is a boolean: TRUE or FALSE"#,
        ),
        (
            "data.track_count = 1.5",
            "filter, at character 20: 1.5 does not fit (it has a fraction); the field is an integer from -2147483648 to 2147483647",
        ),
        (
            "data.track_count = 2147483648",
            "filter, at character 20: 2147483648 does not fit (it is out of range); the field is an integer from -2147483648 to 2147483647",
        ),
        (
            "data.large = -1",
            "filter, at character 14: -1 does not fit (it is out of range); the field is an integer from 0 to 18446744073709551615",
        ),
        (
            r#"data.genre = "GENRE_POLKA""#,
            r#"filter, at character 14: "GENRE_POLKA" does not fit (the enum has no such value); the field is a value of test.v1.Genre, its name in double quotes or its number"#,
        ),
        (
            r#"data.released = "yesterday""#,
            r#"filter, at character 17: "yesterday" does not fit (it is not a timestamp); the field is a timestamp such as "2026-01-31T12:00:00Z""#,
        ),
        (
            r#"data.cover = "%""#,
            r#"filter, at character 14: "%" does not fit (it is not base64); the field is bytes, in base64 and double quotes"#,
        ),
        ("data.inner < {}", "filter, at character 1: data.inner has no order, so < does not apply"),
        (r#"data.names >= "a""#, "filter, at character 1: data.names has no order, so >= does not apply"),
        ("data.title < NULL", "filter, at character 14: NULL has no order; write IS NULL or IS NOT NULL"),
        ("data.title IN (NULL)", "filter, at character 16: NULL is not a value here; write IS NULL or IS NOT NULL"),
        (r#"é"#, "filter, at character 1: 'é' has no meaning here"),
        (
            r#"data.title = "é" x"#,
            "filter, at character 18: x is followed by the end of the filter instead of a test; write = != < <= > >= and a value, IS [NOT] NULL, IS [NOT] NAN, [NOT] IN and a list, LIKE or STARTS_WITH and a text, CONTAINS and a value, CONTAINS ANY or ALL and a list, or CONTAINS and conditions in parentheses",
        ),
        (
            r#"data.title CONTAINS "x""#,
            "filter, at character 1: data.title is neither a list nor a map of strings, so CONTAINS does not apply",
        ),
        (
            r#"data.names = "a""#,
            "filter, at character 1: data.names is a list, which is not compared as a whole; write data.names CONTAINS and a value",
        ),
        (
            r#"data.numbers NOT IN ["no number"]"#,
            "filter, at character 1: data.numbers is a list, which is not compared as a whole; write data.numbers CONTAINS and a value",
        ),
        (
            r#"NOT data.texts != {"k": "v"}"#,
            r#"filter, at character 5: data.texts is a map, which is not compared as a whole; name a key of it, or write CONTAINS "key:value" for a map of strings"#,
        ),
        (
            r#"name > "a""#,
            "filter, at character 1: name is compared with patterns, by =, != and [NOT] IN alone; for other tests write id.name",
        ),
        (
            "data.title IS NOT NAN",
            "filter, at character 1: data.title is not a floating-point number, so it is never NaN; leave the condition out",
        ),
        (
            r#"data.names LIKE "a%""#,
            "filter, at character 1: data.names is not a single text, so LIKE and STARTS_WITH do not apply",
        ),
        (
            r#"data.title LIKE "a_b""#,
            r"filter, at character 17: _ stands for no letter in a pattern here; write \\_ for the letter itself, or use STARTS_WITH",
        ),
        (
            "data.parts CONTAINS (name = 1)",
            "filter, at character 1: data.parts is not a list of messages, so CONTAINS with conditions does not apply",
        ),
        (
            "data.inners CONTAINS (data.title = 1)",
            r#"filter, at character 23: path "data.title": test.v1.Inner has no field "data"; it has name, count, below, tags, more"#,
        ),
        (r#"meta.labels CONTAINS "x""#, r#"filter, at character 22: an entry of a map must be written as "key:value""#),
        (r#"data.inner = {"nope": 1}"#, r#"filter, at character 15: test.v1.Inner has no field "nope""#),
        (
            r#"data.inner = {"tags": "x"}"#,
            "filter, at character 23: tags is a list, and filters cannot write lists in braces; leave it out",
        ),
        (r#"data.nope = 1"#, r#"filter, at character 1: path "data.nope": test.v1.Album has no field "nope""#),
        (r#"a.b. = 1"#, r#"filter, at character 1: path "a.b.": a segment is empty; write a.b"#),
        (
            r#"metadata.example.com/x = "1""#,
            r#"filter, at character 1: path "metadata.example.com/x": "com/x" follows a map's key, and the map's values have no fields; write a dot in a key as \."#,
        ),
    ];
    for (filter, fault) in rows {
        let error = try_matches(filter, &resource("{}")).unwrap_err();
        assert_eq!(error.to_string(), fault);
    }
}

#[test]
fn data_of_another_message_is_a_typed_error() {
    let mut candidate = resource("{}");
    let filter = Filter::parse("data.live = TRUE", &SCHEMA).unwrap();
    let fault = |candidate: &pb::Resource| {
        let encoded = EncodedResource::encode(candidate).unwrap();
        filter.matches(&Candidate::new(&encoded, &SCHEMA)).unwrap_err().to_string()
    };
    candidate.data = Some(message("test.v1.Old", "{}"));
    assert_eq!(fault(&candidate), r#"its data is a "test.v1.Old", but the type's message is test.v1.Album"#);
    candidate.data = Some(prost_types::Any { type_url: "type.googleapis.com/test.v1.Album".into(), value: vec![0xff] });
    assert!(fault(&candidate).starts_with("its data cannot be decoded as test.v1.Album: "));
    // Data that the filter does not look at may be anything.
    check(&candidate, &[(r#"id.name = "d1""#, true), (r#"id.name = "x" AND data.live = TRUE"#, false)]);
    assert!(Filter::parse("data IS NOT NULL", &Schema::new(None)).is_ok());
}

#[test]
fn nothing_is_decoded_for_a_name() {
    let encoded = EncodedResource::encode(&resource("{}")).unwrap();
    let candidate = Candidate::new(&encoded, &SCHEMA);
    assert!(Filter::parse(r#"name = "d1""#, &SCHEMA).unwrap().matches(&candidate).unwrap());
    assert!(!candidate.is_decoded());
    assert!(!Filter::parse("data.live = TRUE", &SCHEMA).unwrap().matches(&candidate).unwrap());
    assert!(candidate.is_decoded());
}

#[test]
fn values_of_lists_are_found_whatever_their_order() {
    let candidate = resource(
        r#"{"numbers": [3, 1], "score": 0.5, "inner": {"name": "b"}, "inners": [{"name": "b"}, {"name": "a"}]}"#,
    );
    check(
        &candidate,
        &[
            ("data.numbers CONTAINS ALL (1, 3, 1, 3)", true),
            ("data.numbers CONTAINS ALL (1, 2, 3)", false),
            ("data.numbers CONTAINS ANY (9, 8, 7, 3, 2)", true),
            (r#"data.score IN ("NaN", 7, "-Infinity", 0.5, "Infinity")"#, true),
            (r#"data.ratio IN (7, -0, "NaN")"#, true),
            (r#"data.title IN ("z", "")"#, true),
            (r#"data.inners CONTAINS ALL ({"name" "a"}, {"name" "b"}, {"name" "a"})"#, true),
            (r#"data.inners CONTAINS ALL ({"name" "a"}, {"name" "c"})"#, false),
            (r#"data.released IN ("2020-01-01T00:00:00Z", "1990-01-01T00:00:00Z")"#, false),
            (r#"data.released NOT IN ("2020-01-01T00:00:00Z")"#, true),
        ],
    );
    let nan = resource(r#"{"score": "NaN"}"#);
    check(&nan, &[(r#"data.score IN ("NaN", 1)"#, false), (r#"data.score NOT IN ("NaN", 1)"#, true)]);
}

#[test]
fn labels_are_read_alone() {
    let encoded = EncodedResource::encode(&resource("{}")).unwrap();
    let candidate = Candidate::new(&encoded, &SCHEMA);
    let labels = candidate.labels().unwrap();
    assert_eq!(labels, &resource("{}").meta.unwrap().labels);
    let none = EncodedResource::encode(&pb::Resource::default()).unwrap();
    assert!(Candidate::new(&none, &SCHEMA).labels().unwrap().is_empty());
}
