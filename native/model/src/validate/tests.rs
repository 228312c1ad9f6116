use super::*;
use crate::record_batch::{CONTROL_BIT, NO_SEQUENCE};
use crate::stamp::recompute_crc;
use crate::{BatchBuilder, Records, decompressed_records};
use proptest::prelude::*;

const NOW: i64 = 1_700_000_000_000;

fn rules() -> ProduceRules {
    ProduceRules {
        max_message_bytes: 1 << 20,
        compacted: false,
        timestamp_type: TimestampType::CreateTime,
        before_max_ms: i64::MAX,
        after_max_ms: 3_600_000,
        compression_type: CompressionType::Producer,
        zstd_allowed: true,
        now_ms: NOW,
    }
}

const ALL: [Codec; 5] = [
    Codec::None,
    Codec::Gzip,
    Codec::Snappy,
    Codec::Lz4,
    Codec::Zstd,
];

fn batch(codec: Codec, count: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec).producer(7, 0, 0);
    for index in 0..count {
        builder.push_with_headers(
            NOW + index as i64,
            Some(b"key"),
            Some(&[index as u8; 100]),
            &[(b"h", Some(b"v")), (b"null", None)],
        );
    }
    builder.build().expect("builds")
}

/// Change a batch, repair its checksum, and expect an error that contains `words`.
fn refused(words: &str, rules: &ProduceRules, change: impl Fn(&mut Vec<u8>)) {
    let mut bytes = batch(Codec::None, 3);
    change(&mut bytes);
    if bytes.len() >= HEADER_BYTES {
        recompute_crc(&mut bytes);
    }
    let error = validate_produce(&mut bytes, rules)
        .expect_err(words)
        .to_string();
    assert!(error.contains(words), "'{error}' should say '{words}'");
}

#[test]
fn every_codec_is_accepted_unchanged() {
    for codec in ALL {
        let mut bytes = batch(codec, 2000);
        let before = bytes.clone();
        let valid = validate_produce(&mut bytes, &rules()).expect("valid");
        assert_eq!(valid.first().codec(), Ok(codec));
        assert_eq!(valid.as_bytes(), before);
    }
}

#[test]
fn faults_and_their_names() {
    let r = rules();
    refused("no record batch", &r, |b| b.clear());
    refused("more than one", &r, |b| {
        b.extend_from_slice(&batch(Codec::None, 1))
    });
    refused("message format 1", &r, |b| b[16] = 1);
    refused("base offset", &r, |b| b[7] = 1);
    refused("control", &r, |b| b[22] |= CONTROL_BIT as u8);
    refused("delete horizon", &r, |b| b[22] |= DELETE_HORIZON_BIT as u8);
    refused("compression type 7", &r, |b| b[22] |= 7);
    refused("no records", &r, |b| b[57..61].fill(0));
    refused("record count", &r, |b| b[60] = 2);
    refused("bytes after the last", &r, |b| {
        b[60] = 2;
        b[26] = 1;
    });
    refused("fewer records", &r, |b| {
        b[60] = 4;
        b[26] = 3;
    });
    refused("epoch or sequence", &r, |b| {
        b[53..57].copy_from_slice(&NO_SEQUENCE.to_be_bytes())
    });
    refused("impossible batch length", &r, |b| {
        b[8..12].copy_from_slice(&40i32.to_be_bytes())
    });
    refused(
        "exceeds max.message.bytes",
        &ProduceRules {
            max_message_bytes: 100,
            ..rules()
        },
        |_| (),
    );
    let mut bytes = batch(Codec::None, 3);
    bytes[100] ^= 1;
    assert!(matches!(
        validate_produce(&mut bytes, &r),
        Err(BatchError::BadCrc { .. })
    ));
    let mut bytes = batch(Codec::Zstd, 3);
    let old = ProduceRules {
        zstd_allowed: false,
        ..rules()
    };
    assert_eq!(
        validate_produce(&mut bytes, &old).err(),
        Some(BatchError::UnsupportedCompression(4))
    );
    let mut cut = batch(Codec::None, 3);
    cut.truncate(150);
    assert!(matches!(
        validate_produce(&mut cut, &r),
        Err(BatchError::Truncated { .. })
    ));
}

