//! Values as MessagePack, the form on the wire.

use std::collections::BTreeMap;

use rmpv::Value as Packed;

use super::{MAX_DEPTH, Number, Refinements, Step, Type, Value, ValueError};

/// The extension of an unknown value without refinements.
const UNKNOWN_EXTENSION: i8 = 0;
/// The extension of an unknown value with refinements.
const REFINED_EXTENSION: i8 = 12;
/// Most bytes of refinements.
const MAX_REFINEMENT_BYTES: usize = 1_024;

/// Keys of refinements.
const IS_NULL: u64 = 1;
const PREFIX: u64 = 2;
const LOWER: u64 = 3;
const UPPER: u64 = 4;
const MIN_LENGTH: u64 = 5;
const MAX_LENGTH: u64 = 6;

type Read = Result<Value, ValueError>;

/// Decodes a value of a type. No bytes may follow it.
///
/// # Errors
/// The bytes are not MessagePack, or not a value of the type.
pub fn decode(mut bytes: &[u8], value_type: &Type) -> Read {
    // A level of a dynamic value takes two levels of MessagePack.
    let packed = rmpv::decode::read_value_with_max_depth(&mut bytes, 2 * MAX_DEPTH + 2)
        .map_err(|e| ValueError::new(format!("it is not MessagePack: {e}")))?;
    if !bytes.is_empty() {
        return Err(ValueError::new("bytes follow the value"));
    }
    value(packed, value_type, MAX_DEPTH)
}

fn value(packed: Packed, value_type: &Type, depth: usize) -> Read {
    let depth = depth.checked_sub(1).ok_or_else(|| ValueError::new("it is nested too deep"))?;
    match packed {
        Packed::Nil => return Ok(Value::Null),
        Packed::Ext(kind, bytes) => return unknown(kind, &bytes),
        _ => {}
    }
    match (value_type, packed) {
        (Type::Bool, Packed::Boolean(value)) => Ok(Value::Bool(value)),
        (Type::String, Packed::String(text)) => self::text(text).map(Value::String),
        (Type::Number, packed) => number(&packed).map(Value::Number),
        (Type::List(element) | Type::Set(element), Packed::Array(items)) => {
            let item = |(index, packed)| value(packed, element, depth).map_err(|e| e.within(Step::Index(index)));
            items.into_iter().enumerate().map(item).collect::<Result<_, _>>().map(Value::List)
        }
        (Type::Tuple(elements), Packed::Array(items)) if elements.len() == items.len() => {
            let item = |(index, (packed, value_type))| {
                value(packed, value_type, depth).map_err(|e| e.within(Step::Index(index)))
            };
            items.into_iter().zip(elements).enumerate().map(item).collect::<Result<_, _>>().map(Value::List)
        }
        (Type::Map(element), Packed::Map(entries)) => {
            let entry = |(key, packed)| {
                let key = name(key)?;
                let value = value(packed, element, depth).map_err(|e| e.within(Step::Key(key.clone())))?;
                Ok((key, value))
            };
            entries.into_iter().map(entry).collect::<Result<_, _>>().map(Value::Map)
        }
        (Type::Object(attribute_types), Packed::Map(entries)) => object(entries, attribute_types, depth),
        (Type::Dynamic, Packed::Array(parts)) => match <[Packed; 2]>::try_from(parts) {
            Ok([Packed::Binary(type_bytes), packed]) => {
                let inner = Type::from_bytes(&type_bytes).map_err(|e| ValueError::new(e.to_string()))?;
                let value = value(packed, &inner, depth)?;
                Ok(Value::Dynamic(inner, Box::new(value)))
            }
            _ => Err(ValueError::new("a dynamic value must be its type and the value")),
        },
        (value_type, packed) => {
            Err(ValueError::new(format!("expected {}, found {}", type_name(value_type), kind_name(&packed))))
        }
    }
}

fn object(entries: Vec<(Packed, Packed)>, attribute_types: &BTreeMap<String, Type>, depth: usize) -> Read {
    let mut attributes = BTreeMap::new();
    for (key, packed) in entries {
        let name = name(key)?;
        let kind =
            attribute_types.get(&name).ok_or_else(|| ValueError::new(format!("there is no attribute {name:?}")))?;
        let value = value(packed, kind, depth).map_err(|e| e.within(Step::Attribute(name.clone())))?;
        attributes.insert(name, value);
    }
    match attribute_types.keys().find(|name| !attributes.contains_key(*name)) {
        Some(missing) => Err(ValueError::new(format!("the attribute {missing:?} is missing"))),
        None => Ok(Value::Map(attributes)),
    }
}

