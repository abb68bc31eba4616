//! A case: the call, its input, the world around it, and the expected outcome.
//!
//! The fields are listed in docs/writing-plugins.md. An unknown field is an error, since a misspelled expectation would
//! check nothing.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::error::CaseError;

/// A test case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    /// Name of the case.
    #[serde(rename = "case")]
    pub(super) name: String,
    /// The call: exactly one of these fields; [`Case::read`] takes it out.
    mutate: Option<Value>,
    validate: Option<Value>,
    write: Option<Value>,
    authorize: Option<Authorize>,
    upgrade: Option<Upgrade>,
    reconcile: Option<Reconcile>,
    map: Option<MapChange>,
    /// Stored resource of the same name, for `validate` and `write`.
    pub(super) stored: Option<Value>,
    /// Caller, for `authorize` and `write`; by default one with every permission.
    pub(super) caller: Option<Caller>,
    /// Settings, as in `[plugin.<name>.settings]`.
    #[serde(default)]
    pub(super) settings: Map<String, Value>,
    /// Grants, as in `[plugin.<name>.grants]`, as far as cases have them.
    #[serde(default)]
    pub(super) grants: GrantTable,
    /// Existing resources, for reconcilers, and for hooks that search.
    #[serde(default)]
    pub(super) store: Vec<Value>,
    /// The plugin's own values (`kv`).
    #[serde(default)]
    pub(super) values: BTreeMap<String, String>,
    /// Granted directories: names to files to contents.
    #[serde(default)]
    pub(super) directories: BTreeMap<String, BTreeMap<String, String>>,
    /// Granted secrets.
    #[serde(default)]
    pub(super) secrets: BTreeMap<String, String>,
    /// Answers to HTTP requests.
    #[serde(default)]
    pub(super) http: Vec<HttpAnswer>,
    /// Answers to TCP connects.
    #[serde(default)]
    pub(super) tcp: Vec<TcpAnswer>,
    /// Time in RFC 3339; by default 2025-01-01T00:00:00Z.
    pub(super) now: Option<String>,
    pub(super) expect: Expect,
}

/// The call of a case.
#[derive(Debug, Clone)]
pub(super) enum Invocation {
    Mutate(Value),
    Validate(Value),
    Write(Value),
    Authorize(Authorize),
    Upgrade(Upgrade),
    Reconcile(Reconcile),
    Map(MapChange),
}

/// A question of authorisation: exactly one of these.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Authorize {
    pub(super) read: Option<Value>,
    pub(super) write: Option<Value>,
    pub(super) list: Option<List>,
}

/// Type and tenancy to list.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    #[serde(rename = "type")]
    pub(super) type_name: String,
    #[serde(default)]
    pub(super) partition: String,
    #[serde(default)]
    pub(super) namespace: String,
}

/// Data of an older schema version.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Upgrade {
    #[serde(rename = "type")]
    pub(super) type_name: String,
    /// Schema version of the data.
    pub(super) since: u32,
    /// Message of the data, if it is not the type's own; it must be in the plugin's descriptors.
    pub(super) message: Option<String>,
    pub(super) data: Value,
}

/// Resource to call a reconciler for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reconcile {
    /// Name of the controller; by default the plugin's only one.
    pub(super) controller: Option<String>,
    pub(super) name: String,
    pub(super) partition: Option<String>,
    pub(super) namespace: Option<String>,
}

/// Change to ask a mapper about.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MapChange {
    pub(super) controller: Option<String>,
    pub(super) changed: Value,
}

/// Caller of a hook.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Caller {
    /// Name in refusals.
    pub(super) name: Option<String>,
    /// Permissions: `key:read on NAME`, or `operator:read`.
    #[serde(default)]
    pub(super) permissions: Vec<String>,
}

/// Granted types of other plugins.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GrantTable {
    #[serde(default)]
    pub(super) read: Vec<String>,
    #[serde(default)]
    pub(super) write: Vec<String>,
}

/// Answer to an HTTP request.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HttpAnswer {
    #[serde(default = "get")]
    pub(super) method: String,
    pub(super) url: String,
    #[serde(default = "ok")]
    pub(super) status: u16,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) body: String,
}

/// Result of a connect to a host and port.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TcpAnswer {
    /// Host and port, such as `db.internal:5432`.
    pub(super) to: String,
    /// Reason of the failure; without it, the connect is accepted.
    pub(super) fails: Option<String>,
}

fn get() -> String {
    "GET".into()
}

fn ok() -> u16 {
    200
}

