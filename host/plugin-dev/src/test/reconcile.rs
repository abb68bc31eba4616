//! Runs a case of a controller: one call of it, in the sandbox, with a host in memory or a recorded one.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Duration};

use mortise_cli::{CliError, Exit, args::duration};
use mortise_plugin_host::{
    Cancel, ControllerDecl, Grants, HttpHost, Manifest, Outcome as ActualOutcome, Plugin, PluginSettings,
    ReconcileError, Reconciler, TcpHost,
    grants::{Directory, Secret, TypePattern},
};
use mortise_resource::pb;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    case::{Case, MapChange, Reconcile},
    codec::{Codec, short},
    error::CaseError,
    exchange::{Answer, Exchange, HostCall, Journal},
    expect::{ExpectedStatus, Outcome},
    memory::{Memory, Values},
    outside::{Outside, compare_requests},
    private_bytes,
    problems::Problems,
    record::{Recording, Replay},
    stored::StoredResources,
};
use crate::server_settings::{ServerSettings, grants_inside};

/// A running case of a controller.
pub(super) struct ControllerCase<'a> {
    pub(super) plugin: &'a Arc<Plugin>,
    pub(super) codec: &'a Arc<Codec>,
    pub(super) case: &'a Case,
    /// The stored resources.
    pub(super) stored: &'a Arc<StoredResources>,
    /// Granted directories.
    pub(super) files: &'a Path,
    /// The recording to compare with, if the case has one.
    pub(super) recording: Option<&'a Recording>,
}

/// The result of one call of a controller.
#[derive(Default)]
pub(super) struct RunResult {
    pub(super) problems: Problems,
    pub(super) fuel: u64,
    /// Recording of the host calls.
    pub(super) recording: Option<Recording>,
}

/// Returns the settings and grants of a case, and writes its files below `dir`. Types that the plugin's controllers
/// watch are granted, since the plugin would not load without. A case without settings has those of the server, if one is
/// given, and every case has its grants of types.
pub(super) fn settings(
    case: &Case,
    name: &str,
    controllers: &[ControllerDecl],
    server: Option<&ServerSettings>,
    dir: &Path,
) -> Result<PluginSettings, CaseError> {
    let mut grants = watch_grants(controllers)?;
    let granted = server.map(|server| grants_inside(server.plugins.grants_of(name))).unwrap_or_default();
    grants.read.extend(granted.read);
    (grants.write, grants.instances, grants.limits) = (granted.write, granted.instances, granted.limits);
    for text in &case.grants.read {
        grants.read.push(pattern(text)?);
    }
    for text in &case.grants.write {
        grants.write.push(pattern(text)?);
    }
    let put = |path: &Path, content: &str| {
        let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, content));
        made.map_err(CaseError::file("write", path))
    };
    let plain = |name: &str| !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != "..";
    for (directory, files) in &case.directories {
        if !plain(directory) || !files.keys().all(|name| plain(name)) {
            return Err(format!("directories.{directory}: names of directories and files are plain names").into());
        }
        let path = dir.join("directories").join(directory);
        fs::create_dir_all(&path).map_err(CaseError::file("create", &path))?;
        for (name, content) in files {
            put(&path.join(name), content)?;
        }
        grants.directories.insert(directory.clone(), Directory { path, write: true, bytes: None, check: None });
    }
    for (secret, content) in &case.secrets {
        if !plain(secret) {
            return Err(format!("secrets.{secret}: names of secrets are plain names").into());
        }
        let path = dir.join("secrets").join(secret);
        put(&path, content)?;
        grants.secrets.insert(secret.clone(), Secret::File(path));
    }
    for answer in &case.http {
        grants.http.push(host_of(&answer.url)?.into());
    }
    for answer in &case.tcp {
        grants.tcp.push(TcpHost::try_from(answer.to.clone()).map_err(|e| CaseError::field("tcp", e))?);
    }
    let mut settings = PluginSettings::default();
    let of_server = server.and_then(|server| server.plugins.for_plugin(name).as_object().cloned());
    settings.set(name, case.settings.clone().or(of_server).unwrap_or_default());
    settings.grant(name, grants);
    Ok(settings)
}

