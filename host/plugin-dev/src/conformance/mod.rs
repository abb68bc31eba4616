//! `mortise plugin conformance`: checks that a component of any language keeps the rules of the contract.
//!
//! Cases (`mortise plugin test`) say what one plugin shall do. The rules here hold for every plugin, so that authors of an
//! SDK, and of plugins without one, learn what a server would find later: an answer that the host cannot use, a field that
//! gets lost, a trap at an odd text, a reconciler that breaks when its host refuses a call, or that never comes to rest.
//!
//! # Limits
//! Resources are made by the descriptors ([`crate::sample`]) or given: rules that need a resource which the plugin accepts
//! are left out, and counted, if it refuses the made one. A controller makes at most [`reconcile::MAX_RUNS`] runs.

mod findings;
mod hooks;
mod reconcile;
mod texts;

use std::{fs, path::PathBuf, sync::Arc};

use clap::{Args, ValueEnum};
use mortise_cli::{CliError, Connect, Exit, Style, ui};
use mortise_plugin_host::{LookupHost, Manifest, Plugin, TypeDecl};
use mortise_resource::pb;
use mortise_text::{Source as Text, TypeTable};
use serde_json::json;

use self::findings::{Finding, Findings, Verdict};
use crate::{
    fault,
    offline::Offline,
    sample,
    server_settings::{ReadServerSettings, ServerConfig},
    source::Source,
    test,
};

pub(crate) const EXAMPLES: &str = "\
mortise plugin conformance target/lamps.wasm
mortise plugin conformance target/lamps.wasm --resource lamp.yaml --format json
mortise plugin conformance target/lamps.wasm --config config.toml";

/// Arguments of `plugin conformance`.
#[derive(Debug, Args)]
pub struct Conformance {
    #[command(flatten)]
    source: Source,
    /// A resource that the plugin accepts, YAML or JSON, one of each type at most [default: one with a value in every
    /// field]
    #[arg(long, value_name = "FILE")]
    resource: Vec<PathBuf>,
    #[command(flatten)]
    config: ServerConfig,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line for each rule
    Text,
    /// A JSON document
    Json,
}

impl Conformance {
    pub(crate) async fn run(self, read: ReadServerSettings) -> Result<Exit, CliError> {
        let server = self.config.read(read)?;
        let path = self.source.component().await?;
        let offline = Offline::with(&path, false, server.as_ref())?;
        let first = offline.describe().await.map_err(|e| fault::load(&path, e))?;
        let settings = test::granted(&first, server.as_ref())?;
        let plugin = offline.load(&settings).await.map_err(|e| fault::load(&path, e))?;
        // Searches of hooks find nothing.
        let lookups: Arc<dyn LookupHost> = test::StoredResources::of(&first);
        offline.sandbox.set_lookup_host(&lookups);
        let given = self.given(&plugin)?;
        let mut findings = Findings::default();
        let again = offline.describe().await.map_err(|e| fault::load(&path, e))?;
        let same = outline(&first) == outline(&again);
        let differs = || "a second call of `describe`, in a fresh instance, had another manifest".to_owned();
        findings.add(plugin.name(), "its manifest is the same at each call", Verdict::of((!same).then(differs)));
        for decl in &first.types {
            let resource = given.iter().find(|resource| is_of(resource, decl)).cloned();
            let (resource, is_given) = match resource {
                Some(resource) => (resource, true),
                None => (sample::resource(decl), false),
            };
            hooks::check(&plugin, decl, &resource, is_given, &mut findings).await;
            for controller in first.controllers.iter().filter(|controller| controller.manages == decl.gvk) {
                reconcile::check(&plugin, controller, &resource, is_given, &mut findings).await?;
            }
        }
        self.show(&plugin, &findings)
    }

