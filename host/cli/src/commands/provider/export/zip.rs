//! A zip archive of one program. Its bytes depend on the program and the name alone: the time is 1980-01-01, the first
//! one that the format has, and the mode is 0755.
//!
//! The format is that of PKWARE's APPNOTE 6.3, without extensions; sizes are below 4 GiB ([`super::platform`]).

use std::{
    fs::File,
    io::{self, BufWriter, Read, Seek as _, SeekFrom, Write as _},
};

use flate2::{Compression, write::DeflateEncoder};

/// Version of the format that a reader needs: compression by deflate.
const NEEDED_VERSION: u16 = 20;
/// Creator of the entry: Unix, so that a reader takes the mode from the attributes.
const UNIX: u16 = 3 << 8;
const DEFLATE: u16 = 8;
/// 1980-01-01.
const DATE: u16 = 0b10_0001;
/// A regular file that everyone may run.
const ATTRIBUTES: u32 = 0o100_755 << 16;

/// Checksum and sizes of the entry, in the order of headers.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    crc: u32,
    packed: u32,
    size: u32,
}

/// Writes a program as the one entry of an empty file.
///
/// # Errors
/// Faults of the file system; a size that the format cannot hold.
pub(super) fn pack(program: &mut File, name: &str, to: &mut File) -> io::Result<()> {
    to.write_all(&local_header(name, Sums::default())?)?;
    let begin = to.stream_position()?;
    let mut source = Summed { inner: program, crc: crc32fast::Hasher::new(), size: 0 };
    let mut encoder = DeflateEncoder::new(BufWriter::new(&mut *to), Compression::default());
    io::copy(&mut source, &mut encoder)?;
    encoder.finish()?.flush()?;
    let end = to.stream_position()?;
    let sums = Sums { crc: source.crc.finalize(), packed: narrow(end - begin)?, size: narrow(source.size)? };
    let directory = central_header(name, sums)?;
    to.write_all(&directory)?;
    to.write_all(&end_record(narrow(directory.len() as u64)?, narrow(end)?))?;
    to.seek(SeekFrom::Start(0))?;
    to.write_all(&local_header(name, sums)?)
}

/// A reader that sums up its bytes.
struct Summed<'a> {
    inner: &'a mut File,
    crc: crc32fast::Hasher,
    size: u64,
}

impl Read for Summed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.crc.update(buffer.get(..count).unwrap_or_default());
        self.size += count as u64;
        Ok(count)
    }
}

fn narrow(size: u64) -> io::Result<u32> {
    size.try_into().map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))
}

/// Fields that both headers of an entry have.
fn common(name: &str, sums: Sums) -> io::Result<Vec<u8>> {
    let length: u16 = name.len().try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidFilename))?;
    let flags = 0u16;
    let time = 0u16;
    let extra_length = 0u16;
    let mut bytes = Vec::new();
    for short in [NEEDED_VERSION, flags, DEFLATE, time, DATE] {
        bytes.extend(short.to_le_bytes());
    }
    for long in [sums.crc, sums.packed, sums.size] {
        bytes.extend(long.to_le_bytes());
    }
    bytes.extend(length.to_le_bytes());
    bytes.extend(extra_length.to_le_bytes());
    Ok(bytes)
}

fn local_header(name: &str, sums: Sums) -> io::Result<Vec<u8>> {
    Ok([&b"PK\x03\x04"[..], &common(name, sums)?, name.as_bytes()].concat())
}

fn central_header(name: &str, sums: Sums) -> io::Result<Vec<u8>> {
    let creator = UNIX | NEEDED_VERSION;
    let (comment_length, disk, internal_attributes, offset) = (0u16, 0u16, 0u16, 0u32);
    let mut bytes = [&b"PK\x01\x02"[..], &creator.to_le_bytes(), &common(name, sums)?].concat();
    for short in [comment_length, disk, internal_attributes] {
        bytes.extend(short.to_le_bytes());
    }
    bytes.extend(ATTRIBUTES.to_le_bytes());
    bytes.extend(offset.to_le_bytes());
    bytes.extend(name.as_bytes());
    Ok(bytes)
}

fn end_record(directory_size: u32, directory_offset: u32) -> Vec<u8> {
    let (disk, entries, comment_length) = (0u16, 1u16, 0u16);
    let mut bytes = b"PK\x05\x06".to_vec();
    for short in [disk, disk, entries, entries] {
        bytes.extend(short.to_le_bytes());
    }
    bytes.extend(directory_size.to_le_bytes());
    bytes.extend(directory_offset.to_le_bytes());
    bytes.extend(comment_length.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_holds_the_program_its_mode_and_its_sums() {
        let mut program = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..200_000u32).flat_map(|number| (number / 7).to_le_bytes()).collect();
        program.write_all(&content).unwrap();
        program.rewind().unwrap();
        let mut archive = tempfile::tempfile().unwrap();
        pack(&mut program, "name", &mut archive).unwrap();
        let mut bytes = Vec::new();
        archive.rewind().unwrap();
        archive.read_to_end(&mut bytes).unwrap();
        let number = |from: usize| u32::from_le_bytes(bytes[from..from + 4].try_into().unwrap());
        let (packed, size) = (number(18) as usize, number(22) as usize);
        assert_eq!((number(14), size), (crc32fast::hash(&content), content.len()));
        assert_eq!((&bytes[..4], &bytes[30..34]), (&b"PK\x03\x04"[..], &b"name"[..]));
        let mut unpacked = Vec::new();
        flate2::read::DeflateDecoder::new(&bytes[34..34 + packed]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, content);
        let directory = 34 + packed;
        assert_eq!((&bytes[directory..directory + 4], number(directory + 38) >> 16), (&b"PK\x01\x02"[..], 0o100_755));
        assert_eq!(
            (number(directory + 16), number(directory + 20), number(directory + 24)),
            (number(14), number(18), number(22))
        );
        let end = bytes.len() - 22;
        assert_eq!((&bytes[end..end + 4], number(end + 16) as usize), (&b"PK\x05\x06"[..], directory));
        assert_eq!(number(end + 12) as usize, end - directory);
    }
}
