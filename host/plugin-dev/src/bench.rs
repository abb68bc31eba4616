//! `mortise plugin bench`: cost of a plugin's hooks and reconcilers, called one after the other.
//!
//! Each hook is called as by a request, in a fresh instance, or in a reused one by `--reuse`; the row `(empty)` is the
//! instance alone, the least that a call can cost. Reconcilers run in a warm instance, as on a server, with a store in
//! memory.

use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use mortise_cli::{CliError, Connect, Exit, Table, ui};
use mortise_plugin_host::{Call, CallerClass, HookError, LookupHost, Plugin, TypeDecl, Usage};
use mortise_resource::{authorizer::AllowAll, pb};
use mortise_text::{Source as Text, TypeTable};
use prost::Message as _;
use serde_json::{Value, json};

use crate::{
    fault,
    offline::Offline,
    report, sample,
    server_settings::{ReadServerSettings, ServerConfig},
    source::Source,
    test,
};

pub(crate) const EXAMPLES: &str = "\
mortise plugin bench
mortise plugin bench --reuse
mortise plugin bench target/plugins/guest-book.wasm --resource one.yaml --iterations 10000 -o json";

/// Most calls of a hook.
const MOST: u64 = 1_000_000;

/// Calls before those that are measured.
const WARM_UP: u64 = 20;

/// Longest measurement of one row.
const MAX_ROW_TIME: Duration = Duration::from_secs(20);

/// Arguments of `plugin bench`.
#[derive(Debug, Args)]
pub struct Bench {
    #[command(flatten)]
    source: Source,
    /// A resource to call the hooks with, YAML or JSON [default: one with a value in every field]
    #[arg(long, value_name = "FILE")]
    resource: Option<PathBuf>,
    /// Most calls of each hook, within 20 seconds
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=MOST))]
    iterations: u64,
    #[command(flatten)]
    config: ServerConfig,
    /// Calls hooks in reused instances, as a server does if the operator grants it
    #[arg(long)]
    reuse: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table
    Table,
    /// A JSON document
    Json,
}

/// Measurements of one hook.
struct Row {
    type_name: String,
    hook: String,
    times: Vec<Duration>,
    used: Usage,
}

impl Bench {
    pub(crate) async fn run(self, read: ReadServerSettings) -> Result<Exit, CliError> {
        let server = self.config.read(read)?;
        let path = self.source.component().await?;
        let offline = Offline::with(&path, self.reuse, server.as_ref())?;
        let manifest = offline.describe().await.map_err(|e| fault::load(&path, e))?;
        let settings = test::granted(&manifest, server.as_ref())?;
        let plugin = offline.load(&settings).await.map_err(|e| fault::load(&path, e))?;
        // Searches of hooks find nothing.
        let lookups: Arc<dyn LookupHost> = test::StoredResources::of(&manifest);
        offline.sandbox.set_lookup_host(&lookups);
        let given = self.given(&plugin)?;
        let mut rows = vec![self.empty(&plugin).await?];
        for decl in &manifest.types {
            let resource = match &given {
                Some((gvk, resource)) if *gvk == decl.gvk => resource.clone(),
                Some(_) => continue,
                None => sample::resource(decl),
            };
            rows.extend(self.hooks(&plugin, decl, &resource).await?);
            rows.extend(self.reconcilers(&plugin, decl, &resource).await?);
        }
        self.show(&plugin, &rows)?;
        Ok(Exit::Done)
    }