/// Expected outcome. Effects that are missing here must not happen.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    /// `mutate`, `write`, `upgrade`: the data afterwards.
    pub(super) data: Option<Value>,
    /// `mutate`, `write`: the metadata afterwards.
    pub(super) metadata: Option<BTreeMap<String, String>>,
    /// `mutate`, `write`: the resource as it was given.
    #[serde(default)]
    pub(super) unchanged: bool,
    /// `mutate`: `false` skips the second call. By default `mutate` gets its answer again, as when a resource is
    /// written back, and must not change it.
    pub(super) idempotent: Option<bool>,
    /// Errors and warnings, in any order.
    #[serde(default)]
    pub(super) diagnostics: Vec<ExpectedDiagnostic>,
    /// `authorize`, `write`: the call is allowed.
    #[serde(default)]
    pub(super) allow: bool,
    /// `authorize`, `write`: a part of the reason.
    pub(super) deny: Option<String>,
    /// `reconcile`: the end of the call.
    pub(super) outcome: Option<Outcome>,
    /// `reconcile`, `map`: a part of the error that ends the call.
    pub(super) error: Option<String>,
    /// `reconcile`: written resources, in order.
    #[serde(default)]
    pub(super) writes: Vec<Value>,
    /// `reconcile`: written statuses, in order.
    #[serde(default)]
    pub(super) statuses: Vec<ExpectedStatus>,
    /// `reconcile`: deleted resources, in order: `TYPE/NAME`, or `NAME` of the managed type.
    #[serde(default)]
    pub(super) deletes: Vec<String>,
    /// `map`: names of resources of the managed type, in order.
    #[serde(default)]
    pub(super) names: Vec<String>,
    /// `reconcile`: the plugin's own values afterwards; by default not compared.
    pub(super) values: Option<BTreeMap<String, String>>,
    /// `reconcile`: files afterwards; directories that are not named are not compared.
    #[serde(default)]
    pub(super) directories: BTreeMap<String, BTreeMap<String, String>>,
    /// A part of the error of a plugin that breaks: a trap, a limit.
    pub(super) fault: Option<String>,
    /// Most fuel that the call may use.
    pub(super) max_fuel: Option<u64>,
}

/// An expected diagnostic.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpectedDiagnostic {
    pub(super) error: Option<String>,
    pub(super) warning: Option<String>,
    /// Path of the field; by default not compared.
    pub(super) path: Option<String>,
}

/// End of a reconcile.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Outcome {
    Done,
    Requeue,
    /// Delay with a unit, such as `30s`; without a unit, seconds.
    RequeueAfter(String),
    Deferred {
        after: String,
        reason: String,
    },
}

/// An expected status.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpectedStatus {
    /// Type of the resource; by default the managed type.
    #[serde(rename = "type")]
    pub(super) type_name: Option<String>,
    pub(super) name: String,
    pub(super) key: String,
    /// Conditions; only the named fields of each are compared.
    pub(super) conditions: Vec<Map<String, Value>>,
}

impl Case {
    /// Reads a case, and returns it with its call.
    ///
    /// # Errors
    /// A fault of the case, in one line.
    pub(super) fn read(value: &Value) -> Result<(Self, Invocation), CaseError> {
        let mut case = Self::deserialize(value)?;
        let mut found = Vec::new();
        found.extend(case.mutate.take().map(Invocation::Mutate));
        found.extend(case.validate.take().map(Invocation::Validate));
        found.extend(case.write.take().map(Invocation::Write));
        found.extend(case.authorize.take().map(Invocation::Authorize));
        found.extend(case.upgrade.take().map(Invocation::Upgrade));
        found.extend(case.reconcile.take().map(Invocation::Reconcile));
        found.extend(case.map.take().map(Invocation::Map));
        let invocation = match (found.pop(), found.is_empty()) {
            (Some(single), true) => single,
            _ => {
                let all = "mutate, validate, write, authorize, upgrade, reconcile, map";
                return Err(format!("it must call exactly one of {all}").into());
            }
        };
        case.check(&invocation)?;
        Ok((case, invocation))
    }

    /// Rejects input that the call does not use.
    fn check_given(&self, invocation: &Invocation) -> Result<(), CaseError> {
        let controls = matches!(invocation, Invocation::Reconcile(_) | Invocation::Map(_));
        let judges = matches!(invocation, Invocation::Validate(_) | Invocation::Write(_));
        let searches = judges || matches!(invocation, Invocation::Mutate(_));
        let given = [
            ("stored", self.stored.is_some(), judges, "validate and write"),
            ("caller", self.caller.is_some(), !controls, "hooks"),
            ("store", !self.store.is_empty(), controls || searches, "mutate, validate, write, reconcile and map"),
            ("values", !self.values.is_empty(), controls, "reconcile and map"),
            ("directories", !self.directories.is_empty(), controls, "reconcile and map"),
            ("secrets", !self.secrets.is_empty(), controls, "reconcile and map"),
            ("http", !self.http.is_empty(), controls, "reconcile and map"),
            ("tcp", !self.tcp.is_empty(), controls, "reconcile and map"),
            ("now", self.now.is_some(), controls, "reconcile and map"),
        ];
        match given.iter().find(|(_, is, fits, _)| *is && !fits) {
            Some((field, _, _, owner)) => Err(format!("{field} is for {owner} only").into()),
            None => Ok(()),
        }
    }

