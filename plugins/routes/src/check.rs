//! Check of a file's text before it replaces the old file: the text must stay within the part of nginx's language that
//! this plugin writes.
//!
//! The check parses the text without knowledge of how the text was made: characters, blocks, directives and their
//! arguments must be among the allowed ones. Quotes, backslashes, control characters and characters beyond ASCII are
//! never allowed; `$` only in directives that are always the same, and in variables that this plugin makes.
//!
//! # Limits
//! The check does not look up names, and does not know files of others; `nginx -t` does.

use crate::{
    file::{DOWN_SERVER, PROXY_DIRECTIVES},
    lookup,
    rules::{self, Address, address, hostname, path_prefix},
    settings::is_listen,
};

/// Reason why a text may not replace a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CheckError {
    #[error("line {line}: {source}")]
    Line { line: usize, source: LineError },
    #[error("its last line is incomplete")]
    UnfinishedLine,
    #[error("it ends in the middle of a block")]
    UnfinishedBlock,
    #[error("it has {0} upstream blocks")]
    Upstreams(usize),
}

/// Reason why a line is outside of the part of nginx's language that this plugin writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LineError {
    #[error("{0:?} has no semicolon")]
    Unfinished(String),
    #[error("a comment has a character that is not printable ASCII")]
    Comment,
    #[error("{0:?} is not allowed here")]
    Character(char),
    #[error("{0:?} is not allowed here")]
    Directive(String),
    #[error("the block {0:?} is not allowed here")]
    Block(String),
    #[error("the location {0:?} is not allowed, or is a duplicate")]
    Location(String),
    #[error("a closing brace closes no block")]
    NoBlock,
    #[error("an upstream block has no server")]
    EmptyUpstream,
    #[error("a split needs a share for each target, of the whole together, and one target for the rest")]
    Split,
    #[error("a location needs one answer, got {0}")]
    Answers(usize),
    #[error("a server block needs one listen, one server_name and a location for /")]
    Server,
}

/// A token of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'t> {
    Word(&'t str),
    Open,
    Close,
    End,
}

/// An open block, and its contents so far.
enum Block {
    Upstream { servers: usize },
    Split { units: u64, rest: bool },
    Server { listens: usize, names: usize, resolvers: usize, locations: Vec<String> },
    Location { answers: usize },
}

/// Checks a text; `is_known` answers whether an upstream of that name exists, or a variable (with `$`).
pub(crate) fn check(text: &str, is_known: &dyn Fn(&str) -> bool) -> Result<(), CheckError> {
    let mut file = File { is_known, blocks: Vec::new(), upstreams: 0, splits: 0, servers: 0 };
    let mut words = Vec::new();
    for (line, token) in tokens(text)? {
        let done = match token {
            Token::Word(word) => {
                words.push(word);
                continue;
            }
            Token::End => file.directive(&words),
            Token::Open => file.open(&words),
            Token::Close if words.is_empty() => file.close(),
            Token::Close => Err(LineError::Unfinished(words.join(" "))),
        };
        done.map_err(|source| CheckError::Line { line, source })?;
        words.clear();
    }
    match (&*words, &*file.blocks, file.upstreams) {
        ([], [], 1) => Ok(()),
        ([], [], count) => Err(CheckError::Upstreams(count)),
        _ => Err(CheckError::UnfinishedBlock),
    }
}

/// Splits a text into tokens. A comment takes a whole line.
fn tokens(text: &str) -> Result<Vec<(usize, Token<'_>)>, CheckError> {
    if !text.ends_with('\n') {
        return Err(CheckError::UnfinishedLine);
    }
    let mut tokens = Vec::new();
    for (mut rest, line) in text.split('\n').zip(1..) {
        if rest.starts_with('#') {
            if !rest.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
                return Err(CheckError::Line { line, source: LineError::Comment });
            }
            continue;
        }
        while let Some(first) = rest.chars().next() {
            let end = rest.find(|one| !is_plain(one)).unwrap_or(rest.len());
            let (word, behind) = rest.split_at_checked(end.max(first.len_utf8())).unwrap_or((rest, ""));
            match first {
                ' ' => {}
                '{' => tokens.push((line, Token::Open)),
                '}' => tokens.push((line, Token::Close)),
                ';' => tokens.push((line, Token::End)),
                _ if end > 0 => tokens.push((line, Token::Word(word))),
                other => return Err(CheckError::Line { line, source: LineError::Character(other) }),
            }
            rest = behind;
        }
    }
    Ok(tokens)
}

/// Whether a character may be in a word.
fn is_plain(one: char) -> bool {
    one.is_ascii_alphanumeric() || "._~-:/*[]=$%".contains(one)
}

