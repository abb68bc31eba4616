//! What one Route puts into nginx's configuration, as text and back.
//!
//! A file says in its head which hostname and path it is for, so that what a Route was before can be read off its file;
//! then the Route's `upstream` block; then, in the file of a hostname's oldest Route, the `server` block of the
//! hostname.
//!
//! Everything that goes in has passed [`crate::rules`], and what comes out goes through [`crate::check`].

use std::fmt::Write as _;

use mortise_plugin::{name, pb};

use crate::{
    proto::edge::v1::{Route, Upstream},
    rules,
};

/// What a file begins with, before the Route's place.
const MARK: &str = "# edge.v1.Route ";

/// The server of an upstream block that has none, since nginx takes no empty block: requests are answered 502.
pub(crate) const NOWHERE: &str = "server 127.0.0.1:1 down";

/// What every upstream is told about a request, and how: for all locations of a server.
pub(crate) const PROXY: [&str; 5] = [
    "proxy_http_version 1.1",
    "proxy_set_header Host $host",
    "proxy_set_header X-Real-IP $remote_addr",
    "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for",
    "proxy_set_header X-Forwarded-Proto $scheme",
];

/// Where a Route stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RouteName {
    partition: String,
    namespace: String,
    name: String,
}

impl RouteName {
    pub(crate) fn of(id: &pb::Id) -> Self {
        Self::new(id.tenancy.clone().unwrap_or_default(), &id.name)
    }

    /// A Route of that name there.
    pub(crate) fn new(tenancy: pb::Tenancy, name: &str) -> Self {
        let pb::Tenancy { partition, namespace } = tenancy;
        Self { partition, namespace, name: name.to_owned() }
    }

    /// The Route that has a file of that name; none if no Route has.
    pub(crate) fn of_file(file: &str) -> Option<Self> {
        let parts = file.strip_suffix(".conf")?.split('.').collect::<Vec<_>>();
        let [partition, namespace, name] = *parts.as_slice() else { return None };
        let of = Self { partition: partition.into(), namespace: namespace.into(), name: name.into() };
        parts.iter().all(|part| name::fault(part).is_none()).then_some(of)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn tenancy(&self) -> pb::Tenancy {
        pb::Tenancy { partition: self.partition.clone(), namespace: self.namespace.clone() }
    }

    /// Whether a text begins as its file does.
    pub(crate) fn is_head_of(&self, text: &str) -> bool {
        text.strip_prefix(MARK).and_then(|rest| rest.lines().next()).is_some_and(|head| head == self.shown())
    }

    /// The file's name. Names of resources have no dots, so no two Routes have one file.
    pub(crate) fn file(&self) -> String {
        format!("{}.{}.{}.conf", self.partition, self.namespace, self.name)
    }

    /// The `upstream` block's name. Names of resources have no underscores, and hosts have none either.
    pub(crate) fn upstream(&self) -> String {
        format!("mortise_{}_{}_{}", self.partition, self.namespace, self.name)
    }

    /// For people.
    pub(crate) fn shown(&self) -> String {
        format!("{}/{}/{}", self.partition, self.namespace, self.name)
    }
}

/// What one Route contributes to its hostname.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RouteConfig {
    pub(crate) name: RouteName,
    pub(crate) prefix: String,
    /// Addresses and weights.
    upstreams: Vec<(String, u32)>,
}

impl RouteConfig {
    pub(crate) fn new(name: RouteName, prefix: &str, upstreams: &[Upstream]) -> Self {
        let upstreams = upstreams.iter().map(|one| (one.address.clone(), one.weight)).collect();
        Self { name, prefix: prefix.to_owned(), upstreams }
    }

    /// What a Route contributed when its file was written, and to which hostname.
    pub(crate) fn recover(name: RouteName, text: &str) -> Option<(&str, Self)> {
        let prefix = text.lines().find_map(|line| line.strip_prefix("# path_prefix "))?.to_owned();
        let server = |line: &str| {
            let (address, weight) = line.strip_prefix("    server ")?.strip_suffix(';')?.split_once(" weight=")?;
            Some((address.to_owned(), weight.parse().ok()?))
        };
        let upstreams = text.lines().filter_map(server).collect();
        Some((hostname(text)?, Self { name, prefix, upstreams }))
    }

    /// Whether the rules allow it. What was read off a file may be anything.
    pub(crate) fn is_sound(&self) -> bool {
        let sound =
            |(address, weight): &(String, u32)| rules::address(address).is_ok() && rules::weight(*weight).is_ok();
        rules::path_prefix(&self.prefix).is_ok() && !self.upstreams.is_empty() && self.upstreams.iter().all(sound)
    }

    /// The Route that contributes this to a hostname.
    pub(crate) fn into_route(self, hostname: &str) -> Route {
        let upstreams = self.upstreams.into_iter().map(|(address, weight)| Upstream { address, weight }).collect();
        Route { hostname: hostname.to_owned(), path_prefix: self.prefix, upstreams, service: None }
    }

    /// The text of its file, with the `server` block if this is the one that has it.
    pub(crate) fn render(&self, hostname: &str, server: Option<&ServerBlock<'_>>) -> String {
        let Self { name, prefix, upstreams } = self;
        let mut text = format!(
            "{MARK}{}\n# hostname {hostname}\n# path_prefix {prefix}\n# Written by Mortise, over whatever is here.\n\n",
            name.shown()
        );
        // Writing to a text does not fail.
        let _ = writeln!(text, "upstream {} {{", name.upstream());
        for (address, weight) in upstreams {
            let _ = writeln!(text, "    server {address} weight={weight};");
        }
        if upstreams.is_empty() {
            let _ = writeln!(text, "    {NOWHERE};");
        }
        text.push_str("}\n");
        if let Some(server) = server {
            server.render(hostname, &mut text);
        }
        text
    }
}

/// A hostname's `server` block.
pub(crate) struct ServerBlock<'a> {
    pub(crate) listen: &'a str,
    pub(crate) parts: &'a [&'a RouteConfig],
}

impl ServerBlock<'_> {
    /// A location is for whole segments: nginx alone would take `/api` for a beginning of `/apis`. What no Route is for
    /// is not found: without a location, nginx would look among its own files.
    fn render(&self, hostname: &str, text: &mut String) {
        let default = if hostname == "_" { " default_server" } else { "" };
        let _ = writeln!(text, "\nserver {{\n    listen {}{default};\n    server_name {hostname};", self.listen);
        for line in PROXY {
            let _ = writeln!(text, "    {line};");
        }
        let mut location = |path: &str, does: &str| {
            let _ = writeln!(text, "    location {path} {{\n        {does};\n    }}");
        };
        for part in self.parts {
            let pass = format!("proxy_pass http://{}", part.name.upstream());
            if part.prefix == "/" {
                location("/", &pass);
            } else {
                location(&format!("= {}", part.prefix), &pass);
                location(&format!("{}/", part.prefix), &pass);
            }
        }
        if self.parts.iter().all(|part| part.prefix != "/") {
            location("/", "return 404");
        }
        text.push_str("}\n");
    }
}

/// The hostname that a file was written for; none for files of others.
pub(crate) fn hostname(text: &str) -> Option<&str> {
    let head = text.starts_with(MARK);
    text.lines().find_map(|line| line.strip_prefix("# hostname ")).filter(|_| head)
}

/// Whether a file has a `server` block.
pub(crate) fn has_server(text: &str) -> bool {
    text.lines().any(|line| line == "server {")
}
