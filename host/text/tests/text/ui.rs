//! Golden files: each faulty text in `ui/` stands beside its expected diagnostics, in a file of its name with
//! `.faults`. `BLESS=1` rewrites these files.

use std::{fs, path::Path};

use mortise_text::{Source, parse};

use crate::common::types;

#[test]
fn faults_are_told_as_they_were() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/text/ui"));
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.ends_with(".faults") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let faults = parse(Source { name: &name, text: &text }, None, types()).unwrap_err().to_string() + "\n";
        let golden = folder.join(format!("{name}.faults"));
        if std::env::var_os("BLESS").is_some() {
            fs::write(&golden, &faults).unwrap();
        }
        assert_eq!(faults, fs::read_to_string(&golden).unwrap_or_default(), "{name}");
        seen += 1;
    }
    assert!(seen >= 8, "{seen}");
}
