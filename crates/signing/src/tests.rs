//! Signing and accepting deploys.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use super::*;

fn program(entry: &str) -> Program {
    Program {
        frontend: "lang".into(),
        entry: entry.into(),
        noop: false,
        sema: -1,
        no_autoedges: false,
        no_autogroup: false,
    }
}

fn signer(seed: u8) -> Signer {
    Signer { key: SigningKey::of_seed([seed; 32]), valid_for: None, new_series: false }
}

fn deploy(signer: &Signer, entry: &str, newest: Option<&Deploy>) -> Deploy {
    numbered(signer, entry, newest.map_or(1, |newest| newest.id + 1), newest.as_slice())
}

fn numbered(signer: &Signer, entry: &str, id: u64, stored: &[&Deploy]) -> Deploy {
    let (program, files) = (program(entry), Blob { size: 3, chunks: vec!["ab".into()] });
    let content = SignedContent { program: &program, hash: None, files: &files };
    let signature = Some(signer.sign(content, id, &mut stored.iter().copied()));
    Deploy { id, program, hash: None, chain: None, repeats: None, by: "a".into(), at: 0, files, signature }
}

fn trust(directory: &tempfile::TempDir, signer: &Signer) -> TrustStore {
    TrustStore::new(vec![signer.key.public().clone()], directory.path().to_owned()).unwrap()
}

#[test]
fn what_is_signed_is_accepted_again_and_again_but_nothing_older() {
    let (directory, signer) = (tempfile::tempdir().unwrap(), signer(1));
    let first = deploy(&signer, "one", None);
    let second = deploy(&signer, "two", Some(&first));
    let trust_ = trust(&directory, &signer);
    assert_eq!(trust_.accept(&first).unwrap(), first);
    assert_eq!(trust_.accept(&first).unwrap(), first, "it may start again");
    assert_eq!(trust_.accept(&second).unwrap().program.entry, "two");
    assert!(matches!(trust_.accept(&first), Err(Refused::Replayed { .. })));
    // Under any number, and after a restart.
    let trust_ = trust(&directory, &signer);
    assert!(matches!(trust_.accept(&Deploy { id: 99, ..first }), Err(Refused::Replayed { .. })));
    assert!(trust_.accept(&second).is_ok());
}

#[test]
fn the_number_grows_even_if_the_clock_does_not() {
    let signer = signer(1);
    let mut newest = deploy(&signer, "one", None);
    for _ in 0..100 {
        let next = deploy(&signer, "one", Some(&newest));
        let (before, after) = (signer.opened(&newest).unwrap(), signer.opened(&next).unwrap());
        assert!(after.sequence > before.sequence);
        newest = next;
    }
    // What a stranger says about it does not count.
    let stranger = self::signer(2);
    let mut loud = deploy(&stranger, "x", None);
    let signed = loud.signature.as_mut().unwrap();
    signed.statement = signed.statement.replace(r#""sequence":"#, r#""sequence":9"#);
    let mine = signer.opened(&deploy(&signer, "one", Some(&loud))).unwrap();
    assert!(mine.sequence < 9_000_000_000_000_000);
}

/// The same statement, changed and signed again, as by a signer with another clock or another version.
fn restated(signer: &Signer, deploy: &Deploy, change: impl FnOnce(&mut Statement)) -> Deploy {
    let mut statement = signer.opened(deploy).unwrap();
    change(&mut statement);
    let text = serde_json::to_string(&statement).unwrap();
    let signature = Base64::encode_string(&signer.key.sign(&message(&text)));
    let signature = Signature { statement: text, signature, ..deploy.signature.clone().unwrap() };
    Deploy { signature: Some(signature), ..deploy.clone() }
}

const HOURS: u64 = 5 * 3600 * 1_000_000;

#[test]
fn a_signer_whose_clock_is_ahead_locks_nobody_out() {
    let (directory, signer) = (tempfile::tempdir().unwrap(), signer(1));
    let trust = trust(&directory, &signer);
    let ahead = restated(&signer, &deploy(&signer, "ahead", None), |statement| {
        statement.sequence += HOURS;
        statement.series = Some(statement.series.unwrap() + HOURS);
    });
    let refused = trust.accept(&ahead).unwrap_err();
    assert!(matches!(refused, Refused::FromTheFuture { .. }), "{refused}");
    assert_eq!(refused.to_string(), trust.accept(&ahead).unwrap_err().to_string(), "it is said once");
    assert!(refused.is_passing());
    // Whoever deploys next with the same key is heard, and so are those who follow.
    let next = deploy(&signer, "next", Some(&ahead));
    assert_eq!(trust.accept(&next).unwrap().program.entry, "next");
    let third = numbered(&signer, "third", 3, &[&ahead, &next]);
    assert_eq!(trust.accept(&third).unwrap().program.entry, "third");
    assert!(matches!(trust.accept(&next), Err(Refused::Replayed { number: 2, accepted: 3 })));
}

#[test]
fn within_a_series_the_number_counts_and_no_clock() {
    let (directory, signer) = (tempfile::tempdir().unwrap(), signer(1));
    let trust = trust(&directory, &signer);
    let first = deploy(&signer, "one", None);
    trust.accept(&first).unwrap();
    // Its signer's clock was hours ahead for this one, and what follows was signed by the right time.
    let second = restated(&signer, &deploy(&signer, "two", Some(&first)), |statement| {
        statement.sequence += HOURS;
    });
    trust.accept(&second).unwrap();
    let third = restated(&signer, &numbered(&signer, "three", 3, &[&first]), |statement| {
        statement.sequence -= HOURS;
    });
    trust.accept(&third).unwrap();
    assert!(matches!(trust.accept(&second), Err(Refused::Replayed { .. })));
}

/// What the signer's clock or the host's says, in hours from the real time.
fn clock(hours: u64) -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(hours * 3600)
}

