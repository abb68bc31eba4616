//! The rules of core for providers.

use std::collections::BTreeMap;

use mortise_provider::{
    proto::tfplugin6::{
        Schema,
        schema::{Attribute, Block, Object, nested_block, object::NestingMode},
    },
    value::{Type, Value},
};
use serde_json::{Value as Json, json};

/// Checks the rules that core applies to a schema, and conditions that would make it fail.
pub(super) fn check_schema(name: &str, schema: &Schema) {
    check_block(name, schema.block.as_ref().expect("a schema without a block ends core"));
}

fn check_block(path: &str, block: &Block) {
    check_attributes(path, &block.attributes, false, false);
    for nested in &block.block_types {
        assert!(block.attributes.iter().all(|one| one.name != nested.type_name), "{path}: a name twice");
        assert_eq!(nested.nesting(), nested_block::NestingMode::Single);
        assert!(nested.min_items == nested.max_items && nested.min_items <= 1, "{path}");
        check_block(&format!("{path}.{}", nested.type_name), nested.block.as_ref().expect("a block"));
    }
}

fn check_attributes(path: &str, all: &[Attribute], computed: bool, in_set: bool) {
    const RESERVED: [&str; 7] =
        ["connection", "count", "depends_on", "for_each", "lifecycle", "provider", "provisioner"];
    let mut names = std::collections::BTreeSet::new();
    for one in all {
        let path = format!("{path}.{}", one.name);
        assert!(names.insert(&one.name), "{path}: twice");
        assert!(one.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{path}");
        assert!(!one.name.starts_with(|c: char| c.is_ascii_digit()), "{path}");
        assert!(path.matches('.').count() > 1 || !RESERVED.contains(&one.name.as_str()), "{path}: reserved");
        assert!(one.required || one.optional || one.computed, "{path}: no flag");
        assert!(!(one.required && (one.optional || one.computed)), "{path}: too many flags");
        assert!(!one.write_only || (one.optional && !one.computed && !in_set), "{path}: only written");
        assert!(!computed || (one.computed && !one.optional && !one.required), "{path}: within what is computed");
        match &one.nested_type {
            Some(of) => {
                assert!(one.r#type.is_empty(), "{path}: two types");
                assert!(of.nesting() != NestingMode::Invalid, "{path}");
                let in_set = in_set || of.nesting() == NestingMode::Set;
                check_attributes(&path, &of.attributes, one.computed && !one.optional, in_set);
            }
            None => drop(Type::from_bytes(&one.r#type).expect("a wrong type ends core")),
        }
    }
}

pub(super) fn type_of(block: &Block) -> Type {
    let mut all: BTreeMap<_, _> = block.attributes.iter().map(|one| (one.name.clone(), attribute_type(one))).collect();
    all.extend(block.block_types.iter().map(|one| (one.type_name.clone(), type_of(one.block.as_ref().unwrap()))));
    Type::Object(all)
}

fn attribute_type(one: &Attribute) -> Type {
    let Some(of) = &one.nested_type else { return Type::from_bytes(&one.r#type).unwrap() };
    let inner = Type::Object(of.attributes.iter().map(|one| (one.name.clone(), attribute_type(one))).collect());
    match of.nesting() {
        NestingMode::List => Type::list(inner),
        NestingMode::Set => Type::set(inner),
        NestingMode::Map => Type::map(inner),
        _ => inner,
    }
}

/// Core's merge of prior and configuration.
pub fn proposed(block: &Block, prior: &Value, config: &Value) -> Value {
    let Value::Map(parts) = config else { return config.clone() };
    let part = |(name, config): (&String, &Value)| {
        let attribute = block.attributes.iter().find(|one| one.name == *name);
        let value = match attribute {
            Some(one) if one.write_only => Value::Null,
            Some(one) if one.computed && config.is_null() && !prior.is_null() => prior.get(name).clone(),
            Some(one) if one.computed && config.is_null() => Value::unknown(),
            Some(_) => config.clone(),
            None => {
                let nested = block.block_types.iter().find(|one| one.type_name == *name).unwrap();
                proposed(nested.block.as_ref().unwrap(), prior.get(name), config)
            }
        };
        (name.clone(), value)
    };
    Value::Map(parts.iter().map(part).collect())
}

/// Asserts that a plan fits the configuration.
pub fn check_planned(block: &Block, prior: &Value, config: &Value, planned: &Value) {
    for one in &block.attributes {
        let name = &one.name;
        check_attribute(name, one, prior.get(name), config.get(name), planned.get(name));
    }
    for nested in &block.block_types {
        let name = &nested.type_name;
        assert!(matches!(planned.get(name), Value::Map(_)), "{name}: a block is there, and known");
        check_planned(nested.block.as_ref().unwrap(), prior.get(name), config.get(name), planned.get(name));
    }
}

fn check_attribute(path: &str, of: &Attribute, prior: &Value, config: &Value, planned: &Value) {
    if of.write_only {
        assert!(planned.is_null(), "{path}: planned {planned:?} for a value that is only written");
        return;
    }
    if planned == config || (planned == prior && !prior.is_null() && !config.is_null()) {
        return;
    }
    if of.computed && (!of.optional || config.is_null()) {
        return;
    }
    assert!(!config.is_null(), "{path}: planned {planned:?} for an attribute that is not computed");
    match &of.nested_type {
        Some(nested) if !matches!(config, Value::Unknown(_)) => check_nested(path, nested, prior, config, planned),
        _ => panic!("{path}: planned {planned:?}, which is not the configured {config:?}"),
    }
}

fn check_nested(path: &str, of: &Object, prior: &Value, config: &Value, planned: &Value) {
    assert!(!matches!(planned, Value::Unknown(_) | Value::Null), "{path}: planned {planned:?} for what is configured");
    let attributes = |path: &str, prior: &Value, config: &Value, planned: &Value| {
        for one in &of.attributes {
            let name = &one.name;
            let path = format!("{path}.{name}");
            check_attribute(&path, one, prior.get(name), config.get(name), planned.get(name));
        }
    };
    let null = Value::Null;
    match (of.nesting(), config, planned) {
        (NestingMode::Single, _, _) => attributes(path, prior, config, planned),
        (NestingMode::List | NestingMode::Set, Value::List(config), Value::List(planned)) => {
            assert_eq!(config.len(), planned.len(), "{path}: another length");
            for (index, (config, planned)) in config.iter().zip(planned).enumerate() {
                let before = if let Value::List(prior) = prior { prior.get(index).unwrap_or(&null) } else { &null };
                attributes(&format!("{path}[{index}]"), before, config, planned);
            }
        }
        (NestingMode::Map, Value::Map(config), Value::Map(planned)) => {
            assert!(config.keys().eq(planned.keys()), "{path}: other keys");
            for (key, config) in config {
                attributes(&format!("{path}[{key:?}]"), prior.get(key), config, &planned[key]);
            }
        }
        _ => panic!("{path}: planned {planned:?} for {config:?}"),
    }
}

/// Asserts that known values stay the same from one plan to the next.
pub fn check_same(before: &Value, now: &Value) {
    check_known("", before, now);
}

/// Asserts that the result matches the plan.
pub fn check_applied(planned: &Value, made: &Value) {
    check_known("", planned, made);
}

fn check_known(path: &str, planned: &Value, made: &Value) {
    match (planned, made) {
        (Value::Unknown(_), _) => {}
        (Value::Map(planned), Value::Map(made)) => {
            assert!(planned.keys().eq(made.keys()), "{path}: {planned:?} and {made:?}");
            for (name, planned) in planned {
                check_known(&format!("{path}.{name}"), planned, &made[name]);
            }
        }
        (Value::List(planned), Value::List(made)) => {
            assert_eq!(planned.len(), made.len(), "{path}");
            for (index, (planned, made)) in planned.iter().zip(made).enumerate() {
                check_known(&format!("{path}[{index}]"), planned, made);
            }
        }
        (planned, made) => assert_eq!(planned, made, "{path}: inconsistent result"),
    }
}

/// A value as JSON of a state file.
pub(super) fn to_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Number(number) => serde_json::from_str(&number.to_string()).unwrap(),
        Value::String(text) => json!(text),
        Value::List(items) => Json::Array(items.iter().map(to_json).collect()),
        Value::Map(entries) => Json::Object(entries.iter().map(|(key, value)| (key.clone(), to_json(value))).collect()),
        Value::Unknown(_) | Value::Dynamic(..) => panic!("{value:?} is in no state"),
    }
}
