//! Calls of a plugin's functions.
//!
//! # Contract
//! A function runs in an instance of its own, fresh unless the plugin reuses instances, where every import ends the
//! call: the contract's, and WASI. So its result depends on its arguments and its code alone. Arguments are checked
//! before the call, the result after it: a result of another type is the plugin's fault.
//!
//! # Cost and limits
//! Those of one hook of a request: the same fuel, memory, time and slots (`sandbox`). Arguments and result have at most
//! `sandbox.reply_bytes` each.

use mortise_resource::{Code, Error, manifest::FunctionValue};
use prost::Message as _;

use crate::{
    call::{answer::FunctionFault, export::CallFunction},
    error::HookError,
    hook::Hook,
    manifest::functions::FunctionCallError,
    request::Call,
};

/// Reason that a function was not called, or gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum FunctionError {
    /// The plugin has no function of that name.
    #[error("plugin {plugin} has no function {name:?}")]
    Unknown {
        /// The plugin.
        plugin: String,
        /// The name.
        name: String,
    },
    /// The arguments do not fit the declaration.
    #[error(transparent)]
    Arguments(#[from] FunctionCallError),
    /// The plugin's fault.
    #[error(transparent)]
    Fault(#[from] HookError),
}

impl From<FunctionError> for Error {
    fn from(error: FunctionError) -> Self {
        match error {
            FunctionError::Unknown { .. } => Self::new(Code::NotFound, error.to_string()),
            FunctionError::Arguments(fault) => Self::invalid(fault.to_string()),
            FunctionError::Fault(fault) => fault.into(),
        }
    }
}

impl Call {
    /// Calls a function. Complaints of the function about its arguments are an answer, not an error.
    ///
    /// # Errors
    /// [`FunctionError`].
    pub async fn function(
        &mut self,
        name: &str,
        arguments: &[FunctionValue],
    ) -> Result<Result<FunctionValue, FunctionFault>, FunctionError> {
        let plugin = self.plugin().clone();
        let unknown = || FunctionError::Unknown { plugin: plugin.name().to_owned(), name: name.to_owned() };
        let decl = plugin.manifest().functions.get(name).ok_or_else(unknown)?;
        decl.check_arguments(arguments)?;
        let limit = plugin.limits().reply_bytes;
        let size: usize = arguments.iter().map(FunctionValue::encoded_len).sum();
        if size > limit {
            let what = format!("the arguments take {size} bytes; the limit is {limit} (sandbox.reply_bytes)");
            return Err(FunctionCallError { argument: None, what }.into());
        }
        let arguments = arguments.iter().map(FunctionValue::encode_to_vec).collect();
        let result = match self.call(CallFunction { name: name.to_owned(), arguments }).await? {
            Ok(result) => result,
            Err(fault) => return Ok(Err(fault)),
        };
        let by = self.caller_number();
        let mut wrong = |what: String| {
            self.spoil();
            FunctionError::Fault(plugin.blame_answer(Hook::Function.name(), by, what))
        };
        let result = FunctionValue::decode(result.as_slice())
            .map_err(|e| wrong(format!("the answer of {name} is not a mortise.plugin.v1.FunctionValue: {e}")))?;
        decl.check_result(&result).map_err(|fault| wrong(format!("{name} answered a wrong value: {fault}")))?;
        Ok(Ok(result))
    }
}
