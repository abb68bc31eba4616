//! Functions of a manifest: parameters and results, and checks of values against their types.
//!
//! # Limits
//! [`MAX_FUNCTIONS`] of one plugin, [`MAX_PARAMETERS`] of one function, types [`MAX_DEPTH`] deep. Checks follow a value
//! only as deep as its type goes, so they are bounded too.

use std::collections::BTreeMap;

use mortise_resource::{
    FieldFault, PathStep,
    manifest::{
        Function, FunctionParameter, FunctionValue, Primitive, ValueType, function_value::Value, value_type::Type,
    },
};

use crate::manifest::{error::ManifestError, exports::Exports};

/// Most functions of one plugin.
const MAX_FUNCTIONS: usize = 256;
/// Most parameters of one function.
const MAX_PARAMETERS: usize = 32;
/// Deepest type of a parameter or a result.
const MAX_DEPTH: usize = 16;
/// Longest name of a function, a parameter or an attribute, bytes.
const MAX_NAME: usize = 63;
/// Longest summary, description or deprecation, bytes.
const MAX_TEXT: usize = 16 << 10;
/// Most arguments of one call.
const MAX_ARGUMENTS: usize = 1024;
/// Longest number, characters.
const MAX_NUMBER: usize = 10_000;

/// A function, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionDecl {
    wire: Function,
    returns: ValueType,
}

/// Arguments do not fit a function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct FunctionCallError {
    /// Index of the argument, from 0; `None` if their number is at fault.
    pub argument: Option<u32>,
    /// The fault, and the accepted values.
    pub what: String,
}

/// Reads the functions of a manifest.
pub(crate) fn read(wire: Vec<Function>, exports: Exports) -> Result<BTreeMap<String, FunctionDecl>, ManifestError> {
    if !wire.is_empty() && !exports.functions {
        return Err(ManifestError::new(
            "functions: the component does not export mortise:plugin/functions; export it, or take them out of the manifest",
        ));
    }
    if wire.len() > MAX_FUNCTIONS {
        return Err(ManifestError::new(format!("functions: at most {MAX_FUNCTIONS}, got: {}", wire.len())));
    }
    let mut read = BTreeMap::new();
    for function in wire {
        let name = function.name.clone();
        let decl = FunctionDecl::read(function).map_err(|fault| fault.at(format!("function {name:?}")))?;
        if read.insert(name.clone(), decl).is_some() {
            return Err(ManifestError::new(format!("function {name:?}: declared twice; declare it once")));
        }
    }
    Ok(read)
}

