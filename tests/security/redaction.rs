//! Fields that a plugin's schema marks with `debug_redact`: a caller with the right to read gets them, and they appear
//! in no log, error, event or diff.

use mortise_resource::{data, pb};
use mortise_test_guests::{Inner, Safe};
use prost::Message as _;
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::support::{
    Server, Setup, any, controllers::report_until, decoded, eventually, gvk, http::PROBLEM, id, resource,
    transcript::Transcript,
};

const SECRET: &str = "11-left-22-right";

fn safe(name: &str, label: &str, combination: &str) -> pb::Resource {
    let safe = Safe { label: label.into(), combination: combination.into(), ..Safe::default() };
    resource(id("redacted.v1.Safe", name), Some(any("mortise.test.v1.Safe", &safe)))
}

async fn serving() -> Server {
    Setup::new().guest("redacted").env("MORTISE_LOG_LEVEL", "debug").env("MORTISE_LOG_SPANS", true).start().await
}

#[tokio::test]
async fn readers_with_the_right_get_the_value() {
    let server = serving().await;
    server.write(safe("one", "", SECRET)).await.unwrap();
    let stored = server.read(&id("redacted.v1.Safe", "one")).await.unwrap();
    assert_eq!(decoded::<Safe>(&stored).combination, SECRET);
    let t = Transcript::new("redaction", &server);
    let shown = t.command(&["get", "redacted.v1.Safe", "one", "-o", "yaml"]).output().await.unwrap();
    assert!(String::from_utf8(shown.stdout).unwrap().contains(SECRET));
    // Clients get the option with the descriptors.
    let mut types = mortise_api::TypeServiceClient::new(server.channel().await);
    let of = data::GetTypeRequest { r#type: Some(gvk("redacted.v1.Safe")) };
    let files = types.get_type(of).await.unwrap().into_inner().descriptors.unwrap();
    // Field 8 of the field, its options, with number 16, `debug_redact`.
    let marked = [0x42, 3, 0x80, 1, 1];
    assert_eq!(files.encode_to_vec().windows(marked.len()).filter(|part| *part == marked).count(), 2);
}

#[tokio::test]
async fn no_text_of_a_plugin_contains_the_value() {
    let server = serving().await;
    for (label, code) in
        [("mutate", Code::InvalidArgument), ("validate", Code::InvalidArgument), ("deny", Code::PermissionDenied)]
    {
        let status = server.write(safe("one", label, SECRET)).await.unwrap_err();
        assert_eq!(status.code(), code, "{label}: {status}");
        assert!(status.message().contains("the combination is <(redacted)>"), "{label}: {status}");
        let details = String::from_utf8_lossy(status.details()).into_owned();
        assert!(!status.message().contains(SECRET) && !details.contains(SECRET), "{label}: {status}: {details}");
        if code == Code::InvalidArgument {
            let [one] = mortise_provider::client::diagnostics_of(&status).try_into().unwrap();
            assert!(one.summary.contains("the combination is <(redacted)>"), "{one:?}");
            let explains = label == "validate";
            assert_eq!(one.path.starts_with("data.codes"), explains, "{one:?}");
            assert_eq!(one.detail.contains("the combination is <(redacted)>"), explains, "{one:?}");
            assert_eq!(status.get_details_bad_request().unwrap().field_violations[0].field, one.path);
        }
    }
    server.write(safe("fails", "", SECRET)).await.unwrap();
    server.write(safe("defers", "defer", SECRET)).await.unwrap();
    let seen =
        report_until(&server, "redacted/safes", |seen| !seen.last_errors.is_empty() && !seen.put_off.is_empty()).await;
    for error in seen.last_errors.iter().chain(&seen.put_off) {
        assert!(error.message.contains("the combination is <(redacted)>"), "{error:?}");
    }
    assert!(!format!("{seen:?}").contains(SECRET), "{seen:?}");
    let logged = "reconciled: the combination is <(redacted)>";
    eventually(logged, async || server.log().contains(logged)).await;
    assert!(server.log().contains("combination=\"(redacted)\"") || server.log().contains("combination=(redacted)"));
    assert!(!server.log().contains(SECRET), "{}", server.log());
    // Each write hides its own value; the value of another write may appear.
    server.write(safe("other", "", "something else")).await.unwrap();
    let status = server.write(safe("one", "validate", "another")).await.unwrap_err();
    assert!(status.message().contains("<(redacted)>"), "{status}");
}

#[tokio::test]
async fn errors_about_a_wrong_text_do_not_quote_it() {
    let server = serving().await;
    let t = Transcript::new("redaction", &server);
    let wrong = "type: redacted.v1.Safe\nname: x\ndata:\n  label: [1]\n  digits: [1, 77-not-a-digit]\n  combination:\n    \
                 22-right: 3\n";
    t.file("wrong.yaml", wrong);
    let refused = t.command(&["apply", "-f", "wrong.yaml"]).output().await.unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("data.label: expected a string, found a list"), "{said}");
    assert!(
        said.contains("data.digits: is not of type list of int32; the value is redacted, so details are hidden"),
        "{said}"
    );
    assert!(said.contains("data.combination: is not of type string; the value is redacted"), "{said}");
    assert!(!said.contains("77-not") && !said.contains("22-right"), "{said}");
    let body = r#"{"data":{"digits":["77-not-a-digit"]}}"#;
    let answer = server.ask("PUT", "/api/redacted/v1/safe/x").header("accept", PROBLEM).body(body.to_owned());
    let problem = answer.await_answer().await.json().to_string();
    assert!(problem.contains("the value is redacted") && !problem.contains("77-not"), "{problem}");
}

#[tokio::test]
async fn a_diff_shows_a_change_without_the_values() {
    let server = serving().await;
    let t = Transcript::new("redaction", &server);
    let inner = Inner { text: "shown".into() };
    let before = Safe {
        combination: SECRET.into(),
        codes: [("a".to_owned(), inner)].into(),
        digits: vec![31_415],
        ..Safe::default()
    };
    server.write(resource(id("redacted.v1.Safe", "one"), Some(any("mortise.test.v1.Safe", &before)))).await.unwrap();
    let wanted = "type: redacted.v1.Safe\nname: one\ndata:\n  label: new\n  combination: 33-up-44-down\n  digits: [27182]\n  codes: {a: {text: \
                  shown}}\n";
    t.file("wanted.yaml", wanted);
    let diff = t.command(&["diff", "-f", "wanted.yaml"]).output().await.unwrap();
    let text = String::from_utf8(diff.stdout).unwrap();
    assert_eq!(diff.status.code(), Some(4), "{text}");
    for part in ["-  combination: (redacted 1)\n", "+  combination: (redacted 3)\n", "text: shown"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for hidden in [SECRET, "33-up", "31415", "27182"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
}
