//! Patches of JSON: merge patches (RFC 7396) and lists of operations (RFC 6902).
//!
//! # Limits
//! At most [`MAX_OPERATIONS`] operations, values nested at most [`MAX_DEPTH`] deep, and at most [`MAX_MOVED_BYTES`] that
//! operations copy or move: a few copies could make a document of any size.

use json_patch::{PatchErrorKind, PatchOperation, merge, patch_unsafe};
use mortise_resource::{FieldPath, PathStep};
use serde_json::Value;

use super::{
    body_json::BAD_FORMAT_TEXT,
    error::{ErrorKind, HttpError},
    media::Media,
};

/// Most operations of a patch.
const MAX_OPERATIONS: usize = 1_000;

/// Most levels of a patched document.
const MAX_DEPTH: usize = 128;

/// Most bytes that the operations of a patch copy or move: of texts, and for each value [`VALUE_BYTES`].
const MAX_MOVED_BYTES: usize = 8 << 20;

/// Memory of a value besides its text, bytes.
const VALUE_BYTES: usize = 64;

/// A patch.
#[derive(Debug)]
pub(super) enum Patch {
    Merge(Value),
    Operations(Vec<PatchOperation>),
}

impl Patch {
    /// Parses a patch.
    ///
    /// # Errors
    /// 400: malformed JSON, an unknown operation, or too many of them.
    pub(super) fn parse(format: Media, bytes: &[u8]) -> Result<Self, HttpError> {
        let malformed = |e: serde_json::Error| {
            let error = HttpError::body(BAD_FORMAT_TEXT, String::new(), e.to_string());
            if e.line() == 0 { error } else { error.with_place(e.line(), e.column().max(1)) }
        };
        let of_list = |what: &str| HttpError::body(BAD_FORMAT_TEXT, String::new(), what.to_owned());
        let value = serde_json::from_slice::<Value>(bytes).map_err(malformed)?;
        match (format, value) {
            (Media::JsonPatch, Value::Array(items)) if items.len() > MAX_OPERATIONS => {
                Err(of_list(&format!("the patch has more than {MAX_OPERATIONS} operations; send several patches")))
            }
            (Media::JsonPatch, Value::Array(items)) => {
                let operations = items.into_iter().enumerate().map(|(position, item)| {
                    serde_json::from_value(item).map_err(|e| {
                        HttpError::body(
                            BAD_FORMAT_TEXT,
                            format!("[{position}]"),
                            format!("this is not an operation: {e}"),
                        )
                    })
                });
                Ok(Self::Operations(operations.collect::<Result<_, _>>()?))
            }
            (Media::JsonPatch, _) => Err(of_list("a JSON patch is a list of operations")),
            (_, merged @ Value::Object(_)) => Ok(Self::Merge(merged)),
            _ => Err(of_list("a merge patch is an object")),
        }
    }

    /// Changes a document. After an error, the document is in an undefined state.
    ///
    /// # Errors
    /// 409: a test that fails, or a path that the document does not have. 400: a limit.
    pub(super) fn apply(&self, document: &mut Value) -> Result<(), HttpError> {
        match self {
            Self::Merge(patch) => {
                merge(document, patch);
                Ok(())
            }
            Self::Operations(operations) => {
                let mut left = MAX_MOVED_BYTES;
                for (position, operation) in operations.iter().enumerate() {
                    check(document, operation, &mut left)
                        .map_err(|limit| fault(ErrorKind::Head, position, operation, &limit))?;
                    patch_unsafe(document, std::slice::from_ref(operation)).map_err(|e| {
                        let why = match e.kind {
                            PatchErrorKind::TestFailed => "the value is another one",
                            PatchErrorKind::InvalidFromPointer => "the resource has nothing at \"from\"",
                            PatchErrorKind::CannotMoveInsideItself => "a value cannot move into itself",
                            _ => "the resource does not have the path",
                        };
                        fault(ErrorKind::Patch, position, operation, why)
                    })?;
                }
                Ok(())
            }
        }
    }
}

/// Checks an operation against the limits; takes the bytes that it copies or moves from those that are left.
fn check(document: &Value, operation: &PatchOperation, left: &mut usize) -> Result<(), String> {
    let (value, from) = match operation {
        PatchOperation::Add(add) => (Some(&add.value), None),
        PatchOperation::Replace(replace) => (Some(&replace.value), None),
        PatchOperation::Copy(copy) => (None, Some(copy.from.as_str())),
        PatchOperation::Move(moved) => (None, Some(moved.from.as_str())),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => (None, None),
    };
    let moved = from.and_then(|from| document.pointer(from));
    let Some(value) = value.or(moved) else { return Ok(()) };
    let mut pending = vec![(value, operation.path().as_str().matches('/').count())];
    let mut bytes = 0_usize;
    while let Some((value, depth)) = pending.pop() {
        bytes += VALUE_BYTES + value.as_str().map_or(0, str::len);
        if depth > MAX_DEPTH {
            return Err(format!("the resource would be more than {MAX_DEPTH} levels deep"));
        }
        if moved.is_some() && bytes > *left {
            return Err(format!("the patch copies or moves more than {MAX_MOVED_BYTES} bytes; replace values instead"));
        }
        match value {
            Value::Array(items) => pending.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(entries) => {
                bytes += entries.keys().map(String::len).sum::<usize>();
                pending.extend(entries.values().map(|item| (item, depth + 1)));
            }
            _ => {}
        }
    }
    if moved.is_some() {
        *left = left.saturating_sub(bytes);
    }
    Ok(())
}

