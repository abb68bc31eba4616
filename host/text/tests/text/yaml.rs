//! YAML.

use mortise_resource::pb;
use mortise_text::Format::Yaml;
use prost_reflect::Value;

use crate::common::{data, documents, faults, field, field_fault, resource};

#[test]
fn the_long_and_the_short_form_are_one_resource() {
    let long = "id:\n  type:\n    group: demo\n    groupVersion: v2\n    kind: Artist\n  tenancy:\n    partition: a\n    namespace: b\n  name: korn\n  uid: U\ndata:\n  name: Korn\n";
    let snake = "id: {type: {group: demo, group_version: v2, kind: Artist}, tenancy: {partition: a, namespace: b}, name: korn, uid: U}\ndata: {name: Korn}\n";
    let short = "type: demo.v2.Artist\nname: korn\npartition: a\nnamespace: b\nuid: U\ndata:\n  name: Korn\n";
    let mixed = "id:\n  type: demo.v2.Artist\n  name: korn\n  uid: U\n  tenancy: {partition: a, namespace: b}\ndata:\n  name: Korn\n";
    let flat = "type: {group: demo, groupVersion: v2, kind: Artist}\ntenancy: {partition: a, namespace: b}\nname: korn\nuid: U\ndata: {name: Korn}\n";
    let first = resource(long, Yaml);
    assert_eq!(first.id.as_ref().unwrap().tenancy, Some(pb::Tenancy { partition: "a".into(), namespace: "b".into() }));
    assert_eq!(first.data.as_ref().unwrap().type_url, "type.googleapis.com/hashicorp.consul.internal.demo.v2.Artist");
    for text in [snake, short, mixed, flat] {
        assert_eq!(resource(text, Yaml), first, "{text}");
    }
}

