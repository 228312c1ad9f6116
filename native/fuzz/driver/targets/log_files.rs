//! `make fuzz TARGET=log_files`; see the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pybroker_fuzz::log_files(data));
