//! Lists of existing resources, for `terraform query`.

use mortise_provider::{proto::tfplugin6 as pb, value::Value};
use mortise_resource::data::TypeRule;
use mortise_test_guests::Everything;

use super::{EVERYTHING, REQUIRED, attached, id_of, socket, summaries, text};
use crate::{
    provider::{
        real_core::RealCore,
        terraform_core::{Core, Listed, encode, path_of},
    },
    support::{Server, Setup, any, labelled, make_place, resource, tenancy, tokens::Guarded},
};

/// Enough for every list here.
const LIMIT: i64 = 100;

fn thing(name: &str, namespace: &str, data: &Everything, env: &str) -> mortise_resource::pb::Resource {
    let id = mortise_resource::pb::Id { tenancy: Some(tenancy("default", namespace)), ..id_of(name) };
    labelled(resource(id, Some(any("mortise.test.v1.Everything", data))), &[("env", env)])
}

fn words(text: &str) -> Everything {
    Everything { text: text.into(), ..Everything::default() }
}

async fn write_things(server: &Server) {
    make_place(server, "default", "other").await;
    for (name, namespace, words, env) in [
        ("a-1", "default", self::words("one"), "prod"),
        ("a-2", "default", self::words("two"), "test"),
        ("b-1", "default", self::words("one"), "prod"),
        ("c-1", "other", self::words("one"), "prod"),
    ] {
        server.write(thing(name, namespace, &words, env)).await.unwrap();
    }
}

fn names(found: &[Listed]) -> String {
    found.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_list_selects_by_place_name_filter_and_labels() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    write_things(&server).await;
    let (own, all) = ("default/default/a-1 default/default/a-2 default/default/b-1", "*");
    let everywhere = format!("{own} default/other/c-1");
    for (given, expected) in [
        (vec![], own),
        (vec![("name_prefix", text("a"))], "default/default/a-1 default/default/a-2"),
        (vec![("filter", text("data.text = \"one\""))], "default/default/a-1 default/default/b-1"),
        (vec![("selector", text("env=prod"))], "default/default/a-1 default/default/b-1"),
        (vec![("selector", text("env!=prod"))], "default/default/a-2"),
        (vec![("namespace", text("other"))], "default/other/c-1"),
        (vec![("namespace", text(all))], everywhere.as_str()),
        (vec![("partition", text(all))], everywhere.as_str()),
        (
            vec![
                ("namespace", text(all)),
                ("name_prefix", text("a")),
                ("filter", text("data.text = \"one\"")),
                ("selector", text("env in (prod, test)")),
            ],
            "default/default/a-1",
        ),
        (vec![("name_prefix", text("z"))], ""),
    ] {
        core.validate_list(EVERYTHING, &given).await.unwrap();
        assert_eq!(names(&core.list(EVERYTHING, Some(&given), false, LIMIT).await.unwrap()), expected, "{given:?}");
    }
    assert_eq!(names(&core.list(EVERYTHING, None, false, LIMIT).await.unwrap()), own, "no block `config`");
    // A namespace of the provider's configuration is the default of a list.
    let mut other = Core::attach(&socket(&server)).await;
    other.configure(&[("namespace", "other")]).await.unwrap();
    assert_eq!(names(&other.list(EVERYTHING, None, false, LIMIT).await.unwrap()), "default/other/c-1");
    // Every type has a list.
    let lists: Vec<_> = core.lists.keys().cloned().collect();
    assert_eq!(lists, core.schemas.keys().cloned().collect::<Vec<_>>());
    let found = core.list("mortise_tenancy_namespace", None, false, LIMIT).await.unwrap();
    assert_eq!(names(&found), "default/other", "a scope without namespaces");
    let metadata = core.client.get_metadata(pb::get_metadata::Request {}).await.unwrap().into_inner();
    assert_eq!(metadata.list_resources.into_iter().map(|one| one.type_name).collect::<Vec<_>>(), lists);
}

#[tokio::test]
async fn a_list_has_identities_and_on_demand_whole_resources() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    write_things(&server).await;
    let odd = Everything { text: "odd".into(), double: f64::NAN, secret: "hunter2".into(), ..Everything::default() };
    server.write(thing("odd", "default", &odd, "prod")).await.unwrap();
    let found = core.list(EVERYTHING, Some(&[]), true, LIMIT).await.unwrap();
    assert_eq!(found.len(), 4);
    for one in &found {
        let name = one.identity.get("name").as_str().unwrap();
        let imported = core.import(EVERYTHING, name).await.unwrap();
        assert_eq!(one.state.as_ref(), Some(&imported.state), "{name}: the state of an import");
        for part in ["partition", "namespace", "name", "uid"] {
            assert_eq!(one.identity.get(part), imported.state.get(part), "{name}: {part}");
        }
        let warned = summaries(&one.warnings);
        assert_eq!(warned.starts_with("data.double|"), name == "odd", "a value without a form: {warned}");
    }
    let found = core.list(EVERYTHING, Some(&[]), false, LIMIT).await.unwrap();
    assert!(found.iter().all(|one| one.state.is_none() && one.warnings.is_empty()), "{found:?}");
}

