//! Exports in encoded form: for plugins that build their own manifest or do not want their resources decoded. Most use
//! [`crate::export!`] instead.

use mortise_resource::{FieldPath, pb};

use crate::{FunctionFault, authorize::Decision, diagnostics::Diagnostics, reconcile::Outcome};

/// Expected result of a write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The resource as the plugin's controllers will finally make it; `None`: as the write leaves it.
    pub predicted: Option<Vec<u8>>,
    /// Paths of the fields whose new value the stored resource cannot take, from the resource down.
    pub replace: Vec<FieldPath>,
    /// Diagnostics; errors refuse the plan.
    pub diagnostics: Diagnostics,
}

/// A resource moved from another type, or imported from outside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewResource {
    /// Encoded resource.
    pub resource: Vec<u8>,
    /// Private bytes for the plugin's controllers, if any.
    pub kept: Option<Vec<u8>>,
}

impl From<Diagnostics> for Plan {
    fn from(diagnostics: Diagnostics) -> Self {
        Self { diagnostics, ..Self::default() }
    }
}

/// Exports of a component. Functions of interfaces that are not exported are never called.
pub trait Guest {
    /// Encodes the `mortise.plugin.v1.Manifest`.
    fn describe() -> Vec<u8>;

    /// Interface `mutating`.
    ///
    /// # Errors
    /// Refuses the request.
    fn mutate(input: Vec<u8>) -> Result<Option<Vec<u8>>, Diagnostics> {
        let _ = input;
        Ok(None)
    }

    /// Interface `validating`.
    fn validate(input: Vec<u8>, prior: Option<Vec<u8>>) -> Diagnostics {
        let _ = (input, prior);
        Diagnostics::new()
    }

    /// Interface `upgrading`: data of an older schema version of a type.
    ///
    /// # Errors
    /// The data cannot be upgraded.
    fn upgrade(of: pb::Type, since: u32, data: Vec<u8>) -> Result<Vec<u8>, Diagnostics> {
        let _ = (of, data);
        Err(Diagnostics::refusal(format!("there is no upgrade from schema version {since}")))
    }

    /// Interface `authorizing`: an encoded id, and the resource if the hook has asked for it.
    fn read(id: Vec<u8>, stored: Option<Vec<u8>>) -> Decision {
        let _ = (id, stored);
        Decision::Allow
    }

    /// Interface `authorizing`.
    fn write(input: Vec<u8>) -> Decision {
        let _ = input;
        Decision::Allow
    }

    /// Interface `authorizing`.
    fn list(of: pb::Type, tenancy: pb::Tenancy) -> Decision {
        let _ = (of, tenancy);
        Decision::Allow
    }

    /// Interface `controlling`: a controller's name, and an encoded id.
    ///
    /// # Errors
    /// It is called again, after growing delays.
    fn reconcile(controller: String, id: Vec<u8>) -> Result<Outcome, String> {
        let _ = id;
        Err(format!("there is no controller {controller}"))
    }

    /// Interface `mapping`: a controller's name, and a resource of a watched type; answers encoded ids.
    ///
    /// # Errors
    /// It is called again, after growing delays.
    fn map(controller: String, changed: Vec<u8>) -> Result<Vec<Vec<u8>>, String> {
        let _ = changed;
        Err(format!("there is no controller {controller}"))
    }

    /// Interface `initializing`: a controller's name.
    ///
    /// # Errors
    /// It is called again, after growing delays; the controller does not start.
    fn initialize(controller: String) -> Result<(), String> {
        let _ = controller;
        Ok(())
    }

    /// Interface `planning`: a mutated and validated resource, the stored one of its name, and the private bytes of the
    /// stored one.
    fn plan(input: Vec<u8>, prior: Option<Vec<u8>>, kept: Option<Vec<u8>>) -> Plan {
        let _ = (input, prior, kept);
        Plan::default()
    }

    /// Interface `moving`: a stored resource of another type, its data in the schema version `since`, and its private
    /// bytes.
    ///
    /// # Errors
    /// Refuses the request.
    fn move_to(source: Vec<u8>, since: u32, to: pb::Type, kept: Option<Vec<u8>>) -> Result<NewResource, Diagnostics> {
        let _ = (source, since, to, kept);
        Err(Diagnostics::refusal("nothing can be moved to the type"))
    }

    /// Interface `importing`: the external id of an object that is to become a resource.
    ///
    /// # Errors
    /// Refuses the request.
    fn import(of: pb::Type, within: pb::Tenancy, external_id: String) -> Result<NewResource, Diagnostics> {
        let _ = (of, within, external_id);
        Err(Diagnostics::refusal("nothing can be imported as the type"))
    }

    /// Interface `functions`: arguments and result are encoded `mortise.plugin.v1.FunctionValue`.
    ///
    /// # Errors
    /// The function gives no result.
    fn call(name: String, arguments: Vec<Vec<u8>>) -> Result<Vec<u8>, FunctionFault> {
        let _ = arguments;
        Err(FunctionFault::new(format!("there is no function {name}")))
    }

    /// Interface `configuring`: the plugin's settings, one JSON object.
    fn check(settings: String) -> Diagnostics {
        let _ = settings;
        Diagnostics::new()
    }
}
