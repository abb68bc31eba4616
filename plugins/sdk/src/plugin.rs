//! The plugin's table of types, and the dispatch of host calls to their hooks.

use mortise_resource::{manifest, pb, types::gvk};
use prost::Message;

use crate::{
    AnyResourceType, Context, Decision, Diagnostics, Error, Function, FunctionFault, Outcome,
    controller::AnyController, dispatch::DispatchError, envelope::Envelope, function::FunctionTable,
    hook_input::HookInput, host::AnyHost, raw, spec::TypeEntry, watch::changed,
};

/// A plugin: its name, its version, its types, its controllers, its functions.
pub struct Plugin {
    name: &'static str,
    version: &'static str,
    descriptors: &'static [u8],
    types: &'static [&'static dyn AnyResourceType],
    capabilities: &'static [&'static str],
    limits: Option<manifest::Limits>,
    settings: Option<fn(&str, &mut Diagnostics)>,
    controllers: &'static [&'static dyn AnyController],
    requests: Option<&'static [GrantRequest]>,
    functions: Option<FunctionTable>,
    areas: &'static [&'static str],
    has_pure_hooks: bool,
}

/// A request to the operator for a grant. See [`Plugin::requests`].
#[derive(Debug, Clone, Copy)]
pub struct GrantRequest {
    wants: Wants,
    reason: &'static str,
}

