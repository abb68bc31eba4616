//! One resource type: what it is called, what it holds, and which hooks it has.

use mortise_resource::{Scope, manifest, pb};
use prost::{Message, Name};

use crate::{Decision, Diagnostics, Kind, Typed, envelope::Envelope, hook_input::HookInput, kind::KindName};

type Mutate<M> = fn(&mut Typed<M>) -> Result<(), Diagnostics>;
type Validate<M> = fn(&Typed<M>, Option<&Typed<M>>, &mut Diagnostics);
type Read<M> = fn(&pb::Id, Option<&Typed<M>>) -> Decision;
type Write<M> = fn(&Typed<M>) -> Decision;
type Upgrade<M> = fn(u32, &[u8]) -> Result<M, Diagnostics>;
type List = fn(&pb::Type, &pb::Tenancy) -> Decision;

/// What a rule that needs the content is called through: decodes, asks, and is compiled only for messages that have
/// such a rule.
type ReadThrough<M> = fn(Read<M>, &Spec, &pb::Id, Option<Envelope>) -> Decision;
type WriteThrough<M> = fn(Write<M>, &Spec, &mut HookInput) -> Decision;
type MutateThrough<M> = fn(Mutate<M>, &Spec, &[u8], &mut HookInput) -> Result<Option<Vec<u8>>, Diagnostics>;
type ValidateThrough<M> = fn(Validate<M>, &Spec, &mut HookInput, Option<Envelope>) -> Diagnostics;

type UpgradeThrough<M> = fn(Upgrade<M>, u32, &[u8]) -> Result<Vec<u8>, Diagnostics>;

/// What the host asks for by itself: a permission, and on what.
type Permission = (&'static str, &'static str);

/// The three questions, where the host answers them.
#[derive(Clone, Copy)]
struct Permissions {
    read: Option<Permission>,
    write: Option<Permission>,
    list: Option<Permission>,
}

/// A rule that needs the id alone, or one that wants the content.
enum Rule<T> {
    ById(fn(&pb::Id) -> Decision),
    ByContent(T),
}

/// A resource type whose data is an `M`. Everything here can be said in a `static`.
///
/// A hook is kept with the function that decodes for it, so that a type without hooks costs next to no code.
pub struct ResourceType<M: 'static> {
    spec: Spec,
    mutate: Option<(Mutate<M>, MutateThrough<M>)>,
    validate: Option<(Validate<M>, ValidateThrough<M>)>,
    read: Option<Rule<(Read<M>, ReadThrough<M>)>>,
    write: Option<Rule<(Write<M>, WriteThrough<M>)>>,
    upgrade: Option<(Upgrade<M>, UpgradeThrough<M>)>,
}

/// What can be said of a type whatever its message.
#[doc(hidden)]
pub struct Spec {
    group: &'static str,
    group_version: &'static str,
    kind: &'static str,
    scope: Scope,
    message: fn() -> String,
    schema_version: u32,
    optional_data: bool,
    list: Option<List>,
    permissions: Permissions,
    immutable: &'static [&'static str],
    columns: &'static [(&'static str, &'static str)],
    short_names: &'static [&'static str],
}

