//! What the `.proto` file says about a thing, where its descriptors have it.

use prost_reflect::{EnumDescriptor, EnumValueDescriptor, FieldDescriptor, FileDescriptor, MessageDescriptor};

/// What has a place in a file, and so perhaps a comment.
pub trait Commented {
    /// The file and the place in it.
    fn place(&self) -> (FileDescriptor, &[i32]);

    /// The comment before the thing, or else behind it, without the comment signs; empty when there is none.
    fn comment(&self) -> String {
        let (file, path) = self.place();
        let info = file.file_descriptor_proto().source_code_info.as_ref();
        let Some(location) = info.and_then(|info| info.location.iter().find(|l| l.path == path)) else {
            return String::new();
        };
        let said = |text: Option<&str>| text.map(clean).filter(|text| !text.is_empty());
        said(location.leading_comments.as_deref())
            .or_else(|| said(location.trailing_comments.as_deref()))
            .unwrap_or_default()
    }
}

/// Lines without the blank after the comment sign, and without empty ones around them.
fn clean(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end()).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

macro_rules! commented {
    ($($descriptor:ty: $file:expr;)*) => {
        $(impl Commented for $descriptor {
            fn place(&self) -> (FileDescriptor, &[i32]) {
                let file: fn(&$descriptor) -> FileDescriptor = $file;
                (file(self), self.path())
            }
        })*
    };
}

commented! {
    MessageDescriptor: |m| m.parent_file();
    FieldDescriptor: |f| f.parent_file();
    EnumDescriptor: |e| e.parent_file();
    EnumValueDescriptor: |v| v.parent_enum().parent_file();
}

/// The comment of a thing.
#[must_use]
pub fn comment(of: &impl Commented) -> String {
    of.comment()
}
