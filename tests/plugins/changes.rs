//! Calls of plugins besides writes: plans, moves, imports, functions, and private bytes of single resources.

use std::fs;

use mortise_api::{ChangeServiceClient, FunctionServiceClient};
use mortise_resource::{
    data::{
        self, CallFunctionRequest, FunctionFault, ImportRequest, MoveRequest, PlanRequest, PlanResponse,
        call_function_response::Outcome, plan_response::Action,
    },
    manifest::{FunctionEntries, FunctionValue, FunctionValues, function_value::Value},
    pb, types,
};
use mortise_test_guests::{Inner, Thing};
use tonic::{Code, Status, transport::Channel};
use tonic_types::StatusExt as _;

use crate::support::{
    Server, Setup, any, artist, decoded, eventually, gvk, id, id_of, make_place, owned, refusal, resource, tenancy,
    thing, tokens::*, tombstones, until_gone,
};

const THING: &str = "changes.v1.Thing";
const OLD: &str = "changes.v1.OldThing";

fn text(text: &str) -> Thing {
    Thing { text: text.into(), ..Thing::default() }
}

fn old(name: &str, thing: &Thing) -> pb::Resource {
    let new = self::thing("changes", name, thing);
    pb::Resource { id: Some(id(OLD, name)), ..new }
}

/// A thing after its controller's work.
async fn settled(server: &Server, name: &str) -> pb::Resource {
    let id = id(THING, name);
    eventually("the controller has written it", || async {
        server.read(&id).await.is_ok_and(|found| decoded::<Thing>(&found).inner.is_some())
    })
    .await;
    server.read(&id).await.unwrap()
}

async fn changes(server: &Server) -> ChangeServiceClient<Channel> {
    ChangeServiceClient::new(server.channel().await)
}

async fn plan(server: &Server, resource: &pb::Resource) -> Result<PlanResponse, Status> {
    let request = PlanRequest { resource: Some(resource.clone()), create: false };
    changes(server).await.plan(request).await.map(tonic::Response::into_inner)
}

async fn move_to(server: &Server, name: &str, dry_run: bool) -> Result<pb::Resource, Status> {
    let request = MoveRequest { id: Some(id(OLD, name)), to: Some(gvk(THING)), dry_run, ..MoveRequest::default() };
    let answer = changes(server).await.r#move(request).await?.into_inner();
    Ok(answer.resource.unwrap())
}

