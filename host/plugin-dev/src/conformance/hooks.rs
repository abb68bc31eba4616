//! Rules of hooks: mutate, validate and authorize of one type.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use mortise_plugin_host::{Call, Decision, HookError, MutateReply, Plugin, TypeDecl};
use mortise_resource::{
    Diagnostic, EncodedResource, Severity,
    authorizer::{AllowAll, Authorizer},
    pb,
};
use prost::Message as _;

use super::{
    findings::{Findings, Verdict},
    texts,
};

/// Checks the hooks of a type. `is_given` is true for a resource of the author's.
pub(super) async fn check(
    plugin: &Arc<Plugin>,
    decl: &TypeDecl,
    resource: &pb::Resource,
    is_given: bool,
    findings: &mut Findings,
) {
    let hooks = Hooks { plugin, decl };
    let subject = decl.gvk.to_string();
    let mut admitted = Some(resource.clone());
    if decl.hooks.mutate {
        admitted = hooks.mutate(resource, is_given, &subject, findings).await;
    }
    if decl.hooks.validate {
        hooks.validate(admitted.as_ref().unwrap_or(resource), &subject, findings).await;
    }
    if decl.hooks.authorize_read || decl.hooks.authorize_write || decl.hooks.authorize_list {
        let rule = "authorize asks for a permission, or denies";
        findings.add(&subject, rule, Verdict::of(hooks.unasked(resource).await));
    }
}

struct Hooks<'a> {
    plugin: &'a Arc<Plugin>,
    decl: &'a TypeDecl,
}

impl Hooks<'_> {
    fn call(&self) -> Call {
        Call::new(self.plugin.clone(), Arc::new(AllowAll))
    }

    /// Checks `mutate`. Returns the resource afterwards; `None` if it is refused or unusable.
    async fn mutate(
        &self,
        resource: &pb::Resource,
        is_given: bool,
        subject: &str,
        findings: &mut Findings,
    ) -> Option<pb::Resource> {
        let odd = self.trouble(resource, "mutate").await;
        findings.add(subject, "mutate ends without a fault for whatever a client may send", Verdict::of(odd));
        let rules = [
            "mutate changes data and metadata alone",
            "mutate changes nothing in its own answer",
            "mutate keeps fields that the descriptor does not have",
        ];
        let after = match mutated(&mut self.call(), resource).await {
            Ok(Mutated::Resource(after)) => *after,
            Ok(Mutated::Refused(why)) => {
                let remedy = if is_given { "give another one" } else { "give one that it accepts, by --resource" };
                let text = format!("it refuses the resource: {why}; {remedy}");
                rules.iter().for_each(|rule| findings.add(subject, rule, Verdict::LeftOut(text.clone())));
                return None;
            }
            Err(fault) => {
                rules.iter().for_each(|rule| findings.add(subject, rule, Verdict::Broken(fault.clone())));
                return None;
            }
        };
        let [reserved, idempotent, unknown] = rules;
        findings.add(subject, reserved, Verdict::of(changed_reserved(resource, &after)));
        let second = match mutated(&mut self.call(), &after).await {
            Ok(Mutated::Resource(again)) if *again == after => None,
            Ok(Mutated::Resource(_)) => Some("a second call changed the answer of the first".to_owned()),
            Ok(Mutated::Refused(why)) => Some(format!("a second call refused the answer of the first: {why}")),
            Err(fault) => Some(fault),
        };
        findings.add(subject, idempotent, Verdict::of(second));
        let lost = match mutated(&mut self.call(), &texts::with_unknown_field(resource)).await {
            Ok(Mutated::Resource(kept)) if texts::has_unknown_field(&kept) => None,
            Ok(Mutated::Resource(_)) => Some(
                "the answer lacks a field of the data that only a newer descriptor has; a newer client would lose it"
                    .into(),
            ),
            Ok(Mutated::Refused(why)) => Some(format!("it refuses such a resource: {why}")),
            Err(fault) => Some(fault),
        };
        findings.add(subject, unknown, Verdict::of(lost));
        Some(after)
    }

    async fn validate(&self, resource: &pb::Resource, subject: &str, findings: &mut Findings) {
        let odd = self.trouble(resource, "validate").await;
        findings.add(subject, "validate ends without a fault for whatever a client may send", Verdict::of(odd));
        let once = self.validated(resource).await;
        let differs = match (once, self.validated(resource).await) {
            (Ok(first), Ok(second)) if first == second => None,
            (Ok(_), Ok(_)) => Some("two calls with the same resource answered different diagnostics".to_owned()),
            (Err(fault), _) | (_, Err(fault)) => Some(fault),
        };
        findings.add(subject, "validate answers the same to the same resource", Verdict::of(differs));
    }

    async fn validated(&self, resource: &pb::Resource) -> Result<Vec<Diagnostic>, String> {
        let prior = Some(resource.encode_to_vec());
        self.call().validate(resource.encode_to_vec(), prior).await.map_err(|e| e.for_operators())
    }

    /// Calls a hook with odd resources; returns the first fault.
    async fn trouble(&self, resource: &pb::Resource, hook: &str) -> Option<String> {
        for (name, odd) in texts::odd(self.decl, resource) {
            let mut call = self.call();
            let answer = match hook {
                "mutate" => mutated(&mut call, &odd).await.map(drop),
                _ => call.validate(odd.encode_to_vec(), None).await.map(drop).map_err(|e| e.for_operators()),
            };
            if let Err(fault) = answer {
                return Some(format!("with {name}: {fault}"));
            }
        }
        None
    }

    /// Returns the hook that allows without having asked for a permission.
    async fn unasked(&self, resource: &pb::Resource) -> Option<String> {
        let id = resource.id.clone().unwrap_or_default();
        let hooks = [
            ("authorize-read", self.decl.hooks.authorize_read),
            ("authorize-write", self.decl.hooks.authorize_write),
            ("authorize-list", self.decl.hooks.authorize_list),
        ];
        for (hook, _) in hooks.into_iter().filter(|(_, exists)| *exists) {
            let powerless = Arc::new(Powerless::new());
            let mut call = Call::new(self.plugin.clone(), powerless.clone());
            let decided = match hook {
                "authorize-read" => self.decide_read(&mut call, &id, resource).await,
                "authorize-write" => call.authorize_write(resource.encode_to_vec()).await,
                _ => call.authorize_list(&self.decl.gvk.to_pb(), &id.tenancy.clone().unwrap_or_default()).await,
            };
            match decided {
                Err(fault) => return Some(fault.for_operators()),
                Ok(Decision::Allow) if powerless.asked.load(Ordering::Relaxed) == 0 => {
                    return Some(format!("{hook} allows a caller without any permission, and asked for none"));
                }
                Ok(Decision::Allow) => {
                    return Some(format!("{hook} allows a caller to whom every permission was denied"));
                }
                Ok(_) => {}
            }
        }
        None
    }

    async fn decide_read(&self, call: &mut Call, id: &pb::Id, resource: &pb::Resource) -> Result<Decision, HookError> {
        match call.authorize_read(id, None).await {
            Ok(Decision::NeedResource) => match EncodedResource::encode(resource) {
                Ok(encoded) => call.authorize_read(id, Some(&encoded)).await,
                Err(_) => Ok(Decision::NeedResource),
            },
            decided => decided,
        }
    }
}