impl<M: Message + Name + Default + 'static> ResourceType<M> {
    /// A type without hooks. The group is lower-case, the version is like `v1` or `v2beta1`, the kind is in CamelCase.
    #[must_use]
    pub const fn new(group: &'static str, group_version: &'static str, kind: &'static str, scope: Scope) -> Self {
        let spec = Spec {
            group,
            group_version,
            kind,
            scope,
            message: M::full_name,
            schema_version: 1,
            optional_data: false,
            list: None,
            permissions: Permissions { read: None, write: None, list: None },
            immutable: &[],
            columns: &[],
            short_names: &[],
        };
        Self { spec, mutate: None, validate: None, read: None, write: None, upgrade: None }
    }

    /// The type of that name, without hooks: for types that controllers name, too.
    #[must_use]
    pub const fn of(kind: Kind<M>, scope: Scope) -> Self {
        let KindName { group, group_version, kind } = kind.name();
        Self::new(group, group_version, kind, scope)
    }

    /// Fills in defaults, brings input into one form. Must be idempotent. An error refuses the request.
    #[must_use]
    pub const fn mutate(mut self, hook: fn(&mut Typed<M>) -> Result<(), Diagnostics>) -> Self {
        self.mutate = Some((hook, mutate));
        self
    }

    /// Judges a resource. The second argument is what is stored under its name, if that is of this very type.
    #[must_use]
    pub const fn validate(mut self, hook: fn(&Typed<M>, Option<&Typed<M>>, &mut Diagnostics)) -> Self {
        self.validate = Some((hook, validate));
        self
    }

    /// Resources may lack data; hooks then see the default message, and [`Typed::has_data`] tells.
    #[must_use]
    pub const fn optional_data(mut self) -> Self {
        self.spec.optional_data = true;
        self
    }

    /// Consul's rules for all three questions: `key:read` and `key:write` on
    /// `resource/<group.version.Kind>/<name>`, `key:list` on `resource/<group.version.Kind>`.
    #[must_use]
    pub const fn key_rules(self) -> Self {
        const RESOURCE: &str = "resource/{group}.{group_version}.{kind}/{name}";
        self.permit_read("key:read", RESOURCE)
            .permit_write("key:write", RESOURCE)
            .permit_list("key:list", "resource/{group}.{group_version}.{kind}")
    }

    /// Who has this permission may read. `on` says on what: a text in which `{group}`, `{group_version}`, `{kind}`,
    /// `{partition}`, `{namespace}` and `{name}` stand for parts of the id; empty for a permission on nothing in
    /// particular. The host judges this by itself, for a hundredth of what a rule costs. Takes the place of a rule, and
    /// the other way round: the last one said counts.
    #[must_use]
    pub const fn permit_read(mut self, permission: &'static str, on: &'static str) -> Self {
        self.spec.permissions.read = Some((permission, on));
        self.read = None;
        self
    }

    /// Who has this permission may write; see [`Self::permit_read`].
    #[must_use]
    pub const fn permit_write(mut self, permission: &'static str, on: &'static str) -> Self {
        self.spec.permissions.write = Some((permission, on));
        self.write = None;
        self
    }

    /// Who has this permission may list and watch; see [`Self::permit_read`]. A list has no `{name}`.
    #[must_use]
    pub const fn permit_list(mut self, permission: &'static str, on: &'static str) -> Self {
        self.spec.permissions.list = Some((permission, on));
        self.spec.list = None;
        self
    }

    /// Who may read: asked with the id alone at first, and with the resource if it answers
    /// [`Decision::NeedResource`].
    #[must_use]
    pub const fn authorize_read(mut self, rule: fn(&pb::Id, Option<&Typed<M>>) -> Decision) -> Self {
        self.read = Some(Rule::ByContent((rule, read)));
        self.spec.permissions.read = None;
        self
    }

    /// Who may read, whatever the resource holds.
    #[must_use]
    pub const fn authorize_read_by_id(mut self, rule: fn(&pb::Id) -> Decision) -> Self {
        self.read = Some(Rule::ById(rule));
        self.spec.permissions.read = None;
        self
    }

    /// Who may write: asked with the incoming, mutated resource by Write, with the stored one by WriteStatus and
    /// Delete.
    #[must_use]
    pub const fn authorize_write(mut self, rule: fn(&Typed<M>) -> Decision) -> Self {
        self.write = Some(Rule::ByContent((rule, write)));
        self.spec.permissions.write = None;
        self
    }

    /// Who may write, whatever the resource holds.
    #[must_use]
    pub const fn authorize_write_by_id(mut self, rule: fn(&pb::Id) -> Decision) -> Self {
        self.write = Some(Rule::ById(rule));
        self.spec.permissions.write = None;
        self
    }

    /// Who may list or watch; each resource is judged by the read rule besides.
    #[must_use]
    pub const fn authorize_list(mut self, rule: fn(&pb::Type, &pb::Tenancy) -> Decision) -> Self {
        self.spec.list = Some(rule);
        self.spec.permissions.list = None;
        self
    }

    /// Brings stored data of an older schema version, which comes first, to the one that [`Self::schema_version`] says;
    /// the plugin then exports `upgrading`. Must depend on nothing but its arguments.
    #[must_use]
    pub const fn upgrade(mut self, upgrade: fn(u32, &[u8]) -> Result<M, Diagnostics>) -> Self {
        self.upgrade = Some((upgrade, encode_upgraded));
        self
    }

    /// Version of the stored data's meaning, from 1; grows by one with every change of it. See [`Self::upgrade`].
    #[must_use]
    pub const fn schema_version(mut self, version: u32) -> Self {
        self.spec.schema_version = version;
        self
    }

    /// Fields that an update may not change: names joined by dots, such as `spec.protocol`.
    #[must_use]
    pub const fn immutable(mut self, fields: &'static [&'static str]) -> Self {
        self.spec.immutable = fields;
        self
    }

    /// Columns for tables of resources: heading, and a path such as `data.genre`.
    #[must_use]
    pub const fn columns(mut self, columns: &'static [(&'static str, &'static str)]) -> Self {
        self.spec.columns = columns;
        self
    }

    /// Other names for command lines, lower-case.
    #[must_use]
    pub const fn short_names(mut self, names: &'static [&'static str]) -> Self {
        self.spec.short_names = names;
        self
    }
}

