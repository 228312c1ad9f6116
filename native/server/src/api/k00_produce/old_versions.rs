//! Response to Produce 0–2. The broker advertises these versions without serving them, because librdkafka compresses
//! only if they are advertised.

use pybroker_protocol::ErrorCode;
use pybroker_protocol::primitives::{DecodeError, Reader, Writer};

use crate::api::{Answer, Call};
use crate::clients::close_reason::CloseReason;
use crate::metrics::ThreadMetrics;
use crate::net::reply::{ReplyFrame, ReplyHeader};

/// Answer every partition with UNSUPPORTED_VERSION, in the layout of that version: v0–2 carry message formats 0 and 1.
pub(super) fn run_unsupported<P>(
    call: &Call<'_>,
    metrics: &ThreadMetrics,
    body: &[u8],
    out: &mut Vec<u8>,
) -> Result<Answer<P>, CloseReason> {
    let start = out.len();
    let header = ReplyHeader {
        flexible: false,
        ..call.reply
    };
    let frame = ReplyFrame::begin(out, header);
    let acks = refuse_old(call, body, out).map_err(|error| call.bad_request(error))?;
    if acks == 0 {
        out.truncate(start);
        return Err(CloseReason::AcksZeroFailed {
            error_code: ErrorCode::UNSUPPORTED_VERSION.0,
        });
    }
    metrics.error(call.api_key, ErrorCode::UNSUPPORTED_VERSION.0);
    frame.end(out);
    Ok(Answer::Written)
}

/// Decode a request of v0–2, append its response, and return its acks.
fn refuse_old(call: &Call<'_>, body: &[u8], out: &mut Vec<u8>) -> Result<i16, DecodeError> {
    let mut reader = Reader::new(body);
    let mut writer = Writer::new(out, false);
    let acks = reader.i16()?;
    reader.i32()?;
    let topics = reader.array_len(false, 6)?;
    writer.array_len(topics);
    for _ in 0..topics {
        writer.string(reader.string(false)?);
        let partitions = reader.array_len(false, 8)?;
        writer.array_len(partitions);
        for _ in 0..partitions {
            writer.i32(reader.i32()?);
            reader.nullable_bytes(false)?;
            writer.i16(ErrorCode::UNSUPPORTED_VERSION.0);
            writer.i64(-1);
            if call.version >= 2 {
                writer.i64(-1);
            }
        }
    }
    if call.version >= 1 {
        writer.i32(call.throttle_time_ms);
    }
    reader.finish()?;
    Ok(acks)
}
