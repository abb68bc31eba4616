//! Functions that are called by name, and depend on their arguments alone.
//!
//! # Contract
//! The host checks the number and the types of arguments, and the type of the result. Each call has a fresh instance,
//! in which every import ends it: there are no settings, no log and no clock. So a panic is a trap without its text.

use std::fmt;

use mortise_resource::manifest;
use prost::Message;

use crate::{Value, ValueType, dispatch::DispatchError};

/// Code of a function.
type Body = fn(&[Value]) -> Result<Value, FunctionFault>;

/// Code that calls one of several functions by name, with encoded arguments.
type Call = fn(&[Function], &str, &[Vec<u8>]) -> Result<Vec<u8>, FunctionFault>;

/// A function of a plugin. All of it can be written in a `static`. See [`crate::Plugin::functions`].
///
/// ```
/// use mortise_plugin::{Function, FunctionFault, Parameter, Value, ValueType};
///
/// static JOIN: Function = Function::new("join", &[Parameter::new("by", ValueType::String)], ValueType::String, join)
///     .variadic(Parameter::new("parts", ValueType::String))
///     .summary("Joins texts.");
///
/// fn join(arguments: &[Value]) -> Result<Value, FunctionFault> {
///     let texts = arguments.iter().filter_map(Value::as_text).collect::<Vec<_>>();
///     let Some((by, parts)) = texts.split_first() else { return Ok(Value::Null) };
///     if by.is_empty() {
///         return Err(FunctionFault::at(0, "there is nothing to join by"));
///     }
///     Ok(parts.join(by).into())
/// }
/// ```
pub struct Function {
    name: &'static str,
    parameters: &'static [Parameter],
    variadic: Option<Parameter>,
    returns: ValueType,
    summary: &'static str,
    description: &'static str,
    deprecation: &'static str,
    body: Body,
}

/// A parameter of a [`Function`].
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    name: &'static str,
    value_type: ValueType,
    allow_null: bool,
    description: &'static str,
}

/// Reason why a function has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionFault {
    /// Index of the faulty argument, from 0; `None` for the call as a whole.
    pub argument: Option<u32>,
    /// A sentence.
    pub text: String,
}

impl Function {
    /// Makes a function. The name is lower-case letters, digits and underscores, a letter first, and unique in the
    /// plugin.
    #[must_use]
    pub const fn new(
        name: &'static str,
        parameters: &'static [Parameter],
        returns: ValueType,
        body: fn(&[Value]) -> Result<Value, FunctionFault>,
    ) -> Self {
        Self { name, parameters, variadic: None, returns, summary: "", description: "", deprecation: "", body }
    }

    /// Adds a parameter for any number of further arguments after the others.
    #[must_use]
    pub const fn variadic(mut self, parameter: Parameter) -> Self {
        self.variadic = Some(parameter);
        self
    }

    /// Sets a summary of one sentence.
    #[must_use]
    pub const fn summary(mut self, text: &'static str) -> Self {
        self.summary = text;
        self
    }

    /// Sets a description, for a page of documentation.
    #[must_use]
    pub const fn description(mut self, text: &'static str) -> Self {
        self.description = text;
        self
    }

    /// Marks the function as deprecated; the text names the replacement.
    #[must_use]
    pub const fn deprecated(mut self, instead: &'static str) -> Self {
        self.deprecation = instead;
        self
    }

    fn to_wire(&self) -> manifest::Function {
        manifest::Function {
            name: self.name.to_owned(),
            parameters: self.parameters.iter().map(|one| one.to_wire()).collect(),
            variadic: self.variadic.map(Parameter::to_wire),
            returns: Some(self.returns.to_wire()),
            summary: self.summary.to_owned(),
            description: self.description.to_owned(),
            deprecation: self.deprecation.to_owned(),
        }
    }