/// A [`ResourceType`] whatever its message: what a [`crate::Plugin`]'s table holds.
#[doc(hidden)]
pub trait Registered: Sync {
    fn spec(&self) -> &Spec;
    fn hooks(&self) -> manifest::Hooks;
    fn mutate(&self, input: &[u8], resource: &mut HookInput) -> Result<Option<Vec<u8>>, Diagnostics>;
    fn validate(&self, resource: &mut HookInput, prior: Option<Envelope>) -> Diagnostics;
    fn read(&self, id: &pb::Id, stored: Option<Envelope>) -> Decision;
    fn write(&self, resource: &mut HookInput) -> Decision;
    fn upgrade(&self, since: u32, data: &[u8]) -> Result<Vec<u8>, Diagnostics>;
}

impl Permissions {
    fn describe(self) -> Option<manifest::Permissions> {
        let one = |(permission, on): Permission| manifest::Permission { permission: permission.into(), on: on.into() };
        let Self { read, write, list } = self;
        let any = read.or(write).or(list).is_some();
        any.then(|| manifest::Permissions { read: read.map(one), write: write.map(one), list: list.map(one) })
    }
}

impl Spec {
    /// Whether `of` names this type.
    pub(crate) fn is(&self, of: &pb::Type) -> bool {
        of.group == self.group && of.group_version == self.group_version && of.kind == self.kind
    }

    /// The type's entry in the manifest.
    pub(crate) fn describe(&self, hooks: manifest::Hooks) -> manifest::ResourceType {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let scope = match self.scope {
            Scope::Undefined => manifest::Scope::Unspecified,
            Scope::Cluster => manifest::Scope::Cluster,
            Scope::Partition => manifest::Scope::Partition,
            Scope::Namespace => manifest::Scope::Namespace,
        };
        let column = |&(name, path): &(&str, &str)| manifest::PrinterColumn { name: name.into(), path: path.into() };
        manifest::ResourceType {
            group: self.group.to_owned(),
            group_version: self.group_version.to_owned(),
            kind: self.kind.to_owned(),
            scope: scope.into(),
            message: (self.message)(),
            schema_version: self.schema_version,
            hooks: Some(hooks),
            immutable_fields: owned(self.immutable),
            printer_columns: self.columns.iter().map(column).collect(),
            short_names: owned(self.short_names),
            permissions: self.permissions.describe(),
        }
    }

    /// Asks the list rule.
    pub(crate) fn list(&self, of: &pb::Type, tenancy: &pb::Tenancy) -> Decision {
        self.list.map_or_else(no_rule, |rule| rule(of, tenancy))
    }
}

