//! Principal from a client's certificate: the subject as Java writes it (RFC 2253), and `ssl.principal.mapping.rules`,
//! which map it to a name (KIP-371).

use core::fmt::Write;

use regex::Regex;
use rustls::pki_types::CertificateDer;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;

/// Return the subject of a certificate; `None` if the bytes are not a certificate.
pub(super) fn subject(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
    name_of(certificate.subject())
}

/// Return serial number and subject of a certificate, including unsupported ones (webpki reads version 3 only).
pub(super) fn serial_and_subject(certificate: &[u8]) -> Option<(&[u8], String)> {
    const VERSION: u8 = 0xa0;
    const INTEGER: u8 = 0x02;
    let mut content = take(&mut &*certificate, SEQUENCE)?;
    let mut signed = take(&mut content, SEQUENCE)?;
    if signed.first() == Some(&VERSION) {
        take(&mut signed, VERSION)?;
    }
    let serial = take(&mut signed, INTEGER)?;
    // Skip algorithm, issuer and validity.
    for _ in 0..3 {
        take(&mut signed, SEQUENCE)?;
    }
    let subject = name_of(take(&mut signed, SEQUENCE)?)?;
    Some((serial, subject))
}

/// Return the text of a name, whose parts are in reverse order.
fn name_of(mut parts: &[u8]) -> Option<String> {
    let mut written = Vec::new();
    while !parts.is_empty() {
        let mut attributes = take(&mut parts, SET)?;
        let mut part = String::new();
        while !attributes.is_empty() {
            let mut attribute = take(&mut attributes, SEQUENCE)?;
            let kind = take(&mut attribute, OBJECT_IDENTIFIER)?;
            if !part.is_empty() {
                part.push('+');
            }
            write_attribute(kind, attribute, &mut part)?;
        }
        written.push(part);
    }
    written.reverse();
    Some(written.join(","))
}

/// Take the content of the next element, which must have this tag.
fn take<'a>(bytes: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let (found, content, rest) = element(bytes)?;
    *bytes = rest;
    (found == tag).then_some(content)
}

/// Return the next element of DER: its tag, its content, and the bytes after it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match *first {
        short @ 0..=0x7f => (usize::from(short), rest),
        long @ 0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            let length = digits
                .iter()
                .fold(0, |length, digit| length << 8 | usize::from(*digit));
            (length, rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

fn write_attribute(kind: &[u8], value: &[u8], out: &mut String) -> Option<()> {
    let (tag, content, _) = element(value)?;
    let keyword = match kind {
        [0x55, 4, 3] => "CN",
        [0x55, 4, 6] => "C",
        [0x55, 4, 7] => "L",
        [0x55, 4, 8] => "ST",
        [0x55, 4, 9] => "STREET",
        [0x55, 4, 10] => "O",
        [0x55, 4, 11] => "OU",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25] => "DC",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1] => "UID",
        _ => "",
    };
    if keyword.is_empty() {
        write_number(kind, out)?;
    } else {
        out.push_str(keyword);
    }
    out.push('=');
    match text_of(tag, content) {
        Some(text) if !keyword.is_empty() => write_escaped(&text, out),
        _ => {
            out.push('#');
            for byte in value {
                write!(out, "{byte:02x}").ok()?;
            }
        }
    }
    Some(())
}

/// Append an object identifier in dotted decimal notation.
fn write_number(kind: &[u8], out: &mut String) -> Option<()> {
    let mut numbers = Vec::new();
    let mut number: u64 = 0;
    for byte in kind {
        number = number.checked_mul(128)? | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if numbers.is_empty() {
                let first = (number / 40).min(2);
                numbers.extend([first, number - 40 * first]);
            } else {
                numbers.push(number);
            }
            number = 0;
        }
    }
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    out.push_str(&numbers.join("."));
    Some(())
}

