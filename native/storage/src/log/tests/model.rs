//! Random operations against a simple model: a list of records and the log start.

use crate::LogConfig;
use crate::testing::*;
use proptest::prelude::*;
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Operation {
    Append(u8),
    Flush,
    Roll,
    Truncate(u8),
    DeleteRecords(u8),
    Retention,
    Checkpoint,
    CleanRestart,
    /// Kill the process with kill -9 when this many of the bytes since the last flush are in the file.
    TornRestart(u16),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        12 => (1u8..6).prop_map(Operation::Append),
        2 => Just(Operation::Flush),
        1 => Just(Operation::Roll),
        1 => any::<u8>().prop_map(Operation::Truncate),
        1 => any::<u8>().prop_map(Operation::DeleteRecords),
        1 => Just(Operation::Retention),
        1 => Just(Operation::Checkpoint),
        1 => Just(Operation::CleanRestart),
        2 => any::<u16>().prop_map(Operation::TornRestart),
    ]
}

/// Batches as (base offset, values), and the flushed end.
#[derive(Debug, Default)]
struct Model {
    batches: Vec<(i64, Vec<String>)>,
    start: i64,
    end: i64,
    flushed: i64,
    counter: u32,
}

impl Model {
    fn expected(&self) -> Vec<(i64, String)> {
        let all = self
            .batches
            .iter()
            .flat_map(|(base, values)| (*base..).zip(values.iter().cloned()));
        all.filter(|(offset, _)| *offset >= self.start).collect()
    }

    fn truncate(&mut self, offset: i64) {
        self.batches
            .retain(|(base, values)| base + values.len() as i64 <= offset);
        self.end = self
            .batches
            .last()
            .map_or(self.start.min(offset), |(base, values)| {
                base + values.len() as i64
            });
        self.flushed = self.flushed.min(self.end);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn the_log_is_a_list(operations in proptest::collection::vec(operation(), 1..80)) {
        let config = LogConfig { segment_bytes: 700, index_interval_bytes: 100, retention_ms: -1, ..LogConfig::default() };
        let mut f = Fixture::new(config);
        let mut model = Model::default();
        for operation in operations {
            match &operation {
                Operation::Append(count) => {
                    let values: Vec<String> = (0..*count).map(|n| format!("{}.{n}", model.counter)).collect();
                    model.counter += 1;
                    let texts: Vec<&str> = values.iter().map(String::as_str).collect();
                    let appended = f.append(batch(&texts)).expect("appends");
                    prop_assert_eq!(appended.base_offset, model.end);
                    model.batches.push((model.end, values));
                    model.end += i64::from(*count);
                }
                Operation::Flush => {
                    model.flushed = f.log().flush().expect("flushes");
                    prop_assert_eq!(model.flushed, model.end);
                }
                Operation::Roll => f.log().roll(NOW).expect("rolls"),
                Operation::Truncate(part) => {
                    let offset = model.start + (model.end - model.start) * i64::from(*part) / 255;
                    // The model has a separate operation to remove all readable records.
                    if offset > model.start && model.start == 0 {
                        f.log().truncate_to(offset, NOW).expect("truncates");
                        model.truncate(offset);
                        // Flush, so that the truncation is on disk too.
                        model.flushed = f.log().flush().expect("flushes");
                    }
                }
                Operation::DeleteRecords(part) => {
                    let offset = model.start + (model.end - model.start) * i64::from(*part) / 255;
                    f.log().delete_records(offset, model.end).expect("deletes");
                    f.dir().checkpoint_log_starts(&[Arc::clone(f.log())]).expect("checkpoints");
                    model.start = offset;
                    model.flushed = f.log().flush().expect("flushes");
                }
                Operation::Retention => {
                    f.log().apply_retention(model.end, NOW).expect("retains");
                }
                Operation::Checkpoint => f.dir().checkpoint(&[Arc::clone(f.log())]).expect("checkpoints"),
                Operation::CleanRestart => {
                    f.stop();
                    prop_assert!(f.open().clean);
                    model.flushed = model.end;
                }
                Operation::TornRestart(keep) => {
                    let last = f.log().segments.load().last().cloned().expect("a segment");
                    let from = if model.flushed > last.base_offset { last.position_of(model.flushed).expect("position") } else { 0 };
                    let (path, size) = (last.path(".log"), last.size());
                    drop(last);
                    f.crash();
                    if size > 0 {
                        let length = from + (size - from) * u64::from(*keep) / 65535;
                        std::fs::File::options().write(true).open(path).and_then(|file| file.set_len(length)).expect("cuts");
                    }
                    prop_assert!(!f.open().clean);
                    let end = f.log().log_end_offset();
                    prop_assert!(end >= model.flushed, "flushed up to {}, {end} left", model.flushed);
                    model.truncate(end);
                    prop_assert_eq!(end, model.end, "a prefix that ends at a batch");
                    model.flushed = f.log().flush().expect("flushes");
                }
            }
            prop_assert_eq!((f.log().log_start_offset(), f.log().log_end_offset()), (model.start, model.end), "{:?}", operation);
        }
        let read = read_from(f.log(), model.start, 300);
        let read: Vec<(i64, String)> = read.into_iter().map(|(offset, _, value)| (offset, value.expect("a value"))).collect();
        prop_assert_eq!(read, model.expected());
    }
}
