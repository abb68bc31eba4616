//! Functions of plugins, for callers.

use mortise_plugin_host::Call as PluginCall;
use mortise_resource::{
    Error,
    data::{CallFunctionRequest, CallFunctionResponse, FunctionFault, FunctionInfo, call_function_response::Outcome},
};

use crate::{
    call::{Call, Caller, Method},
    service::ResourceService,
};

/// Longest passed-on text of a function's refusal, characters.
const MAX_REFUSAL_CHARS: usize = 2_000;

impl ResourceService {
    /// Returns every function of the loaded plugins, sorted by plugin and name.
    #[must_use]
    pub fn functions(&self) -> Vec<FunctionInfo> {
        let registry = self.core.types();
        let mut plugins: Vec<_> = registry.plugins().iter().collect();
        plugins.sort_by_key(|plugin| plugin.name().to_owned());
        let has_function = |plugin: &&std::sync::Arc<mortise_plugin_host::Plugin>| {
            let name = plugin.name().to_owned();
            let functions = plugin.manifest().functions.values().map(|decl| decl.wire().clone());
            functions
                .map(|function| FunctionInfo { plugin: name.clone(), function: Some(function) })
                .collect::<Vec<_>>()
        };
        plugins.iter().flat_map(has_function).collect()
    }

    /// Calls a function of a plugin. Counts as a read.
    ///
    /// # Errors
    /// `NotFound`: the plugin or the function. `InvalidArgument`: unsuitable arguments. `ResourceExhausted`: over the
    /// rate. The plugin's faults. A function's own diagnostics of its arguments are an answer.
    pub async fn call_function(
        &self,
        caller: &Caller,
        request: CallFunctionRequest,
    ) -> Result<CallFunctionResponse, Error> {
        let call = Call::begin(&self.core, caller, Method::CallFunction).await?;
        let answer = self.computed(caller, request).await;
        call.end(answer).await
    }

    async fn computed(&self, caller: &Caller, request: CallFunctionRequest) -> Result<CallFunctionResponse, Error> {
        let CallFunctionRequest { plugin, name, arguments } = request;
        let registry = self.core.types();
        let found = registry.plugin(&plugin);
        let found = found.ok_or_else(|| Error::not_found(format!("no plugin {plugin:?} serves functions")))?;
        let mut call = PluginCall::new(found.clone(), caller.authorizer.clone()).for_caller(caller.number());
        call.share_within(|| caller.class(None));
        let outcome = match call.function(&name, &arguments).await? {
            Ok(result) => Outcome::Result(result),
            Err(fault) => Outcome::Fault(FunctionFault {
                argument: fault.argument.filter(|index| (*index as usize) < arguments.len()),
                text: fault.text.chars().filter(|c| !c.is_control()).take(MAX_REFUSAL_CHARS).collect(),
            }),
        };
        Ok(CallFunctionResponse { outcome: Some(outcome) })
    }
}
