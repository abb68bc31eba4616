//! A Route's part of nginx's configuration, as text and back.
//!
//! The head of a file names its hostname and path, so that the former version of a Route can be read from its file;
//! then comes the Route's `upstream` block, and its `split_clients` block if it has upstreams that nginx looks up
//! ([`lookup`]); then, in the file of a hostname's oldest Route, the `server` block of the
//! hostname.
//!
//! All input has passed [`crate::rules`], and all output goes through [`crate::check`].

use std::fmt::Write as _;

use mortise_plugin::{name, pb};

use crate::{
    lookup,
    proto::edge::v1::{Route, Upstream},
    rules::{self, Address},
    settings::Nginx,
};

/// Beginning of a file, before the Route's name.
const FILE_HEAD: &str = "# edge.v1.Route ";

/// Beginning of a line with an upstream that nginx looks up, before its name and weight.
const NAME_HEAD: &str = "# name ";

/// Server of a block without upstreams, since nginx accepts no empty block. Requests are answered 502.
pub(crate) const DOWN_SERVER: &str = "server 127.0.0.1:1 down";

/// Directives of every `server` block: HTTP version and headers of the requests to upstreams.
pub(crate) const PROXY_DIRECTIVES: [&str; 5] = [
    "proxy_http_version 1.1",
    "proxy_set_header Host $host",
    "proxy_set_header X-Real-IP $remote_addr",
    "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for",
    "proxy_set_header X-Forwarded-Proto $scheme",
];

/// Partition, namespace and name of a Route.
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

    /// Makes the name of a Route in a tenancy.
    pub(crate) fn new(tenancy: pb::Tenancy, name: &str) -> Self {
        let pb::Tenancy { partition, namespace } = tenancy;
        Self { partition, namespace, name: name.to_owned() }
    }

    /// Reads the name of a file; `None` if it belongs to no Route.
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

    /// Whether a text begins like this Route's file.
    pub(crate) fn is_head_of(&self, text: &str) -> bool {
        text.strip_prefix(FILE_HEAD).and_then(|rest| rest.lines().next()).is_some_and(|head| head == self.shown())
    }

    /// Name of the Route's file. Names of resources have no dots, so no two Routes share a file.
    pub(crate) fn file(&self) -> String {
        format!("{}.{}.{}.conf", self.partition, self.namespace, self.name)
    }

    /// Name of the Route's `upstream` block. Names of resources have no underscores, and neither have hosts.
    pub(crate) fn upstream(&self) -> String {
        format!("mortise_{}_{}_{}", self.partition, self.namespace, self.name)
    }

    /// Name for people.
    pub(crate) fn shown(&self) -> String {
        format!("{}/{}/{}", self.partition, self.namespace, self.name)
    }
}

/// A Route's part of its hostname's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RouteConfig {
    pub(crate) name: RouteName,
    pub(crate) prefix: String,
    /// Addresses and weights.
    upstreams: Vec<(String, u32)>,
    /// Upstreams that nginx looks up for each request.
    names: Vec<(String, u32)>,
}

impl RouteConfig {
    /// Makes the part. With a resolver, nginx looks host names up; `localhost` it knows.
    pub(crate) fn new(name: RouteName, prefix: &str, upstreams: &[Upstream], nginx: &Nginx) -> Self {
        let is_name =
            |address: &str| matches!(rules::address(address), Ok(Address::Name(name, _)) if name != "localhost");
        let all = upstreams.iter().map(|one| (one.address.clone(), one.weight));
        let (names, upstreams) = all.partition(|(address, _)| nginx.resolver.is_some() && is_name(address));
        Self { name, prefix: prefix.to_owned(), upstreams, names }
    }

    /// Target of `proxy_pass`.
    pub(crate) fn target(&self) -> String {
        let upstream = self.name.upstream();
        if self.names.is_empty() { upstream } else { lookup::variable(&upstream) }
    }

    /// Reads the part, and its hostname, from a file as it was written.
    pub(crate) fn recover(name: RouteName, text: &str) -> Option<(&str, Self)> {
        let prefix = text.lines().find_map(|line| line.strip_prefix("# path_prefix "))?.to_owned();
        let server = |line: &str| {
            let (address, weight) = line.strip_prefix("    server ")?.strip_suffix(';')?.split_once(" weight=")?;
            Some((address.to_owned(), weight.parse().ok()?))
        };
        let looked_up = |line: &str| {
            let (address, weight) = line.strip_prefix(NAME_HEAD)?.split_once(" weight=")?;
            Some((address.to_owned(), weight.parse().ok()?))
        };
        let upstreams = text.lines().filter_map(server).collect();
        let names = text.lines().filter_map(looked_up).collect();
        Some((hostname(text)?, Self { name, prefix, upstreams, names }))
    }

