//! Single messages as JSON, as the HTTP API prints and reads them, by the mapping of files.

use mortise_text::{
    Diagnostics, Format, Indent, Limits, OneType, consul, data_from_json, message_from_json, to_json, to_yaml,
};
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use prost_types::Any;
use serde_json::{Value, json};

use crate::common::{everything, pool, resource, types};

fn descriptor(name: &str) -> MessageDescriptor {
    pool().get_message_by_name(name).unwrap()
}

fn well_known(name: &str) -> MessageDescriptor {
    DescriptorPool::global().get_message_by_name(&format!("google.protobuf.{name}")).unwrap()
}

/// Data of test.Everything, as HTTP reads it.
fn read(text: &str) -> Result<Any, Diagnostics> {
    data_from_json(text, &descriptor("test.Everything"), &Limits::default())
}

/// Data as HTTP prints it.
fn print(data: Any, descriptor: MessageDescriptor) -> Value {
    let resource = mortise_resource::pb::Resource {
        data: Some(data),
        ..everything(&DynamicMessage::new(pool().get_message_by_name("test.Everything").unwrap()))
    };
    let text = consul::resource(&resource, &OneType(descriptor), Indent::Compact);
    serde_json::from_str::<Value>(&text).unwrap()["data"].take()
}

fn any(message_name: &str, value: Vec<u8>) -> Any {
    Any { type_url: format!("type.googleapis.com/google.protobuf.{message_name}"), value }
}

/// Data of a well-known type as HTTP prints it.
fn printed(message_name: &str, value: &[u8]) -> Value {
    print(any(message_name, value.to_vec()), well_known(message_name))
}

