//! Losses of power after calls in order.

use super::*;

fn path(text: &str) -> Parts {
    text.split('/').map(str::to_owned).collect()
}

/// A disk for calls one after another.
struct Machine(Disk, u64);

impl Machine {
    fn new() -> Self {
        Self(Disk::new(), 0)
    }

    fn call(&mut self, call: Call, result: i64) -> &mut Self {
        self.1 += 1;
        self.0.hear(&Event::Begin(self.1, call)).unwrap();
        self.0.hear(&Event::End(self.1, result)).unwrap();
        self
    }

    fn file(&mut self, name: &str) -> &mut Self {
        self.call(Call::Open { path: path(name), create: true, truncate: false, append: false }, 7)
    }

    fn write(&mut self, name: &str, at: u64, data: Vec<u8>) -> &mut Self {
        let len = data.len() as i64;
        self.call(Call::Write { path: path(name), fd: 7, offset: Some(at), data }, len)
    }

    fn sync(&mut self, name: &str) -> &mut Self {
        let path = if name.is_empty() { Parts::new() } else { path(name) };
        self.call(Call::Sync { path }, 0)
    }

    /// Returns possible contents of the disk, after many losses.
    fn images(&self) -> Vec<BTreeMap<String, Vec<u8>>> {
        let mut random = Rng::with_seed(1);
        let losses = (0..400).map(|n| match n {
            0 => Loss::All,
            1 => Loss::None,
            _ => Loss::Some(random.u8(..)),
        });
        let losses: Vec<_> = losses.collect();
        let cut = |loss| self.0.cut(512, loss, &mut random);
        let images = losses.into_iter().map(cut);
        images.map(|image| image.files.into_iter().map(|(path, bytes)| (path.join("/"), bytes)).collect()).collect()
    }
}

#[test]
fn what_was_synced_is_there_and_what_was_not_may_be_gone() {
    let mut machine = Machine::new();
    machine.file("f").sync("").write("f", 0, vec![1; 2048]).sync("f").write("f", 512, vec![2; 1024]);
    let images = machine.images();
    let mut seen = BTreeMap::<Vec<u8>, u32>::new();
    for image in &images {
        let bytes = &image["f"];
        assert_eq!(bytes.len(), 2048);
        assert!(bytes[..512].iter().chain(&bytes[1536..]).all(|byte| *byte == 1), "synced");
        *seen.entry(vec![bytes[512], bytes[1024]]).or_default() += 1;
        assert!(bytes.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])), "half a sector");
    }
    assert_eq!(seen.len(), 4, "each sector by itself: {seen:?}");
}

#[test]
fn a_sync_covers_what_had_ended_when_it_began() {
    let mut machine = Machine::new();
    machine.file("f").sync("").write("f", 0, vec![1; 512]).sync("f");
    let Machine(disk, _) = &mut machine;
    let write = Call::Write { path: path("f"), fd: 7, offset: Some(0), data: vec![2; 512] };
    disk.hear(&Event::Begin(100, Call::Sync { path: path("f") })).unwrap();
    disk.hear(&Event::Begin(101, write)).unwrap();
    disk.hear(&Event::End(101, 512)).unwrap();
    disk.hear(&Event::End(100, 0)).unwrap();
    let images = machine.images();
    assert!(images.iter().any(|image| image["f"][0] == 1) && images.iter().any(|image| image["f"][0] == 2));
}

#[test]
fn a_name_is_there_once_its_directory_was_synced() {
    let mut machine = Machine::new();
    machine.file("old").write("old", 0, vec![1]).sync("old").sync("");
    machine.file("new").write("new", 0, vec![2]).sync("new");
    machine.call(Call::Rename { from: path("new"), to: path("old") }, 0);
    let mut seen: Vec<_> = machine.images().into_iter().map(|image| (image["old"][0], image.len())).collect();
    seen.sort_unstable();
    seen.dedup();
    // The old state, with the new file beside it, and renamed; the name is always there.
    assert_eq!(seen, [(1, 1), (1, 2), (2, 1)]);
    machine.sync("");
    assert!(machine.images().iter().all(|image| image["old"] == [2] && image.len() == 1));
}

#[test]
fn a_file_that_was_cut_shows_nothing_of_what_it_held() {
    let mut machine = Machine::new();
    machine.file("f").sync("").write("f", 0, vec![1; 1024]).sync("f");
    machine.call(Call::Truncate { path: path("f"), len: 0 }, 0).write("f", 512, vec![2; 512]);
    for image in machine.images() {
        let bytes = &image["f"];
        match bytes.len() {
            0 => {}
            // Either no change or all of them: the new length never has the old first half.
            1024 if bytes[0] == 1 => assert!(bytes.iter().all(|byte| *byte == 1)),
            1024 => assert!(bytes[..512].iter().all(|byte| *byte == 0) && matches!(bytes[512], 0 | 2)),
            len => panic!("{len} bytes"),
        }
    }
}

#[test]
fn what_a_reader_sees_is_what_was_written() {
    let real = tempfile::tempdir().unwrap();
    let mut machine = Machine::new();
    machine.call(Call::MakeDir { path: path("d") }, 0).file("d/f").write("d/f", 3, vec![1; 2]);
    machine.call(Call::Write { path: path("d/f"), fd: 7, offset: None, data: vec![9] }, 1);
    machine.call(Call::Seek { fd: 7 }, 2);
    machine.call(Call::Write { path: path("d/f"), fd: 7, offset: None, data: vec![8, 8] }, 1);
    fs::create_dir(real.path().join("d")).unwrap();
    fs::write(real.path().join("d/f"), [9, 0, 8, 1, 1]).unwrap();
    machine.0.compare(real.path()).unwrap();
    fs::write(real.path().join("d/f"), [9, 0, 8, 1, 2]).unwrap();
    machine.0.compare(real.path()).unwrap_err();
}