#[tokio::test]
async fn a_list_ends_at_its_limit_and_reports_that_there_are_more() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    // A page has at most 3 MiB.
    let raw = vec![7; 900_000];
    for number in 0..9 {
        let data = Everything { raw: raw.clone(), ..Everything::default() };
        server.write(thing(&format!("n-{number}"), "default", &data, "prod")).await.unwrap();
    }
    for (limit, warned) in [(1, true), (4, true), (8, true), (9, false), (10, false), (LIMIT, false), (i64::MAX, false)]
    {
        let found = core.list(EVERYTHING, Some(&[]), false, limit).await.unwrap();
        let wanted = usize::try_from(limit).unwrap().min(9);
        let expected: Vec<_> = (0..wanted).map(|number| format!("default/default/n-{number}")).collect();
        assert_eq!(names(&found), expected.join(" "));
        let warnings: Vec<_> = found.iter().map(|one| one.warnings.len()).collect();
        assert_eq!(
            (warnings.iter().sum::<usize>(), warnings[wanted - 1] == 1),
            (usize::from(warned), warned),
            "{limit}"
        );
        if warned {
            let said = summaries(&found[wanted - 1].warnings);
            assert!(said.contains(&format!("there are more than {limit} resources|Set limit")), "{said}");
        }
    }
}

/// Writes 60 resources, takes the first of their list, and then deletes, replaces and adds some: core takes a list
/// slowly, and a page has ten resources at most. Returns the other names of the list, or the fault at its end.
async fn rest_of_a_slow_list(server: &Server, core: &mut Core) -> Result<Vec<String>, String> {
    let large = |byte: u8| Everything { raw: vec![byte; 300_000], ..Everything::default() };
    for number in 0..60 {
        server.write(thing(&format!("n-{number:02}"), "default", &large(1), "prod")).await.unwrap();
    }
    let config = encode(&Value::Null);
    let request = pb::list_resource::Request {
        type_name: EVERYTHING.into(),
        config,
        include_resource_object: true,
        limit: LIMIT,
    };
    let mut events = core.client.list_resource(request).await.unwrap().into_inner();
    assert_eq!(events.message().await.unwrap().unwrap().display_name, "default/default/n-00");
    for number in 40..50 {
        server.delete(&id_of(&format!("n-{number}")), "").await.unwrap();
        server.write(thing(&format!("n-{number}-new"), "default", &large(2), "prod")).await.unwrap();
        server.write(thing(&format!("n-{}", number + 10), "default", &large(3), "prod")).await.unwrap();
    }
    let mut found = Vec::new();
    while let Some(event) = events.message().await.unwrap() {
        if event.identity.is_none() {
            return Err(summaries(&event.diagnostic));
        }
        found.push(event.display_name);
    }
    Ok(found)
}

#[tokio::test]
async fn a_list_that_core_takes_slowly_is_of_one_version() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let expected: Vec<_> = (1..60).map(|number| format!("default/default/n-{number:02}")).collect();
    assert_eq!(rest_of_a_slow_list(&server, &mut core).await.unwrap(), expected);
}

/// The server keeps the version of a list as long as what was overwritten since has room.
#[tokio::test]
async fn a_list_whose_version_is_gone_ends_with_a_fault() {
    let server = Setup::new().guest("every-field").env("MORTISE_STORE_WATCH_BYTES", "1MiB").start().await;
    let mut core = Core::attach(&socket(&server)).await;
    core.configure(&[]).await.unwrap();
    let said = rest_of_a_slow_list(&server, &mut core).await.unwrap_err();
    assert!(said.contains("listing: the resources changed too much between two pages|Run it again"), "{said}");
}

/// The data source that lists has the same conditions, and all pages.
#[tokio::test]
async fn the_data_source_selects_by_filter_and_labels() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    write_things(&server).await;
    for number in 0..5 {
        let data = Everything { raw: vec![7; 900_000], ..Everything::default() };
        server.write(thing(&format!("n-{number}"), "default", &data, "large")).await.unwrap();
    }
    let of_type = ("type", text("fields.v1.Everything"));
    for (given, expected) in [
        (vec![("namespace", text("*"))], "a-1 a-2 b-1 n-0 n-1 n-2 n-3 n-4 c-1"),
        (vec![("filter", text("data.text = \"one\""))], "a-1 b-1"),
        (vec![("selector", text("env=prod")), ("partition", text("*"))], "a-1 b-1 c-1"),
        (vec![("selector", text("env=large")), ("name_prefix", text("n-3"))], "n-3"),
    ] {
        let given: Vec<_> = given.into_iter().chain([of_type.clone()]).collect();
        let found = core.data("mortise_resources", &given).await.unwrap();
        let Value::List(found) = found.get("resources") else { panic!("{found:?}") };
        let names: Vec<_> = found.iter().map(|one| one.get("name").as_str().unwrap()).collect();
        assert_eq!(names.join(" "), expected, "{given:?}");
    }
    for (attribute, value) in [("filter", "data.no_such = 1"), ("selector", ",,"), ("namespace", "-")] {
        let faults = core.validate_data("mortise_resources", &[of_type.clone(), (attribute, text(value))]).await;
        assert_eq!(path_of(&faults.unwrap_err()[0]), attribute);
    }
}

