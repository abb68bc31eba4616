//! One resource type: what it is called, what it holds, and which hooks it has.

use mortise_resource::{Scope, manifest, pb};
use prost::{Message, Name};

use crate::{
    Context, Decision, Diagnostics, Import, Kind, Move, Plan, Registered, Typed,
    dispatch::DispatchError,
    envelope::Envelope,
    hook_input::HookInput,
    kind::KindName,
    raw,
    registered::MadeResource,
    spec::{Permissions, Query, Regions, Spec, TypeName, describe_query, describe_regions, no_rule},
};

type Mutate<M> = fn(&mut Typed<M>) -> Result<(), Diagnostics>;
type Validate<M> = fn(&Typed<M>, Option<&Typed<M>>, &mut Diagnostics);
type Read<M> = fn(&pb::Id, Option<&Typed<M>>) -> Decision;
type Write<M> = fn(&Typed<M>) -> Decision;
type Upgrade<M> = fn(u32, &[u8]) -> Result<M, Diagnostics>;
type Plans<M> = fn(&Typed<M>, Option<&Typed<M>>, Option<&[u8]>, &mut Plan<M>);
type Moves<M> = fn(&pb::Resource, u32, Option<&[u8]>) -> Result<Move<M>, Diagnostics>;
type Imports<M> = fn(&Context<'_>, &str, &pb::Tenancy) -> Result<Import<M>, Diagnostics>;

/// What a rule that needs the content is called through: decodes, asks, and is compiled only for messages that have
/// such a rule.
type ReadThrough<M> = fn(Read<M>, &Spec, &pb::Id, Option<Envelope>) -> Decision;
type WriteThrough<M> = fn(Write<M>, &Spec, &mut HookInput) -> Decision;
type MutateThrough<M> = fn(Mutate<M>, &Spec, &[u8], &mut HookInput) -> Result<Option<Vec<u8>>, Diagnostics>;
type ValidateThrough<M> = fn(Validate<M>, &Spec, &mut HookInput, Option<Envelope>) -> Diagnostics;

type UpgradeThrough<M> = fn(Upgrade<M>, u32, &[u8]) -> Result<Vec<u8>, Diagnostics>;
type PlanThrough<M> = fn(Plans<M>, &Spec, &[u8], &mut HookInput, Option<Envelope>, Option<&[u8]>) -> raw::Plan;
type MoveThrough<M> = fn(Moves<M>, &Spec, &[u8], u32, Option<&[u8]>) -> MadeResource;
type ImportThrough<M> = fn(Imports<M>, &Spec, &Context<'_>, &str, pb::Tenancy) -> MadeResource;

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
    plan: Option<(Plans<M>, PlanThrough<M>)>,
    moves: Option<(Moves<M>, MoveThrough<M>)>,
    import: Option<(Imports<M>, ImportThrough<M>)>,
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
            moved_from: None,
            query: None,
            regions: None,
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

    /// Says beforehand what a write would come to: the resource, mutated and validated; what is stored under its name,
    /// if that is of this very type; and what the plugin's controllers keep for that one by [`Context::private_bytes`].
    /// Must depend on nothing but its arguments. The plugin then exports `planning`.
    ///
    /// A write does not ask: what must never be written in place is for [`Self::validate`] or [`Self::immutable`] to
    /// refuse.
    #[must_use]
    #[allow(clippy::type_complexity, reason = "authors read the hook's arguments here")]
    pub const fn plan(mut self, hook: fn(&Typed<M>, Option<&Typed<M>>, Option<&[u8]>, &mut Plan<M>)) -> Self {
        self.plan = Some((hook, plan));
        self
    }

    /// Resources of these types (group, version, kind), at most 16 and of the same scope, can become resources of this
    /// one: former names of it, above all. The hook is given the stored resource, its data in the message that it was
    /// stored in; the schema version of that; and what the plugin keeps for it. Must depend on nothing but its
    /// arguments. The plugin then exports `moving`.
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

    /// Describes something that exists outside, by what the outside calls it (1 to 1,024 bytes), as a resource in a
    /// tenancy. The plugin then exports `importing`.
    ///
    /// The hook has what was granted to the plugin: directories, secrets, HTTP and TCP, and time. Resources, the cache,
    /// values of the plugin's own and private bytes it has not. It must change nothing outside: it may be called to see
    /// what would come of it.
    #[must_use]
    pub const fn import(
        mut self,
        hook: fn(&Context<'_>, &str, &pb::Tenancy) -> Result<Import<M>, Diagnostics>,
    ) -> Self {
        self.import = Some((hook, import));
        self
    }

    /// Fields that an update may not change: names joined by dots, such as `spec.protocol`.
    #[must_use]
    pub const fn immutable(mut self, fields: &'static [&'static str]) -> Self {
        self.spec.immutable = fields;
        self
    }

    /// Fields of the message whose changes count in `meta.generation`: names joined by dots. Without any, all do.
    #[must_use]
    pub const fn spec_fields(mut self, spec: &'static [&'static str]) -> Self {
        self.spec.query = Some((Query { spec, ..self.spec.query() }, describe_query));
        self
    }

    /// What the views BASIC and DETAIL of a query show: paths such as `data.genre`. A view without any shows what the
    /// query's mask says.
    #[must_use]
    pub const fn views(mut self, basic: &'static [&'static str], detail: &'static [&'static str]) -> Self {
        self.spec.query = Some((Query { basic, detail, ..self.spec.query() }, describe_query));
        self
    }

    /// Fields that an index is kept of, at most 8: paths such as `data.genre`, to values that are no floats, messages or
    /// maps, or to lists of such. A query that requires values of one finds its resources by it.
    #[must_use]
    pub const fn indexed_fields(mut self, indexed: &'static [&'static str]) -> Self {
        self.spec.query = Some((Query { indexed, ..self.spec.query() }, describe_query));
        self
    }

    /// The text of the message that names the region which a resource belongs to, where its partition has a policy of
    /// regions: names joined by dots. It cannot be changed.
    #[must_use]
    pub const fn region_field(mut self, field: &'static str) -> Self {
        self.spec.regions = Some((Regions { field, ..self.spec.regions() }, describe_regions));
        self
    }

    /// Where copies of resources may be; without it, where the partition's policy says.
    #[must_use]
    pub const fn region_syncing(mut self, syncing: manifest::RegionSyncing) -> Self {
        self.spec.regions = Some((Regions { syncing, ..self.spec.regions() }, describe_regions));
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

    fn move_to(&self, source: &[u8], since: u32, kept: Option<&[u8]>) -> Option<MadeResource> {
        let (hook, through) = self.moves?;
        Some(through(hook, &self.spec, source, since, kept))
    }

    fn import(&self, ctx: &Context<'_>, external_id: &str, within: pb::Tenancy) -> Option<MadeResource> {
        let (hook, through) = self.import?;
        Some(through(hook, &self.spec, ctx, external_id, within))
    }
}

/// Behind a function that types without former names do not refer to.
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

/// What is stored, if it is of this very type and can be read.
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
) -> MadeResource {
    let source = pb::Resource::decode(source).map_err(DispatchError::Resource)?;
    Ok(hook(&source, since, kept)?.into_raw(source, spec.to_pb()))
}

fn import<M: Message + Name + Default + 'static>(
    hook: Imports<M>,
    spec: &Spec,
    ctx: &Context<'_>,
    external_id: &str,
    within: pb::Tenancy,
) -> MadeResource {
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
