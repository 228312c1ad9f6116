//! Prometheus' text format, version 0.0.4.
//!
//! The crate `prometheus-client` is not used: it writes OpenMetrics only, which ends every counter in `_total` and does
//! not support `…_count` and `…{quantile=…}` as Kafka's JMX exporter names them. promtool and the parser of Python's
//! prometheus-client check the output (`tests/observability`).

use core::fmt::{Display, Write as _};

/// Type of a metric family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows until the next start.
    Counter,
    /// May grow and shrink.
    Gauge,
    /// `_bucket`, `_sum`, `_count`.
    Histogram,
    /// `{quantile=…}`, `_sum`, `_count`.
    Summary,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Summary => "summary",
        }
    }
}

/// Labels of a series: names are written verbatim, values are escaped.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// A page under construction. The series of a family are contiguous.
#[derive(Debug, Default)]
pub struct Page(String);

impl Page {
    /// Start a family. `help` must not contain line ends or backslashes.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = kind.name();
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Append a series.
    pub fn series(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.0.push_str(name);
        let mut before = '{';
        for (label, text) in labels {
            self.0.push(before);
            self.0.push_str(label);
            self.0.push_str("=\"");
            self.escaped(text);
            self.0.push('"');
            before = ',';
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    /// Append a family of one series without labels.
    pub fn single(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.series(name, &[], value);
    }

    fn escaped(&mut self, text: &str) {
        if !text.contains(['\\', '"', '\n']) {
            self.0.push_str(text);
            return;
        }
        for letter in text.chars() {
            match letter {
                '\\' => self.0.push_str("\\\\"),
                '"' => self.0.push_str("\\\""),
                '\n' => self.0.push_str("\\n"),
                letter => self.0.push(letter),
            }
        }
    }

    /// Return the text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_labels_are_escaped() {
        let mut page = Page::default();
        page.family("a_total", Kind::Counter, "What is counted.");
        page.series("a_total", &[("b", "x\"\\\ny"), ("c", "")], 1);
        page.series("a_total", &[], 2.5);
        assert_eq!(
            page.into_text(),
            "# HELP a_total What is counted.\n# TYPE a_total counter\n\
             a_total{b=\"x\\\"\\\\\\ny\",c=\"\"} 1\na_total 2.5\n"
        );
    }
}
