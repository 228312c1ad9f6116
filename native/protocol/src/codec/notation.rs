//! Parser of the schema notation (grammar: `schema/README.md`).

use std::fmt;
use std::sync::OnceLock;

use super::message::{Message, MessageKind};
use super::schema::{Class, ClassIndex, DefaultValue, Field, FieldType, VersionRange};

/// A line with a syntax error.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotationError {
    line: usize,
    problem: String,
}

impl fmt::Display for NotationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

type Result<T> = std::result::Result<T, NotationError>;

/// Parse the messages of one file.
pub(super) fn parse(text: &str) -> Result<Vec<Message>> {
    let lines: Vec<Line<'_>> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| Line::new(number + 1, line))
        .collect();
    let mut messages = Vec::new();
    let mut rest = &lines[..];
    while let Some((head, after)) = rest.split_first() {
        let length = after
            .iter()
            .position(|line| line.depth == 0)
            .unwrap_or(after.len());
        messages.push(message(head, &after[..length])?);
        rest = &after[length..];
    }
    Ok(messages)
}

struct Line<'a> {
    number: usize,
    depth: usize,
    words: Vec<&'a str>,
}

impl<'a> Line<'a> {
    fn new(number: usize, line: &'a str) -> Line<'a> {
        let text = line.trim_start();
        Line {
            number,
            depth: (line.len() - text.len()) / 2,
            words: text.split_whitespace().collect(),
        }
    }

    fn fail<T>(&self, problem: impl Into<String>) -> Result<T> {
        Err(NotationError {
            line: self.number,
            problem: problem.into(),
        })
    }

    fn number_of<T: std::str::FromStr>(&self, word: Option<&&str>) -> Result<T> {
        match word.and_then(|word| word.parse().ok()) {
            Some(number) => Ok(number),
            None => self.fail("a number is missing"),
        }
    }
}

fn message(head: &Line<'_>, body: &[Line<'_>]) -> Result<Message> {
    let (kind, suffix) = match head.words[0] {
        "request" => (MessageKind::Request, "Request"),
        "response" => (MessageKind::Response, "Response"),
        "header" => (MessageKind::Header, ""),
        "data" => (MessageKind::Data, ""),
        other => return head.fail(format!("unknown kind of message: {other}")),
    };
    let Some(name) = head.words.get(1) else {
        return head.fail("a name is missing");
    };
    let (mut api_key, mut versions, mut first_flexible) = (None, None, None);
    let mut words = head.words[2..].iter();
    while let Some(word) = words.next() {
        match *word {
            "key" => api_key = Some(head.number_of(words.next())?),
            "versions" => versions = words.next().and_then(|word| range(word, i16::MAX)),
            "flexible" => {
                first_flexible = words
                    .next()
                    .and_then(|word| range(word, i16::MAX))
                    .map(|range| range.first)
            }
            other => return head.fail(format!("unexpected: {other}")),
        }
    }
    let Some(versions) = versions.filter(|versions| !versions.is_empty()) else {
        return head.fail("versions are missing");
    };
    let root = format!("{name}{suffix}");
    let mut parser = Parser {
        last_version: versions.last,
        classes: vec![(root.clone(), Vec::new())],
        root,
    };
    let end = body
        .iter()
        .position(|line| line.depth == 1 && line.words[0] == "struct")
        .unwrap_or(body.len());
    parser.fields(0, 1, &body[..end])?;
    let mut rest = &body[end..];
    while let Some((name, after)) = rest.split_first() {
        let length = after
            .iter()
            .position(|line| line.depth == 1)
            .unwrap_or(after.len());
        let Some(struct_name) = name.words.get(1) else {
            return name.fail("a name is missing");
        };
        let class = parser.class(struct_name);
        parser.fields(class, 2, &after[..length])?;
        rest = &after[length..];
    }
    if let Some((name, _)) = parser.classes[1..]
        .iter()
        .find(|(_, fields)| fields.is_empty())
    {
        return head.fail(format!("{name} has no fields"));
    }
    let classes = parser
        .classes
        .into_iter()
        .map(|(name, fields)| Class { name, fields })
        .collect();
    let layouts = (versions.first..=versions.last)
        .map(|_| OnceLock::new())
        .collect();
    Ok(Message {
        kind,
        api_key,
        versions,
        first_flexible,
        classes,
        layouts,
    })
}

struct Parser {
    last_version: i16,
    root: String,
    classes: Vec<(String, Vec<Field>)>,
}

impl Parser {
    /// Return the index of the struct's class, which is created if it is new.
    fn class(&mut self, struct_name: &str) -> ClassIndex {
        let name = format!("{}_{struct_name}", self.root);
        match self.classes.iter().position(|(known, _)| *known == name) {
            Some(place) => place,
            None => {
                self.classes.push((name, Vec::new()));
                self.classes.len() - 1
            }
        }
    }

