//! Crashes at any byte, full disks at any write, journals.

use super::*;

#[test]
fn a_file_cut_at_any_byte_keeps_every_whole_line() {
    let place = Place::new();
    let (mut session, _) = place.store().create(b"/root");
    // Twenty steps, short ones: each byte of the file is one load.
    for n in 0..10 {
        session.push_user(b"\"\n");
        let id = n.to_string();
        session.push_reply(&reply("", &[(&id, "{}")]));
        session.push_result(&id, b"]");
        session.step();
        session.push_reply(&reply("}", &[]));
        assert_eq!(session.commit(), None);
    }
    let bytes = std::fs::read(session.path().unwrap()).unwrap();
    let all = texts(&session.conversation);
    assert_eq!(lines(&bytes), all);
    let mut ends = Vec::new();
    for message in &all {
        let from = ends.last().copied().unwrap_or(0);
        let at = memchr::memmem::find(&bytes[from..], message.as_bytes()).unwrap();
        ends.push(from + at + message.len());
    }
    for cut in 0..=bytes.len() {
        let kept = load_bytes(place.dir.path(), &bytes[..cut]);
        let whole = &all[..ends.iter().filter(|end| **end <= cut).count()];
        assert!(kept.len() >= whole.len(), "cut at {cut}");
        assert_eq!(kept[..whole.len()], whole[..], "cut at {cut}");
        assert!(
            kept[whole.len()..]
                .iter()
                .all(|m| m.contains("not executed"))
        );
    }
    // And the loaded session goes on: whatever was torn, the file is valid again after the next commit.
    let path = session.path().unwrap().to_path_buf();
    let id = session.id.clone();
    drop(session);
    let from = bytes.len() - 500;
    for cut in (0..40).map(|i| i * 7).chain((from..bytes.len()).step_by(3)) {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let (mut session, _) = place.store().open(&id).unwrap();
        turn(&mut session, 77);
        assert_eq!(session.commit(), None, "cut at {cut}");
        let json = valid_json(&path);
        let stored = json["messages"].as_array().unwrap().len();
        assert_eq!(stored, session.conversation.len(), "cut at {cut}");
        assert_eq!(json["count"], stored);
        message::check(session.conversation.iter()).unwrap();
    }
}

#[test]
fn an_append_torn_at_any_byte_keeps_every_earlier_line() {
    let place = Place::new();
    let (mut session, _) = place.store().create(b"/root");
    session.set_origin("http://a/v1 m1");
    let path = session.path().unwrap().to_path_buf();
    for n in 0..4 {
        let old = std::fs::read(&path).unwrap();
        let before = texts(&session.conversation);
        turn(&mut session, n);
        if n == 2 {
            // A short one: the new trailer lies over the old one.
            session.push_user(b"x");
            session.commit();
            let old = std::fs::read(&path).unwrap();
            let before = texts(&session.conversation);
            session.push_user(b"y");
            session.commit();
            torn(
                place.dir.path(),
                &old,
                &std::fs::read(&path).unwrap(),
                &before,
            );
            continue;
        }
        assert_eq!(session.commit(), None);
        torn(
            place.dir.path(),
            &old,
            &std::fs::read(&path).unwrap(),
            &before,
        );
    }
}

/// Every mix of the first bytes of `new` with the rest of `old`.
fn torn(dir: &Path, old: &[u8], new: &[u8], before: &[String]) {
    let all = lines(new);
    let same = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    for cut in same..=new.len() {
        let mut mix = new[..cut].to_vec();
        mix.extend_from_slice(old.get(cut..).unwrap_or_default());
        let kept = load_bytes(dir, &mix);
        assert!(kept.len() >= before.len(), "torn at {cut}");
        for (i, message) in kept.iter().enumerate() {
            let known = all.get(i) == Some(message) || message.contains("not executed");
            assert!(known, "torn at {cut}: {message}");
        }
        assert_eq!(kept[..before.len()], before[..], "torn at {cut}");
    }
}

