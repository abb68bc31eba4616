//! The results of conflicts, and that hostile Routes get nothing past the check.

use mortise_plugin::{Typed, testing::World};

use super::*;
use crate::{ROUTE, proto::edge::v1::Upstream};

fn nginx(resolver: Option<&str>) -> Nginx {
    Nginx { listen: "127.0.0.1:8080".into(), resolver: resolver.map(str::to_owned) }
}

fn route(name: &str, age: u32, prefix: &str, address: &str) -> Typed<Route> {
    let mut id = ROUTE.id(name, &World::tenancy());
    id.uid = format!("01ARZ3NDEKTSV4RRFFQ69G5F{age:02}");
    let upstreams = vec![Upstream { address: address.into(), weight: 1 }];
    Typed::new(id, Route { hostname: "a.example".into(), path_prefix: prefix.into(), upstreams, service: None })
}

fn fresh(routes: impl IntoIterator<Item = Typed<Route>>) -> Vec<Member> {
    let member =
        |route: Typed<Route>| Member { upstreams: route.data.upstreams.clone(), route, before: None, refused: None };
    routes.into_iter().map(member).collect()
}

/// The members after the steps.
fn done(members: Vec<Member>, steps: &[Step]) -> Vec<Member> {
    let after = |(number, member): (usize, Member)| {
        let before = match &steps.iter().find(|step| step.member == number).unwrap().action {
            FileAction::Put(text) => Some(text.clone()),
            FileAction::Remove => None,
        };
        Member { before, ..member }
    };
    members.into_iter().enumerate().map(after).collect()
}

fn text(steps: &[Step], member: usize) -> &str {
    match &steps.iter().find(|step| step.member == member).unwrap().action {
        FileAction::Put(text) => text,
        FileAction::Remove => "",
    }
}

#[test]
fn one_route_is_one_whole_file() {
    let steps = plan("a.example", &nginx(None), &fresh([route("web", 1, "/", "10.0.0.1:80")])).unwrap();
    assert_eq!(
        text(&steps, 0),
        "# edge.v1.Route default/default/web\n\
         # hostname a.example\n\
         # path_prefix /\n\
         # Written by Mortise, over whatever is here.\n\
         \n\
         upstream mortise_default_default_web {\n    \
             server 10.0.0.1:80 weight=1;\n\
         }\n\
         \n\
         server {\n    \
             listen 127.0.0.1:8080;\n    \
             server_name a.example;\n    \
             proxy_http_version 1.1;\n    \
             proxy_set_header Host $host;\n    \
             proxy_set_header X-Real-IP $remote_addr;\n    \
             proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n    \
             proxy_set_header X-Forwarded-Proto $scheme;\n    \
             location / {\n        \
                 proxy_pass http://mortise_default_default_web;\n    \
             }\n\
         }\n"
    );
}

#[test]
fn the_oldest_has_the_server_block_and_comes_behind_those_that_it_names() {
    let members = fresh([route("b", 2, "/b", "10.0.0.2:80"), route("a", 1, "/a", "10.0.0.1:80")]);
    let steps = plan("a.example", &nginx(None), &members).unwrap();
    assert_eq!(steps.iter().map(|step| step.member).collect::<Vec<_>>(), [0, 1]);
    assert!(!has_server(text(&steps, 0)) && has_server(text(&steps, 1)));
    for location in ["= /a", "/a/", "= /b", "/b/"] {
        assert!(text(&steps, 1).contains(&format!("    location {location} {{\n")), "{location}");
    }
    assert!(text(&steps, 1).contains("location / {\n        return 404;\n    }"));
    let again = plan("a.example", &nginx(None), &done(members, &steps)).unwrap();
    assert!((0..2).all(|member| text(&again, member) == text(&steps, member)), "nothing changes by itself");
}

#[test]
fn a_new_server_block_is_there_before_the_old_one_goes() {
    let members = fresh([route("b", 2, "/b", "10.0.0.2:80"), route("c", 3, "/c", "10.0.0.3:80")]);
    let steps = plan("a.example", &nginx(None), &members).unwrap();
    let mut members = done(members, &steps);
    members.extend(fresh([route("a", 1, "/a", "10.0.0.1:80")]));
    let steps = plan("a.example", &nginx(None), &members).unwrap();
    assert_eq!(steps.iter().map(|step| step.member).collect::<Vec<_>>(), [1, 2, 0]);
}

#[test]
fn the_older_keeps_the_path() {
    let members = fresh([route("young", 2, "/", "10.0.0.2:80"), route("old", 1, "/", "10.0.0.1:80")]);
    let steps = plan("a.example", &nginx(None), &members).unwrap();
    assert_eq!(steps[0].verdict, RouteResult::Written);
    assert_eq!((steps[1].member, &steps[1].action), (0, &FileAction::Remove), "removals are last");
    assert_eq!(steps[1].verdict, RouteResult::Conflict(members[1].route.id().clone()));
    assert!(!text(&steps, 1).contains("young"));
}

#[test]
fn any_is_the_default_of_the_address() {
    let steps = plan("_", &nginx(None), &fresh([route("any", 1, "/", "10.0.0.1:80")])).unwrap();
    assert!(text(&steps, 0).contains("listen 127.0.0.1:8080 default_server;\n    server_name _;\n"));
}

