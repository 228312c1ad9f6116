//! `make fuzz TARGET=keystores`; see the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pybroker_fuzz::keystores(data));