impl FunctionDecl {
    fn read(wire: Function) -> Result<Self, ManifestError> {
        check_name("its name", &wire.name)?;
        if wire.parameters.len() > MAX_PARAMETERS {
            let got = wire.parameters.len();
            return Err(ManifestError::new(format!("parameters: at most {MAX_PARAMETERS}, got: {got}")));
        }
        let mut names = Vec::new();
        for parameter in wire.parameters.iter().chain(&wire.variadic) {
            let in_parameter = |fault: ManifestError| fault.at(format!("parameter {:?}", parameter.name));
            check_name("its name", &parameter.name).map_err(in_parameter)?;
            if names.contains(&&parameter.name) {
                return Err(in_parameter(ManifestError::new("its name is taken; give it another one")));
            }
            names.push(&parameter.name);
            check_type(parameter.r#type.as_ref(), 0).map_err(in_parameter)?;
            check_text(&parameter.description).map_err(in_parameter)?;
        }
        check_type(wire.returns.as_ref(), 0).map_err(|fault| fault.at("returns"))?;
        [&wire.summary, &wire.description, &wire.deprecation].into_iter().try_for_each(|text| check_text(text))?;
        Ok(Self { returns: wire.returns.clone().unwrap_or_default(), wire })
    }

    /// Declaration in the manifest.
    #[must_use]
    pub fn wire(&self) -> &Function {
        &self.wire
    }

    /// Checks arguments against the parameters.
    ///
    /// # Errors
    /// The first that does not fit.
    pub fn check_arguments(&self, arguments: &[FunctionValue]) -> Result<(), FunctionCallError> {
        let fixed = self.wire.parameters.len();
        let fits = match self.wire.variadic {
            None => arguments.len() == fixed,
            Some(_) => (fixed..=MAX_ARGUMENTS).contains(&arguments.len()),
        };
        if !fits {
            let more = if self.wire.variadic.is_some() { " or more" } else { "" };
            let what = format!("{} takes {fixed}{more} arguments, got: {}", self.wire.name, arguments.len());
            return Err(FunctionCallError { argument: None, what });
        }
        for (index, argument) in arguments.iter().enumerate() {
            let Some(parameter) = self.wire.parameters.get(index).or(self.wire.variadic.as_ref()) else { break };
            check_argument(parameter, argument).map_err(|fault| FunctionCallError {
                argument: u32::try_from(index).ok(),
                what: fault.within(PathStep::Field(parameter.name.clone())).to_string(),
            })?;
        }
        Ok(())
    }

    /// Checks a result against its type.
    ///
    /// # Errors
    /// The mismatch and its place in the result.
    pub(crate) fn check_result(&self, result: &FunctionValue) -> Result<(), FieldFault> {
        check_value(&self.returns, result)
    }
}

fn check_argument(parameter: &FunctionParameter, argument: &FunctionValue) -> Result<(), FieldFault> {
    match (&parameter.r#type, &argument.value) {
        (_, None) if !parameter.allow_null => Err(FieldFault::new("null is not allowed")),
        (Some(value_type), _) => check_value(value_type, argument),
        (None, _) => Ok(()),
    }
}

fn check_value(value_type: &ValueType, value: &FunctionValue) -> Result<(), FieldFault> {
    let Some(value) = &value.value else { return Ok(()) };
    match (&value_type.r#type, value) {
        (Some(Type::Primitive(primitive)), value) => {
            check_primitive(Primitive::try_from(*primitive).unwrap_or_default(), value)
        }
        (Some(Type::List(element) | Type::Set(element)), Value::Elements(elements)) => {
            let mut each = elements.values.iter().enumerate();
            each.try_for_each(|(index, item)| {
                check_value(element, item).map_err(|fault| fault.within(PathStep::index(index)))
            })
        }
        (Some(Type::Map(element)), Value::Entries(entries)) => {
            let mut each = entries.values.iter();
            each.try_for_each(|(key, item)| {
                check_value(element, item).map_err(|fault| fault.within(PathStep::Key(key.clone())))
            })
        }
        (Some(Type::Object(object)), Value::Entries(entries)) => {
            if let Some(name) = entries.values.keys().find(|name| !object.attributes.contains_key(*name)) {
                return Err(FieldFault::new(format!("there is no attribute {name:?}")));
            }
            object.attributes.iter().try_for_each(|(name, attribute)| match entries.values.get(name) {
                Some(item) => check_value(attribute, item).map_err(|fault| fault.within(PathStep::Field(name.clone()))),
                None => Err(FieldFault::new(format!("the attribute {name:?} is missing; it may be null"))),
            })
        }
        (expected, _) => Err(FieldFault::new(format!("must be {}", kind(expected.as_ref())))),
    }
}

fn check_primitive(primitive: Primitive, value: &Value) -> Result<(), FieldFault> {
    match (primitive, value) {
        (Primitive::Bool, Value::Boolean(_)) | (Primitive::String, Value::Text(_)) => Ok(()),
        (Primitive::Number, Value::Number(number)) if is_number(number) => Ok(()),
        (expected, _) => Err(FieldFault::new(format!("must be {}", kind(Some(&Type::Primitive(expected.into())))))),
    }
}

/// Whether a text is a number in decimal notation, as in JSON.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    text.len() <= MAX_NUMBER && digits(whole) && fraction.is_none_or(digits) && exponent.is_none_or(digits)
}

fn kind(value_type: Option<&Type>) -> &'static str {
    match value_type {
        Some(Type::Primitive(primitive)) => match Primitive::try_from(*primitive).unwrap_or_default() {
            Primitive::Bool => "true or false",
            Primitive::Number => "a number in decimal notation",
            Primitive::String => "a text",
            Primitive::Unspecified => "of a known type",
        },
        Some(Type::List(_)) => "a list",
        Some(Type::Set(_)) => "a set",
        Some(Type::Map(_)) => "a map",
        Some(Type::Object(_)) => "an object",
        None => "of a known type",
    }
}

fn check_type(value_type: Option<&ValueType>, depth: usize) -> Result<(), ManifestError> {
    if depth >= MAX_DEPTH {
        return Err(ManifestError::new(format!("its type is more than {MAX_DEPTH} deep; make it flatter")));
    }
    match value_type.and_then(|value_type| value_type.r#type.as_ref()) {
        None => Err(ManifestError::new("its type is required")),
        Some(Type::Primitive(primitive)) => match Primitive::try_from(*primitive) {
            Ok(Primitive::Bool | Primitive::Number | Primitive::String) => Ok(()),
            Ok(Primitive::Unspecified) | Err(_) => {
                Err(ManifestError::new("this host does not know its primitive type"))
            }
        },
        Some(Type::List(element) | Type::Set(element) | Type::Map(element)) => check_type(Some(element), depth + 1),
        Some(Type::Object(object)) => object.attributes.iter().try_for_each(|(name, attribute)| {
            let in_attribute = |fault: ManifestError| fault.at(format!("attribute {name:?}"));
            check_name("its name", name).and_then(|()| check_type(Some(attribute), depth + 1)).map_err(in_attribute)
        }),
    }
}

fn check_name(what: &str, name: &str) -> Result<(), ManifestError> {
    let rest = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let good = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase()) && name.bytes().all(rest);
    match good && name.len() <= MAX_NAME {
        true => Ok(()),
        false => {
            let text = format!("{what} must match ^[a-z][a-z0-9_]*$ and have at most {MAX_NAME} bytes, got: {name:?}");
            Err(ManifestError::new(text))
        }
    }
}

fn check_text(text: &str) -> Result<(), ManifestError> {
    match text.len() <= MAX_TEXT {
        true => Ok(()),
        false => Err(ManifestError::new(format!("a text has {} bytes; at most {MAX_TEXT} are allowed", text.len()))),
    }
}

#[cfg(test)]
mod tests;
