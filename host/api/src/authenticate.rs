//! The caller of a request, and the permission that its method requires, on both ports.
//!
//! Credentials are, in this order: a token (`x-consul-token`, or `authorization: Bearer`), a client certificate named
//! in the settings, the user at the other end of a unix socket. A request without any has the anonymous caller. An
//! unknown token is an error; the later credentials are not tried.
//!
//! The service decides about methods on resources, with the hooks of the type. [`Requirement`] has the requirement of
//! every other method; a method in no table requires `operator:write`.

use std::sync::{Arc, LazyLock};

use ::http::{HeaderMap, HeaderName, header::AUTHORIZATION};
use mortise_acl::{Access, Identity};
use mortise_resource::{
    Error,
    authorizer::{AllowAll, Authorizer, denial_text},
};
use mortise_service::{Origin, Remote, Surface};

use crate::peer::{LocalUser, PeerCertificate};

/// The header with a token, as in Consul.
static TOKEN_HEADER: HeaderName = HeaderName::from_static("x-consul-token");

/// The header with a request's number; refusals carry it.
pub(crate) static REQUEST_ID_HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The requirement of a method for its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requirement {
    /// Free here: the service behind the method decides, or the answer needs no protection.
    None,
    /// A caller with at least one policy: the answer is public among callers that have any permission.
    AnyPolicy,
    /// The named permission.
    Permission(&'static str),
}

impl Requirement {
    /// Whether the method counts as a change.
    pub(crate) fn is_change(self) -> bool {
        self == Self::Permission("operator:write")
    }

    /// Whether a gRPC method has a single answer that reports a change. That answer arrives even if the change takes
    /// the caller's rights, as a deletion of its own token does.
    pub(crate) fn reports_change(path: &str) -> bool {
        let Some((service, method)) = path.strip_prefix('/').and_then(|path| path.split_once('/')) else {
            return false;
        };
        match service {
            "hashicorp.consul.resource.ResourceService" => matches!(method, "Write" | "WriteStatus" | "Delete"),
            "mortise.v1.ChangeService" => matches!(method, "Move" | "Import"),
            "mortise.v1.QueryService" => method == "Update",
            "mortise.v1.OwnershipService" => method == "SetBlockDeletion",
            "mortise.v1.ServerService" => method == "Reload",
            "mortise.v1.PluginService" => !matches!(method, "Inspect" | "Logs"),
            _ => false,
        }
    }

    /// The requirement of a gRPC method, by its path.
    pub(crate) fn for_grpc(path: &str) -> Self {
        const READ: Requirement = Requirement::Permission("operator:read");
        const WRITE: Requirement = Requirement::Permission("operator:write");
        let Some((service, method)) = path.strip_prefix('/').and_then(|path| path.split_once('/')) else {
            return WRITE;
        };
        match (service, method) {
            ("hashicorp.consul.resource.ResourceService", _)
            | ("conduit.proxy.destination.Destination" | "io.linkerd.proxy.destination.Destination", _)
            // The service decides with the token of the message.
            | ("io.linkerd.proxy.identity.Identity", "Certify")
            | ("io.linkerd.proxy.inbound.InboundServerPolicies", "GetPort" | "WatchPort")
            | ("io.linkerd.proxy.outbound.OutboundPolicies", _)
            | ("grpc.health.v1.Health", _)
            | ("mortise.v1.AuthService", "WhoAmI" | "CanI")
            // These services call the resource service with the caller's own permissions.
            | ("mortise.v1.ChangeService" | "mortise.v1.QueryService", _)
            | ("mortise.v1.WatchService", _)
            | ("mortise.v1.OwnershipService", "GetTree" | "PlanDelete") => Self::None,
            ("mortise.v1.TypeService" | "mortise.v1.FunctionService", _)
            | ("mortise.v1.RegionService", "Identify")
            | ("mortise.v1.AuthService", "CheckPolicy")
            | ("grpc.reflection.v1.ServerReflection" | "grpc.reflection.v1alpha.ServerReflection", _) => Self::AnyPolicy,
            ("mortise.v1.PluginService", "Inspect" | "Logs")
            | ("mortise.v1.ControllerService", "List")
            | ("mortise.v1.RegionService", "Status")
            | ("mortise.v1.ServerService", "Status" | "ListMembers" | "Metrics" | "Settings") => READ,
            _ => WRITE,
        }
    }

    /// The requirement of an HTTP path.
    pub(crate) fn for_http(path: &str) -> Self {
        match path {
            "/metrics" => Self::Permission("operator:read"),
            // The page of a caller without rights asks for them.
            "/v1/session" => Self::None,
            _ if path == "/rpc" || path.starts_with("/v1/") => Self::AnyPolicy,
            _ => Self::None,
        }
    }
}

/// A recognised caller of a request.
#[derive(Clone)]
pub(crate) struct Authenticated {
    pub(crate) authorizer: Arc<dyn Authorizer>,
    /// `None` while access control is off.
    pub(crate) identity: Option<Arc<Identity>>,
    pub(crate) origin: Arc<Origin>,
}

/// The connection's part of a request's credentials.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Peer<'a> {
    pub(crate) certificate: Option<&'a PeerCertificate>,
    /// The user at the other end of a unix socket.
    pub(crate) local: Option<LocalUser>,
}

