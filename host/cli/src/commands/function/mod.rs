//! `mortise function …`: lists and calls functions of plugins.

pub mod value;

use clap::{Args, Subcommand};
use mortise_resource::{
    data::{
        CallFunctionRequest, FunctionInfo, ListFunctionsRequest, ListFunctionsResponse, call_function_response::Outcome,
    },
    manifest::{Function, FunctionValue, Primitive, ValueType, function_value::Value, value_type::Type},
};

use crate::{
    CliError, Connect, Exit, Session, Table,
    output::json::{self, AnswerFormat},
    output::ui,
};

pub(super) const EXAMPLES: &str = "\
mortise function list
mortise function call routes.file_name default default web";

/// Arguments of `function`.
#[derive(Debug, Args)]
pub struct FunctionCommand {
    #[command(subcommand)]
    command: Command,
}

/// Subcommands of `function`.
#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the functions of the server's plugins
    #[command(after_help = crate::commands::after("mortise function list -o json"))]
    List(Box<List>),
    /// Calls a function and prints its result as JSON; a text as it is
    #[command(after_help = crate::commands::after(
        "mortise function call routes.normalize_path /api//v1/\nmortise function call --json shop.total '[1, 2.5]'"
    ))]
    Call(Box<Call>),
}

/// Arguments of `function list`.
#[derive(Debug, Args)]
struct List {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: AnswerFormat,
    #[command(flatten)]
    connect: Connect,
}

/// Arguments of `function call`.
#[derive(Debug, Args)]
struct Call {
    /// The plugin and its function, as `function list` names them
    #[arg(value_name = "PLUGIN.FUNCTION")]
    function: String,
    /// Arguments as JSON; texts without quotes
    #[arg(value_name = "ARGUMENT", allow_negative_numbers = true)]
    arguments: Vec<String>,
    /// Takes texts as JSON, too: in quotes, or null
    #[arg(long)]
    json: bool,
    /// Output format; in a table a text is printed as it is
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: AnswerFormat,
    #[command(flatten)]
    connect: Connect,
}

impl FunctionCommand {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        match self.command {
            Command::List(list) => list.run().await,
            Command::Call(call) => call.run().await,
        }
    }
}

async fn functions(session: &Session) -> Result<Vec<FunctionInfo>, CliError> {
    let answer = session.call("functions", session.functions().list_functions(ListFunctionsRequest {})).await?;
    Ok(answer.functions)
}

impl List {
    async fn run(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let functions = functions(&session).await?;
        if self.output == AnswerFormat::Json {
            ui::print(json::message("mortise.v1.ListFunctionsResponse", &ListFunctionsResponse { functions })?)?;
            return Ok(Exit::Done);
        }
        let mut table = Table::new(["function", "takes", "returns", "summary"]);
        for FunctionInfo { plugin, function } in functions {
            let function = function.unwrap_or_default();
            let summary = match function.deprecation.as_str() {
                "" => function.summary.clone(),
                instead => format!("deprecated: {instead}"),
            };
            table.row(vec![
                format!("{plugin}.{}", function.name).into(),
                signature(&function).into(),
                shown(function.returns.as_ref()).into(),
                summary.into(),
            ]);
        }
        ui::print(table.render(&self.connect.ui()))?;
        Ok(Exit::Done)
    }
}

impl Call {
    async fn run(self) -> Result<Exit, CliError> {
        let session = self.connect.session().await?;
        let functions = functions(&session).await?;
        let named = |info: &&FunctionInfo| {
            let name = info.function.as_ref().map(|function| function.name.as_str()).unwrap_or_default();
            self.function.split_once('.') == Some((info.plugin.as_str(), name))
        };
        let found = functions.iter().find(named);
        let info = found.ok_or_else(|| {
            CliError::failed(format!("no function is named {:?}", self.function))
                .remedy("`mortise function list` names them, as PLUGIN.FUNCTION")
        })?;
        let function = info.function.clone().unwrap_or_default();
        let arguments = self.arguments(&function)?;
        let request = CallFunctionRequest { plugin: info.plugin.clone(), name: function.name.clone(), arguments };
        let answer = session.call(&self.function, session.functions().call_function(request)).await?;
        match answer.outcome {
            Some(Outcome::Result(FunctionValue { value: Some(Value::Text(text)) }))
                if self.output == AnswerFormat::Table =>
            {
                ui::line(text)?;
                Ok(Exit::Done)
            }
            Some(Outcome::Result(result)) => {
                ui::line(value::write(&result))?;
                Ok(Exit::Done)
            }
            Some(Outcome::Fault(fault)) => {
                let place = fault.argument.map(|index| format!("argument {}: ", index + 1)).unwrap_or_default();
                Err(CliError::failed(format!("{}: {place}{}", self.function, fault.text)))
            }
            None => Err(CliError::failed(format!("{}: the server's answer is empty", self.function))),
        }
    }

    /// Converts the arguments by the types of the parameters. The server counts and checks them.
    fn arguments(&self, function: &Function) -> Result<Vec<FunctionValue>, CliError> {
        let parameters = function.parameters.iter().map(Some).chain(std::iter::repeat(function.variadic.as_ref()));
        let read = |(number, (text, parameter)): (usize, (&String, Option<&_>))| {
            let value_type = parameter.and_then(|parameter: &mortise_resource::manifest::FunctionParameter| {
                parameter.r#type.as_ref()?.r#type.as_ref()
            });
            if !self.json
                && matches!(value_type, Some(Type::Primitive(value_type)) if *value_type == i32::from(Primitive::String))
            {
                return Ok(FunctionValue { value: Some(Value::Text(text.clone())) });
            }
            value::read(text).map_err(|fault| {
                CliError::usage(format!("argument {}", number + 1)).caused_by(fault).remedy("give it as JSON")
            })
        };
        self.arguments.iter().zip(parameters).enumerate().map(read).collect()
    }
}

/// The parameters, as `name: type`.
fn signature(function: &Function) -> String {
    let described = |parameter: &mortise_resource::manifest::FunctionParameter| {
        format!("{}: {}", parameter.name, shown(parameter.r#type.as_ref()))
    };
    let fixed = function.parameters.iter().map(described);
    let more = function.variadic.iter().map(|parameter| format!("{}…", described(parameter)));
    fixed.chain(more).collect::<Vec<_>>().join(", ")
}

/// A type in Terraform's notation.
fn shown(value_type: Option<&ValueType>) -> String {
    match value_type.and_then(|value_type| value_type.r#type.as_ref()) {
        None => String::new(),
        Some(Type::Primitive(primitive)) => match Primitive::try_from(*primitive) {
            Ok(Primitive::Bool) => "bool",
            Ok(Primitive::Number) => "number",
            Ok(Primitive::String) => "string",
            Ok(Primitive::Unspecified) | Err(_) => "?",
        }
        .to_owned(),
        Some(Type::List(element)) => format!("list({})", shown(Some(element))),
        Some(Type::Set(element)) => format!("set({})", shown(Some(element))),
        Some(Type::Map(element)) => format!("map({})", shown(Some(element))),
        Some(Type::Object(object)) => {
            let attributes =
                object.attributes.iter().map(|(name, attribute)| format!("{name}={}", shown(Some(attribute))));
            format!("object({{{}}})", attributes.collect::<Vec<_>>().join(", "))
        }
    }
}
