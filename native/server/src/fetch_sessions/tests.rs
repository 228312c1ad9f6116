use super::*;

fn target(name: &str, partition: i32) -> FetchTarget {
    FetchTarget {
        topic: TopicKey::Name(name.into()),
        partition,
        fetch_offset: 0,
        current_leader_epoch: -1,
        last_fetched_epoch: -1,
        max_bytes: 1,
        resolved: None,
    }
}

fn names(session: &FetchSession) -> Vec<String> {
    session
        .targets()
        .map(|(_, target)| format!("{}-{}", target.topic.name(), target.partition))
        .collect()
}

#[test]
fn partitions_that_gave_records_wait_for_the_others() {
    let now = Instant::now();
    let mut sessions = FetchSessions::new(10, 10);
    let (taken, evicted) = sessions.create(
        &[target("a", 0), target("a", 1), target("b", 0)],
        false,
        now,
    );
    let (id, mut session) = taken.expect("room");
    assert!(!evicted && id > 0);
    session.rotate(&[0]);
    assert_eq!(names(&session), ["a-1", "b-0", "a-0"]);
    session.forget([(TopicKey::Name("a".into()), 1)]);
    session.update(target("c", 5));
    assert_eq!(names(&session), ["b-0", "a-0", "c-5"]);
    let changed = FetchTarget {
        fetch_offset: 9,
        ..target("b", 0)
    };
    session.update(changed);
    assert_eq!(
        session
            .targets()
            .next()
            .map(|(_, target)| target.fetch_offset),
        Some(9)
    );
    assert_eq!(session.len(), 3);
}

#[test]
fn epochs_and_kinds_are_checked() {
    let now = Instant::now();
    let mut sessions = FetchSessions::new(10, 10);
    let (id, session) = sessions
        .create(&[target("a", 0)], false, now)
        .0
        .expect("room");
    sessions.put_back((id, session));
    let error =
        |result: Result<CheckedOutSession, ErrorCode>| result.map(|_| ()).expect_err("refused");
    assert_eq!(
        error(sessions.take(id + 1, 1, false, now)),
        ErrorCode::FETCH_SESSION_ID_NOT_FOUND
    );
    assert_eq!(
        error(sessions.take(id, 2, false, now)),
        ErrorCode::INVALID_FETCH_SESSION_EPOCH
    );
    assert_eq!(
        error(sessions.take(id, 1, true, now)),
        ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR
    );
    let taken = sessions.take(id, 1, false, now).expect("the right epoch");
    sessions.put_back(taken);
    assert_eq!(
        error(sessions.take(id, 1, false, now)),
        ErrorCode::INVALID_FETCH_SESSION_EPOCH
    );
    let mut taken = sessions.take(id, 2, false, now).expect("the next epoch");
    taken.1.forget([(TopicKey::Name("a".into()), 0)]);
    sessions.put_back(taken);
    assert_eq!(
        error(sessions.take(id, 3, false, now)),
        ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
        "empty ones end"
    );
    let (id, empty) = sessions.create(&[], false, now).0.expect("room");
    sessions.put_back((id, empty));
    sessions
        .take(id, 1, false, now)
        .expect("a new one may be empty");
}

#[test]
fn old_or_small_sessions_make_room() {
    let now = Instant::now();
    let mut sessions = FetchSessions::new(2, 10);
    for partitions in [1, 3] {
        let targets: Vec<_> = (0..partitions).map(|index| target("a", index)).collect();
        let taken = sessions.create(&targets, false, now).0.expect("room");
        sessions.put_back(taken);
    }
    let two = [target("b", 0), target("b", 1)];
    assert!(
        sessions.create(&two, false, now).0.is_none(),
        "all are fresh"
    );
    let later = now + EVICTION_IDLE + Duration::from_secs(1);
    let (taken, evicted) = sessions.create(&two, false, later);
    assert!(taken.is_some() && evicted);
}

#[test]
fn only_news_is_told() {
    let now = Instant::now();
    let mut sessions = FetchSessions::new(2, 10);
    let (_, mut session) = sessions
        .create(&[target("a", 0)], false, now)
        .0
        .expect("room");
    assert!(session.changed(0, 0, 5, 0));
    assert!(!session.changed(0, 0, 5, 0));
    assert!(session.changed(0, 0, 6, 0));
    assert!(session.changed(0, 0, 6, 1));
    assert!(session.changed(0, 6, -1, -1));
    assert!(
        session.changed(0, 0, 6, 1),
        "after an error everything is news"
    );
}

#[test]
fn all_sessions_together_follow_so_many_partitions() {
    let now = Instant::now();
    let targets = |count| {
        (0..count)
            .map(|index| target("a", index))
            .collect::<Vec<_>>()
    };
    let mut sessions = FetchSessions::new(10, 5);
    let (id, session) = sessions.create(&targets(3), false, now).0.expect("room");
    assert!(sessions.create(&targets(3), false, now).0.is_none());
    sessions.put_back((id, session));
    assert!(sessions.create(&targets(3), false, now).0.is_none());
    let (other, session) = sessions.create(&targets(2), false, now).0.expect("room");
    sessions.put_back((other, session));
    // A session grows to one partition more than there is room for.
    let mut taken = sessions.take(id, 1, false, now).expect("there");
    taken.1.update(target("b", 0));
    sessions.put_back(taken);
    assert!(sessions.take(id, 2, false, now).is_err(), "it ended");
    drop(
        sessions
            .create(&targets(3), false, now)
            .0
            .expect("its room is free"),
    );
    // A session that is dropped with its connection releases its share.
    assert!(sessions.create(&targets(3), false, now).0.is_some());
    sessions.remove(other);
    assert!(sessions.create(&targets(5), false, now).0.is_some());
}

#[test]
fn forgetting_takes_one_look_at_the_order_and_places_are_used_again() {
    // 100,000 searches through 100,000 entries would take minutes, during which the whole data thread waits.
    const MANY: i32 = 100_000;
    let now = Instant::now();
    let targets: Vec<_> = (0..MANY).map(|index| target("a", index)).collect();
    let mut sessions = FetchSessions::new(1, MANY as usize);
    let (_, mut session) = sessions.create(&targets, false, now).0.expect("room");
    session.forget((1..MANY).map(|index| (TopicKey::Name("a".into()), index)));
    assert_eq!(names(&session), ["a-0"]);
    session.update(target("b", 7));
    session.forget([(TopicKey::Name("none".into()), 7)]);
    assert_eq!(names(&session), ["a-0", "b-7"]);
    assert!(now.elapsed() < Duration::from_secs(60));
}
