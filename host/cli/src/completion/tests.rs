use clap::Subcommand as _;

use super::*;

fn program() -> Command {
    crate::Command::augment_subcommands(Command::new("mortise"))
}

fn words(text: &str, index: Option<usize>) -> Words {
    let arguments = ["/usr/bin/mortise", "--", "mortise"].into_iter().chain(text.split(' '));
    Words::of(arguments.map(OsString::from).collect(), index, program)
}

#[test]
fn words_are_those_in_front_of_the_current_one() {
    assert_eq!(words("get artist ko", Some(3)).words, ["get", "artist"]);
    assert_eq!(words("get artist ko", None).words, ["get", "artist"]);
    assert_eq!(words("get artist korn --output", Some(2)).words, ["get"]);
    assert!(Words::of(vec!["mortise".into()], None, program).words.is_empty());
    assert!(Words::of(vec!["mortise".into(), "--".into()], Some(7), program).words.is_empty());
}

#[test]
fn words_are_read_as_far_as_they_are_right() {
    for (text, name, namespace) in [
        ("get artist -n blue korn x", "korn", Some("blue")),
        ("-n blue get artist korn x", "korn", Some("blue")),
        ("get artist korn --nosuch x", "korn", None),
        ("get artist korn -n x", "korn", None),
    ] {
        let typed = words(text, None).read().unwrap();
        assert_eq!(typed.values("what"), ["artist", name], "{text}");
        assert_eq!(typed.tenancy().namespace.as_deref(), namespace, "{text}");
    }
    let typed = words("types x", None).read().unwrap();
    assert_eq!((typed.tenancy().namespace, typed.values("what").len()), (None, 0), "a command without places");
}

/// Every argument that names a type, a resource or a place has candidates, also in commands that come later.
#[test]
fn arguments_that_name_what_a_server_has_are_completed() {
    fn walk(command: &Command, above: &str, found: &mut Vec<(String, bool)>) {
        for argument in command.get_arguments() {
            let value = argument.get_value_names().and_then(<[_]>::first).map_or("", |name| name.as_str());
            let names = value.starts_with("TYPE") || matches!(argument.get_long(), Some("namespace" | "context"));
            let words = matches!(argument.get_long(), Some("type" | "output")) || value == "TYPE NAME=VALUE";
            if names && !words {
                let title = format!("{} {}", command.get_name(), argument.get_id());
                found.push((title, kind(argument, command.get_name(), above).is_some()));
            }
        }
        command.get_subcommands().for_each(|inner| walk(inner, command.get_name(), found));
    }
    let mut found = Vec::new();
    walk(&program(), "", &mut found);
    let missing: Vec<_> = found.iter().filter(|(_, known)| !known).collect();
    assert!(found.len() > 30 && missing.is_empty(), "{} found, missing: {missing:?}", found.len());
}