fn text(text: rmpv::Utf8String) -> Result<String, ValueError> {
    text.into_str().ok_or_else(|| ValueError::new("the text is not UTF-8"))
}

fn name(key: Packed) -> Result<String, ValueError> {
    match key {
        Packed::String(key) => text(key),
        other => Err(ValueError::new(format!("a key must be a text, found {}", kind_name(&other)))),
    }
}

fn number(packed: &Packed) -> Result<Number, ValueError> {
    let found = match packed {
        Packed::Integer(number) => number.as_i64().map(Number::from).or_else(|| number.as_u64().map(Number::from)),
        Packed::F32(number) => Number::from_f32(*number),
        Packed::F64(number) => Number::from_f64(*number),
        Packed::String(text) => text.as_str().and_then(|text| text.parse().ok()),
        _ => None,
    };
    found.ok_or_else(|| ValueError::new(format!("expected a number, found {}", kind_name(packed))))
}

/// An extension of at most a byte is an unknown value, of any kind.
fn unknown(kind: i8, bytes: &[u8]) -> Read {
    match kind {
        _ if bytes.len() <= 1 => Ok(Value::unknown()),
        REFINED_EXTENSION if bytes.len() <= MAX_REFINEMENT_BYTES => refinements(bytes).map(Value::Unknown),
        _ => Err(ValueError::new(format!("the extension {kind} of {} bytes is not an unknown value", bytes.len()))),
    }
}

fn refinements(mut bytes: &[u8]) -> Result<Refinements, ValueError> {
    let wrong = || ValueError::new("the refinements of an unknown value cannot be read");
    let read = rmpv::decode::read_value_with_max_depth(&mut bytes, 8).map_err(|_| wrong())?;
    let Packed::Map(entries) = read else { return Err(wrong()) };
    let bound = |packed: &Packed| -> Option<(Number, bool)> {
        let [number, inclusive] = packed.as_array()?.as_slice() else { return None };
        Some((self::number(number).ok()?, inclusive.as_bool()?))
    };
    let mut found = Refinements::default();
    for (key, packed) in &entries {
        // Unknown keys belong to later versions.
        match key.as_u64() {
            Some(IS_NULL) => found.is_null = Some(packed.as_bool().ok_or_else(wrong)?),
            Some(PREFIX) => found.prefix = Some(packed.as_str().ok_or_else(wrong)?.to_owned()),
            Some(LOWER) => found.lower = Some(bound(packed).ok_or_else(wrong)?),
            Some(UPPER) => found.upper = Some(bound(packed).ok_or_else(wrong)?),
            Some(MIN_LENGTH) => found.min_length = Some(packed.as_u64().ok_or_else(wrong)?),
            Some(MAX_LENGTH) => found.max_length = Some(packed.as_u64().ok_or_else(wrong)?),
            _ => {}
        }
    }
    Ok(found)
}

fn type_name(value_type: &Type) -> &'static str {
    match value_type {
        Type::String => "a text",
        Type::Number => "a number",
        Type::Bool => "a bool",
        Type::Dynamic => "a value with its type",
        Type::List(_) | Type::Set(_) => "a list",
        Type::Map(_) => "a map",
        Type::Object(_) => "an object",
        Type::Tuple(_) => "a list of a fixed length",
    }
}

fn kind_name(packed: &Packed) -> &'static str {
    match packed {
        Packed::Nil => "null",
        Packed::Boolean(_) => "a bool",
        Packed::Integer(_) | Packed::F32(_) | Packed::F64(_) => "a number",
        Packed::String(_) => "a text",
        Packed::Binary(_) => "bytes",
        Packed::Array(_) => "a list",
        Packed::Map(_) => "a map",
        Packed::Ext(..) => "an extension",
    }
}

/// Encodes a value.
#[must_use]
pub fn encode(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Writes to memory do not fail.
    let _ = rmpv::encode::write_value(&mut bytes, &pack(value));
    bytes
}

