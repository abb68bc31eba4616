#!/usr/bin/env python3
"""Runs the lines of a script in one shell on a terminal of its own, and records the terminal as an asciicast (version 2).

usage: record.py SCRIPT CAST
       record.py --check SCRIPT CAST    checks whether CAST is a recording of exactly these lines

Each line is one command, and a marker in the recording. The first failure ends the run, and nothing is written. Play the
recording with `asciinema play CAST`, or any other player of asciicasts.
"""

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time

WIDTH, HEIGHT = 110, 32
TYPING = 0.012  # seconds for a character
PAUSE = 0.6  # seconds after a command's output; longer waits are shortened to this
PATIENCE = 120  # seconds for one command


class Recorder:
    """The output with its times. The clock is the recorder's own: it shortens long waits."""

    def __init__(self):
        self.now = 0.0
        self.events = []

    def show(self, text, took=0.0):
        self.now += min(took, PAUSE)
        self.events.append([round(self.now, 3), "o", text])

    def type(self, line):
        self.events.append([round(self.now, 3), "m", line])
        self.show("\x1b[1;32m$\x1b[0m ", PAUSE)
        for character in line:
            self.show(character, TYPING)
        self.show("\r\n", TYPING)


def commands(script):
    with open(script, encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file if line.strip()]


def check(script, cast):
    with open(cast, encoding="utf-8") as file:
        events = [json.loads(line) for line in file][1:]
    if [text for _, kind, text in events if kind == "m"] != commands(script):
        sys.exit(f"{cast} shows other commands than docs/tour.md has: record it again with .ci/tour --record")


def record(script, cast):
    lines = commands(script)
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    done, tell = os.pipe()
    environment = dict(os.environ, TERM="xterm-256color", PAGER="cat")
    environment.pop("NO_COLOR", None)
    shell = subprocess.Popen(
        ["bash", "--norc", "--noprofile"],
        stdin=subprocess.PIPE, stdout=terminal, stderr=terminal, pass_fds=[tell], env=environment, start_new_session=True,
    )
    os.close(terminal)
    os.close(tell)
    recorder = Recorder()
    try:
        for line in lines:
            recorder.type(line)
            shell.stdin.write(f"{line}\nprintf '%d\\n' $? >&{tell}\n".encode())
            shell.stdin.flush()
            status = follow(recorder, screen, done)
            if status != 0:
                sys.exit(f"record.py: exit status {status}: {line}")
    finally:
        shell.stdin.close()
        shell.wait(timeout=10)
    header = {"version": 2, "width": WIDTH, "height": HEIGHT, "title": "A tour of Mortise", "env": {"TERM": "xterm-256color"}}
    with open(cast, "w", encoding="utf-8") as file:
        for part in [header, *recorder.events]:
            file.write(json.dumps(part, ensure_ascii=False) + "\n")
    print(f"{cast}: {len(lines)} commands, {recorder.now:.0f} s")


def follow(recorder, screen, done):
    """Records output until the command ends; returns its exit status."""
    begun = last = time.monotonic()
    status = None
    while True:
        ready, _, _ = select.select([screen, done] if status is None else [screen], [], [], 0.2 if status is None else 0.02)
        if screen in ready:
            text = os.read(screen, 65536).decode("utf-8", "replace")
            now = time.monotonic()
            recorder.show(text, now - last)
            last = now
        if status is None and done in ready:
            said = os.read(done, 64)
            if not said:
                sys.exit("record.py: the shell ended")
            status = int(said)
        elif status is not None and not ready:
            return status
        if time.monotonic() - begun > PATIENCE:
            sys.exit("record.py: a command took too long")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--check", script, cast]:
            check(script, cast)
        case [script, cast]:
            record(script, cast)
        case _:
            sys.exit(__doc__)
