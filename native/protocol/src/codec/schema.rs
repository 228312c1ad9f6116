//! The fields of a message over all its versions, as its schema defines them.

/// Index of a class in [`Message::classes`].
pub type ClassIndex = usize;

/// Consecutive versions, both ends included; empty if `first > last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// Lowest version.
    pub first: i16,
    /// Highest version.
    pub last: i16,
}

impl VersionRange {
    /// No version at all.
    pub const NONE: VersionRange = VersionRange { first: 1, last: 0 };

    /// Return whether `version` is in the range.
    pub const fn contains(self, version: i16) -> bool {
        self.first <= version && version <= self.last
    }

    /// Return whether the range has no version.
    pub const fn is_empty(self) -> bool {
        self.first > self.last
    }
}

/// Type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Kafka's names of the types
pub enum FieldType {
    Bool,
    Int8,
    Int16,
    Uint16,
    Int32,
    Int64,
    Float64,
    Uuid,
    String,
    Bytes,
    /// Record batches: bytes that only the log interprets.
    Records,
    Struct(ClassIndex),
    Array(Box<FieldType>),
}

/// The value of a field that is missing in a version or in a message.
#[derive(Clone, Debug, PartialEq)]
pub enum DefaultValue {
    /// Null.
    Null,
    /// Any integer type.
    Int(i64),
    /// A bool.
    Bool(bool),
    /// A float64.
    Float(f64),
    /// A string.
    String(String),
    /// The all-zero id.
    ZeroUuid,
    /// No bytes.
    NoBytes,
    /// No elements.
    EmptyArray,
    /// A struct whose fields all have their defaults.
    Struct(ClassIndex),
}

/// One field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Kafka's name in snake case.
    pub name: String,
    /// The field's type.
    pub kind: FieldType,
    /// The versions that have the field.
    pub versions: VersionRange,
    /// The versions in which it may be null.
    pub nullable: VersionRange,
    /// The field's tag and the versions in which it is a tagged field.
    pub tag: Option<(u32, VersionRange)>,
    /// Never in compact form, whatever the version (the request header's client id).
    pub plain: bool,
    /// The field's value if it is not sent.
    pub default: DefaultValue,
}

/// A struct: the message itself, or one inside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// `CreateTopicsRequest`, `CreateTopicsRequest_CreatableTopic`.
    pub name: String,
    /// In the order of the wire.
    pub fields: Vec<Field>,
}