    /// Rejects expectations that the call does not check.
    fn check(&self, invocation: &Invocation) -> Result<(), CaseError> {
        self.check_given(invocation)?;
        let expect = &self.expect;
        let (name, fits): (&str, &[&str]) = match invocation {
            Invocation::Mutate(_) => ("mutate", &["data", "metadata", "unchanged", "diagnostics"]),
            Invocation::Validate(_) => ("validate", &["diagnostics"]),
            Invocation::Write(_) => ("write", &["data", "metadata", "unchanged", "diagnostics", "allow", "deny"]),
            Invocation::Authorize(_) => ("authorize", &["allow", "deny"]),
            Invocation::Upgrade(_) => ("upgrade", &["data", "diagnostics"]),
            Invocation::Reconcile(_) => {
                ("reconcile", &["outcome", "error", "writes", "statuses", "deletes", "values", "directories"])
            }
            Invocation::Map(_) => ("map", &["names", "error"]),
        };
        let given = [
            ("data", expect.data.is_some()),
            ("metadata", expect.metadata.is_some()),
            ("unchanged", expect.unchanged),
            ("diagnostics", !expect.diagnostics.is_empty()),
            ("allow", expect.allow),
            ("deny", expect.deny.is_some()),
            ("outcome", expect.outcome.is_some()),
            ("error", expect.error.is_some()),
            ("writes", !expect.writes.is_empty()),
            ("statuses", !expect.statuses.is_empty()),
            ("deletes", !expect.deletes.is_empty()),
            ("names", !expect.names.is_empty()),
            ("values", expect.values.is_some()),
            ("directories", !expect.directories.is_empty()),
        ];
        if let Some((stray, _)) = given.iter().find(|(field, is)| *is && !fits.contains(field)) {
            return Err(format!("expect.{stray} does not apply to {name}; it may expect {}", fits.join(", ")).into());
        }
        let says_nothing = expect.fault.is_none() && !given.iter().any(|(_, is)| *is);
        let checked: Result<(), CaseError> = match invocation {
            Invocation::Mutate(_) | Invocation::Upgrade(_) if says_nothing => {
                Err(format!("expect must contain the answer of {name}: one of {}", fits.join(", ")).into())
            }
            Invocation::Authorize(_) if says_nothing => {
                Err("expect must contain `allow: true`, or `deny: REASON`".into())
            }
            Invocation::Reconcile(_)
                if expect.fault.is_none() && expect.outcome.is_none() && expect.error.is_none() =>
            {
                Err("expect must contain the end of reconcile: `outcome: done`, or `error: TEXT`".into())
            }
            _ => Ok(()),
        };
        checked?;
        let named = |single: &&ExpectedDiagnostic| single.error.is_some() == single.warning.is_some();
        if expect.diagnostics.iter().any(|single| named(&single)) {
            return Err("each of expect.diagnostics has either `error: TEXT` or `warning: TEXT`".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fault(value: Value) -> String {
        Case::read(&value).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn what_would_test_nothing_is_refused() {
        let thing = json!({"type": "a.v1.Bb", "name": "x"});
        assert!(fault(json!({"case": "c", "expect": {}})).contains("exactly one of"));
        assert!(
            fault(json!({"case": "c", "mutate": thing, "validate": thing, "expect": {}})).contains("exactly one of")
        );
        assert!(
            fault(json!({"case": "c", "mutate": thing, "expect": {}})).contains("must contain the answer of mutate")
        );
        assert!(fault(json!({"case": "c", "validate": thing, "expects": {}})).contains("unknown field `expects`"));
        assert!(fault(json!({"case": "c", "validate": thing, "expect": {"dta": 1}})).contains("unknown field `dta`"));
        assert!(fault(json!({"case": "c", "validate": thing, "expect": {"data": {}}})).contains("does not apply to"));
        assert!(fault(json!({"case": "c", "reconcile": {"name": "x"}, "expect": {}})).contains("the end of reconcile"));
        let expected = json!([{"path": "data"}]);
        let refused = fault(json!({"case": "c", "validate": thing, "expect": {"diagnostics": expected}}));
        assert!(refused.contains("either `error: TEXT`"), "{refused}");
        let asked = json!({"write": thing});
        let refused = fault(json!({"case": "c", "authorize": asked, "store": [thing], "expect": {}}));
        assert_eq!(refused, "store is for mutate, validate, write, reconcile and map only");
        assert!(Case::read(&json!({"case": "c", "validate": thing, "expect": {}})).is_ok());
    }

    #[test]
    fn outcomes_are_words_or_tables() {
        let read = |outcome: Value| {
            Case::read(&json!({"case": "c", "reconcile": {"name": "x"}, "expect": {"outcome": outcome}}))
        };
        assert!(read(json!("done")).is_ok() && read(json!("requeue")).is_ok());
        assert!(read(json!({"requeue_after": "30s"})).is_ok());
        assert!(read(json!({"deferred": {"after": "30s", "reason": "waiting"}})).is_ok());
        assert!(read(json!("never")).is_err());
    }
}
