//! Settings as texts under Kafka's names: tables, validation and parsing.

mod client;
mod jaas;
mod stores;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::{Error, Result};

pub use client::{
    ClientSettings, ConnectionSettings, ReachedBrokers, Sasl, SecurityProtocol, Software,
};
pub use stores::{KeyText, StoreFile, Tls};

/// Largest value of a Java `int`, the type of most of Kafka's settings.
pub const INT_MAX: i64 = i32::MAX as i64;

/// Allowed values of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedValues {
    /// Any text. The code that uses the setting validates it.
    Text,
    /// true or false.
    Flag,
    /// One of the listed words.
    OneOf(&'static [&'static str]),
    /// An integer between these two numbers, inclusive.
    Whole(i64, i64),
}

/// A setting with its allowed values and its default.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Kafka's name.
    pub name: &'static str,
    /// Allowed values.
    pub allowed: AllowedValues,
    /// The default as a user would write it. `None` means that it is unset, or derived from other settings.
    pub default: Option<&'static str>,
}

impl Setting {
    /// Create a setting without a default.
    #[must_use]
    pub const fn new(name: &'static str, allowed: AllowedValues) -> Self {
        Self {
            name,
            allowed,
            default: None,
        }
    }

    /// Return the setting with a default.
    #[must_use]
    pub const fn or(self, default: &'static str) -> Self {
        Self {
            default: Some(default),
            ..self
        }
    }

    /// Return the expected value, in words, if `text` is invalid.
    fn refuses(&self, text: &str) -> Option<String> {
        let fine = match self.allowed {
            AllowedValues::Text => true,
            // Python's True and False are accepted, too.
            AllowedValues::Flag => text.to_ascii_lowercase().parse::<bool>().is_ok(),
            AllowedValues::OneOf(words) => words.contains(&text),
            AllowedValues::Whole(low, high) => text
                .parse()
                .is_ok_and(|number: i64| (low..=high).contains(&number)),
        };
        (!fine).then(|| match self.allowed {
            AllowedValues::Text => "a text".into(),
            AllowedValues::Flag => "true or false".into(),
            AllowedValues::OneOf([all @ .., last]) if !all.is_empty() => {
                format!("{} or {last}", all.join(", "))
            }
            AllowedValues::OneOf(words) => words.concat(),
            AllowedValues::Whole(low, high) => format!("a whole number from {low} to {high}"),
        })
    }
}

/// Settings of a user. Names that the tables do not have are ignored here; the caller rejects them and suggests the
/// nearest name.
#[derive(Debug)]
pub struct Values<'a> {
    prefix: &'static str,
    tables: &'a [&'static [Setting]],
    given: &'a BTreeMap<String, String>,
}

impl<'a> Values<'a> {
    /// Create the values. The user writes `prefix` before Kafka's names. `tables` has all settings that may be read.
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

    /// Return the prefix before Kafka's names.
    #[must_use]
    pub const fn prefix(&self) -> &'static str {
        self.prefix
    }

    /// Return the validated text of a setting of any type, or its default.
    ///
    /// # Errors
    ///
    /// If a value is invalid.
    ///
    /// # Panics
    ///
    /// If no table has the setting, which is a bug that the first read reveals.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>> {
        let mut all = self.tables.iter().copied().flatten();
        let setting = all
            .find(|setting| setting.name == name)
            .unwrap_or_else(|| panic!("{name} is in no table of settings"));
        let given = self.given.get(name).map(|value| value.trim());
        match given.and_then(|text| Some((text, setting.refuses(text)?))) {
            Some((text, expected)) => Err(self.unusable(name, text, &expected)),
            None => Ok(given.or(setting.default)),
        }
    }

    /// Return a flag; `None` if it is unset and has no default.
    ///
    /// # Errors
    ///
    /// Like [`Values::text`].
    pub fn flag(&self, name: &str) -> Result<Option<bool>> {
        Ok(self
            .text(name)?
            .map(|text| text.eq_ignore_ascii_case("true")))
    }

    /// Return an integer; `None` if it is unset and has no default.
    ///
    /// # Errors
    ///
    /// Like [`Values::text`].
    pub fn whole(&self, name: &str) -> Result<Option<i64>> {
        Ok(self.text(name)?.and_then(|text| text.parse().ok()))
    }

    /// Return a duration from milliseconds; zero if it is unset and has no default.
    ///
    /// # Errors
    ///
    /// Like [`Values::text`].
    pub fn milliseconds(&self, name: &str) -> Result<Duration> {
        let number = self.whole(name)?.unwrap_or_default();
        Ok(Duration::from_millis(number.unsigned_abs()))
    }

    /// Return the error for an invalid value.
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
        Setting::new("a.text", AllowedValues::Text),
        Setting::new("a.flag", AllowedValues::Flag).or("true"),
        Setting::new("a.word", AllowedValues::OneOf(&["one", "two", "three"])).or("two"),
        Setting::new("an.only.word", AllowedValues::OneOf(&["PEM"])),
        Setting::new("a.number", AllowedValues::Whole(-1, 9)).or("3"),
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