#[test]
fn a_damaged_page_costs_only_its_own_lines() {
    let place = Place::new();
    let (mut session, _) = place.store().create(b"/root");
    for n in 0..6 {
        turn(&mut session, n);
        session.commit();
    }
    let (id, path) = (session.id.clone(), session.path().unwrap().to_path_buf());
    let mut bytes = std::fs::read(&path).unwrap();
    let all = texts(&session.conversation);
    drop(session);
    // The result of the first call of turn 2.
    let at = memchr::memmem::find(&bytes, b"\"tool_call_id\":\"a2\"").unwrap();
    bytes[at..at + 20].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    let (mut session, warnings) = place.store().open(&id).unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    message::check(session.conversation.iter()).unwrap();
    let kept = texts(&session.conversation);
    assert_eq!(kept.len(), all.len());
    let (lost, found): (Vec<_>, Vec<_>) = all.iter().partition(|m| !kept.contains(m));
    assert_eq!((lost.len(), found.len()), (1, all.len() - 1));
    turn(&mut session, 50);
    assert_eq!(session.commit(), None);
    let after = std::fs::read(&path).unwrap();
    let untouched = memchr::memmem::rfind(&bytes, b"\n],").unwrap();
    assert_eq!(
        after[..untouched],
        bytes[..untouched],
        "lines of others are never touched"
    );
    drop(session);
    let (session, _) = place.store().open(&id).unwrap();
    assert_eq!(session.conversation.len(), all.len() + 5);
    // The head.
    drop(session);
    let mut bytes = after;
    bytes[..16].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    let (mut session, _) = place.store().open(&id).unwrap();
    assert_eq!(session.conversation.len(), all.len() + 5);
    turn(&mut session, 51);
    assert_eq!(session.commit(), None);
    valid_json(&path);
    assert_eq!(
        std::fs::read(path.with_extension("damaged")).unwrap(),
        bytes
    );
}

#[test]
fn any_failing_write_loses_nothing() {
    for how in [fault::How::Whole, fault::How::Half] {
        for n in 1.. {
            let place = Place::new();
            let store = place.store();
            fault::plan(n, false, how);
            let (mut session, _) = store.create(b"/root");
            for t in 0..4 {
                turn(&mut session, t);
                session.commit();
            }
            let reached = fault::operations() >= n;
            let id = session.id.clone();
            let before = texts(&session.conversation);
            assert!(
                session.path().is_some(),
                "scratch takes it if the home doesn't"
            );
            session.kill();
            fault::clear();
            let (again, _) = store.open(&id).unwrap();
            assert_eq!(texts(&again.conversation), before, "fault {n}");
            message::check(again.conversation.iter()).unwrap();
            valid_json(again.path().unwrap());
            if !reached {
                assert!(n > 20, "the loop ends behind the last operation");
                break;
            }
        }
    }
}

#[test]
fn a_disk_full_for_good_keeps_all_earlier_turns() {
    for how in [fault::How::Whole, fault::How::Half] {
        for n in 1..40 {
            let place = Place::new();
            let store = place.store();
            fault::plan(n, true, how);
            let (mut session, warnings) = store.create(b"/root");
            let mut safe = 0;
            for t in 0..4 {
                turn(&mut session, t);
                let warning = session.commit();
                if session.path().is_some() && warning.is_none() {
                    safe = session.conversation.len();
                }
            }
            if session.path().is_none() {
                assert!(
                    warnings.last().unwrap().contains("not saved"),
                    "{warnings:?}"
                );
                continue;
            }
            let (id, before) = (session.id.clone(), texts(&session.conversation));
            session.kill();
            fault::clear();
            let (again, _) = store.open(&id).unwrap();
            let kept = texts(&again.conversation);
            assert!(kept.len() >= safe, "fault {n}: {} of {safe}", kept.len());
            assert_eq!(kept[..safe], before[..safe]);
            message::check(again.conversation.iter()).unwrap();
        }
    }
}

#[test]
fn a_full_disk_is_told_and_tried_again() {
    let place = Place::new();
    let (mut session, _) = place.store().create(b"/root");
    turn(&mut session, 0);
    assert_eq!(session.commit(), None);
    let path = session.path().unwrap().to_path_buf();
    let old = std::fs::read(&path).unwrap();
    turn(&mut session, 1);
    fault::plan(1, false, fault::How::Half);
    let warning = session.commit().unwrap();
    fault::clear();
    assert!(
        warning.contains("No space left") && warning.contains("journal-"),
        "{warning}"
    );
    assert_eq!(
        std::fs::read(&path).unwrap(),
        old,
        "the old end is put back"
    );
    turn(&mut session, 2);
    assert_eq!(session.commit(), None);
    assert_eq!(valid_json(&path)["messages"].as_array().unwrap().len(), 15);
    assert_eq!(place.journals().len(), 0);
}