/// Return the text of a DER string.
fn text_of(tag: u8, content: &[u8]) -> Option<String> {
    match tag {
        // Tags of UTF8String, PrintableString and IA5String.
        0x0c | 0x13 | 0x16 => String::from_utf8(content.to_vec()).ok(),
        // Tags of T61String and GeneralString, which are decoded as Latin 1, as is common.
        0x14 | 0x1b => Some(content.iter().map(|byte| char::from(*byte)).collect()),
        // Tag of BMPString.
        0x1e => {
            let units = content
                .chunks_exact(2)
                .map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            char::decode_utf16(units).collect::<Result<_, _>>().ok()
        }
        _ => None,
    }
}

fn write_escaped(text: &str, out: &mut String) {
    let begin = text.len() - text.trim_start_matches(' ').len();
    let end = text.trim_end_matches(' ').len();
    for (at, character) in text.char_indices() {
        let at_an_end = character == ' ' && (at < begin || at >= end);
        match character {
            '\0' => out.push_str("\\00"),
            ',' | '=' | '+' | '<' | '>' | '#' | ';' | '"' | '\\' => {
                out.push('\\');
                out.push(character);
            }
            ' ' if at_an_end => out.push_str("\\ "),
            other => out.push(other),
        }
    }
}

/// `ssl.principal.mapping.rules`: the first matching rule returns the name.
#[derive(Debug)]
pub(super) struct PrincipalRules(Vec<Rule>);

#[derive(Debug)]
enum Rule {
    /// The subject, unchanged.
    Default,
    /// A pattern that must match the whole subject, and its replacement, optionally in lower or upper case.
    Replace {
        pattern: Regex,
        replacement: String,
        case: Option<char>,
    },
}

/// Maximum memory of a compiled pattern.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

impl PrincipalRules {
    /// Parse comma-separated rules: `DEFAULT`, or `RULE:pattern/replacement/` with an optional `L` or `U`. Patterns and
    /// replacements escape `/` with a backslash.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Vec::new();
        let mut rest = text.trim();
        if rest.is_empty() {
            rules.push(Rule::Default);
        }
        while !rest.is_empty() {
            let wrong =
                || format!("{rest:?} is not a rule: DEFAULT or RULE:pattern/replacement/[LU]");
            let after = if let Some(after) = rest.strip_prefix("DEFAULT") {
                rules.push(Rule::Default);
                after
            } else {
                let rule = rest.strip_prefix("RULE:").ok_or_else(wrong)?;
                let (pattern, rule) = until_slash(rule).ok_or_else(wrong)?;
                let (replacement, rule) = until_slash(rule).ok_or_else(wrong)?;
                let case = rule.chars().next().filter(|case| matches!(case, 'L' | 'U'));
                rules.push(Rule::Replace {
                    pattern: regex::RegexBuilder::new(&format!(r"\A(?:{pattern})\z"))
                        .size_limit(PATTERN_BYTES_MAX)
                        .build()
                        .map_err(|_| format!("{pattern:?} is not a supported pattern"))?,
                    replacement: replacement.to_owned(),
                    case,
                });
                &rule[case.map_or(0, char::len_utf8)..]
            };
            let after = after.trim_start();
            rest = match after.strip_prefix(',') {
                Some(next) => next.trim_start(),
                None if after.is_empty() => after,
                None => return Err(wrong()),
            };
        }
        Ok(PrincipalRules(rules))
    }

    /// Return the name for a subject; `None` if no rule matches.
    pub(super) fn apply(&self, subject: &str) -> Option<String> {
        self.0.iter().find_map(|rule| match rule {
            Rule::Default => Some(subject.to_owned()),
            Rule::Replace {
                pattern,
                replacement,
                case,
            } => {
                let found = pattern.captures(subject)?;
                let name = expand(replacement, &found);
                Some(match case {
                    Some('L') => name.to_lowercase(),
                    Some(_) => name.to_uppercase(),
                    None => name,
                })
            }
        })
    }
}

/// Split at the next slash without a backslash before it.
fn until_slash(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            '/' if !escaped => return Some((&text[..at], &text[at + 1..])),
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    None
}

