use proptest::prelude::*;

use super::*;

#[test]
fn varints_are_bounded() {
    let check = |bytes: &[u8], expected: Result<u32, DecodeError>| {
        assert_eq!(Reader::new(bytes).unsigned_varint(), expected, "{bytes:x?}");
    };
    check(&[0], Ok(0));
    check(&[0x7f], Ok(127));
    check(&[0x80, 0x01], Ok(128));
    check(&[0xff, 0xff, 0xff, 0xff, 0x0f], Ok(u32::MAX));
    check(
        &[0xff, 0xff, 0xff, 0xff, 0x10],
        Err(DecodeError::VarintTooLong),
    );
    check(
        &[0xff, 0xff, 0xff, 0xff, 0x8f, 0x00],
        Err(DecodeError::VarintTooLong),
    );
    check(&[0x80], Err(DecodeError::Truncated));
    check(&[], Err(DecodeError::Truncated));
    assert_eq!(
        Reader::new(&[0xff; 11]).varlong(),
        Err(DecodeError::VarintTooLong)
    );
    assert_eq!(
        Reader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]).varlong(),
        Ok(i64::MIN)
    );
}

#[test]
fn counts_are_checked_before_anybody_reserves() {
    // Five bytes that caused other codecs to allocate gigabytes.
    let hostile = [0xff, 0xff, 0xff, 0xff, 0x0f];
    assert_eq!(
        Reader::new(&hostile).nullable_array(true, 1),
        Err(DecodeError::NegativeLength)
    );
    assert_eq!(
        Reader::new(&[0x7f, 0xff, 0xff, 0xff]).nullable_array(false, 1),
        Err(DecodeError::CountTooLarge)
    );
    assert_eq!(
        Reader::new(&[0xff, 0xff, 0xff, 0xfe]).nullable_array(false, 1),
        Err(DecodeError::NegativeLength)
    );
    assert_eq!(Reader::new(&[0xff; 4]).nullable_array(false, 1), Ok(None));
    assert_eq!(
        Reader::new(&[0xff; 4]).array_len(false, 1),
        Err(DecodeError::UnexpectedNull)
    );
    assert_eq!(
        Reader::new(&[0, 0, 0, 2, 1, 2, 3]).array_len(false, 2),
        Err(DecodeError::CountTooLarge)
    );
    let frame = [3, 0, 0, 3, 0, 0];
    let mut reader = Reader::with_budget(&frame, 3);
    assert_eq!(reader.array_len(true, 1), Ok(2));
    assert_eq!(reader.take(2).map(<[u8]>::len), Ok(2));
    assert_eq!(reader.array_len(true, 1), Err(DecodeError::TooManyElements));
}

#[test]
fn strings_are_checked() {
    assert_eq!(
        Reader::new(&[0, 1, 0xff]).string(false),
        Err(DecodeError::NotUtf8)
    );
    assert_eq!(
        Reader::new(&[0xff, 0xff]).string(false),
        Err(DecodeError::UnexpectedNull)
    );
    assert_eq!(
        Reader::new(&[0xff, 0xfe]).nullable_string(false),
        Err(DecodeError::NegativeLength)
    );
    assert_eq!(
        Reader::new(&[0, 9, b'a']).string(false),
        Err(DecodeError::Truncated)
    );
    assert_eq!(Reader::new(&[2, b'a']).string(true), Ok("a"));
    assert_eq!(Reader::new(&[0]).nullable_string(true), Ok(None));
}

#[test]
fn tags_ascend_and_known_values_fit() {
    let known_5 = |bytes: &[u8]| {
        let mut seen = None;
        let mut reader = Reader::new(bytes);
        reader
            .tags(|tag, value| {
                if tag == 5 {
                    seen = Some(value.i32()?);
                }
                Ok(tag == 5)
            })
            .and_then(|()| reader.finish())
            .map(|()| seen)
    };
    assert_eq!(known_5(&[0]), Ok(None));
    assert_eq!(known_5(&[2, 1, 1, 9, 5, 4, 0, 0, 0, 7]), Ok(Some(7)));
    assert_eq!(
        known_5(&[2, 5, 4, 0, 0, 0, 7, 5, 0]),
        Err(DecodeError::TagsOutOfOrder)
    );
    assert_eq!(
        known_5(&[1, 5, 5, 0, 0, 0, 7, 0]),
        Err(DecodeError::TagSizeMismatch)
    );
    assert_eq!(known_5(&[1, 5, 3, 0, 0, 0]), Err(DecodeError::Truncated));
    assert_eq!(known_5(&[1, 9, 9, 0]), Err(DecodeError::Truncated));
    assert_eq!(
        known_5(&[0xff, 0xff, 0xff, 0xff, 0x0f]),
        Err(DecodeError::CountTooLarge)
    );
    assert_eq!(known_5(&[0, 0]), Err(DecodeError::TrailingBytes));
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        flexible: bool,
        text in proptest::option::of(".{0,200}"),
        bytes in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..200)),
        number: u32,
        long: i64,
        numbers in proptest::collection::vec(any::<i32>(), 0..200),
        tag_size in 0usize..300,
    ) {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out, flexible);
        writer.nullable_string(text.as_deref());
        writer.nullable_bytes(bytes.as_deref());
        let before = writer.position();
        writer.unsigned_varint(number);
        prop_assert_eq!(writer.position() - before, unsigned_varint_bytes(number));
        writer.i64(long);
        writer.i32_array(&numbers);
        if flexible {
            writer.tag_count(1);
            writer.tag(3, |value| value.raw(&vec![7; tag_size]));
        }
        let mut reader = Reader::new(&out);
        prop_assert_eq!(reader.nullable_string(flexible).unwrap(), text.as_deref());
        prop_assert_eq!(reader.nullable_bytes(flexible).unwrap(), bytes.as_deref());
        prop_assert_eq!(reader.unsigned_varint().unwrap(), number);
        prop_assert_eq!(reader.i64().unwrap(), long);
        let count = reader.array_len(flexible, 4).unwrap();
        let read: Vec<i32> = (0..count).map(|_| reader.i32().unwrap()).collect();
        prop_assert_eq!(read, numbers);
        if flexible {
            reader.tags(|tag, value| {
                assert_eq!((tag, value.take(tag_size)), (3, Ok(&vec![7u8; tag_size][..])));
                Ok(true)
            }).unwrap();
        }
        prop_assert!(reader.finish().is_ok());
    }
}
