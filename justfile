# Usual commands. Each recipe is one or two lines that can be typed without `just`, too. `just` alone lists them.

_default:
    @just --list

# Type-checks everything, tests included.
check:
    cargo check --workspace --all-targets

# Runs all tests.
test:
    cargo test --workspace

# Runs the tests of one crate with NAME in their path: just test-one mortise-query filter
test-one crate name="":
    cargo test -p {{crate}} {{name}}

# Runs the fast tests.
test-fast:
    .ci/test-fast

# Runs everything that must hold before a change lands.
ci *args:
    .ci/run {{args}}

# Runs the commands of a page with the debug binary: just walk tour
walk page="tour":
    cargo build -p mortise && .ci/{{page}} target/debug/mortise

# Measures, beside a ceiling and etcd: just bench --rounds 3 calls
bench *args="all":
    cargo build --release -p mortise && cargo run --release -p mortise-bench -- {{args}}

# Writes the golden files again: config.toml, transcripts, faults of resource files, seeds of the fuzzers. Read the diff.
bless:
    MORTISE_UPDATE_GOLDEN=1 cargo test -p mortise -- cli redaction the_file_is_printed
    BLESS=1 MORTISE_UPDATE_SEEDS=1 cargo test -p mortise-text -p mortise-fuzz --test text --test corpus

# Counts the doc comments that break the rule of words, and lists the texts that users read and that break it.
words:
    .ci/words && .ci/words --refuse
