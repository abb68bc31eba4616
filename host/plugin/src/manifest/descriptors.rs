//! The descriptors in a plugin's manifest, built and checked.
//!
//! The library that builds them takes what no compiler of protocol buffers would write, and later readers rely on what one
//! writes: whoever meets a map asks its entry for a key and a value, and gets a panic where there is none; names end up in
//! JSON, in tables and in paths of fields. So that is refused here, before anyone reads it.

use prost_reflect::{Cardinality, DescriptorPool, Kind, MessageDescriptor};
use prost_types::FileDescriptorSet;

/// A pool of the plugin's files on top of the well-known ones.
///
/// # Errors
/// What is wrong with them, and what to do.
pub(crate) fn pool(files: FileDescriptorSet) -> Result<DescriptorPool, String> {
    // The descriptors come from a stranger, and the library that reads them is large: should it panic, only this plugin
    // may notice.
    let built = std::panic::catch_unwind(move || {
        let mut pool = DescriptorPool::global();
        pool.add_file_descriptor_protos(files.file).map(|()| pool)
    });
    match built {
        Ok(Ok(pool)) => check(&pool).map(|()| pool),
        Ok(Err(e)) => Err(format!("{e}; give whole files with their imports, in dependency order")),
        Err(_) => Err("cannot be read; build them with protoc, buf or protox".into()),
    }
}

/// Checks what the library does not.
fn check(pool: &DescriptorPool) -> Result<(), String> {
    for file in pool.files() {
        let package = file.package_name();
        if !package.is_empty() && !package.split('.').all(is_identifier) {
            return Err(format!(
                "file {:?}: package must be identifiers joined by dots, got: {package:?}",
                file.name()
            ));
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
    for of in pool.all_enums() {
        named("enum", of.name(), of.full_name())?;
        for value in of.values() {
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

fn named(what: &str, name: &str, full_name: &str) -> Result<(), String> {
    if is_identifier(name) {
        return Ok(());
    }
    Err(format!("{what} {full_name:?}: its name must match ^[A-Za-z_][A-Za-z\\d_]*$, got: {name:?}"))
}

fn is_identifier(s: &str) -> bool {
    let tail = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    matches!(s.as_bytes(), [first, rest @ ..] if (first.is_ascii_alphabetic() || *first == b'_') && rest.iter().all(tail))
}

/// Holds the entry of a map to what `map<KEY, VALUE>` becomes: `key` = 1 and `value` = 2, one of each, and nothing else.
fn check_map_entry(entry: &MessageDescriptor) -> Result<(), String> {
    let bad = |what: String| {
        let name = entry.full_name();
        Err(format!("message {name}: as the entry of a map it {what}; declare a map<KEY, VALUE> instead of the entry"))
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

    fn field(name: &str, number: i32, label: Label, kind: Type, of: &str) -> FieldDescriptorProto {
        FieldDescriptorProto {
            name: Some(name.into()),
            number: Some(number),
            label: Some(label.into()),
            r#type: Some(kind.into()),
            type_name: (!of.is_empty()).then(|| of.into()),
            ..FieldDescriptorProto::default()
        }
    }

    fn one(name: &str, number: i32, kind: Type) -> FieldDescriptorProto {
        field(name, number, Label::Optional, kind, "")
    }

    /// A file with the message `demo.Thing`, an enum and a oneof, each as they should be.
    fn file() -> FileDescriptorProto {
        let zero = EnumValueDescriptorProto {
            name: Some("NONE".into()),
            number: Some(0),
            ..EnumValueDescriptorProto::default()
        };
        let of =
            EnumDescriptorProto { name: Some("Colour".into()), value: vec![zero], ..EnumDescriptorProto::default() };
        let mut chosen = one("name", 1, Type::String);
        chosen.oneof_index = Some(0);
        let message = DescriptorProto {
            name: Some("Thing".into()),
            field: vec![chosen, one("_size2", 2, Type::Int32)],
            oneof_decl: vec![OneofDescriptorProto { name: Some("which".into()), ..OneofDescriptorProto::default() }],
            enum_type: vec![of],
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

    /// What is said about the file with something changed in it.
    fn with(change: impl FnOnce(&mut FileDescriptorProto)) -> Result<(), String> {
        let mut file = file();
        change(&mut file);
        pool(FileDescriptorSet { file: vec![file] }).map(drop)
    }

    /// What is said about a map in `demo.v1.Thing` whose entry has these fields.
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
        let said = map_of(entry).unwrap_err();
        assert!(said.starts_with("message demo.v1.Thing.XEntry: as the entry of a map it "), "{said}");
        assert!(said.contains(why), "{said}");
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
        for (kind, of, says) in [
            (Type::Bytes, "", "its field key is bytes"),
            (Type::Float, "", "its field key is float"),
            (Type::Double, "", "its field key is double"),
            (Type::Message, ".demo.v1.Thing", "its field key is demo.v1.Thing"),
            (Type::Enum, ".demo.v1.Thing.Colour", "its field key is demo.v1.Thing.Colour"),
            // What it says of itself does not count.
            (Type::String, ".demo.v1.Thing", "its field key is demo.v1.Thing"),
        ] {
            refused(vec![field("key", 1, Label::Optional, kind, of), value()], says);
        }
    }

    #[test]
    fn every_name_is_an_identifier() {
        assert_eq!(with(|_| {}), Ok(()));
        for bad in ["", "a.b\"\n", "1a", "a-b", "ä", "a b"] {
            let name = || Some(bad.to_owned());
            for (what, said) in [
                ("message", with(|file| file.message_type[0].name = name())),
                ("field", with(|file| file.message_type[0].field[0].name = name())),
                ("oneof", with(|file| file.message_type[0].oneof_decl[0].name = name())),
                ("enum", with(|file| file.message_type[0].enum_type[0].name = name())),
                ("enum value", with(|file| file.message_type[0].enum_type[0].value[0].name = name())),
            ] {
                let said = said.unwrap_err();
                assert!(said.starts_with(&format!("{what} \"demo.v1.")), "{said}");
                assert!(
                    said.ends_with(&format!("its name must match ^[A-Za-z_][A-Za-z\\d_]*$, got: {bad:?}")),
                    "{said}"
                );
            }
            if !bad.is_empty() {
                let said = with(|file| file.package = Some(format!("demo.{bad}"))).unwrap_err();
                assert!(said.starts_with("file \"demo/thing.proto\": package must be identifiers"), "{said}");
            }
        }
    }
}
