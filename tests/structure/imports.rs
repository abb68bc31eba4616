//! Imports between the files of one crate, read from its tokens.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Files of a crate by path below its `src`, with their text.
pub(super) type Files = BTreeMap<String, String>;

/// A module's name, as its segments below the crate.
pub(super) type Module = Vec<String>;

/// Keywords in front of the name that an item defines.
const DEFINING: [&str; 9] = ["struct", "enum", "union", "trait", "fn", "type", "const", "static", "macro_rules"];

/// File of the modules that macros make.
const GENERATED: &str = "(generated)";

/// Attributes of items that do not count: tests, and files from elsewhere.
const PASSED_OVER: [&str; 3] = ["[cfg(test", "[cfg(all(test", "[path="];

/// A crate's modules, and the paths that its files write.
#[derive(Default)]
pub(super) struct Crate {
    /// File that holds each module's content.
    pub(super) modules: BTreeMap<Module, String>,
    /// Names that each module defines itself.
    defined: BTreeSet<(Module, String)>,
    /// Paths behind the names that each module imports.
    imported: BTreeMap<(Module, String), Vec<String>>,
    /// Paths that each module imports with `*`.
    globs: BTreeMap<Module, Vec<Vec<String>>>,
    /// Paths as written: the file, the module in it, and the segments.
    written: Vec<(String, Module, Vec<String>)>,
    /// Re-exports: as `written`, with the name. They tie a file only if it uses the name itself.
    handed_on: Vec<(String, Module, Vec<String>, String)>,
    /// Words of each file outside its imports.
    words: BTreeSet<(String, String)>,
}

/// The thing that a path names.
enum Named {
    Module(Module),
    Item(String),
}

impl Crate {
    /// Reads the modules below `root` (`lib.rs` or `main.rs`), except those for tests.
    pub(super) fn read(files: &Files, root: &str) -> Self {
        let mut read = Self::default();
        let mut waiting = vec![(root.to_owned(), Module::new())];
        while let Some((file, module)) = waiting.pop() {
            read.modules.insert(module.clone(), file.clone());
            let tokens: TokenStream = files[&file].parse().unwrap_or_else(|e| panic!("{file} cannot be read: {e}"));
            for child in read.items(tokens, &file, &module, true) {
                let below = child.join("/");
                let found =
                    [format!("{below}.rs"), format!("{below}/mod.rs")].into_iter().find(|f| files.contains_key(f));
                waiting.push((found.unwrap_or_else(|| panic!("{file}: no file for module {below}")), child));
            }
        }
        read
    }

    /// Imports between files, as pairs of a user and a used file.
    pub(super) fn uses(&self) -> BTreeSet<(String, String)> {
        let used_here =
            |(file, _, _, name): &&(_, _, _, String)| self.words.contains(&(String::clone(file), name.clone()));
        let handed_on = self.handed_on.iter().filter(used_here).map(|(file, module, path, _)| (file, module, path));
        let written = self.written.iter().map(|(file, module, path)| (file, module, path));
        written
            .chain(handed_on)
            .filter_map(|(file, module, path)| match self.resolve(module, path, 0)? {
                Named::Item(used) if used != *file => Some((file.clone(), used)),
                _ => None,
            })
            .collect()
    }

    /// Follows a path that stands in `module`. Nothing for a path into another crate.
    fn resolve(&self, module: &Module, path: &[String], depth: usize) -> Option<Named> {
        let (first, rest) = path.split_first()?;
        let mut rest = rest;
        let mut named = match first.as_str() {
            "crate" => Named::Module(Vec::new()),
            "self" => Named::Module(module.clone()),
            "super" => Named::Module(parent(module)?),
            name => self.member(module, name, depth)?,
        };
        while let (Named::Module(of), Some(("super", more))) =
            (&named, rest.split_first().map(|(s, m)| (s.as_str(), m)))
        {
            (named, rest) = (Named::Module(parent(of)?), more);
        }
        for name in rest {
            let Named::Module(of) = &named else { break };
            let of = of.clone();
            named = self.member(&of, name, depth).unwrap_or_else(|| Named::Item(self.modules[&of].clone()));
        }
        Some(named)
    }

    /// Finds a name in a module: a child, a definition, an import.
    fn member(&self, module: &Module, name: &str, depth: usize) -> Option<Named> {
        let child: Module = module.iter().cloned().chain([name.to_owned()]).collect();
        let key = (module.clone(), name.to_owned());
        if self.modules.contains_key(&child) {
            return Some(Named::Module(child));
        }
        if self.defined.contains(&key) {
            return Some(Named::Item(self.modules[module].clone()));
        }
        if depth > 16 {
            return None;
        }
        if let Some(path) = self.imported.get(&key).filter(|path| path.first().is_none_or(|first| first != name)) {
            return self.resolve(module, path, depth + 1);
        }
        self.globs.get(module)?.iter().find_map(|path| match self.resolve(module, path, depth + 1)? {
            Named::Module(of) if of != *module => self.member(&of, name, depth + 1),
            _ => None,
        })
    }