/// Expand Java's replacement syntax: `$1` is a group if it exists, a backslash makes the next character literal.
fn expand(replacement: &str, found: &regex::Captures<'_>) -> String {
    let mut out = String::new();
    let mut characters = replacement.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => out.extend(characters.next()),
            '$' => {
                let Some(mut group) = characters.peek().and_then(|next| next.to_digit(10)) else {
                    out.push('$');
                    continue;
                };
                if group as usize >= found.len() {
                    out.push('$');
                    continue;
                }
                characters.next();
                while let Some(digit) = characters.peek().and_then(|next| next.to_digit(10)) {
                    let longer = group * 10 + digit;
                    if longer as usize >= found.len() {
                        break;
                    }
                    group = longer;
                    characters.next();
                }
                out.push_str(found.get(group as usize).map_or("", |part| part.as_str()));
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBJECT: &str = "CN=Kafka User,OU=ServiceUsers,O=Unknown,C=US";

    #[test]
    fn the_first_rule_that_fits_makes_the_name() {
        let check = |rules: &str, subject: &str, name: Option<&str>| {
            let rules = PrincipalRules::parse(rules).expect(rules);
            assert_eq!(rules.apply(subject).as_deref(), name, "{rules:?}");
        };
        check("DEFAULT", SUBJECT, Some(SUBJECT));
        check("", SUBJECT, Some(SUBJECT));
        // The examples of KIP-371.
        let rules = "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,\
                     RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,\
                     RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L, DEFAULT";
        check(rules, SUBJECT, Some("Kafka User"));
        check(
            rules,
            "CN=Duke,OU=JavaSoft,O=Sun,L=x,ST=y,C=US",
            Some("duke@javasoft"),
        );
        check(rules, "OU=x,CN=Adele,C=US", Some("adele"));
        check(rules, "OU=x", Some("OU=x"));
        check("RULE:CN=(.*?),.*/$1/U", SUBJECT, Some("KAFKA USER"));
        // The whole subject must match.
        check("RULE:CN=Kafka/x/", SUBJECT, None);
        check(r"RULE:.*CN=a\/b.*/x\/$1$/", "CN=a/b", Some("x/$1$"));
        check("RULE:CN=(.).*/$0-$12/", "CN=ab", Some("CN=ab-a2"));
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in [
            "RULE:",
            "RULE:a/b",
            "a/b/",
            "RULE:a/b/X",
            "DEFAULT;DEFAULT",
            "RULE:(/x/",
        ] {
            let problem = PrincipalRules::parse(text).expect_err(text);
            assert!(problem.contains("is not a "), "{problem}");
        }
    }

    #[test]
    fn bytes_that_are_no_name_have_no_subject() {
        let common_name = |tag: u8, text: &[u8]| {
            let value = [&[tag, text.len() as u8], text].concat();
            let pair = [&[6, 3, 0x55, 4, 3], &value[..]].concat();
            let pair = [&[0x30, pair.len() as u8], &pair[..]].concat();
            [&[0x31, pair.len() as u8], &pair[..]].concat()
        };
        let name = |bytes: &[u8]| name_of(bytes);
        let two = [common_name(0x13, b"first"), common_name(0x0c, b" a,b ")].concat();
        assert_eq!(name(&two).as_deref(), Some(r"CN=\ a\,b\ ,CN=first"));
        assert_eq!(
            name(&common_name(0x1e, b"\0h\0i")).as_deref(),
            Some("CN=hi")
        );
        assert_eq!(
            name(&common_name(0x03, b"\0")).as_deref(),
            Some("CN=#030100")
        );
        assert_eq!(name(&[]).as_deref(), Some(""));
        for end in 1..two.len() {
            let cut = name(&two[..end]);
            assert!(cut.is_none() || end == common_name(0x13, b"first").len());
        }
        let mut changed = two.clone();
        for at in 0..changed.len() {
            for byte in [0, 0x7f, 0x84, 0xff] {
                changed[at] = byte;
                let _ = name(&changed);
            }
            changed[at] = two[at];
        }
    }
}
