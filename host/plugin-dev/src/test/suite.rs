//! All cases of a plugin, run one after the other.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use mortise_cli::{CliError, Exit, Style, Ui};
use mortise_plugin_host::{LogLine, LookupHost, Plugin};
use mortise_text::{Limits, Source, plain_documents};
use serde_json::{Value, json};

use super::{
    case::{Case, Invocation},
    codec::Codec,
    error::CaseError,
    hooks::HookCase,
    problems::Problems,
    reconcile::{self, ControllerCase},
    record::Recordings,
    reuse::{ReuseCheck, ReusedCase},
    stored::StoredResources,
};
use crate::{fault, offline::Offline, server_settings::ServerSettings};

/// Most log lines shown with a failed case.
const LOG_LINES: usize = 40;

/// The cases to run, and the component to run them against.
pub(crate) struct Suite {
    pub(crate) component: PathBuf,
    /// A folder of files of cases, or one such file.
    pub(crate) cases: PathBuf,
    pub(crate) filter: Option<String>,
    pub(crate) record: bool,
    /// Components of other plugins whose types appear in cases.
    pub(crate) with: Vec<PathBuf>,
    /// Server whose limits, settings and grants of types the cases have.
    pub(crate) server: Option<ServerSettings>,
    /// Seed of the random orders of cases in reused instances; `None`: instances are fresh.
    pub(crate) reuse: Option<u64>,
}

/// The results of a run.
pub(crate) struct Summary {
    plugin: String,
    results: Vec<CaseResult>,
    filtered: usize,
    recorded: Vec<PathBuf>,
    took: Duration,
}

/// The result of one case.
struct CaseResult {
    file: String,
    line: usize,
    name: String,
    fuel: u64,
    problem: Option<String>,
    log: Vec<Arc<LogLine>>,
}

/// A case with its call, and the line of the file on which it begins.
struct LocatedCase {
    line: usize,
    case: Case,
    invocation: Invocation,
}

impl Suite {
    /// Runs all cases. `say` gets a line for each result, as it comes.
    ///
    /// # Errors
    /// A component that does not load, or cases that cannot be read: nothing is run then.
    pub(crate) async fn run(&self, mut say: impl FnMut(String) -> Result<(), CliError>) -> Result<Summary, CliError> {
        let begun = Instant::now();
        let files = self.files()?;
        let offline = Offline::with(&self.component, false, self.server.as_ref())?;
        let manifest = offline.describe().await.map_err(|e| fault::load(&self.component, e))?;
        let mut codec = Codec::default();
        codec.add(&manifest);
        for other in &self.with {
            let manifest = Offline::new(other)?.describe().await.map_err(|e| fault::load(other, e))?;
            codec.add(&manifest);
        }
        let codec = Arc::new(codec);
        let mut all = Vec::new();
        for path in &files {
            all.push((path, read(path)?));
        }
        let count: usize = all.iter().map(|(_, cases)| cases.len()).sum();
        if count == 0 {
            return Err(fault::usage(
                format!("there is no case in {}", self.cases.display()),
                "write one, as docs/writing-plugins.md shows; `mortise plugin new` makes some",
            ));
        }
        let plugin = format!("{} {}", manifest.name, manifest.version);
        say(format!("running {count} cases of {plugin} ({})", self.cases.display()))?;

        let (mut results, mut filtered, mut recorded) = (Vec::new(), 0, Vec::new());
        for (path, cases) in &all {
            let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let mut recordings = match Recordings::load(path) {
                Ok(recordings) => recordings,
                // A damaged recording does not matter: it is replaced.
                Err(_) if self.record => Recordings::default(),
                Err(fault) => return Err(fault),
            };
            let names: Vec<String> = cases.iter().map(|case| case.case.name.clone()).collect();
            let mut new = false;
            for LocatedCase { line, case, invocation } in cases {
                if !self.is_wanted(&file, case) {
                    filtered += 1;
                    continue;
                }
                let mut log = offline.sandbox.logs().follow();
                let mut result = CaseResult {
                    file: file.clone(),
                    line: *line,
                    name: case.name.clone(),
                    fuel: 0,
                    problem: None,
                    log: Vec::new(),
                };
                match self.judge(&offline, &manifest.name, &codec, case, invocation, &mut recordings).await {
                    Ok((fuel, problem, was_recorded)) => {
                        (result.fuel, result.problem) = (fuel, problem);
                        new |= was_recorded;
                    }
                    Err(what) => result.problem = Some(format!("the case cannot be run: {what}")),
                }
                while let Ok(line) = log.try_recv() {
                    result.log.push(line);
                }
                let verdict = if result.problem.is_some() { "FAILED" } else { "ok" };
                say(format!("test {file}: {} ... {verdict} ({} fuel)", result.name, grouped(result.fuel)))?;
                results.push(result);
            }
            if new {
                recorded.push(recordings.store(path, &names)?);
            }
        }
        if let Some(seed) = self.reuse {
            results.extend(self.reuse(&all, &codec, seed, &mut say).await?);
        }
        Ok(Summary { plugin, results, filtered, recorded, took: begun.elapsed() })
    }

