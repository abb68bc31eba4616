//! Answers of Mortise's own services as proto3 JSON, for programs. Fields that are not set are left out.

use mortise_resource::DESCRIPTORS;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::Serializer;

use crate::error::CliError;

/// Format of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum AnswerFormat {
    /// A table, for people
    #[default]
    Table,
    /// JSON, for programs
    Json,
}

/// Renders a message, by its full name, as indented JSON with a line feed at its end.
///
/// # Errors
/// The message is unknown to this release: a fault of Mortise itself.
pub(crate) fn message(name: &str, message: &impl prost::Message) -> Result<String, CliError> {
    let mut out = Vec::new();
    write(name, message, &mut Serializer::pretty(&mut out))?;
    text(name, out)
}

/// Renders a message as [`message`] does, on one line.
///
/// # Errors
/// Those of [`message`].
pub(crate) fn compact(name: &str, message: &impl prost::Message) -> Result<String, CliError> {
    let mut out = Vec::new();
    write(name, message, &mut Serializer::new(&mut out))?;
    text(name, out)
}

fn write<F: serde_json::ser::Formatter>(
    name: &str,
    message: &impl prost::Message,
    serializer: &mut Serializer<&mut Vec<u8>, F>,
) -> Result<(), CliError> {
    let pool = DescriptorPool::decode(DESCRIPTORS).map_err(|e| broken(name).caused_by(e))?;
    let unknown = || broken(name).caused_by(std::io::Error::other("the message is unknown"));
    let descriptor = pool.get_message_by_name(name).ok_or_else(unknown)?;
    let bytes = message.encode_to_vec();
    let dynamic = DynamicMessage::decode(descriptor, bytes.as_slice()).map_err(|e| broken(name).caused_by(e))?;
    dynamic.serialize_with_options(serializer, &SerializeOptions::new()).map_err(|e| broken(name).caused_by(e))
}

fn text(name: &str, mut out: Vec<u8>) -> Result<String, CliError> {
    out.push(b'\n');
    String::from_utf8(out).map_err(|e| broken(name).caused_by(e))
}

fn broken(name: &str) -> CliError {
    CliError::failed(format!("{name} as JSON")).remedy("-o table shows it")
}

#[cfg(test)]
mod tests {
    use mortise_resource::data::{ServerStatusResponse, server_status_response::Store};

    use super::*;

    #[test]
    fn messages_are_proto3_json() {
        let store = Store { data_dir: "/d".into(), commit: 1 << 60, ..Store::default() };
        let status =
            ServerStatusResponse { version: "1".into(), store: Some(store), ..ServerStatusResponse::default() };
        let text = message("mortise.v1.ServerStatusResponse", &status).unwrap();
        let expected = "{\n  \"version\": \"1\",\n  \"store\": {\n    \"dataDir\": \"/d\",\n    \"commit\": \"1152921504606846976\"\n  }\n}\n";
        assert_eq!(text, expected);
        assert!(message("mortise.v1.Nothing", &status).unwrap_err().to_string().contains("the message is unknown"));
    }
}
