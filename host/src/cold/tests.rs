//! State on a real disk: it is what it would be in memory, and it leaves nothing behind.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use crate::state::tests::{check, long_lists, states, step};
use crate::state::{Cold, KeyedState};

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, rng_seed: RngSeed::Fixed(11), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn state_is_the_same_on_disk(
        steps in proptest::collection::vec(prop_oneof![step(), long_lists()], 100..400),
        bound in 0usize..4000,
        part in 1usize..200,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let local = Arc::new(LocalDir::create(dir.path()).unwrap());
        let store = DiskStore::create(&local, "count-0", 1 << 20).unwrap();
        check(KeyedState::over(states(), 128, Box::new(store), bound).with_parts_of(part), &steps)?;
    }
}

#[test]
fn entries_are_found_in_order_whether_filled_or_written_until_they_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let local = Arc::new(LocalDir::create(dir.path()).unwrap());
    // So little that it has to write files, and to merge them.
    let mut store = DiskStore::create(&local, "count-0", 1 << 18).unwrap();
    let place = |number: u32| number.to_be_bytes();
    let value = |number: u32| vec![number as u8; number as usize % 100];
    store.fill(&mut |take| (0..20_000).step_by(2).for_each(|number| take(&place(number), &value(number)).unwrap())).unwrap();
    for number in (1..20_000).step_by(2) {
        store.put(&place(number), &value(number));
        if number.is_multiple_of(3) {
            store.remove(&place(number - 1));
        }
        if number % 100 == 99 {
            store.commit().unwrap();
        }
    }
    let is_there = |number: u32| number % 2 == 1 || !(number + 1).is_multiple_of(3);
    let mut next = 5000;
    let mut visit = |found: &[u8], held: &[u8]| {
        while !is_there(next) {
            next += 1;
        }
        assert_eq!((found, held), (&place(next)[..], &value(next)[..]));
        next += 1;
        next < 15_000
    };
    store.range(&place(5000), &mut visit).unwrap();
    assert_eq!(next, 15_000);
    for number in (0..21_000).step_by(7) {
        let mut held = b"what was here before".to_vec();
        let found = store.get(&place(number), &mut held).unwrap();
        assert_eq!(found.then_some(held), (number < 20_000 && is_there(number)).then(|| value(number)), "{number}");
    }
    drop((store, local));
    assert_eq!(names(dir.path()), [""; 0], "nothing is left behind");
}

#[test]
fn what_a_killed_process_has_left_is_removed_and_what_is_in_use_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let dead = dir.path().join("17-dead");
    fs::create_dir(&dead).unwrap();
    fs::write(dead.join("lock"), "").unwrap();
    fs::write(dead.join("entries"), "some").unwrap();
    fs::create_dir(dir.path().join("of someone else")).unwrap();
    let one = LocalDir::create(dir.path()).unwrap();
    let other = LocalDir::create(dir.path()).unwrap();
    assert!(!dead.exists() && one.path().exists() && other.path().exists());
    drop((one, other));
    assert_eq!(names(dir.path()), ["of someone else"]);
}

#[test]
fn a_directory_that_can_not_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let fault = LocalDir::create(&file.join("job")).unwrap_err();
    assert!(fault.0.contains("file/job") && fault.0.ends_with("Not a directory (os error 20)"), "{fault}");
    let local = Arc::new(LocalDir::create(dir.path()).unwrap());
    fs::write(local.path().join("count-0"), "").unwrap();
    let fault = DiskStore::create(&local, "count-0", 1 << 20).unwrap_err();
    assert!(fault.0.contains("/count-0: "), "{fault}");
}
