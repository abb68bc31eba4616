//! Runs a case of a function.

use mortise_cli::function_value;
use mortise_plugin_host::FunctionError;

use super::{case::FunctionCall, error::CaseError, hooks::HookCase};

impl HookCase<'_> {
    pub(super) async fn function(&mut self, asked: &FunctionCall) -> Result<(), CaseError> {
        let read = |value: &serde_json::Value| function_value::read(&value.to_string());
        let arguments = asked.arguments.iter().map(read).collect::<Result<Vec<_>, _>>();
        let arguments = arguments.map_err(|e| CaseError::field("function.arguments", e))?;
        let mut call = self.call()?;
        let answer = match call.function(&asked.name, &arguments).await {
            Ok(answer) => Ok(answer),
            Err(FunctionError::Fault(fault)) => Err(fault),
            Err(other) => return Err(CaseError::field("function", other)),
        };
        let Some(answer) = self.count(&call, answer) else { return Ok(()) };
        let expect = &self.case.expect;
        self.problems.no_fault(expect.fault.as_deref());
        match (answer, &expect.result, &expect.error) {
            (Ok(found), Some(expected), _) => {
                let expected = read(expected).map_err(|e| CaseError::field("expect.result", e))?;
                let text = function_value::write;
                self.problems.same("another result than expected:", &text(&expected), &text(&found));
            }
            (Ok(found), None, error) => {
                let (error, found) = (error.as_deref().unwrap_or_default(), function_value::write(&found));
                self.problems.add(format!("another end than expected:\n-error: …{error}…\n+result: {found}"));
            }
            (Err(fault), _, Some(part)) => {
                if !fault.text.contains(part.as_str()) {
                    self.problems.add(format!("another error than expected:\n-…{part}…\n+{}", fault.text));
                }
                if expect.argument.is_some() && expect.argument != fault.argument {
                    let index = |index: Option<u32>| index.map_or("no argument".to_owned(), |index| index.to_string());
                    self.problems.same(
                        "another argument is at fault than expected:",
                        &index(expect.argument),
                        &index(fault.argument),
                    );
                }
            }
            (Err(fault), _, None) => self.problems.add(format!("the function refused: {}", fault.text)),
        }
        Ok(())
    }
}
