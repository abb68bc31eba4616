//! Comments of the `.proto` file, if the descriptors have them.

use prost_reflect::{
    EnumDescriptor, EnumValueDescriptor, FieldDescriptor, FileDescriptor, MessageDescriptor, MethodDescriptor,
    ServiceDescriptor,
};

/// An element of a `.proto` file that may have a comment.
pub trait Commented {
    /// The file and the path in its descriptor.
    fn place(&self) -> (FileDescriptor, &[i32]);

    /// The comment before the element, or else behind it, without comment signs; empty without one.
    fn comment(&self) -> String {
        let (file, path) = self.place();
        let info = file.file_descriptor_proto().source_code_info.as_ref();
        let Some(location) = info.and_then(|info| info.location.iter().find(|l| l.path == path)) else {
            return String::new();
        };
        let cleaned = |text: Option<&str>| text.map(clean).filter(|text| !text.is_empty());
        cleaned(location.leading_comments.as_deref())
            .or_else(|| cleaned(location.trailing_comments.as_deref()))
            .unwrap_or_default()
    }
}

/// Removes the blank after the comment sign from each line, and empty lines at the start and the end.
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
    ServiceDescriptor: |s| s.parent_file();
    MethodDescriptor: |m| m.parent_file();
}

/// The comment of an element.
#[must_use]
pub fn comment(item: &impl Commented) -> String {
    item.comment()
}