#[test]
fn documents_are_separated_and_empty_ones_are_nothing() {
    let text = "# nothing\n---\ntype: demo.v1.Concept\nname: a\n---\n---\ntype: demo.v1.Concept\nname: b\n...\n---\n- {type: demo.v1.Concept, name: c}\n- {type: demo.v1.Concept, name: d}\n---\nresources:\n- {type: demo.v1.Concept, name: e}\n---\n";
    let found = documents(text, Yaml);
    let names: Vec<_> = found.iter().map(|document| document.resource.id.as_ref().unwrap().name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
    let places: Vec<_> = found.iter().map(|document| document.place.to_string()).collect();
    assert_eq!(places, ["<stdin>:3:1", "<stdin>:7:1", "<stdin>:11:3", "<stdin>:12:3", "<stdin>:15:3"]);
    assert!(documents("", Yaml).is_empty());
    assert!(documents("# only this\n", Yaml).is_empty());
}

#[test]
fn a_string_field_takes_what_is_written() {
    for (written, expected) in [
        ("1.10", "1.10"),
        ("no", "no"),
        ("yes", "yes"),
        ("true", "true"),
        ("0x1F", "0x1F"),
        ("2024-01-01", "2024-01-01"),
        ("1_000", "1_000"),
        (".inf", ".inf"),
        ("'null'", "null"),
        ("\"~\"", "~"),
        ("!!str null", "null"),
        ("! 12", "12"),
        ("a  b", "a  b"),
        ("\"\\u00e9\\n\"", "é\n"),
    ] {
        assert_eq!(field(&format!("aString: {written}"), "a_string"), Value::String(expected.into()), "{written}");
    }
    for nothing in ["", "~", "null", "Null"] {
        assert_eq!(field(&format!("aString: {nothing}"), "a_string"), Value::String(String::new()), "{nothing}");
    }
}

#[test]
fn other_scalars_are_what_their_field_says() {
    assert_eq!(field("anInt32: 0x1f", "an_int32"), Value::I32(31));
    assert_eq!(field("an_int32: 1e3", "an_int32"), Value::I32(1000));
    assert_eq!(field("anInt64: 9007199254740993", "an_int64"), Value::I64(9_007_199_254_740_993));
    assert_eq!(field("anInt64: \"-9223372036854775808\"", "an_int64"), Value::I64(i64::MIN));
    assert_eq!(field("aUint64: 18446744073709551615", "a_uint64"), Value::U64(u64::MAX));
    assert_eq!(field("aDouble: -.inf", "a_double"), Value::F64(f64::NEG_INFINITY));
    assert_eq!(field("aDouble: Infinity", "a_double"), Value::F64(f64::INFINITY));
    assert_eq!(field("aFloat: 0.1", "a_float"), Value::F32(0.1));
    assert_eq!(field("aBool: True", "a_bool"), Value::Bool(true));
    assert_eq!(field("colour: COLOUR_RED", "colour"), Value::EnumNumber(1));
    assert_eq!(field("colour: 2", "colour"), Value::EnumNumber(2));
    assert_eq!(field("colour: 77", "colour"), Value::EnumNumber(77));
    assert_eq!(field("someBytes: aGk=", "some_bytes"), Value::Bytes("hi".into()));
    assert_eq!(
        field("wrappedInt64: 5", "wrapped_int64").as_message().unwrap().get_field_by_number(1).unwrap().as_i64(),
        Some(5)
    );
}

#[test]
fn what_does_not_fit_its_field_is_refused() {
    for (line, expected) in [
        (
            "anInt32: 2147483648",
            "data.an_int32: 2147483648 is out of the range of int32, which is -2147483648 to 2147483647",
        ),
        ("aUint32: -1", "data.a_uint32: -1 is out of the range of uint32, which is 0 to 4294967295"),
        ("anInt32: 1.5", "data.an_int32: 1.5 is not an integer, and int32 needs one"),
        ("anInt32: abc", "data.an_int32: expected a number, found a string"),
        ("anInt32: true", "data.an_int32: expected a number, found a boolean"),
        ("aFloat: 1e39", "data.a_float: 1e39 is out of the range of float"),
        ("aBool: yes", "data.a_bool: expected a boolean, found a string; write true, without quotes"),
        ("aBool: \"true\"", "data.a_bool: expected a boolean, found a string; write true, without quotes"),
        ("aBool: 1", "data.a_bool: expected a boolean, found a number; write true or false"),
        ("aString: [a]", "data.a_string: expected a string, found a list"),
        ("strings: a", "data.strings: expected a list, found a string; put `- ` before each element"),
        (
            "strings: [a, ~]",
            "data.strings[1]: an element of a list cannot be null; write \"\" for an empty string, \"null\" for the word",
        ),
        (
            "byName: {a: }",
            "data.by_name[\"a\"]: a value of a map cannot be null; write \"\" for an empty string, \"null\" for the word",
        ),
        (
            "byNumber: {a: b}",
            "data.by_number[\"a\"]: the key \"a\" is not an integer from -2147483648 to 2147483647 (int32)",
        ),
        (
            "byNumber: {1: a, 0x: b}",
            "data.by_number[\"0x\"]: the key \"0x\" is not an integer from -2147483648 to 2147483647 (int32)",
        ),
        ("byNumber: {1: a, \"01\": b}", "data.by_number[\"01\"]: the key occurs twice"),
        ("byBool: {yes: {}}", "data.by_bool[\"yes\"]: the key \"yes\" is neither true nor false"),
        ("someBytes: \"*\"", "data.some_bytes: \"*\" is not base64"),
        (
            "time: yesterday",
            "data.time: \"yesterday\" is not a timestamp; write it as in RFC 3339, such as 2024-06-01T12:00:00Z, in the years 1 to 9999",
        ),
        (
            "time: 2016-12-31T23:59:60Z",
            "data.time: \"2016-12-31T23:59:60Z\" is not a timestamp; write it as in RFC 3339, such as 2024-06-01T12:00:00Z, in the years 1 to 9999",
        ),
        (
            "duration: 1 day",
            "data.duration: \"1 day\" is not a duration; write seconds such as 1.5s, or units such as 1h30m, 250ms",
        ),
        (
            "colour: red",
            "data.colour: \"red\" is not a value of Colour; did you mean `COLOUR_RED`? the values are COLOUR_UNSPECIFIED, COLOUR_RED, COLOUR_GREEN, COLOUR_INFRA_RED",
        ),
        (
            "colour: COLOR_GREEN",
            "data.colour: \"COLOR_GREEN\" is not a value of Colour; did you mean `COLOUR_GREEN`? the values are COLOUR_UNSPECIFIED, COLOUR_RED, COLOUR_GREEN, COLOUR_INFRA_RED",
        ),
        (
            "colour: gren",
            "data.colour: \"gren\" is not a value of Colour; did you mean `COLOUR_GREEN`? the values are COLOUR_UNSPECIFIED, COLOUR_RED, COLOUR_GREEN, COLOUR_INFRA_RED",
        ),
        (
            "colour: 1.5",
            "data.colour: 1.5 is not a value of Colour; the values are COLOUR_UNSPECIFIED, COLOUR_RED, COLOUR_GREEN, COLOUR_INFRA_RED",
        ),
        (
            "{byString: a, byInt: 1}",
            "data.by_int: `byInt` and `byString` exclude each other; only one field of `choice` can be set",
        ),
        (
            "{aString: a, a_string: b}",
            "data.a_string: `a_string` and `aString` are two names of one field; leave one of them out",
        ),
        ("{aString: a, aString: b}", "the key \"aString\" occurs twice; the first is at line 4, column 4"),
        (
            "colours: [COLOUR_RED, x]",
            "data.colours[1]: \"x\" is not a value of Colour; the values are COLOUR_UNSPECIFIED, COLOUR_RED, COLOUR_GREEN, COLOUR_INFRA_RED",
        ),
        (
            "inner: {inner: {inners: [{}, {anInt32: x}]}}",
            "data.inner.inner.inners[1].an_int32: expected a number, found a string",
        ),
        (
            "structure: {a: 9007199254740993}",
            "data.structure[\"a\"]: 9007199254740993 has more digits than a double holds; put it in quotes to make it a string",
        ),
        ("structure: {a: .nan}", "data.structure[\"a\"]: \".nan\" is not a JSON number"),
        ("aStrin: x", "data.aStrin: there is no such field; did you mean `aString`?"),
        ("a_strin: x", "data.a_strin: there is no such field; did you mean `a_string`?"),
        (
            "any: {a: b}",
            "data.any: \"@type\" is missing; write \"@type\": type.googleapis.com/ and the message's full name",
        ),
        (
            "any: {\"@type\": x.Y}",
            "data.any: the message \"x.Y\" is not known; give its bytes in base64 as \"@bytes\" instead of its fields",
        ),
        ("any: {\"@type\": test.Everything, anInt32: x}", "data.any.an_int32: expected a number, found a string"),
        (
            "mask: \"a b\"",
            "data.mask: \"a b\" is not a field mask; write paths of JSON names with commas between them, such as name,groupMembers",
        ),
        ("aString: !custom x", "the tag !custom is unknown; leave it out; the field decides the type"),
        ("strings: &a [*a]", "the alias is inside the value that it refers to"),
        ("? [a]\n  : b", "a key must be a string"),
        (
            "xyz: 1",
            "data.xyz: there is no such field; the fields of Everything are aDouble, aFloat, anInt32, anInt64, aUint32, aUint64, aSint32, aSint64, aFixed32, aFixed64, aSfixed32, aSfixed64, aBool, aString, someBytes, colour, inner, maybe, strings, longs and 30 more",
        ),
        (
            "<<: {aString: x}",
            "data.<<: there is no such field; merge keys are not part of YAML 1.2: write the fields out",
        ),
    ] {
        assert_eq!(field_fault(line), expected, "{line}");
    }
}

#[test]
fn anchors_stand_for_what_they_are_on() {
    let text = "type: demo.v2.Album\nname: x\ndata:\n  title: &t Korn\n  tracks: [*t, *t]\n";
    let tracks = data(&resource(text, Yaml)).get_field_by_name("tracks").unwrap().into_owned();
    assert_eq!(tracks, Value::List(vec![Value::String("Korn".into()); 2]));
    assert!(faults("a: *nothing\n", Yaml).contains("f:1:4"));
}

#[test]
fn every_fault_is_told_up_to_a_bound() {
    let text = "type: demo.v2.Artist\nname: a\ndata: {naem: x, genre: metl}\n---\ntype: demo.v2.Artis\nname: b\n---\nname: c\n";
    assert_eq!(
        faults(text, Yaml).lines().map(|line| line.split(": ").next().unwrap().to_owned()).collect::<Vec<_>>(),
        ["f:3:8", "f:3:24", "f:5:7", "f:8:1"]
    );
    let many = "type: demo.v2.Artist\nname: a\ndata: {x: 1}\n---\n".repeat(50);
    let printed = faults(&many, Yaml);
    assert_eq!(printed.lines().count(), 21, "{printed}");
}

#[test]
fn the_envelope_is_checked_too() {
    for (text, expected) in [
        ("name: x\n", "f:1:1: the type is missing; write `type: group.version.Kind`"),
        ("type: demo.v2.Artist\n", "f:1:1: name: the name is missing; write `name: the-name`"),
        (
            "data: {}\n",
            "f:1:1: \"id\" field need to be provided; write `type: group.version.Kind`, and a name; or an id of type, tenancy and name",
        ),
        (
            "type: Artist\nname: x\n",
            "f:1:7: type: \"Artist\" is not the full name of a type; did you mean `demo.v1.Artist` or `demo.v2.Artist`?",
        ),
        (
            "type: demo.v3.Artist\nname: x\n",
            "f:1:7: id.type: the type demo.v3.Artist is not registered; did you mean `demo.v1.Artist` or `demo.v2.Artist`?",
        ),
        (
            "type: demo.v2.Artsit\nname: x\n",
            "f:1:7: id.type: the type demo.v2.Artsit is not registered; did you mean `demo.v2.Artist`?",
        ),
        (
            "apiVersion: v1\ntype: demo.v1.Concept\nname: x\n",
            "f:1:1: apiVersion: there is no such field; write `type: group.version.Kind`",
        ),
        (
            "id: {type: demo.v1.Concept, name: x}\nname: y\n",
            "f:2:1: `name` is part of the id, which `id` already gives; write only one of them",
        ),
        (
            "type: demo.v1.Concept\nname: x\nmetadata: [a]\n",
            "f:3:11: metadata: expected a map, found a list; write keys and values",
        ),
        (
            "type: demo.v1.Concept\nname: x\nowner: korn\n",
            "f:3:8: owner: \"korn\" is not an id; write group.version.Kind/name, or a map of type, tenancy and name",
        ),
        ("just text\n", "f:1:1: expected a resource, found a string; write a map with id (or type and name) and data"),
        (
            "type: demo.v2.Artist\nname: x\ndata: {\"@type\": demo.Wrong}\n",
            "f:3:17: data: the data of this type must be a hashicorp.consul.internal.demo.v2.Artist; did you mean `type.googleapis.com/hashicorp.consul.internal.demo.v2.Artist`?",
        ),
        ("a: [1\n", "f:1:4: not YAML: unclosed bracket '['"),
    ] {
        assert_eq!(faults(text, Yaml), expected, "{text}");
    }
}

#[test]
fn status_is_not_read_and_can_be_asked_for() {
    let text = "type: demo.v1.Concept\nname: x\nstatus:\n  c/x:\n    observedGeneration: G\n    conditions:\n      - {type: Accepted, state: STATE_TRUE}\n    updatedAt: 2024-06-01T12:00:00Z\nschemaVersion: 3\n";
    let found = documents(text, Yaml).remove(0);
    assert!(found.resource.status.is_empty());
    assert_eq!(found.resource.schema_version, 0);
    let status = found.status(crate::common::types()).unwrap();
    assert_eq!(status["c/x"].conditions[0].state, 1);
    let junk = documents("type: demo.v1.Concept\nname: x\nstatus: whatever\n", Yaml).remove(0);
    assert_eq!(
        junk.status(crate::common::types()).unwrap_err().to_string(),
        "<stdin>:3:9: status: expected a map, found a string"
    );
}

#[test]
fn fields_are_found_by_the_paths_of_the_server() {
    let text = "type: demo.v2.Festival\nname: x\nnamespace: n\ndata:\n  name: y\n  artists:\n    - name: a\n    - name: b\n      groupMembers:\n        drums: c\n";
    let found = documents(text, Yaml).remove(0);
    for (path, place) in [
        ("data.artists[1].group_members[\"drums\"]", "<stdin>:10:9"),
        ("data.artists[1].name", "<stdin>:8:7"),
        ("data.artists[7].name", "<stdin>:6:3"),
        ("data.nothing", "<stdin>:4:1"),
        ("id.name", "<stdin>:2:1"),
        ("resource.id.tenancy.namespace", "<stdin>:3:1"),
        ("", "<stdin>:1:1"),
        ("nothing", "<stdin>:1:1"),
    ] {
        assert_eq!(found.locate(path).to_string(), place, "{path}");
    }
}

#[test]
fn tenancy_is_filled_in_as_the_scope_has_it() {
    let types = crate::common::types();
    let mut artist =
        documents("type: demo.v2.Album\nname: x\npartition: p\nowner: demo.v2.Artist/korn\n", Yaml).remove(0);
    artist.place_in("default", "team", types);
    let expected = Some(pb::Tenancy { partition: "p".into(), namespace: "team".into() });
    assert_eq!(artist.resource.id.unwrap().tenancy, expected);
    assert_eq!(artist.resource.owner.unwrap().tenancy, expected);
    let mut executive = documents("type: demo.v1.Executive\nname: x\n", Yaml).remove(0);
    executive.place_in("default", "team", types);
    assert_eq!(executive.resource.id.unwrap().tenancy, Some(pb::Tenancy::default()));
    let mut whole =
        documents("type: demo.v2.Album\nname: x\nowner: {type: demo.v2.Artist, name: korn}\n", Yaml).remove(0);
    whole.place_in("default", "team", types);
    assert_eq!(whole.resource.owner.unwrap().tenancy, None);
}