/// The same statement, with a series that began five hours later.
fn ahead(signer: &Signer, deploy: &Deploy) -> Deploy {
    restated(signer, deploy, |statement| statement.series = Some(statement.series.unwrap() + HOURS))
}

#[test]
fn a_host_whose_clock_was_ahead_goes_on_with_the_series_that_all_others_accept() {
    let (right, wrong) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let signer = signer(1);
    let (right, wrong) = (trust(&right, &signer), trust(&wrong, &signer));
    let old = numbered(&signer, "old", 7, &[]);
    let first = ahead(&signer, &deploy(&signer, "one", None));
    wrong.accept_at(&first, clock(5)).unwrap();
    assert!(matches!(right.accept(&first), Err(Refused::FromTheFuture { .. })));
    // Whatever was signed before that deploy replaces nothing.
    assert!(matches!(wrong.accept_at(&old, clock(5)), Err(Refused::Replayed { .. })));
    assert!(matches!(wrong.accept(&old), Err(Refused::AcceptedFuture { .. })));
    // The next deploy replaces it, whether the host's clock is right meanwhile or not.
    let second = deploy(&signer, "two", Some(&first));
    right.accept(&second).unwrap();
    wrong.accept_at(&second, clock(5)).unwrap();
    let third = numbered(&signer, "three", 3, &[&first, &second]);
    let restart = Signer { new_series: true, ..self::signer(1) };
    let fourth = numbered(&restart, "four", 4, &[&first, &second, &third]);
    for (deploy, before) in [(&third, &second), (&fourth, &third)] {
        for trust in [&right, &wrong] {
            trust.accept(deploy).unwrap();
            trust.accept(deploy).unwrap();
            assert!(matches!(trust.accept(before), Err(Refused::Replayed { .. })));
            assert!(matches!(trust.accept(&old), Err(Refused::Replayed { .. })));
            // Nor when the time of that series has come.
            assert!(matches!(trust.accept_at(&first, clock(6)), Err(Refused::Void { .. })));
        }
    }
}

#[test]
fn a_new_series_never_begins_in_the_future() {
    let (directory, host) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let restart = Signer { new_series: true, ..signer(1) };
    let first = ahead(&restart, &deploy(&restart, "one", None));
    let second = deploy(&restart, "two", Some(&first));
    trust(&directory, &restart).accept(&second).unwrap();
    let host = trust(&host, &restart);
    host.accept_at(&first, clock(5)).unwrap();
    host.accept(&second).unwrap();
}