fn pattern(text: &str) -> Result<TypePattern, CaseError> {
    TypePattern::try_from(text.to_owned()).map_err(|e| CaseError::field("grants", e))
}

/// Grants reading of the types that controllers manage and watch.
fn watch_grants(controllers: &[ControllerDecl]) -> Result<Grants, CaseError> {
    let mut grants = Grants::default();
    for controller in controllers {
        for gvk in std::iter::once(&controller.manages).chain(controller.watches.iter().map(|watch| &watch.kind)) {
            grants.read.push(pattern(&gvk.to_string())?);
        }
    }
    Ok(grants)
}

/// Returns the settings and grants of a server, without the outside; without a server, no settings, and only the grants
/// that the plugin needs to load.
///
/// # Errors
/// A type that cannot be granted.
pub(crate) fn granted(manifest: &Manifest, server: Option<&ServerSettings>) -> Result<PluginSettings, CliError> {
    if let Some(server) = server {
        return Ok(server.inside(&manifest.name));
    }
    let mut settings = PluginSettings::default();
    let grants = watch_grants(&manifest.controllers)
        .map_err(|e| CliError::because(Exit::Failed, e).remedy("`mortise plugin inspect` shows what it needs"))?;
    settings.grant(manifest.name.to_string(), grants);
    Ok(settings)
}

/// Returns the grant that a URL needs.
fn host_of(url: &str) -> Result<HttpHost, CaseError> {
    let uri = url.parse::<http::Uri>().ok();
    let parts = uri.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.authority()?)));
    let (scheme, authority) = parts.ok_or_else(|| format!("http: {url:?} is not a URL"))?;
    let text = if scheme == "https" { authority.to_string() } else { format!("{scheme}://{authority}") };
    HttpHost::try_from(text).map_err(|e| CaseError::field("http", e))
}

