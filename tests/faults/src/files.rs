//! Copies of directories, and the used bytes in them.

use std::{
    fs, io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use fastrand::Rng;

/// Size of a block; a block of zeros is unused.
const BLOCK: usize = 512;

/// Copies a directory with its whole content.
///
/// # Errors
/// Faults of the file system.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let Some(name) = path.file_name() else { continue };
        if path.is_dir() {
            copy(&path, &to.join(name))?;
        } else {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

/// Files below a directory, as paths relative to it, in order.
///
/// # Errors
/// Faults of the file system.
pub(crate) fn list(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut files, mut dirs) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(below) = dirs.pop() {
        for entry in fs::read_dir(dir.join(&below))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            if entry.file_type()?.is_dir() { dirs.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Ok(files)
}

/// The used bytes of files: blocks that are not all zeros.
#[derive(Debug)]
pub(crate) struct Used {
    /// Each file with the beginnings of its used blocks, and its length.
    files: Vec<(PathBuf, Vec<usize>, usize)>,
}

/// A bit of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flip {
    pub(crate) file: PathBuf,
    pub(crate) byte: usize,
    bit: u8,
}

impl Used {
    /// Finds the used bytes of everything below a directory.
    ///
    /// # Errors
    /// Faults of the file system.
    pub(crate) fn of(dir: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        for file in list(dir)? {
            let bytes = fs::read(dir.join(&file))?;
            let blocks = bytes.chunks(BLOCK).enumerate().filter(|(_, block)| block.iter().any(|byte| *byte != 0));
            let blocks: Vec<_> = blocks.map(|(n, _)| n * BLOCK).collect();
            if !blocks.is_empty() {
                files.push((file, blocks, bytes.len()));
            }
        }
        Ok(Self { files })
    }

    /// Removes the other files.
    pub(crate) fn retain(&mut self, wanted: impl Fn(&Path) -> bool) {
        self.files.retain(|(file, _, _)| wanted(file));
    }

    /// Returns a bit: half of the time of any used block, half of the time of any file, so that small files are hit
    /// often.
    pub(crate) fn any(&self, random: &mut Rng) -> Option<Flip> {
        let all: usize = self.files.iter().map(|(_, blocks, _)| blocks.len()).sum();
        let (file, blocks, len) = if random.bool() {
            let mut block = random.usize(..all.max(1));
            self.files.iter().find(|(_, blocks, _)| {
                let here = block < blocks.len();
                block = block.saturating_sub(blocks.len());
                here
            })?
        } else {
            random.choice(&self.files)?
        };
        let block = random.choice(blocks)?;
        let byte = random.usize(*block..(block + BLOCK).min(*len));
        Some(Flip { file: file.clone(), byte, bit: random.u8(..8) })
    }
}

impl Flip {
    /// Returns any bit of a byte.
    pub(crate) fn of(file: &Path, byte: usize, random: &mut Rng) -> Self {
        Self { file: file.to_owned(), byte, bit: random.u8(..8) }
    }

    /// Flips the bit in a directory.
    ///
    /// # Errors
    /// Faults of the file system.
    pub(crate) fn apply(&self, dir: &Path) -> io::Result<()> {
        let file = fs::OpenOptions::new().read(true).write(true).open(dir.join(&self.file))?;
        let mut byte = [0];
        file.read_exact_at(&mut byte, self.byte as u64)?;
        file.write_all_at(&byte.map(|byte| byte ^ (1 << self.bit)), self.byte as u64)
    }
}

impl std::fmt::Display for Flip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "bit {} of byte {} of {}", self.bit, self.byte, self.file.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_bytes_of_every_file_are_hit_and_one_bit_changes() {
        let dir = tempfile::tempdir().unwrap();
        let mut large = vec![0; 1 << 20];
        large[512 * 100] = 1;
        fs::write(dir.path().join("large"), &large).unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        fs::write(dir.path().join("d/small"), "x").unwrap();
        fs::write(dir.path().join("empty"), "").unwrap();
        let used = Used::of(dir.path()).unwrap();
        let mut random = Rng::with_seed(1);
        let flips: Vec<_> = (0..100).map(|_| used.any(&mut random).unwrap()).collect();
        let (small, large_ones): (Vec<_>, Vec<_>) = flips.into_iter().partition(|flip| flip.file.ends_with("d/small"));
        assert!(small.len() > 20 && large_ones.len() > 20);
        assert!(large_ones.iter().all(|flip| (51_200..51_712).contains(&flip.byte)));
        large_ones[0].apply(dir.path()).unwrap();
        let changed = fs::read(dir.path().join("large")).unwrap();
        let bits: u32 = changed.iter().zip(&large).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!(bits, 1);
        large_ones[0].apply(dir.path()).unwrap();
        assert_eq!(fs::read(dir.path().join("large")).unwrap(), large);
    }
}