    fn is_wanted(&self, file: &str, case: &Case) -> bool {
        self.filter.as_ref().is_none_or(|filter| file.contains(filter.as_str()) || case.name.contains(filter.as_str()))
    }

    /// Runs the cases of hooks once more, in reused instances.
    async fn reuse(
        &self,
        all: &[(&PathBuf, Vec<LocatedCase>)],
        codec: &Arc<Codec>,
        seed: u64,
        say: &mut impl FnMut(String) -> Result<(), CliError>,
    ) -> Result<Vec<CaseResult>, CliError> {
        let (mut cases, mut results) = (Vec::new(), Vec::new());
        for (path, located) in all {
            let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            for LocatedCase { line, case, invocation } in located {
                // Instances of controllers, which imports have, too, are never reused for hooks.
                let is_hook = !invocation.is_of_controllers() && !matches!(invocation, Invocation::Import(_));
                if is_hook && self.is_wanted(&file, case) {
                    cases.push(ReusedCase { case, invocation, problem: None });
                    let name = format!("{} (reused)", case.name);
                    let (file, line) = (file.clone(), *line);
                    results.push(CaseResult { file, line, name, fuel: 0, problem: None, log: Vec::new() });
                }
            }
        }
        let files = tempfile::tempdir().map_err(fault::file("create", Path::new("a temporary directory")))?;
        let offline = Offline::with(&self.component, true, self.server.as_ref())?;
        let counts = ReuseCheck::new(&offline, codec, self.server.as_ref())
            .run(&mut cases, files.path(), seed)
            .await
            .map_err(|e| {
            let next = "fix the case; without --reuse, each case runs by itself and names its fault";
            fault::failed("the cases cannot be run in reused instances".to_owned(), next).caused_by(e)
        })?;
        for (result, case) in results.iter_mut().zip(cases) {
            result.problem = case.problem;
            let verdict = if result.problem.is_some() { "FAILED" } else { "ok" };
            say(format!("test {}: {} ... {verdict}", result.file, result.name))?;
        }
        let (reused, requests) = (counts.reused, counts.requests);
        say(format!("{reused} of {requests} requests met an instance that had served others (--seed {seed})"))?;
        Ok(results)
    }

