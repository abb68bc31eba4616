//! The system calls of a writer, read from the output of `strace -f -y -xx`.
//!
//! Read by hand: the crates for such traces know a few calls, and no calls that another thread interrupts. This needs
//! little: a call's name, its arguments between commas, its result. Strings are in hexadecimal, so no argument contains
//! a comma, a quote or a parenthesis of its own.
//!
//! # Order
//! A call is two events, its beginning and its end. A thread stays stopped until strace has written about it. So an
//! action that follows another thread's call comes later in the trace.
//!
//! # Kills
//! If a thread is killed during a call, strace writes no end of the call, a note that it detached from the thread, or
//! the result of some other call. So a call with an impossible result (a write returns the number of its bytes: no disk
//! here is full, and only the killing signal comes) did not end either. A line of the ledger may come twice in a trace;
//! the ledger itself says whether it was written twice.

use std::{collections::HashMap, fmt, iter, path::Path};

/// System calls that change files, and those that show where a `write` goes.
pub(crate) const CALLS: &str = "openat,open,creat,close,write,pwrite64,writev,pwritev,pwritev2,lseek,ftruncate,truncate,fallocate,\
     copy_file_range,sendfile,fsync,fdatasync,sync,syncfs,msync,rename,renameat,renameat2,link,linkat,symlink,symlinkat,\
     unlink,unlinkat,rmdir,mkdir,mkdirat";

/// Number of earlier changes that are compared with a change. Only calls of different threads overlap, and a writer has
/// fewer threads.
const OVERLAPPING: usize = 64;

/// A path below the traced directory, in parts.
pub(crate) type Parts = Vec<String>;

/// A call, as far as it concerns the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    /// Opens a file; the result is its descriptor.
    Open {
        path: Parts,
        create: bool,
        truncate: bool,
        append: bool,
    },
    Close {
        fd: i64,
    },
    /// Writes bytes, at the descriptor's position unless `at` is another place; the result is their number.
    Write {
        path: Parts,
        fd: i64,
        offset: Option<u64>,
        data: Vec<u8>,
    },
    /// Moves the position of a descriptor; the result is the new position.
    Seek {
        fd: i64,
    },
    Truncate {
        path: Parts,
        len: u64,
    },
    /// Makes all writes to the file, or all changes of the directory's names, durable when it ends.
    Sync {
        path: Parts,
    },
    Rename {
        from: Parts,
        to: Parts,
    },
    /// Two names are exchanged in one step.
    Exchange {
        from: Parts,
        to: Parts,
    },
    Remove {
        path: Parts,
    },
    MakeDir {
        path: Parts,
    },
}

/// Shows the call without the bytes.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { path, offset: at, data, .. } => {
                write!(f, "write {} {at:?} {} bytes", path.join("/"), data.len())
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// Event of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// Beginning of a call, with a number that no other life has.
    Begin(u64, Call),
    /// End of a call, with a result of 0 or more; a failed call had no effect.
    End(u64, i64),
    /// Failure of a call.
    Failed(u64),
    /// Number of bytes that are there of a write that a kill interrupted.
    Interrupted(u64, usize),
    /// Line of the ledger.
    Said(String),
}