    /// Whether the rules allow the part. A part read from a file may be anything.
    pub(crate) fn is_valid(&self) -> bool {
        let sound =
            |(address, weight): &(String, u32)| rules::address(address).is_ok() && rules::weight(*weight).is_ok();
        let mut all = self.upstreams.iter().chain(&self.names).peekable();
        rules::path_prefix(&self.prefix).is_ok() && all.peek().is_some() && all.all(sound)
    }

    /// The Route with this part, for a hostname.
    pub(crate) fn into_route(self, hostname: &str) -> Route {
        let all = self.upstreams.into_iter().chain(self.names);
        let upstreams = all.map(|(address, weight)| Upstream { address, weight }).collect();
        Route { hostname: hostname.to_owned(), path_prefix: self.prefix, upstreams, service: None }
    }

    /// Text of the Route's file, with the `server` block if it holds that.
    pub(crate) fn render(&self, hostname: &str, server: Option<&ServerBlock<'_>>) -> String {
        let Self { name, prefix, upstreams, names } = self;
        let mut text = format!(
            "{FILE_HEAD}{}\n# hostname {hostname}\n# path_prefix {prefix}\n# Written by Mortise, over whatever is here.\n",
            name.shown()
        );
        // Writing to a string does not fail.
        for (address, weight) in names {
            let _ = writeln!(text, "{NAME_HEAD}{address} weight={weight}");
        }
        text.push('\n');
        let _ = writeln!(text, "upstream {} {{", name.upstream());
        for (address, weight) in upstreams {
            let _ = writeln!(text, "    server {address} weight={weight};");
        }
        if upstreams.is_empty() {
            let _ = writeln!(text, "    {DOWN_SERVER};");
        }
        text.push_str("}\n");
        let weight = upstreams.iter().map(|(_, weight)| u64::from(*weight)).sum();
        lookup::render(&name.upstream(), weight, names, &mut text);
        if let Some(server) = server {
            server.render(hostname, &mut text);
        }
        text
    }
}

/// A `server` block of a hostname.
pub(crate) struct ServerBlock<'a> {
    pub(crate) nginx: &'a Nginx,
    pub(crate) parts: &'a [&'a RouteConfig],
}

impl ServerBlock<'_> {
    /// Appends the block. A location is for whole segments: nginx alone would take `/api` for a prefix of `/apis`.
    /// Other paths answer 404: without a location, nginx would look among its own files.
    fn render(&self, hostname: &str, text: &mut String) {
        let default = if hostname == "_" { " default_server" } else { "" };
        let _ = writeln!(text, "\nserver {{\n    listen {}{default};\n    server_name {hostname};", self.nginx.listen);
        if let Some(resolver) = &self.nginx.resolver
            && self.parts.iter().any(|part| !part.names.is_empty())
        {
            let _ = writeln!(text, "    resolver {resolver};");
        }
        for line in PROXY_DIRECTIVES {
            let _ = writeln!(text, "    {line};");
        }
        let mut location = |path: &str, does: &str| {
            let _ = writeln!(text, "    location {path} {{\n        {does};\n    }}");
        };
        for part in self.parts {
            let pass = format!("proxy_pass http://{}", part.target());
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

/// The hostname that a file was written for; `None` for files of others.
pub(crate) fn hostname(text: &str) -> Option<&str> {
    let head = text.starts_with(FILE_HEAD);
    text.lines().find_map(|line| line.strip_prefix("# hostname ")).filter(|_| head)
}

/// The text of a file with a server that answers 502 instead of its upstreams.
pub(crate) fn without_upstreams(text: &str) -> String {
    let (upstream, mut is_down) = ("    server ", false);
    let mut idle = String::with_capacity(text.len());
    for line in text.lines() {
        if !line.starts_with(upstream) {
            let _ = writeln!(idle, "{line}");
        } else if !std::mem::replace(&mut is_down, true) {
            let _ = writeln!(idle, "    {DOWN_SERVER};");
        }
    }
    idle
}

/// Whether a file has a `server` block.
pub(crate) fn has_server(text: &str) -> bool {
    text.lines().any(|line| line == "server {")
}
