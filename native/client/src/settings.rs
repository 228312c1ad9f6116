//! Settings as texts under Kafka's names: which there are, what they may be, how they are read.

mod client;
mod jaas;
mod stores;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::{Error, Result};

pub use client::{Answered, ClientSettings, ConnectionSettings, Sasl, SecurityProtocol, Software};
pub use stores::{KeyText, StoreFile, Tls};

/// What a Java `int` holds: most of Kafka's settings are one.
pub const INT_MAX: i64 = i32::MAX as i64;

/// What a setting may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Any text; whoever uses it looks closer.
    Text,
    /// true or false.
    Flag,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A whole number from the first to the second.
    Whole(i64, i64),
}

/// A setting: the one place that says what it may be and what it is if nobody sets it.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Kafka's name.
    pub name: &'static str,
    /// What it may be.
    pub allowed: Allowed,
    /// As a user would write it; `None`: nothing, or what other settings make of it.
    pub default: Option<&'static str>,
}

impl Setting {
    /// A setting without a default.
    #[must_use]
    pub const fn new(name: &'static str, allowed: Allowed) -> Self {
        Self {
            name,
            allowed,
            default: None,
        }
    }

    /// The same with a default.
    #[must_use]
    pub const fn or(self, default: &'static str) -> Self {
        Self {
            default: Some(default),
            ..self
        }
    }

    /// What is expected, in words, if `text` is not that.
    fn refuses(&self, text: &str) -> Option<String> {
        let fine = match self.allowed {
            Allowed::Text => true,
            // Python's True and False too.
            Allowed::Flag => text.to_ascii_lowercase().parse::<bool>().is_ok(),
            Allowed::OneOf(words) => words.contains(&text),
            Allowed::Whole(low, high) => text
                .parse()
                .is_ok_and(|number: i64| (low..=high).contains(&number)),
        };
        (!fine).then(|| match self.allowed {
            Allowed::Text => "a text".into(),
            Allowed::Flag => "true or false".into(),
            Allowed::OneOf([all @ .., last]) if !all.is_empty() => {
                format!("{} or {last}", all.join(", "))
            }
            Allowed::OneOf(words) => words.concat(),
            Allowed::Whole(low, high) => format!("a whole number from {low} to {high}"),
        })
    }
}

/// What a user has set. Names that are not in the tables are not looked at: who takes them knows the nearest one.
#[derive(Debug)]
pub struct Values<'a> {
    prefix: &'static str,
    tables: &'a [&'static [Setting]],
    given: &'a BTreeMap<String, String>,
}

impl<'a> Values<'a> {
    /// `prefix`: what the user writes before Kafka's names, where they are options of something else. `tables`: all
    /// settings that are read.
    #[must_use]
    pub const fn new(
        prefix: &'static str,
        tables: &'a [&'static [Setting]],
        given: &'a BTreeMap<String, String>,
    ) -> Self {
        Self {
            prefix,
            tables,
            given,
        }
    }

    /// What the user writes before Kafka's names.
    #[must_use]
    pub const fn prefix(&self) -> &'static str {
        self.prefix
    }

    /// A text, or whatever was set or is the default of a setting with another kind of value, checked.
    ///
    /// # Errors
    /// A value that the setting may not have.
    ///
    /// # Panics
    /// The setting stands in no table: a mistake of ours that the first reading shows.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>> {
        let mut all = self.tables.iter().copied().flatten();
        let setting = all
            .find(|setting| setting.name == name)
            .unwrap_or_else(|| panic!("{name} stands in no table of settings"));
        let given = self.given.get(name).map(|value| value.trim());
        match given.and_then(|text| Some((text, setting.refuses(text)?))) {
            Some((text, expected)) => Err(self.unusable(name, text, &expected)),
            None => Ok(given.or(setting.default)),
        }
    }

    /// A flag; `None` if it is not set and has no default.
    ///
    /// # Errors
    /// As [`Values::text`].
    pub fn flag(&self, name: &str) -> Result<Option<bool>> {
        Ok(self
            .text(name)?
            .map(|text| text.eq_ignore_ascii_case("true")))
    }

    /// A whole number; `None` if it is not set and has no default.
    ///
    /// # Errors
    /// As [`Values::text`].
    pub fn whole(&self, name: &str) -> Result<Option<i64>> {
        Ok(self.text(name)?.and_then(|text| text.parse().ok()))
    }

    /// Milliseconds; none at all if it is not set and has no default.
    ///
    /// # Errors
    /// As [`Values::text`].
    pub fn milliseconds(&self, name: &str) -> Result<Duration> {
        let number = self.whole(name)?.unwrap_or_default();
        Ok(Duration::from_millis(number.unsigned_abs()))
    }

    /// The error for a value that its setting may not have.
    #[must_use]
    pub fn unusable(&self, name: &str, value: &str, expected: &str) -> Error {
        Error::Setting(format!(
            "{}{name}={value}: expected {expected}",
            self.prefix
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Setting] = &[
        Setting::new("a.text", Allowed::Text),
        Setting::new("a.flag", Allowed::Flag).or("true"),
        Setting::new("a.word", Allowed::OneOf(&["one", "two", "three"])).or("two"),
        Setting::new("an.only.word", Allowed::OneOf(&["PEM"])),
        Setting::new("a.number", Allowed::Whole(-1, 9)).or("3"),
    ];

    fn read(name: &str, value: &str) -> Result<Option<String>> {
        let given = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let values = Values::new("x.", &[TABLE], &given);
        Ok(values.text(name)?.map(str::to_owned))
    }

    #[test]
    fn what_a_setting_may_not_be_is_refused_with_what_it_may() {
        for (name, value, expected) in [
            ("a.flag", "perhaps", "true or false"),
            ("a.flag", "1", "true or false"),
            ("a.word", "four", "one, two or three"),
            ("an.only.word", "JKS", "PEM"),
            ("a.number", "10", "a whole number from -1 to 9"),
            ("a.number", "-2", "a whole number from -1 to 9"),
            ("a.number", "4e6", "a whole number from -1 to 9"),
            ("a.number", "", "a whole number from -1 to 9"),
        ] {
            let text = read(name, value).expect_err(name).to_string();
            assert_eq!(text, format!("x.{name}={value}: expected {expected}"));
        }
    }

    #[test]
    fn what_is_not_set_has_its_default_and_blanks_around_a_value_are_nothing() {
        let nothing = BTreeMap::new();
        let values = Values::new("", &[TABLE], &nothing);
        assert_eq!(values.text("a.text").expect("usable"), None);
        assert_eq!(values.flag("a.flag").expect("usable"), Some(true));
        assert_eq!(values.text("a.word").expect("usable"), Some("two"));
        assert_eq!(values.whole("a.number").expect("usable"), Some(3));
        assert_eq!(
            values.milliseconds("a.number").expect("usable"),
            Duration::from_millis(3)
        );
        assert_eq!(
            read("a.word", " one\n").expect("usable").as_deref(),
            Some("one")
        );
        assert_eq!(
            read("a.flag", "False").expect("Python's").as_deref(),
            Some("False")
        );
        assert!(TABLE.iter().all(|setting| {
            setting
                .default
                .is_none_or(|default| setting.refuses(default).is_none())
        }));
    }
}