/// JSON prints as it was read, over HTTP and by the command line, and both read it back.
#[test]
fn http_and_files_have_one_mapping() {
    for (text, canonical) in [
        (
            r#"{"anInt64":"1e3","anInt32":"1.0","byUint64":{"1":2}}"#,
            json!({"anInt64": "1000", "anInt32": 1, "byUint64": {"1": 2}}),
        ),
        (r#"{"anInt64":9007199254740993.0}"#, json!({"anInt64": "9007199254740993"})),
        (r#"{"aFloat":3.4028235e+38}"#, json!({"aFloat": 3.4028235e38})),
        (r#"{"aFloat":0.1,"aDouble":0.1}"#, json!({"aFloat": 0.1, "aDouble": 0.1})),
        (r#"{"longs":[1,"-2"],"value":-0.0}"#, json!({"longs": ["1", "-2"], "value": -0.0})),
        // A negative zero is not the default of a field.
        (
            r#"{"aDouble":-0.0,"aFloat":-0.0,"byUint64":{"1":-0.0,"2":0.0},"wrappedDouble":-0.0}"#,
            json!({"aDouble": -0.0, "aFloat": -0.0, "byUint64": {"1": -0.0, "2": 0}, "wrappedDouble": -0.0}),
        ),
        (r#"{"aDouble":0.0,"aFloat":0,"wrappedDouble":0.0}"#, json!({"wrappedDouble": 0})),
        (r#"{"wrappedDouble":"NaN"}"#, json!({"wrappedDouble": "NaN"})),
        (
            r#"{"wrappedDouble":"-Infinity","aDouble":"Infinity"}"#,
            json!({"wrappedDouble": "-Infinity", "aDouble": "Infinity"}),
        ),
        (
            r#"{"any":{"@type":"test.Everything","aBool":true}}"#,
            json!({"any": {"@type": "test.Everything", "aBool": true}}),
        ),
        (r#"{"any":{"@type":"gone/away","@bytes":"CAE="}}"#, json!({"any": {"@type": "gone/away", "@bytes": "CAE="}})),
        (r#"{"@unknown":"wD4H"}"#, json!({"@unknown": "wD4H"})),
        (
            r#"{"duration":"1h","time":"2024-06-01T12:00:00Z"}"#,
            json!({"duration": "3600s", "time": "2024-06-01T12:00:00Z"}),
        ),
        (r#"{"structure":{"a":[1,null,{"@type":"b"}]}}"#, json!({"structure": {"a": [1, null, {"@type": "b"}]}})),
    ] {
        let data = read(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(
            resource(&format!(r#"{{"type":"test.v1.Everything","name":"x","data":{text}}}"#), Format::Json)
                .data
                .unwrap(),
            data,
            "{text}"
        );
        let printed = print(data.clone(), descriptor("test.Everything"));
        assert_eq!(printed.to_string(), canonical.to_string(), "{text}");
        assert_eq!(read(&printed.to_string()).unwrap(), data, "{text}");
        let whole = mortise_resource::pb::Resource {
            data: Some(data),
            ..resource("{type: test.v1.Everything, name: x}", Format::Yaml)
        };
        assert_eq!(resource(&to_yaml(&whole, types()), Format::Yaml), whole, "{text}");
        assert_eq!(resource(&to_json(&whole, types(), Indent::Compact), Format::Json), whole, "{text}");
    }
}

#[test]
fn data_without_a_form_is_printed_as_bytes_and_taken_back() {
    let time = |seconds, nanos| prost_types::Timestamp { seconds, nanos }.encode_to_vec();
    let span = |seconds, nanos| prost_types::Duration { seconds, nanos }.encode_to_vec();
    assert_eq!(printed("Timestamp", &time(0, 999_999_999)), json!("1970-01-01T00:00:00.999999999Z"));
    assert_eq!(printed("Duration", &span(-1, -500_000_000)), json!("-1.500s"));
    for (message_name, bytes) in [
        ("Timestamp", time(0, 1_000_000_000)),
        ("Timestamp", time(0, -1)),
        ("Timestamp", time(253_402_300_800, 0)),
        ("Duration", span(1, -1)),
        ("Duration", span(0, 1_000_000_000)),
        ("Duration", span(315_576_000_001, 0)),
    ] {
        let printed = printed(message_name, &bytes);
        let expected = any(message_name, bytes);
        assert_eq!(printed["@type"], expected.type_url, "{message_name}");
        let back = data_from_json(&printed.to_string(), &well_known(message_name), &Limits::default());
        assert_eq!(back.unwrap(), expected, "{message_name}");
    }
    let other = read(r#"{"@type":"type.googleapis.com/test.Other","@bytes":""}"#).unwrap_err().to_string();
    assert!(other.contains("the data of this type must be a test.Everything"), "{other}");
    let mixed = read(r#"{"@type":"test.Everything","@bytes":"","aBool":true}"#).unwrap_err().to_string();
    assert!(mixed.contains("holds the whole message"), "{mixed}");
}

/// An `Any` in an `Any`: each begins a message of its own, so protobuf's limit of 100 levels never ends it.
#[test]
fn nested_any_is_printed_as_bytes_before_it_is_too_deep() {
    let nested = |levels: usize| {
        let mut inner = any("FloatValue", 0.1_f32.encode_to_vec());
        for _ in 0..levels {
            inner = any("Any", inner.encode_to_vec());
        }
        // Field 40 of test.Everything.
        let mut bytes = vec![0xc2, 0x02];
        prost::encoding::encode_varint(inner.encoded_len() as u64, &mut bytes);
        bytes.extend(inner.encode_to_vec());
        let data = Any { type_url: "type.googleapis.com/test.Everything".into(), value: bytes };
        (print(data.clone(), descriptor("test.Everything")), data)
    };
    let float = json!({ "@type": "type.googleapis.com/google.protobuf.FloatValue", "value": 0.1 });
    assert_eq!(nested(0).0, json!({ "any": float }));
    assert!(nested(50).0.get("@bytes").is_none());
    for levels in [0, 50, 100, 3_000] {
        let (printed, data) = nested(levels);
        assert_eq!(printed.get("@bytes").is_some(), levels >= 100, "{levels}");
        assert_eq!(read(&printed.to_string()).unwrap(), data, "{levels}");
    }
}

#[test]
fn floats_have_as_many_digits_as_they_need() {
    assert_eq!(printed("FloatValue", &0.1_f32.encode_to_vec()).to_string(), "0.1");
    assert_eq!(printed("DoubleValue", &0.1_f64.encode_to_vec()).to_string(), "0.1");
    assert_eq!(printed("FloatValue", &f32::MAX.encode_to_vec()), json!(3.4028235e38));
}

/// Each would be stored as something else.
#[test]
fn values_that_would_not_be_stored_as_they_are_written_are_refused() {
    for (message_name, text, taken) in [
        ("Int64Value", "9223372036854775807", true),
        ("Int64Value", "\"-9223372036854775808\"", true),
        ("Int64Value", "1e3", true),
        ("Int64Value", "\"1e3\"", true),
        ("Int64Value", "-9223372036854775809", false),
        ("Int64Value", "9007199254740993.0", true),
        ("Int64Value", "9007199254740993.5", false),
        ("Int64Value", "9223372036854775806.0", true),
        ("Int64Value", "9223372036854775808.0", false),
        ("UInt64Value", "18446744073709551615", true),
        ("UInt64Value", "18446744073709551616", false),
        ("FloatValue", "\"1e38\"", true),
        ("FloatValue", "3.4028235e+38", true),
        ("FloatValue", "\"Infinity\"", true),
        ("FloatValue", "\"1e39\"", false),
        ("DoubleValue", "\"1e39\"", true),
        ("DoubleValue", "\"-1e309\"", false),
        ("Timestamp", "\"2024-06-30T12:30:59.999999999Z\"", true),
        ("Timestamp", "\"2024-06-30T12:30:60Z\"", false),
        ("Timestamp", "\"2024-06-30T12:30:05.9999999999Z\"", false),
    ] {
        assert_eq!(
            data_from_json(text, &well_known(message_name), &Limits::default()).is_ok(),
            taken,
            "{message_name} {text}"
        );
    }
    let status = r#"{"status":{"a":{"updatedAt":"2024-06-30T12:30:60Z"}}}"#;
    assert_eq!(refused(status).0, "data.status[\"a\"].updated_at");
}

/// Path and message of the first finding in a resource.
fn refused(text: &str) -> (String, String) {
    let pool = DescriptorPool::decode(mortise_resource::DESCRIPTORS).unwrap();
    let resource = pool.get_message_by_name("hashicorp.consul.resource.Resource").unwrap();
    match message_from_json(text, "data", &resource, &Limits::default()) {
        Ok(_) => Default::default(),
        Err(mut found) => {
            let first = found.diagnostics.remove(0);
            (first.path, first.message)
        }
    }
}

#[test]
fn no_field_may_occur_twice_in_any_spelling() {
    for (text, path) in [
        (r#"{"version":"1","version":"1"}"#, "data.version"),
        (r#"{"version":null,"version":"1"}"#, "data.version"),
        (r#"{"id":{"uid":"1"},"owner":{"uid":"a","uid":"b"}}"#, "data.owner.uid"),
        (
            r#"{"status":{"a":{"observedGeneration":"1","observed_generation":"1"}}}"#,
            "data.status[\"a\"].observed_generation",
        ),
        (r#"{"status":{"a":{"conditions":[{},{"type":"t","type":"t"}]}}}"#, "data.status[\"a\"].conditions[1].type"),
        (r#"{"metadata":{"a":"1","b":"2","a":"3"}}"#, "data.metadata[\"a\"]"),
    ] {
        let (found, message) = refused(text);
        assert_eq!(found, path, "{text}");
        assert!(message.contains("occurs twice") || message.contains("are two names of one field"), "{message}");
    }
    let once = r#"{"metadata":{"version":"1"},"version":"1","owner":{"uid":"1"},"id":{"uid":"1"}}"#;
    assert_eq!(refused(once), Default::default());
}

#[test]
fn hostile_messages_are_refused_soon() {
    let nest = |open: &str, inner: &str, close: &str, levels: usize| {
        format!("{}{inner}{}", open.repeat(levels), close.repeat(levels))
    };
    let in_any = |levels| {
        let inner = "{\"@type\":\"test.Everything\"}";
        format!("{{\"any\":{}}}", nest("{\"@type\":\"test.Everything\",\"any\":", inner, "}", levels))
    };
    for text in [
        nest("{\"inner\":", "{}", "}", 5_000),
        format!("{{\"value\":{}}}", nest("[", "", "]", 5_000)),
        format!("{{\"structure\":{}}}", nest("{\"a\":", "1", "}", 5_000)),
        in_any(5_000),
        format!("{{\"anInt64\":1{}}}", "0".repeat(1_000_000)),
        format!("{{\"anInt64\":1e{}}}", "9".repeat(1_000_000)),
        format!("{{\"time\":\"{}\"}}", "2".repeat(1_000_000)),
        "{\"aString\":\"\\ud83d\"}".to_owned(),
        "{\"any\":{\"@type\":7}}".to_owned(),
        "{\"@unknown\":\"//8=\"}".to_owned(),
        "{\"nope\":1}".to_owned(),
        "{} {}".to_owned(),
        "7".to_owned(),
        String::new(),
    ] {
        let start: String = text.chars().take(30).collect();
        let found = read(&text).expect_err(&start);
        assert!(!found.diagnostics.is_empty(), "{start}");
        assert!(found.diagnostics.iter().all(|diagnostic| diagnostic.path.starts_with("data")), "{start}: {found}");
    }
    // As deep as the bound allows, on the stack of a thread.
    for text in [
        nest("{\"inner\":", "{}", "}", 99),
        format!("{{\"value\":{}}}", nest("[", "", "]", 120)),
        format!("{{\"structure\":{}}}", nest("{\"a\":", "1", "}", 120)),
        in_any(63),
    ] {
        let read = read(&text).unwrap_or_else(|e| panic!("{e}"));
        let printed = print(read.clone(), descriptor("test.Everything"));
        assert_eq!(self::read(&printed.to_string()).unwrap(), read);
    }
    // Large and flat: time grows with the length.
    let wide = format!("{{\"longs\":[{}1]}}", "1,".repeat(300_000));
    assert!(read_all(&wide).is_ok());
}

fn read_all(text: &str) -> Result<Any, Diagnostics> {
    let limits = Limits { values: text.len(), ..Limits::default() };
    data_from_json(text, &descriptor("test.Everything"), &limits)
}
