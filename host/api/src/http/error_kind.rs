//! Kinds of errors: their codes and names.
//!
//! Consul's clients get Consul's few codes, and the others codes by meaning, chosen by the reactions of HTTP clients.

use axum::http::StatusCode;
use mortise_resource::Code;

/// The kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorKind {
    /// An error of the service.
    Service(Code),
    /// The path does not exist.
    NoRoute,
    /// The path does not have the method.
    Method,
    /// The body is not JSON of the right shape, or its data is not of the type.
    Body,
    /// The format of the body is not supported.
    MediaType,
    /// The body is too large.
    TooLarge,
    /// The body did not arrive in time.
    TooSlow,
    /// A parameter or a header is not understood.
    Head,
    /// A condition of the request does not hold.
    Precondition,
    /// The stored resource does not fit an operation of the patch.
    Patch,
    /// Other requests use up the memory that this one needs.
    Busy,
    /// The host in the request is not one of this server's.
    UnknownHost,
    /// The request comes from a web page of another origin.
    CrossOrigin,
    /// A function of Consul that this server does not have.
    Unsupported,
}

impl ErrorKind {
    /// Consul's code.
    pub(super) fn consul_status(self) -> StatusCode {
        match self {
            Self::Service(
                Code::InvalidArgument
                | Code::NotFound
                | Code::PermissionDenied
                | Code::Unauthenticated
                | Code::Aborted
                | Code::Internal,
            ) => self.status(),
            Self::Service(_) => StatusCode::INTERNAL_SERVER_ERROR,
            _ => self.status(),
        }
    }

    /// The code by meaning.
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::Service(Code::InvalidArgument) | Self::Body | Self::Head => StatusCode::BAD_REQUEST,
            Self::Service(Code::PermissionDenied) | Self::UnknownHost | Self::CrossOrigin => StatusCode::FORBIDDEN,
            Self::Service(Code::NotFound) | Self::NoRoute => StatusCode::NOT_FOUND,
            Self::Service(Code::Aborted | Code::FailedPrecondition | Code::AlreadyExists) | Self::Patch => {
                StatusCode::CONFLICT
            }
            Self::Service(Code::ResourceExhausted) => StatusCode::TOO_MANY_REQUESTS,
            Self::Service(Code::Unimplemented) | Self::Unsupported => StatusCode::NOT_IMPLEMENTED,
            Self::Service(Code::Internal) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Service(Code::Unavailable) | Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Service(Code::DeadlineExceeded) => StatusCode::GATEWAY_TIMEOUT,
            Self::Service(Code::Unauthenticated) => StatusCode::UNAUTHORIZED,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Precondition => StatusCode::PRECONDITION_FAILED,
        }
    }

    /// The name in a problem's `type`, and the title.
    pub(super) fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Service(Code::InvalidArgument) | Self::Head => ("invalid-argument", "The request is invalid"),
            Self::Service(Code::PermissionDenied) => ("permission-denied", "The caller lacks permission"),
            Self::Service(Code::NotFound) => ("not-found", "The requested object does not exist"),
            Self::Service(Code::AlreadyExists) => ("already-exists", "The object exists already"),
            Self::Service(Code::Aborted) => ("aborted", "A concurrent change came first; read again and retry"),
            Self::Service(Code::FailedPrecondition) => {
                ("failed-precondition", "The server is not in a state that allows this")
            }
            Self::Service(Code::ResourceExhausted) => ("resource-exhausted", "A limit was reached"),
            Self::Service(Code::Unimplemented) | Self::Unsupported => {
                ("unimplemented", "The server does not support this")
            }
            Self::Service(Code::Internal) => ("internal", "An internal error"),
            Self::Service(Code::Unavailable) | Self::Busy => ("unavailable", "Not available now; try again later"),
            Self::Service(Code::DeadlineExceeded) => ("deadline-exceeded", "A deadline passed"),
            Self::Service(Code::Unauthenticated) => ("unauthenticated", "The token is unknown"),
            Self::NoRoute => ("no-route", "Nothing is served at the path"),
            Self::Method => ("method-not-allowed", "The path does not have the method"),
            Self::Body => ("malformed-body", "The body is malformed"),
            Self::MediaType => ("unsupported-media-type", "The format of the body is not supported"),
            Self::TooLarge => ("body-too-large", "The body is too large"),
            Self::TooSlow => ("request-timeout", "The body did not arrive in time"),
            Self::Precondition => ("precondition-failed", "A condition of the request does not hold"),
            Self::Patch => ("patch-failed", "The patch does not fit the stored resource"),
            Self::UnknownHost => ("unknown-host", "The host is not a name of this server"),
            Self::CrossOrigin => ("cross-origin", "Web pages of other origins may not use this API"),
        }
    }
}
