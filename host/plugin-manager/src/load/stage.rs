//! The stages of a transition and their failures, in the words of the condition `Loaded`.

use mortise_plugin_host::LoadError;
use mortise_resource::{Code, Error};
use mortise_service::registry::RegistryError;

/// The stages of a transition, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The file is not whole yet.
    Waiting,
    /// It is compiled, and asked to describe itself.
    Compiling,
    /// It is compared with stored resources and with loaded plugins.
    Checking,
    /// The registry is being swapped.
    Swapping,
    /// It serves.
    Serving,
}

impl Stage {
    /// The reason of the condition.
    #[must_use]
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Compiling => "Compiling",
            Self::Checking => "Checking",
            Self::Swapping => "Swapping",
            Self::Serving => "Serving",
        }
    }
}

/// The failure of a transition, which has changed nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The stage in which it failed.
    pub(crate) stage: Stage,
    /// Reason for programs, in CamelCase.
    pub(crate) reason: &'static str,
    /// Text for people: subject, fault and remedy.
    pub(crate) message: String,
}

impl Failure {
    /// A failure.
    pub(crate) fn new(stage: Stage, reason: &'static str, message: impl Into<String>) -> Self {
        Self { stage, reason, message: message.into() }
    }

    /// Returns whether the fault may go without a change of the content: one of the machine, the host or the store.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self.reason, "HostFault" | "StoreFault" | "StoreBusy" | "Unreadable")
    }

    /// Converts the failure to an error for the caller of the plugin service; the code says whether the content, the
    /// host or existing state is at fault.
    #[must_use]
    pub(crate) fn into_error(self) -> Error {
        let code = match (self.stage, self.reason) {
            (_, "HostFault" | "StoreFault") => Code::Internal,
            (_, "TooLarge") => Code::ResourceExhausted,
            (Stage::Waiting | Stage::Compiling, _) => Code::InvalidArgument,
            _ => Code::FailedPrecondition,
        };
        Error::new(code, format!("{}: {}", self.reason, self.message))
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        let reason = match &error {
            LoadError::Unreadable { .. } => "Unreadable",
            LoadError::TooLarge { .. } => "TooLarge",
            LoadError::NotAComponent { .. } => "NotAComponent",
            LoadError::UnknownImport { .. } => "UnknownImport",
            LoadError::Contract { .. } => "WrongContract",
            LoadError::ExceedsLimit(_) | LoadError::TooCostly { .. } => "TooHungry",
            LoadError::Describe(_) => "DescribeFailed",
            LoadError::Manifest(_) => "BadManifest",
            LoadError::NotGranted(_) => "NotGranted",
            LoadError::Settings { .. } => "BadSettings",
            LoadError::Host { .. } => "HostFault",
        };
        Self::new(Stage::Compiling, reason, error.to_string())
    }
}

impl From<RegistryError> for Failure {
    fn from(refused: RegistryError) -> Self {
        let reason = match &refused {
            RegistryError::Descriptors(_) | RegistryError::MessageMissing(_) => "HostFault",
            RegistryError::NameTaken { .. } => "NameTaken",
            RegistryError::ReservedGroup(_) => "ReservedGroup",
            RegistryError::CaseClash { .. } | RegistryError::TypeTaken { .. } => "TypeTaken",
            RegistryError::ScopesDiffer { .. } => "ScopesDiffer",
        };
        Self::new(Stage::Checking, reason, refused.to_string())
    }
}
