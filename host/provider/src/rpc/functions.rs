//! Calls of functions. Core makes them before it configures a provider, and repeats them. Before that, a function of an
//! export has an unknown result while no server can be reached.

use mortise_resource::data::{CallFunctionRequest, call_function_response::Outcome};

use super::{session::Session, wire::decode};
use crate::{
    mapping::{argument, result},
    proto::tfplugin6::{Diagnostic, DynamicValue, FunctionError},
    value::{PathText, Value},
};

/// Calls a function.
pub(crate) async fn call(session: &Session, name: &str, arguments: &[DynamicValue]) -> Result<Value, FunctionError> {
    let functions = session.functions().await.map_err(|faults| call_error(&faults))?;
    let Some(function) = functions.get(name) else {
        return Err(error(format!(
            "the server has no function for {name}; `mortise function list` lists its functions"
        )));
    };
    let mut values = Vec::with_capacity(arguments.len());
    for (index, given) in arguments.iter().enumerate() {
        let argument_error = |text: String| FunctionError { function_argument: i64::try_from(index).ok(), text };
        let value_type = function
            .parameter(index)
            .ok_or_else(|| argument_error("the function has no parameter for this argument".to_owned()))?;
        let value = decode(Some(given), value_type).map_err(|faults| argument_error(joined_texts(&faults)))?;
        values.push(argument(&value).map_err(|fault| argument_error(fault.to_string()))?);
    }
    let server = match session.server().await {
        Ok(server) => server,
        // Core validates without a server. A plan finds that it is away.
        Err(_) if !session.is_configured().await => return Ok(Value::unknown()),
        Err(faults) => return Err(call_error(&faults)),
    };
    let request =
        CallFunctionRequest { plugin: function.plugin.clone(), name: function.name.clone(), arguments: values };
    match server.client.call_function(request).await {
        Ok(Outcome::Result(value)) => result(&function.returns, &value).map_err(|fault| {
            let place = PathText(&fault.path).to_string();
            error(format!("the result of {name} cannot be read: {place} {}", fault.what))
        }),
        Ok(Outcome::Fault(fault)) => {
            Err(FunctionError { function_argument: fault.argument.map(i64::from), text: fault.text })
        }
        Err(status) => Err(error(format!("{name}: {}", status.message()))),
    }
}

fn error(text: String) -> FunctionError {
    FunctionError { text, function_argument: None }
}

fn joined_texts(faults: &[Diagnostic]) -> String {
    let index = |fault: &Diagnostic| match fault.detail.as_str() {
        "" => fault.summary.clone(),
        detail => format!("{}: {detail}", fault.summary),
    };
    faults.iter().map(index).collect::<Vec<_>>().join("; ")
}

fn call_error(faults: &[Diagnostic]) -> FunctionError {
    error(joined_texts(faults))
}
