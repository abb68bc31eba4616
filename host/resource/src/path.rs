//! Paths into messages: `data.group_members["drums"]`, `data.tracks[3]`.

use std::fmt::{self, Write as _};

/// One step into a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathStep {
    /// Into a field, by its protobuf name.
    Field(String),
    /// Into a list, counted from zero.
    Index(u32),
    /// Into a map.
    Key(String),
}

/// A path into a message; the empty path means the message itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldPath(pub Vec<PathStep>);

impl FieldPath {
    /// Makes a path of one field.
    pub fn field(name: impl Into<String>) -> Self {
        Self(vec![PathStep::Field(name.into())])
    }

    /// Whether the path means the message itself.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Field(name) => {
                    if position > 0 {
                        f.write_char('.')?;
                    }
                    f.write_str(name)?;
                }
                PathStep::Index(index) => write!(f, "[{index}]")?,
                PathStep::Key(key) => write!(f, "[{key:?}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_like_source() {
        let path = FieldPath(vec![
            PathStep::Field("data".into()),
            PathStep::Field("members".into()),
            PathStep::Key("a\"b".into()),
            PathStep::Field("tracks".into()),
            PathStep::Index(3),
        ]);
        assert_eq!(path.to_string(), r#"data.members["a\"b"].tracks[3]"#);
    }
}
