//! Answers of RPCs as JSON, with the types of the registry for the data of resources.

use hyper::body::Bytes;
use mortise_resource::Error;
use mortise_text::{Indent, answer_to_json};
use prost_reflect::{DynamicMessage, MessageDescriptor};

use crate::http::{
    body::{PARALLEL_PARSE_BYTES, SMALL_BODY_BYTES},
    registry_types::RegistryTypes,
    shared::Shared,
};

/// Prints an encoded message. Printing a large one does not delay other requests.
///
/// # Errors
/// `Internal`: the message has no form in JSON.
pub(super) async fn print(
    shared: &Shared,
    descriptor: MessageDescriptor,
    message: Bytes,
    indent: Indent,
) -> Result<String, Error> {
    let types = RegistryTypes(shared.service.types());
    let bytes = message.len();
    let print = move || {
        let name = descriptor.full_name().to_owned();
        let message =
            DynamicMessage::decode(descriptor, message).map_err(|e| Error::internal(format!("{name}: {e}")))?;
        let printed = answer_to_json(&message, &types, indent);
        printed.ok_or_else(|| Error::internal(format!("this {name} has no form in JSON; make the call over gRPC")))
    };
    if bytes <= SMALL_BODY_BYTES {
        return print();
    }
    let place = match bytes > PARALLEL_PARSE_BYTES {
        true => shared.bodies.large().acquire_owned().await.ok(),
        false => None,
    };
    let printing = tokio::task::spawn_blocking(move || {
        let _held = place;
        print()
    });
    printing.await.unwrap_or_else(|_| Err(Error::internal("grpc: panic serving request")))
}