/// Reads a trace. `root` is the directory that matters, `ledger` the file of the ledger, and `number` the first number
/// for calls.
///
/// A line changes a file below the directory in an unknown way.
pub(crate) fn read(text: &str, root: &Path, ledger: &Path, number: &mut u64) -> Result<Vec<Event>, String> {
    let mut events = Vec::new();
    // By thread: the beginning of the line, and the number of the call.
    let mut unfinished: HashMap<&str, (&str, Option<u64>)> = HashMap::new();
    // The result of each call when it succeeds, by its number; calls that open or seek may have any result.
    let mut expected: HashMap<u64, i64> = HashMap::new();
    for line in text.lines() {
        let fault = |what: &str| {
            let shown: String = line.chars().take(300).collect();
            format!("{what}: {shown}")
        };
        let line = line.strip_suffix(" (INJECTED)").unwrap_or(line);
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        if rest.starts_with("+++") || rest.starts_with("---") {
            continue;
        }
        let (name, begun, result) = if let Some(resumed) = rest.strip_prefix("<... ") {
            let (name, rest) = resumed.split_once(" resumed>").ok_or_else(|| fault("no call is resumed"))?;
            let (begun_name, call) =
                unfinished.remove(thread).ok_or_else(|| fault("a call ends that did not begin"))?;
            if begun_name != name {
                return Err(fault("another call ends than began"));
            }
            (name, call, rest)
        } else {
            let (name, arguments) = rest.split_once('(').ok_or_else(|| fault("no call"))?;
            // Calls that another thread interrupts, and calls of a killed thread.
            let begun =
                [" <unfinished ...>", " <detached ...>"].into_iter().find_map(|end| arguments.strip_suffix(end));
            let (arguments, result) = match begun {
                Some(arguments) => (arguments, None),
                None => arguments
                    .rsplit_once(") ")
                    .map(|(arguments, result)| (arguments, Some(result)))
                    .ok_or_else(|| fault("no end of the arguments"))?,
            };
            let said = name == "write" && arguments.split_once('<').is_some_and(|(_, rest)| is_path(rest, ledger));
            let call = if said {
                let text = arguments.split(", ").nth(1).and_then(bytes).ok_or_else(|| fault("no line"))?;
                let text = String::from_utf8(text).map_err(|_| fault("no text"))?;
                events.extend(text.lines().map(|line| Event::Said(line.to_owned())));
                None
            } else {
                call(name, arguments, root).map_err(|what| fault(&what))?
            };
            let call = call.map(|call| {
                *number += 1;
                match &call {
                    Call::Write { data, .. } => drop(expected.insert(*number, data.len() as i64)),
                    Call::Open { .. } | Call::Seek { .. } => {}
                    _ => drop(expected.insert(*number, 0)),
                }
                events.push(Event::Begin(*number, call));
                *number
            });
            let Some(result) = result else {
                unfinished.insert(thread, (name, call));
                continue;
            };
            (name, call, result)
        };
        let Some(call) = begun else { continue };
        if result.trim_end().ends_with("<detached ...>") {
            continue;
        }
        let (_, result) = result.rsplit_once("= ").ok_or_else(|| fault("no result"))?;
        let digits = result.split(|c: char| !c.is_ascii_digit() && c != '-').next().unwrap_or_default();
        events.push(match digits.parse::<i64>() {
            Ok(found) if found >= 0 && expected.get(&call).is_some_and(|expected| *expected != found) => continue,
            // An error without a name does not come from the kernel.
            Ok(found) if found < 0 && (expected.get(&call).is_some_and(|n| *n > 0) || result.contains("(errno ")) => {
                continue;
            }
            Ok(result) if result >= 0 => Event::End(call, result),
            Ok(_) => Event::Failed(call),
            // A call of a killed thread.
            Err(_) if result.starts_with('?') => continue,
            Err(_) => return Err(fault(&format!("no result of {name}"))),
        });
    }
    Ok(events)
}

/// Returns the events in their seen order, and then once for each pair of overlapping calls with the two swapped, if
/// one truncates the file that the other truncates or writes: the first call to end need not be the first to take
/// effect. Sled makes such calls on its file, on several threads.
pub(crate) fn orders(events: &[Event]) -> impl Iterator<Item = Vec<Event>> {
    let mut begun = HashMap::new();
    // Begin and end of each call, its file, and whether it truncates.
    let mut changes: Vec<(usize, usize, &Parts, bool)> = Vec::new();
    let mut pairs = Vec::new();
    for (n, event) in events.iter().enumerate() {
        match event {
            Event::Begin(number, Call::Truncate { path, .. }) => drop(begun.insert(number, (n, path, true))),
            Event::Begin(number, Call::Write { path, .. }) => drop(begun.insert(number, (n, path, false))),
            Event::End(number, _) => {
                let Some((begin, path, truncates)) = begun.remove(number) else { continue };
                let before = changes.iter().rev().take(OVERLAPPING).filter(|(_, end, of, also_truncates)| {
                    *of == path && begin < *end && (truncates || *also_truncates)
                });
                pairs.extend(before.map(|(_, end, ..)| (*end, n)));
                changes.push((begin, n, path, truncates));
            }
            _ => {}
        }
    }
    let others = pairs.into_iter().map(|(first, second)| {
        let mut other = events.to_vec();
        other.get_mut(first..=second).into_iter().for_each(|between| between.rotate_right(1));
        other
    });
    iter::once(events.to_vec()).chain(others)
}

