//! Tests of the log by itself: reading whole, torn, damaged and forged records.

use std::{fs, os::unix::fs::FileExt as _, path::Path};

use super::{record::HEADER_BYTES, *};

const SALT: u64 = 0x5eed;
const START: CheckpointPosition = CheckpointPosition { generation: 4, number: 30, salt: SALT };

fn begin(dir: &Path, checkpoint: CheckpointPosition) -> Wal {
    Wal::begin(dir, checkpoint, 1 << 20, Box::new(|_| Ok(()))).unwrap()
}

/// Makes a group of edits, of about this many bytes.
fn group(n: usize, bytes: usize) -> WriteBatch {
    let mut batch = WriteBatch::default();
    batch.insert(format!("key-{n}").into_bytes(), vec![n as u8; bytes]);
    batch.insert(b"last".to_vec(), n.to_string().into_bytes());
    batch.remove(format!("key-{}", n.wrapping_sub(2)).into_bytes());
    batch
}

/// Returns the states after all groups.
fn states(groups: impl IntoIterator<Item = usize>, bytes: usize) -> BTreeMap<IVec, State> {
    let edits = groups.into_iter().flat_map(|n| group(n, bytes).edits().to_vec());
    edits.map(|edit| (edit.key, edit.value)).collect()
}

fn file(dir: &Path, generation: u64) -> std::fs::File {
    fs::OpenOptions::new().read(true).write(true).open(path(dir, generation)).unwrap()
}

fn fault(dir: &Path) -> String {
    let error = recover(dir, START, LogEnd::default()).unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt { path, .. } if path.starts_with(dir)), "{error}");
    error.to_string()
}

#[test]
fn appended_records_are_found_over_two_generations() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(recover(dir.path(), START, LogEnd::default()).unwrap().checkpoint, START, "no log at all");
    let mut wal = begin(dir.path(), START);
    for n in 0..40 {
        if n == 26 {
            wal.rotate();
        }
        wal.append(&group(n, n * 37)).unwrap();
        let found = recover(dir.path(), START, LogEnd::default()).unwrap();
        assert_eq!(found.checkpoint, CheckpointPosition { number: 31 + n as u64, ..wal.checkpoint() });
        let expected: BTreeMap<_, _> =
            (0..=n).flat_map(|n| states([n], n * 37)).collect::<Vec<_>>().into_iter().collect();
        assert_eq!(found.states, expected);
        assert_eq!(wal.len() % MIN_BLOCK_BYTES as u64, 0);
    }
    assert_eq!(wal.checkpoint(), CheckpointPosition { generation: 6, number: 70, salt: SALT });
    // Once the tree has the first generation, the content of its file does not matter.
    let half = CheckpointPosition { generation: 5, number: 56, salt: SALT };
    assert_eq!(recover(dir.path(), half, LogEnd::default()).unwrap().states.get(&b"key-20"[..]), None);
    assert_eq!(recover(dir.path(), half, LogEnd::default()).unwrap().checkpoint, wal.checkpoint());
    assert!(recover(dir.path(), wal.checkpoint(), LogEnd::default()).unwrap().states.is_empty());
    wal.empty().unwrap();
    assert_eq!(size_on_disk(dir.path()), 0);
}

#[test]
fn a_file_that_is_written_over_shows_nothing_of_its_earlier_turns() {
    let dir = tempfile::tempdir().unwrap();
    let mut wal = begin(dir.path(), START);
    let mut checkpoint = START;
    // Each turn is shorter than its predecessor, so that old records are behind new ones.
    for turn in 0..6 {
        for n in 0..12 - turn * 2 {
            wal.append(&group(n, 700)).unwrap();
        }
        let found = recover(dir.path(), checkpoint, LogEnd::default()).unwrap();
        assert_eq!(found.states, states(0..12 - turn * 2, 700), "{turn}");
        checkpoint = wal.checkpoint();
        assert_eq!(found.checkpoint, checkpoint);
        wal.rotate();
        assert!(recover(dir.path(), checkpoint, LogEnd::default()).unwrap().states.is_empty());
    }
}

#[test]
fn a_torn_end_is_no_damage_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut wal = begin(dir.path(), START);
    let mut ends = Vec::new();
    for n in 0..3 {
        wal.append(&group(n, 900)).unwrap();
        ends.push(wal.len());
    }
    let (end, generation) = (wal.len(), wal.checkpoint().generation);
    wal.append(&group(3, 3_000)).unwrap();
    let whole = fs::read(path(dir.path(), generation)).unwrap();
    // Sectors reach the disk in any order, or not at all.
    // The rest of the record's last block is zeros anyway.
    let last = whole.iter().rposition(|byte| *byte != 0).unwrap() as u64;
    let sectors = (last - end) / MIN_BLOCK_BYTES as u64 + 1;
    for lost in 1..1_u32 << sectors {
        let torn = file(dir.path(), generation);
        torn.write_all_at(&whole, 0).unwrap();
        for sector in (0..sectors).filter(|sector| lost & (1 << sector) != 0) {
            torn.write_all_at(&[0; MIN_BLOCK_BYTES], end + sector * MIN_BLOCK_BYTES as u64).unwrap();
        }
        let found = recover(dir.path(), START, LogEnd::default()).unwrap();
        assert_eq!(found.states, states(0..3, 900), "{lost:b}");
        assert_eq!(found.checkpoint, CheckpointPosition { generation, number: 33, salt: SALT });
    }
    // The next opening begins another generation; the torn record is before the checkpoint position.
    let checkpoint = recover(dir.path(), START, LogEnd::default()).unwrap().checkpoint;
    let mut wal = begin(dir.path(), checkpoint);
    wal.append(&group(9, 10)).unwrap();
    assert_eq!(recover(dir.path(), checkpoint, LogEnd::default()).unwrap().states, states([9], 10));
    // A file that ends in the middle is a torn end, too.
    for len in [end, end - 3_996, 5_000, 4_096, 900, 512, 1, 0] {
        file(dir.path(), generation).set_len(len).unwrap();
        fs::remove_file(path(dir.path(), generation + 1)).ok();
        let whole = ends.iter().filter(|end| **end <= len).count();
        assert_eq!(recover(dir.path(), START, LogEnd::default()).unwrap().states, states(0..whole, 900), "{len}");
    }
}

