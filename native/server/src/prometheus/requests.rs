//! Metrics of requests by API: count, version, errors, sizes, and time by stage.

use std::sync::Arc;
use std::time::Instant;

use pybroker_protocol::api_key::APIS;
use pybroker_protocol::{Api, ErrorCode, Plane};
use pybroker_storage::Counts;

use super::recent::{Key, Recent, Scrape};
use super::sources::Sources;
use crate::metrics::{ERRORS, KEYS, RequestMetrics, STAGES, Stage, ThreadMetrics, VERSIONS};
use crate::prometheus::exposition::{Families, Kind};

/// The quantiles of Kafka's JMX exporter.
const QUANTILES: [(f64, &str); 6] = [
    (0.5, "0.50"),
    (0.75, "0.75"),
    (0.95, "0.95"),
    (0.98, "0.98"),
    (0.99, "0.99"),
    (0.999, "0.999"),
];

/// Upper bounds of histogram buckets: 2^n microseconds, from 16 µs to 33 s.
const BOUNDS: core::ops::RangeInclusive<u32> = 4..=25;
/// The histograms of stages use only every second of these bounds.
const STAGE_BOUNDS_STEP: usize = 2;

/// The counters of one API in all threads.
struct OfApi<'a> {
    slot: usize,
    name: &'static str,
    threads: Vec<&'a RequestMetrics>,
}

impl OfApi<'_> {
    fn sum(&self, read: impl Fn(&RequestMetrics) -> u64) -> u64 {
        self.threads.iter().map(|metrics| read(metrics)).sum()
    }

    fn counts(&self, add: impl Fn(&RequestMetrics, &mut Counts)) -> Counts {
        let mut counts = Counts::default();
        for metrics in &self.threads {
            add(metrics, &mut counts);
        }
        counts
    }
}

pub(super) fn write(sources: &Sources<'_>, families: &mut Families) {
    let apis = used(sources.threads);
    totals(&apis, families);
    kafkas(&apis, families);
    histograms(&apis, families);
    let mut recent = sources.recent.lock();
    times(
        &apis,
        &mut recent,
        &sources.shared.replicas.flush_times(),
        families,
    );
}

/// Return the APIs that were requested at least once or that dashboards expect.
fn used(threads: &[Arc<ThreadMetrics>]) -> Vec<OfApi<'_>> {
    let native = |slot: usize| {
        APIS.iter()
            .any(|api| api.key.code() as usize == slot && api.plane == Plane::Native)
    };
    (0..KEYS)
        .map(|slot| OfApi {
            slot,
            name: Api::find(slot as i16).map_or("Other", |api| api.name()),
            threads: threads
                .iter()
                .filter_map(|thread| thread.in_slot(slot))
                .collect(),
        })
        .filter(|api| native(api.slot) || !api.threads.is_empty())
        .collect()
}