fn pack(value: &Value) -> Packed {
    match value {
        Value::Null => Packed::Nil,
        Value::Unknown(refinements) => pack_unknown(refinements),
        Value::Bool(value) => Packed::Boolean(*value),
        Value::Number(number) => pack_number(number),
        Value::String(text) => Packed::from(text.as_str()),
        Value::List(items) => Packed::Array(items.iter().map(pack).collect()),
        Value::Map(entries) => {
            Packed::Map(entries.iter().map(|(key, value)| (Packed::from(key.as_str()), pack(value))).collect())
        }
        Value::Dynamic(value_type, value) => Packed::Array(vec![Packed::Binary(value_type.to_bytes()), pack(value)]),
    }
}

fn pack_number(number: &Number) -> Packed {
    let is_negative_zero = number.is_negative_zero();
    match (number.to_i64(), number.to_u64(), number.to_f64()) {
        (_, _, Some(number)) if is_negative_zero => Packed::F64(number),
        (Some(number), _, _) => Packed::from(number),
        (_, Some(number), _) => Packed::from(number),
        // Core compares whole numbers to their last digit, and a float of this size does not keep it.
        (_, _, Some(number)) if number.fract() != 0.0 => Packed::F64(number),
        _ => Packed::from(number.to_string()),
    }
}