/// Whether a descriptor's decoration is this path.
fn is_path(decoration: &str, path: &Path) -> bool {
    decoration.split('>').next().and_then(unescaped).is_some_and(|found| Path::new(&found) == path)
}

/// Returns the call of a line; `None` when it concerns nothing below the directory.
fn call(name: &str, arguments: &str, root: &Path) -> Result<Option<Call>, String> {
    let arguments: Vec<&str> = arguments.split(", ").collect();
    let argument = |n: usize| arguments.get(n).copied().ok_or("too few arguments");
    let below = |path: String| {
        let rest = Path::new(&path).strip_prefix(root).ok()?;
        Some(rest.iter().map(|part| part.to_string_lossy().into_owned()).collect::<Parts>())
    };
    // A descriptor and the path of its file, which is missing if the file was removed.
    let fd = |n: usize| -> Result<(i64, Option<Parts>), String> {
        let (fd, decoration) = argument(n)?.split_once('<').ok_or("no path of the descriptor")?;
        let fd = fd.parse().map_err(|_| "no descriptor")?;
        Ok((fd, decoration.strip_suffix('>').and_then(unescaped).and_then(below)))
    };
    // A path, perhaps below that of a directory's descriptor in the argument before.
    let at = |dir: Option<usize>, n: usize| -> Result<Option<Parts>, String> {
        let path = bytes(argument(n)?).and_then(|bytes| String::from_utf8(bytes).ok()).ok_or("no path")?;
        if path.starts_with('/') {
            return Ok(below(path));
        }
        let dir = match dir {
            Some(dir) => argument(dir)?.split_once('<').and_then(|(_, rest)| unescaped(rest.strip_suffix('>')?)),
            None => None,
        };
        // Relative to the working directory, which does not matter.
        Ok(dir.and_then(|dir| below(format!("{dir}/{path}"))))
    };
    let number = |n: usize| -> Result<u64, String> { argument(n)?.parse().map_err(|_| "no number".to_owned()) };
    Ok(match name {
        "openat" | "open" | "creat" => {
            let first = usize::from(name == "openat");
            let flags = if name == "creat" { "O_CREAT|O_TRUNC" } else { argument(first + 1)? };
            let has = |flag: &str| flags.split('|').any(|found| found == flag);
            let path = at((first == 1).then_some(0), first)?;
            path.map(|path| Call::Open {
                path,
                create: has("O_CREAT"),
                truncate: has("O_TRUNC"),
                append: has("O_APPEND"),
            })
        }
        "close" => Some(Call::Close { fd: fd(0)?.0 }),
        "lseek" => fd(0).map(|(fd, path)| path.map(|_| Call::Seek { fd }))?,
        "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" => {
            // Each descriptor has a path or another name: a call without one may be a line of the ledger.
            let (fd, Some(path)) = fd(0)? else { return Ok(None) };
            let (data, at) = if name.contains('v') {
                // [{iov_base="…", iov_len=12}, …], 2, offset
                let strings = arguments.iter().filter(|argument| argument.contains("iov_base="));
                let strings = strings.map(|argument| bytes(argument.split_once('=').map_or("", |(_, rest)| rest)));
                let data = strings.collect::<Option<Vec<_>>>().ok_or("no bytes")?.concat();
                let end =
                    arguments.iter().position(|argument| argument.ends_with("}]")).ok_or("no end of the bytes")?;
                (data, if name == "writev" { None } else { Some(number(end + 2)?) })
            } else {
                let data = bytes(argument(1)?).ok_or("no bytes")?;
                (data, if name == "write" { None } else { Some(number(3)?) })
            };
            Some(Call::Write { path, fd, offset: at, data })
        }
        "ftruncate" => fd(0)?.1.map(|path| number(1).map(|len| Call::Truncate { path, len })).transpose()?,
        "fallocate" => match fd(0)?.1 {
            Some(_) if argument(1)? != "FALLOC_FL_KEEP_SIZE" => return Err("it changes a file".to_owned()),
            // Blocks behind the end: a reader does not see them.
            _ => None,
        },
        "fsync" | "fdatasync" => fd(0)?.1.map(|path| Call::Sync { path }),
        "rename" | "renameat" | "renameat2" => {
            let (from, to) = match name {
                "rename" => (at(None, 0)?, at(None, 1)?),
                _ => (at(Some(0), 1)?, at(Some(2), 3)?),
            };
            match (from, to) {
                (Some(from), Some(to)) if argument(4).is_ok_and(|flags| flags == "RENAME_EXCHANGE") => {
                    Some(Call::Exchange { from, to })
                }
                (Some(from), Some(to)) => Some(Call::Rename { from, to }),
                (None, None) => None,
                _ => return Err("it crosses the border".to_owned()),
            }
        }
        "unlink" | "rmdir" => at(None, 0)?.map(|path| Call::Remove { path }),
        "unlinkat" => at(Some(0), 1)?.map(|path| Call::Remove { path }),
        "mkdir" => at(None, 0)?.map(|path| Call::MakeDir { path }),
        "mkdirat" => at(Some(0), 1)?.map(|path| Call::MakeDir { path }),
        _ if arguments.iter().any(|argument| argument.contains(&*escaped(root))) => {
            return Err(format!("{name} is not known"));
        }
        _ => None,
    })
}