fn fault(kind: ErrorKind, position: usize, operation: &PatchOperation, why: &str) -> HttpError {
    let name = match operation {
        PatchOperation::Add(_) => "add",
        PatchOperation::Remove(_) => "remove",
        PatchOperation::Replace(_) => "replace",
        PatchOperation::Move(_) => "move",
        PatchOperation::Copy(_) => "copy",
        PatchOperation::Test(_) => "test",
    };
    let pointer = operation.path().as_str();
    let what = format!("operation {position} ({name} {pointer}): {why}; nothing has changed");
    HttpError::new(kind, what).with_violation(path(pointer), why.to_owned())
}

/// The path of a field by a pointer.
fn path(pointer: &str) -> String {
    let steps = pointer.split('/').skip(1).map(|token| match token.parse() {
        Ok(index) => PathStep::Index(index),
        Err(_) => PathStep::Field(token.replace("~1", "/").replace("~0", "~")),
    });
    FieldPath(steps.collect()).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(format: Media, document: Value, patch: &Value) -> Result<Value, HttpError> {
        let mut document = document;
        Patch::parse(format, patch.to_string().as_bytes())?.apply(&mut document)?;
        Ok(document)
    }

    #[test]
    fn merge_patches_follow_the_examples_of_rfc_7396() {
        for (document, patch, wanted) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [1, 2]}), json!({"a": [3]}), json!({"a": [3]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            assert_eq!(patched(Media::MergePatch, document, &patch).unwrap(), wanted, "{patch}");
        }
        for patch in [json!([1]), json!("x"), json!(null)] {
            assert!(patched(Media::MergePatch, json!({}), &patch).is_err(), "{patch}");
        }
    }

    #[test]
    fn operations_follow_rfc_6902() {
        let document = json!({"a": {"b": [1, 2]}, "c/d": 1, "e~f": 2});
        for (operation, wanted) in [
            (json!({"op": "add", "path": "/a/b/-", "value": 3}), Some(json!([1, 2, 3]))),
            (json!({"op": "add", "path": "/a/b/0", "value": 3}), Some(json!([3, 1, 2]))),
            (json!({"op": "remove", "path": "/a/b/0"}), Some(json!([2]))),
            (json!({"op": "replace", "path": "/a/b", "value": []}), Some(json!([]))),
            (json!({"op": "copy", "from": "/c~1d", "path": "/a/b"}), Some(json!(1))),
            (json!({"op": "move", "from": "/e~0f", "path": "/a/b"}), Some(json!(2))),
            (json!({"op": "test", "path": "/a/b/1", "value": 2}), Some(json!([1, 2]))),
            (json!({"op": "test", "path": "/a/b/1", "value": 3}), None),
            (json!({"op": "add", "path": "/a/b/3", "value": 3}), None),
            (json!({"op": "remove", "path": "/x"}), None),
            (json!({"op": "replace", "path": "/x", "value": 1}), None),
            (json!({"op": "copy", "from": "/x", "path": "/a/b"}), None),
            (json!({"op": "move", "from": "/a", "path": "/a/b"}), None),
        ] {
            let found = patched(Media::JsonPatch, document.clone(), &json!([operation]));
            assert_eq!(found.ok().map(|found| found["a"]["b"].clone()), wanted, "{operation}");
        }
        for patch in
            [json!({}), json!([{"op": "nope", "path": "/a"}]), json!([{"op": "add", "path": "/a"}]), json!([1])]
        {
            assert!(patched(Media::JsonPatch, document.clone(), &patch).is_err(), "{patch}");
        }
    }

    /// Without a limit, these patches would make documents without end.
    #[test]
    fn copies_and_depth_are_bounded() {
        let doubling = vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 64];
        assert!(patched(Media::JsonPatch, json!({"a": [1]}), &json!(doubling)).is_err());
        let text = "x".repeat(MAX_MOVED_BYTES / 10);
        let copies = |count| vec![json!({"op": "copy", "from": "/a", "path": "/b/-"}); count];
        let of_texts = |count| patched(Media::JsonPatch, json!({"a": text, "b": []}), &json!(copies(count)));
        assert!(of_texts(9).is_ok() && of_texts(10).is_err(), "texts count by their bytes");
        let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
        let nesting = vec![
            json!({"op": "add", "path": "/a/0", "value": deep}),
            json!({"op": "move", "from": "/a", "path": "/b/0"}),
        ];
        let document = || json!({"a": [], "b": [[]]});
        assert!(patched(Media::JsonPatch, document(), &json!(nesting)).is_ok());
        let (from, to) = (format!("/a{}", "/0".repeat(90)), format!("/a{}", "/0".repeat(120)));
        let deeper = [&nesting[0], &json!({"op": "copy", "from": from, "path": "/c"})];
        assert!(patched(Media::JsonPatch, document(), &json!(deeper)).is_ok());
        let too_deep = json!([nesting[0], {"op": "copy", "from": "/a", "path": format!("/a{}", "/0".repeat(99))}]);
        assert!(patched(Media::JsonPatch, document(), &too_deep).is_err(), "{to}");
        let many = vec![json!({"op": "test", "path": "/a", "value": []}); MAX_OPERATIONS + 1];
        assert!(patched(Media::JsonPatch, document(), &json!(many)).is_err());
    }
}
