//! Descriptors of a plugin's manifest, counted, built and checked.
//!
//! # Limits
//! A plugin has at most [`MAX_FILES`] files, [`MAX_DECLARATIONS`] messages, fields, enums, values and the like in all,
//! and messages declared within messages at most [`MAX_DEPTH`] deep. Only these counts bound the length of a chain of
//! messages that hold each other or of files that import each other, so later readers must not recurse along one. In
//! bytes, descriptors are part of an answer (`sandbox.reply_bytes`).
//!
//! The library that builds them accepts descriptors that no compiler of protocol buffers would write, while later
//! readers rely on compilers: a reader of a map asks its entry for a key and a value, and panics if one is missing;
//! names end up in JSON, in tables and in paths of fields. So this module refuses such descriptors before they are
//! used.

use mortise_resource::descriptors::FileDescriptorSet;
use prost::Message as _;
use prost_reflect::{Cardinality, DescriptorPool, Kind, MessageDescriptor};
use prost_types::EnumDescriptorProto;

use crate::manifest::error::ManifestError;

/// Most files of one plugin.
const MAX_FILES: usize = 1_024;

/// Most declarations of one plugin: a file takes up to a KB of memory for each.
const MAX_DECLARATIONS: usize = 65_536;

/// Deepest nesting of messages declared within messages.
const MAX_DEPTH: usize = 32;

