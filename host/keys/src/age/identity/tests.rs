//! Files from the program `age` 1.1.1, and every way to damage them.

use std::{fs, os::unix::fs::PermissionsExt as _};

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::*;
use crate::age::is_encrypted;

const IDENTITY: &str = "AGE-SECRET-KEY-1PQKRTJHPEXPEN9XQ9U7AYEV2ERPQGK8AK467688EM9JE0CNYCJDQL0HE3K";
const OTHER: &str = "AGE-SECRET-KEY-1FNYK70XZM3UJECVXUT94KNY4RR2N2ELZD3673F9P7N5CDHZ7CCHS2FXXDS";
/// A file for both identities, with the content `s3cret` and a newline.
const FOR_TWO: &str = "-----BEGIN AGE ENCRYPTED FILE-----\n\
        YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSA1ZS9VOEJ1d0JCbjc2bysv\n\
        UDZCd1ZLRFZGcXVtZ3VqbEhobmo3cXBXLzBnCjRoRVREei9XMzRLM1FPKzNnVE0r\n\
        S2J4MFdYRmthUmtBWVRrdnVnRmhWclkKLT4gWDI1NTE5IHFQd2ZaOFduSFd4SUQv\n\
        WUI4SlI5clUxZEs3MERiRWp0T1B6SnRDUlRlMWsKMmVycTlHK0t4bDZGWHYzcXhE\n\
        MzJOZTh2TXFRQytFZXhEWHcrYUtJMko4awotLS0gOHltSGlVd0d6MUVTREc1U1g4\n\
        NEFNQ2pvUGcvRFEzelg5TERuT3gyR3ZDcwriqXJp+jjvlB2CWb+M34SOAMcv07sz\n\
        1Eyoth6EO7N0cDVmfr1b9OA=\n\
        -----END AGE ENCRYPTED FILE-----\n";
/// An empty file for the first identity.
const EMPTY: &str = "-----BEGIN AGE ENCRYPTED FILE-----\n\
        YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBsbHpGKzk3R1ZjMyt6eTBF\n\
        YVBDdUF4VjI1VHBJUU85YXEwWEk1NWpvYUFJCnhBejVtRFRoN0REc3hQZExlcXhZ\n\
        M3AyQWZJemFpbWRoc3BSQkNpVTdmM1UKLS0tIFAzTUU1bW5NVzJiZ0xRVGxWclVz\n\
        UURsQkdkNU83T2pPRUVzZmRYdG91RFUKSeClaAOijqSOp8freth6l9NkUselKT7k\n\
        ZEliM087I0g=\n\
        -----END AGE ENCRYPTED FILE-----\n";

fn identities(text: &str) -> Result<Identities, IdentityError> {
    with_mode(text.as_bytes(), 0o600)
}

fn with_mode(content: &[u8], mode: u32) -> Result<Identities, IdentityError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("identities");
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    Identities::read(&path)
}

/// The file without its armor.
fn binary(armored: &str) -> Vec<u8> {
    let lines: Vec<_> = armored.lines().collect();
    BASE64_STANDARD.decode(lines[1..lines.len() - 1].concat()).unwrap()
}

#[test]
fn what_age_wrote_is_read_armored_or_not_by_each_of_its_recipients() {
    for identity in [IDENTITY, OTHER] {
        let file = identities(&format!("# created: now\n\n{identity}\n")).unwrap();
        assert_eq!(file.decrypt(FOR_TWO.as_bytes()).unwrap(), b"s3cret\n");
        assert_eq!(file.decrypt(&binary(FOR_TWO)).unwrap(), b"s3cret\n");
        let framed = format!("\n  {}\n\n", FOR_TWO.replace('\n', "\r\n"));
        assert_eq!(file.decrypt(framed.as_bytes()).unwrap(), b"s3cret\n");
        assert!(is_encrypted(framed.as_bytes()));
    }
    let both = identities(&format!("{OTHER}\n{IDENTITY}")).unwrap();
    assert_eq!(both.decrypt(EMPTY.as_bytes()).unwrap(), b"");
    assert_eq!(identities(OTHER).unwrap().decrypt(EMPTY.as_bytes()), Err(AgeError::NoIdentity));
    assert!(is_encrypted(&binary(EMPTY)) && is_encrypted(EMPTY.as_bytes()));
    assert!(!is_encrypted(b"s3cret") && !is_encrypted(b""));
}

