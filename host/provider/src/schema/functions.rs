//! Functions of all plugins under core's names: `<plugin>_<function>`.

use std::collections::BTreeMap;

use mortise_resource::{
    data::FunctionInfo,
    manifest::{FunctionParameter, ValueType},
};

use crate::{
    mapping::function_type,
    proto::tfplugin6::{Function as ProtoFunction, StringKind, function},
    value::Type,
};

/// The functions of a server.
#[derive(Debug, Default)]
pub struct FunctionSet {
    functions: BTreeMap<String, Function>,
    /// Reasons for functions that were left out.
    pub left_out: Vec<String>,
}

/// A function, with its types in core's form.
#[derive(Debug)]
pub struct Function {
    /// The plugin.
    pub plugin: String,
    /// Its name in the plugin.
    pub name: String,
    parameters: Vec<Type>,
    variadic: Option<Type>,
    /// Type of its result.
    pub returns: Type,
    proto: ProtoFunction,
}

impl FunctionSet {
    /// Builds the set from the server's functions; on a name clash the first wins.
    #[must_use]
    pub fn of(all: &[FunctionInfo]) -> Self {
        let mut set = Self::default();
        for info in all {
            let Some(function) = Function::of(info) else {
                let name = info.function.as_ref().map(|function| function.name.as_str()).unwrap_or_default();
                set.left_out
                    .push(format!("the function {}.{name} has a type that this provider does not know", info.plugin));
                continue;
            };
            let name = format!("{}_{}", info.plugin.replace('-', "_"), function.name);
            match set.functions.get(&name) {
                Some(known) => set.left_out.push(format!(
                    "the functions {}.{} and {}.{} would both be called {name}; the second one is left out",
                    known.plugin, known.name, function.plugin, function.name
                )),
                None => drop(set.functions.insert(name, function)),
            }
        }
        set
    }

    /// The function of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Function> {
        self.functions.get(name)
    }

    /// The names of the functions.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.functions.keys()
    }

    /// The functions with their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Function)> {
        self.functions.iter()
    }

    /// The functions in core's form.
    #[must_use]
    pub fn to_proto(&self) -> BTreeMap<String, ProtoFunction> {
        self.functions.iter().map(|(name, function)| (name.clone(), function.proto.clone())).collect()
    }
}

impl Function {
    fn of(info: &FunctionInfo) -> Option<Self> {
        let function = info.function.as_ref()?;
        let known = |value_type: &Option<ValueType>| function_type(value_type.as_ref()?);
        let typed = |parameter: &FunctionParameter| known(&parameter.r#type);
        let returns = known(&function.returns)?;
        let parameters = function.parameters.iter().map(typed).collect::<Option<Vec<_>>>()?;
        let variadic = function.variadic.as_ref().map(|parameter| typed(parameter).ok_or(())).transpose().ok()?;
        let described = |parameter: &FunctionParameter, value_type: &Type| function::Parameter {
            name: parameter.name.clone(),
            r#type: value_type.to_bytes(),
            allow_null_value: parameter.allow_null,
            allow_unknown_values: false,
            description: parameter.description.clone(),
            description_kind: StringKind::Markdown.into(),
        };
        let proto = ProtoFunction {
            parameters: function
                .parameters
                .iter()
                .zip(&parameters)
                .map(|(declared, value_type)| described(declared, value_type))
                .collect(),
            variadic_parameter: function
                .variadic
                .as_ref()
                .zip(variadic.as_ref())
                .map(|(parameter, value_type)| described(parameter, value_type)),
            r#return: Some(function::Return { r#type: returns.to_bytes() }),
            summary: function.summary.clone(),
            description: function.description.clone(),
            description_kind: StringKind::Markdown.into(),
            deprecation_message: function.deprecation.clone(),
        };
        let (plugin, name) = (info.plugin.clone(), function.name.clone());
        Some(Self { plugin, name, parameters, variadic, returns, proto })
    }

    /// The type of the argument at an index; `None` if the function takes fewer.
    #[must_use]
    pub fn parameter(&self, index: usize) -> Option<&Type> {
        self.parameters.get(index).or(self.variadic.as_ref())
    }

    /// The function in core's form.
    pub(crate) fn to_proto(&self) -> &ProtoFunction {
        &self.proto
    }

    /// Its parameters with their types.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = (&function::Parameter, &Type)> {
        self.proto.parameters.iter().zip(&self.parameters)
    }

    /// The parameter that takes any number of arguments.
    pub(crate) fn variadic(&self) -> Option<(&function::Parameter, &Type)> {
        self.proto.variadic_parameter.as_ref().zip(self.variadic.as_ref())
    }
}