#[test]
fn a_void_series_stays_void_after_its_deploys_have_left_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let signer = signer(1);
    let trust = trust(&directory, &signer);
    let first = ahead(&signer, &deploy(&signer, "one", None));
    trust.accept_at(&first, clock(5)).unwrap();
    let second = deploy(&signer, "two", Some(&first));
    let third = deploy(&signer, "three", Some(&second));
    trust.accept(&third).unwrap();
    // A statement that was signed before the accepted one of that series voids nothing.
    let ninth = ahead(&signer, &numbered(&signer, "nine", 9, &[]));
    let late =
        restated(&signer, &ninth, |statement| statement.series = signer.opened(&first).unwrap().series);
    let directory = tempfile::tempdir().unwrap();
    let trust = self::trust(&directory, &signer);
    trust.accept_at(&late, clock(5)).unwrap();
    assert!(matches!(trust.accept(&second), Err(Refused::AcceptedFuture { .. })));
}

#[test]
fn a_signer_whose_clock_is_behind_is_heard_and_so_is_the_next_one() {
    let (directory, signer) = (tempfile::tempdir().unwrap(), signer(1));
    let trust = trust(&directory, &signer);
    // The host and the first signer agree; seen from here, both are hours ahead.
    let first = ahead(&signer, &deploy(&signer, "one", None));
    trust.accept_at(&first, clock(5)).unwrap();
    let second = numbered(&signer, "two", 2, &[&first]);
    trust.accept_at(&second, clock(5)).unwrap();
    let third = numbered(&signer, "three", 3, &[&first, &second]);
    let series = |deploy: &Deploy| signer.opened(deploy).unwrap().series.unwrap();
    assert_eq!(series(&third), series(&second));
    trust.accept_at(&third, clock(5)).unwrap();
    assert!(matches!(trust.accept_at(&first, clock(5)), Err(Refused::Void { .. })));
}

#[test]
fn a_statement_counts_under_its_own_number_alone() {
    let (directory, signer) = (tempfile::tempdir().unwrap(), signer(1));
    let trust = trust(&directory, &signer);
    let first = deploy(&signer, "one", None);
    let moved = Deploy { id: 7, ..first.clone() };
    assert!(matches!(trust.accept(&moved), Err(Refused::Misplaced { signed: 1, found: 7 })));
    trust.accept(&first).unwrap();
    assert!(matches!(trust.accept(&moved), Err(Refused::Misplaced { .. })));
    assert!(matches!(trust.confirm(&moved), Err(Refused::Misplaced { .. })));
}

#[test]
fn numbers_that_are_given_again_need_a_new_series() {
    let (directory, signer) = (tempfile::tempdir().unwrap(), signer(1));
    let trust = trust(&directory, &signer);
    let first = deploy(&signer, "one", None);
    let second = deploy(&signer, "two", Some(&first));
    trust.accept(&second).unwrap();
    // The store was restored from a backup that has the first alone.
    let again = deploy(&signer, "again", Some(&first));
    assert!(matches!(trust.accept(&again), Err(Refused::Replayed { number: 2, accepted: 2 })));
    let restart = Signer { new_series: true, ..self::signer(1) };
    let fresh = deploy(&restart, "fresh", Some(&first));
    trust.accept(&fresh).unwrap();
    // What comes after goes on with that series, and nothing of the old one comes back.
    trust.accept(&numbered(&signer, "more", 3, &[&first, &fresh])).unwrap();
    assert!(matches!(trust.accept(&second), Err(Refused::Replayed { .. })));
    // A new store begins a series by itself.
    let empty = deploy(&signer, "empty", None);
    assert!(trust.accept(&empty).is_ok());
}

#[test]
fn statements_of_earlier_versions_are_in_the_same_order() {
    let (directory, signer) = (tempfile::tempdir().unwrap(), signer(1));
    let trust = trust(&directory, &signer);
    let old = |statement: &mut Statement| (statement.series, statement.number) = (None, None);
    let first = restated(&signer, &deploy(&signer, "one", None), old);
    let second = restated(&signer, &deploy(&signer, "two", Some(&first)), old);
    trust.accept(&first).unwrap();
    trust.accept(&second).unwrap();
    assert!(matches!(trust.accept(&first), Err(Refused::Replayed { .. })));
    let third = numbered(&signer, "three", 3, &[&first, &second]);
    trust.accept(&third).unwrap();
    for old in [&first, &second] {
        assert!(matches!(trust.accept(old), Err(Refused::Replayed { .. })));
    }
}

