//! A resource type: its name, its message, and its hooks.

use mortise_resource::{Scope, manifest, pb};
use prost::{Message, Name};

use crate::{
    AnyResourceType, Context, Decision, Diagnostics, Import, Kind, Move, Plan, Typed,
    dispatch::DispatchError,
    envelope::Envelope,
    hook_input::HookInput,
    kind::KindName,
    raw,
    registered::NewResourceResult,
    spec::{Permissions, Query, RegionSpec, Spec, TypeName, describe_query, describe_regions, no_rule},
};

type Mutate<M> = fn(&mut Typed<M>) -> Result<(), Diagnostics>;
type Validate<M> = fn(&Typed<M>, Option<&Typed<M>>, &mut Diagnostics);
type Read<M> = fn(&pb::Id, Option<&Typed<M>>) -> Decision;
type Write<M> = fn(&Typed<M>) -> Decision;
type Upgrade<M> = fn(u32, &[u8]) -> Result<M, Diagnostics>;
type Plans<M> = fn(&Typed<M>, Option<&Typed<M>>, Option<&[u8]>, &mut Plan<M>);
type Moves<M> = fn(&pb::Resource, u32, Option<&[u8]>) -> Result<Move<M>, Diagnostics>;
type Imports<M> = fn(&Context<'_>, &str, &pb::Tenancy) -> Result<Import<M>, Diagnostics>;

/// Function that calls a rule or hook: decodes its arguments, and is compiled only for messages that have such a rule.
type ReadThrough<M> = fn(Read<M>, &Spec, &pb::Id, Option<Envelope>) -> Decision;
type WriteThrough<M> = fn(Write<M>, &Spec, &mut HookInput) -> Decision;
type MutateThrough<M> = fn(Mutate<M>, &Spec, &[u8], &mut HookInput) -> Result<Option<Vec<u8>>, Diagnostics>;
type ValidateThrough<M> = fn(Validate<M>, &Spec, &mut HookInput, Option<Envelope>) -> Diagnostics;

type UpgradeThrough<M> = fn(Upgrade<M>, u32, &[u8]) -> Result<Vec<u8>, Diagnostics>;
type PlanThrough<M> = fn(Plans<M>, &Spec, &[u8], &mut HookInput, Option<Envelope>, Option<&[u8]>) -> raw::Plan;
type MoveThrough<M> = fn(Moves<M>, &Spec, &[u8], u32, Option<&[u8]>) -> NewResourceResult;
type ImportThrough<M> = fn(Imports<M>, &Spec, &Context<'_>, &str, pb::Tenancy) -> NewResourceResult;

/// A rule that needs the id alone, or one that wants the content.
enum Rule<T> {
    ById(fn(&pb::Id) -> Decision),
    ByContent(T),
}

/// A resource type whose data is an `M`. All of it can be written in a `static`.
///
/// A hook is kept with the function that decodes for it, so that a type without hooks costs next to no code.
pub struct ResourceType<M: 'static> {
    spec: Spec,
    mutate: Option<(Mutate<M>, MutateThrough<M>)>,
    validate: Option<(Validate<M>, ValidateThrough<M>)>,
    read: Option<Rule<(Read<M>, ReadThrough<M>)>>,
    write: Option<Rule<(Write<M>, WriteThrough<M>)>>,
    upgrade: Option<(Upgrade<M>, UpgradeThrough<M>)>,
    plan: Option<(Plans<M>, PlanThrough<M>)>,
    moves: Option<(Moves<M>, MoveThrough<M>)>,
    import: Option<(Imports<M>, ImportThrough<M>)>,
}

impl<M: Message + Name + Default + 'static> ResourceType<M> {
    /// Makes a type without hooks. The group is lower-case, the version is like `v1` or `v2beta1`, the kind is in
    /// CamelCase. [`Scope::Undefined`] leaves the scope to the option `hashicorp.consul.resource.spec` of the message.
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
            moved_from: None,
            query: None,
            regions: None,
            owners_anywhere: false,
        };
        Self {
            spec,
            mutate: None,
            validate: None,
            read: None,
            write: None,
            upgrade: None,
            plan: None,
            moves: None,
            import: None,
        }
    }

    /// Makes the type of that name, without hooks: for types that controllers name, too.
    #[must_use]
    pub const fn of(kind: Kind<M>, scope: Scope) -> Self {
        let KindName { group, group_version, kind } = kind.name();
        Self::new(group, group_version, kind, scope)
    }

    /// Sets the hook that fills in defaults and normalises input. It must be idempotent. An error refuses the request.
    #[must_use]
    pub const fn mutate(mut self, hook: fn(&mut Typed<M>) -> Result<(), Diagnostics>) -> Self {
        self.mutate = Some((hook, mutate));
        self
    }

    /// Sets the hook that checks a resource. Its second argument is the stored resource of the same name, if that is of
    /// this very type.
    #[must_use]
    pub const fn validate(mut self, hook: fn(&Typed<M>, Option<&Typed<M>>, &mut Diagnostics)) -> Self {
        self.validate = Some((hook, validate));
        self
    }

    /// Lets resources lack data; hooks then get the default message, and [`Typed::has_data`] is false.
    #[must_use]
    pub const fn optional_data(mut self) -> Self {
        self.spec.optional_data = true;
        self
    }

    /// Sets Consul's rules for all three questions: `key:read` and `key:write` on
    /// `resource/<group.version.Kind>/<name>`, `key:list` on `resource/<group.version.Kind>`.
    #[must_use]
    pub const fn key_rules(self) -> Self {
        const RESOURCE: &str = "resource/{group}.{group_version}.{kind}/{name}";
        self.permit_read("key:read", RESOURCE)
            .permit_write("key:write", RESOURCE)
            .permit_list("key:list", "resource/{group}.{group_version}.{kind}")
    }

    /// Requires this permission for reading, on a text in which `{group}`, `{group_version}`, `{kind}`, `{partition}`,
    /// `{namespace}` and `{name}` stand for parts of the id; empty for a permission without a name. The host checks it
    /// itself, for a hundredth of a rule's cost. A permission replaces a rule, and a rule a permission: the last call
    /// counts.
    #[must_use]
    pub const fn permit_read(mut self, permission: &'static str, on: &'static str) -> Self {
        self.spec.permissions.read = Some((permission, on));
        self.read = None;
        self
    }

    /// Requires this permission for writing; see [`Self::permit_read`].
    #[must_use]
    pub const fn permit_write(mut self, permission: &'static str, on: &'static str) -> Self {
        self.spec.permissions.write = Some((permission, on));
        self.write = None;
        self
    }

    /// Requires this permission for listing and watching; see [`Self::permit_read`]. A list has no `{name}`.
    #[must_use]
    pub const fn permit_list(mut self, permission: &'static str, on: &'static str) -> Self {
        self.spec.permissions.list = Some((permission, on));
        self.spec.list = None;
        self
    }

    /// Sets the rule for reading: asked with the id alone at first, and with the resource if it answers
    /// [`Decision::NeedResource`].
    #[must_use]
    pub const fn authorize_read(mut self, rule: fn(&pb::Id, Option<&Typed<M>>) -> Decision) -> Self {
        self.read = Some(Rule::ByContent((rule, read)));
        self.spec.permissions.read = None;
        self
    }

    /// Sets the rule for reading that needs the id alone.
    #[must_use]
    pub const fn authorize_read_by_id(mut self, rule: fn(&pb::Id) -> Decision) -> Self {
        self.read = Some(Rule::ById(rule));
        self.spec.permissions.read = None;
        self
    }

    /// Sets the rule for writing: asked with the incoming, mutated resource by Write, with the stored one by
    /// WriteStatus and Delete.
    #[must_use]
    pub const fn authorize_write(mut self, rule: fn(&Typed<M>) -> Decision) -> Self {
        self.write = Some(Rule::ByContent((rule, write)));
        self.spec.permissions.write = None;
        self
    }

    /// Sets the rule for writing that needs the id alone.
    #[must_use]
    pub const fn authorize_write_by_id(mut self, rule: fn(&pb::Id) -> Decision) -> Self {
        self.write = Some(Rule::ById(rule));
        self.spec.permissions.write = None;
        self
    }

    /// Sets the rule for listing and watching; the read rule decides about each resource besides.
    #[must_use]
    pub const fn authorize_list(mut self, rule: fn(&pb::Type, &pb::Tenancy) -> Decision) -> Self {
        self.spec.list = Some(rule);
        self.spec.permissions.list = None;
        self
    }

    /// Sets the upgrade of stored data from an older schema version, the first argument, to [`Self::schema_version`];
    /// the plugin then exports `upgrading`. It must depend on its arguments alone.
    #[must_use]
    pub const fn upgrade(mut self, upgrade: fn(u32, &[u8]) -> Result<M, Diagnostics>) -> Self {
        self.upgrade = Some((upgrade, encode_upgraded));
        self
    }

    /// Sets the version of the stored data's meaning, from 1; it grows by one with every change of the meaning. See
    /// [`Self::upgrade`].
    #[must_use]
    pub const fn schema_version(mut self, version: u32) -> Self {
        self.spec.schema_version = version;
        self
    }

    /// Sets the hook that predicts the result of a write. It gets the resource, mutated and validated; the stored
    /// resource of its name, if that is of this very type; and the private bytes of the stored one
    /// ([`Context::private_bytes`]). It must depend on its arguments alone. The plugin then exports `planning`.
    ///
    /// A write does not call it: [`Self::validate`] or [`Self::immutable`] must refuse changes that are not allowed in
    /// place.
    #[must_use]
    #[allow(clippy::type_complexity, reason = "authors read the hook's arguments here")]
    pub const fn plan(mut self, hook: fn(&Typed<M>, Option<&Typed<M>>, Option<&[u8]>, &mut Plan<M>)) -> Self {
        self.plan = Some((hook, plan));
        self
    }

    /// Sets the types (group, version, kind) whose resources can become resources of this one, at most 16 and of the
    /// same scope: above all, former names of it. The hook gets the stored resource, its data in the message that it
    /// was stored in; the schema version of that; and its private bytes. It must depend on its arguments alone. The
    /// plugin then exports `moving`.
    #[must_use]
    #[allow(clippy::type_complexity, reason = "authors read the hook's arguments here")]
    pub const fn moves_from(
        mut self,
        types: &'static [(&'static str, &'static str, &'static str)],
        hook: fn(&pb::Resource, u32, Option<&[u8]>) -> Result<Move<M>, Diagnostics>,
    ) -> Self {
        self.spec.moved_from = Some((types, encode_type_names));
        self.moves = Some((hook, move_to));
        self
    }

    /// Sets the hook that describes an external object, by its external id (1 to 1,024 bytes), as a resource in a
    /// tenancy. The plugin then exports `importing`.
    ///
    /// The hook can use granted directories, secrets, HTTP and TCP, and time. It cannot use resources, the cache, the
    /// plugin's own values and private bytes. It must change nothing outside: it may be called for a preview.
    #[must_use]
    pub const fn import(
        mut self,
        hook: fn(&Context<'_>, &str, &pb::Tenancy) -> Result<Import<M>, Diagnostics>,
    ) -> Self {
        self.import = Some((hook, import));
        self
    }

    /// Sets the fields that an update may not change: names joined by dots, such as `spec.protocol`.
    #[must_use]
    pub const fn immutable(mut self, fields: &'static [&'static str]) -> Self {
        self.spec.immutable = fields;
        self
    }

    /// Sets the fields of the message whose changes raise `meta.generation`: names joined by dots. If there are none,
    /// all do.
    #[must_use]
    pub const fn spec_fields(mut self, spec: &'static [&'static str]) -> Self {
        self.spec.query = Some((Query { spec, ..self.spec.query() }, describe_query));
        self
    }

    /// Sets the paths that the views BASIC and DETAIL of a query show, such as `data.genre`. A view without paths shows
    /// the fields of the query's mask.
    #[must_use]
    pub const fn views(mut self, basic: &'static [&'static str], detail: &'static [&'static str]) -> Self {
        self.spec.query = Some((Query { basic, detail, ..self.spec.query() }, describe_query));
        self
    }

    /// Sets the fields with an index, at most 8: paths such as `data.genre`, to values that are not floats, messages or
    /// maps, or to lists of values. A query that requires values of one finds its resources by the index.
    #[must_use]
    pub const fn indexed_fields(mut self, indexed: &'static [&'static str]) -> Self {
        self.spec.query = Some((Query { indexed, ..self.spec.query() }, describe_query));
        self
    }

    /// Sets the field that names a resource's region, where its partition has a policy of regions: names joined by
    /// dots, to a string. Only the owner changes it, to give the resource to another region.
    #[must_use]
    pub const fn region_field(mut self, field: &'static str) -> Self {
        self.spec.regions = Some((RegionSpec { field, ..self.spec.regions() }, describe_regions));
        self
    }

    /// Sets the regions that may have replicas of resources; the default is the partition's policy.
    #[must_use]
    pub const fn region_syncing(mut self, syncing: manifest::RegionSyncing) -> Self {
        self.spec.regions = Some((RegionSpec { syncing, ..self.spec.regions() }, describe_regions));
        self
    }

    /// Lets entries of `meta.owner_references` name owners in other namespaces and partitions.
    #[must_use]
    pub const fn owners_anywhere(mut self) -> Self {
        self.spec.owners_anywhere = true;
        self
    }

    /// Sets columns for tables of resources: heading, and a path such as `data.genre`.
    #[must_use]
    pub const fn columns(mut self, columns: &'static [(&'static str, &'static str)]) -> Self {
        self.spec.columns = columns;
        self
    }

    /// Sets short names for command lines, lower-case.
    #[must_use]
    pub const fn short_names(mut self, names: &'static [&'static str]) -> Self {
        self.spec.short_names = names;
        self
    }
}

