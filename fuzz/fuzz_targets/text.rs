//! See [`mortise_fuzz::text`].
#![no_main]
#![allow(unsafe_code, missing_docs, reason = "what libFuzzer's macro writes")]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mortise_fuzz::text(data));
