//! Report of a component: in short for `build`, in full for `inspect`.

use std::fmt::Write as _;

use mortise_cli::CliError;
use mortise_plugin_host::{
    ControllerDecl, Grant, GrantRequest, Grants, Interface, Interfaces, LoadError, Manifest, Mapper, PluginSettings,
    TypeDecl, WatchDecl,
};
use mortise_resource::Scope;
use sha2::{Digest as _, Sha256};

use crate::{fault, offline::Offline};

/// A component, as far as it can be read, and the loader's verdict.
pub(crate) struct ComponentReport {
    size: usize,
    digest: String,
    surface: Interfaces,
    manifest: Result<Manifest, LoadError>,
    /// The plugin's grants, and the fault of a load with them, under a server's configuration.
    under_server: Option<(Grants, Option<LoadError>)>,
}

impl ComponentReport {
    /// Reads a component.
    ///
    /// # Errors
    /// The file is not a component at all.
    pub(crate) async fn read(offline: &Offline) -> Result<Self, CliError> {
        let surface = Interfaces::read(&offline.sandbox, &offline.bytes).await;
        let surface = surface.map_err(|e| fault::load(&offline.path, e))?;
        let digest = format!("{:x}", Sha256::digest(&offline.bytes));
        let manifest = offline.describe().await;
        Ok(Self { size: offline.bytes.len(), digest, surface, manifest, under_server: None })
    }

    /// Loads it with the settings and grants of a server.
    pub(crate) async fn load(&mut self, offline: &Offline, plugins: &PluginSettings) {
        let Ok(manifest) = &self.manifest else { return };
        let grants = plugins.grants_of(&manifest.name).clone();
        self.under_server = Some((grants, offline.load(plugins).await.err()));
    }

    /// Returns the reason why it cannot be loaded, if there is one.
    pub(crate) fn fault(&self) -> Option<&LoadError> {
        self.manifest.as_ref().err().or(self.under_server.as_ref().and_then(|(_, fault)| fault.as_ref()))
    }

    /// Converts itself to that reason.
    pub(crate) fn into_fault(self) -> Option<LoadError> {
        self.manifest.err().or(self.under_server.and_then(|(_, fault)| fault))
    }

    /// Tells whether a server grants a request; `None` without a server.
    fn is_granted(&self, wanted: &Grant) -> Option<bool> {
        self.under_server.as_ref().map(|(grants, _)| grants.includes(wanted))
    }

