//! The candidate that a misspelt word means, by its letters.

/// Longest word that is compared, in bytes: the distance of two texts takes time in the product of their lengths.
const MAX_BYTES: usize = 100;

/// Fewest letters of the beginning of a word that stand for it.
const MIN_BEGINNING: usize = 3;

/// Returns the candidate that begins with the word, or the one with the fewest edits if they are few enough for a
/// typing error. `None` if two candidates are as near, or all are too far.
#[must_use]
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let word = word.to_lowercase();
    let letters = word.chars().filter(|c| c.is_alphanumeric()).count();
    if word.len() > MAX_BYTES || letters < MIN_BEGINNING {
        return None;
    }
    let allowed = (letters / 3).clamp(1, 3);
    let mut best: Option<(usize, &str)> = None;
    let mut is_tied = false;
    for candidate in candidates.into_iter().filter(|candidate| candidate.len() <= MAX_BYTES) {
        let lower = candidate.to_lowercase();
        let edits = if lower.starts_with(&word) { 0 } else { strsim::osa_distance(&word, &lower) };
        match best {
            _ if edits > allowed => {}
            Some((least, _)) if edits > least => {}
            Some((least, _)) if edits == least => is_tied = true,
            _ => (best, is_tied) = (Some((edits, candidate)), false),
        }
    }
    best.filter(|_| !is_tied).map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_near_by_few_edits_or_by_its_beginning_and_silent_otherwise() {
        let commands = ["get", "describe", "delete", "completions", "compact", "tls", "types"];
        for (word, near) in [
            ("gte", Some("get")),
            ("desc", Some("describe")),
            ("DELTE", Some("delete")),
            ("typse", Some("types")),
            ("comp", None),
            ("logs", None),
            ("x", None),
            ("teleport", None),
        ] {
            assert_eq!(nearest(word, commands), near, "{word}");
        }
    }
}