impl Authenticated {
    /// Recognises the caller of a request. `token` comes from outside of the headers.
    ///
    /// # Errors
    /// `Unauthenticated`: the token is unknown or malformed.
    pub(crate) fn of(
        access: Option<&Arc<Access>>,
        token: Option<&str>,
        headers: &HeaderMap,
        peer: Peer<'_>,
        origin: Arc<Origin>,
    ) -> Result<Self, Error> {
        let Some(access) = access else { return Ok(Self { authorizer: allow_all(), identity: None, origin }) };
        let identity = match token.or_else(|| token_from_headers(headers)) {
            Some(token) => access.identity_for_secret(token)?,
            None => {
                match (peer.certificate.and_then(|known| access.identity_for_certificate(&known.names)), peer.local) {
                    (Some(identity), _) => identity.clone(),
                    (None, Some(user)) if user.is_operator() => {
                        access.operator(format!("user {} on this machine", user.uid()))
                    }
                    _ => access.anonymous().clone(),
                }
            }
        };
        Ok(Self { authorizer: identity.clone(), identity: Some(identity), origin })
    }

    /// Checks a method's requirement, as of now.
    ///
    /// # Errors
    /// `Unauthenticated`: the token is no longer valid. `PermissionDenied`.
    pub(crate) fn check(&self, requirement: Requirement) -> Result<(), Error> {
        self.authorizer.check_valid()?;
        let refused = |permission| Err(Error::denied(denial_text(self.authorizer.caller(), permission, "")));
        match requirement {
            Requirement::None => Ok(()),
            Requirement::AnyPolicy if self.identity.as_ref().is_none_or(|known| !known.policies().is_empty()) => Ok(()),
            Requirement::AnyPolicy => refused("operator:read"),
            Requirement::Permission(permission) if self.authorizer.is_allowed(permission, "") => Ok(()),
            Requirement::Permission(permission) => refused(permission),
        }
    }
}

/// The caller while access control is off.
fn allow_all() -> Arc<dyn Authorizer> {
    static ALL: LazyLock<Arc<AllowAll>> = LazyLock::new(Arc::default);
    ALL.clone()
}

/// An unrecognised caller, for the audit log.
pub(crate) fn unknown_caller() -> Arc<dyn Authorizer> {
    static STRANGER: LazyLock<Arc<UnknownCaller>> = LazyLock::new(Arc::default);
    STRANGER.clone()
}

/// The origin of a request, with the number that its client gave it.
pub(crate) fn origin(surface: Surface, remote: Remote, headers: &HeaderMap) -> Arc<Origin> {
    let number = headers.get(&REQUEST_ID_HEADER).and_then(|number| number.to_str().ok());
    Arc::new(Origin::new(surface, remote, number))
}

/// A caller without any permission.
#[derive(Default)]
struct UnknownCaller;

impl Authorizer for UnknownCaller {
    fn is_allowed(&self, _: &str, _: &str) -> bool {
        false
    }

    fn caller(&self) -> &'static str {
        "unknown token"
    }

    fn fingerprint(&self) -> u64 {
        1
    }
}

/// Returns whether a request's headers have a token.
#[cfg(feature = "ui")]
pub(crate) fn has_token(headers: &HeaderMap) -> bool {
    token_from_headers(headers).is_some()
}

/// The token in a request's headers. A value that is not text reads as an unknown token.
fn token_from_headers(headers: &HeaderMap) -> Option<&str> {
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("\u{fffd}"));
    let bearer = || {
        let (scheme, token) = text(&AUTHORIZATION)?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    };
    text(&TOKEN_HEADER).filter(|token| !token.is_empty()).or_else(bearer).filter(|token| !token.is_empty())
}
