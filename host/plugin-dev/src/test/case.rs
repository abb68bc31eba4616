//! A case: the call, its input and the world around it. The expected outcome is [`super::expect`].
//!
//! The fields are listed in docs/writing-plugins.md. An unknown field is an error, since a misspelled expectation would
//! check nothing.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    error::CaseError,
    expect::{Expect, present},
};

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
    plan: Option<Value>,
    #[serde(rename = "move")]
    move_to: Option<MoveTo>,
    import: Option<Import>,
    function: Option<FunctionCall>,
    /// Stored resource of the same name, for `validate`, `write` and `plan`.
    pub(super) stored: Option<Value>,
    /// Caller, for `authorize` and `write`; by default one with every permission.
    pub(super) caller: Option<Caller>,
    /// Settings, as in `[plugin.<name>.settings]`; by default none, or those of the server that is given.
    pub(super) settings: Option<Map<String, Value>>,
    /// Grants, as in `[plugin.<name>.grants]`, as far as cases have them.
    #[serde(default)]
    pub(super) grants: GrantTable,
    /// Existing resources, for reconcilers, and for hooks that search.
    #[serde(default)]
    pub(super) store: Vec<Value>,
    /// The plugin's own values (`kv`).
    #[serde(default)]
    pub(super) values: BTreeMap<String, String>,
    /// Private bytes of resources, as text: by `TYPE/NAME`, or by `NAME` for the type of the call.
    #[serde(default)]
    pub(super) private_bytes: BTreeMap<String, String>,
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
    Plan(Value),
    Move(MoveTo),
    Import(Import),
    Function(FunctionCall),
}

impl Invocation {
    /// Tells whether it calls a controller, which may use resources, values and the outside.
    pub(super) const fn is_of_controllers(&self) -> bool {
        matches!(self, Self::Reconcile(_) | Self::Map(_))
    }

    /// Tells whether it may use the outside, as far as it is granted.
    const fn reaches_outside(&self) -> bool {
        self.is_of_controllers() || matches!(self, Self::Import(_))
    }
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

/// Stored resource that becomes one of another type. Its message may have no type in the plugin any more.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MoveTo {
    /// Type of the result.
    pub(super) to: String,
    /// Type of the stored resource: `group.version.Kind`.
    #[serde(rename = "type")]
    pub(super) type_name: String,
    pub(super) name: String,
    pub(super) partition: Option<String>,
    pub(super) namespace: Option<String>,
    /// Schema version of the data.
    #[serde(default = "first_version")]
    pub(super) since: u32,
    /// Message of the data, which must be in the plugin's descriptors; by default that of the type, if it has one.
    pub(super) message: Option<String>,
    #[serde(default)]
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) data: Value,
}

/// External object that becomes a resource.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Import {
    #[serde(rename = "type")]
    pub(super) type_name: String,
    /// External id.
    pub(super) id: String,
    pub(super) partition: Option<String>,
    pub(super) namespace: Option<String>,
}

/// Call of a function.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FunctionCall {
    pub(super) name: String,
    #[serde(default)]
    pub(super) arguments: Vec<Value>,
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
    /// Content that a request must have to get this answer.
    pub(super) request: Option<HttpContent>,
}

/// Content of an HTTP request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HttpContent {
    /// Headers that it has, by names of any case; it may have others.
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    /// Whole body: a text, or a value that is compared with the body's JSON; by default not compared.
    #[serde(default, deserialize_with = "present")]
    pub(super) body: Option<Value>,
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

fn first_version() -> u32 {
    1
}

fn get() -> String {
    "GET".into()
}

fn ok() -> u16 {
    200
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
        found.extend(case.plan.take().map(Invocation::Plan));
        found.extend(case.move_to.take().map(Invocation::Move));
        found.extend(case.import.take().map(Invocation::Import));
        found.extend(case.function.take().map(Invocation::Function));
        let invocation = match (found.pop(), found.is_empty()) {
            (Some(single), true) => single,
            _ => {
                let all = "mutate, validate, write, authorize, upgrade, reconcile, map, plan, move, import, function";
                return Err(format!("it must call exactly one of {all}").into());
            }
        };
        case.check_given(&invocation)?;
        case.expect.check(&invocation)?;
        Ok((case, invocation))
    }

    /// Rejects input that the call does not use.
    fn check_given(&self, invocation: &Invocation) -> Result<(), CaseError> {
        let (controls, outside) = (invocation.is_of_controllers(), invocation.reaches_outside());
        let compares = matches!(invocation, Invocation::Validate(_) | Invocation::Write(_) | Invocation::Plan(_));
        let searches = compares || matches!(invocation, Invocation::Mutate(_));
        let keeps = controls || matches!(invocation, Invocation::Plan(_) | Invocation::Move(_));
        let has_caller =
            !outside && !matches!(invocation, Invocation::Plan(_) | Invocation::Move(_) | Invocation::Function(_));
        let callers = "mutate, validate, write, authorize and upgrade";
        let given = [
            ("stored", self.stored.is_some(), compares, "validate, write and plan"),
            ("caller", self.caller.is_some(), has_caller, callers),
            ("store", !self.store.is_empty(), controls || searches, "mutate, validate, write, plan, reconcile and map"),
            ("values", !self.values.is_empty(), controls, "reconcile and map"),
            ("private_bytes", !self.private_bytes.is_empty(), keeps, "reconcile, map, plan and move"),
            ("directories", !self.directories.is_empty(), outside, "reconcile, map and import"),
            ("secrets", !self.secrets.is_empty(), outside, "reconcile, map and import"),
            ("http", !self.http.is_empty(), outside, "reconcile, map and import"),
            ("tcp", !self.tcp.is_empty(), outside, "reconcile, map and import"),
            ("now", self.now.is_some(), outside, "reconcile, map and import"),
        ];
        let is_empty = |content: &HttpContent| content.headers.is_empty() && content.body.is_none();
        if self.http.iter().filter_map(|answer| answer.request.as_ref()).any(is_empty) {
            return Err("http: an empty `request` checks nothing; give it `headers` or `body`, or leave it out".into());
        }
        match given.iter().find(|(_, is, fits, _)| *is && !fits) {
            Some((field, _, _, owner)) => Err(format!("{field} is for {owner} only").into()),
            None => Ok(()),
        }
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
        assert_eq!(refused, "store is for mutate, validate, write, plan, reconcile and map only");
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