#[test]
fn what_the_rules_refuse_keeps_what_it_had() {
    let members = fresh([route("a", 1, "/a", "10.0.0.1:80"), route("b", 2, "/b", "10.0.0.2:80")]);
    let before = plan("a.example", &nginx(None), &members).unwrap();
    let mut members = done(members, &before);
    members[0].route.data.upstreams[0].address = "10.0.0.9:80; } include /etc/passwd".into();
    members[1].route.data.path_prefix = "/c".into();
    let steps = plan("a.example", &nginx(None), &members).unwrap();
    assert!(text(&steps, 0).contains("server 10.0.0.1:80 weight=1;") && text(&steps, 0).contains("location = /a {"));
    assert!(text(&steps, 0).contains("location = /c {"), "others go on");
    let verdicts = steps.iter().map(|step| (step.member, &step.verdict)).collect::<BTreeMap<_, _>>();
    assert!(matches!(verdicts[&0], RouteResult::Invalid(fault) if fault.starts_with("data.upstreams[0].address: ")));
    assert_eq!(verdicts[&1], &RouteResult::Written);

    members[0].before = members[0].before.take().map(|text| text.replace("10.0.0.1:80", "10.0.0.1:80; evil"));
    let steps = plan("a.example", &nginx(None), &members).unwrap();
    assert!(has_server(text(&steps, 1)) && text(&steps, 0).is_empty(), "what was is no better: it is out");
}

/// A resolver moves host names out of the upstream block; a variable exists for as long as a location uses it.
#[test]
fn names_are_looked_up_for_each_request() {
    let routes = || [route("head", 1, "/", "10.0.0.1:80"), route("by-name", 2, "/api", "app.example:80")];
    let mut members = fresh(routes());
    members[1].upstreams.push(Upstream { address: "10.0.0.2:80".into(), weight: 3 });
    let with = nginx(Some("127.0.0.1:53"));
    let steps = plan("a.example", &with, &members).unwrap();
    assert_eq!(
        text(&steps, 1),
        "# edge.v1.Route default/default/by-name\n\
         # hostname a.example\n\
         # path_prefix /api\n\
         # Written by Mortise, over whatever is here.\n\
         # name app.example:80 weight=1\n\
         \n\
         upstream mortise_default_default_by-name {\n    \
             server 10.0.0.2:80 weight=3;\n\
         }\n\
         \n\
         split_clients $request_id $mortise_default_default_by__name {\n    \
             25.00% app.example:80;\n    \
             * mortise_default_default_by-name;\n\
         }\n"
    );
    let head = text(&steps, 0);
    assert!(head.contains("    resolver 127.0.0.1:53;\n"), "{head}");
    assert!(head.contains("proxy_pass http://$mortise_default_default_by__name;"), "{head}");
    let order = |steps: &[Step]| steps.iter().map(|step| step.member).collect::<Vec<_>>();
    assert_eq!(order(&steps), [1, 0], "declared before it is used");

    let (_, part) = RouteConfig::recover(RouteName::of(members[1].route.id()), text(&steps, 1)).unwrap();
    assert_eq!(part.render("a.example", None), text(&steps, 1), "an import finds the names");
    assert!(part.is_valid());
    let mut members = done(members, &steps);
    members[1].upstreams.remove(0);
    let steps = plan("a.example", &with, &members).unwrap();
    assert!(!has_variable(text(&steps, 1)) && !text(&steps, 0).contains("resolver"));
    assert_eq!(order(&steps), [0, 1], "gone after it was used");
    let steps = plan("a.example", &nginx(None), &fresh(routes())).unwrap();
    assert!(text(&steps, 1).contains("    server app.example:80 weight=1;"), "as before, without a resolver");
}

/// A Route with hostile text in each place, as if no rule had seen it.
#[test]
fn no_hostile_route_gets_into_a_file() {
    let hostile = [
        "x;",
        "x}",
        "x{",
        "x\"",
        "x'",
        "x\\",
        "$host",
        "x y",
        "x\ny",
        "x;}\nserver{listen 1;root /;}",
        "# x",
        "x\n#",
        "x\0",
        "é",
        "127.0.0.1:80;server 10.0.0.9:80",
        "unix:/run/secret.sock",
        "/;}location /etc{root /",
        "~.*",
        "a\r\nb",
        "../../x",
        "",
    ];
    for evil in hostile {
        let mut routes = Vec::new();
        for place in 0..3 {
            let mut one = route("evil", 1, "/evil", "10.0.0.6:80");
            match place {
                0 => one.data.hostname = evil.into(),
                1 => one.data.path_prefix = evil.into(),
                _ => one.data.upstreams[0].address = evil.into(),
            }
            routes.push(one);
        }
        for one in routes {
            let hostname = one.data.hostname.clone();
            let mut good = route("good", 2, "/", "10.0.0.1:80");
            good.data.hostname = "a.example".into();
            match plan(&hostname, &nginx(None), &fresh([one, good])) {
                // A Route asks for the hostname itself: no file of it passes.
                Err(fault) => {
                    assert!(
                        hostname == evil && fault.to_string().contains("default.default.good.conf"),
                        "{evil:?}: {fault}"
                    )
                }
                Ok(steps) => {
                    assert_eq!(text(&steps, 0), "", "{evil:?}");
                    assert!(steps.iter().any(|step| matches!(step.verdict, RouteResult::Invalid(_))), "{evil:?}");
                }
            }
        }
    }
}

#[test]
fn a_listen_that_is_none_is_held_back() {
    let hostile = Nginx { listen: "80; root /".into(), resolver: None };
    assert!(plan("a.example", &hostile, &fresh([route("a", 1, "/", "10.0.0.1:80")])).is_err());
    let hostile = Nginx { resolver: Some("127.0.0.1:53; root /".into()), ..nginx(None) };
    assert!(plan("a.example", &hostile, &fresh([route("a", 1, "/", "a.example:80")])).is_err());
}