#[test]
fn one_that_ran_is_confirmed_under_the_same_trust_alone() {
    let (directory, signer_) = (tempfile::tempdir().unwrap(), signer(1));
    let trust_ = trust(&directory, &signer_);
    let first = restated(&signer_, &deploy(&signer_, "one", None), |statement| statement.until = Some(1));
    assert!(matches!(trust_.accept(&first), Err(Refused::Expired { .. })));
    assert_eq!(trust_.confirm(&first).unwrap(), first);
    trust_.accept(&deploy(&signer_, "two", Some(&first))).unwrap();
    assert!(trust_.confirm(&first).is_ok(), "a newer one that cannot run changes nothing");
    assert!(matches!(trust_.confirm(&Deploy { signature: None, ..first.clone() }), Err(Refused::Unsigned)));
    assert!(matches!(trust(&directory, &signer(2)).confirm(&first), Err(Refused::Stranger { .. })));
}

#[test]
fn what_stands_beside_the_statement_does_not_count() {
    let (directory, signer) = (tempfile::tempdir().unwrap(), signer(1));
    let right = deploy(&signer, "one", None);
    let mut wrong = right.clone();
    wrong.program.entry = "evil".into();
    wrong.files.chunks = vec!["cd".into()];
    assert!(!signer.has_signed(&wrong) && signer.has_signed(&right));
    let accepted = trust(&directory, &signer).accept(&wrong).unwrap();
    assert_eq!((accepted.program, accepted.files), (right.program, right.files));
}

#[test]
fn whatever_is_changed_in_a_signature_is_noticed() {
    let (directory, signer) = (tempfile::tempdir().unwrap(), signer(1));
    let (trust, right) = (trust(&directory, &signer), deploy(&signer, "one", None));
    assert!(matches!(trust.accept(&Deploy { signature: None, ..right.clone() }), Err(Refused::Unsigned)));
    let stranger = self::signer(2);
    assert!(matches!(trust.accept(&deploy(&stranger, "one", None)), Err(Refused::Stranger { .. })));
    let parts: [fn(&mut Signature) -> &mut String; 3] =
        [|signed| &mut signed.statement, |signed| &mut signed.key, |signed| &mut signed.signature];
    for part in parts {
        let length = part(right.clone().signature.as_mut().unwrap()).len();
        for at in 0..length {
            for bit in [1, 2, 4, 64] {
                let mut wrong = right.clone();
                let text = part(wrong.signature.as_mut().unwrap());
                let mut bytes = std::mem::take(text).into_bytes();
                bytes[at] ^= bit;
                *text = String::from_utf8_lossy(&bytes).into_owned();
                assert!(trust.accept(&wrong).is_err(), "byte {at}: {wrong:?}");
            }
            let mut short = right.clone();
            part(short.signature.as_mut().unwrap()).truncate(at);
            assert!(trust.accept(&short).is_err(), "cut at {at}");
        }
    }
    assert!(trust.accept(&right).is_ok());
}

#[test]
fn what_has_expired_is_only_run_by_those_who_had_begun() {
    let directory = tempfile::tempdir().unwrap();
    let late = Signer { valid_for: Some(Duration::from_secs(3600)), ..signer(1) };
    let right = deploy(&late, "one", None);
    let mut statement = late.opened(&right).unwrap();
    statement.until = Some(1);
    let text = serde_json::to_string(&statement).unwrap();
    let signature = Base64::encode_string(&late.key.sign(&message(&text)));
    let signature = Signature { statement: text, signature, ..right.signature.clone().unwrap() };
    let expired = Deploy { signature: Some(signature), ..right.clone() };
    let trust = trust(&directory, &late);
    assert!(matches!(trust.accept(&expired), Err(Refused::Expired { until: 1 })));
    assert!(trust.accept(&right).is_ok());
    assert!(matches!(trust.accept(&expired), Err(Refused::Replayed { .. })));
}

#[test]
fn a_memory_that_cannot_be_read_refuses_everything() {
    let (directory, signer) = (tempfile::tempdir().unwrap(), signer(1));
    let (trust, right) = (trust(&directory, &signer), deploy(&signer, "one", None));
    trust.accept(&right).unwrap();
    let file = std::fs::read_dir(directory.path().join("accepted")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&file, "{").unwrap();
    assert!(matches!(trust.accept(&right), Err(Refused::Memory(_))));
}
