//! Errors for host calls that match no hook, no controller and no function.

use std::{error::Error, fmt};

use mortise_resource::wire::WireError;
use prost::DecodeError;

use crate::{Decision, Diagnostics, FunctionFault};

/// A call that matches no hook, no controller and no function of the plugin. Each kind is a fault of the host, which
/// must send only calls that the manifest declares.
#[derive(Debug)]
pub(crate) enum DispatchError {
    /// The bytes are not a resource.
    Resource(DecodeError),
    /// The bytes are not an encoded message.
    Encoding(WireError),
    /// The bytes are not an id.
    Id(DecodeError),
    /// The bytes are not an argument of a function.
    Value(DecodeError),
    /// The plugin does not have the type: `group.version.Kind`.
    UnknownType { plugin: &'static str, of: String },
    /// The plugin does not have the controller.
    UnknownController { plugin: &'static str, name: String },
    /// The plugin does not have the function.
    UnknownFunction { name: String },
}

impl fmt::Display for DispatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resource(error) => write!(f, "the host sent a malformed resource: {error}"),
            Self::Encoding(error) => write!(f, "the host sent a malformed resource: {error}"),
            Self::Id(error) => write!(f, "the host sent a malformed id: {error}"),
            Self::Value(error) => write!(f, "the host sent a malformed value: {error}"),
            Self::UnknownType { plugin, of } => write!(f, "plugin {plugin} has no type {of}"),
            Self::UnknownController { plugin, name } => write!(f, "plugin {plugin} has no controller {name}"),
            Self::UnknownFunction { name } => write!(f, "there is no function {name}"),
        }
    }
}

impl Error for DispatchError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Resource(error) | Self::Id(error) | Self::Value(error) => Some(error),
            Self::Encoding(error) => Some(error),
            Self::UnknownType { .. } | Self::UnknownController { .. } | Self::UnknownFunction { .. } => None,
        }
    }
}

impl From<DispatchError> for Diagnostics {
    fn from(error: DispatchError) -> Self {
        Self::refusal(error.to_string())
    }
}

impl From<DispatchError> for Decision {
    fn from(error: DispatchError) -> Self {
        Self::Deny(error.to_string())
    }
}

impl From<DispatchError> for FunctionFault {
    fn from(error: DispatchError) -> Self {
        Self::new(error.to_string())
    }
}