fn import_of(external_id: &str) -> ImportRequest {
    ImportRequest { r#type: Some(gvk(THING)), external_id: external_id.into(), ..ImportRequest::default() }
}

async fn import(server: &Server, request: ImportRequest) -> Result<pb::Resource, Status> {
    Ok(changes(server).await.import(request).await?.into_inner().resource.unwrap())
}

async fn start() -> Server {
    Setup::new().guest("changes").start().await
}

fn warnings(answer: &PlanResponse) -> Vec<&str> {
    answer.warnings.iter().map(|one| one.summary.as_str()).collect()
}

#[tokio::test]
async fn a_plan_reports_the_effect_of_a_write_and_changes_nothing() {
    let server = start().await;
    let new = thing("changes", "a", &text(""));
    let planned = plan(&server, &new).await.unwrap();
    assert_eq!((planned.action(), &planned.prior, &planned.replace), (Action::Create, &None, &vec![]));
    let would = planned.resource.unwrap();
    assert_eq!(decoded::<Thing>(&would).text, "untitled", "with defaults");
    assert_eq!((would.version.as_str(), would.generation.as_str()), ("", ""));
    let predicted = decoded::<Thing>(&planned.predicted.unwrap());
    assert_eq!(predicted.inner, Some(Inner { text: "seen untitled".into() }));
    assert_eq!(refusal(server.read(&id(THING, "a")).await).0, Code::NotFound, "nothing was written");

    server.write(new.clone()).await.unwrap();
    let stored = settled(&server, "a").await;
    let same = plan(&server, &stored).await.unwrap();
    assert_eq!((same.action(), &same.predicted), (Action::None, &None));
    let bare = pb::Resource { version: String::new(), generation: String::new(), ..stored.clone() };
    assert_eq!(plan(&server, &bare).await.unwrap().action(), Action::None);
    // The controller's change would disappear for a moment.
    let update = plan(&server, &new).await.unwrap();
    assert_eq!((update.action(), &update.prior), (Action::Update, &Some(stored.clone())));
    assert!(update.predicted.is_some());
    eventually("the plan sees what is kept", || async {
        let said = plan(&server, &bare).await.unwrap();
        warnings(&said).iter().any(|one| one.starts_with("kept "))
    })
    .await;

    let other = thing("changes", "a", &Thing { number: 7, ..text("") });
    let replaced = plan(&server, &other).await.unwrap();
    assert_eq!((replaced.action(), replaced.replace.as_slice()), (Action::Replace, &["data.number".to_owned()][..]));
    let create = PlanRequest { resource: Some(other), create: true };
    let create = changes(&server).await.plan(create).await.unwrap().into_inner();
    assert_eq!((create.action(), create.replace, create.prior), (Action::Create, vec![], None));
    assert_eq!(server.read(&id(THING, "a")).await.unwrap().generation, stored.generation, "nothing was written");
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn a_plan_is_refused_as_its_write_would_be() {
    let server = Setup::new().guest("changes").guest("every-field").start().await;
    let forbidden = plan(&server, &thing("changes", "a", &text("forbidden"))).await.unwrap_err();
    assert_eq!((forbidden.code(), forbidden.message()), (Code::InvalidArgument, "it is forbidden"));
    let violations = forbidden.get_details_bad_request().unwrap().field_violations;
    assert_eq!(violations.iter().map(|one| one.field.as_str()).collect::<Vec<_>>(), ["data.text"]);
    let (code, said) = refusal(plan(&server, &thing("changes", "boom-plan", &text("x"))).await);
    assert!(code == Code::Internal && said.contains("plugin changes") && said.contains("plan"), "{said}");
    assert!(plan(&server, &thing("changes", "b", &text("x"))).await.is_ok(), "others go on");

    let stored = server.write(artist("korn")).await.unwrap();
    let at = |change: fn(&mut pb::Resource)| {
        let mut wanted = artist("korn");
        change(&mut wanted);
        wanted
    };
    let wrong_uid = at(|wanted| wanted.id.as_mut().unwrap().uid = "01ARZ3NDEKTSV4RRFFQ69G5FAV".into());
    assert_eq!(refusal(plan(&server, &wrong_uid).await).0, Code::FailedPrecondition);
    assert_eq!(refusal(plan(&server, &at(|wanted| wanted.version = "1".into())).await).0, Code::Aborted);
    assert_eq!(plan(&server, &stored).await.unwrap().action(), Action::None);
    let owner = at(|wanted| wanted.owner = Some(id("demo.v2.Artist", "other")));
    assert_eq!(plan(&server, &owner).await.unwrap().replace, ["owner"]);
    assert_eq!(refusal(plan(&server, &resource(id("nope.v1.Nope", "x"), None)).await).0, Code::InvalidArgument);
    let nothing = changes(&server).await.plan(PlanRequest::default()).await;
    assert_eq!(refusal(nothing), (Code::InvalidArgument, "resource is required".into()));
    // Immutable fields, which the host itself checks.
    let fields = |fixed: &str| {
        let data = mortise_test_guests::Everything { fixed_name: fixed.into(), ..Default::default() };
        resource(id("fields.v1.Everything", "x"), Some(any("mortise.test.v1.Everything", &data)))
    };
    server.write(fields("a")).await.unwrap();
    let changed = plan(&server, &fields("b")).await.unwrap();
    assert_eq!((changed.action(), changed.replace), (Action::Replace, vec!["data.fixed_name".to_owned()]));
}

#[tokio::test]
async fn a_moved_resource_is_another_one_in_one_commit() {
    let server = start().await;
    let stored = server.write(old("a", &text("hello"))).await.unwrap();
    let child = server.write(owned(artist("child"), stored.id.as_ref().unwrap())).await.unwrap();
    let would = move_to(&server, "a", true).await.unwrap();
    assert_eq!((would.version.as_str(), decoded::<Thing>(&would).items), ("", vec!["moved".to_owned()]));
    assert!(server.read(&id(OLD, "a")).await.is_ok(), "nothing was written");

    let moved = move_to(&server, "a", false).await.unwrap();
    assert_eq!(moved.id.as_ref().unwrap().r#type, Some(gvk(THING)));
    assert_ne!(moved.id.as_ref().unwrap().uid, stored.id.as_ref().unwrap().uid);
    let data = decoded::<Thing>(&moved);
    assert_eq!((data.text.as_str(), data.items), ("hello", vec!["moved".to_owned()]));
    assert_eq!(refusal(server.read(&id(OLD, "a")).await).0, Code::NotFound);
    assert!(server.read(&id(THING, "a")).await.is_ok());
    until_gone(&server, &id_of(&child)).await;
    assert_eq!(refusal(move_to(&server, "a", false).await).0, Code::NotFound, "it is not there any more");
    assert!(!tombstones(&server).await.is_empty());
}

#[tokio::test]
async fn a_move_that_cannot_be_changes_nothing() {
    let server = start().await;
    for (name, what) in [("stuck", "stuck"), ("trap", "trap"), ("bad", "forbidden"), ("there", "x"), ("held", "x")] {
        server.write(old(name, &text(what))).await.unwrap();
    }
    let there = server.write(thing("changes", "there", &text("first"))).await.unwrap();
    for (name, code, says) in [
        ("stuck", Code::InvalidArgument, "it is stuck"),
        ("trap", Code::Internal, "plugin changes"),
        ("bad", Code::InvalidArgument, "it is forbidden"),
        ("there", Code::AlreadyExists, "exists already"),
        ("nobody", Code::NotFound, "resource not found"),
    ] {
        for dry_run in [true, false] {
            let (seen, said) = refusal(move_to(&server, name, dry_run).await);
            assert!(seen == code && said.contains(says), "{name}: {seen:?} {said}");
        }
    }
    for name in ["stuck", "trap", "bad", "there"] {
        assert!(server.read(&id(OLD, name)).await.is_ok(), "{name}");
    }
    assert_eq!(server.read(&id(THING, "there")).await.unwrap().id, there.id);

    let ask = async |request: MoveRequest| refusal(changes(&server).await.r#move(request).await);
    let (from, to) = (Some(id(OLD, "held")), Some(gvk(THING)));
    let whole = MoveRequest { id: from.clone(), to: to.clone(), ..MoveRequest::default() };
    let (code, said) = ask(MoveRequest { to: Some(gvk("demo.v2.Artist")), ..whole.clone() }).await;
    assert!(
        code == Code::InvalidArgument && said.contains("changes.v1.OldThing cannot become demo.v2.Artist"),
        "{said}"
    );
    let (code, said) =
        ask(MoveRequest { id: Some(id(THING, "there")), to: from.clone().unwrap().r#type, ..whole.clone() }).await;
    assert!(code == Code::InvalidArgument && said.contains("cannot become"), "not back: {said}");
    let policy = pb::Id { r#type: Some(types::policy().to_pb()), name: "x".into(), ..pb::Id::default() };
    assert_eq!(ask(MoveRequest { id: Some(policy), ..whole.clone() }).await.0, Code::InvalidArgument);
    assert_eq!(ask(MoveRequest { version: "1".into(), ..whole.clone() }).await.0, Code::Aborted);
    let other = pb::Id { uid: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(), ..id(OLD, "held") };
    assert_eq!(ask(MoveRequest { id: Some(other), ..whole.clone() }).await.0, Code::NotFound);
    assert_eq!(ask(MoveRequest { id: None, ..whole.clone() }).await, (Code::InvalidArgument, "id is required".into()));
    assert_eq!(ask(MoveRequest { to: None, ..whole }).await, (Code::InvalidArgument, "to is required".into()));
}

/// A move without a version queues with the other writers of the resource.
#[tokio::test]
async fn a_move_without_a_version_does_not_lose_to_other_writers() {
    let server = &start().await;
    for round in 0..8 {
        let name = format!("busy-{round}");
        server.write(old(&name, &text("0"))).await.unwrap();
        let writes = async {
            for n in 1..40 {
                // After the move, this makes the old name again.
                server.write(old(&name, &text(&n.to_string()))).await.unwrap();
            }
        };
        let (moved, ()) = tokio::join!(move_to(server, &name, false), writes);
        let moved = moved.unwrap_or_else(|status| panic!("{name}: {status}"));
        assert_eq!(moved.id.unwrap().r#type, Some(gvk(THING)));
    }
}

/// Finalizers mark the moved resource, as in a deletion; a marked resource stays as it is.
#[tokio::test]
async fn finalizers_hold_a_moved_resource() {
    let server = start().await;
    let mut held = old("held", &text("x"));
    held.metadata.insert("finalizers".into(), "test/hold".into());
    server.write(held).await.unwrap();
    let moved = move_to(&server, "held", false).await.unwrap();
    assert!(!moved.metadata.contains_key("finalizers"), "they are the old one's");
    let old = server.read(&id(OLD, "held")).await.unwrap();
    assert!(old.metadata.contains_key("deletionTimestamp"));
    assert_eq!(refusal(move_to(&server, "held", false).await).0, Code::FailedPrecondition);
}

#[tokio::test]
async fn outside_objects_become_resources() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("letter"), "from outside").unwrap();
    let grant = format!("[plugin.changes.grants]\ndirectories = {{ outside = {{ path = {outside:?} }} }}\n");
    let server = Setup::new().guest("changes").config(grant).start().await;
    let would = import(&server, ImportRequest { dry_run: true, ..import_of("thing:a") }).await.unwrap();
    assert_eq!((would.version.as_str(), decoded::<Thing>(&would).text.as_str()), ("", "imported"));
    assert_eq!(refusal(server.read(&id(THING, "a")).await).0, Code::NotFound);
    let made = import(&server, import_of("thing:a")).await.unwrap();
    assert_eq!(made.id.as_ref().unwrap().tenancy, Some(tenancy("default", "default")));
    assert_eq!(server.read(&id(THING, "a")).await.unwrap().id, made.id);
    let read = import(&server, import_of("file:letter")).await.unwrap();
    assert_eq!(decoded::<Thing>(&read).text, "from outside", "by its grants");
    let named = import(&server, ImportRequest { name: "other".into(), ..import_of("thing:a") }).await.unwrap();
    assert_eq!(named.id.unwrap().name, "other");
    make_place(&server, "default", "blue").await;
    let there = ImportRequest { tenancy: Some(tenancy("", "blue")), ..import_of("thing:a") };
    assert_eq!(import(&server, there).await.unwrap().id.unwrap().tenancy, Some(tenancy("default", "blue")));

    let long = format!("thing:{}", "x".repeat(1024));
    for (external_id, code, says) in [
        ("thing:a", Code::AlreadyExists, "exists already"),
        ("nonsense", Code::InvalidArgument, "nonsense is nothing that can be imported"),
        ("file:none", Code::InvalidArgument, "there is no file none"),
        ("keep:x", Code::InvalidArgument, "private-bytes is not available"),
        ("name:../x", Code::Internal, "plugin changes"),
        ("name:", Code::Internal, "plugin changes"),
        ("boom", Code::Internal, "plugin changes"),
        ("", Code::InvalidArgument, "external_id must be 1 to 1024 bytes"),
        ("a\nb", Code::InvalidArgument, "without control characters"),
        (&long, Code::InvalidArgument, "external_id must be 1 to 1024 bytes"),
    ] {
        for dry_run in [true, false] {
            let (seen, said) = refusal(import(&server, ImportRequest { dry_run, ..import_of(external_id) }).await);
            assert!(seen == code && said.contains(says), "{external_id:.20}: {seen:?} {said}");
        }
    }
    let none = ImportRequest { r#type: Some(gvk("demo.v2.Artist")), ..import_of("x") };
    let (code, said) = refusal(import(&server, none).await);
    assert!(code == Code::InvalidArgument && said.contains("its plugin has no import"), "{said}");
    let bad = ImportRequest { name: "Bad_Name".into(), ..import_of("thing:b") };
    assert_eq!(refusal(import(&server, bad).await).0, Code::InvalidArgument);
    assert!(import(&server, import_of("thing:still")).await.is_ok(), "after its traps");
}

/// A controller keeps a count for each resource; the count is deleted with the resource, and clients cannot change it.
#[tokio::test]
async fn private_bytes_go_with_their_resource() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().guest("changes").data_dir(dir.path()).start().await;
    let kept = |name: &'static str| {
        let server = &server;
        async move {
            // Without a version, since its controller may be about to write it.
            let found = server.read(&id(THING, name)).await.unwrap();
            let planned = plan(server, &pb::Resource { version: String::new(), ..found }).await.unwrap();
            let count = warnings(&planned).iter().find_map(|one| one.strip_prefix("kept ")?.parse::<u64>().ok());
            count.unwrap_or(0)
        }
    };
    let all = || async { server.list(types::private_bytes().to_pb(), tenancy("", ""), "").await.unwrap() };
    server.write(thing("changes", "a", &text("x"))).await.unwrap();
    let stored = settled(&server, "a").await;
    eventually("it is counted", || async { kept("a").await >= 1 }).await;
    let before = kept("a").await;
    server.write(pb::Resource { version: String::new(), ..thing("changes", "a", &text("y")) }).await.unwrap();
    eventually("the count continues", || async { kept("a").await > before }).await;
    let found = all().await;
    assert_eq!(found.len(), 1, "one for each resource and plugin: {found:?}");
    assert_eq!(found[0].owner.as_ref().unwrap().uid, stored.id.as_ref().unwrap().uid);
    assert_eq!(decoded::<data::PrivateBytes>(&found[0]).plugin, "changes");
    assert_eq!(refusal(server.write(found[0].clone()).await).0, Code::PermissionDenied);
    assert_eq!(refusal(server.delete(&id_of(&found[0]), "").await).0, Code::PermissionDenied);

    server.delete(&id(THING, "a"), "").await.unwrap();
    eventually("it goes", || async { all().await.is_empty() }).await;
    // A new resource of the same name starts at zero.
    server.write(thing("changes", "a", &text("x"))).await.unwrap();
    eventually("it is counted", || async { kept("a").await >= 1 }).await;
    // A moved or imported resource gets the private bytes that the plugin returns.
    server.write(old("m", &text("x"))).await.unwrap();
    move_to(&server, "m", false).await.unwrap();
    import(&server, import_of("thing:i")).await.unwrap();
    eventually("both are counted", || async { kept("m").await >= 1 && kept("i").await >= 1 }).await;
    assert_eq!(all().await.len(), 3);
    assert!(server.stop().await.success());
    let server = Setup::new().guest("changes").data_dir(dir.path()).start().await;
    let after = server.list(types::private_bytes().to_pb(), tenancy("", ""), "").await.unwrap();
    assert_eq!(after.len(), 3, "they last");
}

fn number(number: &str) -> FunctionValue {
    FunctionValue { value: Some(Value::Number(number.into())) }
}

fn string(text: &str) -> FunctionValue {
    FunctionValue { value: Some(Value::Text(text.into())) }
}

fn list<const N: usize>(values: [FunctionValue; N]) -> FunctionValue {
    FunctionValue { value: Some(Value::Elements(FunctionValues { values: values.into() })) }
}

fn entries<const N: usize>(values: [(&str, FunctionValue); N]) -> FunctionValue {
    let values = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    FunctionValue { value: Some(Value::Entries(FunctionEntries { values })) }
}

#[tokio::test]
async fn functions_depend_on_their_arguments_alone() {
    let server = start().await;
    let client = FunctionServiceClient::new(server.channel().await);
    let all = client.clone().list_functions(data::ListFunctionsRequest {}).await.unwrap().into_inner().functions;
    let own = all.iter().filter(|one| one.plugin == "changes");
    let names: Vec<_> = own.map(|one| one.function.as_ref().unwrap().name.as_str()).collect();
    let expected = ["concat", "describe", "logs", "refuses", "settings", "spins", "sum", "traps", "wrong"];
    assert_eq!(names, expected);
    let call = |name: &'static str, arguments: Vec<FunctionValue>| {
        let mut client = client.clone();
        async move {
            let request = CallFunctionRequest { plugin: "changes".into(), name: name.into(), arguments };
            client.call_function(request).await.map(|answer| answer.into_inner().outcome.unwrap())
        }
    };
    let null = FunctionValue::default;
    for (name, arguments, result) in [
        ("concat", vec![], string("")),
        ("concat", vec![string("a"), string("ß"), string("c")], string("aßc")),
        ("sum", vec![list([number("1"), number("-3"), null(), number("40")])], number("38")),
        ("describe", vec![null()], entries([])),
        (
            "describe",
            vec![entries([("name", string("Ada")), ("age", number("36.50"))])],
            entries([("age", string("36.50")), ("name", string("Ada"))]),
        ),
    ] {
        for _ in 0..2 {
            assert_eq!(call(name, arguments.clone()).await.unwrap(), Outcome::Result(result.clone()), "{name}");
        }
    }
    let fault = FunctionFault { argument: Some(0), text: "it is refused".into() };
    assert_eq!(call("refuses", vec![string("x")]).await.unwrap(), Outcome::Fault(fault));
    for (name, arguments, code, says) in [
        ("sum", vec![], Code::InvalidArgument, "sum takes 1 arguments, got: 0"),
        ("sum", vec![string("1")], Code::InvalidArgument, "numbers: must be a list"),
        ("sum", vec![list([string("1")])], Code::InvalidArgument, "numbers[0]: must be a number"),
        ("sum", vec![null()], Code::InvalidArgument, "numbers: null is not allowed"),
        ("describe", vec![entries([("name", string("x"))])], Code::InvalidArgument, "\"age\" is missing"),
        ("concat", vec![string(&"x".repeat(1_500_000)); 3], Code::InvalidArgument, "sandbox.reply_bytes"),
        ("nothing", vec![], Code::NotFound, "no function \"nothing\""),
        ("logs", vec![], Code::Internal, "functions have no imports"),
        ("settings", vec![], Code::Internal, "functions have no imports"),
        ("wrong", vec![], Code::Internal, "must be a number"),
        ("traps", vec![], Code::Internal, "plugin changes"),
    ] {
        let (seen, said) = refusal(call(name, arguments).await);
        assert!(seen == code && said.contains(says), "{name}: {seen:?} {said}");
    }
    let (code, said) = refusal(call("spins", vec![]).await);
    assert!(matches!(code, Code::ResourceExhausted | Code::DeadlineExceeded | Code::Internal), "{code:?} {said}");
    let request = CallFunctionRequest { plugin: "nobody".into(), ..CallFunctionRequest::default() };
    assert_eq!(refusal(client.clone().call_function(request).await).0, Code::NotFound);
    assert!(server.write(thing("changes", "a", &text("x"))).await.is_ok(), "its types go on");
}

/// Plans need the rights of a read and a write; moves those of a read, a deletion and a write; imports those of a
/// write.
#[tokio::test]
async fn changes_need_the_rights_of_what_they_do() {
    let guarded = Guarded::start(Setup::new().guest("changes")).await;
    let rule = |verbs: &[&str], types: &[&str]| {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        data::TypeRule { verbs: words(verbs), types: words(types), ..data::TypeRule::default() }
    };
    guarded.policy("read", "", vec![rule(&["read", "list"], &["changes/*"])]).await;
    guarded.policy("write", "", vec![rule(&["write"], &["changes/*"])]).await;
    guarded.policy("old", "", vec![rule(&["delete"], &["changes/*"])]).await;
    guarded.write(old("a", &text("x"))).await;
    let mut tokens = Vec::new();
    for (name, policies) in [
        ("reads", &["read"][..]),
        ("writes", &["write"]),
        ("both", &["read", "write"]),
        ("all", &["read", "write", "old"]),
    ] {
        tokens.push((name, guarded.token(name, policies, |_| {}).await));
    }
    let mut seen = Vec::new();
    for (name, secret) in &tokens {
        let channel = guarded.channel(secret).await;
        let mut client = ChangeServiceClient::new(channel.clone());
        let mut may = String::new();
        let mut note = |code: Option<Code>| {
            assert!(matches!(code, None | Some(Code::PermissionDenied)), "{name}: {code:?}");
            may.push(if code.is_none() { '+' } else { 'P' });
        };
        let wanted = PlanRequest { resource: Some(thing("changes", "p", &text("x"))), create: false };
        note(client.plan(wanted.clone()).await.err().map(|e| e.code()));
        note(client.plan(PlanRequest { create: true, ..wanted }).await.err().map(|e| e.code()));
        let moved =
            MoveRequest { id: Some(id(OLD, "a")), to: Some(gvk(THING)), dry_run: true, ..MoveRequest::default() };
        note(client.r#move(moved).await.err().map(|e| e.code()));
        let found = ImportRequest { dry_run: true, ..import_of("thing:i") };
        note(client.import(found.clone()).await.err().map(|e| e.code()));
        note(client.import(ImportRequest { name: "i".into(), ..found }).await.err().map(|e| e.code()));
        let sum =
            CallFunctionRequest { plugin: "changes".into(), name: "sum".into(), arguments: vec![list([number("1")])] };
        note(FunctionServiceClient::new(channel).call_function(sum).await.err().map(|e| e.code()));
        seen.push((*name, may));
    }
    let expected = [("reads", "PPPPP+"), ("writes", "P+PP++"), ("both", "++P+++"), ("all", "++++++")];
    assert_eq!(seen, expected.map(|(name, may)| (name, may.to_owned())));
    let nobody = guarded.channel("").await;
    let asked = FunctionServiceClient::new(nobody).list_functions(data::ListFunctionsRequest {}).await;
    assert_eq!(refusal(asked).0, Code::PermissionDenied);
}