#[derive(Debug, Clone, Copy)]
enum Wants {
    Directory(&'static str),
    Secret(&'static str),
    Http(&'static str),
    Tcp(&'static str),
    Read(&'static str),
    Write(&'static str),
}

impl GrantRequest {
    /// Requests a directory, by its name for [`crate::Context::files`].
    #[must_use]
    pub const fn directory(name: &'static str, reason: &'static str) -> Self {
        Self { wants: Wants::Directory(name), reason }
    }

    /// Requests a secret, by its name for [`crate::Context::secret`].
    #[must_use]
    pub const fn secret(name: &'static str, reason: &'static str) -> Self {
        Self { wants: Wants::Secret(name), reason }
    }

    /// Requests hosts for [`crate::Context::http`], written as in config.toml: `api.example.org:8443`, `*.example.net`.
    /// `*` is https to any host and `http://*` plain http, for a plugin whose operator alone knows the hosts: it may
    /// use the granted ones.
    #[must_use]
    pub const fn http(hosts: &'static str, reason: &'static str) -> Self {
        Self { wants: Wants::Http(hosts), reason }
    }

    /// Requests hosts and ports for [`crate::Context::tcp`], written as in config.toml: `db.internal:5432`,
    /// `*.example.net:5432`. `*` is any port of any host: the plugin may use the granted ones.
    #[must_use]
    pub const fn tcp(hosts: &'static str, reason: &'static str) -> Self {
        Self { wants: Wants::Tcp(hosts), reason }
    }

    /// Requests to read types of other plugins: `demo.v2.Artist`, `demo.v2.*`. Types that a controller watches need no
    /// request.
    #[must_use]
    pub const fn read(types: &'static str, reason: &'static str) -> Self {
        Self { wants: Wants::Read(types), reason }
    }

    /// Requests to write, delete and read types of other plugins.
    #[must_use]
    pub const fn write(types: &'static str, reason: &'static str) -> Self {
        Self { wants: Wants::Write(types), reason }
    }

    fn to_wire(self) -> manifest::GrantRequest {
        use manifest::grant_request::Wants as Wire;
        let wants = match self.wants {
            Wants::Directory(name) => Wire::Directory(name.to_owned()),
            Wants::Secret(name) => Wire::Secret(name.to_owned()),
            Wants::Http(hosts) => Wire::Http(hosts.to_owned()),
            Wants::Tcp(hosts) => Wire::Tcp(hosts.to_owned()),
            Wants::Read(types) => Wire::Read(types.to_owned()),
            Wants::Write(types) => Wire::Write(types.to_owned()),
        };
        manifest::GrantRequest { wants: Some(wants), reason: self.reason.to_owned() }
    }
}

impl Plugin {
    /// Makes a plugin. The name is lower-case letters, digits and dashes; the version is semantic; the descriptors are
    /// a serialised `FileDescriptorSet` of every message that the types use.
    #[must_use]
    pub const fn new(
        name: &'static str,
        version: &'static str,
        descriptors: &'static [u8],
        types: &'static [&'static dyn AnyResourceType],
    ) -> Self {
        Self {
            name,
            version,
            descriptors,
            types,
            capabilities: &[],
            limits: None,
            settings: None,
            controllers: &[],
            requests: None,
            functions: None,
            areas: &[],
            has_pure_hooks: false,
        }
    }

    /// Sets the host capabilities that the plugin needs. `authorizer` is added if a type has a rule.
    #[must_use]
    pub const fn capabilities(mut self, names: &'static [&'static str]) -> Self {
        self.capabilities = names;
        self
    }

    /// Sets limits of the plugin, which can only be lower than the host's. Zero means the host's.
    #[must_use]
    pub const fn limits(mut self, limits: manifest::Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Sets a check of the plugin's settings (see [`crate::settings()`]) before it serves; it gets the text of one JSON
    /// object. An error at `setting("colour")` keeps the plugin from being loaded, and names the setting to the
    /// operator. Needs `configuring` among the interfaces of [`crate::export!`]; a plugin without a check accepts any
    /// settings.
    #[must_use]
    pub const fn check_settings(mut self, check: fn(&str, &mut Diagnostics)) -> Self {
        self.settings = Some(check);
        self
    }

    /// Sets the struct of the plugin's settings (see [`crate::settings_as`]) instead of a check of their text. An unknown
    /// key, a missing one, a value of another type and an error of [`crate::Settings::check`] keep the plugin from being
    /// loaded. Needs `configuring` among the interfaces of [`crate::export!`]. A setting that [`Controller::only_if`]
    /// names is a field of it, too.
    ///
    /// [`Controller::only_if`]: crate::Controller::only_if
    #[cfg(any(feature = "serde", all(test, not(target_arch = "wasm32"))))]
    #[must_use]
    pub const fn settings_as<T: crate::Settings>(self) -> Self {
        self.check_settings(crate::settings::check::<T>)
    }

    /// Sets the controllers: a table of [`crate::Controller`]s. Needs `controlling` among the interfaces of
    /// [`crate::export!`].
    #[must_use]
    pub const fn controllers(mut self, controllers: &'static [&'static dyn AnyController]) -> Self {
        self.controllers = controllers;
        self
    }

    /// Sets the requests for grants beyond the plugin's own types, with reasons, which the operator is shown. A plugin
    /// with requests gets what is both requested and granted; one without gets everything that is granted.
    #[must_use]
    pub const fn requests(mut self, requests: &'static [GrantRequest]) -> Self {
        self.requests = Some(requests);
        self
    }

    /// Sets the functions that can be called by name, at most 256. Needs `functions` among the interfaces of
    /// [`crate::export!`].
    #[must_use]
    pub const fn functions(mut self, functions: &'static [Function]) -> Self {
        self.functions = Some(FunctionTable::new(functions));
        self
    }

    /// Sets the areas of the plugin's own in permissions that its hooks ask about: `song` for `song:read`. Policies may
    /// use them; the server refuses a rule with an area that no plugin declares, apart from Consul's.
    #[must_use]
    pub const fn areas(mut self, areas: &'static [&'static str]) -> Self {
        self.areas = areas;
        self
    }

    /// Declares `mutate`, `validate`, `plan` and functions pure: their answers depend on their arguments and on what
    /// they search, and not on earlier calls. So no static keeps anything of a call that a later one shows. If the
    /// operator grants it (`instances = "reuse"`), an instance then serves several requests of a caller in a namespace,
    /// which spares large guests the cost of a fresh one. `mortise plugin test --reuse` looks for hooks that are not
    /// pure.
    #[must_use]
    pub const fn pure_hooks(mut self) -> Self {
        self.has_pure_hooks = true;
        self
    }

    /// Encodes the manifest.
    #[must_use]
    pub fn describe(&self) -> Vec<u8> {
        const AUTHORIZER: &str = "authorizer";
        let types = self.types.iter().map(|one| one.spec().describe(one.hooks())).collect::<Vec<_>>();
        let mut capabilities = self.capabilities.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let rules = |hooks: &manifest::Hooks| hooks.authorize_read || hooks.authorize_write || hooks.authorize_list;
        if types.iter().any(|one| one.hooks.as_ref().is_some_and(rules))
            && !capabilities.iter().any(|n| n == AUTHORIZER)
        {
            capabilities.push(AUTHORIZER.to_owned());
        }
        let manifest = Manifest {
            name: self.name.to_owned(),
            version: self.version.to_owned(),
            descriptors: self.descriptors.to_vec(),
            types,
            capabilities,
            limits: self.limits,
        };
        let mut bytes = manifest.encode_to_vec();
        // Appended behind the rest, which is the same on the wire: so their encoding is compiled only into plugins that
        // have some.
        for controller in self.controllers {
            controller.describe(&mut bytes);
        }
        if let Some(requests) = self.requests {
            let requests = requests.iter().map(|request| request.to_wire()).collect();
            prost::encoding::message::encode(REQUESTS, &manifest::GrantRequests { requests }, &mut bytes);
        }
        if let Some(functions) = self.functions {
            functions.describe(&mut bytes);
        }
        for area in self.areas {
            prost::encoding::string::encode(AREAS, &(*area).to_owned(), &mut bytes);
        }
        if self.has_pure_hooks {
            prost::encoding::int32::encode(INSTANCES, &(manifest::Instances::Reuse as i32), &mut bytes);
        }
        bytes
    }

    /// Runs the mutate hook of the resource's type; `None` if nothing changed.
    ///
    /// # Errors
    /// The hook's refusal; or the input does not decode, or is of an unknown type.
    pub fn mutate(&self, input: &[u8]) -> Result<Option<Vec<u8>>, Diagnostics> {
        let (found, mut resource) = self.input(input)?;
        let changed = found.mutate(input, &mut resource)?;
        if changed.is_none() {
            resource.cache(self.types, found, input);
        }
        Ok(changed)
    }

    /// Runs the validate hook of the resource's type.
    #[must_use]
    pub fn validate(&self, input: &[u8], prior: Option<&[u8]>) -> Diagnostics {
        let prior = prior.map(Envelope::read).transpose().map_err(DispatchError::Resource);
        let (prior, (found, mut resource)) = match prior.and_then(|prior| Ok((prior, self.input(input)?))) {
            Ok(decoded) => decoded,
            Err(error) => return error.into(),
        };
        let said = found.validate(&mut resource, prior);
        resource.cache(self.types, found, input);
        said
    }

    /// Asks the read rule of the id's type.
    #[must_use]
    pub fn read(&self, id: &[u8], stored: Option<&[u8]>) -> Decision {
        let decoded = pb::Id::decode(id).and_then(|id| Ok((id, stored.map(Envelope::read).transpose()?)));
        let (id, stored) = match decoded {
            Ok(decoded) => decoded,
            Err(fault) => return Decision::Deny(format!("the host sent a malformed id or resource: {fault}")),
        };
        self.find(id.r#type.as_ref()).map_or_else(Decision::from, |found| found.read(&id, stored))
    }

    /// Asks the write rule of the resource's type.
    #[must_use]
    pub fn write(&self, input: &[u8]) -> Decision {
        let (found, mut resource) = match self.input(input) {
            Ok(decoded) => decoded,
            Err(error) => return error.into(),
        };
        let decision = found.write(&mut resource);
        resource.cache(self.types, found, input);
        decision
    }

    /// Asks the list rule of a type.
    #[must_use]
    pub fn list(&self, of: &pb::Type, tenancy: &pb::Tenancy) -> Decision {
        self.find(Some(of)).map_or_else(Decision::from, |found| found.spec().list(of, tenancy))
    }

    /// Upgrades data of an older schema version to the type's own.
    ///
    /// # Errors
    /// The refusal of the type's upgrade, or the lack of one.
    pub fn upgrade(&self, of: &pb::Type, since: u32, data: &[u8]) -> Result<Vec<u8>, Diagnostics> {
        self.find(Some(of))?.upgrade(since, data)
    }

    /// Runs the plan hook of the resource's type. `kept` are the private bytes of the stored resource.
    #[must_use]
    pub fn plan(&self, input: &[u8], prior: Option<&[u8]>, kept: Option<&[u8]>) -> raw::Plan {
        let prior = prior.map(Envelope::read).transpose().map_err(DispatchError::Resource);
        let (prior, (found, mut resource)) = match prior.and_then(|prior| Ok((prior, self.input(input)?))) {
            Ok(decoded) => decoded,
            Err(error) => return Diagnostics::from(error).into(),
        };
        let plan = found.plan(input, &mut resource, prior, kept);
        resource.cache(self.types, found, input);
        plan
    }

    /// Moves a resource of another type, its data in the schema version `since`, to the type `to`.
    ///
    /// # Errors
    /// The hook's refusal, or the lack of a hook.
    pub fn move_to(
        &self,
        source: &[u8],
        since: u32,
        to: &pb::Type,
        kept: Option<&[u8]>,
    ) -> Result<raw::NewResource, Diagnostics> {
        let moved = self.find(Some(to))?.move_to(source, since, kept);
        moved.unwrap_or_else(|| Err(Diagnostics::refusal("nothing can be moved to the type")))
    }

    /// Describes an external object as a resource of a type.
    ///
    /// # Errors
    /// The hook's refusal, or the lack of a hook.
    pub fn import(
        &self,
        host: &AnyHost,
        of: &pb::Type,
        within: pb::Tenancy,
        external_id: &str,
    ) -> Result<raw::NewResource, Diagnostics> {
        let imported = self.find(Some(of))?.import(&Context::new(host), external_id, within);
        imported.unwrap_or_else(|| Err(Diagnostics::refusal("nothing can be imported as the type")))
    }

    /// Calls a function: arguments and result are encoded [`manifest::FunctionValue`]s.
    ///
    /// # Errors
    /// The function's fault, or the lack of the function.
    pub fn call(&self, name: &str, arguments: &[Vec<u8>]) -> Result<Vec<u8>, FunctionFault> {
        self.table(name)?.call(name, arguments)
    }

    pub(crate) fn table(&self, name: &str) -> Result<FunctionTable, DispatchError> {
        self.functions.ok_or_else(|| DispatchError::UnknownFunction { name: name.to_owned() })
    }

    /// Runs the check of the settings, if the plugin has one.
    #[must_use]
    pub fn check(&self, settings: &str) -> Diagnostics {
        let mut diagnostics = Diagnostics::new();
        if let Some(check) = self.settings {
            check(settings, &mut diagnostics);
        }
        diagnostics
    }

    /// Runs a controller's reconciler.
    ///
    /// # Errors
    /// The reconciler's error, or the lack of the controller.
    pub fn reconcile(&self, host: &AnyHost, controller: &str, id: &[u8]) -> Result<Outcome, Error> {
        let id = pb::Id::decode(id).map_err(DispatchError::Id)?;
        self.controller(controller)?.reconcile(&Context::new(host), id)
    }

    /// Runs a controller's mapper for the changed resource's type; answers encoded ids.
    ///
    /// # Errors
    /// The mapper's error, or the lack of one.
    pub fn map(&self, host: &AnyHost, controller: &str, resource: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let found = self.controller(controller)?;
        let ids = found.map(&Context::new(host), changed(resource)?)?;
        Ok(ids.iter().map(Message::encode_to_vec).collect())
    }

    /// Runs a controller's initializer, if it has one.
    ///
    /// # Errors
    /// The initializer's error, or the lack of the controller.
    pub fn initialize(&self, host: &AnyHost, controller: &str) -> Result<(), Error> {
        self.controller(controller)?.initialize(&Context::new(host))
    }

    fn controller(&self, name: &str) -> Result<&'static dyn AnyController, DispatchError> {
        let found = self.controllers.iter().find(|one| one.name() == name);
        found.copied().ok_or_else(|| DispatchError::UnknownController { plugin: self.name, name: name.to_owned() })
    }

    /// The input of a hook, and its type.
    fn input(&self, input: &[u8]) -> Result<(&'static dyn AnyResourceType, HookInput), DispatchError> {
        if let Some(kept) = HookInput::cached(self.types, input) {
            return Ok(kept);
        }
        let resource = Envelope::read(input).map_err(DispatchError::Resource)?;
        Ok((self.find(resource.of())?, HookInput::encoded(resource)))
    }

    fn find(&self, of: Option<&pb::Type>) -> Result<&'static dyn AnyResourceType, DispatchError> {
        let found = of.and_then(|of| self.types.iter().find(|one| one.spec().is(of)));
        found.copied().ok_or_else(|| {
            let of = of.map_or_else(|| "\"\"".to_owned(), gvk);
            DispatchError::UnknownType { plugin: self.name, of }
        })
    }
}

/// Number of `requests` in [`manifest::Manifest`].
const REQUESTS: u32 = 1_000;

/// Number of `areas` in [`manifest::Manifest`].
const AREAS: u32 = 1_002;

/// Number of `instances` in [`manifest::Manifest`].
const INSTANCES: u32 = 1_003;

/// A [`manifest::Manifest`] with the descriptors as bytes: the same on the wire, without code that decodes and encodes
/// them.
#[derive(Clone, PartialEq, Message)]
struct Manifest {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
    #[prost(bytes = "vec", tag = "3")]
    descriptors: Vec<u8>,
    #[prost(message, repeated, tag = "4")]
    types: Vec<TypeEntry>,
    #[prost(string, repeated, tag = "5")]
    capabilities: Vec<String>,
    #[prost(message, optional, tag = "6")]
    limits: Option<manifest::Limits>,
}