struct File<'a> {
    is_known: &'a dyn Fn(&str) -> bool,
    blocks: Vec<Block>,
    upstreams: usize,
    splits: usize,
    servers: usize,
}

impl File<'_> {
    fn directive(&mut self, words: &[&str]) -> Result<(), LineError> {
        let fits = match (self.blocks.last_mut(), words) {
            (Some(Block::Upstream { servers: servers @ 0 }), words) if words.join(" ") == DOWN_SERVER => {
                *servers = 1;
                true
            }
            (Some(Block::Upstream { servers }), ["server", one, weight]) => {
                *servers = servers.saturating_add(1);
                let weight = weight.strip_prefix("weight=").and_then(|text| text.parse().ok());
                address(one).is_ok() && weight.is_some_and(|weight| rules::weight(weight).is_ok())
            }
            (Some(Block::Split { units, rest: false }), [share, target]) if lookup::is_share(share) => {
                *units = units.saturating_add(lookup::share(share));
                is_target(target, self.is_known)
            }
            (Some(Block::Split { rest: rest @ false, .. }), ["*", target]) => {
                *rest = true;
                is_target(target, self.is_known)
            }
            (Some(Block::Server { resolvers, .. }), ["resolver", one]) => {
                *resolvers = resolvers.saturating_add(1);
                is_listen(one)
            }
            (Some(Block::Server { listens, .. }), ["listen", one] | ["listen", one, "default_server"]) => {
                *listens = listens.saturating_add(1);
                is_listen(one)
            }
            (Some(Block::Server { names, .. }), ["server_name", one]) => {
                *names = names.saturating_add(1);
                hostname(one).is_ok()
            }
            (Some(Block::Server { .. }), words) => PROXY_DIRECTIVES.contains(&&*words.join(" ")),
            (Some(Block::Location { answers }), ["proxy_pass", one]) => {
                *answers = answers.saturating_add(1);
                one.strip_prefix("http://").is_some_and(self.is_known)
            }
            (Some(Block::Location { answers }), ["return", "404"]) => {
                *answers = answers.saturating_add(1);
                true
            }
            _ => false,
        };
        if fits { Ok(()) } else { Err(LineError::Directive(words.join(" "))) }
    }

    fn open(&mut self, words: &[&str]) -> Result<(), LineError> {
        let opened = match (self.blocks.last_mut(), words) {
            (None, ["upstream", name]) if !name.starts_with('$') && (self.is_known)(name) => {
                self.upstreams = self.upstreams.saturating_add(1);
                Block::Upstream { servers: 0 }
            }
            (None, [lookup::SPLIT, lookup::KEY, name])
                if self.splits == 0 && name.starts_with('$') && (self.is_known)(name) =>
            {
                self.splits = 1;
                Block::Split { units: 0, rest: false }
            }
            (None, ["server"]) if self.servers == 0 => {
                self.servers = 1;
                Block::Server { listens: 0, names: 0, resolvers: 0, locations: Vec::new() }
            }
            (Some(Block::Server { locations, .. }), ["location", path @ ..]) => {
                let whole = path.join(" ");
                let fits = match path {
                    ["=", path] => path_prefix(path).is_ok(),
                    ["/"] => true,
                    [path] => path.strip_suffix('/').is_some_and(|path| path_prefix(path).is_ok()),
                    _ => false,
                };
                if !fits || locations.contains(&whole) {
                    return Err(LineError::Location(whole));
                }
                locations.push(whole);
                Block::Location { answers: 0 }
            }
            _ => return Err(LineError::Block(words.join(" "))),
        };
        self.blocks.push(opened);
        Ok(())
    }

    fn close(&mut self) -> Result<(), LineError> {
        match self.blocks.pop() {
            None => Err(LineError::NoBlock),
            Some(Block::Upstream { servers: 1.. } | Block::Location { answers: 1 }) => Ok(()),
            Some(Block::Split { units, rest: true }) if lookup::is_within(units) => Ok(()),
            Some(Block::Server { listens: 1, names: 1, resolvers: 0 | 1, locations })
                if locations.iter().any(|one| one == "/") =>
            {
                Ok(())
            }
            Some(Block::Upstream { .. }) => Err(LineError::EmptyUpstream),
            Some(Block::Split { .. }) => Err(LineError::Split),
            Some(Block::Location { answers }) => Err(LineError::Answers(answers)),
            Some(Block::Server { .. }) => Err(LineError::Server),
        }
    }
}

/// Whether a request may go there: a known upstream, or a host name.
fn is_target(text: &str, is_known: &dyn Fn(&str) -> bool) -> bool {
    (!text.starts_with('$') && is_known(text)) || matches!(address(text), Ok(Address::Name(..)))
}

#[cfg(test)]
mod tests;