#[test]
fn lz4_blocks_that_depend_on_each_other_are_not_stored() {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    use std::io::Write;

    let plain = batch(Codec::None, 2000);
    let linked = |mode| {
        let info = FrameInfo::new()
            .block_mode(mode)
            .block_size(BlockSize::Max64KB);
        let mut bytes = plain[..HEADER_BYTES].to_vec();
        bytes[22] |= Codec::Lz4 as u8;
        let mut encoder = FrameEncoder::with_frame_info(info, bytes);
        encoder
            .write_all(&plain[HEADER_BYTES..])
            .expect("in memory");
        let mut bytes = encoder.finish().expect("in memory");
        let length = (bytes.len() - BATCH_LENGTH_END) as u32;
        bytes[8..BATCH_LENGTH_END].copy_from_slice(&length.to_be_bytes());
        recompute_crc(&mut bytes);
        bytes
    };
    assert!(validate_produce(&mut linked(BlockMode::Independent), &rules()).is_ok());
    let refused = validate_produce(&mut linked(BlockMode::Linked), &rules()).expect_err("linked");
    assert!(
        matches!(refused, BatchError::InvalidRecord { .. }),
        "{refused}"
    );
    // Only recompression reads these bytes.
    let zstd = ProduceRules {
        compression_type: CompressionType::Recompress(Codec::Zstd, None),
        ..rules()
    };
    assert!(validate_produce(&mut linked(BlockMode::Linked), &zstd).is_ok());
}

#[test]
fn keys_are_required_when_compacted() {
    let mut builder = BatchBuilder::new(Codec::Lz4);
    builder.push(NOW, Some(b"k"), None);
    builder.push(NOW, None, Some(b"v"));
    let mut bytes = builder.build().expect("builds");
    let compacted = ProduceRules {
        compacted: true,
        ..rules()
    };
    let error = validate_produce(&mut bytes, &compacted).expect_err("no key");
    assert_eq!(
        error.to_string(),
        "1 record is rejected: record 1: a compacted topic needs a key"
    );
    assert!(validate_produce(&mut bytes, &rules()).is_ok());
}

#[test]
fn all_rejected_records_are_told() {
    let compacted = ProduceRules {
        compacted: true,
        ..rules()
    };
    for codec in ALL {
        let mut builder = BatchBuilder::new(codec);
        for number in 0..100 {
            let timestamp = if number == 50 { NOW + 4_000_000 } else { NOW };
            let key = (number % 10 != 0).then_some(&b"k"[..]);
            builder.push(timestamp, key, Some(b"v"));
        }
        let mut bytes = builder.build().expect("builds");
        let error = validate_produce(&mut bytes, &compacted).expect_err("some have no key");
        let expected = (0..100).step_by(10).map(|index| RejectedRecord {
            index,
            fault: RecordFault::NoKey,
        });
        assert_eq!(error, BatchError::RejectedRecords(expected.collect()));
        assert!(
            error
                .to_string()
                .starts_with("10 records are rejected: record 0: a compacted")
                && error.to_string().ends_with("; …"),
            "{error}"
        );
        let error = validate_produce(&mut bytes, &rules()).expect_err("one is too new");
        let late = RejectedRecord {
            index: 50,
            fault: RecordFault::Timestamp(NOW + 4_000_000),
        };
        assert_eq!(error, BatchError::RejectedRecords(vec![late]));
    }
}

#[test]
fn a_bounded_number_of_rejected_records_is_told() {
    let mut builder = BatchBuilder::new(Codec::Zstd);
    for _ in 0..REJECTED_RECORDS_MAX + 10 {
        builder.push(NOW, None, None);
    }
    let mut bytes = builder.build().expect("builds");
    let compacted = ProduceRules {
        compacted: true,
        ..rules()
    };
    match validate_produce(&mut bytes, &compacted) {
        Err(BatchError::RejectedRecords(told)) => assert_eq!(told.len(), REJECTED_RECORDS_MAX),
        other => panic!("{other:?}"),
    }
}

#[test]
fn records_that_decompress_without_end_are_refused() {
    let large = vec![0; 100 << 20];
    for (records, accepted) in [(2, true), (3, false)] {
        let mut builder = BatchBuilder::new(Codec::Zstd);
        for _ in 0..records {
            builder.push(NOW, None, Some(&large));
        }
        let mut bytes = builder.build().expect("builds");
        assert!(bytes.len() < 100_000, "a small batch: {}", bytes.len());
        match validate_produce(&mut bytes, &rules()) {
            Ok(_) => assert!(accepted, "{records} records"),
            Err(error) => {
                let max = crate::DECOMPRESSED_BYTES_MAX;
                assert_eq!((error, accepted), (BatchError::Expands { max }, false));
            }
        }
    }
}