/// Answer of `mutate` that the host can use.
enum Mutated {
    Resource(Box<pb::Resource>),
    /// Refused, with the first reason.
    Refused(String),
}

async fn mutated(call: &mut Call, resource: &pb::Resource) -> Result<Mutated, String> {
    match call.mutate(resource.encode_to_vec()).await.map_err(|e| e.for_operators())? {
        MutateReply::Unchanged => Ok(Mutated::Resource(Box::new(resource.clone()))),
        MutateReply::Refused(diagnostics) => {
            let first = diagnostics.into_iter().find(|diagnostic| diagnostic.severity() != Severity::Warning);
            Ok(Mutated::Refused(first.map(|diagnostic| diagnostic.summary).unwrap_or_default()))
        }
        MutateReply::Changed(bytes) => match pb::Resource::decode(bytes.as_slice()) {
            Ok(after) => Ok(Mutated::Resource(Box::new(after))),
            Err(fault) => Err(format!("its answer is not a resource: {fault}")),
        },
    }
}

/// Returns the first field of the host's that differs.
fn changed_reserved(before: &pb::Resource, after: &pb::Resource) -> Option<String> {
    let fields = [
        ("id", before.id == after.id),
        ("owner", before.owner == after.owner),
        ("version", before.version == after.version),
        ("generation", before.generation == after.generation),
        ("status", before.status == after.status),
    ];
    let changed = fields.into_iter().find(|(_, same)| !same);
    changed.map(|(field, _)| format!("its answer has another {field}"))
}

/// A caller without permissions, which counts the questions.
struct Powerless {
    /// Tells one such caller from the next, so that no remembered answer counts.
    number: u64,
    asked: AtomicUsize,
}

impl Powerless {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { number: NEXT.fetch_add(1, Ordering::Relaxed), asked: AtomicUsize::new(0) }
    }
}

impl Authorizer for Powerless {
    fn is_allowed(&self, _: &str, _: &str) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        false
    }

    fn caller(&self) -> &str {
        "a caller without permissions"
    }

    fn fingerprint(&self) -> u64 {
        self.number
    }
}