    /// Calls the function like the host, with its checks.
    #[cfg(not(target_arch = "wasm32"))]
    fn checked_call(&self, arguments: &[Value]) -> Result<Value, FunctionFault> {
        let (wanted, got) = (self.parameters.len(), arguments.len());
        if got < wanted || (got > wanted && self.variadic.is_none()) {
            return Err(FunctionFault::new(format!("{} takes {wanted} arguments, got {got}", self.name)));
        }
        let parameters = self.parameters.iter().chain(self.variadic.iter().cycle());
        for ((argument, parameter), place) in arguments.iter().zip(parameters).zip(0_u32..) {
            let fits = if argument.is_null() { parameter.allow_null } else { parameter.value_type.fits(argument) };
            if !fits {
                return Err(FunctionFault::at(place, format!("{} cannot be {argument:?}", parameter.name)));
            }
        }
        let result = (self.body)(arguments)?;
        if !result.is_null() && !self.returns.fits(&result) {
            return Err(FunctionFault::new(format!("{} returns {result:?}, which is of another type", self.name)));
        }
        Ok(result)
    }
}

impl Parameter {
    /// Makes a parameter, which does not accept null. The rules for its name are a function's.
    #[must_use]
    pub const fn new(name: &'static str, of: ValueType) -> Self {
        Self { name, value_type: of, allow_null: false, description: "" }
    }

    /// Accepts [`Value::Null`], too. Values inside others may always be null.
    #[must_use]
    pub const fn allow_null(mut self) -> Self {
        self.allow_null = true;
        self
    }

    /// Sets the purpose of the parameter.
    #[must_use]
    pub const fn description(mut self, text: &'static str) -> Self {
        self.description = text;
        self
    }

    fn to_wire(self) -> manifest::FunctionParameter {
        manifest::FunctionParameter {
            name: self.name.to_owned(),
            r#type: Some(self.value_type.to_wire()),
            allow_null: self.allow_null,
            description: self.description.to_owned(),
        }
    }
}

impl FunctionFault {
    /// Makes a fault of the call as a whole.
    pub fn new(text: impl Into<String>) -> Self {
        Self { argument: None, text: text.into() }
    }

    /// Makes a fault of one argument, by its index from 0.
    pub fn at(argument: u32, text: impl Into<String>) -> Self {
        Self { argument: Some(argument), text: text.into() }
    }
}

impl fmt::Display for FunctionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.argument {
            Some(argument) => write!(f, "argument {argument}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl std::error::Error for FunctionFault {}

/// Functions of a plugin, with the code that they need: a plugin without functions refers to none of it.
#[derive(Clone, Copy)]
pub(crate) struct FunctionTable {
    functions: &'static [Function],
    describe: fn(&[Function], &mut Vec<u8>),
    call: Call,
}

impl FunctionTable {
    pub(crate) const fn new(functions: &'static [Function]) -> Self {
        Self { functions, describe, call }
    }

    /// Appends the functions to a manifest.
    pub(crate) fn describe(self, manifest: &mut Vec<u8>) {
        (self.describe)(self.functions, manifest);
    }

    /// Calls a function, with encoded arguments.
    pub(crate) fn call(self, name: &str, arguments: &[Vec<u8>]) -> Result<Vec<u8>, FunctionFault> {
        (self.call)(self.functions, name, arguments)
    }

    /// Calls a function like the host.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn checked_call(self, name: &str, arguments: &[Value]) -> Result<Value, FunctionFault> {
        find(self.functions, name)?.checked_call(arguments)
    }
}

fn find<'f>(functions: &'f [Function], name: &str) -> Result<&'f Function, DispatchError> {
    let found = functions.iter().find(|one| one.name == name);
    found.ok_or_else(|| DispatchError::UnknownFunction { name: name.to_owned() })
}

fn describe(functions: &[Function], manifest: &mut Vec<u8>) {
    /// Number of the manifest's field.
    const FUNCTIONS: u32 = 1_001;
    for function in functions {
        prost::encoding::message::encode(FUNCTIONS, &function.to_wire(), manifest);
    }
}

fn call(functions: &[Function], name: &str, arguments: &[Vec<u8>]) -> Result<Vec<u8>, FunctionFault> {
    let function = find(functions, name)?;
    let mut values = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let wire = manifest::FunctionValue::decode(argument.as_slice()).map_err(DispatchError::Value)?;
        values.push(Value::of_wire(wire));
    }
    (function.body)(&values).map(|result| result.into_wire().encode_to_vec())
}
