//! `make fuzz TARGET=wire`; see the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pybroker_fuzz::wire(data));
