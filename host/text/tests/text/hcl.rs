//! HCL as Consul's command line reads it.

use std::time::{Duration, Instant};

use mortise_resource::pb;
use mortise_text::{Format, Format::Hcl, Source, parse};
use prost_reflect::Value;

use crate::common::{data, documents, faults, resource, types};

const BLOCKS: &str = r#"
# An artist.
ID {
  Type {
    Group        = "demo"
    GroupVersion = "v2"
    Kind         = "Artist"
  }
  Tenancy {
    Partition = "default"
    Namespace = "default"
  }
  Name = "korn"
}
Data {
  Name  = "Korn"
  Genre = "GENRE_METAL" // loud
  GroupMembers = {
    "Jonathan Davis" = "vocals"
    Brian            = "guitar"
  }
}
Metadata = { "a b" = "c" }
"#;

#[test]
fn blocks_objects_and_gvk_are_one_resource() {
    // The data stands before its type here.
    let objects = r#"
        Data = { Name = "Korn", Genre = "GENRE_METAL", GroupMembers = { "Jonathan Davis" = "vocals", Brian = "guitar" } }
        Metadata = { "a b" = "c" }
        ID = { Type = gvk("demo.v2.Artist"), Name = "korn", Tenancy = { Partition = "default", Namespace = "default" } }
    "#;
    let first = resource(BLOCKS, Hcl);
    assert_eq!(resource(objects, Hcl), first);
    assert_eq!(first.data.as_ref().unwrap().type_url, "hashicorp.consul.internal.demo.v2.Artist");
    assert_eq!(first.metadata["a b"], "c");
    assert_eq!(data(&first).get_field_by_name("genre").unwrap().into_owned(), Value::EnumNumber(4));
}

#[test]
fn every_kind_of_value_has_its_form() {
    let text = r#"
        ID {
          Type = gvk("test.v1.Everything")
          Name = "x"
        }
        Owner {
          Type = gvk("demo.v2.Artist")
          Name = "korn"
          UID  = "U"
        }
        Data {
          ADouble  = -1.5e3
          AnInt32  = -7
          AUint64  = 18446744073709551615
          ABool    = true
          AString  = "a\tb\u00e9 $${not} \"q\""
          SomeBytes = "aGk="
          Colour   = "COLOUR_INFRA_RED"
          Strings  = ["a", <<EOT
one
  two
EOT
            , <<-EOT
              three
                four
              EOT
          ]
          Inner { AnInt32 = 1 }
          Inners { AnInt32 = 2 }
          Inners { AnInt32 = 3 }
          ByBool = { true = { AnInt32 = 4 } }
          ByNumber = { 5 = "five" }
          Time     = "2024-06-01T12:00:00+02:00"
          Duration = "1h30m"
          Structure { a = [1, null, { b = "c" }] }
          WrappedString = null
          WrappedInt64  = 9
          HTTPPort = "80"
          TargetID = "t"
        }
    "#;
    let text = text.replace("UID  = \"U\"", "Uid = \"U\"");
    let found = resource(&text, Hcl);
    let owner = found.owner.as_ref().unwrap();
    assert_eq!((owner.name.as_str(), owner.uid.as_str()), ("korn", "U"));
    let json = mortise_text::to_json(&found, types(), mortise_text::Indent::Compact);
    let index = json.find("\"data\"").unwrap();
    assert_eq!(
        &json[index..],
        r#""data":{"aDouble":-1500,"anInt32":-7,"aUint64":"18446744073709551615","aBool":true,"aString":"a\tbé ${not} \"q\"","someBytes":"aGk=","colour":"COLOUR_INFRA_RED","inner":{"anInt32":1},"strings":["a","one\n  two\n","three\n  four\n"],"inners":[{"anInt32":2},{"anInt32":3}],"byNumber":{"5":"five"},"byBool":{"true":{"anInt32":4}},"time":"2024-06-01T10:00:00Z","duration":"5400s","structure":{"a":[1,null,{"b":"c"}]},"wrappedInt64":"9","httpPort":"80","targetId":"t"}}"#
    );
}

