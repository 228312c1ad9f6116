use std::collections::BTreeSet;
use std::path::Path;

use super::super::files::{CLIENT, INTER_BROKER};
use super::super::schema_file::SchemaFile;
use super::*;
use crate::api_key::{APIS, Api, ApiKey};
use crate::served::{INTER_BROKER_APIS, InterBrokerApi};

fn files() -> impl Iterator<Item = &'static SchemaFile> {
    CLIENT.iter().chain(&INTER_BROKER)
}

pub(super) fn messages() -> impl Iterator<Item = &'static Message> {
    files().flat_map(|file| file.messages())
}

pub(super) fn versions(message: &Message) -> impl Iterator<Item = (i16, &Layout)> {
    (message.versions.first..=message.versions.last)
        .map(|version| (version, message.layout(version).unwrap()))
}

fn visit_kinds(layout: &Layout, visit: &mut dyn FnMut(&Kind)) {
    fn inside(kind: &Kind, visit: &mut dyn FnMut(&Kind)) {
        visit(kind);
        match kind {
            Kind::Array { element, .. } => inside(element, visit),
            Kind::Struct { layout, .. } => visit_kinds(layout, visit),
            _ => {}
        }
    }
    for slot in &layout.slots {
        inside(&slot.kind, visit);
    }
}

#[test]
fn the_crate_contains_every_schema_file_and_its_messages_by_their_names() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema");
    let on_disk: BTreeSet<String> = ["client", "interbroker", "own", "stored"]
        .iter()
        .flat_map(|name| std::fs::read_dir(folder.join(name)).unwrap())
        .map(|entry| {
            entry
                .unwrap()
                .path()
                .strip_prefix(&folder)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    let in_crate: BTreeSet<String> = files().map(|file| file.path.to_owned()).collect();
    assert_eq!(on_disk, in_crate, "run schema/write_index.py");
    for file in files() {
        let names: Vec<&str> = file
            .messages()
            .iter()
            .map(|message| message.name())
            .collect();
        assert_eq!(names, file.names, "{}", file.path);
        assert!(
            file.messages()
                .iter()
                .all(|message| message.api_key == file.api_key),
            "{}",
            file.path
        );
    }
    for table in [&CLIENT[..], &INTER_BROKER[..]] {
        assert!(
            table.is_sorted_by_key(|file| file.api_key),
            "lookup is a binary search"
        );
    }
}

#[test]
fn every_served_version_has_a_request_and_a_response() {
    let only_brokers = |api: &&Api| api.key >= ApiKey::UpdateCluster && !api.served;
    for api in APIS.iter().filter(|api| !only_brokers(api)) {
        for direction in [Direction::Request, Direction::Response] {
            let message = Registry::Client
                .message(api.key.code(), direction)
                .unwrap_or_else(|| panic!("{}", api.name()));
            for version in api.min_version..=api.max_version {
                assert!(
                    message.layout(version).is_some(),
                    "{} v{version}",
                    message.name()
                );
                assert_eq!(
                    message.is_flexible(version),
                    api.is_flexible(version),
                    "{} v{version}",
                    message.name()
                );
            }
        }
    }
    for InterBrokerApi {
        key,
        by_name,
        lowest,
        version,
    } in INTER_BROKER_APIS
    {
        for direction in [Direction::Request, Direction::Response] {
            let message = Registry::InterBroker
                .message(key.code(), direction)
                .unwrap_or_else(|| panic!("{}", key.name()));
            // For pybroker's own layouts, the schema has exactly the supported versions. For Kafka's layouts, the
            // schema also has older versions, and its newest one is supported.
            let first = if Registry::InterBroker
                .names()
                .any(|name| name == message.name())
            {
                by_name.unwrap_or(*lowest)
            } else {
                message.versions.first
            };
            assert_eq!(
                (message.versions.first, message.versions.last),
                (first, *version),
                "{}",
                message.name()
            );
        }
    }
}

#[test]
fn the_inter_broker_registry_falls_back_to_the_released_messages() {
    let own = Registry::InterBroker.named("FetchRequest").unwrap();
    assert_eq!(
        own.versions,
        VersionRange {
            first: 12,
            last: 13
        }
    );
    let shared = Registry::InterBroker
        .message(19, Direction::Request)
        .unwrap();
    assert!(std::ptr::eq(shared, client("CreateTopicsRequest")));
    assert!(Registry::Client.message(1234, Direction::Request).is_none());
    assert!(Registry::Client.named("NoSuchRequest").is_none());
}

#[test]
fn no_element_is_empty_so_that_every_count_is_bounded_by_the_bytes() {
    for message in messages() {
        for (version, layout) in versions(message) {
            visit_kinds(layout, &mut |kind| {
                if let Kind::Array {
                    element_min_bytes, ..
                } = kind
                {
                    assert!(*element_min_bytes > 0, "{} v{version}", message.name());
                }
            });
        }
    }
}

#[test]
fn the_tag_count_of_every_struct_fits_one_byte() {
    for message in messages() {
        for (_, layout) in versions(message) {
            assert!(layout.tagged.len() < 128);
            visit_kinds(layout, &mut |kind| {
                if let Kind::Struct { layout, .. } = kind {
                    assert!(layout.tagged.len() < 128, "{}", message.name());
                }
            });
        }
    }
}

#[test]
fn no_field_stands_twice_in_a_struct_and_no_class_twice_in_a_registry() {
    for table in [&CLIENT[..], &INTER_BROKER[..]] {
        let mut classes = BTreeSet::new();
        for class in table
            .iter()
            .flat_map(|file| file.messages())
            .flat_map(|message| &message.classes)
        {
            assert!(classes.insert(&class.name), "{}", class.name);
            let fields: BTreeSet<&str> = class
                .fields
                .iter()
                .map(|field| field.name.as_str())
                .collect();
            assert_eq!(fields.len(), class.fields.len(), "{}", class.name);
        }
    }
}