#[test]
fn damage_before_the_end_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let mut wal = begin(dir.path(), START);
    let mut ends = Vec::new();
    for n in 0..4 {
        wal.append(&group(n, 300)).unwrap();
        ends.push(wal.len());
    }
    let generation = wal.checkpoint().generation;
    let log = file(dir.path(), generation);
    let flip = |offset: u64, bit: u8| {
        let mut byte = [0];
        log.read_exact_at(&mut byte, offset).unwrap();
        log.write_all_at(&[byte[0] ^ (1 << bit)], offset).unwrap();
    };
    let last = ends[2];
    for offset in 0..last {
        flip(offset, (offset % 8) as u8);
        match recover(dir.path(), START, LogEnd::default()) {
            // The zeros behind a record belong to no record.
            Ok(found) => assert_eq!(found.states, states(0..4, 300), "{offset}"),
            Err(_) => assert!(fault(dir.path()).contains("is damaged, and others follow it"), "{offset}"),
        }
        flip(offset, (offset % 8) as u8);
    }
    // A damaged last record looks like a torn one,
    flip(last + 30, 3);
    assert_eq!(recover(dir.path(), START, LogEnd::default()).unwrap().states, states(0..3, 300));
    // unless a later generation follows it.
    wal.rotate();
    wal.append(&group(4, 300)).unwrap();
    assert!(fault(dir.path()).contains("record 33 of the write-ahead log"), "{}", fault(dir.path()));
    flip(last + 30, 3);
    assert_eq!(recover(dir.path(), START, LogEnd::default()).unwrap().states, states(0..5, 300));
    // The next generation shows that a whole generation is lost.
    log.set_len(0).unwrap();
    assert!(fault(dir.path()).contains("record 30 of the write-ahead log"), "{}", fault(dir.path()));
}

#[test]
fn records_cannot_be_forged() {
    let dir = tempfile::tempdir().unwrap();
    let mut forged = Vec::new();
    encode(&mut forged, SALT + 1, 4096, (START.generation + 1, START.number + 1), &group(7, 100));
    let mut genuine = Vec::new();
    encode(&mut genuine, SALT, 4096, (START.generation + 1, START.number + 1), &group(7, 100));
    for (inside, taken) in [(forged, false), (genuine, true)] {
        // A torn record with a value that looks like a record, at the start of a block.
        let mut batch = WriteBatch::default();
        let ahead = MIN_BLOCK_BYTES - HEADER_BYTES - 1 - 4 - 1 - 4;
        batch.insert(b"k".to_vec(), [vec![0; ahead], inside, vec![0; MIN_BLOCK_BYTES]].concat());
        let mut wal = begin(dir.path(), START);
        wal.append(&batch).unwrap();
        assert_eq!(recover(dir.path(), START, LogEnd::default()).unwrap().states.len(), 1, "whole");
        file(dir.path(), wal.checkpoint().generation).write_all_at(&[9; 4], 24).unwrap();
        match recover(dir.path(), START, LogEnd::default()) {
            Ok(found) => assert!(!taken && found.states.is_empty()),
            Err(error) => assert!(taken, "{error}"),
        }
    }
}

#[test]
fn files_grow_ahead_and_in_steps() {
    let dir = tempfile::tempdir().unwrap();
    let mut wal = begin(dir.path(), START);
    assert_eq!(size_on_disk(dir.path()), 0);
    wal.append(&group(0, 10)).unwrap();
    assert_eq!(size_on_disk(dir.path()), GROWTH_BYTES);
    wal.append(&group(1, 3 << 20)).unwrap();
    assert_eq!(size_on_disk(dir.path()), 4 << 20);
    assert_eq!(recover(dir.path(), START, LogEnd::default()).unwrap().checkpoint.number, START.number + 2);
    assert!(wal.buffer.capacity() <= KEPT_BUFFER_BYTES, "what a large group took is given back");
}

#[test]
fn a_tree_that_fell_behind_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let mut wal = begin(dir.path(), START);
    let mut marks = vec![START];
    for n in 0..6 {
        wal.append(&group(n, 100)).unwrap();
        marks.push(wal.checkpoint());
        wal.rotate();
    }
    // The files hold the generations of the last two marks.
    for (behind, checkpoint) in marks.iter().rev().enumerate() {
        match recover(dir.path(), *checkpoint, LogEnd::default()) {
            Ok(found) => assert!(behind <= 2 && found.checkpoint == *marks.last().unwrap(), "{behind}"),
            Err(error) => {
                assert!(behind > 2 && error.to_string().contains("the end of the tree's file is lost"), "{error}");
            }
        }
    }
}

#[test]
fn found_records_are_secured_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let mut wal = begin(dir.path(), START);
    for n in 0..5 {
        wal.append(&group(n, 700)).unwrap();
        if n == 2 {
            wal.rotate();
        }
    }
    let files = || FILES.map(|name| fs::read(dir.path().join(name)).unwrap());
    let (before, found) = (files(), recover(dir.path(), START, LogEnd::default()).unwrap());
    assert_eq!(found.held.len(), 2);
    found.secure().unwrap();
    assert_eq!(files(), before);
}
