//! Short-lived tokens as ephemeral resources.

use std::time::SystemTime;

use mortise_provider::{
    proto::tfplugin6 as pb,
    schema::token_type,
    value::{Type, Value, msgpack},
};
use mortise_resource::{
    data::{self, TypeRule},
    pb::{ListRequest, ReadRequest, Resource},
};
use tonic::Code;

use super::{EVERYTHING, REQUIRED, list, socket, summaries, text};
use crate::{
    provider::{
        real_core::{self, RealCore},
        terraform_core::{Core, encode, path_of},
    },
    support::{Setup, any, decoded, gvk, id, resource, tenancy, tokens::Guarded},
};

const TOKEN: &str = "mortise_token";

fn config(given: &[(&str, Value)]) -> Option<pb::DynamicValue> {
    let Type::Object(parts) = token_type() else { panic!("no object") };
    assert!(given.iter().all(|(name, _)| parts.contains_key(*name)), "{given:?}");
    let value = |name: &String| {
        let found = given.iter().find(|(known, _)| known == name);
        (name.clone(), found.map_or(Value::Null, |(_, value)| value.clone()))
    };
    encode(&Value::Map(parts.keys().map(value).collect()))
}

/// A server that requires tokens, with a policy, and a core with this token.
async fn guarded() -> (Guarded, Core) {
    let guarded = Guarded::start(Setup::new().guest("every-field")).await;
    let rule = |verb: &str| TypeRule {
        types: vec!["fields.v1.Everything".into()],
        verbs: vec![verb.into()],
        ..TypeRule::default()
    };
    guarded.policy("readers", "", vec![rule("read")]).await;
    guarded.policy("writers", "", vec![rule("*")]).await;
    let thing = any("mortise.test.v1.Everything", &mortise_test_guests::Everything::default());
    guarded.write(resource(id("fields.v1.Everything", "x"), Some(thing))).await;
    let mut core = Core::attach(&socket(&guarded.server)).await;
    core.configure(&[("token", &guarded.management)]).await.unwrap();
    (guarded, core)
}