impl<M: 'static> Registered for ResourceType<M> {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn hooks(&self) -> manifest::Hooks {
        manifest::Hooks {
            mutate: self.mutate.is_some(),
            validate: self.validate.is_some(),
            authorize_read: self.read.is_some(),
            authorize_write: self.write.is_some(),
            authorize_list: self.spec.list.is_some(),
        }
    }

    fn mutate(&self, input: &[u8], resource: &mut HookInput) -> Result<Option<Vec<u8>>, Diagnostics> {
        self.mutate.map_or(Ok(None), |(hook, through)| through(hook, &self.spec, input, resource))
    }

    fn validate(&self, resource: &mut HookInput, prior: Option<Envelope>) -> Diagnostics {
        self.validate.map_or_else(Diagnostics::new, |(hook, through)| through(hook, &self.spec, resource, prior))
    }

    fn read(&self, id: &pb::Id, stored: Option<Envelope>) -> Decision {
        match &self.read {
            None => no_rule(),
            Some(Rule::ById(rule)) => rule(id),
            Some(Rule::ByContent((rule, through))) => through(*rule, &self.spec, id, stored),
        }
    }

    fn write(&self, resource: &mut HookInput) -> Decision {
        match &self.write {
            None => no_rule(),
            Some(Rule::ById(rule)) => rule(&resource.id::<M>()),
            Some(Rule::ByContent((rule, through))) => through(*rule, &self.spec, resource),
        }
    }

    fn upgrade(&self, since: u32, data: &[u8]) -> Result<Vec<u8>, Diagnostics> {
        let Some((upgrade, through)) = self.upgrade else {
            return Err(Diagnostics::refusal(format!("the type has no upgrade from schema version {since}")));
        };
        through(upgrade, since, data)
    }
}

fn encode_upgraded<M: Message>(upgrade: Upgrade<M>, since: u32, data: &[u8]) -> Result<Vec<u8>, Diagnostics> {
    upgrade(since, data).map(|message| message.encode_to_vec())
}

fn mutate<M: Message + Name + Default + 'static>(
    hook: Mutate<M>,
    spec: &Spec,
    input: &[u8],
    resource: &mut HookInput,
) -> Result<Option<Vec<u8>>, Diagnostics> {
    resource.typed(spec.optional_data)?.changed(input, hook)
}

fn validate<M: Message + Name + Default + 'static>(
    hook: Validate<M>,
    spec: &Spec,
    resource: &mut HookInput,
    prior: Option<Envelope>,
) -> Diagnostics {
    let typed = match resource.typed(spec.optional_data) {
        Ok(typed) => typed,
        Err(diagnostics) => return diagnostics,
    };
    let prior = prior
        .filter(|prior| prior.of().is_some_and(|of| spec.is(of)))
        .and_then(|prior| Typed::decode(prior, spec.optional_data).ok());
    let mut diagnostics = Diagnostics::new();
    hook(typed, prior.as_ref(), &mut diagnostics);
    diagnostics
}

fn read<M: Message + Name + Default>(rule: Read<M>, spec: &Spec, id: &pb::Id, stored: Option<Envelope>) -> Decision {
    match stored.map(|stored| Typed::decode(stored, spec.optional_data)).transpose() {
        Ok(typed) => rule(id, typed.as_ref()),
        Err(diagnostics) => unreadable(&diagnostics),
    }
}

fn write<M: Message + Name + Default + 'static>(rule: Write<M>, spec: &Spec, resource: &mut HookInput) -> Decision {
    match resource.typed(spec.optional_data) {
        Ok(typed) => rule(typed),
        Err(diagnostics) => unreadable(&diagnostics),
    }
}

/// The host does not ask a type for a rule that its manifest does not claim.
fn no_rule() -> Decision {
    Decision::Deny("the type has no such rule".to_owned())
}

/// A rule that judges content cannot judge content that it cannot read.
fn unreadable(diagnostics: &Diagnostics) -> Decision {
    Decision::Deny(diagnostics.iter().map(|one| one.summary.clone()).collect())
}