fn escaped(path: &Path) -> String {
    path.as_os_str().as_encoded_bytes().iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

/// Decodes the bytes of `"\x61\x62"`; `None` if strace shortened them.
fn bytes(quoted: &str) -> Option<Vec<u8>> {
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?.as_bytes();
    let mut bytes = Vec::with_capacity(inner.len() / 4);
    for escape in inner.chunks(4) {
        let [b'\\', b'x', high, low] = escape else { return None };
        let digit = |c: &u8| char::from(*c).to_digit(16);
        bytes.push(u8::try_from(digit(high)? * 16 + digit(low)?).ok()?);
    }
    Some(bytes)
}

/// Decodes a path that some versions of strace write in hexadecimal and some as it is.
fn unescaped(path: &str) -> Option<String> {
    if path.starts_with("\\x") {
        return String::from_utf8(bytes(&format!("\"{path}\""))?).ok();
    }
    Some(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(text: &str) -> Result<Vec<Event>, String> {
        let mut number = 0;
        // "\x2f\x64" is "/d".
        read(text, Path::new("/d"), Path::new("/ledger"), &mut number)
    }

    fn path(text: &str) -> Parts {
        vec![text.to_owned()]
    }

    #[test]
    fn calls_that_others_interrupt_begin_and_end() {
        let text = "\
11 openat(AT_FDCWD</w>, \"\\x2f\\x64\\x2f\\x66\", O_RDWR|O_CREAT|O_CLOEXEC, 0666) = 7</d/f>
11 pwrite64(7</d/f>, \"\\x61\\x62\", 2, 512 <unfinished ...>
12 write(9</ledger>, \"\\x61\\x0a\", 2) = 2
11 <... pwrite64 resumed>) = 2
11 fdatasync(7</d/f>) = 0
12 pwrite64(3</elsewhere>, \"\\x61\", 1, 0) = 1
12 +++ exited with 0 +++
11 fsync(7</d/f> <unfinished ...>
11 <... fsync resumed>) = -1 EIO (Input/output error)
11 pwrite64(7</d/f>, \"\\x61\", 1, 0 <unfinished ...>
11 <... pwrite64 resumed>) = ?
";
        let open = Call::Open { path: path("f"), create: true, truncate: false, append: false };
        let sync = || Call::Sync { path: path("f") };
        let write = |at, data: &[u8]| Call::Write { path: path("f"), fd: 7, offset: Some(at), data: data.to_vec() };
        let expected = [
            Event::Begin(1, open),
            Event::End(1, 7),
            Event::Begin(2, write(512, b"ab")),
            Event::Said("a".to_owned()),
            Event::End(2, 2),
            Event::Begin(3, sync()),
            Event::End(3, 0),
            Event::Begin(4, sync()),
            Event::Failed(4),
            Event::Begin(5, write(0, b"a")),
        ];
        assert_eq!(events(text).unwrap(), expected);
    }

    #[test]
    fn changes_that_overlap_with_a_truncation_have_two_orders() {
        let text = "\
1 ftruncate(5</d/b>, 9000 <unfinished ...>
2 ftruncate(5</d/b>, 4096 <unfinished ...>
3 ftruncate(6</d/c>, 10 <unfinished ...>
1 <... ftruncate resumed>) = 0
3 <... ftruncate resumed>) = 0
2 <... ftruncate resumed>) = 0
1 ftruncate(5</d/b>, 2000 <unfinished ...>
2 pwrite64(5</d/b>, \"\\x61\", 1, 2500 <unfinished ...>
3 pwrite64(5</d/b>, \"\\x61\", 1, 2501 <unfinished ...>
2 <... pwrite64 resumed>) = 1
3 <... pwrite64 resumed>) = 1
1 <... ftruncate resumed>) = 0
";
        let ends = |events: Vec<Event>| -> Vec<u64> {
            events
                .iter()
                .filter_map(|event| if let Event::End(number, _) = event { Some(*number) } else { None })
                .collect()
        };
        let found: Vec<_> = orders(&events(text).unwrap()).map(ends).collect();
        let expected = [vec![1, 3, 2, 5, 6, 4], vec![2, 1, 3, 5, 6, 4], vec![1, 3, 2, 5, 4, 6], vec![1, 3, 2, 4, 5, 6]];
        assert_eq!(found, expected);
    }

    #[test]
    fn names_are_those_of_directories_too() {
        let text = "\
1 renameat2(AT_FDCWD</w>, \"\\x2f\\x64\\x2f\\x61\", AT_FDCWD</w>, \"\\x2f\\x64\\x2f\\x62\", 0) = 0
1 unlinkat(4</d>, \"\\x62\", 0) = 0
1 mkdir(\"\\x2f\\x64\\x2f\\x65\", 0777) = 0
1 writev(5</d/b>, [{iov_base=\"\\x61\", iov_len=1}, {iov_base=\"\\x62\", iov_len=1}], 2) = 2
1 ftruncate(5</d/b>, 4096) = 0
";
        let begun: Vec<_> = events(text)
            .unwrap()
            .into_iter()
            .filter_map(|event| match event {
                Event::Begin(_, call) => Some(call),
                _ => None,
            })
            .collect();
        let expected = [
            Call::Rename { from: path("a"), to: path("b") },
            Call::Remove { path: path("b") },
            Call::MakeDir { path: path("e") },
            Call::Write { path: path("b"), fd: 5, offset: None, data: b"ab".to_vec() },
            Call::Truncate { path: path("b"), len: 4096 },
        ];
        assert_eq!(begun, expected);
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        // Shortened bytes, and a call that changes a file in an unknown way.
        for line in [
            "1 pwrite64(5</d/f>, \"\\x61\"..., 2, 0) = 2",
            "1 copy_file_range(5<\\x2f\\x64\\x2f\\x66>, NULL, 6</x>, NULL, 1, 0) = 1",
            "1 fallocate(5</d/f>, 0, 0, 4096) = 0",
        ] {
            events(line).unwrap_err();
        }
        assert_eq!(events("1 pwrite64(5</x/f>, \"\\x61\"..., 2, 0) = 2").unwrap(), []);
    }
}