fn pack_unknown(refinements: &Refinements) -> Packed {
    let Refinements { is_null, prefix, lower, upper, min_length, max_length } = refinements;
    let bound =
        |(number, inclusive): &(Number, bool)| Packed::Array(vec![pack_number(number), Packed::Boolean(*inclusive)]);
    let known = [
        (IS_NULL, is_null.map(Packed::Boolean)),
        (PREFIX, prefix.as_deref().map(Packed::from)),
        (LOWER, lower.as_ref().map(bound)),
        (UPPER, upper.as_ref().map(bound)),
        (MIN_LENGTH, min_length.map(Packed::from)),
        (MAX_LENGTH, max_length.map(Packed::from)),
    ];
    let known: Vec<_> = known.into_iter().filter_map(|(key, value)| Some((Packed::from(key), value?))).collect();
    if known.is_empty() {
        return Packed::Ext(UNKNOWN_EXTENSION, vec![0]);
    }
    let mut bytes = Vec::new();
    // Writes to memory do not fail.
    let _ = rmpv::encode::write_value(&mut bytes, &Packed::Map(known));
    match bytes.len() {
        // Refinements that are too long are left out: the value is unknown all the same.
        len if len > MAX_REFINEMENT_BYTES => Packed::Ext(UNKNOWN_EXTENSION, vec![0]),
        _ => Packed::Ext(REFINED_EXTENSION, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn unhex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
    }

    fn number(text: &str) -> Value {
        Value::Number(text.parse().unwrap())
    }

    /// Bytes that core sends decode to the value, and the value encodes to the same bytes.
    #[test]
    fn values_have_the_bytes_that_core_sends() {
        let thing = Type::object([("id", Type::String), ("n", Type::Number), ("name", Type::String)]);
        let things = |id: Value| Value::object([("id", id), ("n", number("5")), ("name", Value::String("a".into()))]);
        let tuple = Type::Tuple(vec![Type::Number, Type::String]);
        let pair = Value::List(vec![number("1"), Value::String("two".into())]);
        let refined = |refinements| Value::Unknown(Refinements { is_null: Some(false), ..refinements });
        for (refinements, value, bytes) in [
            (&thing, things(Value::Null), "83 a26964 c0 a16e 05 a46e616d65 a161"),
            (&thing, things(Value::unknown()), "83 a26964 d40000 a16e 05 a46e616d65 a161"),
            (&thing, things(Value::String("i1".into())), "83 a26964 a26931 a16e 05 a46e616d65 a161"),
            (
                &Type::Dynamic,
                Value::Dynamic(tuple, Box::new(pair)),
                "92 c41d 5b227475706c65222c5b226e756d626572222c22737472696e67225d5d 92 01 a374776f",
            ),
            (
                &Type::Dynamic,
                Value::Dynamic(Type::String, Box::new(Value::unknown())),
                "92 c408 22737472696e6722 d40000",
            ),
            (&Type::String, refined(Refinements::default()), "c7 03 0c 81 01 c2"),
            (
                &Type::String,
                refined(Refinements { prefix: Some("pre-".into()), ..Refinements::default() }),
                "c7 09 0c 82 01 c2 02 a4 7072652d",
            ),
            (
                &Type::Number,
                refined(Refinements { lower: Some((0_i64.into(), true)), ..Refinements::default() }),
                "c7 07 0c 82 01 c2 03 92 00 c3",
            ),
            (&Type::Number, number("5"), "05"),
            (&Type::Number, number("-5"), "fb"),
            (&Type::Number, number("-200"), "d1 ff38"),
            (&Type::Number, number("127"), "7f"),
            (&Type::Number, number("128"), "cc 80"),
            (&Type::Number, number("300"), "cd 012c"),
            (&Type::Number, number("65536"), "ce 00010000"),
            (&Type::Number, number("4294967296"), "cf 0000000100000000"),
            (&Type::Number, number("9223372036854775807"), "cf 7fffffffffffffff"),
            (&Type::Number, number("-9223372036854775808"), "d3 8000000000000000"),
            (&Type::Number, number("0.5"), "cb 3fe0000000000000"),
            (&Type::Number, number("3.0"), "03"),
            (&Type::Bool, Value::Bool(true), "c3"),
            (&Type::list(Type::Bool), Value::List(Vec::new()), "90"),
        ] {
            let bytes = unhex(bytes);
            assert_eq!(decode(&bytes, refinements).as_ref(), Ok(&value));
            assert_eq!(hex(&encode(&value)), hex(&bytes), "{value:?}");
        }
    }

    #[test]
    fn numbers_are_read_in_every_form() {
        for (bytes, text) in [
            ("b3 39323233333732303336383534373735383038", "9223372036854775808"),
            ("a3 302e31", "0.1"),
            ("cf 8000000000000000", "9223372036854775808"),
            ("ca 3f000000", "0.5"),
            ("ca 3dcccccd", "0.1"),
            ("cb 3fb999999999999a", "0.1"),
        ] {
            assert_eq!(decode(&unhex(bytes), &Type::Number), Ok(number(text)));
        }
        let large = Value::Number(format!("1{}.25", "0".repeat(400)).parse().unwrap());
        assert_eq!(decode(&encode(&large), &Type::Number), Ok(large));
    }

    #[test]
    fn what_is_no_value_of_its_type_is_refused_with_its_place() {
        let value_type = Type::object([("a", Type::list(Type::map(Type::Number)))]);
        for (bytes, fault) in [
            ("80", "the attribute \"a\" is missing"),
            ("82 a161 90 a162 c0", "there is no attribute \"b\""),
            ("81 a161 91 81 a16b a178", "a[0][\"k\"]: expected a number, found a text"),
            ("81 a161 91 81 01 01", "a[0]: a key must be a text, found a number"),
            ("81 a161 c3", "a: expected a list, found a bool"),
            ("81 a161 90 00", "bytes follow the value"),
            ("c7 02 05 0000", "the extension 5 of 2 bytes is not an unknown value"),
            ("c7 02 0c c0c0", "the refinements of an unknown value cannot be read"),
        ] {
            assert_eq!(decode(&unhex(bytes), &value_type).unwrap_err().to_string(), fault, "{bytes}");
        }
        assert!(decode(&unhex("cb 7ff8000000000000"), &Type::Number).is_err(), "no number");
        for cut in ["", "81", "81 a161", "dc ffff", "df ffffffff"] {
            assert!(decode(&unhex(cut), &value_type).is_err(), "{cut}");
        }
    }

    #[test]
    fn what_is_deep_is_refused_and_not_fallen_into() {
        let deep = |levels: usize| -> Vec<u8> { [vec![0x91; levels], vec![0xc0]].concat() };
        let inner = (0..MAX_DEPTH - 1).fold(Type::Bool, |inner, _| Type::list(inner));
        assert!(decode(&deep(MAX_DEPTH - 2), &inner).is_ok());
        for levels in [MAX_DEPTH, 1_000, 1_000_000] {
            assert!(decode(&deep(levels), &Type::Dynamic).is_err());
            assert!(decode(&deep(levels), &inner).is_err());
        }
    }

    /// Core's form: a whole number beyond 64 bits is encoded as its digits.
    #[test]
    fn large_whole_numbers_are_digits() {
        for (text, first) in [("1e300", 0xda), ("1e30", 0xbf), ("-1e30", 0xd9), ("0.1", 0xcb), ("1e-300", 0xcb)] {
            assert_eq!(encode(&number(text)).first(), Some(&first), "{text}");
        }
    }
}
