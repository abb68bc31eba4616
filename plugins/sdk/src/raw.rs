//! The exports as they cross the boundary, bytes to bytes: for plugins that build their own manifest or do not want
//! their resources decoded. Most use [`crate::export!`] instead.

use mortise_resource::pb;

use crate::{authorize::Decision, diagnostics::Diagnostics, reconcile::Outcome};

/// What a component exports. Functions of interfaces that are not exported are never called.
pub trait Guest {
    /// An encoded `mortise.plugin.v1.Manifest`.
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

    /// Interface `authorizing`: an encoded id, and the resource if it was asked for.
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
    /// It is called again, later each time.
    fn reconcile(controller: String, id: Vec<u8>) -> Result<Outcome, String> {
        let _ = id;
        Err(format!("there is no controller {controller}"))
    }

    /// Interface `mapping`: a controller's name, and a resource of a watched type; answers encoded ids.
    ///
    /// # Errors
    /// It is called again, later each time.
    fn map(controller: String, changed: Vec<u8>) -> Result<Vec<Vec<u8>>, String> {
        let _ = changed;
        Err(format!("there is no controller {controller}"))
    }

    /// Interface `initializing`: a controller's name.
    ///
    /// # Errors
    /// It is called again, later each time; the controller does not start.
    fn initialize(controller: String) -> Result<(), String> {
        let _ = controller;
        Ok(())
    }

    /// Interface `configuring`: the plugin's settings, one JSON object.
    fn check(settings: String) -> Diagnostics {
        let _ = settings;
        Diagnostics::new()
    }
}
