use super::*;

fn acl(text: &str) -> Acl {
    // Format of an entry: "allow|deny principal host operation literal|prefixed name".
    let parts: Vec<&str> = text.split(' ').collect();
    let [effect, principal, host, operation, pattern, name] = parts[..] else {
        unreachable!("six parts: {text}")
    };
    Acl {
        resource_type: ResourceType::TOPIC,
        prefixed: pattern == "prefixed",
        name: name.into(),
        principal: principal.into(),
        host: host.into(),
        operation: Operation(operation.parse().expect("a number")),
        allow: effect == "allow",
    }
}

fn holder(acls: &[&str]) -> Authorizer {
    let authorizer = Authorizer::default();
    authorizer.apply(AclDelta {
        added: acls.iter().map(|text| acl(text)).collect(),
        super_users: Some(vec!["User:root".into()]),
        ..AclDelta::default()
    });
    authorizer
}

fn may(authorizer: &Authorizer, principal: &str, operation: Operation, name: &str) -> bool {
    let who = Subject {
        principal,
        address: [127, 0, 0, 1].into(),
    };
    let rules = authorizer.load();
    let rules = rules.as_ref().expect("switched on");
    rules.permits(who, operation, ResourceType::TOPIC, name)
}

#[test]
fn nothing_is_permitted_without_an_entry_except_to_super_users() {
    let rules = holder(&[]);
    assert!(!may(&rules, "User:a", Operation::READ, "t"));
    assert!(may(&rules, "User:root", Operation::READ, "t"));
    rules.apply(AclDelta {
        allow_everyone_without_acls: Some(true),
        added: vec![acl("allow User:b * 3 literal other")],
        ..AclDelta::default()
    });
    assert!(may(&rules, "User:a", Operation::READ, "t"));
    assert!(
        !may(&rules, "User:a", Operation::READ, "other"),
        "it has an entry"
    );
}

#[test]
fn patterns_and_hosts() {
    let rules = holder(&[
        "allow User:a 127.0.0.1 3 literal one",
        "allow User:a 10.0.0.1 3 literal far",
        "allow User:a ::ffff:127.0.0.1 3 literal mapped",
        "allow User:a * 3 prefixed ab",
        "allow User:w * 3 literal *",
        "allow User:* * 3 literal public",
    ]);
    for (principal, name, expected) in [
        ("User:a", "one", true),
        ("User:a", "one2", false),
        ("User:a", "far", false),
        ("User:a", "mapped", true),
        ("User:a", "ab", true),
        ("User:a", "abc", true),
        ("User:a", "a", false),
        ("User:w", "anything", true),
        ("User:x", "public", true),
        ("User:x", "one", false),
    ] {
        assert_eq!(
            may(&rules, principal, Operation::READ, name),
            expected,
            "{principal} {name}"
        );
        assert!(!may(&rules, principal, Operation::WRITE, name));
    }
}

#[test]
fn networks() {
    for (host, address, expected) in [
        ("10.0.0.0/8", "10.255.0.1", true),
        ("10.0.0.0/8", "11.0.0.1", false),
        ("10.1.2.3/8", "10.9.9.9", true),
        ("0.0.0.0/0", "203.0.113.9", true),
        ("0.0.0.0/0", "::1", false),
        ("192.0.2.7/32", "192.0.2.7", true),
        ("192.0.2.7/32", "192.0.2.6", false),
        ("2001:db8::/33", "2001:db8:7fff::1", true),
        ("2001:db8::/33", "2001:db8:8000::1", false),
        ("::/0", "2001:db8::1", true),
        ("::1/128", "::1", true),
        ("::1/128", "::2", false),
        ("010.0.0.0/8", "10.1.2.3", true),
        ("010.0.0.0/8", "8.1.2.3", false),
        ("[::1]/128", "::1", true),
    ] {
        let client: IpAddr = address.parse().expect("an address");
        assert!(Host::is_valid(host));
        assert_eq!(
            Host::parse(host).includes(client),
            expected,
            "{host} {address}"
        );
    }
    for nonsense in [
        "127.0.0.0/99",
        "10.0.0.x/8",
        "10.0.0.0/",
        "10.0.0.0/+8",
        "10.0.0.0/8/8",
        "/8",
        "host/8",
        "2001:db8::/129",
        "::ffff:10.0.0.0/104",
        "10.0.0.0/-1",
        "10.0.0.0/0008",
        "0010.0.0.0/8",
        "10.0.0/8",
        "10.0.0.0.0/8",
        "010.0.0.+1/8",
        "300.0.0.0/8",
        "[10.0.0.0]/8",
        "[::1/128",
    ] {
        assert!(!Host::is_valid(nonsense), "{nonsense}");
        assert_eq!(Host::parse(nonsense), Host::Nowhere, "{nonsense}");
    }
    assert!(Host::is_valid("broker.example") && Host::is_valid("*"));
}

#[test]
fn denying_wins_and_implies_nothing() {
    let rules = holder(&[
        "allow User:a * 2 literal *",
        "deny User:a * 3 prefixed secret",
        "deny User:a * 2 literal closed",
    ]);
    assert!(may(&rules, "User:a", Operation::READ, "open"));
    assert!(!may(&rules, "User:a", Operation::READ, "secret-1"));
    assert!(
        may(&rules, "User:a", Operation::DESCRIBE, "secret-1"),
        "only reading is denied"
    );
    assert!(!may(&rules, "User:a", Operation::DESCRIBE, "closed"));
}