impl ControllerCase<'_> {
    /// Finds a controller by its name; without a name, the plugin's only one.
    fn controller(&self, name: Option<&str>) -> Result<&ControllerDecl, CaseError> {
        let all = &self.plugin.manifest().controllers;
        let names = || all.iter().map(|decl| &*decl.name).collect::<Vec<_>>().join(", ");
        match (name, all.as_slice()) {
            (_, []) => Err("the plugin has no controllers".into()),
            (None, [single]) => Ok(single),
            (None, _) => Err(format!("name the controller: one of {}", names()).into()),
            (Some(name), _) => {
                let found = all.iter().find(|decl| &*decl.name == name);
                found.ok_or_else(|| format!("there is no controller {name:?}, only {}", names()).into())
            }
        }
    }

    /// Digest of the case's input.
    fn fixture(&self, asked: &Value) -> String {
        let case = self.case;
        let mut given = json!([
            asked,
            case.store,
            case.values,
            case.settings.clone().unwrap_or_default(),
            case.directories,
            case.secrets,
            case.now,
            case.grants.read,
            case.grants.write,
            case.http
                .iter()
                .map(|call| json!([call.method, call.url, call.status, call.headers, call.body]))
                .collect::<Vec<_>>(),
        ]);
        // Absent TCP answers do not change the digest: older recordings lack them.
        if let Some(given) = given.as_array_mut().filter(|_| !case.tcp.is_empty()) {
            given.push(case.tcp.iter().map(|exchange| json!([exchange.to, exchange.fails])).collect());
        }
        // Neither do these.
        let contents = case.http.iter().enumerate().filter_map(|(index, call)| Some((index, call.request.as_ref()?)));
        let contents: Vec<_> = contents.map(|(index, content)| json!([index, content.headers, content.body])).collect();
        if let Some(given) = given.as_array_mut().filter(|_| !contents.is_empty() || !case.private_bytes.is_empty()) {
            given.push(json!([case.private_bytes, contents]));
        }
        format!("{:x}", Sha256::digest(given.to_string()))
    }

    fn memory(&self, controller: &ControllerDecl) -> Result<Memory, CaseError> {
        let values: Values =
            self.case.values.iter().map(|(key, value)| (key.clone(), value.clone().into_bytes())).collect();
        let outside = Outside::of(self.case, self.stored.now());
        let memory = Memory::new(self.plugin, controller, self.stored, values, outside);
        for (id, bytes) in private_bytes::read(self.codec, &controller.manages, &self.case.private_bytes)? {
            memory
                .keep(&id, bytes)
                .map_err(|e| CaseError::Invalid(format!("private_bytes: {}: {}", short(&id), e.message).into()))?;
        }
        Ok(memory)
    }

    pub(super) async fn reconcile(&self, asked: &Reconcile) -> Result<RunResult, CaseError> {
        let controller = self.controller(asked.controller.as_deref())?;
        let memory = Arc::new(self.memory(controller)?);
        let tenancy = self.codec.tenancy(&controller.manages, asked.partition.as_ref(), asked.namespace.as_ref());
        let id = pb::Id {
            name: asked.name.clone(),
            r#type: Some(controller.manages.to_pb()),
            tenancy: Some(tenancy),
            uid: String::new(),
        };
        // A queue has the whole id of the changed resource.
        let id = self.stored.find(&id).and_then(|found| found.id).unwrap_or(id);
        let fixture = self.fixture(&json!([controller.name.to_string(), super::codec::id_json(&id)]));

        let reconciler = Reconciler::new(self.plugin).ok_or("the plugin has no controllers")?;
        let mut ran = RunResult::default();
        let replay = match self.recording {
            Some(recording) if recording.fixture != fixture => {
                ran.problems
                    .add("the case was changed since it was recorded; `mortise plugin test --record` records it again");
                None
            }
            Some(recording) => Some(Replay::new(recording.clone(), self.codec.clone(), self.stored.now())),
            None => None,
        };
        let journal = match &replay {
            Some(replay) => Journal::new(replay.clone()),
            None => Journal::new(memory.clone()),
        };
        let ended = reconciler.reconcile(&controller.name, &id, journal.clone(), &Cancel::new()).await;
        ran.fuel = reconciler.used().fuel;
        let exchanges = journal.exchanges();
        ran.recording = Some(Recording::new(fixture, &exchanges, self.codec));
        if let Some(difference) = replay.as_ref().and_then(|replay| replay.difference()) {
            // Later differences follow from this one.
            ran.problems.add(difference);
            return Ok(ran);
        }
        self.compare_outcome(&mut ran.problems, ended);
        self.compare(&mut ran.problems, controller, &exchanges, replay.is_none().then_some(&*memory))?;
        Ok(ran)
    }

    /// Compares the end of the call.
    fn compare_outcome(&self, problems: &mut Problems, ended: Result<ActualOutcome, ReconcileError>) {
        let expect = &self.case.expect;
        match (ended, &expect.error) {
            (Err(ReconcileError::Fault(fault)), _) => problems.fault(expect.fault.as_deref(), &fault.to_string()),
            (Err(ReconcileError::Guest(text)), Some(part)) if text.contains(part.as_str()) => {
                problems.no_fault(expect.fault.as_deref());
            }
            (Err(ReconcileError::Guest(text)), Some(part)) => {
                problems.add(format!("another error than expected:\n-…{part}…\n+{text}"));
            }
            (Err(ReconcileError::Guest(text)), None) => problems.add(format!("reconcile failed: {text}")),
            (Ok(ended), Some(part)) => {
                problems.add(format!("another end than expected:\n-error: …{part}…\n+{}", outcome_text(&ended)));
            }
            (Ok(ended), None) => {
                problems.no_fault(expect.fault.as_deref());
                if let Some(expected) = &expect.outcome {
                    match outcome(expected) {
                        Ok(expected) if expected == ended => {}
                        Ok(expected) => {
                            problems.add(format!(
                                "another end than expected:\n-{}\n+{}",
                                outcome_text(&expected),
                                outcome_text(&ended)
                            ));
                        }
                        Err(what) => problems.add(what.to_string()),
                    }
                }
            }
        }
    }

    /// Compares the effects of the call.
    fn compare(
        &self,
        problems: &mut Problems,
        controller: &ControllerDecl,
        exchanges: &[Exchange],
        memory: Option<&Memory>,
    ) -> Result<(), CaseError> {
        let expect = &self.case.expect;
        let (mut writes, mut statuses, mut deletes) = (Vec::new(), Vec::new(), Vec::new());
        for Exchange { ask, answer } in exchanges {
            match (ask, answer) {
                (_, Err(_)) => {}
                (HostCall::Write(resource), _) => writes.push(resource),
                // The request holds only a part of the resource.
                (HostCall::Update(_), Ok(Answer::Resource(Some(resource)))) => writes.push(resource),
                (HostCall::WriteStatus { id, key, status, .. }, _) => statuses.push((id, key, status)),
                (HostCall::Delete { id, .. }, _) => deletes.push(short(id)),
                _ => {}
            }
        }

        let (mut expected, mut found) = (String::new(), String::new());
        for (place, write) in expect.writes.iter().enumerate() {
            let wanted = self.codec.read(&format!("expect.writes[{place}]"), write)?;
            expected.push_str(&self.write_text(&wanted, write));
            if let Some(written) = writes.get(place) {
                found.push_str(&self.write_text(written, write));
            }
        }
        for more in writes.iter().skip(expect.writes.len()) {
            found.push_str(&self.write_text(more, &json!({"owner": true, "metadata": true})));
        }
        problems.same("other writes than expected:", &expected, &found);

        let (mut expected, mut found) = (String::new(), String::new());
        for (place, wanted) in expect.statuses.iter().enumerate() {
            let type_name = wanted.type_name.clone().unwrap_or_else(|| controller.manages.to_string());
            expected.push_str(&expected_status(&type_name, wanted));
            if let Some((id, key, status)) = statuses.get(place) {
                found.push_str(&self.status_text(id, key, status, Some(&wanted.conditions)));
            }
        }
        for (id, key, status) in statuses.iter().skip(expect.statuses.len()) {
            found.push_str(&self.status_text(id, key, status, None));
        }
        problems.same("other statuses than expected:", &expected, &found);

        let whole = |text: &String| {
            let name = if text.contains('/') { text.clone() } else { format!("{}/{text}", controller.manages) };
            name + "\n"
        };
        let expected: String = expect.deletes.iter().map(whole).collect();
        let found: String = deletes.iter().map(|delete| format!("{delete}\n")).collect();
        problems.same("other deletions than expected:", &expected, &found);

        let table =
            |all: &BTreeMap<String, String>| all.iter().map(|(k, v)| format!("{k}: {v:?}\n")).collect::<String>();
        if let Some(expected) = &expect.requests {
            compare_requests(problems, expected, exchanges);
        }
        if let (Some(expected), Some(memory)) = (&expect.private_bytes, memory) {
            private_bytes::compare(problems, self.codec, &controller.manages, expected, &memory.kept())?;
        }
        if let (Some(expected), Some(memory)) = (&expect.values, memory) {
            let found =
                memory.values().iter().map(|(k, v)| (k.clone(), String::from_utf8_lossy(v).into_owned())).collect();
            problems.same("other values (kv) than expected:", &table(expected), &table(&found));
        }
        for (directory, expected) in &expect.directories {
            let found = files(&self.files.join("directories").join(directory))?;
            problems.same(
                &format!("other files in directory {directory} than expected:"),
                &table(expected),
                &table(&found),
            );
        }
        Ok(())
    }

    /// Renders a written resource, with the parts that the expectation names.
    fn write_text(&self, resource: &pb::Resource, expected: &Value) -> String {
        let says = |key: &str| expected.get(key).is_some();
        let mut shown =
            pb::Resource { id: resource.id.clone(), data: resource.data.clone(), ..pb::Resource::default() };
        if says("metadata") {
            shown.metadata.clone_from(&resource.metadata);
        }
        if says("owner") {
            shown.owner.clone_from(&resource.owner);
        }
        for id in shown.id.iter_mut().chain(&mut shown.owner) {
            id.uid.clear();
        }
        format!("---\n{}", self.codec.yaml(&shown))
    }

    /// Renders a written status; its conditions have the fields that the expectation names.
    fn status_text(
        &self,
        id: &pb::Id,
        key: &str,
        status: &pb::Status,
        expected: Option<&[Map<String, Value>]>,
    ) -> String {
        let json = self.codec.status(status);
        let conditions = json.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        let shown = conditions.iter().enumerate().map(|(place, condition)| {
            let mut row = condition.as_object().cloned().unwrap_or_default();
            if let Some(wanted) = expected.and_then(|all| all.get(place)) {
                row.retain(|key, _| wanted.contains_key(key));
                for key in wanted.keys().filter(|key| key.as_str() != "resource") {
                    row.entry(key.clone())
                        .or_insert_with(|| if key == "state" { "STATE_UNKNOWN".into() } else { "".into() });
                }
            }
            row
        });
        status_lines(&short(id), key, shown)
    }

    pub(super) async fn map(&self, asked: &MapChange) -> Result<RunResult, CaseError> {
        let controller = self.controller(asked.controller.as_deref())?;
        let memory = Arc::new(self.memory(controller)?);
        let changed = self.codec.read("map.changed", &asked.changed)?;
        let reconciler = Reconciler::new(self.plugin).ok_or("the plugin has no controllers")?;
        let mut ran = RunResult::default();
        let answer = reconciler.map(&controller.name, &changed, Journal::new(memory), &Cancel::new()).await;
        ran.fuel = reconciler.used().fuel;
        match answer {
            Ok(ids) => {
                ran.problems.no_fault(self.case.expect.fault.as_deref());
                if let Some(part) = &self.case.expect.error {
                    ran.problems.add(format!("expected a failure ({part:?}), but there was none"));
                }
                let expected: String = self.case.expect.names.iter().map(|name| format!("{name}\n")).collect();
                let found: String = ids.iter().map(|id| format!("{}\n", id.name)).collect();
                ran.problems.same("other resources than expected:", &expected, &found);
            }
            Err(other) => self.compare_outcome(&mut ran.problems, Err(other)),
        }
        Ok(ran)
    }
}

