//! Tokens and policies: the answer of every method to every caller, leaks, and changes during use.

mod cascades;
mod grants;
mod methods;
mod own;
mod owners;
mod policies;
mod rights;
mod secrets;
mod strangers;
mod streams;
mod without_tokens;

use mortise_resource::data;
use tonic::{Code, Status};

fn allow(verbs: &[&str], types: &[&str]) -> data::TypeRule {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    data::TypeRule { verbs: words(verbs), types: words(types), ..data::TypeRule::default() }
}

/// Result as a letter: allowed, permission denied, unauthenticated, not found, or anything else.
fn letter<T>(result: Result<T, Status>) -> char {
    match result.map_err(|status| status.code()) {
        Ok(_) => '+',
        Err(Code::PermissionDenied) => 'P',
        Err(Code::Unauthenticated) => 'U',
        Err(Code::NotFound) => 'N',
        Err(Code::InvalidArgument) => 'I',
        Err(_) => '?',
    }
}