    /// Reads the given resource, and returns it with its type.
    fn given(&self, plugin: &Plugin) -> Result<Option<(mortise_resource::types::Gvk, pb::Resource)>, CliError> {
        let Some(path) = &self.resource else { return Ok(None) };
        let text = fs::read_to_string(path).map_err(fault::file("read", path))?;
        let mut types = TypeTable::new();
        for decl in &plugin.manifest().types {
            types.add_message(decl.gvk.clone(), decl.message.clone(), Some(decl.scope), decl.short_names.clone());
        }
        let name = path.display().to_string();
        let next = "`mortise plugin schema` shows what a resource of this plugin looks like";
        let documents = mortise_text::parse(Text { name: &name, text: &text }, None, &types);
        let documents = documents.map_err(|faults| CliError::because(Exit::Usage, faults).remedy(next))?;
        let first = documents.into_iter().next().ok_or_else(|| fault::usage(format!("{name}: no resource"), next))?;
        let mut resource = first.resource;
        let id = resource.id.get_or_insert_default();
        let gvk = mortise_resource::types::Gvk::from(&id.r#type.clone().unwrap_or_default());
        if let Some(decl) = plugin.manifest().types.iter().find(|decl| decl.gvk == gvk) {
            decl.scope.fill(id.tenancy.get_or_insert_default());
        }
        Ok(Some((gvk, resource)))
    }

    /// Measures the part that every request to the plugin costs.
    async fn empty(&self, plugin: &Arc<Plugin>) -> Result<Row, CliError> {
        let call = || async {
            let mut call = new_call(plugin);
            call.instantiate().await?;
            Ok(call.used())
        };
        self.row("", "(empty)", call).await
    }

    async fn hooks(
        &self,
        plugin: &Arc<Plugin>,
        decl: &TypeDecl,
        resource: &pb::Resource,
    ) -> Result<Vec<Row>, CliError> {
        let type_name = decl.gvk.to_string();
        let bytes = resource.encode_to_vec();
        let id = resource.id.clone().unwrap_or_default();
        let mut rows = Vec::new();
        for hook in report::hooks(decl) {
            let call = || async {
                let mut call = new_call(plugin);
                match hook {
                    "mutate" => call.mutate(bytes.clone()).await.map(drop),
                    "validate" => call.validate(bytes.clone(), None).await.map(drop),
                    // Such answers are cached where they can be, so each call asks about another resource.
                    "authorize-read" => call.authorize_read(&fresh(&id), None).await.map(drop),
                    "authorize-write" => call.authorize_write(bytes.clone()).await.map(drop),
                    _ => {
                        let within = pb::Tenancy { partition: fresh(&id).name, namespace: String::new() };
                        call.authorize_list(&decl.gvk.to_pb(), &within).await.map(drop)
                    }
                }?;
                Ok(call.used())
            };
            rows.push(self.row(&type_name, hook, call).await?);
        }
        Ok(rows)
    }

    async fn reconcilers(
        &self,
        plugin: &Arc<Plugin>,
        decl: &TypeDecl,
        resource: &pb::Resource,
    ) -> Result<Vec<Row>, CliError> {
        let mut rows = Vec::new();
        for controller in plugin.manifest().controllers.iter().filter(|controller| controller.manages == decl.gvk) {
            let broken = || fault::failed(format!("controller {}", controller.name), NEXT);
            let harness =
                test::ReconcileHarness::new(plugin, controller, resource).map_err(|e| broken().caused_by(e))?;
            let call = || harness.reconcile();
            rows.push(self.row(&decl.gvk.to_string(), &format!("reconcile {}", controller.name), call).await?);
        }
        Ok(rows)
    }

    /// Calls a hook again and again, and measures it.
    async fn row<F>(&self, type_name: &str, hook: &str, mut call: impl FnMut() -> F) -> Result<Row, CliError>
    where
        F: Future<Output = Result<Usage, HookError>>,
    {
        let failed = |e: HookError| CliError::because(Exit::Failed, e).remedy(NEXT);
        for _ in 0..WARM_UP.min(self.iterations) {
            call().await.map_err(failed)?;
        }
        let mut row =
            Row { type_name: type_name.to_owned(), hook: hook.to_owned(), times: Vec::new(), used: Usage::default() };
        let begun = Instant::now();
        for _ in 0..self.iterations {
            let start = Instant::now();
            let used = call().await.map_err(failed)?;
            row.times.push(start.elapsed());
            row.used.fuel = row.used.fuel.max(used.fuel);
            row.used.memory = row.used.memory.max(used.memory);
            if begun.elapsed() > MAX_ROW_TIME {
                break;
            }
        }
        row.times.sort();
        Ok(row)
    }

    fn show(&self, plugin: &Plugin, rows: &[Row]) -> Result<(), CliError> {
        let empty = rows.first().map_or(Duration::ZERO, |row| row.at(50));
        let ratio = |row: &Row| row.at(50).as_secs_f64() / empty.as_secs_f64().max(1e-9);
        if self.output == Format::Json {
            let cells = |row: &Row| {
                json!({
                    "type": row.type_name,
                    "hook": row.hook,
                    "calls": row.times.len(),
                    "medianNs": nanos(row.at(50)),
                    "p99Ns": nanos(row.at(99)),
                    "timesEmpty": (ratio(row) * 100.0).round() / 100.0,
                    "fuel": row.used.fuel,
                    "memoryBytes": row.used.memory,
                })
            };
            let all = json!({
                "plugin": plugin.name(),
                "version": plugin.version(),
                "sha256": plugin.digest(),
                "limits": {"fuel": plugin.limits().fuel, "memoryBytes": plugin.limits().memory_bytes},
                "rows": rows.iter().map(cells).collect::<Vec<Value>>(),
            });
            return ui::line(format!("{all:#}"));
        }
        let mut table = Table::new(["type", "hook", "calls", "median", "p99", "× empty", "fuel", "memory"]);
        for row in rows {
            table.row(vec![
                row.type_name.as_str().into(),
                row.hook.as_str().into(),
                row.times.len().to_string().into(),
                micros(row.at(50)).into(),
                micros(row.at(99)).into(),
                format!("{:.1}", ratio(row)).into(),
                test::grouped(row.used.fuel).into(),
                report::size(row.used.memory).into(),
            ]);
        }
        ui::print(table.render(&Connect::default().ui()))
    }
}

/// Remedy for a hook that fails while it is measured.
const NEXT: &str =
    "give a resource that the plugin can work with, by --resource FILE; `mortise plugin test` shows the plugin's log";

impl Row {
    /// Returns a percentile of the times, which are sorted.
    fn at(&self, percent: usize) -> Duration {
        let place = (self.times.len() * percent / 100).min(self.times.len().saturating_sub(1));
        self.times.get(place).copied().unwrap_or_default()
    }
}

/// Makes a request. It shares instances with all others if the plugin reuses instances.
fn new_call(plugin: &Arc<Plugin>) -> Call {
    let mut call = Call::new(plugin.clone(), Arc::new(AllowAll));
    call.share_within(|| CallerClass::new(0, 0, None));
    call
}

/// Copies the id with a new name, so that no cached answer matches.
fn fresh(id: &pb::Id) -> pb::Id {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    pb::Id { name: format!("sample-{}", NUMBER.fetch_add(1, Ordering::Relaxed)), ..id.clone() }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn micros(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_sorted_times() {
        let times = (1..=100).map(Duration::from_micros).collect();
        let row = Row { type_name: String::new(), hook: String::new(), times, used: Usage::default() };
        assert_eq!((row.at(50), row.at(99)), (Duration::from_micros(51), Duration::from_micros(100)));
        let none = Row { type_name: String::new(), hook: String::new(), times: Vec::new(), used: Usage::default() };
        assert_eq!(none.at(99), Duration::ZERO);
    }
}