    /// Reads the given resources.
    fn given(&self, plugin: &Plugin) -> Result<Vec<pb::Resource>, CliError> {
        let mut types = TypeTable::new();
        for decl in &plugin.manifest().types {
            types.add_message(decl.gvk.clone(), decl.message.clone(), Some(decl.scope), decl.short_names.clone());
        }
        let next = "`mortise plugin schema` shows what a resource of this plugin looks like";
        let mut given = Vec::new();
        for path in &self.resource {
            let text = fs::read_to_string(path).map_err(fault::file("read", path))?;
            let name = path.display().to_string();
            let documents = mortise_text::parse(Text { name: &name, text: &text }, None, &types);
            let documents = documents.map_err(|faults| CliError::because(Exit::Usage, faults).remedy(next))?;
            for mut resource in documents.into_iter().map(|document| document.resource) {
                let Some(decl) = plugin.manifest().types.iter().find(|decl| is_of(&resource, decl)) else {
                    return Err(fault::usage(format!("{name} has a resource of another plugin's type"), next));
                };
                decl.scope.fill(resource.id.get_or_insert_default().tenancy.get_or_insert_default());
                given.push(resource);
            }
        }
        Ok(given)
    }

    fn show(&self, plugin: &Plugin, Findings(all): &Findings) -> Result<Exit, CliError> {
        let count = |is: fn(&Verdict) -> bool| all.iter().filter(|finding| is(&finding.verdict)).count();
        let broken = count(|verdict| matches!(verdict, Verdict::Broken(_)));
        let (kept, left_out) =
            (count(|verdict| *verdict == Verdict::Kept), count(|verdict| matches!(verdict, Verdict::LeftOut(_))));
        if self.format == Format::Json {
            let row = |finding: &Finding| {
                let (verdict, text) = match &finding.verdict {
                    Verdict::Kept => ("kept", ""),
                    Verdict::Broken(text) => ("broken", text.as_str()),
                    Verdict::LeftOut(text) => ("left out", text.as_str()),
                };
                json!({"subject": finding.subject, "rule": finding.rule, "verdict": verdict, "text": text})
            };
            let rows: Vec<_> = all.iter().map(row).collect();
            let (name, version) = (plugin.name(), plugin.version());
            let all = json!({"plugin": name, "version": version, "kept": kept, "broken": broken, "leftOut": left_out, "rules": rows});
            ui::line(format!("{all:#}"))?;
        } else {
            let colours = Connect::default().ui();
            for Finding { subject, rule, verdict } in all {
                let (word, style, text) = match verdict {
                    Verdict::Kept => ("kept    ", Style::Good, String::new()),
                    Verdict::Broken(text) => ("BROKEN  ", Style::Bad, format!("\n          {text}")),
                    Verdict::LeftOut(text) => ("left out", Style::Dim, format!(" ({text})")),
                };
                ui::line(format!("{}  {subject}: {rule}{text}", colours.paint(style, word)))?;
            }
            ui::line(format!("{kept} rules kept, {broken} broken, {left_out} left out"))?;
        }
        match broken {
            0 => Ok(Exit::Done),
            _ => Err(fault::failed(
                format!("{broken} rules of the contract are broken"),
                "docs/languages.md has the rules; fix the plugin or its SDK, and run the command again",
            )),
        }
    }
}

fn is_of(resource: &pb::Resource, decl: &TypeDecl) -> bool {
    let of = resource.id.as_ref().and_then(|id| id.r#type.as_ref());
    of.is_some_and(|of| decl.gvk.matches(of) && decl.gvk.group_version == of.group_version)
}

/// The parts of a manifest that a server looks at, as text.
fn outline(manifest: &Manifest) -> String {
    let Manifest { name, version, types, pool, limits, controllers, functions, .. } = manifest;
    let types: Vec<_> = types.iter().map(|decl| format!("{:?} {:?} {:?}", decl.gvk, decl.scope, decl.hooks)).collect();
    let controllers: Vec<_> = controllers.iter().map(|controller| format!("{controller:?}")).collect();
    let files: Vec<_> = pool.files().map(|file| file.file_descriptor_proto().clone()).collect();
    let functions: Vec<_> = functions.keys().collect();
    format!("{name} {version} {types:?} {limits:?} {controllers:?} {functions:?} {files:?}")
}
