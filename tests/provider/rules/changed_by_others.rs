//! Values of other clients that no configuration can have: a warning, and nothing is blocked.

use mortise_provider::value::Value;
use mortise_test_guests::Everything;

use super::{EVERYTHING, attached, id_of, list, number, summaries, text};
use crate::support::any;

/// Bytes of fields that the generated message cannot hold: a value of null with an unknown number.
fn odd_value() -> Vec<u8> {
    // Field 32 (value), a message with null_value = 9.
    vec![0x82, 0x02, 0x02, 0x08, 0x09]
}

#[tokio::test]
async fn values_without_a_form_in_a_configuration_are_drift_with_a_warning() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let config = core.config(
        EVERYTHING,
        "x",
        &[("double", number("1.5")), ("at", text("2026-01-02T03:04:05Z")), ("huge", number("7"))],
    );
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    let mut stored = server.read(&id_of("x")).await.unwrap();
    let data = Everything {
        huge: 7,
        port: 80,
        double: f64::NAN,
        single: f32::NEG_INFINITY,
        mood: 99,
        at: Some(prost_types::Timestamp { seconds: 400_000_000_000, nanos: 0 }),
        took: Some(prost_types::Duration { seconds: 1, nanos: -1 }),
        mask: Some(prost_types::FieldMask { paths: vec!["Odd.path".into()] }),
        ..Everything::default()
    };
    let mut data = any("mortise.test.v1.Everything", &data);
    data.value.extend(odd_value());
    stored.data = Some(data);
    server.write(stored).await.unwrap();
    let (seen, warnings) = core.refresh_with_warnings(&made).await.unwrap();
    let seen = seen.unwrap();
    let said = summaries(&warnings);
    for field in ["double", "single", "at", "took", "mask", "value"] {
        assert!(said.contains(&format!("data.{field}|")), "{field}: {said}");
        assert_eq!(seen.state.get("data").get(field), &Value::Null, "{field}");
    }
    assert_eq!(seen.state.get("data").get("mood"), &text("99"), "an enum's unknown number is its text");
    assert_eq!(seen.state.get("data").get("huge"), &number("7"), "the rest is as it is stored");
    // The data sources read it, too.
    core.data(EVERYTHING, &[("name", text("x"))]).await.unwrap();
    let listed = core.data("mortise_resources", &[("type", text("fields.v1.Everything"))]).await.unwrap();
    assert!(matches!(listed.get("resources"), Value::List(found) if found.len() == 1));
    // The next apply writes what is configured, and a destroy is possible.
    let next = core.make(EVERYTHING, Some(&seen), &config).await.unwrap();
    assert_eq!(next.state.get("data").get("double"), &number("1.5"));
    core.destroy(&next).await.unwrap();
}

#[tokio::test]
async fn tiny_numbers_come_back_and_masks_without_a_path_are_refused() {
    let (_server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    for (name, tiny) in [("a", "5e-324"), ("b", "2.5e-320"), ("c", "-1e-310")] {
        let config = core.config(EVERYTHING, name, &[("double", number(tiny)), ("single", number("1e-45"))]);
        core.make(EVERYTHING, None, &config).await.unwrap();
    }
    for path in ["", "a,b", "camelCase", "a__b", "a_"] {
        let config = core.config(EVERYTHING, "bad", &[("mask", list(&[text("fine"), text(path)]))]);
        let faults = core.validate(EVERYTHING, &config).await.unwrap_err();
        assert!(summaries(&faults).starts_with("data.mask[1]|"), "{path:?}: {faults:?}");
    }
}
