//! The archive: a folder with the list of its parts first.

use std::io::{self, Write};

use flate2::{Compression, write::GzEncoder};
use jiff::Timestamp;
use tar::{Builder, EntryType, Header};

use super::parts::{Cut, Part};
use crate::{Cell, Style, Table};

/// Name of the list.
const LIST: &str = "CONTENTS.txt";

/// Writes the archive of a folder of this name.
///
/// # Errors
/// Those of the writer.
pub(super) fn pack(into: &mut impl Write, folder: &str, now: Timestamp, parts: &[Part]) -> io::Result<()> {
    let mut archive = Builder::new(GzEncoder::new(into, Compression::default()));
    append(&mut archive, &format!("{folder}/{LIST}"), now, list(parts).as_bytes())?;
    for part in parts {
        if let Ok(content) = &part.content {
            append(&mut archive, &format!("{folder}/{}", part.name), now, content)?;
        }
    }
    archive.into_inner()?.finish()?.flush()
}

fn append<W: Write>(archive: &mut Builder<W>, name: &str, now: Timestamp, content: &[u8]) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o600);
    header.set_mtime(u64::try_from(now.as_second()).unwrap_or_default());
    header.set_size(content.len() as u64);
    archive.append_data(&mut header, name, content)
}

/// Renders the list of the archive.
fn list(parts: &[Part]) -> String {
    let line = |part: &Part| format!("{:<28} {:>10}  {}{}\n", part.name, size(part), part.about, note(part));
    let head = "Parts of this archive, with their bytes. It has no resources, no values of plugins' settings and no tokens; messages of \
                plugins may quote from resources and settings.\n\n";
    head.to_owned() + &parts.iter().map(line).collect::<String>()
}

/// Renders the list for a terminal.
pub(super) fn table(parts: &[Part]) -> Table {
    let mut table = Table::new(["part", "bytes", "content"]);
    for part in parts {
        let style = if part.content.is_ok() { Style::Plain } else { Style::Warn };
        table.row(vec![
            part.name.as_str().into(),
            Cell::styled(style, size(part)),
            format!("{}{}", part.about, note(part)).into(),
        ]);
    }
    table
}

fn size(part: &Part) -> String {
    part.content.as_ref().map_or_else(|_| "-".to_owned(), |content| content.len().to_string())
}

fn note(part: &Part) -> String {
    match (&part.content, part.cut) {
        (Err(fault), _) => {
            // The list has a line for each part.
            let reason: String =
                fault.to_string().chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
            format!(" (absent: {reason})")
        }
        (Ok(_), Cut::Beginning) => " (its beginning is cut off)".to_owned(),
        (Ok(_), Cut::End) => " (its end is cut off)".to_owned(),
        (Ok(_), Cut::Nothing) => String::new(),
    }
}
