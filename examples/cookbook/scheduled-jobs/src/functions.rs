//! The function `next_times`.

use mortise_plugin::{Function, FunctionFault, Parameter, Value, ValueType, prost_types::Timestamp};

use crate::slots::Every;

/// Most times of one call.
const MOST: i64 = 100;

/// Functions of the plugin.
pub(crate) static FUNCTIONS: [Function; 1] = [Function::new(
    "next_times",
    &[
        Parameter::new("after", ValueType::String).description("A time, such as 2025-01-01T00:00:00Z."),
        Parameter::new("seconds", ValueType::Number).description("The time from one run to the next."),
        Parameter::new("count", ValueType::Number).description("The number of times, 1 to 100."),
    ],
    ValueType::List(&ValueType::String),
    next_times,
)
.summary("Lists the next times of a schedule.")];

/// Lists the next times. A function has no clock, so the first argument is the time to begin after.
fn next_times(arguments: &[Value]) -> Result<Value, FunctionFault> {
    // The host has checked the number of arguments, and their types.
    let [after, seconds, count] = arguments else { return Err(FunctionFault::new("next_times takes 3 arguments")) };
    let after = after.as_text().and_then(|text| text.parse::<Timestamp>().ok());
    let mut now = after
        .and_then(|after| u64::try_from(after.seconds).ok())
        .ok_or_else(|| FunctionFault::at(0, "must be a time after 1970, such as 2025-01-01T00:00:00Z"))?;
    let every = Every::seconds(seconds.as_i64().unwrap_or_default())
        .map_err(|fault| FunctionFault::at(1, fault.to_string()))?;
    let count = count.as_i64().filter(|count| (1..=MOST).contains(count));
    let count = count.ok_or_else(|| FunctionFault::at(2, "must be 1 to 100"))?;
    let mut times = Vec::new();
    for _ in 0..count {
        now = every.next(now);
        times.push(Value::Text(timestamp(now).to_string()));
    }
    Ok(times.into())
}

/// Makes a timestamp of seconds since 1970.
pub(crate) fn timestamp(seconds: u64) -> Timestamp {
    Timestamp { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 }
}