impl<M: 'static> AnyResourceType for ResourceType<M> {
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
            plan: self.plan.is_some(),
            import: self.import.is_some(),
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

    fn plan(&self, input: &[u8], resource: &mut HookInput, prior: Option<Envelope>, kept: Option<&[u8]>) -> raw::Plan {
        let Some((hook, through)) = self.plan else { return raw::Plan::default() };
        through(hook, &self.spec, input, resource, prior, kept)
    }

    fn move_to(&self, source: &[u8], since: u32, kept: Option<&[u8]>) -> Option<NewResourceResult> {
        let (hook, through) = self.moves?;
        Some(through(hook, &self.spec, source, since, kept))
    }

    fn import(&self, ctx: &Context<'_>, external_id: &str, within: pb::Tenancy) -> Option<NewResourceResult> {
        let (hook, through) = self.import?;
        Some(through(hook, &self.spec, ctx, external_id, within))
    }
}

/// Encodes names of types, behind a function that types without former names do not refer to.
fn encode_type_names(types: &[TypeName]) -> Vec<Vec<u8>> {
    let encode =
        |&(group, group_version, kind): &TypeName| KindName { group, group_version, kind }.describe().encode_to_vec();
    types.iter().map(encode).collect()
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
    let prior = of_this_type(spec, prior);
    let mut diagnostics = Diagnostics::new();
    hook(typed, prior.as_ref(), &mut diagnostics);
    diagnostics
}