    /// Reads a list of tokens. Returns the modules that stand in files of their own.
    fn items(&mut self, tokens: TokenStream, file: &str, module: &Module, top: bool) -> Vec<Module> {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut files = Vec::new();
        let (mut at, mut public) = (0, false);
        while at < tokens.len() {
            let next = tokens.get(at + 1);
            match &tokens[at] {
                TokenTree::Punct(mark) if mark.as_char() == '#' => {
                    at += 1 + usize::from(is_mark(next, '!'));
                    let attribute = tokens.get(at).map(|attribute| attribute.to_string().replace(' ', ""));
                    if attribute.is_some_and(|text| PASSED_OVER.iter().any(|passed_over| text.starts_with(passed_over)))
                    {
                        at = end_of_item(&tokens, at + 1);
                    }
                }
                TokenTree::Group(group) => {
                    files.extend(self.items(group.stream(), file, module, false));
                }
                TokenTree::Ident(word) if word == "mod" => {
                    let child: Module = module.iter().cloned().chain(next.map(ToString::to_string)).collect();
                    match tokens.get(at + 2) {
                        Some(TokenTree::Group(body)) => {
                            self.modules.insert(child.clone(), file.to_owned());
                            files.extend(self.items(body.stream(), file, &child, true));
                        }
                        _ if top => files.push(child),
                        _ => drop(self.modules.insert(child, GENERATED.to_owned())),
                    }
                    at += 2;
                }
                TokenTree::Ident(word) if word == "use" && !is_mark(next, '<') => {
                    let end = (at..tokens.len()).find(|i| is_mark(tokens.get(*i), ';')).unwrap_or(tokens.len());
                    self.import(&tokens[at + 1..end], &[], (file, module, public));
                    at = end;
                }
                TokenTree::Ident(word) => {
                    if top && DEFINING.iter().any(|defining| word == defining) {
                        let name = tokens[at..].iter().skip(1).find(|token| matches!(token, TokenTree::Ident(_)));
                        self.defined.insert((module.clone(), name.map(ToString::to_string).unwrap_or_default()));
                    }
                    let mut path = vec![word.to_string()];
                    while is_mark(tokens.get(at + 1), ':') && is_mark(tokens.get(at + 2), ':') {
                        let Some(TokenTree::Ident(word)) = tokens.get(at + 3) else { break };
                        path.push(word.to_string());
                        at += 3;
                    }
                    self.words.insert((file.to_owned(), path[0].clone()));
                    if path.len() > 1 {
                        self.written.push((file.to_owned(), module.clone(), path));
                    }
                }
                _ => {}
            }
            let visibility =
                matches!(tokens.get(at), Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Parenthesis);
            public = matches!(tokens.get(at), Some(TokenTree::Ident(word)) if word == "pub") || public && visibility;
            at += 1;
        }
        files
    }

    /// Reads what stands behind `use`, below `base`.
    fn import(&mut self, tokens: &[TokenTree], base: &[String], place: (&str, &Module, bool)) {
        let (file, module, public) = place;
        for tree in tokens.split(|token| is_mark(Some(token), ',')) {
            let (mut path, mut alias) = (base.to_vec(), None);
            let mut rest = tree.iter();
            let mut whole = !tree.is_empty();
            while let Some(token) = rest.next() {
                match token {
                    TokenTree::Ident(word) if word == "as" => alias = rest.next().map(ToString::to_string),
                    TokenTree::Ident(word) if word == "self" && !path.is_empty() => {}
                    TokenTree::Ident(word) => path.push(word.to_string()),
                    TokenTree::Group(group) => {
                        let inner: Vec<_> = group.stream().into_iter().collect();
                        self.import(&inner, &path, place);
                        whole = false;
                    }
                    star if is_mark(Some(star), '*') => {
                        self.globs.entry(module.clone()).or_default().push(path.clone());
                        if !public {
                            let all = path.iter().cloned().chain(["*".to_owned()]).collect();
                            self.written.push((file.to_owned(), module.clone(), all));
                        }
                        whole = false;
                    }
                    _ => {}
                }
            }
            let Some(name) = alias.or_else(|| path.last().cloned()).filter(|_| whole) else { continue };
            self.imported.insert((module.clone(), name.clone()), path.clone());
            if public {
                self.handed_on.push((file.to_owned(), module.clone(), path, name));
            } else {
                self.written.push((file.to_owned(), module.clone(), path));
            }
        }
    }
}

fn parent(module: &Module) -> Option<Module> {
    module.split_last().map(|(_, above)| above.to_vec())
}

fn is_mark(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

/// Place of the last token of the item, field or arm that begins at `from`.
fn end_of_item(tokens: &[TokenTree], from: usize) -> usize {
    let mut angles = 0_i32;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return at,
            TokenTree::Punct(mark) => match mark.as_char() {
                ';' => return at,
                ',' if angles == 0 => return at,
                '<' => angles += 1,
                '>' if !is_mark(tokens.get(at.wrapping_sub(1)), '-') => angles -= 1,
                _ => {}
            },
            _ => {}
        }
    }
    tokens.len()
}