#[test]
fn too_little_space_sends_sessions_to_scratch() {
    let place = Place::new();
    let store = place.store();
    fault::set_free(Some(200 * 1024));
    let (mut session, warnings) = store.create(b"/root");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(session.path().unwrap().starts_with(place.scratch()));
    turn(&mut session, 0);
    let (id, before) = (session.id.clone(), texts(&session.conversation));
    session.kill();
    // Steps are in the file itself.
    let (again, _) = store.open(&id).unwrap();
    assert_eq!(texts(&again.conversation), before[..4]);
    drop(again);
    // Space that runs out later: the turn waits in the journal, over a restart too.
    fault::clear();
    let (mut session, _) = store.create(b"/root");
    let id = session.id.clone();
    turn(&mut session, 0);
    assert_eq!(session.commit(), None);
    let size = std::fs::metadata(session.path().unwrap()).unwrap().len();
    fault::set_free(Some(1024));
    turn(&mut session, 1);
    let warning = session.commit().unwrap();
    assert!(warning.contains("only 1 KiB"), "{warning}");
    let before = texts(&session.conversation);
    drop(session);
    for _ in 0..3 {
        let (session, _) = store.open(&id).unwrap();
        assert_eq!(texts(&session.conversation), before);
        assert_eq!(
            std::fs::metadata(session.path().unwrap()).unwrap().len(),
            size
        );
        session.kill();
    }
    fault::clear();
    let (session, _) = store.open(&id).unwrap();
    assert_eq!(valid_json(session.path().unwrap())["count"], before.len());
    assert_eq!(place.journals().len(), 0);
}

#[test]
fn a_killed_run_is_completed_by_the_next_start() {
    let place = Place::new();
    let store = place.store();
    let (mut session, _) = store.create(b"/root");
    let first = session.id.clone();
    session.push_user(b"go");
    session.push_reply(&reply("", &[("a", "{}"), ("b", "{}")]));
    session.push_result("a", b"done");
    session.total_tokens = 77;
    assert_eq!(session.step(), None);
    session.kill();
    assert!(!place.home().join("last_session").exists());
    // Another session starts, and a third while the second lives.
    let (mut second, warnings) = store.create(b"/root");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("3 messages") && warnings[0].contains(&first));
    assert_eq!(place.journals().len(), 0);
    second.push_user(b"live");
    second.step();
    let (third, warnings) = store.create(b"/root");
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(
        place.journals().len(),
        1,
        "a live one's journal is left alone"
    );
    drop(third);
    let path = place
        .home()
        .join("sessions")
        .join([&first, ".json"].concat());
    let json = valid_json(&path);
    let messages = json["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 4);
    assert_eq!(messages[3]["tool_call_id"], "b");
    assert_eq!(
        messages[3]["content"],
        "error: not executed: the run was interrupted"
    );
    assert_eq!(json["total_tokens"], 77);
    assert_eq!(
        std::fs::read(place.home().join("last_session")).unwrap(),
        first.as_bytes()
    );
    // A recovered older session doesn't take the place of a newer one.
    second.commit();
    let (mut old, _) = store.open(&first).unwrap();
    old.push_user(b"more");
    old.step();
    old.kill();
    let second_id = second.id.clone();
    drop(second);
    assert_eq!(store.recover().len(), 1);
    assert_eq!(store.last().unwrap().0.id, second_id);
    // Using it does.
    let (mut old, _) = store.open(&first).unwrap();
    old.push_user(b"again");
    assert_eq!(old.commit(), None);
    drop(old);
    assert_eq!(store.last().unwrap().0.id, first);
}