    /// Files of cases, in order of their names.
    fn files(&self) -> Result<Vec<PathBuf>, CliError> {
        let next = "write cases there, as docs/writing-plugins.md shows, or give their folder with --cases DIR";
        if self.cases.is_file() {
            return Ok(vec![self.cases.clone()]);
        }
        let missing = || fault::usage(format!("there is no folder of cases {}", self.cases.display()), next);
        let entries = fs::read_dir(&self.cases).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => missing(),
            _ => fault::file("read", &self.cases)(e),
        })?;
        let is_cases = |path: &PathBuf| {
            let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            !hidden && path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
        };
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_cases).collect();
        files.sort();
        Ok(files)
    }

    /// Runs one case; returns its fuel, its problem, and whether something was recorded.
    async fn judge(
        &self,
        offline: &Offline,
        name: &str,
        codec: &Arc<Codec>,
        case: &Case,
        invocation: &Invocation,
        recordings: &mut Recordings,
    ) -> Result<(u64, Option<String>, bool), CaseError> {
        let files = tempfile::tempdir().map_err(|e| CaseError::field("a temporary directory", e))?;
        let manifest = offline.describe().await?;
        let settings = reconcile::settings(case, name, &manifest.controllers, self.server.as_ref(), files.path())?;
        let plugin = match offline.load(&settings).await {
            Ok(plugin) => plugin,
            Err(e) => {
                // A case may expect that the plugin rejects its settings.
                return match &case.expect.fault {
                    Some(part) if e.to_string().contains(part.as_str()) => Ok((0, None, false)),
                    _ => Err(e.into()),
                };
            }
        };
        let stored = StoredResources::of_case(codec, case)?;
        let lookups: Arc<dyn LookupHost> = stored.clone();
        offline.sandbox.set_lookup_host(&lookups);
        let (mut problems, fuel, recording) = match invocation {
            Invocation::Reconcile(_) | Invocation::Map(_) => {
                let recording = (!self.record).then(|| recordings.get(&case.name)).flatten();
                let run =
                    ControllerCase { plugin: &plugin, codec, case, stored: &stored, files: files.path(), recording };
                let ran = match invocation {
                    Invocation::Map(asked) => run.map(asked).await?,
                    Invocation::Reconcile(asked) => run.reconcile(asked).await?,
                    _ => return Err("the case calls no controller".into()),
                };
                (ran.problems, ran.fuel, ran.recording)
            }
            hook => self
                .hook(&plugin, codec, case, hook, stored.now())
                .await
                .map(|(problems, fuel)| (problems, fuel, None))?,
        };
        if let Some(most) = case.expect.max_fuel
            && fuel > most
        {
            problems.add(format!("it used {} fuel, more than max_fuel: {}", grouped(fuel), grouped(most)));
        }
        let recording = recording.filter(|_| self.record);
        let was_recorded = recording.is_some();
        if let Some(recording) = recording {
            recordings.put(&case.name, recording);
        }
        Ok((fuel, problems.text(), was_recorded))
    }

    async fn hook(
        &self,
        plugin: &Arc<Plugin>,
        codec: &Codec,
        case: &Case,
        invocation: &Invocation,
        now: u64,
    ) -> Result<(Problems, u64), CaseError> {
        let mut hooks = HookCase::new(plugin, codec, case);
        hooks.run(invocation, now).await?;
        Ok((hooks.problems, hooks.fuel))
    }
}

/// Reads the cases of a file.
fn read(path: &Path) -> Result<Vec<LocatedCase>, CliError> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(fault::file("read", path))?;
    let documents =
        plain_documents(Source { name: &shown.to_string(), text: &text }, &Limits::default()).map_err(|e| {
            CliError::because(Exit::Usage, e).remedy("fix the YAML there; documents are separated by `---`")
        })?;
    let mut placed: Vec<LocatedCase> = Vec::new();
    for document in documents {
        let line = document.line;
        let named = document.value.get("case").and_then(Value::as_str).map(|name| format!(": case {name:?}"));
        let named = named.unwrap_or_default();
        let broken = |what: &str| {
            fault::usage(
                format!("{shown}:{line}{named}{what}"),
                "fix the case; docs/writing-plugins.md lists its fields",
            )
        };
        if !document.value.is_object() {
            return Err(broken(": a case is a map that begins with `case: NAME`"));
        }
        let (case, invocation) = Case::read(&document.value).map_err(|e| broken("").caused_by(e))?;
        if let Some(other) = placed.iter().find(|other_case| other_case.case.name == case.name) {
            return Err(broken(&format!(": the case at line {} has the same name", other.line)));
        }
        placed.push(LocatedCase { line, case, invocation });
    }
    Ok(placed)
}

