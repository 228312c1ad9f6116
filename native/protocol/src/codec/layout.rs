//! Wire layout of one version of a message. The decoder and the encoder follow it.

use super::schema::{Class, ClassIndex, FieldType};

/// A struct in one version.
#[derive(Debug)]
pub struct Layout {
    /// The struct's class in the message.
    pub class: ClassIndex,
    /// Whether a section of tagged fields ends the struct.
    pub flexible: bool,
    /// One slot for each field of the class, in order.
    pub slots: Vec<Slot>,
    /// The tagged fields as (tag, index in `slots`), ascending by tag.
    pub tagged: Vec<(u32, usize)>,
    /// The minimum number of bytes of such a struct.
    pub min_bytes: usize,
}

/// A field in one version.
#[derive(Debug)]
pub struct Slot {
    /// Whether and where the version has the field.
    pub presence: Presence,
    /// The form of the field's value. Unused if the field is absent.
    pub kind: Kind,
}

/// Whether and where a version has a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The version does not have the field. It is decoded as its default and not encoded.
    Absent,
    /// The field is between the other fields.
    Inline,
    /// The field is in the section of tagged fields, and only if it differs from its default.
    Tagged,
}

/// The form of a value. With `compact`, an unsigned varint has the length plus one, or 0 for null.
#[derive(Debug)]
#[allow(missing_docs)] // Kafka's names of the types
pub enum Kind {
    Bool,
    Int8,
    Int16,
    Uint16,
    Int32,
    Int64,
    Float64,
    Uuid,
    String {
        nullable: bool,
        compact: bool,
    },
    Bytes {
        nullable: bool,
        compact: bool,
    },
    Array {
        nullable: bool,
        compact: bool,
        element: Box<Kind>,
        element_min_bytes: usize,
    },
    Struct {
        nullable: bool,
        /// Whether null is the unsigned varint 0 instead of the byte −1.
        tagged: bool,
        layout: Box<Layout>,
    },
}

impl Kind {
    /// Return the minimum bytes of such a value.
    pub fn min_bytes(&self) -> usize {
        match self {
            Kind::Bool | Kind::Int8 => 1,
            Kind::Int16 | Kind::Uint16 => 2,
            Kind::Int32 => 4,
            Kind::Int64 | Kind::Float64 => 8,
            Kind::Uuid => 16,
            Kind::String { compact: true, .. }
            | Kind::Bytes { compact: true, .. }
            | Kind::Array { compact: true, .. } => 1,
            Kind::String { compact: false, .. } => 2,
            Kind::Bytes { compact: false, .. } | Kind::Array { compact: false, .. } => 4,
            Kind::Struct { nullable: true, .. } => 1,
            Kind::Struct {
                nullable: false,
                layout,
                ..
            } => layout.min_bytes,
        }
    }
}

impl Layout {
    /// Return the layout of `class` in `version`, which is `flexible` if it has compact lengths and tagged fields.
    pub(super) fn of(classes: &[Class], class: ClassIndex, version: i16, flexible: bool) -> Layout {
        let mut tagged = Vec::new();
        let mut min_bytes = usize::from(flexible);
        let slots: Vec<Slot> = classes[class]
            .fields
            .iter()
            .enumerate()
            .map(|(place, field)| {
                if !field.versions.contains(version) {
                    return Slot {
                        presence: Presence::Absent,
                        kind: Kind::Bool,
                    };
                }
                let nullable = field.nullable.contains(version);
                let form = Form {
                    classes,
                    version,
                    flexible,
                    compact: flexible && !field.plain,
                };
                let mut kind = form.kind_of(&field.kind, nullable);
                let presence = match field.tag {
                    Some((tag, versions)) if versions.contains(version) => {
                        tagged.push((tag, place));
                        if let Kind::Struct { tagged, .. } = &mut kind {
                            *tagged = true;
                        }
                        Presence::Tagged
                    }
                    _ => {
                        min_bytes += kind.min_bytes();
                        Presence::Inline
                    }
                };
                Slot { presence, kind }
            })
            .collect();
        tagged.sort_unstable();
        Layout {
            class,
            flexible,
            slots,
            tagged,
            min_bytes,
        }
    }
}

/// The encoding of a field's values.
struct Form<'a> {
    classes: &'a [Class],
    version: i16,
    flexible: bool,
    /// Whether lengths are unsigned varints.
    compact: bool,
}

impl Form<'_> {
    fn kind_of(&self, kind: &FieldType, nullable: bool) -> Kind {
        let compact = self.compact;
        match kind {
            FieldType::Bool => Kind::Bool,
            FieldType::Int8 => Kind::Int8,
            FieldType::Int16 => Kind::Int16,
            FieldType::Uint16 => Kind::Uint16,
            FieldType::Int32 => Kind::Int32,
            FieldType::Int64 => Kind::Int64,
            FieldType::Float64 => Kind::Float64,
            FieldType::Uuid => Kind::Uuid,
            FieldType::String => Kind::String { nullable, compact },
            FieldType::Bytes | FieldType::Records => Kind::Bytes { nullable, compact },
            FieldType::Struct(class) => Kind::Struct {
                nullable,
                tagged: false,
                layout: Box::new(Layout::of(
                    self.classes,
                    *class,
                    self.version,
                    self.flexible,
                )),
            },
            FieldType::Array(element) => {
                let element = self.kind_of(element, false);
                let element_min_bytes = element.min_bytes();
                Kind::Array {
                    nullable,
                    compact,
                    element: Box::new(element),
                    element_min_bytes,
                }
            }
        }
    }
}
