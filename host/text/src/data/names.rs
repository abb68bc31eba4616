//! Names of fields, enum values and types in texts, and suggestions for unknown names.

use prost_reflect::{FieldDescriptor, MessageDescriptor};

use crate::Format;

/// Words that are all upper case in HCL's names.
const ACRONYMS: [&str; 4] = ["id", "tcp", "udp", "http"];

/// A field's name in HCL: PascalCase of its JSON name, with acronyms in upper case.
pub(crate) fn hcl_name(json_name: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for letter in json_name.chars() {
        match words.last_mut() {
            Some(word) if !letter.is_ascii_uppercase() && letter != '_' => word.push(letter),
            _ if letter == '_' => words.push(String::new()),
            _ => words.push(letter.to_ascii_lowercase().to_string()),
        }
    }
    let capitalised = |word: &String| {
        if ACRONYMS.contains(&word.as_str()) {
            return word.to_ascii_uppercase();
        }
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
    };
    words.iter().map(capitalised).collect()
}

/// Name of a field in a format.
pub(crate) fn field_name(field: &FieldDescriptor, format: Format) -> String {
    if format == Format::Hcl { hcl_name(field.json_name()) } else { field.json_name().to_owned() }
}

/// Finds a field by a name: by its JSON name or its protobuf name, or in HCL by its HCL name.
pub(crate) fn find_field(message: &MessageDescriptor, name: &str, format: Format) -> Option<FieldDescriptor> {
    if format == Format::Hcl {
        return message.fields().find(|field| hcl_name(field.json_name()) == name);
    }
    message.get_field_by_json_name(name).or_else(|| message.get_field_by_name(name))
}

/// The field that was probably meant, in the spelling nearest to the text's.
pub(crate) fn near_field(message: &MessageDescriptor, name: &str, format: Format) -> Option<String> {
    let spellings = message.fields().flat_map(|field| match format {
        Format::Hcl => vec![hcl_name(field.json_name())],
        _ => vec![field.json_name().to_owned(), field.name().to_owned()],
    });
    nearest(name, spellings)
}

/// The candidate with the fewest edits from a name, if they are few enough for a typing error. Case and underscores do
/// not count.
pub fn nearest(name: &str, candidates: impl IntoIterator<Item = String>) -> Option<String> {
    // No name is so long, and the distance of two texts takes time in the product of their lengths.
    if name.len() > 200 {
        return None;
    }
    let plain = |text: &str| text.to_lowercase().replace(['_', '-'], "");
    let (wanted, lower) = (plain(name), name.to_lowercase());
    let allowed = (wanted.chars().count() / 3).clamp(1, 4);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= 200)
        .map(|candidate| {
            let coarse = strsim::osa_distance(&wanted, &plain(&candidate));
            (coarse, strsim::osa_distance(&lower, &candidate.to_lowercase()), candidate)
        })
        .filter(|(coarse, ..)| *coarse <= allowed)
        .min()
        .map(|(.., candidate)| candidate)
}

/// The remedy for a misspelt name: `did you mean …?`
pub(crate) fn did_you_mean(candidate: &str) -> String {
    format!("did you mean `{candidate}`?")
}

/// Lists names for a sentence, `at_most` of them.
pub(crate) fn listed(names: impl ExactSizeIterator<Item = String>, at_most: usize) -> String {
    let all = names.len();
    let mut text = names.take(at_most).collect::<Vec<_>>().join(", ");
    if all > at_most {
        text.push_str(&format!(" and {} more", all - at_most));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hcl_names_are_pascal_case_with_acronyms_in_upper_case() {
        for (json, hcl) in [
            ("name", "Name"),
            ("id", "ID"),
            ("groupVersion", "GroupVersion"),
            ("yearOfRelease", "YearOfRelease"),
            ("identityId", "IdentityID"),
            ("httpPort", "HTTPPort"),
            ("tcpUdp", "TCPUDP"),
            ("idle", "Idle"),
            ("http2", "Http2"),
            ("snake_case_id", "SnakeCaseID"),
        ] {
            assert_eq!(hcl_name(json), hcl);
        }
    }

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let names = || ["genre", "name", "groupMembers", "group_members"].map(str::to_owned);
        assert_eq!(nearest("genr", names()).as_deref(), Some("genre"));
        assert_eq!(nearest("naem", names()).as_deref(), Some("name"));
        assert_eq!(nearest("Group_Members", names()).as_deref(), Some("group_members"));
        assert_eq!(nearest("groupMember", names()).as_deref(), Some("groupMembers"));
        assert_eq!(nearest("title", names()), None);
        assert_eq!(nearest(&"a".repeat(1000), names()), None);
    }
}