/// The stored resource, if it is of this very type and can be read.
fn of_this_type<M: Message + Name + Default>(spec: &Spec, prior: Option<Envelope>) -> Option<Typed<M>> {
    let prior = prior.filter(|prior| prior.of().is_some_and(|of| spec.is(of)))?;
    Typed::decode(prior, spec.optional_data).ok()
}

fn plan<M: Message + Name + Default + 'static>(
    hook: Plans<M>,
    spec: &Spec,
    input: &[u8],
    resource: &mut HookInput,
    prior: Option<Envelope>,
    kept: Option<&[u8]>,
) -> raw::Plan {
    let prior = of_this_type(spec, prior);
    Plan::of(input, resource, spec.optional_data, |typed, plan| hook(typed, prior.as_ref(), kept, plan))
}

fn move_to<M: Message + Name + Default + 'static>(
    hook: Moves<M>,
    spec: &Spec,
    source: &[u8],
    since: u32,
    kept: Option<&[u8]>,
) -> NewResourceResult {
    let source = pb::Resource::decode(source).map_err(DispatchError::Resource)?;
    Ok(hook(&source, since, kept)?.into_raw(source, spec.to_pb()))
}

fn import<M: Message + Name + Default + 'static>(
    hook: Imports<M>,
    spec: &Spec,
    ctx: &Context<'_>,
    external_id: &str,
    within: pb::Tenancy,
) -> NewResourceResult {
    Ok(hook(ctx, external_id, &within)?.into_raw(spec.to_pb(), within))
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

/// A rule that judges content cannot judge content that it cannot read.
fn unreadable(diagnostics: &Diagnostics) -> Decision {
    Decision::Deny(diagnostics.iter().map(|one| one.summary.clone()).collect())
}
