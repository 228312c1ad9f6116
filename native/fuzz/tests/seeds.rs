//! Runs every seed, and some mutations of it, through its target. `cargo test` thus covers the targets without
//! libFuzzer.

use std::fs;
use std::path::PathBuf;

use pybroker_model::{BatchBuilder, Codec};
use pybroker_protocol::codec::{Registry, Value, encode_value};

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 6] = [
    ("wire", pybroker_fuzz::wire),
    ("hot_wire", pybroker_fuzz::hot_wire),
    ("produce", pybroker_fuzz::produce),
    ("compression", pybroker_fuzz::compression),
    ("keystores", pybroker_fuzz::keystores),
    ("log_files", pybroker_fuzz::log_files),
];

/// A generator of pseudo-random numbers that are the same in each run (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

/// Flip, cut, repeat or replace some bytes after the first `kept`.
fn mutated(seed: &[u8], kept: usize, numbers: &mut Numbers) -> Vec<u8> {
    const TELLING: [u8; 6] = [0, 1, 0x7f, 0x80, 0xfe, 0xff];
    let mut bytes = seed.to_vec();
    for _ in 0..=numbers.below(3) {
        if bytes.len() <= kept {
            bytes.push(TELLING[numbers.below(TELLING.len())]);
            continue;
        }
        let at = kept + numbers.below(bytes.len() - kept);
        match numbers.below(5) {
            0 => bytes[at] ^= 1 << numbers.below(8),
            1 => bytes[at] = TELLING[numbers.below(TELLING.len())],
            2 => bytes.truncate(at),
            3 => bytes.insert(at, TELLING[numbers.below(TELLING.len())]),
            _ => {
                let end = (at + 1 + numbers.below(16)).min(bytes.len());
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
        }
    }
    bytes
}

fn batch(codec: Codec) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec);
    for number in 0..3 {
        builder.push(1_800_000_000_000 + number, Some(b"key"), Some(&[b'v'; 60]));
    }
    builder.build().expect("a batch")
}

const CODECS: [Codec; 5] = [
    Codec::None,
    Codec::Gzip,
    Codec::Snappy,
    Codec::Lz4,
    Codec::Zstd,
];

#[test]
fn committed_seeds() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let mut numbers = Numbers(1);
    for (name, target) in TARGETS {
        let found: Vec<_> = fs::read_dir(folder.join(name))
            .unwrap_or_else(|error| panic!("native/fuzz/seeds/{name}: {error}"))
            .map(|entry| entry.expect("a seed").path())
            .collect();
        assert!(!found.is_empty(), "native/fuzz/seeds/{name} is empty");
        for path in found {
            let seed = fs::read(&path).expect("a seed");
            target(&seed);
            for _ in 0..20 {
                target(&mutated(&seed, 2, &mut numbers));
            }
        }
    }
}

#[test]
fn every_version_of_every_message_and_mutations_of_it() {
    let mut numbers = Numbers(2);
    let mut place = 0_u16;
    for registry in [Registry::Client, Registry::InterBroker] {
        for message in registry.names().filter_map(|name| registry.named(name)) {
            let default = Value::default_struct(message, 0);
            for version in message.versions.first..=message.versions.last {
                let Ok(body) = encode_value(message, version, &default) else {
                    continue;
                };
                let [high, low] = place.to_be_bytes();
                let chosen = u8::try_from(version - message.versions.first).expect("few versions");
                let seed = [&[high, low, chosen], &body[..]].concat();
                pybroker_fuzz::wire(&seed);
                for _ in 0..10 {
                    pybroker_fuzz::wire(&mutated(&seed, 3, &mut numbers));
                }
            }
            place += 1;
        }
    }
    assert!(place > 100, "both registries");
}

#[test]
fn batches_of_each_codec_and_mutations_of_them() {
    let mut numbers = Numbers(3);
    for (index, codec) in (0..).zip(CODECS) {
        let seed = [&[0, index], &batch(codec)[..]].concat();
        pybroker_fuzz::produce(&seed);
        for round in 0..400 {
            let mut bytes = mutated(&seed, 2, &mut numbers);
            bytes[0] = round as u8;
            bytes[1] = numbers.below(5) as u8;
            pybroker_fuzz::produce(&bytes);
            bytes[1] = index;
            pybroker_fuzz::compression(&bytes[1..]);
        }
    }
}

#[test]
fn typed_requests_from_random_bytes() {
    let mut numbers = Numbers(4);
    for _ in 0..20_000 {
        let length = numbers.below(80);
        let bytes: Vec<u8> = (0..length).map(|_| numbers.below(256) as u8).collect();
        pybroker_fuzz::hot_wire(&bytes);
    }
}

#[test]
fn damaged_files_of_each_kind() {
    let mut numbers = Numbers(5);
    let content = batch(Codec::None);
    for kind in 0..15_u8 {
        for flags in 0..4_u8 {
            let seed = [&[kind, flags], &content[..]].concat();
            pybroker_fuzz::log_files(&seed);
            pybroker_fuzz::log_files(&[kind, flags]);
            pybroker_fuzz::log_files(&mutated(&seed, 2, &mut numbers));
        }
    }
}
