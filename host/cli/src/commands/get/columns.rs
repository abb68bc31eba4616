//! Columns and headings of the table of `mortise get`.

use clap::Args;

/// Flags of a table.
#[derive(Debug, Args)]
pub(super) struct ColumnArgs {
    /// Leaves out the headings
    #[arg(long)]
    pub(super) no_headers: bool,
    /// Adds a column with all labels
    #[arg(long)]
    pub(super) show_labels: bool,
    /// Adds a column for each of these labels; keys separated by commas
    #[arg(short = 'L', long = "label-columns", value_name = "KEYS", value_delimiter = ',')]
    pub(super) label_columns: Vec<String>,
}