/// Write the totals under the metric names of older versions of pybroker.
fn totals(apis: &[OfApi<'_>], families: &mut Families) {
    let name = "pybroker_requests_total";
    families.family(name, Kind::Counter, "Requests answered, by API.");
    for api in apis {
        families.series(name, &[("api", api.name)], api.sum(RequestMetrics::count));
    }
    let name = "pybroker_response_errors_total";
    families.family(
        name,
        Kind::Counter,
        "Error codes in responses of the data plane.",
    );
    for slot in 0..ERRORS {
        let count: u64 = apis
            .iter()
            .map(|api| api.sum(|metrics| metrics.errors[slot].get()))
            .sum();
        if count > 0 {
            families.series(name, &[("error", error_name(slot))], count);
        }
    }
}

fn kafkas(apis: &[OfApi<'_>], families: &mut Families) {
    let name = "kafka_network_requestmetrics_requests_total";
    families.family(
        name,
        Kind::Counter,
        "Requests answered, by API and version (Kafka: RequestsPerSec).",
    );
    for api in apis {
        for version in 0..VERSIONS {
            let count = api.sum(|metrics| metrics.versions[version].get());
            if count > 0 {
                let version = version.to_string();
                let labels = [("request", api.name), ("version", version.as_str())];
                families.series(name, &labels, count);
            }
        }
    }
    let name = "kafka_network_requestmetrics_errors_total";
    families.family(
        name,
        Kind::Counter,
        "Error codes in responses of the data plane, by API (Kafka: ErrorsPerSec); NONE: requests without an error.",
    );
    for api in apis {
        let mut with_errors = 0;
        for slot in 0..ERRORS {
            let count = api.sum(|metrics| metrics.errors[slot].get());
            if count > 0 {
                with_errors += count;
                let labels = [("request", api.name), ("error", error_name(slot))];
                families.series(name, &labels, count);
            }
        }
        let none = api.sum(RequestMetrics::count).saturating_sub(with_errors);
        families.series(name, &[("request", api.name), ("error", "NONE")], none);
    }
}

fn error_name(slot: usize) -> &'static str {
    ErrorCode(slot as i16 - 1).name().unwrap_or("OTHER")
}

fn histograms(apis: &[OfApi<'_>], families: &mut Families) {
    let name = "pybroker_request_seconds";
    families.family(
        name,
        Kind::Histogram,
        "Time from the complete request to the last byte of the response, by API.",
    );
    for api in apis {
        histogram(
            families,
            name,
            &[("api", api.name)],
            &api.counts(|one, counts| one.total.add_to(counts)),
            1,
        );
    }
    let name = "pybroker_request_stage_seconds";
    families.family(
        name,
        Kind::Histogram,
        "Parts of that time: in a queue, processing here, waiting for others, waiting for earlier responses, sending.",
    );
    for api in apis.iter().filter(|api| !api.threads.is_empty()) {
        for (stage, _, label) in STAGES {
            let labels = [("api", api.name), ("stage", label)];
            let counts = api.counts(|one, counts| one.add_stage_to(stage, counts));
            histogram(families, name, &labels, &counts, STAGE_BOUNDS_STEP);
        }
    }
}

fn histogram(
    families: &mut Families,
    name: &str,
    labels: &[(&str, &str)],
    counts: &Counts,
    step: usize,
) {
    let bucket = format!("{name}_bucket");
    let mut below = |bound: &str, count| {
        let with_bound: Vec<_> = labels.iter().copied().chain([("le", bound)]).collect();
        families.series(&bucket, &with_bound, count);
    };
    for power in BOUNDS.step_by(step) {
        let bound = ((1u64 << power) as f64 / 1e6).to_string();
        below(&bound, counts.below(1 << power));
    }
    below("+Inf", counts.count());
    families.series(&format!("{name}_sum"), labels, counts.sum as f64 / 1e6);
    families.series(&format!("{name}_count"), labels, counts.count());
}

/// Write Kafka's timers and sizes: quantiles of the last minutes, and count and sum since the start.
fn times(apis: &[OfApi<'_>], recent: &mut Recent, flushes: &Counts, families: &mut Families) {
    let mut scrape = recent.scrape(Instant::now());
    let millis = 1e-3;
    let mut of_apis = |name, help: &str, unit, add: &dyn Fn(&RequestMetrics, &mut Counts)| {
        families.family(name, Kind::Summary, help);
        for api in apis {
            let labels = [("request", api.name)];
            let counts = api.counts(add);
            summary(
                families,
                &mut scrape,
                (name, api.slot),
                &labels,
                &counts,
                unit,
            );
        }
    };
    of_apis(
        "kafka_network_requestmetrics_totaltimems",
        "Milliseconds from the complete request to the last byte of the response (Kafka: TotalTimeMs).",
        millis,
        &|one, counts| one.total.add_to(counts),
    );
    for (name, help, stage) in [
        (
            "kafka_network_requestmetrics_requestqueuetimems",
            "Milliseconds that the request waited in a queue (Kafka: RequestQueueTimeMs).",
            Stage::Queue,
        ),
        (
            "kafka_network_requestmetrics_localtimems",
            "Milliseconds of processing in this broker (Kafka: LocalTimeMs).",
            Stage::Local,
        ),
        (
            "kafka_network_requestmetrics_remotetimems",
            "Milliseconds that the request waited for disks, replicas, records or members (Kafka: RemoteTimeMs).",
            Stage::Remote,
        ),
        (
            "kafka_network_requestmetrics_responsequeuetimems",
            "Milliseconds that the response waited for earlier responses (Kafka: ResponseQueueTimeMs).",
            Stage::ResponseQueue,
        ),
        (
            "kafka_network_requestmetrics_responsesendtimems",
            "Milliseconds to hand the response to the kernel (Kafka: ResponseSendTimeMs).",
            Stage::ResponseSend,
        ),
    ] {
        of_apis(name, help, millis, &|one, counts| {
            one.add_stage_to(stage, counts);
        });
    }
    of_apis(
        "kafka_network_requestmetrics_requestbytes",
        "Bytes of requests (Kafka: RequestBytes).",
        1.0,
        &|one, counts| one.bytes.add_to(counts),
    );
    let name = "kafka_log_logflushstats_logflushrateandtimems";
    families.family(
        name,
        Kind::Summary,
        "Milliseconds of flushes of logs and journals (Kafka: LogFlushRateAndTimeMs).",
    );
    summary(families, &mut scrape, (name, 0), &[], flushes, millis);
    scrape.end();
}

fn summary(
    families: &mut Families,
    scrape: &mut Scrape<'_>,
    key: Key,
    labels: &[(&str, &str)],
    counts: &Counts,
    unit: f64,
) {
    let (name, _) = key;
    let recent = scrape.since(key, counts);
    for (share, shown) in QUANTILES {
        let mut with_share = labels.to_vec();
        with_share.push(("quantile", shown));
        families.series(name, &with_share, recent.quantile(share) * unit);
    }
    families.series(&format!("{name}_sum"), labels, counts.sum as f64 * unit);
    families.series(&format!("{name}_count"), labels, counts.count());
}
