//! The Python classes of messages. They are built once from the schema, and kept until the process ends.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use pybroker_model::Uuid as Id;
use pybroker_protocol::codec::{ClassIndex, DefaultValue, Message, Registry};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};

use super::CodecError;
use crate::uuid::Uuid;

/// The classes of one message.
pub(super) struct Classes {
    pub(super) message: &'static Message,
    /// The struct classes, in the order of `message.classes`.
    classes: Vec<StructClass>,
}

/// A msgspec struct.
pub(super) struct StructClass {
    pub(super) class: Py<PyType>,
    /// Interned names of the fields.
    pub(super) names: Vec<Py<PyString>>,
    defaults: Vec<FieldDefault>,
}

enum FieldDefault {
    /// An immutable default, so that all messages share one object.
    Shared(Py<PyAny>),
    EmptyList,
    Struct(ClassIndex),
}

/// The classes built so far, by the address of the static message. No Python code runs under the lock, so no thread
/// waits for the GIL while it holds the lock.
#[derive(Default)]
struct ClassRegistry {
    /// Python's own classes for the structs of a message, by name.
    given: HashMap<usize, HashMap<String, Py<PyType>>>,
    by_message: HashMap<usize, &'static Classes>,
    by_class: HashMap<usize, &'static Classes>,
}

fn registry() -> MutexGuard<'static, ClassRegistry> {
    static REGISTRY: OnceLock<Mutex<ClassRegistry>> = OnceLock::new();
    let lock = REGISTRY.get_or_init(Mutex::default).lock();
    // A poisoned lock is no problem: only a failed allocation could panic under it, and that ends the process.
    lock.unwrap_or_else(PoisonError::into_inner)
}

fn address<T>(lives_for_ever: &T) -> usize {
    std::ptr::from_ref(lives_for_ever) as usize
}

impl Classes {
    /// Return the classes of `message`, built on first use.
    pub(super) fn of(py: Python<'_>, message: &'static Message) -> PyResult<&'static Classes> {
        if let Some(classes) = registry().by_message.get(&address(message)) {
            return Ok(classes);
        }
        let classes = Classes::build(py, message)?;
        let mut registry = registry();
        // Another thread may have built the classes meanwhile. If so, use its classes.
        if let Some(classes) = registry.by_message.get(&address(message)) {
            return Ok(classes);
        }
        let classes: &'static Classes = Box::leak(Box::new(classes));
        registry.by_message.insert(address(message), classes);
        registry
            .by_class
            .insert(classes.classes[0].class.as_ptr() as usize, classes);
        Ok(classes)
    }

    /// Use these classes, by name, for the structs of `message`. Objects of earlier classes can still be encoded.
    ///
    /// # Errors
    ///
    /// If a class has another name or other fields than its struct.
    pub(super) fn give(
        py: Python<'_>,
        message: &'static Message,
        classes: HashMap<String, Py<PyType>>,
    ) -> PyResult<()> {
        for schema in &message.classes {
            let Some(class) = classes.get(&schema.name) else {
                continue;
            };
            let fields: Vec<String> = class.bind(py).getattr("__struct_fields__")?.extract()?;
            let wanted: Vec<&str> = schema.fields.iter().map(|field| &*field.name).collect();
            if fields != wanted {
                let name = &schema.name;
                return Err(CodecError::new_err(format!(
                    "{name} has the fields {wanted:?}, its class {fields:?}"
                )));
            }
        }
        {
            let mut registry = registry();
            registry.by_message.remove(&address(message));
            registry.given.insert(address(message), classes);
        }
        // Build the classes now, so that their objects are recognized.
        Classes::of(py, message).map(drop)
    }

    /// Return the classes of the message that `object` belongs to.
    pub(super) fn of_object(object: &Bound<'_, PyAny>) -> PyResult<&'static Classes> {
        let class = object.get_type();
        let found = registry().by_class.get(&(class.as_ptr() as usize)).copied();
        found
            .ok_or_else(|| CodecError::new_err(format!("{class} is not a message of the protocol")))
    }

    /// Return the class of a struct of the message.
    pub(super) fn get(&self, class: ClassIndex) -> &StructClass {
        &self.classes[class]
    }

    /// Return the class of the struct with this name.
    pub(super) fn named(&self, name: &str) -> Option<&StructClass> {
        let place = self
            .message
            .classes
            .iter()
            .position(|class| class.name == name)?;
        self.classes.get(place)
    }

    /// Return the default of a field. If it is mutable, return a new object.
    pub(super) fn default<'py>(
        &self,
        py: Python<'py>,
        class: ClassIndex,
        field: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        match &self.classes[class].defaults[field] {
            FieldDefault::Shared(value) => Ok(value.bind(py).clone()),
            FieldDefault::EmptyList => Ok(PyList::empty(py).into_any()),
            FieldDefault::Struct(inner) => self.classes[*inner].class.bind(py).call0(),
        }
    }

    /// Return whether `value` is the field's default.
    pub(super) fn is_default(
        &self,
        value: &Bound<'_, PyAny>,
        class: ClassIndex,
        field: usize,
    ) -> PyResult<bool> {
        match &self.classes[class].defaults[field] {
            FieldDefault::Shared(default) => value.eq(default),
            FieldDefault::EmptyList => Ok(!value.is_none() && value.len()? == 0),
            FieldDefault::Struct(_) => value.eq(self.default(value.py(), class, field)?),
        }
    }

    fn build(py: Python<'_>, message: &'static Message) -> PyResult<Classes> {
        let given = registry()
            .given
            .get(&address(message))
            .map_or_else(HashMap::new, |given| {
                let pairs = given.iter();
                pairs
                    .map(|(name, class)| (name.clone(), class.clone_ref(py)))
                    .collect()
            });
        let mut builder = Builder::new(py, message, given)?;
        for class in 0..message.classes.len() {
            builder.build(class)?;
        }
        let classes = builder.built.into_iter().flatten().collect();
        Ok(Classes { message, classes })
    }
}

