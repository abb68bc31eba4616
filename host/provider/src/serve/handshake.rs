//! How core starts a provider: what it puts into the environment, and the one line that it expects.

use std::{ffi::OsString, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};

/// The variable by which core tells a start from a person's, and its value: no secret, of every core alike.
pub const MAGIC_COOKIE: (&str, &str) =
    ("TF_PLUGIN_MAGIC_COOKIE", "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2");

/// The certificate of core's side in PEM; there is TLS where there is one.
pub(super) const CLIENT_CERT_VARIABLE: &str = "PLUGIN_CLIENT_CERT";
/// Major versions of the protocol that core speaks.
pub(super) const VERSIONS_VARIABLE: &str = "PLUGIN_PROTOCOL_VERSIONS";
/// Core would send several connections through one.
pub(super) const MULTIPLEX_VARIABLE: &str = "PLUGIN_MULTIPLEX_GRPC";

/// What the executable's name begins with when it is a provider's.
const EXECUTABLE_PREFIX: &str = "terraform-provider-";

/// Whether a process is to be a provider: it has a provider's name, or core started it, without arguments. Programs that
/// another provider starts have core's variable as well.
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

/// Whether core speaks version 6; who names none is taken to.
pub(super) fn speaks_6(env: &dyn Fn(&str) -> Option<String>) -> bool {
    env(VERSIONS_VARIABLE).is_none_or(|versions| versions.split(',').any(|version| version.trim() == "6"))
}

/// The line. Only without padding core can read the certificate.
pub(super) fn line(socket: &Path, certificate: Option<&[u8]>, multiplex: bool) -> String {
    let certificate = certificate.map(|der| STANDARD_NO_PAD.encode(der)).unwrap_or_default();
    let rest = if multiplex { "|false" } else { "" };
    format!("1|6|unix|{}|grpc|{certificate}{rest}", socket.display())
}
