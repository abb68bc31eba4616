//! See [`mortise_fuzz::manifests`].
#![no_main]
#![allow(unsafe_code, missing_docs, reason = "what libFuzzer's macro writes")]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mortise_fuzz::manifests(data));
