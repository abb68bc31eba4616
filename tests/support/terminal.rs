//! Commands on a terminal: a pseudo-terminal, whose other end reads what the command draws and types keys.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    process::Stdio,
    sync::{Arc, Mutex},
};

use tokio::process::{Child, Command};

use crate::support::{PATIENCE, until};

/// A command on a terminal.
pub struct OnTerminal {
    child: Child,
    keyboard: File,
    /// Everything that the command wrote.
    drawn: Arc<Mutex<Vec<u8>>>,
    /// Ends once the command has closed the terminal.
    reader: Option<std::thread::JoinHandle<()>>,
}

impl OnTerminal {
    /// Starts a command on a terminal of so many columns and lines.
    pub fn start(mut command: Command, columns: u16, lines: u16) -> Self {
        let (keyboard, own) = open(columns, lines);
        let end = || Stdio::from(own.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm-256color").kill_on_drop(true);
        let child = command.spawn().unwrap();
        drop((command, own));
        let (mut screen, drawn) = (keyboard.try_clone().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let seen = drawn.clone();
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The read fails once the command has ended.
            while let Ok(read @ 1..) = screen.read(&mut buffer) {
                seen.lock().unwrap().extend_from_slice(&buffer[..read]);
            }
        });
        Self { child, keyboard, drawn, reader: Some(reader) }
    }

    /// Types keys.
    pub fn keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Everything that was written so far.
    pub fn drawn(&self) -> String {
        String::from_utf8_lossy(&self.drawn.lock().unwrap()).into_owned()
    }

    /// The lines of the screen.
    pub fn screen(&self) -> String {
        screen(&self.drawn())
    }

    /// Waits until the screen shows a text.
    pub async fn shows(&self, text: &str) {
        self.until(text, |screen| screen.contains(text)).await;
    }

    /// Waits until the screen is as wanted.
    pub async fn until(&self, what: &str, holds: impl Fn(&str) -> bool) {
        until(what, async || {
            let screen = self.screen();
            if holds(&screen) { Ok(()) } else { Err(screen) }
        })
        .await;
    }

    /// Waits for the end of the command; returns its exit code.
    pub async fn ended(&mut self) -> Option<i32> {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("it ends").unwrap();
        if let Some(reader) = self.reader.take() {
            tokio::task::spawn_blocking(move || reader.join().unwrap()).await.unwrap();
        }
        ended.code()
    }

    /// True while the terminal passes on keys as they are, without lines and signals.
    pub fn is_raw(&self) -> bool {
        let mut modes = std::mem::MaybeUninit::<libc::termios>::zeroed();
        // SAFETY: the descriptor is open for as long as `self`, and the call fills the structure if it returns 0.
        #[allow(unsafe_code, reason = "the library with a safe call is built without it")]
        let modes = unsafe {
            assert_eq!(libc::tcgetattr(self.keyboard.as_raw_fd(), modes.as_mut_ptr()), 0);
            modes.assume_init()
        };
        modes.c_lflag & libc::ICANON == 0
    }

    pub fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }
}

/// The lines of a terminal after this output: texts, places, and the clearing of the whole.
fn screen(drawn: &str) -> String {
    let mut lines: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0, 0);
    let mut letters = drawn.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\x1b' => {
                let mut sequence = String::new();
                // Each sequence begins with a bracket, and ends with a letter.
                letters.next();
                for letter in letters.by_ref() {
                    sequence.push(letter);
                    if letter.is_ascii_alphabetic() {
                        break;
                    }
                }
                match sequence.as_str() {
                    "2J" => lines = vec![Vec::new()],
                    place if place.ends_with('H') => {
                        let (to_row, to_column) = place.trim_end_matches('H').split_once(';').unwrap_or(("1", "1"));
                        (row, column) = (to_row.parse::<usize>().unwrap() - 1, to_column.parse::<usize>().unwrap() - 1);
                    }
                    _ => {}
                }
            }
            '\r' => column = 0,
            '\n' => row += 1,
            letter => {
                if lines.len() <= row {
                    lines.resize(row + 1, Vec::new());
                }
                if lines[row].len() <= column {
                    lines[row].resize(column + 1, ' ');
                }
                lines[row][column] = letter;
                column += 1;
            }
        }
    }
    lines.iter().map(|line| line.iter().collect::<String>().trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Opens a terminal: the end of the keyboard and the screen, and that of the command.
fn open(columns: u16, lines: u16) -> (File, OwnedFd) {
    let (mut outer, mut inner) = (-1, -1);
    let size = libc::winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the pointers are to variables that outlive the call; both descriptors are new if it returns 0, and are owned
    // by what is returned alone.
    #[allow(unsafe_code, reason = "the library with a safe call is built without it")]
    unsafe {
        let null = std::ptr::null_mut();
        assert_eq!(libc::openpty(&mut outer, &mut inner, null, null.cast(), &size), 0);
        (File::from_raw_fd(outer), OwnedFd::from_raw_fd(inner))
    }
}