#[test]
fn a_journal_is_applied_once() {
    let place = Place::new();
    let store = place.store();
    let (mut session, _) = store.create(b"/root");
    let id = session.id.clone();
    turn(&mut session, 0);
    session.commit();
    turn(&mut session, 1);
    session.step();
    let journal = place.journals().remove(0);
    let saved = std::fs::read(&journal).unwrap();
    session.commit();
    let before = texts(&session.conversation);
    session.kill();
    // Killed between the flush and the journal's end.
    std::fs::write(&journal, &saved).unwrap();
    let (session, warnings) = store.open(&id).unwrap();
    assert_eq!(texts(&session.conversation), before);
    assert_eq!((warnings.len(), place.journals().len()), (0, 0));
    let path = session.path().unwrap().to_path_buf();
    session.kill();
    // Killed within the append: the file has some of the journal's messages.
    let bytes = std::fs::read(&path).unwrap();
    for part in 5..before.len() {
        let at =
            memchr::memmem::find(&bytes, before[part].as_bytes()).unwrap() + before[part].len();
        std::fs::write(&path, &bytes[..at]).unwrap();
        std::fs::write(&journal, &saved).unwrap();
        let (session, _) = store.open(&id).unwrap();
        assert_eq!(texts(&session.conversation), before);
        valid_json(&path);
        session.kill();
    }
    // One of another life is set aside.
    let foreign = String::from_utf8(saved.clone())
        .unwrap()
        .replace("prompt 1", "other 1");
    let at = memchr::memmem::find(&bytes, before[5].as_bytes()).unwrap() + before[5].len();
    std::fs::write(&path, &bytes[..at]).unwrap();
    std::fs::write(&journal, foreign).unwrap();
    let (session, warnings) = store.open(&id).unwrap();
    assert!(
        warnings.iter().any(|w| w.contains(".stale")),
        "{warnings:?}"
    );
    assert_eq!(session.conversation.len(), 6);
    session.kill();
    // The file itself is gone: what the journal has is not.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&journal, &saved).unwrap();
    store.recover();
    let (session, _) = store.open(&id).unwrap();
    assert_eq!(texts(&session.conversation), before[5..]);
    assert_eq!(session.cwd, b"/root");
}

#[test]
fn a_scratch_that_others_can_write_to_is_not_trusted() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let store = place.store();
    let (mut session, _) = store.create(b"/root");
    let id = session.id.clone();
    turn(&mut session, 0);
    session.commit();
    turn(&mut session, 1);
    session.step();
    session.kill();
    let mode = |m| std::fs::set_permissions(place.scratch(), PermissionsExt::from_mode(m)).unwrap();
    mode(0o777);
    assert_eq!(store.recover(), Vec::<String>::new());
    let (mut session, _) = store.open(&id).unwrap();
    assert_eq!(session.conversation.len(), 5, "nothing comes from there");
    session.push_user(b"x");
    let warning = session.step().unwrap();
    assert!(warning.contains("journal"), "{warning}");
    assert_eq!(session.commit(), None);
    drop(session);
    mode(0o700);
    let (session, _) = store.open(&id).unwrap();
    assert_eq!(session.conversation.len(), 6);
}

#[test]
fn random_damage_gives_a_valid_conversation_or_an_error() {
    let place = Place::new();
    let (mut session, _) = place.store().create(b"/root");
    for n in 0..3 {
        turn(&mut session, n);
        session.set_context_from(5);
        session.commit();
    }
    let good = std::fs::read(session.path().unwrap()).unwrap();
    let path = place.dir.path().join("probe");
    let mut seed: u32 = 0x9e37_79b9;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        seed as usize % below
    };
    let mut opened = 0;
    for _ in 0..3000 {
        let mut bytes = good.clone();
        for _ in 0..=random(4) {
            let at = random(bytes.len());
            match random(5) {
                0 => bytes[at] = random(256) as u8,
                1 => bytes[at] = b"\"\\{}[],\n:0 "[random(11)],
                2 => drop(bytes.drain(at..(at + random(200)).min(bytes.len()))),
                3 => bytes.insert(at, b"\"\\{}[],\n:0 "[random(11)]),
                _ => {
                    let piece = bytes[at..(at + random(300)).min(bytes.len())].to_vec();
                    let to = random(bytes.len());
                    bytes.splice(to..to, piece);
                }
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        let Ok(mut loaded) = load::load(&File::open(&path).unwrap()) else {
            continue;
        };
        loaded.builder.finish(false);
        let checked = message::check(loaded.builder.conversation.iter());
        assert_eq!(checked, Ok(()), "{}", String::from_utf8_lossy(&bytes));
        opened += 1;
    }
    assert!(opened > 2900, "only {opened} opened");
}
