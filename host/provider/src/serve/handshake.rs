//! The handshake with core: the environment that it sets, and the line that it expects on stdout.

use std::{ffi::OsString, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};

/// The variable that tells a start by core from a start by a person, and its value: not a secret, the same for every
/// core.
pub const MAGIC_COOKIE: (&str, &str) =
    ("TF_PLUGIN_MAGIC_COOKIE", "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2");

/// The certificate of core's side in PEM; the connection uses TLS if it is set.
pub(super) const CLIENT_CERT_VARIABLE: &str = "PLUGIN_CLIENT_CERT";
/// Major versions of the protocol that core speaks.
pub(super) const VERSIONS_VARIABLE: &str = "PLUGIN_PROTOCOL_VERSIONS";
/// Core offers to send several connections through one.
pub(super) const MULTIPLEX_VARIABLE: &str = "PLUGIN_MULTIPLEX_GRPC";

/// Start of the executable's name when it is a provider's.
const EXECUTABLE_PREFIX: &str = "terraform-provider-";

/// Whether a process must be a provider: it has a provider's name, or core started it without arguments. The variable
/// alone is not enough, since programs that another provider starts have it as well.
#[must_use]
pub fn is_launched(arguments: &[OsString], env: &dyn Fn(&str) -> Option<String>) -> bool {
    let name = arguments.first().and_then(|program| Path::new(program).file_name());
    let is_named = name.is_some_and(|name| name.to_string_lossy().starts_with(EXECUTABLE_PREFIX));
    is_named || (arguments.len() == 1 && is_cookie(env))
}

/// Whether core started this process.
pub(super) fn is_cookie(env: &dyn Fn(&str) -> Option<String>) -> bool {
    env(MAGIC_COOKIE.0).as_deref() == Some(MAGIC_COOKIE.1)
}

/// Whether core speaks version 6; assumed if core names no version.
pub(super) fn speaks_6(env: &dyn Fn(&str) -> Option<String>) -> bool {
    env(VERSIONS_VARIABLE).is_none_or(|versions| versions.split(',').any(|version| version.trim() == "6"))
}

/// The line for core. Core reads the certificate only without padding.
pub(super) fn line(socket: &Path, certificate: Option<&[u8]>, multiplex: bool) -> String {
    let certificate = certificate.map(|der| STANDARD_NO_PAD.encode(der)).unwrap_or_default();
    let rest = if multiplex { "|false" } else { "" };
    format!("1|6|unix|{}|grpc|{certificate}{rest}", socket.display())
}
