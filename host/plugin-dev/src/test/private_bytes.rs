//! Private bytes of a case, as text: by `TYPE/NAME`, or by `NAME` for the type of the call. Names are those of the
//! tenancy `default`.

use std::collections::BTreeMap;

use mortise_resource::{pb, tenancy::DEFAULT, types::Gvk};

use super::{
    codec::{Codec, short},
    error::CaseError,
    problems::Problems,
};

/// Private bytes with the ids of their resources.
pub(super) type Kept = Vec<(pb::Id, Vec<u8>)>;

/// Reads the private bytes that a case gives.
///
/// # Errors
/// An unknown type.
pub(super) fn read(codec: &Codec, own: &Gvk, given: &BTreeMap<String, String>) -> Result<Kept, CaseError> {
    given.iter().map(|(key, text)| Ok((id(codec, own, key)?, text.clone().into_bytes()))).collect()
}

/// Compares private bytes with the expected ones.
///
/// # Errors
/// An unknown type among the expected ones.
pub(super) fn compare(
    problems: &mut Problems,
    codec: &Codec,
    own: &Gvk,
    expected: &BTreeMap<String, String>,
    found: &[(pb::Id, Vec<u8>)],
) -> Result<(), CaseError> {
    let lines = |all: &[(pb::Id, Vec<u8>)]| {
        let lines: BTreeMap<String, _> =
            all.iter().map(|(id, bytes)| (placed(id), String::from_utf8_lossy(bytes).into_owned())).collect();
        lines.iter().map(|(name, text)| format!("{name}: {text:?}\n")).collect::<String>()
    };
    problems.same("other private bytes than expected:", &lines(&read(codec, own, expected)?), &lines(found));
    Ok(())
}

/// Name of a resource, with its tenancy if that is not `default`.
fn placed(id: &pb::Id) -> String {
    let pb::Tenancy { partition, namespace } = id.tenancy.clone().unwrap_or_default();
    let is_default = |unit: &str| unit.is_empty() || unit == DEFAULT;
    match is_default(&partition) && is_default(&namespace) {
        true => short(id),
        false => format!("{} in {partition}/{namespace}", short(id)),
    }
}

/// Id of a resource of the case, by `TYPE/NAME`, or by `NAME` for the type of the call.
///
/// # Errors
/// An unknown type.
pub(super) fn id(codec: &Codec, own: &Gvk, key: &str) -> Result<pb::Id, CaseError> {
    let (gvk, name) = match key.rsplit_once('/') {
        Some((type_name, name)) => (codec.named(type_name)?, name),
        None => (own.clone(), key),
    };
    Ok(pb::Id {
        tenancy: Some(codec.tenancy(&gvk, None, None)),
        r#type: Some(gvk.to_pb()),
        name: name.to_owned(),
        uid: String::new(),
    })
}