impl Summary {
    /// Number of cases that were run.
    pub(crate) fn ran(&self) -> usize {
        self.results.len()
    }

    /// Number of cases that failed.
    pub(crate) fn failed(&self) -> usize {
        self.results.iter().filter(|result| result.problem.is_some()).count()
    }

    /// The name of the first case that failed.
    pub(crate) fn first_failure(&self) -> Option<&str> {
        self.results.iter().find(|result| result.problem.is_some()).map(|result| result.name.as_str())
    }

    /// Renders the failures with their reasons, and the counts.
    pub(crate) fn text(&self, ui: &Ui) -> String {
        let mut text = String::new();
        let failures: Vec<_> = self.results.iter().filter(|result| result.problem.is_some()).collect();
        if !failures.is_empty() {
            text.push_str("\nfailures:\n");
        }
        for failure in &failures {
            let heading = format!("---- {}:{}: {}", failure.file, failure.line, failure.name);
            text.push_str(&format!("\n{}\n", ui.paint(Style::Bold, &heading)));
            for line in failure.problem.iter().flat_map(|problem| problem.lines()) {
                let style = match line.as_bytes().first() {
                    Some(b'+') => Style::Good,
                    Some(b'-') => Style::Bad,
                    _ => Style::Plain,
                };
                text.push_str(&ui.paint(style, line));
                text.push('\n');
            }
            let skipped = failure.log.len().saturating_sub(LOG_LINES);
            for line in failure.log.iter().skip(skipped) {
                text.push_str(&ui.paint(Style::Dim, &format!("log: {}", line.text())));
                text.push('\n');
            }
        }
        for path in &self.recorded {
            text.push_str(&format!("recorded {}\n", path.display()));
        }
        let verdict = if failures.is_empty() { ui.paint(Style::Good, "ok") } else { ui.paint(Style::Bad, "FAILED") };
        text.push_str(&format!(
            "\ntest result: {verdict}. {} passed; {} failed; {} filtered out; finished in {:.2}s\n",
            self.ran() - failures.len(),
            failures.len(),
            self.filtered,
            self.took.as_secs_f64()
        ));
        text
    }

    /// Renders the same for programs.
    pub(crate) fn json(&self) -> Value {
        let result_json = |result_json: &CaseResult| {
            json!({
                "file": result_json.file,
                "line": result_json.line,
                "case": result_json.name,
                "ok": result_json.problem.is_none(),
                "fuel": result_json.fuel,
                "problem": result_json.problem,
                "log": result_json.log.iter().map(|line| line.text()).collect::<Vec<_>>(),
            })
        };
        json!({
            "plugin": self.plugin,
            "cases": self.results.iter().map(result_json).collect::<Vec<_>>(),
            "passed": self.ran() - self.failed(),
            "failed": self.failed(),
            "filtered": self.filtered,
            "recorded": self.recorded.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
        })
    }
}

/// Formats a number with commas between its thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    fn fault(text: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.yaml");
        fs::write(&path, text).unwrap();
        let error = read(&path).map(|_| ()).unwrap_err();
        error.message.replace(&dir.path().display().to_string(), "")
    }

    #[test]
    fn broken_cases_are_named_with_their_place() {
        let good = "case: a\nvalidate: {type: x, name: y}\nexpect: {}\n";
        assert_eq!(fault(&format!("{good}---\n{good}")), "/c.yaml:5: case \"a\": the case at line 1 has the same name");
        assert!(fault("case: a\nexpects: {}\n").starts_with("/c.yaml:1: case \"a\": unknown field `expects`"));
        assert!(fault("case: [\n").starts_with("/c.yaml:"), "{}", fault("case: [\n"));
        for other in ["- a\n", "a\n", "7\n"] {
            assert_eq!(fault(other), "/c.yaml:1: a case is a map that begins with `case: NAME`", "{other}");
        }
    }
}
