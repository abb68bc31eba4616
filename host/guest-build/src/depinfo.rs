//! Reader of the `.d` files that cargo writes next to an artifact. They name every local file of the artifact, of its
//! path dependencies, and of their build scripts.

use std::path::PathBuf;

/// Returns the files behind the colon of each rule. Spaces in names are escaped by a backslash.
pub(crate) fn parse(text: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in text.lines() {
        let Some((_, inputs)) = line.split_once(": ") else {
            continue;
        };
        let mut name = String::new();
        let mut characters = inputs.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\\' if characters.peek() == Some(&' ') => {
                    name.push(' ');
                    characters.next();
                }
                ' ' => push(&mut files, &mut name),
                other => name.push(other),
            }
        }
        push(&mut files, &mut name);
    }
    files
}

fn push(files: &mut Vec<PathBuf>, name: &mut String) {
    if !name.is_empty() {
        files.push(PathBuf::from(std::mem::take(name)));
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    #[test]
    fn spaces_are_escaped() {
        assert_eq!(
            super::parse("/t/a.wasm: /w/my\\ src/lib.rs /w/build.rs\n"),
            ["/w/my src/lib.rs", "/w/build.rs"].map(PathBuf::from)
        );
    }

    #[test]
    fn no_inputs() {
        assert!(super::parse("/t/a.wasm:\n\n").is_empty());
    }
}