#[test]
fn faults_are_worded_as_consul_words_them() {
    let id = "ID {\n  Type = gvk(\"demo.v2.Artist\")\n  Name = \"x\"\n}\n";
    for (text, expected) in [
        (
            format!("{id}Data {{\n  Foo = 1\n}}\n"),
            "f:6,3-6: Unsupported argument; An argument named \"Foo\" is not expected here.",
        ),
        (
            format!("{id}Data {{\n  Nmae = 1\n}}\n"),
            "f:6,3-7: Unsupported argument; An argument named \"Nmae\" is not expected here. Did you mean \"Name\"?",
        ),
        (
            format!("{id}Data {{\n  Foo {{}}\n}}\n"),
            "f:6,3-6: Unsupported block type; Blocks of type \"Foo\" are not expected here.",
        ),
        (
            format!("{id}Dtaa = 1\n"),
            "f:5,1-5: Unsupported argument; An argument named \"Dtaa\" is not expected here. Did you mean \"Data\"?",
        ),
        (
            format!("{id}Data {{\n  Name = 1\n}}\n"),
            "f:6,10-11: Failed to unmarshal argument Name: expected value of type string but actual type is number; put it in quotes",
        ),
        (
            format!("{id}Data {{\n  Genre = \"METAL\"\n}}\n"),
            "f:6,11-18: Failed to unmarshal argument Genre: \"METAL\" is not a value of Genre; did you mean `GENRE_METAL`?",
        ),
        (
            "ID {\n  Type = gvk(\"foo.bar.Baz\")\n  Name = \"x\"\n}\nData {}\n".into(),
            "f:2,10-28: error getting type for Any field: unknown resource type: foo.bar.Baz",
        ),
        (
            "ID {\n  Type = gvk(\"nope\")\n  Name = \"x\"\n}\n".into(),
            "f:2,10-21: Error in function call; Call to function \"gvk\" failed: GVK string must be in the form <Group>.<GroupVersion>.<Kind>, got: nope",
        ),
        (
            "ID {\n  Type = other(\"a\")\n  Name = \"x\"\n}\n".into(),
            "f:2,10-20: Call to unknown function; There is no function named \"other\".",
        ),
        (
            "ID {\n  Name = \"x\"\n}\n".into(),
            "f:1,1-1: Failed to unmarshal argument ID: the type is missing; write `Type = gvk(\"group.version.Kind\")`",
        ),
        (
            "ID {\n  Type = gvk(\"demo.v1.Concept\")\n}\n".into(),
            "f:1,1-1: Failed to unmarshal argument ID: the name is missing; write `Name = \"the-name\"`",
        ),
        ("Data {}\n".into(), "f:1,1-1: \"id\" field need to be provided; write a block ID with Type and Name"),
        (format!("{id}{id}"), "f:5,1-3: Duplicate ID block; Only one ID block is allowed. The first is at f:1,1."),
        (
            format!("{id}Data \"x\" {{}}\n"),
            "f:5,6-9: Extraneous label for Data; No labels are expected for Data blocks.",
        ),
        (
            format!("{id}Data {{\n  Name = a.b\n}}\n"),
            "f:6,10-13: Variables not allowed; Variables may not be used here.",
        ),
        (
            format!("{id}Data {{\n  Name = \"${{x}}\"\n}}\n"),
            "f:6,11-15: Variables not allowed; Variables may not be used here.",
        ),
        (format!("{id}Data {{\n  Name = 1 + 2\n}}\n"), "f:6,10-15: Unsupported expression;"),
        (
            format!("{id}Data {{\n  Name = \"a\"\n  Name = \"b\"\n}}\n"),
            "f:7,3-7: Attribute redefined; The argument \"Name\" was already set.",
        ),
        ("ID {\n  Name = \n}\n".into(), "f:2,10-10: Invalid HCL; "),
        ("ID {".into(), "f:1,4-4: Invalid HCL; "),
    ] {
        let printed = faults(&text, Hcl);
        assert!(printed.starts_with(expected), "{text}\n{printed}\nnot\n{expected}");
    }
}

#[test]
fn hcl_is_recognised() {
    for text in ["ID {", "\n# a\n// b\n/* c\n*/ ID = {}", "Data\t{"] {
        assert_eq!(Format::of_text(text), Hcl, "{text}");
    }
    for text in ["id:\n", "---\nid: {}", "# a\ntype: x", "", "# a", "'a' {", "- a"] {
        assert_eq!(Format::of_text(text), Format::Yaml, "{text}");
    }
    for text in ["{}", " [1]", "\u{feff}{"] {
        assert_eq!(Format::of_text(text), Format::Json, "{text}");
    }
    assert_eq!(Format::of_consul_text("id: x"), Hcl);
    assert_eq!(Format::of_consul_text(" {"), Format::Json);
    for (name, format) in
        [("a.YAML", Some(Format::Yaml)), ("b.x.ndjson", Some(Format::Json)), ("-", None), ("a.txt", None)]
    {
        assert_eq!(Format::of_name(name), format, "{name}");
    }
    assert_eq!(documents("", Hcl).len(), 0);
}

#[test]
fn fields_are_found_in_hcl_too() {
    let found = documents(BLOCKS, Hcl).remove(0);
    for (path, place) in [
        ("data.group_members[\"Brian\"]", "<stdin>:20:5"),
        ("data.genre", "<stdin>:17:3"),
        ("id.tenancy.namespace", "<stdin>:11:5"),
        ("", "<stdin>:3:1"),
    ] {
        assert_eq!(found.locate(path).to_string(), place, "{path}");
    }
    assert_eq!(
        found.resource.id.as_ref().unwrap().tenancy,
        Some(pb::Tenancy { partition: "default".into(), namespace: "default".into() })
    );
}

#[test]
fn large_and_deep_texts_end_soon() {
    let keys = |count: usize| (0..count).map(|n| format!("k{n} = 1\n")).collect::<String>();
    let began = Instant::now();
    for text in [
        "ID {".repeat(100_000),
        format!("A = {}", "[".repeat(500_000)),
        format!("A = {}1", "(".repeat(200_000)),
        format!("A = {}1", "-".repeat(200_000)),
        format!("A = 1{}", "+1".repeat(100_000)),
        format!("A = \"{}", "${".repeat(100_000)),
        keys(60_000),
        keys(4_900),
        format!("A = {{\n{}}}", keys(60_000)),
        format!("A = {{\n{}}}", keys(4_900)),
        "A = 1\n".repeat(100_000),
        "A {}\n".repeat(100_000),
        format!("A = \"{}\"", "x".repeat(2 << 20)),
    ] {
        let before = began.elapsed();
        assert!(parse(Source { name: "f", text: &text }, Some(Hcl), types()).is_err(), "{}", &text[..20]);
        eprintln!("{:?} {}", began.elapsed() - before, &text[..12]);
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}
