//! Metric families of one scrape, and their text in Prometheus' format, version 0.0.4.
//!
//! The crate `prometheus-client` is not used: it writes OpenMetrics only, which ends every counter in `_total` and does
//! not support `…_count` and `…{quantile=…}` as Kafka's JMX exporter names them. promtool and the parser of Python's
//! prometheus-client check the output (`tests/observability`).

use core::fmt::{Display, Formatter, Result, Write as _};

/// Type of a metric family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Grows until the next start.
    Counter,
    /// May grow and shrink.
    Gauge,
    /// Has the series `_bucket`, `_sum` and `_count`.
    Histogram,
    /// Has the series `{quantile=…}`, `_sum` and `_count`.
    Summary,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Counter, Self::Gauge, Self::Histogram, Self::Summary];

    /// Return the name in a TYPE line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Summary => "summary",
        }
    }
}

/// A sample's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A whole number, which the text shows with all its digits.
    Integer(i128),
    /// Any other number.
    Real(f64),
}

impl Value {
    /// Return the nearest float.
    #[must_use]
    pub const fn as_f64(self) -> f64 {
        match self {
            Value::Integer(value) => value as f64,
            Value::Real(value) => value,
        }
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Value::Integer(value) => value.fmt(f),
            Value::Real(value) => value.fmt(f),
        }
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Value::Integer(value.into())
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Value::Integer(value as i128)
    }
}

impl From<i128> for Value {
    fn from(value: i128) -> Self {
        Value::Integer(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Value::Real(value)
    }
}

/// Labels of a series: names need no escaping, values may be any text.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// One line of the text.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// The part of the line's name after the family's name, such as `_sum`.
    pub suffix: &'a str,
    /// Names and values of the labels.
    pub labels: Labels<'a>,
    /// The value.
    pub value: Value,
}

/// The samples of one metric. The texts of all samples are in one string, because a scrape has many thousands of
/// samples.
#[derive(Debug)]
pub struct Family {
    /// The metric's name.
    pub name: Box<str>,
    /// The metric's type.
    pub kind: Kind,
    /// The metric's description, without line ends and backslashes.
    pub help: Box<str>,
    texts: String,
    /// End positions in that string. For each sample: its suffix, then alternately the names and values of its labels.
    ends: Vec<u32>,
    /// For each sample its value, and the end of its entries in `ends`.
    values: Vec<(Value, u32)>,
}

impl Family {
    fn push(&mut self, suffix: &str, labels: Labels<'_>, value: Value) {
        let parts = labels.iter().flat_map(|&(label, text)| [label, text]);
        for part in core::iter::once(suffix).chain(parts) {
            self.texts.push_str(part);
            self.ends.push(self.texts.len() as u32);
        }
        self.values.push((value, self.ends.len() as u32));
    }

    /// Return the number of samples.
    #[must_use]
    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// Call `take` with each sample in `range`, which must not exceed the number of samples.
    pub fn for_each(&self, range: core::ops::Range<usize>, mut take: impl FnMut(Sample<'_>)) {
        let first = |of: usize| {
            of.checked_sub(1)
                .map_or(0, |before| self.values[before].1 as usize)
        };
        let begin = |part: usize| {
            part.checked_sub(1)
                .map_or(0, |before| self.ends[before] as usize)
        };
        let text = |part: usize| &self.texts[begin(part)..self.ends[part] as usize];
        let mut labels = Vec::new();
        for index in range {
            let (value, end) = self.values[index];
            let suffix = first(index);
            labels.clear();
            labels.extend(
                (suffix + 1..end as usize)
                    .step_by(2)
                    .map(|part| (text(part), text(part + 1))),
            );
            take(Sample {
                suffix: text(suffix),
                labels: &labels,
                value,
            });
        }
    }
}

/// The families of one scrape, in the order of the text.
#[derive(Debug, Default)]
pub struct Families(Vec<Family>);

impl Families {
    /// Start a family. `help` must not contain line ends or backslashes.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        self.0.push(Family {
            name: name.into(),
            kind,
            help: help.into(),
            texts: String::new(),
            ends: Vec::new(),
            values: Vec::new(),
        });
    }

    /// Return the family that was started last.
    #[must_use]
    pub fn last(&self) -> Option<&Family> {
        self.0.last()
    }

    /// Append a series to the family that was started last. `name` begins with the family's name.
    ///
    /// # Panics
    ///
    /// If `name` does not begin with it, or if no family was started.
    pub fn series(&mut self, name: &str, labels: Labels<'_>, value: impl Into<Value>) {
        let family = self.0.last_mut().expect("a family was started");
        let suffix = name.strip_prefix(&*family.name);
        family.push(
            suffix.expect("a series has its family's name"),
            labels,
            value.into(),
        );
    }

    /// Append a family of one series without labels.
    pub fn single(&mut self, name: &str, kind: Kind, help: &str, value: impl Into<Value>) {
        self.family(name, kind, help);
        self.series(name, &[], value);
    }

    /// Return the families and remove them.
    pub fn take(&mut self) -> Vec<Family> {
        core::mem::take(&mut self.0)
    }

    /// Return the text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for family in &self.0 {
            let Family {
                name, kind, help, ..
            } = family;
            // Writing to a String cannot fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
            family.for_each(0..family.count(), |sample| {
                write_sample(&mut text, name, sample)
            });
        }
        text
    }
}

fn write_sample(text: &mut String, name: &str, sample: Sample<'_>) {
    text.push_str(name);
    text.push_str(sample.suffix);
    let mut before = '{';
    for (label, value) in sample.labels {
        text.push(before);
        text.push_str(label);
        text.push_str("=\"");
        write_escaped(text, value);
        text.push('"');
        before = ',';
    }
    if !sample.labels.is_empty() {
        text.push('}');
    }
    let _ = writeln!(text, " {}", sample.value);
}

fn write_escaped(text: &mut String, value: &str) {
    if !value.contains(['\\', '"', '\n']) {
        text.push_str(value);
        return;
    }
    for letter in value.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            letter => text.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_labels_are_escaped() {
        let mut families = Families::default();
        families.family("a", Kind::Counter, "What is counted.");
        families.series("a_total", &[("b", "x\"\\\ny"), ("c", "")], 1_u64);
        families.series("a", &[], 2.5);
        families.family("b", Kind::Gauge, "Without samples.");
        assert_eq!(
            families.text(),
            "# HELP a What is counted.\n# TYPE a counter\n\
             a_total{b=\"x\\\"\\\\\\ny\",c=\"\"} 1\na 2.5\n\
             # HELP b Without samples.\n# TYPE b gauge\n"
        );
    }
}