#[test]
fn timestamps_have_a_window() {
    for (timestamp, accepted) in [
        (NOW, true),
        (NO_TIMESTAMP, true),
        (NOW + 3_600_000, true),
        (NOW + 3_600_001, false),
        (NOW - 10_000, true),
        (NOW - 10_001, false),
        (-2, false),
        (i64::MIN, false),
    ] {
        let mut builder = BatchBuilder::new(Codec::None);
        builder.push(timestamp, None, None);
        let mut bytes = builder.build().expect("builds");
        let window = ProduceRules {
            before_max_ms: 10_000,
            ..rules()
        };
        let result = validate_produce(&mut bytes, &window);
        assert_eq!(result.is_ok(), accepted, "{timestamp}: {result:?}");
    }
    let unlimited = ProduceRules {
        before_max_ms: i64::MAX,
        ..rules()
    };
    // The zero time of Go and .NET, -2, and an impossible time.
    for (timestamp, accepted) in [(-62_135_596_800_000, true), (-2, true), (i64::MIN, false)] {
        let mut builder = BatchBuilder::new(Codec::None);
        builder.push(timestamp, None, None);
        let mut bytes = builder.build().expect("builds");
        let result = validate_produce(&mut bytes, &unlimited);
        assert_eq!(result.is_ok(), accepted, "{timestamp}: {result:?}");
    }
}

#[test]
fn append_time_replaces_the_producers() {
    for codec in ALL {
        let mut bytes = batch(codec, 5);
        let stamped = ProduceRules {
            timestamp_type: TimestampType::LogAppendTime,
            ..rules()
        };
        let valid = validate_produce(&mut bytes, &stamped).expect("valid");
        assert_eq!(valid.log_append_time(), Some(NOW));
        assert_eq!(valid.first().max_timestamp, NOW);
        assert_eq!(valid.first().timestamp_type(), TimestampType::LogAppendTime);
        valid
            .first()
            .check_crc(valid.as_bytes())
            .expect("checksum follows");
    }
}

#[test]
fn a_wrong_largest_timestamp_is_mended() {
    let mut bytes = batch(Codec::None, 3);
    bytes[35..43].copy_from_slice(&(NOW + 99).to_be_bytes());
    recompute_crc(&mut bytes);
    let valid = validate_produce(&mut bytes, &rules()).expect("valid");
    assert_eq!(valid.first().max_timestamp, NOW + 2);
    valid
        .first()
        .check_crc(valid.as_bytes())
        .expect("checksum follows");
}

#[test]
fn recompression_keeps_every_record() {
    for from in ALL {
        for to in ALL {
            let mut bytes = batch(from, 50);
            let asked = ProduceRules {
                compression_type: CompressionType::Recompress(to, None),
                ..rules()
            };
            let valid = validate_produce(&mut bytes, &asked).expect("valid");
            assert_eq!(valid.first().codec(), Ok(to));
            valid
                .first()
                .check_crc(valid.as_bytes())
                .expect("checksum follows");
            let mut scratch = Vec::new();
            let plain =
                decompressed_records(valid.first(), valid.as_bytes(), &mut scratch).expect("reads");
            let records: Vec<_> = Records::new(valid.first(), plain)
                .collect::<Result<_, _>>()
                .expect("records");
            assert_eq!(records.len(), 50);
            assert!(
                records
                    .iter()
                    .enumerate()
                    .all(|(i, r)| r.value == Some(&[i as u8; 100][..]))
            );
        }
    }
}

#[test]
fn mutated_batches_are_refused_or_valid_never_fatal() {
    // Every run has the same mutations. The checksum is repaired, so that the mutations reach the code behind the
    // checksum check.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let originals: Vec<_> = ALL.iter().map(|&codec| batch(codec, 8)).collect();
    let mut accepted = 0;
    for round in 0..60_000 {
        let mut bytes = originals[round % originals.len()].clone();
        for _ in 0..=random() % 3 {
            let at = random() as usize % bytes.len();
            bytes[at] = random() as u8;
        }
        if random() % 8 == 0 {
            bytes.truncate(random() as usize % bytes.len());
        }
        if bytes.len() > HEADER_BYTES {
            let length = (bytes.len() - BATCH_LENGTH_END) as i32;
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
            recompute_crc(&mut bytes);
        }
        if let Ok(valid) = validate_produce(&mut bytes, &rules()) {
            accepted += 1;
            let header = BatchHeader::parse(valid.as_bytes()).expect("valid header");
            let mut scratch = Vec::new();
            let plain =
                decompressed_records(&header, valid.as_bytes(), &mut scratch).expect("reads");
            assert_eq!(
                Records::new(&header, plain).count() as i32,
                header.record_count
            );
        }
    }
    assert!(
        accepted > 100,
        "mutations of values alone stay valid: {accepted}"
    );
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(validate_produce(&mut bytes, &rules()).is_err());
        prop_assert!(ValidBatches::checked(&mut bytes).is_err());
        for batch in Batches::new(&bytes) {
            let _ = batch;
        }
    }
}
