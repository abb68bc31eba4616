//! Colours for the keys of YAML and JSON, as this program prints them.

use std::borrow::Cow;

use super::ui::{Style, Ui};

/// Colours the keys of YAML in block style.
pub(crate) fn yaml<'t>(text: &'t str, ui: &Ui) -> Cow<'t, str> {
    if !ui.color {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() * 2);
    // Indentation of the key whose text of several lines goes on.
    let mut block: Option<usize> = None;
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start_matches(' ').len();
        if block.is_some_and(|key| indent > key || line.trim().is_empty()) {
            out.push_str(line);
            continue;
        }
        let (dashes, rest) = dashes(line);
        let end = key_end(rest);
        let is_item = rest.starts_with('|');
        block = is_block(rest).then_some(dashes.len().saturating_sub(if is_item { 2 } else { 0 }));
        out.push_str(dashes);
        match end.and_then(|end| rest.split_at_checked(end)) {
            Some((key, value)) => {
                out.push_str(&ui.paint(Style::Name, key));
                out.push_str(value);
            }
            None => out.push_str(rest),
        }
    }
    Cow::Owned(out)
}

/// Splits the blanks and dashes at the beginning of a line from the rest.
fn dashes(line: &str) -> (&str, &str) {
    let mut rest = line.trim_start_matches(' ');
    while let Some(item) = rest.strip_prefix("- ") {
        rest = item;
    }
    line.split_at(line.len() - rest.len())
}

/// Position of the colon behind the key at the beginning of a line.
fn key_end(text: &str) -> Option<usize> {
    let end = match text.strip_prefix('"') {
        Some(quoted) => string_end(quoted)? + 1,
        None => text.find(": ").or_else(|| text.trim_end().strip_suffix(':').map(str::len))?,
    };
    text.get(end..).is_some_and(|rest| rest.starts_with(':')).then_some(end)
}

fn is_block(text: &str) -> bool {
    let text = text.trim_end();
    ["|", "|-", "|+"].iter().any(|mark| text == *mark || text.ends_with(&format!(": {mark}")))
}

/// Position behind the closing quote of a string without its opening one.
fn string_end(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Colours the keys of JSON.
pub(crate) fn json<'t>(text: &'t str, ui: &Ui) -> Cow<'t, str> {
    if !ui.color {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('"') {
        out.push_str(before);
        let end = string_end(behind).unwrap_or(behind.len());
        let (string, after) = behind.split_at_checked(end).unwrap_or((behind, ""));
        let string = format!("\"{string}");
        out.push_str(&if after.starts_with(':') { ui.paint(Style::Name, &string) } else { string });
        rest = after;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLOURED: Ui = Ui { color: true, color_err: false, width: None };

    /// Keys between brackets.
    fn marked(text: &str) -> String {
        text.replace("\x1b[36m", "<").replace("\x1b[0m", ">")
    }

    #[test]
    fn keys_of_yaml_are_coloured_and_texts_are_not() {
        let text = "id:\n  type:\n    kind: Artist\nlist:\n  - a: b\n    c: d: e\n  - - x\n\"a: b\": \"c: d\"\ntext: |\n  no: key\n\n  here\nlast: |-\n  no: key\nempty: {}\n- |\n  x: y\n---\n";
        let expected = "<id>:\n  <type>:\n    <kind>: Artist\n<list>:\n  - <a>: b\n    <c>: d: e\n  - - x\n<\"a: b\">: \"c: d\"\n<text>: |\n  no: key\n\n  here\n<last>: |-\n  no: key\n<empty>: {}\n- |\n  x: y\n---\n";
        assert_eq!(marked(&yaml(text, &COLOURED)), expected);
    }

    #[test]
    fn keys_of_json_are_coloured_and_texts_are_not() {
        let text = "{\n  \"a\": \"b: \\\"c\\\": d\",\n  \"e\\\"f\": [\"g\", 1],\"h\":{}\n}";
        let expected = "{\n  <\"a\">: \"b: \\\"c\\\": d\",\n  <\"e\\\"f\">: [\"g\", 1],<\"h\">:{}\n}";
        assert_eq!(marked(&json(text, &COLOURED)), expected);
    }

    #[test]
    fn without_colours_nothing_changes() {
        let plain = Ui { color: false, ..COLOURED };
        for text in ["a: b\n", "{\"a\": 1}", "\"", "\"\\"] {
            assert!(matches!(yaml(text, &plain), Cow::Borrowed(same) if same == text));
            assert!(matches!(json(text, &plain), Cow::Borrowed(same) if same == text));
            assert_eq!(marked(&json(text, &COLOURED)).replace(['<', '>'], ""), text);
        }
    }
}