    /// Parse the fields of `class` from `lines`, which begin at `depth`.
    fn fields(&mut self, class: ClassIndex, depth: usize, lines: &[Line<'_>]) -> Result<()> {
        let mut rest = lines;
        while let Some((line, after)) = rest.split_first() {
            if line.depth != depth {
                return line.fail(format!("expected {} spaces of indentation", depth * 2));
            }
            let length = after
                .iter()
                .position(|line| line.depth <= depth)
                .unwrap_or(after.len());
            let field = self.field(line)?;
            if length > 0 {
                let Some(inner) = inner_class(&field.kind) else {
                    return line.fail("only a struct has fields");
                };
                if !self.classes[inner].1.is_empty() {
                    return line.fail("the struct's fields are given twice");
                }
                self.fields(inner, depth + 1, &after[..length])?;
            }
            self.classes[class].1.push(field);
            rest = &after[length..];
        }
        Ok(())
    }

    fn field(&mut self, line: &Line<'_>) -> Result<Field> {
        let [name, kind, options @ ..] = &line.words[..] else {
            return line.fail("name and type are missing");
        };
        let kind = self.kind(kind);
        let all = VersionRange {
            first: 0,
            last: self.last_version,
        };
        let mut field = Field {
            name: (*name).to_owned(),
            versions: all,
            nullable: VersionRange::NONE,
            tag: None,
            plain: false,
            default: implied_default(&kind),
            kind,
        };
        let mut words = options.iter().peekable();
        if let Some(versions) = words.peek().and_then(|word| range(word, self.last_version)) {
            field.versions = versions;
            words.next();
        }
        while let Some(word) = words.next() {
            match *word {
                "null" => {
                    field.nullable =
                        match words.peek().and_then(|word| range(word, self.last_version)) {
                            Some(versions) => {
                                words.next();
                                versions
                            }
                            None => field.versions,
                        };
                }
                "tag" => {
                    let tag = line.number_of(words.next())?;
                    let versions = words.peek().and_then(|word| range(word, self.last_version));
                    if versions.is_some() {
                        words.next();
                    }
                    field.tag = Some((tag, versions.unwrap_or(field.versions)));
                }
                "plain" => field.plain = true,
                "=" => field.default = default(line, &field.kind, words.next())?,
                other => return line.fail(format!("unexpected: {other}")),
            }
        }
        Ok(field)
    }

    fn kind(&mut self, text: &str) -> FieldType {
        if let Some(element) = text.strip_prefix("[]") {
            return FieldType::Array(Box::new(self.kind(element)));
        }
        match text {
            "bool" => FieldType::Bool,
            "int8" => FieldType::Int8,
            "int16" => FieldType::Int16,
            "uint16" => FieldType::Uint16,
            "int32" => FieldType::Int32,
            "int64" => FieldType::Int64,
            "float64" => FieldType::Float64,
            "uuid" => FieldType::Uuid,
            "string" => FieldType::String,
            "bytes" => FieldType::Bytes,
            "records" => FieldType::Records,
            name => FieldType::Struct(self.class(name)),
        }
    }
}

fn inner_class(kind: &FieldType) -> Option<ClassIndex> {
    match kind {
        FieldType::Struct(class) => Some(*class),
        FieldType::Array(element) => inner_class(element),
        _ => None,
    }
}

fn range(word: &str, last_version: i16) -> Option<VersionRange> {
    if let Some(first) = word.strip_suffix('+') {
        return Some(VersionRange {
            first: first.parse().ok()?,
            last: last_version,
        });
    }
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some(VersionRange {
        first: first.parse().ok()?,
        last: last.parse().ok()?,
    })
}

fn implied_default(kind: &FieldType) -> DefaultValue {
    match kind {
        FieldType::Bool => DefaultValue::Bool(false),
        FieldType::Float64 => DefaultValue::Float(0.0),
        FieldType::Uuid => DefaultValue::ZeroUuid,
        FieldType::String => DefaultValue::String(String::new()),
        FieldType::Bytes => DefaultValue::NoBytes,
        FieldType::Records => DefaultValue::Null,
        FieldType::Struct(class) => DefaultValue::Struct(*class),
        FieldType::Array(_) => DefaultValue::EmptyArray,
        _ => DefaultValue::Int(0),
    }
}

fn default(line: &Line<'_>, kind: &FieldType, word: Option<&&str>) -> Result<DefaultValue> {
    match (kind, word) {
        (_, Some(&"null")) => Ok(DefaultValue::Null),
        (FieldType::Bool, Some(word)) => line.number_of(Some(word)).map(DefaultValue::Bool),
        (FieldType::Float64, Some(word)) => line.number_of(Some(word)).map(DefaultValue::Float),
        (FieldType::String, Some(word)) => Ok(DefaultValue::String((*word).to_owned())),
        (
            FieldType::Int8
            | FieldType::Int16
            | FieldType::Uint16
            | FieldType::Int32
            | FieldType::Int64,
            Some(word),
        ) => line.number_of(Some(word)).map(DefaultValue::Int),
        _ => line.fail("no default of this form for this type"),
    }
}
