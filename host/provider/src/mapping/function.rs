//! Types, arguments and results of functions, in the forms of plugins and of core.

use mortise_resource::manifest::{
    FunctionEntries, FunctionValue, FunctionValues, Primitive, ValueType, function_value::Value as PluginValue,
    value_type,
};

use crate::value::{Step, Type, Value, ValueError};

/// The type in core's form; `None` for a type that this program does not know.
#[must_use]
pub fn function_type(value_type: &ValueType) -> Option<Type> {
    Some(match value_type.r#type.as_ref()? {
        value_type::Type::Primitive(primitive) => match Primitive::try_from(*primitive).ok()? {
            Primitive::Bool => Type::Bool,
            Primitive::Number => Type::Number,
            Primitive::String => Type::String,
            Primitive::Unspecified => return None,
        },
        value_type::Type::List(element) => Type::list(function_type(element)?),
        value_type::Type::Set(element) => Type::set(function_type(element)?),
        value_type::Type::Map(element) => Type::map(function_type(element)?),
        value_type::Type::Object(object) => {
            let attribute =
                |(name, value_type): (&String, &ValueType)| Some((name.clone(), function_type(value_type)?));
            Type::Object(object.attributes.iter().map(attribute).collect::<Option<_>>()?)
        }
    })
}

/// An argument in the plugins' form, which has no unknown values.
///
/// # Errors
/// The argument is not known, or is a dynamic value.
pub fn argument(value: &Value) -> Result<FunctionValue, ValueError> {
    let value = match value {
        Value::Null => None,
        Value::Bool(yes) => Some(PluginValue::Boolean(*yes)),
        Value::Number(number) => Some(PluginValue::Number(number.to_string())),
        Value::String(text) => Some(PluginValue::Text(text.clone())),
        Value::List(items) => {
            let item = |(index, item)| argument(item).map_err(|fault: ValueError| fault.within(Step::Index(index)));
            let values = items.iter().enumerate().map(item).collect::<Result<_, _>>()?;
            Some(PluginValue::Elements(FunctionValues { values }))
        }
        Value::Map(entries) => {
            let entry = |(name, entry): (&String, &Value)| {
                let value = argument(entry).map_err(|fault| fault.within(Step::Key(name.clone())))?;
                Ok((name.clone(), value))
            };
            let values = entries.iter().map(entry).collect::<Result<_, ValueError>>()?;
            Some(PluginValue::Entries(FunctionEntries { values }))
        }
        Value::Unknown(_) => return Err(ValueError::new("it is not known yet")),
        Value::Dynamic(..) => return Err(ValueError::new("it is a dynamic value, and functions take none")),
    };
    Ok(FunctionValue { value })
}

/// A result of a type in core's form.
///
/// # Errors
/// The result is not of the type.
pub fn result(value_type: &Type, value: &FunctionValue) -> Result<Value, ValueError> {
    let Some(value) = &value.value else { return Ok(Value::Null) };
    Ok(match (value_type, value) {
        (Type::Bool, PluginValue::Boolean(yes)) => Value::Bool(*yes),
        (Type::Number, PluginValue::Number(number)) => {
            Value::Number(number.parse().map_err(|fault| ValueError::new(format!("{number:.40}: {fault}")))?)
        }
        (Type::String, PluginValue::Text(text)) => Value::String(text.clone()),
        (Type::List(element), PluginValue::Elements(elements)) => Value::List(items(element, elements)?),
        (Type::Set(element), PluginValue::Elements(elements)) => {
            let mut each: Vec<Value> = Vec::new();
            for item in items(element, elements)? {
                if !each.contains(&item) {
                    each.push(item);
                }
            }
            Value::List(each)
        }
        (Type::Map(element), PluginValue::Entries(entries)) => {
            let entry = |(name, value): (&String, &FunctionValue)| {
                let value = result(element, value).map_err(|fault| fault.within(Step::Key(name.clone())))?;
                Ok((name.clone(), value))
            };
            Value::Map(entries.values.iter().map(entry).collect::<Result<_, ValueError>>()?)
        }
        (Type::Object(attributes), PluginValue::Entries(entries)) => {
            let null = FunctionValue::default();
            let attribute = |(name, value_type): (&String, &Type)| {
                let value = entries.values.get(name).unwrap_or(&null);
                let value = result(value_type, value).map_err(|fault| fault.within(Step::Attribute(name.clone())))?;
                Ok((name.clone(), value))
            };
            Value::Map(attributes.iter().map(attribute).collect::<Result<_, ValueError>>()?)
        }
        _ => return Err(ValueError::new("it is not of the type that the function declares")),
    })
}

fn items(element: &Type, elements: &FunctionValues) -> Result<Vec<Value>, ValueError> {
    let item = |(index, item)| result(element, item).map_err(|fault| fault.within(Step::Index(index)));
    elements.values.iter().enumerate().map(item).collect()
}
