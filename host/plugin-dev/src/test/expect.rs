//! The expected outcome of a case.
//!
//! An expectation that its call does not check is an error, since it would check nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{case::Invocation, error::CaseError};

/// Expectations of `reconcile`.
const EFFECTS: &[&str] =
    &["outcome", "error", "writes", "statuses", "deletes", "values", "directories", "private_bytes", "requests"];

/// Expected outcome. Effects that are missing here must not happen.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    /// `mutate`, `write`, `upgrade`, `move`, `import`: the data afterwards; `plan`: the predicted data.
    pub(super) data: Option<Value>,
    /// The metadata, as for `data`; `upgrade` has none.
    pub(super) metadata: Option<BTreeMap<String, String>>,
    /// `mutate`, `write`, `plan`: the resource as it was given.
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
    /// `reconcile`, `map`, `function`: a part of the error that ends the call.
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
    /// `reconcile`: private bytes afterwards, by default not compared; `move`, `import`: those of the new resource.
    /// Keys are those of [`Case::private_bytes`](super::case::Case).
    pub(super) private_bytes: Option<BTreeMap<String, String>>,
    /// `reconcile`, `import`: HTTP requests in order, each as `METHOD URL`; by default not compared.
    pub(super) requests: Option<Vec<String>>,
    /// `plan`: paths of fields for which the stored resource must be replaced.
    #[serde(default)]
    pub(super) replace: Vec<String>,
    /// `import`: name that the plugin gives the resource.
    pub(super) name: Option<String>,
    /// `function`: the result, which may be `null`.
    #[serde(default, deserialize_with = "present")]
    pub(super) result: Option<Value>,
    /// `function`: index of the argument that is at fault, from 0; by default not compared.
    pub(super) argument: Option<u32>,
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

/// Reads a value that is there, also if it is `null`.
pub(super) fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

impl Expect {
    /// Rejects expectations that the call does not check.
    ///
    /// # Errors
    /// The first of them, or the expectation that is missing.
    pub(super) fn check(&self, invocation: &Invocation) -> Result<(), CaseError> {
        let (name, fits): (&str, &[&str]) = match invocation {
            Invocation::Mutate(_) => ("mutate", &["data", "metadata", "unchanged", "diagnostics"]),
            Invocation::Validate(_) => ("validate", &["diagnostics"]),
            Invocation::Write(_) => ("write", &["data", "metadata", "unchanged", "diagnostics", "allow", "deny"]),
            Invocation::Authorize(_) => ("authorize", &["allow", "deny"]),
            Invocation::Upgrade(_) => ("upgrade", &["data", "diagnostics"]),
            Invocation::Reconcile(_) => ("reconcile", EFFECTS),
            Invocation::Map(_) => ("map", &["names", "error"]),
            Invocation::Plan(_) => ("plan", &["data", "metadata", "unchanged", "replace", "diagnostics"]),
            Invocation::Move(_) => ("move", &["data", "metadata", "private_bytes", "diagnostics"]),
            Invocation::Import(_) => {
                ("import", &["name", "data", "metadata", "private_bytes", "requests", "diagnostics"])
            }
            Invocation::Function(_) => ("function", &["result", "error", "argument"]),
        };
        let given = [
            ("data", self.data.is_some()),
            ("metadata", self.metadata.is_some()),
            ("unchanged", self.unchanged),
            ("diagnostics", !self.diagnostics.is_empty()),
            ("allow", self.allow),
            ("deny", self.deny.is_some()),
            ("outcome", self.outcome.is_some()),
            ("error", self.error.is_some()),
            ("writes", !self.writes.is_empty()),
            ("statuses", !self.statuses.is_empty()),
            ("deletes", !self.deletes.is_empty()),
            ("names", !self.names.is_empty()),
            ("values", self.values.is_some()),
            ("directories", !self.directories.is_empty()),
            ("private_bytes", self.private_bytes.is_some()),
            ("requests", self.requests.is_some()),
            ("replace", !self.replace.is_empty()),
            ("name", self.name.is_some()),
            ("result", self.result.is_some()),
            ("argument", self.argument.is_some()),
        ];
        if let Some((stray, _)) = given.iter().find(|(field, is)| *is && !fits.contains(field)) {
            return Err(format!("expect.{stray} does not apply to {name}; it may expect {}", fits.join(", ")).into());
        }
        let says_nothing = self.fault.is_none() && !given.iter().any(|(_, is)| *is);
        let checked: Result<(), CaseError> = match invocation {
            Invocation::Mutate(_)
            | Invocation::Upgrade(_)
            | Invocation::Plan(_)
            | Invocation::Move(_)
            | Invocation::Import(_)
                if says_nothing =>
            {
                Err(format!("expect must contain the answer of {name}: one of {}", fits.join(", ")).into())
            }
            Invocation::Function(_) if self.fault.is_none() && self.result.is_some() == self.error.is_some() => {
                Err("expect must contain either the result of function, `result: VALUE`, or `error: TEXT`".into())
            }
            Invocation::Function(_) if self.argument.is_some() && self.error.is_none() => {
                Err("expect.argument names the argument of an error; add `error: TEXT`".into())
            }
            Invocation::Authorize(_) if says_nothing => {
                Err("expect must contain `allow: true`, or `deny: REASON`".into())
            }
            Invocation::Reconcile(_) if self.fault.is_none() && self.outcome.is_none() && self.error.is_none() => {
                Err("expect must contain the end of reconcile: `outcome: done`, or `error: TEXT`".into())
            }
            _ => Ok(()),
        };
        checked?;
        let is_refused = self.diagnostics.iter().any(|single| single.error.is_some());
        let is_change = matches!(invocation, Invocation::Plan(_) | Invocation::Move(_) | Invocation::Import(_));
        let ended = if self.fault.is_some() { "a fault" } else { "an error" };
        let compared = |field: &str| !matches!(field, "diagnostics" | "requests");
        if is_change
            && (is_refused || self.fault.is_some())
            && let Some((field, _)) = given.iter().find(|(field, is)| *is && compared(field))
        {
            return Err(format!("expect.{field} is not compared after {ended} of {name}; leave it out").into());
        }
        let named = |single: &&ExpectedDiagnostic| single.error.is_some() == single.warning.is_some();
        if self.diagnostics.iter().any(|single| named(&single)) {
            return Err("each of expect.diagnostics has either `error: TEXT` or `warning: TEXT`".into());
        }
        Ok(())
    }
}