    /// The same as text, behind the name of the request.
    fn granted_text(&self, wanted: &Grant) -> &'static str {
        match self.is_granted(wanted) {
            None => "",
            Some(true) => " (granted)",
            Some(false) => " (not granted)",
        }
    }

    pub(crate) fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref().ok()
    }

    /// Renders lines of a name and a value.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, what: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {name:<12}{what}");
        };
        if let Ok(manifest) = &self.manifest {
            line("plugin", &format!("{} {}", manifest.name, manifest.version));
        }
        line("size", &format!("{} ({} bytes)", size(self.size), self.size));
        line("sha256", &self.digest);
        if let Ok(manifest) = &self.manifest {
            for decl in &manifest.types {
                line("type", &of_type(decl));
            }
            for controller in &manifest.controllers {
                line("controller", &of_controller(controller));
            }
            for (name, what) in grants(manifest, &self.surface) {
                line("needs grant", &format!("{name} = {what}"));
            }
            match &manifest.requests {
                Some(requests) => {
                    requests.iter().for_each(|GrantRequest { grant, reason }| {
                        line("requests", &format!("{grant}{}: {reason}", self.granted_text(grant)));
                    });
                }
                None => line("requests", "nothing by name, so it would have all grants"),
            }
            if manifest.reuses_instances {
                line("requests", &format!("instances reuse{}: its hooks are pure", self.granted_text(&Grant::Reuse)));
            }
            for grant in self.under_server.iter().flat_map(|(grants, _)| grants.iter()) {
                let asked = manifest.requests.as_ref().is_none_or(|requests| requests.is_requested(&grant));
                let asked = if grant == Grant::Reuse { manifest.reuses_instances } else { asked };
                let effect = if asked { "" } else { " (no effect: it does not request this)" };
                line("granted", &format!("{grant}{effect}"));
            }
        }
        line("imports", &short(&self.surface.imports));
        line("exports", &short(&self.surface.exports));
        text
    }

    /// Lists each import and export that this host does not know, with its remedy.
    pub(crate) fn unknown_interfaces(&self) -> Vec<(&'static str, &Interface)> {
        let unknown = |what: &'static str, ports: &'_ [Interface]| -> Vec<(&'static str, usize)> {
            ports.iter().enumerate().filter(|(_, port)| port.remedy.is_some()).map(|(index, _)| (what, index)).collect()
        };
        let pick = |(what, index): (&'static str, usize)| {
            let ports = if what == "import" { &self.surface.imports } else { &self.surface.exports };
            ports.get(index).map(|port| (what, port))
        };
        let imports = unknown("import", &self.surface.imports);
        imports.into_iter().chain(unknown("export", &self.surface.exports)).filter_map(pick).collect()
    }

    /// Renders the report for programs.
    pub(crate) fn json(&self) -> serde_json::Value {
        let ports = |ports: &[Interface]| {
            let port_json = |port: &Interface| serde_json::json!({"name": port.name, "known": port.remedy.is_none(), "remedy": port.remedy});
            ports.iter().map(port_json).collect::<Vec<_>>()
        };
        let mut all = serde_json::json!({
            "size": self.size,
            "sha256": self.digest,
            "imports": ports(&self.surface.imports),
            "exports": ports(&self.surface.exports),
            "loads": self.fault().is_none(),
        });
        let more = match &self.manifest {
            Err(_) => serde_json::json!({}),
            Ok(manifest) => serde_json::json!({
                "name": &*manifest.name,
                "version": &*manifest.version,
                "types": manifest.types.iter().map(|decl| serde_json::json!({
                    "type": decl.gvk.to_string(),
                    "scope": scope(decl.scope),
                    "message": decl.message.full_name(),
                    "schemaVersion": decl.schema_version.get(),
                    "hooks": hooks(decl),
                    "shortNames": decl.short_names,
                })).collect::<Vec<_>>(),
                "controllers": manifest.controllers.iter().map(|controller| serde_json::json!({
                    "name": &*controller.name,
                    "manages": controller.manages.to_string(),
                    "watches": controller.watches.iter().map(|watch| watch.kind.to_string()).collect::<Vec<_>>(),
                    "mappers": controller.watches.iter().map(|watch| mapper(&watch.mapper)).collect::<Vec<_>>(),
                })).collect::<Vec<_>>(),
                "requests": manifest.requests.as_ref().map(|requests| {
                    let request_json = |GrantRequest { grant, reason }: &GrantRequest| {
                        let mut json = serde_json::json!({"grant": grant.to_string(), "reason": reason});
                        if let (Some(granted), Some(json)) = (self.is_granted(grant), json.as_object_mut()) {
                            json.insert("granted".into(), granted.into());
                        }
                        json
                    };
                    requests.iter().map(request_json).collect::<Vec<_>>()
                }),
                "reusesInstances": manifest.reuses_instances,
                "needsGrants": grants(manifest, &self.surface).into_iter().collect::<std::collections::BTreeMap<_, _>>(),
            }),
        };
        if let (Some(all), serde_json::Value::Object(more)) = (all.as_object_mut(), more) {
            all.extend(more);
            all.extend(self.fault().map(|fault| ("fault".to_owned(), fault.to_string().into())));
        }
        all
    }
}

