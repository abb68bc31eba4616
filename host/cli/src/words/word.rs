//! An entry of a table of words.

/// A word of another tool, or of habit.
pub(super) struct Word {
    /// The command as typed, with its subcommands, or a flag.
    pub(super) word: &'static str,
    /// Reason for which the thing does not exist here; empty if it has another name.
    pub(super) fault: &'static str,
    /// Form to type here.
    pub(super) remedy: &'static str,
}

/// Makes an entry of a table.
pub(super) const fn word(word: &'static str, fault: &'static str, remedy: &'static str) -> Word {
    Word { word, fault, remedy }
}
