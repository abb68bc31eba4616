//! Collects a file of descriptors with all of its imports.
//!
//! Files come from plugins, and a chain of imports may be as long as a plugin has files: the walk has a list of its
//! own, so that the stack does not grow with the chain.

use std::collections::HashSet;

use prost_reflect::FileDescriptor;

/// The imports of a file, then the file, each once, every file after its imports.
pub(super) fn with_imports(file: FileDescriptor) -> Vec<FileDescriptor> {
    let (mut seen, mut ordered) = (HashSet::new(), Vec::new());
    let mut open = vec![(file, false)];
    while let Some((file, imports_done)) = open.pop() {
        if imports_done {
            ordered.push(file);
        } else if seen.insert(file.name().to_owned()) {
            let imports: Vec<_> = file.dependencies().map(|import| (import, false)).collect();
            open.push((file, true));
            open.extend(imports.into_iter().rev());
        }
    }
    ordered
}