fn expected_status(type_name: &str, expected: &ExpectedStatus) -> String {
    let normal = |condition: &Map<String, Value>| {
        let mut condition = condition.clone();
        if let Some(state) = condition.get_mut("state") {
            let text = match &*state {
                Value::Bool(true) => "STATE_TRUE".to_owned(),
                Value::Bool(false) => "STATE_FALSE".to_owned(),
                Value::String(text) if !text.starts_with("STATE_") => format!("STATE_{}", text.to_uppercase()),
                other => other.as_str().unwrap_or_default().to_owned(),
            };
            *state = text.into();
        }
        condition
    };
    status_lines(&format!("{type_name}/{}", expected.name), &expected.key, expected.conditions.iter().map(normal))
}

fn status_lines(what: &str, key: &str, conditions: impl Iterator<Item = Map<String, Value>>) -> String {
    let sorted = |fields: Map<String, Value>| fields.into_iter().collect::<BTreeMap<_, _>>();
    let lines: String = conditions.map(|condition| format!("  {}\n", json!(sorted(condition)))).collect();
    format!("{what} under {key}:\n{lines}")
}

/// Converts an expected end.
fn outcome(expected: &Outcome) -> Result<ActualOutcome, CaseError> {
    let time = |text: &String| duration(text).map_err(|e| CaseError::field("expect.outcome", e));
    Ok(match expected {
        Outcome::Done => ActualOutcome::Done,
        Outcome::Requeue => ActualOutcome::RequeueNow,
        Outcome::RequeueAfter(text) => ActualOutcome::RequeueAfter(time(text)?),
        Outcome::Deferred { after, reason } => ActualOutcome::Deferred { after: time(after)?, reason: reason.clone() },
    })
}

fn outcome_text(ended: &ActualOutcome) -> String {
    let time = |time: &Duration| format!("{time:?}");
    match ended {
        ActualOutcome::Done => "done".into(),
        ActualOutcome::RequeueNow => "requeue".into(),
        ActualOutcome::RequeueAfter(after) => format!("requeue_after: {}", time(after)),
        ActualOutcome::Deferred { after, reason } => {
            format!("deferred: {{after: {}, reason: {reason:?}}}", time(after))
        }
    }
}

fn files(dir: &Path) -> Result<BTreeMap<String, String>, CaseError> {
    let fault = |e| CaseError::file("read", dir)(e);
    let mut found = BTreeMap::new();
    if !dir.exists() {
        return Ok(found);
    }
    for entry in fs::read_dir(dir).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let content = fs::read(entry.path()).map_err(fault)?;
        found.insert(entry.file_name().to_string_lossy().into_owned(), String::from_utf8_lossy(&content).into_owned());
    }
    Ok(found)
}