struct Builder<'py> {
    py: Python<'py>,
    message: &'static Message,
    given: HashMap<String, Py<PyType>>,
    built: Vec<Option<StructClass>>,
    defstruct: Bound<'py, PyAny>,
    field: Bound<'py, PyAny>,
    any: Bound<'py, PyAny>,
    options: Bound<'py, PyDict>,
}

impl<'py> Builder<'py> {
    fn new(
        py: Python<'py>,
        message: &'static Message,
        given: HashMap<String, Py<PyType>>,
    ) -> PyResult<Builder<'py>> {
        let msgspec = py.import("msgspec")?;
        let options = PyDict::new(py);
        options.set_item("module", module_of(message))?;
        // Messages are trees without cycles, so the garbage collector need not track them.
        options.set_item("gc", false)?;
        Ok(Builder {
            py,
            message,
            given,
            built: message.classes.iter().map(|_| None).collect(),
            defstruct: msgspec.getattr("defstruct")?,
            field: msgspec.getattr("field")?,
            any: py.import("typing")?.getattr("Any")?,
            options,
        })
    }

    /// Build `class` after the structs that its defaults contain. A struct never contains itself, because a schema is a
    /// tree.
    fn build(&mut self, class: ClassIndex) -> PyResult<()> {
        if self.built[class].is_some() {
            return Ok(());
        }
        let schema = &self.message.classes[class];
        let (mut names, mut defaults, mut fields) = (Vec::new(), Vec::new(), Vec::new());
        for field in &schema.fields {
            let name = PyString::intern(self.py, &field.name);
            let default = self.default(&field.default)?;
            let declared = match &default {
                FieldDefault::Shared(value) => value.bind(self.py).clone(),
                FieldDefault::EmptyList => self.factory(self.py.get_type::<PyList>().as_any())?,
                FieldDefault::Struct(inner) => {
                    self.build(*inner)?;
                    let inner = self.built[*inner]
                        .as_ref()
                        .map(|inner| inner.class.bind(self.py).clone());
                    self.factory(inner.into_pyobject(self.py)?.as_any())?
                }
            };
            fields.push(PyTuple::new(
                self.py,
                [name.clone().into_any(), self.any.clone(), declared],
            )?);
            names.push(name.unbind());
            defaults.push(default);
        }
        let class_object = match self.given.remove(&schema.name) {
            Some(given) => given,
            None => {
                let made = self
                    .defstruct
                    .call((schema.name.as_str(), fields), Some(&self.options))?;
                made.cast_into::<PyType>()?.unbind()
            }
        };
        self.built[class] = Some(StructClass {
            class: class_object,
            names,
            defaults,
        });
        Ok(())
    }

    fn factory(&self, callable: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let options = PyDict::new(self.py);
        options.set_item("default_factory", callable)?;
        self.field.call((), Some(&options))
    }

    fn default(&self, default: &DefaultValue) -> PyResult<FieldDefault> {
        let py = self.py;
        Ok(FieldDefault::Shared(match default {
            DefaultValue::Null => py.None(),
            DefaultValue::Int(value) => value.into_pyobject(py)?.into_any().unbind(),
            DefaultValue::Bool(value) => value.into_pyobject(py)?.to_owned().into_any().unbind(),
            DefaultValue::Float(value) => value.into_pyobject(py)?.into_any().unbind(),
            DefaultValue::String(value) => value.into_pyobject(py)?.into_any().unbind(),
            DefaultValue::ZeroUuid => Uuid(Id::ZERO).into_pyobject(py)?.into_any().unbind(),
            DefaultValue::NoBytes => pyo3::types::PyBytes::new(py, &[]).into_any().unbind(),
            DefaultValue::EmptyArray => return Ok(FieldDefault::EmptyList),
            DefaultValue::Struct(class) => return Ok(FieldDefault::Struct(*class)),
        }))
    }
}

/// Return the module that exports the message's classes.
fn module_of(message: &'static Message) -> &'static str {
    match Registry::Client.named(message.name()) {
        Some(released) if std::ptr::eq(released, message) => "pybroker.protocol.messages",
        _ => "pybroker.protocol.interbroker",
    }
}