#[test]
fn every_changed_bit_and_every_cut_is_noticed() {
    let keys = identities(IDENTITY).unwrap();
    for file in [binary(FOR_TWO), binary(EMPTY)] {
        let whole = keys.decrypt(&file).unwrap();
        for offset in 0..file.len() {
            for bit in 0..8 {
                let mut changed = file.clone();
                changed[offset] ^= 1 << bit;
                assert!(keys.decrypt(&changed).is_err(), "bit {bit} of byte {offset}");
            }
            assert!(keys.decrypt(&file[..offset]).is_err(), "cut at {offset}");
        }
        assert!(keys.decrypt(&[file.as_slice(), b"x"].concat()).is_err());
        assert_eq!(keys.decrypt(&file).unwrap(), whole);
    }
}

#[test]
fn what_is_no_file_of_version_1_is_refused_with_a_reason() {
    let keys = identities(IDENTITY).unwrap();
    let stanza = |kind: &str| format!("age-encryption.org/v1\n-> {kind}\n\n--- {}\n", "A".repeat(43));
    let many = "-> X\n\n".repeat(65);
    let cases: [(&str, &str); 8] = [
        ("", "its header does not end"),
        ("age-encryption.org/v2\n", "another version"),
        (&stanza("scrypt c2FsdA 30"), "with a passphrase"),
        (&stanza("X25519"), "wrong arguments"),
        (&stanza("X25519 AA"), "wrong length"),
        (&stanza("grease  x"), "empty argument"),
        (&format!("age-encryption.org/v1\n{many}"), "more than 64 recipients"),
        ("-----BEGIN AGE ENCRYPTED FILE-----\nAA\n", "does not end"),
    ];
    for (file, says) in cases {
        let error = keys.decrypt(file.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
    assert!(matches!(
        keys.decrypt(b"age-encryption.org/v1\n\xff\n"),
        Err(AgeError::Malformed("its header is not text"))
    ));
    assert_eq!(keys.decrypt(stanza("other x").as_bytes()), Err(AgeError::NoIdentity));
}

#[test]
fn a_file_of_identities_is_its_owners_alone_and_holds_nothing_else() {
    for (mode, fine) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o620, false)] {
        let read = with_mode(IDENTITY.as_bytes(), mode);
        assert_eq!(read.is_ok(), fine, "{mode:o}: {read:?}");
    }
    let upper = IDENTITY.to_lowercase();
    assert!(identities(&upper).is_ok());
    let changed = IDENTITY.replacen('P', "Q", 1);
    for (text, says) in [
        ("", "holds 0 identities"),
        ("# nothing\n", "holds 0 identities"),
        ("x\n", "line 1: not an X25519 identity"),
        (&format!("{IDENTITY}\n{changed}\n"), "line 2: not an X25519 identity"),
        (&format!("{IDENTITY}\n").repeat(17), "holds 17 identities"),
    ] {
        let error = identities(text).unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains("SECRET"), "{says}: {error}");
    }
    assert!(with_mode(&vec![b'#'; 70_000], 0o600).is_err());
    assert!(!format!("{:?}", identities(IDENTITY).unwrap()).contains("SECRET"));
}

/// Editors and shells of Windows put a mark in front of a text, some in UTF-16.
#[test]
fn a_byte_order_mark_makes_a_file_neither_plain_nor_readable() {
    let identities = identities(IDENTITY).unwrap();
    let behind = |text: &str| {
        let wide = |to: fn(u16) -> [u8; 2]| format!("\u{feff}{text}").encode_utf16().flat_map(to).collect::<Vec<_>>();
        [format!("\u{feff}{text}").into_bytes(), wide(u16::to_le_bytes), wide(u16::to_be_bytes)]
    };
    for file in [FOR_TWO, "age-encryption.org/v1\n"].into_iter().flat_map(behind) {
        assert!(is_encrypted(&file), "{file:?}");
        let refused = identities.decrypt(&file).unwrap_err();
        assert!(refused.to_string().contains("byte order mark"), "{refused}");
    }
    assert!(behind("s3cret").iter().all(|file| !is_encrypted(file)));
}
