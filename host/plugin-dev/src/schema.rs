//! `mortise plugin schema`: the data of a type, as a commented sample in YAML or as JSON Schema.
//!
//! The type is a component's, or a server's. Comments are those of the `.proto` file.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mortise_cli::{CliError, Connect, Exit, catalog::Catalog, ui};
use mortise_resource::{Scope, data, manifest, types::Gvk};
use prost::Message as _;
use prost_reflect::{DescriptorPool, MessageDescriptor};

use crate::{fault, inspect, offline::Offline, report, source::Crate};

pub(crate) const EXAMPLES: &str = "\
mortise plugin schema
mortise plugin schema target/plugins/guest-book.wasm -o json-schema
mortise plugin schema demo.v2.Artist --grpc-addr 127.0.0.1:8502";

/// Arguments of `plugin schema`.
#[derive(Debug, Args)]
pub struct Schema {
    /// A component, or a type of a server; without it, the crate in --path is built first
    #[arg(value_name = "FILE.wasm|TYPE")]
    subject: Option<String>,
    /// The type to show, of several in a component [default: all]
    #[arg(long = "type", value_name = "GROUP.VERSION.Kind")]
    kind: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    output: Format,
    #[command(flatten)]
    built: Crate,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A resource with every field, its type and its comment
    Yaml,
    /// JSON Schema of the data
    JsonSchema,
}

/// A type and the message of its resources' data.
struct TypeInfo {
    gvk: Gvk,
    scope: Scope,
    message: MessageDescriptor,
}

impl Schema {
    pub(crate) async fn run(self) -> Result<Exit, CliError> {
        let mut all = match &self.subject {
            Some(argument) if !inspect::is_file(argument) => vec![self.asked(argument).await?],
            Some(file) => of_component(PathBuf::from(file)).await?,
            None => of_component(self.built.build().await?).await?,
        };
        if let Some(kind) = &self.kind {
            let known = all.iter().map(|info| info.gvk.to_string()).collect::<Vec<_>>().join(", ");
            let is = |info: &TypeInfo| info.gvk.to_string() == *kind || info.gvk.kind.eq_ignore_ascii_case(kind);
            all.retain(is);
            if all.is_empty() {
                return Err(fault::usage(
                    format!("the plugin has no type {kind:?}"),
                    format!("--type takes one of {known}"),
                ));
            }
        }
        match self.output {
            Format::Yaml => ui::print(all.iter().map(yaml).collect::<Vec<_>>().join("---\n"))?,
            Format::JsonSchema => {
                let schemas: Vec<_> = all.iter().map(|info| mortise_text::schema::json_schema(&info.message)).collect();
                match schemas.as_slice() {
                    [schema] => ui::line(format!("{schema:#}"))?,
                    _ => {
                        let named = all.iter().map(|info| info.gvk.to_string()).zip(schemas);
                        ui::line(format!("{:#}", serde_json::Value::Object(named.collect())))?;
                    }
                }
            }
        }
        Ok(Exit::Done)
    }

    /// Fetches a type from a server.
    async fn asked(&self, name: &str) -> Result<TypeInfo, CliError> {
        let session = self.connect.session().await?;
        let types = Catalog::fetch(&session).await?;
        let info = types.find(name)?;
        let resource_type = info.r#type.clone().unwrap_or_default();
        let mut client = session.types();
        let request = data::GetTypeRequest { r#type: Some(resource_type.clone()) };
        let answer = session.call(format!("type {name}"), client.get_type(request)).await?;
        let unusable =
            |what: &str| fault::failed(format!("type {name}{what}"), "`mortise types` shows the plugin that brings it");
        let mut pool = DescriptorPool::global();
        let files = answer.descriptors.unwrap_or_default().encode_to_vec();
        pool.decode_file_descriptor_set(files.as_slice()).map_err(|e| unusable("").caused_by(e))?;
        let message = pool.get_message_by_name(&info.message);
        let message = message.ok_or_else(|| unusable(&format!(": the server did not describe {}", info.message)))?;
        let scope = match info.scope() {
            manifest::Scope::Cluster => Scope::Cluster,
            manifest::Scope::Partition => Scope::Partition,
            manifest::Scope::Namespace => Scope::Namespace,
            manifest::Scope::Unspecified => Scope::Undefined,
        };
        Ok(TypeInfo { gvk: Gvk::from(&resource_type), scope, message })
    }
}

async fn of_component(path: PathBuf) -> Result<Vec<TypeInfo>, CliError> {
    let manifest = Offline::new(&path)?.describe().await.map_err(|e| fault::load(&path, e))?;
    let document =
        |decl: mortise_plugin_host::TypeDecl| TypeInfo { gvk: decl.gvk, scope: decl.scope, message: decl.message };
    Ok(manifest.types.into_iter().map(document).collect())
}

/// Renders a whole resource, to be edited and applied.
fn yaml(info: &TypeInfo) -> String {
    let mut text = format!("# {} ({})\ntype: {}\nname: sample\n", info.gvk, report::scope(info.scope), info.gvk);
    match info.scope {
        Scope::Namespace => text.push_str("# partition: default\n# namespace: default\n"),
        Scope::Partition => text.push_str("# partition: default\n"),
        Scope::Cluster | Scope::Undefined => {}
    }
    text.push_str("data:\n");
    for line in mortise_text::schema::sample(&info.message).lines() {
        text.push_str(format!("  {line}").trim_end());
        text.push('\n');
    }
    text
}
