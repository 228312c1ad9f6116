//! Quota metrics in Prometheus' text format, under the names of Kafka's JMX exporter. The number of entities is
//! bounded: throttled ones come first, then those with the highest usage.

use std::sync::Arc;
use std::time::Instant;

use crate::prometheus::exposition::{self, Families};
use crate::quotas::{EntityUsage, Kind, Quotas};

/// Maximum entities shown of each kind.
const SHOWN_MAX: usize = 100;

/// A family: name, help text, quota, and the function that reads the value.
type Row = (
    &'static str,
    &'static str,
    &'static [(Kind, &'static str)],
    fn(&EntityUsage, Instant) -> f64,
);

const PRODUCE: (Kind, &str) = (Kind::Produce, "Produce");
const FETCH: (Kind, &str) = (Kind::Fetch, "Fetch");
const REQUEST: (Kind, &str) = (Kind::Request, "Request");

const FAMILIES: [Row; 3] = [
    (
        "kafka_server_quota_byte_rate",
        "Bytes a second of users and client ids with a quota: of Produce requests, or of answers to Fetch \
         (Kafka: byte-rate).",
        &[PRODUCE, FETCH],
        EntityUsage::rate,
    ),
    (
        "kafka_server_quota_request_time",
        "Time of the broker's threads in percent of one, of users and client ids with a quota (Kafka: request-time).",
        &[REQUEST],
        EntityUsage::rate,
    ),
    (
        "kafka_server_quota_throttle_time",
        "Average milliseconds by which throttled requests were delayed (Kafka: throttle-time).",
        &[PRODUCE, FETCH, REQUEST],
        EntityUsage::throttle_ms,
    ),
];

/// Append all families, or none if there are no quotas.
pub(super) fn write(quotas: &Quotas, families: &mut Families, now: Instant) {
    let all = quotas.all();
    if all.is_empty() {
        return;
    }
    for (name, help, resources, read) in FAMILIES {
        families.family(name, exposition::Kind::Gauge, help);
        for &(kind, resource) in resources {
            for usage in most(&all, kind, now) {
                // The name is empty for quotas that cover all users.
                let user = usage.key.user.as_deref().unwrap_or_default();
                let client_id = usage.key.client_id.as_deref().unwrap_or_default();
                let labels = [
                    ("resource", resource),
                    ("user", user),
                    ("clientid", client_id),
                ];
                families.series(name, &labels, read(usage, now));
            }
        }
    }
}

fn most(all: &[Arc<EntityUsage>], kind: Kind, now: Instant) -> Vec<&EntityUsage> {
    let mut chosen: Vec<(f64, f64, &EntityUsage)> = all
        .iter()
        .filter(|usage| usage.key.kind == kind)
        .map(|usage| (usage.throttle_ms(now), usage.rate(now), &**usage))
        .collect();
    chosen.sort_unstable_by(|one, other| {
        (other.0.total_cmp(&one.0)).then_with(|| other.1.total_cmp(&one.1))
    });
    chosen.truncate(SHOWN_MAX);
    chosen.into_iter().map(|(.., usage)| usage).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quotas::{EntityQuotas, QuotaDelta};

    #[test]
    fn the_series_are_bounded_and_who_is_slowed_down_is_among_them() {
        let (quotas, now) = (Quotas::default(), Instant::now());
        let text = || {
            let mut families = Families::default();
            write(&quotas, &mut families, now);
            families.text()
        };
        assert_eq!(text(), "");
        quotas.apply(&QuotaDelta {
            entities: vec![EntityQuotas {
                user: None,
                client_id: Some(String::new()),
                values: [Some(1_000.0), None, None, None],
            }],
            ..QuotaDelta::default()
        });
        for step in 0..500u32 {
            let client = quotas.look_up("ann", &format!("c{step}"), now);
            let bytes = if step == 250 { 1_000_000 } else { 1 };
            client.produce.expect("set").record(bytes, now);
        }
        let client = quotas.look_up("ann", "a\"\\\n", now);
        client.produce.expect("set").record(9_000, now);
        let text = text();
        let shown = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
        assert_eq!(
            shown(r#"kafka_server_quota_byte_rate{resource="Produce""#),
            SHOWN_MAX
        );
        assert_eq!(shown(r#"kafka_server_quota_byte_rate{resource="Fetch""#), 0);
        let slowed =
            r#"kafka_server_quota_throttle_time{resource="Produce",user="",clientid="c250"} 99"#;
        assert!(text.contains(slowed), "{text}");
        assert!(text.contains(r#"clientid="a\"\\\n""#));
    }
}
