//! Streams: one document at a time, in bounded memory.

use std::io::{BufReader, Cursor, Read};

use mortise_text::{Format, Limits, ReadError, Reader, StreamFormat, Writer};

use crate::common::{resource, types};

/// The names of the documents, and the faults among them; read in small pieces, so that every cut is met.
fn read(text: &[u8], format: Option<Format>, capacity: usize) -> Vec<String> {
    let reader = BufReader::with_capacity(capacity, Cursor::new(text));
    Reader::new(reader, "-", format, types())
        .map(|document| match document {
            Ok(document) => format!("{} {}", document.place, document.resource.id.unwrap().name),
            Err(ReadError::Diagnostics(diagnostics)) => diagnostics.to_string().split("; ").next().unwrap().to_owned(),
            Err(failed) => failed.to_string(),
        })
        .collect()
}

#[test]
fn yaml_is_cut_at_its_markers() {
    let text = "%YAML 1.2\n# first\n---\ntype: demo.v1.Concept\nname: a\nmetadata:\n  text: |\n    ---\n     ---\n---\n--- {type: demo.v1.Concept, name: b}\n...\n# c\n%YAML 1.2\n---\ntype: demo.v1.Concept\nname: c\nwrong: 1\n---\nname: [\n---\n- {type: demo.v1.Concept, name: d}\n- {type: demo.v1.Concept, name: e}\n---x: y\n";
    let expected = [
        "<stdin>:4:1 a",
        "<stdin>:11:5 b",
        "<stdin>:18:1: wrong: there is no such field",
        "<stdin>:20:7: not YAML: unclosed bracket '['",
    ];
    for capacity in [1, 7, 8192] {
        let found = read(text.as_bytes(), Some(Format::Yaml), capacity);
        assert_eq!(found[..4], expected, "{capacity}");
        // The last line is not a marker, and so it is a fault of its part.
        assert_eq!(found.len(), 5, "{found:?}");
    }
    assert!(read(b"", None, 16).is_empty());
    assert!(read(b"\n---\n---\n", None, 16).is_empty());
}

#[test]
fn json_is_cut_at_the_end_of_values() {
    let text = "{\"type\":\"demo.v1.Concept\",\"name\":\"a\",\"metadata\":{\"}\\\"\":\"]\"}} {\"type\":\"demo.v1.Concept\",\n\"name\":\"b\"}\nhello\n{\"type\":\"demo.v1.Concept\",\"name\":\"c\",\"x\":1}\n{\"open: 1}\n[{\"type\":\"demo.v1.Concept\",\"name\":\"d\"},{\"type\":\"demo.v1.Concept\",\"name\":\"e\"}]\n{\"resources\":[{\"type\":\"demo.v1.Concept\",\"name\":\"f\"}]}";
    let expected = [
        "<stdin>:1:1 a",
        "<stdin>:1:62 b",
        "<stdin>:3:1: not JSON: expected value",
        "<stdin>:4:38: x: there is no such field",
        "<stdin>:5:11: not JSON: control character (\\u0000-\\u001F) found while parsing a string",
        "<stdin>:6:2 d",
        "<stdin>:6:40 e",
        "<stdin>:7:15 f",
    ];
    for capacity in [1, 7, 8192] {
        assert_eq!(read(text.as_bytes(), Some(Format::Json), capacity), expected, "{capacity}");
    }
    assert_eq!(read(text.as_bytes(), None, 64).len(), expected.len());
}

#[test]
fn what_cannot_be_read_is_told() {
    assert_eq!(
        read(b"name: \"a\xff\"\n---\ntype: demo.v1.Concept\nname: b\n", Some(Format::Yaml), 64),
        ["<stdin>:1:9: the text is not UTF-8", "<stdin>:3:1 b"]
    );
    let limits = Limits { bytes: 1000, ..Limits::default() };
    for format in [Format::Yaml, Format::Json, Format::Hcl] {
        let reader = BufReader::new(std::io::repeat(b'x').take(1 << 30));
        let found: Vec<_> = Reader::within(reader, "big", Some(format), types(), limits.clone()).collect();
        assert_eq!(found.len(), 1);
        assert!(found[0].as_ref().unwrap_err().to_string().contains("a value is larger than 1000 bytes"));
    }
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is gone"))
        }
    }
    let found: Vec<_> = Reader::new(BufReader::new(Broken), "file", None, types()).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].as_ref().unwrap_err().to_string(), "file: the disk is gone");
}

#[test]
fn what_is_written_is_read_back() {
    let concept = |name: &str| {
        resource(&format!("type: demo.v1.Concept\nname: {name}\nmetadata: {{a: \"x\\n---\\ny\"}}\n"), Format::Yaml)
    };
    for format in [StreamFormat::JsonLines, StreamFormat::Yaml] {
        let mut writer = Writer::new(Vec::new(), format);
        let written: Vec<_> = (0..50).map(|n| concept(&format!("c{n}"))).collect();
        for resource in &written {
            writer.write(resource, types()).unwrap();
        }
        let text = writer.into_inner();
        let read: Vec<_> =
            Reader::new(text.as_slice(), "-", None, types()).map(|document| document.unwrap().resource).collect();
        assert_eq!(read, written);
    }
}

#[test]
fn ten_thousand_resources_take_a_moment() {
    let text: String = (0..10_000)
        .map(|n| format!("type: demo.v2.Artist\nname: a{n}\nnamespace: default\ndata:\n  name: Artist {n}\n  genre: GENRE_METAL\n  groupMembers: {{drums: someone, vocals: another}}\n---\n"))
        .collect();
    let began = std::time::Instant::now();
    let read = Reader::new(text.as_bytes(), "-", None, types()).filter(Result::is_ok).count();
    let streamed = began.elapsed();
    let whole = mortise_text::parse(mortise_text::Source { name: "-", text: &text }, None, types()).unwrap().len();
    eprintln!("{} bytes: streamed in {streamed:?}, read whole in {:?}", text.len(), began.elapsed() - streamed);
    assert_eq!((read, whole), (10_000, 10_000));
    assert!(began.elapsed() < std::time::Duration::from_secs(30));
}