async fn tokens(guarded: &Guarded) -> Vec<Resource> {
    let mut client = guarded.resources(&guarded.management).await;
    let request =
        ListRequest { r#type: Some(gvk("mortise.v1.Token")), tenancy: Some(tenancy("", "")), ..ListRequest::default() };
    client.list(request).await.unwrap().into_inner().resources
}

/// Reads a resource with a secret.
async fn read_with(guarded: &Guarded, secret: &str) -> Result<(), Code> {
    let mut client = guarded.resources(secret).await;
    let request = ReadRequest { id: Some(id("fields.v1.Everything", "x")) };
    client.read(request).await.map(drop).map_err(|status| status.code())
}

async fn open(core: &mut Core, given: &[(&str, Value)]) -> pb::open_ephemeral_resource::Response {
    let request = pb::open_ephemeral_resource::Request { type_name: TOKEN.into(), config: config(given) };
    core.client.open_ephemeral_resource(request).await.unwrap().into_inner()
}

async fn renew(core: &mut Core, private: &[u8]) -> pb::renew_ephemeral_resource::Response {
    let request = pb::renew_ephemeral_resource::Request { type_name: TOKEN.into(), private: Some(private.to_vec()) };
    core.client.renew_ephemeral_resource(request).await.unwrap().into_inner()
}

async fn close(core: &mut Core, private: &[u8]) -> Vec<pb::Diagnostic> {
    let request = pb::close_ephemeral_resource::Request { type_name: TOKEN.into(), private: Some(private.to_vec()) };
    core.client.close_ephemeral_resource(request).await.unwrap().into_inner().diagnostics
}

fn policies(names: &[&str]) -> (&'static str, Value) {
    ("policies", list(&names.iter().map(|name| text(name)).collect::<Vec<_>>()))
}

fn seconds(time: Option<prost_types::Timestamp>) -> u64 {
    let time = SystemTime::try_from(time.unwrap()).unwrap();
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

#[tokio::test]
async fn a_token_lives_from_its_opening_to_its_close() {
    let (guarded, mut core) = guarded().await;
    let schema = core.client.get_provider_schema(pb::get_provider_schema::Request {}).await.unwrap().into_inner();
    assert!(schema.ephemeral_resource_schemas.contains_key(TOKEN) && !schema.data_source_schemas.contains_key(TOKEN));
    let start = seconds(Some(SystemTime::now().into()));
    let given = [policies(&["readers"]), ("expires_in", text("90s")), ("description", text("deploy"))];
    let opened = open(&mut core, &given).await;
    assert_eq!(summaries(&opened.diagnostics), "");
    let result = msgpack::decode(&opened.result.unwrap().msgpack, &token_type()).unwrap();
    let of = |name: &str| result.get(name).as_str().unwrap().to_owned();
    let (name, secret, private) = (of("accessor_id"), of("secret"), opened.private.unwrap());
    assert!(result.is_wholly_known() && result.get("description") == &text("deploy") && secret.len() == 64);
    assert!(!String::from_utf8_lossy(&private).contains(&secret), "core gets the secret once");
    // The token is as configured, and does what its policies grant.
    let stored: Vec<_> =
        tokens(&guarded).await.into_iter().filter(|one| one.id.as_ref().unwrap().name == name).collect();
    let token: data::Token = decoded(&stored[0]);
    assert_eq!((token.policies.as_slice(), token.description.as_str()), (&["readers".to_owned()][..], "deploy"));
    let expiry = seconds(token.expires_at);
    assert!((90..120).contains(&(expiry - start)), "{expiry} {start}");
    let renewal = seconds(opened.renew_at);
    assert!(renewal >= start + 60 && renewal < expiry, "after two thirds of the life: {renewal}");
    assert_eq!(of("expires_at"), token.expires_at.unwrap().to_string());
    assert_eq!(read_with(&guarded, &secret).await, Ok(()));
    // A renewal begins the life again, and keeps the secret.
    let renewed = renew(&mut core, &private).await;
    assert_eq!((summaries(&renewed.diagnostics).as_str(), renewed.private.as_deref()), ("", Some(private.as_slice())));
    let stored: Vec<_> =
        tokens(&guarded).await.into_iter().filter(|one| one.id.as_ref().unwrap().name == name).collect();
    let later: data::Token = decoded(&stored[0]);
    let nanos = |time: &data::Token| time.expires_at.map(|time| (time.seconds, time.nanos));
    assert!(nanos(&later) > nanos(&token) && renewed.renew_at.unwrap().seconds >= opened.renew_at.unwrap().seconds);
    assert_eq!(data::Token { expires_at: None, ..later }, data::Token { expires_at: None, ..token });
    assert_eq!(read_with(&guarded, &secret).await, Ok(()));
    // The close ends it, and a second close finds nothing to do.
    assert_eq!(summaries(&close(&mut core, &private).await), "");
    assert_eq!(read_with(&guarded, &secret).await, Err(Code::Unauthenticated));
    assert_eq!(tokens(&guarded).await.len(), 1, "the first token is left");
    assert_eq!(summaries(&close(&mut core, &private).await), "");
    let gone = renew(&mut core, &private).await;
    assert!(
        summaries(&gone.diagnostics).contains(&format!("the token {name} was deleted, or has expired")),
        "{gone:?}"
    );
    assert_eq!(tokens(&guarded).await.len(), 1, "a renewal makes no token");
    // A later token of the name is another one.
    guarded.token(&name, &["readers"], |_| ()).await;
    assert_eq!(summaries(&close(&mut core, &private).await), "");
    assert_eq!(tokens(&guarded).await.len(), 2);
}

#[tokio::test]
async fn a_token_grants_no_more_than_the_one_of_the_provider() {
    let (guarded, mut core) = guarded().await;
    let rule =
        |kind: &str, verb: &str| TypeRule { types: vec![kind.into()], verbs: vec![verb.into()], ..TypeRule::default() };
    let makes = [rule("mortise/Token", "*"), rule("mortise/Policy", "read"), rule("fields.v1.Everything", "read")];
    guarded.policy("makers", "", makes.to_vec()).await;
    let maker = guarded.token("makers-x", &["makers"], |_| ()).await;
    let reader = guarded.token("readers-x", &["readers"], |_| ()).await;
    let before = tokens(&guarded).await.len();
    for (holder, names, says) in [
        (&reader, ["readers"], "making a token: the token does not allow this"),
        (&maker, ["writers"], "making a token: the token does not allow this"),
        (&maker, ["absent"], "absent"),
    ] {
        core.configure(&[("token", holder)]).await.unwrap();
        let refused = open(&mut core, &[policies(&names)]).await;
        assert!(summaries(&refused.diagnostics).contains(says), "{refused:?}");
        assert!(refused.result.is_none() && refused.private.is_none());
        assert_eq!(tokens(&guarded).await.len(), before);
    }
    core.configure(&[("token", &maker)]).await.unwrap();
    let opened = open(&mut core, &[policies(&["readers"])]).await;
    assert_eq!(summaries(&opened.diagnostics), "");
    let private = opened.private.unwrap();
    // What another caller may not delete stays until it expires.
    core.configure(&[("token", &reader)]).await.unwrap();
    let refused = close(&mut core, &private).await;
    assert!(summaries(&refused).contains("deleting a token: the token does not allow this"), "{refused:?}");
    core.configure(&[("token", &maker)]).await.unwrap();
    assert_eq!(summaries(&close(&mut core, &private).await), "");
    assert_eq!(tokens(&guarded).await.len(), before);
}

#[tokio::test]
async fn faults_of_a_token_are_at_their_attributes() {
    let (guarded, mut core) = guarded().await;
    let many: Vec<String> = (0..33).map(|number| format!("p-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (given, path, says) in [
        (vec![policies(&[])], "policies", "there are 0 policies; a token has 1 to 32"),
        (vec![policies(&many)], "policies", "there are 33 policies"),
        (vec![policies(&["readers", "Not A Name"])], "policies[1]", "a resource name must consist"),
        (vec![("policies", list(&[Value::Null]))], "policies[0]", "null cannot be an element"),
        (vec![policies(&["readers"]), ("expires_in", text("59s"))], "expires_in", "from 1m to 24h"),
        (vec![policies(&["readers"]), ("expires_in", text("25h"))], "expires_in", "from 1m to 24h"),
        (vec![policies(&["readers"]), ("expires_in", text("soon"))], "expires_in", "from 1m to 24h"),
        (vec![policies(&["readers"]), ("namespace", text("-"))], "namespace", "a resource name must consist"),
    ] {
        let request =
            pb::validate_ephemeral_resource_config::Request { type_name: TOKEN.into(), config: config(&given) };
        let checked = core.client.validate_ephemeral_resource_config(request).await.unwrap().into_inner().diagnostics;
        for faults in [checked, open(&mut core, &given).await.diagnostics] {
            assert!(faults.len() == 1 && path_of(&faults[0]) == path, "{given:?}: {faults:?}");
            assert!(faults[0].summary.contains(says), "{given:?}: {faults:?}");
        }
    }
    let unknown = config(&[("policies", Value::unknown()), ("expires_in", Value::unknown())]);
    let request = pb::validate_ephemeral_resource_config::Request { type_name: TOKEN.into(), config: unknown };
    let checked = core.client.validate_ephemeral_resource_config(request).await.unwrap().into_inner().diagnostics;
    assert_eq!(summaries(&checked), "");
    assert_eq!(tokens(&guarded).await.len(), 1, "nothing was made");
}

real_core::on_each_core!(a_real_core_uses_a_token_for_a_run);

/// A provider with the token writes a resource; the token is in no file, and gone at the end of each command.
async fn a_real_core_uses_a_token_for_a_run(core: RealCore) {
    let (guarded, _core) = guarded().await;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("none.tfrc"), "").unwrap();
    let write = |policy: &str| {
        let configuration = format!(
            "{REQUIRED}provider \"mortise\" {{\n  token = \"{}\"\n}}\nephemeral \"{TOKEN}\" \"run\" {{\n  policies = \
             [\"{policy}\"]\n  expires_in = \"5m\"\n}}\nprovider \"mortise\" {{\n  alias = \"run\"\n  token = \
             ephemeral.{TOKEN}.run.secret\n}}\nresource \"{EVERYTHING}\" \"y\" {{\n  provider = mortise.run\n  name = \"y\"\n  \
             data {{\n    text = \"one\"\n  }}\n}}\n",
            guarded.management
        );
        std::fs::write(dir.path().join("main.tf"), configuration).unwrap();
    };
    let run = |arguments: &[&str]| core.run_as(&guarded.management, dir.path(), &guarded.server, arguments);
    // A secret of a token in hexadecimal digits.
    let has_secret = |text: &str| {
        text.split(|letter: char| !letter.is_ascii_hexdigit())
            .any(|word| word.len() == 64 && word != guarded.management)
    };
    write("readers");
    let (applied, said) = run(&["apply", "-auto-approve"]);
    assert!(!applied && said.contains("the token does not allow this"), "the policy counts: {said}");
    // Core 1.11 closes nothing after a failed apply: such a token expires.
    let left = tokens(&guarded).await.len();
    write("writers");
    let (planned, said) = run(&["plan", "-out=planned"]);
    assert!(planned, "{said}");
    let (shown, plan) = run(&["show", "-json", "planned"]);
    assert!(shown && plan.contains("\"y\"") && !has_secret(&plan), "{plan}");
    let (applied, said) = run(&["apply", "planned"]);
    assert!(applied && said.contains("1 added"), "{said}");
    let state = std::fs::read_to_string(dir.path().join("terraform.tfstate")).unwrap();
    assert!(state.contains("\"y\"") && !has_secret(&state), "{state}");
    assert_eq!(tokens(&guarded).await.len(), left, "plan and apply close theirs");
}
