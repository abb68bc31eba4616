//! Import of a file that Mortise wrote, whose Route was lost with the data directory.
//!
//! # Contract
//! The external id is the file's name, such as `default.default.web.conf`. The Route is the one that the file was
//! written for, in the tenancy of that name. A file is refused if [`crate::rules`] would not allow its contents, or if
//! its head names another Route.
//!
//! # Limits
//! A file has addresses where its Route had a service, so the imported Route has these as its upstreams. A file
//! without healthy endpoints has none, and cannot be imported.

use mortise_plugin::{Context, Diagnostics, Failure, Import, pb};

use crate::{
    controller::DIRECTORY,
    file::{RouteConfig, RouteName},
    proto::edge::v1::Route,
    rules,
};

/// Reason that a file is not imported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdoptError {
    #[error("an id is the name of a file such as default.default.web.conf; got {0}")]
    FileName(String),
    #[error("{file} belongs to a Route in {partition}/{namespace}; import it there")]
    Elsewhere { file: String, partition: String, namespace: String },
    #[error("the file {0} is not in the directory {DIRECTORY}")]
    NoFile(String),
    #[error("{0} was not written by Mortise for that Route")]
    NotWrittenByMortise(String),
    #[error("{0} has been edited in a way that no Route allows")]
    Edited(String),
    #[error("{file} cannot be read: {source}")]
    Unreadable { file: String, source: Failure },
}

impl From<AdoptError> for Diagnostics {
    fn from(error: AdoptError) -> Self {
        Self::refusal(error.to_string())
    }
}

/// Imports the Route that a file was written for.
pub(crate) fn import(ctx: &Context<'_>, external_id: &str, within: &pb::Tenancy) -> Result<Import<Route>, Diagnostics> {
    let (name, route) = adopt(ctx, external_id, within)?;
    Ok(Import::new(name, route))
}

fn adopt(ctx: &Context<'_>, file: &str, within: &pb::Tenancy) -> Result<(String, Route), AdoptError> {
    let of = RouteName::of_file(file).ok_or_else(|| AdoptError::FileName(rules::shown(file)))?;
    let file = file.to_owned();
    let tenancy = of.tenancy();
    if tenancy != *within {
        let pb::Tenancy { partition, namespace } = tenancy;
        return Err(AdoptError::Elsewhere { file, partition, namespace });
    }
    let content = match ctx.files(DIRECTORY).read(&file) {
        Ok(Some(content)) => content,
        Ok(None) => return Err(AdoptError::NoFile(file)),
        Err(source) => return Err(AdoptError::Unreadable { file, source }),
    };
    let Ok(text) = String::from_utf8(content) else { return Err(AdoptError::NotWrittenByMortise(file)) };
    if !of.is_head_of(&text) {
        return Err(AdoptError::NotWrittenByMortise(file));
    }
    let name = of.name().to_owned();
    match RouteConfig::recover(of, &text) {
        Some((hostname, config)) if is_whole(&text, hostname, &config) => Ok((name, config.into_route(hostname))),
        _ => Err(AdoptError::Edited(file)),
    }
}

/// Whether the Route is valid, and the file contains nothing else.
fn is_whole(text: &str, hostname: &str, config: &RouteConfig) -> bool {
    rules::hostname(hostname).is_ok() && config.is_valid() && text.starts_with(&config.render(hostname, None))
}

#[cfg(test)]
mod tests {
    use mortise_plugin::{
        Typed,
        testing::{AdoptedResource, World},
    };

    use super::*;
    use crate::{PLUGIN, ROUTE, proto::edge::v1::Upstream};

    const FILE: &str = "default.default.web.conf";

    fn route() -> Typed<Route> {
        let upstream = |address: &str, weight| Upstream { address: address.into(), weight };
        let upstreams = vec![upstream("10.0.0.1:80", 3), upstream("[::1]:8080", 1)];
        let data = Route { hostname: "a.example".into(), path_prefix: "/api".into(), upstreams, service: None };
        Typed::new(ROUTE.id("web", &World::tenancy()), data)
    }

    /// A world with the file of the Route, and without the Route.
    fn lost() -> World {
        let world = World::new(&PLUGIN);
        world.grant_directory(DIRECTORY);
        world.put(&route()).unwrap();
        world.settle().unwrap();
        let text = world.file(DIRECTORY, FILE).unwrap();
        let lost = World::new(&PLUGIN);
        lost.grant_directory(DIRECTORY);
        lost.context().files(DIRECTORY).write(FILE, &text).unwrap();
        lost
    }

    fn import(world: &World, file: &str) -> Result<AdoptedResource<Route>, String> {
        world.import(ROUTE, &World::tenancy(), file).map_err(|failure| failure.message)
    }

    #[test]
    fn a_lost_route_comes_back() {
        let world = lost();
        let found = import(&world, FILE).unwrap().resource;
        assert_eq!((found.id(), &found.data), (route().id(), &route().data));
        let before = world.file(DIRECTORY, FILE);
        world.put(&found).unwrap();
        world.settle().unwrap();
        assert_eq!(world.file(DIRECTORY, FILE), before, "nothing changes for nginx");
    }

    #[test]
    fn what_cannot_be_taken_over_is_told_apart() {
        let world = lost();
        let refused = |file: &str| import(&world, file).unwrap_err();
        for name in ["web", "web.conf", "a.b.c.d.conf", "default.default.web", "../default.web.conf", "A.b.c.conf", ""]
        {
            assert!(refused(name).starts_with("an id is the name of a file"), "{name}");
        }
        assert_eq!(
            refused("default.default.api.conf"),
            "the file default.default.api.conf is not in the directory nginx"
        );
        assert_eq!(
            refused("default.other.web.conf"),
            "default.other.web.conf belongs to a Route in default/other; import it there"
        );
        let text = String::from_utf8(world.file(DIRECTORY, FILE).unwrap()).unwrap();
        let with = |text: &str| {
            world.context().files(DIRECTORY).write(FILE, text.as_bytes()).unwrap();
            refused(FILE)
        };
        let not_ours = format!("{FILE} was not written by Mortise for that Route");
        assert_eq!(with("server {\n}\n"), not_ours);
        assert_eq!(with(&text.replace("default/default/web", "default/default/webs")), not_ours);
        world.context().files(DIRECTORY).write(FILE, b"\xff").unwrap();
        assert_eq!(refused(FILE), not_ours);
        let not_sound = format!("{FILE} has been edited in a way that no Route allows");
        for (from, to) in [
            ("# hostname a.example", "# hostname a.example; server"),
            ("# hostname a.example\n", ""),
            ("# path_prefix /api", "# path_prefix /api {"),
            ("10.0.0.1:80 weight=3", "10.0.0.1:80 weight=0"),
            ("10.0.0.1:80 weight=3", "10.0.0.1:80 backup"),
            ("    server 10.0.0.1:80 weight=3;\n    server [::1]:8080 weight=1;\n", "    server 127.0.0.1:1 down;\n"),
        ] {
            assert!(text.contains(from), "{text}");
            assert_eq!(with(&text.replace(from, to)), not_sound, "{to}");
        }
        let bare = World::new(&PLUGIN);
        let fault = import(&bare, FILE).unwrap_err();
        assert_eq!(fault, format!("{FILE} cannot be read: the directory \"nginx\" is not granted"));
    }
}