#[test]
fn implied_operations() {
    for operation in 3..=12 {
        let rules = holder(&[&format!("allow User:a * {operation} literal t")]);
        let describes = matches!(operation, 3 | 4 | 6 | 7 | 8);
        assert_eq!(
            may(&rules, "User:a", Operation::DESCRIBE, "t"),
            describes,
            "{operation}"
        );
        let configs = matches!(operation, 10 | 11);
        assert_eq!(
            may(&rules, "User:a", Operation::DESCRIBE_CONFIGS, "t"),
            configs,
            "{operation}"
        );
    }
}

#[test]
fn removal_takes_exactly_what_was_added_and_versions_grow() {
    let rules = holder(&[
        "allow User:a * 3 literal t",
        "allow User:a 127.0.0.1 3 literal t",
    ]);
    let removed = |text: &str| AclDelta {
        removed: vec![acl(text)],
        ..AclDelta::default()
    };
    assert_eq!(rules.apply(removed("allow User:a * 3 literal t")), 2);
    assert!(may(&rules, "User:a", Operation::READ, "t"));
    assert_eq!(
        rules.apply(removed("allow User:a 127.0.0.1 3 literal t")),
        3
    );
    assert!(!may(&rules, "User:a", Operation::READ, "t"));
}

#[test]
fn one_change_of_a_pattern_removes_first_then_adds_each_entry_once() {
    let rules = holder(&[
        "allow User:a * 3 literal t",
        "deny User:a * 4 literal t",
        "allow User:c * 3 prefixed t",
        "allow User:c * 3 prefixed long",
    ]);
    rules.apply(AclDelta {
        removed: vec![
            acl("allow User:a * 3 literal t"),
            acl("deny User:a * 4 literal t"),
            acl("allow User:c * 3 prefixed long"),
        ],
        added: vec![
            acl("allow User:a * 3 literal t"),
            acl("allow User:b * 3 literal t"),
            acl("allow User:b * 3 literal t"),
            acl("allow User:d * 3 prefixed longer"),
        ],
        ..AclDelta::default()
    });
    for (principal, name, expected) in [
        ("User:a", "t", true),
        ("User:b", "t", true),
        ("User:c", "t2", true),
        ("User:c", "long", false),
        ("User:d", "longer", true),
        ("User:d", "long", false),
    ] {
        assert_eq!(
            may(&rules, principal, Operation::READ, name),
            expected,
            "{principal} {name}"
        );
    }
    let loaded = rules.load();
    let topics = &loaded.as_ref().expect("switched on").types[usize::from(ResourceType::TOPIC.0)];
    assert_eq!(topics.literal["t"].len(), 2, "each entry once");
    assert_eq!(
        topics.prefix_lengths,
        [1, 6],
        "those of removed prefixes go"
    );
    drop(loaded);
    rules.apply(AclDelta {
        removed: vec![acl("allow User:b * 3 literal t")],
        ..AclDelta::default()
    });
    assert!(!may(&rules, "User:b", Operation::READ, "t"));
    assert!(may(&rules, "User:a", Operation::READ, "t"));
}

#[test]
fn any_resource_of_a_type() {
    let any = |acls: &[&str]| {
        let authorizer = holder(acls);
        let rules = authorizer.load();
        let who = Subject {
            principal: "User:a",
            address: [127, 0, 0, 1].into(),
        };
        rules
            .as_ref()
            .expect("switched on")
            .permits_any(who, Operation::WRITE, ResourceType::TOPIC)
    };
    assert!(!any(&[]));
    assert!(any(&["allow User:a * 4 literal t"]));
    assert!(any(&["allow User:a * 4 prefixed t"]));
    assert!(any(&[
        "allow User:a * 2 literal *",
        "deny User:a * 4 literal t"
    ]));
    assert!(!any(&[
        "allow User:a * 4 literal t",
        "deny User:a * 4 literal *"
    ]));
    assert!(!any(&[
        "allow User:a * 4 literal t",
        "deny User:a * 4 literal t"
    ]));
    assert!(!any(&[
        "allow User:a * 4 literal tt",
        "deny User:a * 4 prefixed t"
    ]));
    assert!(any(&[
        "allow User:a * 4 prefixed t",
        "deny User:a * 4 prefixed tt"
    ]));
    assert!(!any(&["allow User:a * 3 literal t"]));
    assert!(!any(&["allow User:b * 4 literal t"]));
}

#[test]
fn the_bit_field_of_operations() {
    let rules = holder(&["allow User:a * 3 literal t"]);
    let who = Subject {
        principal: "User:a",
        address: [127, 0, 0, 1].into(),
    };
    let loaded = rules.load();
    let loaded = loaded.as_ref().expect("switched on");
    assert_eq!(
        loaded.operations(who, ResourceType::TOPIC, "t"),
        1 << 3 | 1 << 8
    );
    assert_eq!(loaded.operations(who, ResourceType::TOPIC, "u"), 0);
    assert_eq!(
        loaded.operations(who, ResourceType::CLUSTER, CLUSTER_NAME),
        0
    );
}