/// The library refuses the files.
#[derive(Debug, thiserror::Error)]
#[error("{0}; give whole files with their imports, in dependency order")]
struct PoolError(#[source] prost_reflect::DescriptorError);

/// Builds a pool of the plugin's files on top of the well-known ones.
///
/// # Errors
/// The fault in the files, and the next step.
pub(crate) fn pool(files: &FileDescriptorSet) -> Result<DescriptorPool, ManifestError> {
    if files.file.len() > MAX_FILES {
        let fault =
            format!("at most {MAX_FILES} files, got: {}; merge files, or leave out unused ones", files.file.len());
        return Err(ManifestError::new(fault));
    }
    count(&files.decoded().map_err(ManifestError::caused_by)?)?;
    // The descriptors are not trusted, and the library that reads them is large: if it panics, only this plugin is
    // affected.
    let built = std::panic::catch_unwind(|| {
        let mut pool = DescriptorPool::global();
        pool.decode_file_descriptor_set(files.encode_to_vec().as_slice()).map(|()| pool)
    });
    match built {
        Ok(Ok(pool)) => check(&pool).map(|()| pool),
        Ok(Err(source)) => Err(ManifestError::caused_by(PoolError(source))),
        Err(_) => Err(ManifestError::new("cannot be read; build them with protoc, buf or protox")),
    }
}

/// Refuses more declarations than a plugin may have, before the pool is built.
fn count(files: &prost_types::FileDescriptorSet) -> Result<(), ManifestError> {
    let mut declarations = 0;
    let values =
        |enums: &[EnumDescriptorProto]| enums.iter().map(|enumeration| 1 + enumeration.value.len()).sum::<usize>();
    let mut open = Vec::new();
    for file in &files.file {
        let methods: usize = file.service.iter().map(|service| 1 + service.method.len()).sum();
        declarations += values(&file.enum_type) + file.extension.len() + methods;
        open.extend(file.message_type.iter().map(|message| (message, 1)));
    }
    while let Some((message, depth)) = open.pop() {
        if depth > MAX_DEPTH {
            let name = message.name();
            let fault =
                format!("message {name:?} is declared more than {MAX_DEPTH} deep; declare it at the top of its file");
            return Err(ManifestError::new(fault));
        }
        declarations += 1 + message.field.len() + message.oneof_decl.len() + message.extension.len();
        declarations += values(&message.enum_type);
        open.extend(message.nested_type.iter().map(|nested| (nested, depth + 1)));
    }
    if declarations > MAX_DECLARATIONS {
        let fault = format!(
            "at most {MAX_DECLARATIONS} messages, fields, enums and values in all, got: {declarations}; leave out what no type uses"
        );
        return Err(ManifestError::new(fault));
    }
    Ok(())
}

/// Checks properties that the library does not check.
fn check(pool: &DescriptorPool) -> Result<(), ManifestError> {
    for file in pool.files() {
        let package = file.package_name();
        if !package.is_empty() && !package.split('.').all(is_identifier) {
            let fault = format!("package must be identifiers joined by dots, got: {package:?}");
            return Err(ManifestError::new(fault).at(format!("file {:?}", file.name())));
        }
    }
    for message in pool.all_messages() {
        named("message", message.name(), message.full_name())?;
        for field in message.fields() {
            named("field", field.name(), field.full_name())?;
        }
        for oneof in message.oneofs() {
            named("oneof", oneof.name(), oneof.full_name())?;
        }
        if message.is_map_entry() {
            check_map_entry(&message)?;
        }
    }
    for enumeration in pool.all_enums() {
        named("enum", enumeration.name(), enumeration.full_name())?;
        for value in enumeration.values() {
            named("enum value", value.name(), value.full_name())?;
        }
    }
    for extension in pool.all_extensions() {
        named("extension", extension.name(), extension.full_name())?;
    }
    for service in pool.services() {
        named("service", service.name(), service.full_name())?;
        for method in service.methods() {
            named("method", method.name(), method.full_name())?;
        }
    }
    Ok(())
}

fn named(what: &str, name: &str, full_name: &str) -> Result<(), ManifestError> {
    if is_identifier(name) {
        return Ok(());
    }
    let fault = format!("its name must match ^[A-Za-z_][A-Za-z\\d_]*$, got: {name:?}");
    Err(ManifestError::new(fault).at(format!("{what} {full_name:?}")))
}

fn is_identifier(s: &str) -> bool {
    let tail = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    matches!(s.as_bytes(), [first, rest @ ..] if (first.is_ascii_alphabetic() || *first == b'_') && rest.iter().all(tail))
}

/// Checks that the entry of a map is what `map<KEY, VALUE>` compiles to: `key` = 1 and `value` = 2, one of each, and no
/// other field.
fn check_map_entry(entry: &MessageDescriptor) -> Result<(), ManifestError> {
    let bad = |what: String| {
        let fault = format!("as the entry of a map it {what}; declare a map<KEY, VALUE> instead of the entry");
        Err(ManifestError::new(fault).at(format!("message {}", entry.full_name())))
    };
    for (number, name) in [(1, "key"), (2, "value")] {
        match entry.get_field(number) {
            None => return bad(format!("lacks the field {name} = {number}")),
            Some(field) if field.name() != name => {
                return bad(format!("must call its field {number} {name}, got: {:?}", field.name()));
            }
            Some(field) if field.cardinality() == Cardinality::Repeated => {
                return bad(format!("must have one {name}, and its field {name} is repeated"));
            }
            Some(field) if number == 1 && !is_key(&field.kind()) => {
                let kind = field.kind();
                return bad(format!("must have a key of an integer, bool or string, and its field key is {kind:?}"));
            }
            Some(_) => {}
        }
    }
    match entry.fields().find(|field| field.number() > 2) {
        Some(more) => bad(format!("must have the fields key and value alone, and it has {:?}", more.name())),
        None => Ok(()),
    }
}

fn is_key(kind: &Kind) -> bool {
    !matches!(kind, Kind::Double | Kind::Float | Kind::Bytes | Kind::Message(_) | Kind::Enum(_))
}

#[cfg(test)]
mod tests {
    use prost_types::{
        DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
        MessageOptions, OneofDescriptorProto,
        field_descriptor_proto::{Label, Type},
    };

    use super::*;

    fn field(name: &str, number: i32, label: Label, kind: Type, type_name: &str) -> FieldDescriptorProto {
        FieldDescriptorProto {
            name: Some(name.into()),
            number: Some(number),
            label: Some(label.into()),
            r#type: Some(kind.into()),
            type_name: (!type_name.is_empty()).then(|| type_name.into()),
            ..FieldDescriptorProto::default()
        }
    }

    fn one(name: &str, number: i32, kind: Type) -> FieldDescriptorProto {
        field(name, number, Label::Optional, kind, "")
    }

    /// A file with the message `demo.Thing`, an enum and a oneof, all valid.
    fn file() -> FileDescriptorProto {
        let zero = EnumValueDescriptorProto {
            name: Some("NONE".into()),
            number: Some(0),
            ..EnumValueDescriptorProto::default()
        };
        let type_name =
            EnumDescriptorProto { name: Some("Colour".into()), value: vec![zero], ..EnumDescriptorProto::default() };
        let mut chosen = one("name", 1, Type::String);
        chosen.oneof_index = Some(0);
        let message = DescriptorProto {
            name: Some("Thing".into()),
            field: vec![chosen, one("_size2", 2, Type::Int32)],
            oneof_decl: vec![OneofDescriptorProto { name: Some("which".into()), ..OneofDescriptorProto::default() }],
            enum_type: vec![type_name],
            ..DescriptorProto::default()
        };
        FileDescriptorProto {
            name: Some("demo/thing.proto".into()),
            package: Some("demo.v1".into()),
            syntax: Some("proto3".into()),
            message_type: vec![message],
            ..FileDescriptorProto::default()
        }
    }

    /// The fault in the file after a change.
    fn with(change: impl FnOnce(&mut FileDescriptorProto)) -> Result<(), String> {
        let mut file = file();
        change(&mut file);
        pool(&prost_types::FileDescriptorSet { file: vec![file] }.into()).map(drop).map_err(|e| e.to_string())
    }

    /// The fault in a map of `demo.v1.Thing` whose entry has these fields.
    fn map_of(entry: Vec<FieldDescriptorProto>) -> Result<(), String> {
        with(|file| {
            let thing = &mut file.message_type[0];
            thing.field.push(field("x", 20, Label::Repeated, Type::Message, ".demo.v1.Thing.XEntry"));
            thing.nested_type.push(DescriptorProto {
                name: Some("XEntry".into()),
                field: entry,
                options: Some(MessageOptions { map_entry: Some(true), ..MessageOptions::default() }),
                ..DescriptorProto::default()
            });
        })
    }

    #[track_caller]
    fn refused(entry: Vec<FieldDescriptorProto>, why: &str) {
        let fault = map_of(entry).unwrap_err();
        assert!(fault.starts_with("message demo.v1.Thing.XEntry: as the entry of a map it "), "{fault}");
        assert!(fault.contains(why), "{fault}");
    }

    #[test]
    fn the_entry_of_a_map_has_one_key_and_one_value() {
        let value = || one("value", 2, Type::String);
        refused(vec![], "lacks the field key = 1");
        refused(vec![value()], "lacks the field key = 1");
        refused(vec![one("key", 1, Type::String)], "lacks the field value = 2");
        refused(vec![one("value", 1, Type::String), one("key", 2, Type::String)], "must call its field 1 key");
        refused(vec![one("key", 1, Type::String), one("val", 2, Type::String)], "must call its field 2 value");
        let many = |name, number| field(name, number, Label::Repeated, Type::String, "");
        refused(vec![many("key", 1), value()], "its field key is repeated");
        refused(vec![one("key", 1, Type::String), many("value", 2)], "its field value is repeated");
        let more = one("more", 3, Type::Bool);
        refused(vec![one("key", 1, Type::String), value(), more], "alone, and it has \"more\"");
    }

    #[test]
    fn the_key_of_a_map_is_an_integer_a_bool_or_a_string() {
        let integers = [
            Type::Int32,
            Type::Int64,
            Type::Uint32,
            Type::Uint64,
            Type::Sint32,
            Type::Sint64,
            Type::Fixed32,
            Type::Fixed64,
            Type::Sfixed32,
            Type::Sfixed64,
        ];
        let value = || field("value", 2, Label::Optional, Type::Message, ".demo.v1.Thing");
        for kind in integers.into_iter().chain([Type::Bool, Type::String]) {
            assert_eq!(map_of(vec![one("key", 1, kind), value()]), Ok(()), "{kind:?}");
        }
        for (kind, type_name, says) in [
            (Type::Bytes, "", "its field key is bytes"),
            (Type::Float, "", "its field key is float"),
            (Type::Double, "", "its field key is double"),
            (Type::Message, ".demo.v1.Thing", "its field key is demo.v1.Thing"),
            (Type::Enum, ".demo.v1.Thing.Colour", "its field key is demo.v1.Thing.Colour"),
            // The type name decides, not the declared type.
            (Type::String, ".demo.v1.Thing", "its field key is demo.v1.Thing"),
        ] {
            refused(vec![field("key", 1, Label::Optional, kind, type_name), value()], says);
        }
    }

    #[test]
    fn every_name_is_an_identifier() {
        assert_eq!(with(|_| {}), Ok(()));
        for bad in ["", "a.b\"\n", "1a", "a-b", "ä", "a b"] {
            let name = || Some(bad.to_owned());
            for (what, result) in [
                ("message", with(|file| file.message_type[0].name = name())),
                ("field", with(|file| file.message_type[0].field[0].name = name())),
                ("oneof", with(|file| file.message_type[0].oneof_decl[0].name = name())),
                ("enum", with(|file| file.message_type[0].enum_type[0].name = name())),
                ("enum value", with(|file| file.message_type[0].enum_type[0].value[0].name = name())),
            ] {
                let fault = result.unwrap_err();
                assert!(fault.starts_with(&format!("{what} \"demo.v1.")), "{fault}");
                assert!(
                    fault.ends_with(&format!("its name must match ^[A-Za-z_][A-Za-z\\d_]*$, got: {bad:?}")),
                    "{fault}"
                );
            }
            if !bad.is_empty() {
                let fault = with(|file| file.package = Some(format!("demo.{bad}"))).unwrap_err();
                assert!(fault.starts_with("file \"demo/thing.proto\": package must be identifiers"), "{fault}");
            }
        }
    }

    #[test]
    fn what_a_plugin_declares_is_bounded() {
        let enum_of = |values: usize| EnumDescriptorProto {
            name: Some("Many".into()),
            value: (0..values)
                .map(|n| EnumValueDescriptorProto {
                    name: Some(format!("V{n}")),
                    number: Some(i32::try_from(n).unwrap()),
                    ..EnumValueDescriptorProto::default()
                })
                .collect(),
            ..EnumDescriptorProto::default()
        };
        // The rest of the file declares seven: a message, two fields, a oneof, an enum with a value, and the enum
        // itself.
        assert_eq!(with(|file| file.enum_type.push(enum_of(MAX_DECLARATIONS - 7))), Ok(()));
        let text = with(|file| file.enum_type.push(enum_of(MAX_DECLARATIONS - 6))).unwrap_err();
        assert!(text.starts_with("at most 65536 messages, fields") && text.contains("got: 65537"), "{text}");

        let nested = |depth: usize| {
            let mut message = DescriptorProto { name: Some("Deep".into()), ..DescriptorProto::default() };
            for _ in 1..depth {
                message = DescriptorProto {
                    nested_type: vec![message],
                    name: Some("Deep".into()),
                    ..DescriptorProto::default()
                };
            }
            message
        };
        assert_eq!(with(|file| file.message_type.push(nested(MAX_DEPTH))), Ok(()));
        let fault = with(|file| file.message_type.push(nested(MAX_DEPTH + 1))).unwrap_err();
        assert!(fault.contains("declared more than 32 deep"), "{fault}");

        let files = |count: usize| {
            let file = (0..count).map(|n| FileDescriptorProto {
                name: Some(format!("f{n}.proto")),
                dependency: n.checked_sub(1).map(|before| format!("f{before}.proto")).into_iter().collect(),
                ..FileDescriptorProto::default()
            });
            pool(&prost_types::FileDescriptorSet { file: file.collect() }.into()).map(drop).map_err(|e| e.to_string())
        };
        assert_eq!(files(MAX_FILES), Ok(()));
        assert!(files(MAX_FILES + 1).unwrap_err().starts_with("at most 1024 files, got: 1025"));
    }
}