/// Lists the grants that it needs to load, and those that its imports suggest; by their names in config.toml.
fn grants(manifest: &Manifest, surface: &Interfaces) -> Vec<(&'static str, String)> {
    let own = |unknown: &mortise_resource::types::Gvk| manifest.types.iter().any(|decl| decl.gvk == *unknown);
    let mut foreign: Vec<String> = Vec::new();
    for controller in &manifest.controllers {
        for gvk in std::iter::once(&controller.manages).chain(controller.watches.iter().map(|watch| &watch.kind)) {
            if !own(gvk) && !foreign.contains(&gvk.to_string()) {
                foreign.push(gvk.to_string());
            }
        }
    }
    let mut needs = Vec::new();
    if !foreign.is_empty() {
        needs.push(("read", format!("{foreign:?}")));
    }
    let imports = |interface: &str| surface.imports.iter().any(|port| port.name.contains(interface));
    if imports("mortise:plugin/files@") {
        needs.push(("directories", "{ NAME = { path = \"…\", write = true } }".into()));
    }
    if imports("mortise:plugin/secrets@") {
        needs.push(("secrets", "{ NAME = { file = \"…\" } }".into()));
    }
    if imports("mortise:plugin/tcp@") || imports("mortise:plugin/probes@") {
        needs.push(("tcp", "[\"HOST:PORT\"]".into()));
    }
    if imports("wasi:http/outgoing-handler@") || imports("mortise:plugin/probes@") {
        needs.push(("http", "[\"HOST\"]".into()));
    }
    needs
}

fn of_type(decl: &TypeDecl) -> String {
    let version = match decl.schema_version.get() {
        1 => String::new(),
        version => format!(", schema version {version}"),
    };
    let hooks = hooks(decl);
    let hooks = if hooks.is_empty() { "no hooks".to_owned() } else { hooks.join(", ") };
    format!("{} ({}{version}): {hooks}", decl.gvk, scope(decl.scope))
}

fn of_controller(controller: &ControllerDecl) -> String {
    let watch = |watch: &WatchDecl| format!(", watches {} {}", watch.kind, mapper(&watch.mapper));
    format!(
        "{} manages {}{}",
        controller.name,
        controller.manages,
        controller.watches.iter().map(watch).collect::<String>()
    )
}

/// Renders the way from a changed resource to those of the managed type.
fn mapper(mapper: &Mapper) -> String {
    match mapper {
        Mapper::Owner => "by owner".to_owned(),
        Mapper::SameName => "by name".to_owned(),
        Mapper::Reference(path) => format!("by reference data.{path}"),
        Mapper::Index(name) => format!("by index {name}"),
        Mapper::Map => "by its own mapper".to_owned(),
    }
}

/// Lists the hooks of a type, by their names.
pub(crate) fn hooks(decl: &TypeDecl) -> Vec<&'static str> {
    let all = [
        (decl.hooks.mutate, "mutate"),
        (decl.hooks.validate, "validate"),
        (decl.hooks.authorize_read, "authorize-read"),
        (decl.hooks.authorize_write, "authorize-write"),
        (decl.hooks.authorize_list, "authorize-list"),
    ];
    all.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect()
}

pub(crate) fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::Undefined => "any scope",
        Scope::Cluster => "cluster",
        Scope::Partition => "partition",
        Scope::Namespace => "namespace",
    }
}

/// Lists interfaces without the common parts of their names.
fn short(ports: &[Interface]) -> String {
    let mut names: Vec<_> = ports
        .iter()
        .map(|port| match (&port.remedy, port.name.strip_prefix("mortise:plugin/").and_then(|n| n.split_once('@'))) {
            (None, Some((name, _))) => name.to_owned(),
            (None, None) => port.name.clone(),
            (Some(_), _) => format!("{} (unknown)", port.name),
        })
        .collect();
    names.sort();
    if names.is_empty() { "nothing".into() } else { names.join(", ") }
}

/// Formats a number of bytes, for people.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}