#[tokio::test]
async fn faults_of_a_list_are_at_their_attributes() {
    let (_server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    for (attribute, value, says) in [
        ("filter", "data.text =", "filter, at character"),
        ("filter", "data.no_such = 1", "filter, at character"),
        ("filter", "data.text > 1 AND", "filter"),
        ("selector", "env=", ""),
        ("selector", "env==prod,,", "selector: "),
        ("partition", "Not A Name", "a resource name must consist"),
        ("namespace", "-", "a resource name must consist"),
    ] {
        let given = [(attribute, text(value))];
        let checked = core.validate_list(EVERYTHING, &given).await;
        let listed = core.list(EVERYTHING, Some(&given), false, LIMIT).await;
        if says.is_empty() {
            checked.unwrap();
            listed.unwrap();
            continue;
        }
        for faults in [checked.unwrap_err(), listed.unwrap_err()] {
            assert!(path_of(&faults[0]) == attribute && faults[0].summary.contains(says), "{value}: {faults:?}");
        }
    }
    core.validate_list(EVERYTHING, &[("filter", Value::unknown()), ("namespace", Value::unknown())]).await.unwrap();
    let faults = core.list(EVERYTHING, Some(&[("namespace", text("absent"))]), false, LIMIT).await;
    assert!(faults.as_ref().is_ok_and(Vec::is_empty), "{faults:?}");
}

#[tokio::test]
async fn a_list_has_what_the_token_may_read() {
    let guarded = Guarded::start(Setup::new().guest("every-field")).await;
    for name in ["a-1", "a-2", "b-1"] {
        guarded.write(thing(name, "default", &words("one"), "prod")).await;
    }
    let rule = |verb: &str, name_prefixes: &[&str]| TypeRule {
        types: vec!["fields.v1.Everything".into()],
        verbs: vec![verb.into()],
        name_prefixes: name_prefixes.iter().map(|prefix| (*prefix).to_owned()).collect(),
        ..TypeRule::default()
    };
    guarded.policy("lists", "", vec![rule("list", &[]), rule("read", &["a"])]).await;
    guarded.policy("reads", "", vec![rule("read", &[])]).await;
    let (lists, reads) =
        (guarded.token("lister", &["lists"], |_| ()).await, guarded.token("reader", &["reads"], |_| ()).await);
    let mut core = Core::attach(&socket(&guarded.server)).await;
    core.configure(&[("token", &lists)]).await.unwrap();
    let found = core.list(EVERYTHING, Some(&[]), true, LIMIT).await.unwrap();
    assert_eq!(names(&found), "default/default/a-1 default/default/a-2");
    core.configure(&[("token", &reads)]).await.unwrap();
    let faults = core.list(EVERYTHING, Some(&[]), false, LIMIT).await.unwrap_err();
    assert!(summaries(&faults).contains("listing: the token does not allow this"), "{faults:?}");
}

/// Adopts what the server has: the list makes blocks, an apply imports, and a plan finds nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_core_queries_and_adopts() {
    let Some(core) = RealCore::newer_terraform() else { return };
    let server = Setup::new().guest("every-field").start().await;
    write_things(&server).await;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("none.tfrc"), "").unwrap();
    std::fs::write(dir.path().join("main.tf"), REQUIRED).unwrap();
    let query = |condition: &str| {
        let list = format!("list \"{EVERYTHING}\" \"all\" {{\n  provider = mortise\n{condition}}}\n");
        std::fs::write(dir.path().join("all.tfquery.hcl"), list).unwrap();
    };
    let run = |arguments: &[&str]| core.run(dir.path(), &server, arguments);
    query("  config {\n    namespace = \"*\"\n    filter    = \"data.txt = 1\"\n  }\n");
    let (queried, said) = run(&["query"]);
    assert!(!queried && said.contains("filter, at character") && said.contains("all.tfquery.hcl line"), "{said}");
    query("  limit = 2\n");
    let (queried, said) = run(&["query"]);
    assert!(queried && said.contains("default/default/a-2") && !said.contains("b-1"), "{said}");
    assert!(said.contains("there are more than 2 resources"), "{said}");
    query("  config {\n    namespace = \"*\"\n    selector  = \"env=prod\"\n  }\n");
    let (queried, said) = run(&["query", "-generate-config-out=adopted.tf"]);
    assert!(queried, "{said}");
    let generated = std::fs::read_to_string(dir.path().join("adopted.tf")).unwrap();
    let (planned, said) = run(&["plan"]);
    assert!(planned && said.contains("3 to import, 0 to add, 0 to change, 0 to destroy"), "{said}\n{generated}");
    let (applied, said) = run(&["apply", "-auto-approve"]);
    assert!(applied && said.contains("3 imported, 0 added, 0 changed, 0 destroyed"), "{said}");
    let (clean, said) = run(&["plan", "-detailed-exitcode"]);
    assert!(clean, "{said}");
}
