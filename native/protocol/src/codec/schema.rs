//! The fields of a message over all its versions, as its schema defines them.

/// Index of a class in [`Message::classes`].
pub type ClassIndex = usize;

/// A range of versions, both ends included. It is empty if `first > last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// Lowest version.
    pub first: i16,
    /// Highest version.
    pub last: i16,
}

impl VersionRange {
    /// The range without versions.
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
    /// Record batches: bytes that only the log decodes.
    Records,
    Struct(ClassIndex),
    Array(Box<FieldType>),
}

/// The value of a field that is missing in a version or in a message.
#[derive(Clone, Debug, PartialEq)]
pub enum DefaultValue {
    /// Null.
    Null,
    /// An integer of any width.
    Int(i64),
    /// A bool.
    Bool(bool),
    /// A float64.
    Float(f64),
    /// A string.
    String(String),
    /// The all-zero id.
    ZeroUuid,
    /// Empty bytes.
    NoBytes,
    /// An empty array.
    EmptyArray,
    /// A struct whose fields all have their defaults.
    Struct(ClassIndex),
}

/// One field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The field's Kafka name in snake case.
    pub name: String,
    /// The field's type.
    pub kind: FieldType,
    /// The versions that have the field.
    pub versions: VersionRange,
    /// The versions in which the field may be null.
    pub nullable: VersionRange,
    /// The field's tag and the versions in which it is a tagged field.
    pub tag: Option<(u32, VersionRange)>,
    /// Whether the field has no compact form in any version (the request header's client id).
    pub plain: bool,
    /// The field's value if the sender left it out.
    pub default: DefaultValue,
}

/// A struct: the message itself, or one inside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// The class name, such as `CreateTopicsRequest` or `CreateTopicsRequest_CreatableTopic`.
    pub name: String,
    /// The fields, in their order on the wire.
    pub fields: Vec<Field>,
}
