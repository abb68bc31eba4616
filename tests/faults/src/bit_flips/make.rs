//! Stores, backups and compiled code whose bits are flipped.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use fastrand::Rng;
use mortise_store::SledBackend;

use super::target::{NAMES, Target, WRITERS};
use crate::{
    Outcome, files,
    ledger::Ledger,
    mortise::Mortise,
    process::lines_of,
    writer::{End, Life, content, options},
};

/// Lives of a store before the flip.
const LIVES: u64 = 5;

/// Makes the stores, and checks that they hold the acknowledged writes.
pub(super) fn make(base: &Path, seed: u64) -> Outcome<()> {
    // The last write may have come during a checkpoint.
    for attempt in 0..10 {
        if base.exists() {
            fs::remove_dir_all(base)?;
        }
        if make_once(base, seed ^ (attempt << 60))? {
            return Ok(());
        }
    }
    Err("one more write changes more than the log, again and again".into())
}

/// Returns whether the last write changed only the log.
fn make_once(base: &Path, seed: u64) -> Outcome<bool> {
    let data = base.join("data");
    fs::create_dir_all(&data)?;
    let mut ledger = Ledger::default();
    let mut random = Rng::with_seed(seed);
    for life in 0..=LIVES {
        let end = match life {
            LIVES => End::Wait,
            // Every second life is closed; the last of them comes just before the killed one.
            life if life % 2 == 0 => End::Close,
            _ => End::Kill,
        };
        // The last life has few writes: they are in the log only.
        let writes = if life == LIVES { random.u64(4..300) } else { random.u64(200..400) };
        let life = Life {
            dir: data.clone(),
            seed,
            life,
            writers: WRITERS,
            names: NAMES,
            writes,
            end,
            compact: false,
            say: None,
        };
        let mut process = Command::new(std::env::current_exe()?)
            .args(life.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut pipe = process.stdin.take().ok_or("no pipe")?;
        for line in lines_of(&mut process)? {
            match &*line {
                "ready" => {
                    thread::park_timeout(Duration::from_millis(300));
                    files::copy(&data, &base.join("before"))?;
                    pipe.write_all(b"\n")?;
                }
                "idle" => process.kill()?,
                line => {
                    let heard = ledger.hear(line)?;
                    if let Some(fault) = heard.faults.first() {
                        return Err(format!("a life begins: {fault}").into());
                    }
                }
            }
        }
        process.wait()?;
        if life.life + 1 == LIVES {
            files::copy(&data, &base.join("closed"))?;
        }
    }
    fs::rename(&data, base.join("killed"))?;
    for file in files::list(&base.join("killed"))? {
        let differs = fs::read(base.join("killed").join(&file))? != fs::read(base.join("before").join(&file))?;
        if differs && !file.to_string_lossy().contains("wal.") {
            return Ok(false);
        }
    }
    let copy = base.join("copy");
    files::copy(&base.join("killed"), &copy)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let found = runtime.block_on(content(&SledBackend::open(options(&copy))?))?;
    fs::remove_dir_all(&copy)?;
    let faults = ledger.settle(&found).faults;
    if !faults.is_empty() {
        return Err(format!("a killed store: {faults:?}").into());
    }
    Ok(true)
}

/// Makes the targets that need a server.
pub(super) fn make_served(base: &Path, targets: &[Target], mortise: &Mortise) -> Outcome<()> {
    if targets.contains(&Target::Backup) {
        mortise.make_backup(&base.join("closed"), &base.join("backup"))?;
    }
    if targets.contains(&Target::Code) {
        mortise.make_code(&base.join("code"))?;
    }
    Ok(())
}
