//! Decisions against models: what to restore, what to keep, what to merge.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::checkpoint::log::Log;
use crate::checkpoint::manifest::tests::{claim, manifest, state_file};
use crate::checkpoint::manifest::{Epochs, LogEntry, Manifest, StateFile};
use crate::checkpoint::paths;
use crate::error::Kind;
use crate::record::{AttemptId, KeyGroups};

/// How many checkpoints are kept.
const RETAINED: usize = 3;

/// What lies in a slot, in few letters.
#[derive(Clone, Copy)]
enum E {
    /// A claim of this attempt.
    C(u32),
    /// A manifest of this attempt and checkpoint.
    M(u32, u64),
    /// Broken.
    B,
}
use E::{B, C, M};

/// Files that the manifest of a checkpoint names: those of its epoch and of the one before.
fn files_of(attempt: u32, checkpoint: u64) -> Vec<StateFile> {
    [checkpoint - 1, checkpoint].map(|epoch| state_file(attempt, epoch, "count", 0)).into()
}

fn log(first: u64, entries: &[E]) -> Log {
    let entry = |entry: &E| match *entry {
        C(attempt) => Ok(claim(attempt)),
        M(attempt, checkpoint) => Ok(LogEntry::Checkpoint(manifest(attempt, checkpoint, files_of(attempt, checkpoint)))),
        B => Err("it was altered".to_string()),
    };
    let entries: BTreeMap<u64, _> = (first..).zip(entries.iter().map(entry)).collect();
    Log { run: 1, dir: std::path::Path::new("/c/words/run-0001").into(), entries }
}

fn restored(log: &Log, below: u64) -> Option<u64> {
    restore_point(log, below).unwrap().map(|point| point.manifest.checkpoint)
}

#[test]
fn a_new_run_begins_without_state() {
    assert_eq!(restored(&log(1, &[]), 1), None);
    assert_eq!(restored(&log(1, &[C(1)]), 1), None);
    assert_eq!(restored(&log(1, &[C(1), C(2), C(3)]), 3), None);
}

#[test]
fn an_attempt_restores_from_the_newest_checkpoint_below_its_claim() {
    let log = log(1, &[C(1), M(1, 1), M(1, 2), C(2), C(3), M(3, 3)]);
    assert_eq!(restored(&log, 5), Some(2));
    let point = restore_point(&log, 5).unwrap().unwrap();
    assert_eq!((point.slot, point.path.to_string()), (3, "/c/words/run-0001/log/00000000000000000003.json".into()));
    assert_eq!(point.before.unwrap().checkpoint, 1);
    assert_eq!(restored(&log, 7), Some(3));
}

#[test]
fn a_broken_newest_checkpoint_is_an_error_that_offers_the_one_before() {
    let log = log(1, &[C(1), M(1, 1), M(1, 2), B, C(2)]);
    let error = restore_point(&log, 5).unwrap_err();
    assert_eq!(error.kind(), Kind::Checkpoint);
    let expected = "the newest checkpoint can't be restored: /c/words/run-0001/log/00000000000000000004.json: it was altered";
    assert_eq!(error.message(), expected);
    let help = "to go back to checkpoint 2 of 2026-11-30T07:00:02.000Z, run with `-s /c/words/run-0001/log/00000000000000000003.json`, \
                or with `--fallback` to the newest one that is whole";
    assert_eq!(error.help_text(), Some(help));
}

#[test]
fn a_broken_entry_below_the_newest_checkpoint_does_not_matter() {
    assert_eq!(restored(&log(1, &[C(1), B, M(1, 2), C(2)]), 4), Some(2));
}

#[test]
fn with_nothing_to_go_back_to_the_error_says_so() {
    let error = restore_point(&log(1, &[C(1), B, C(2)]), 3).unwrap_err();
    assert!(error.help_text().unwrap().contains("--fresh"), "{error:?}");
}

#[test]
fn a_missing_entry_is_an_error_and_not_an_empty_log() {
    // The log of a run that has had checkpoints, without them.
    let mut gap = log(40, &[M(1, 40), M(1, 41), B, C(2)]);
    gap.entries.remove(&42);
    let error = restore_point(&gap, 43).unwrap_err();
    assert!(error.message().ends_with("42.json: it is missing"), "{error}");
    assert!(error.help_text().unwrap().contains("checkpoint 41"));
    assert!(restore_point(&log(43, &[C(2)]), 43).unwrap_err().message().contains("42.json: it is missing"));
    // Below the newest checkpoint nothing is missed.
    assert_eq!(restored(&log(42, &[M(1, 41), C(2)]), 43), Some(41));
}

#[test]
fn a_checkpoint_is_found_by_its_number() {
    let log = log(1, &[C(1), M(1, 1), M(1, 2), B, M(1, 4), C(2)]);
    let point = by_number(&log, 1).unwrap();
    assert_eq!((point.slot, point.newer, point.before), (2, 3, None));
    assert_eq!(by_number(&log, 4).unwrap().newer, 0);
    let error = by_number(&log, 3).unwrap_err();
    assert_eq!(error.help_text(), Some("there are 1, 2, 4; only the newest are kept"));
}

#[test]
fn attempts_and_checkpoints_never_share_a_number() {
    assert_eq!((next_attempt(&log(1, &[])).unwrap(), next_epoch(&log(1, &[]))), (1, 1));
    let with = log(1, &[C(1), M(1, 1), C(2), M(2, 2)]);
    assert_eq!((next_attempt(&with).unwrap(), next_epoch(&with)), (3, 3));
    // What can't be read may have been a claim, or a checkpoint.
    let with = log(1, &[C(1), M(1, 1), B, B]);
    assert_eq!((next_attempt(&with).unwrap(), next_epoch(&with)), (4, 4));
    assert_eq!(next_attempt(&log(7, &[B])).unwrap_err().kind(), Kind::Checkpoint);
    // An older one was restored, and counts on.
    assert_eq!(next_epoch(&log(1, &[C(1), M(1, 1), M(1, 9), C(2), M(2, 10)])), 11);
}

const OWN: AttemptId = AttemptId { run: 1, attempt: 3 };

fn live(paths: &[&str]) -> Live {
    Live { attempt: OWN, paths: paths.iter().map(|path| path.to_string()).collect(), next_serial: 5, committed: Some(8) }
}

fn superseded(log: &Log, listed: &[String], live: &Live, retained: usize) -> Superseded {
    super::superseded(&Outline::of(log), listed.iter().map(String::as_str), live, retained)
}

fn listed(paths: &[String]) -> Vec<String> {
    paths.to_vec()
}

fn snap(attempt: u32, epoch: u64) -> String {
    paths::snapshot(attempt, epoch, "count", 0, 0)
}

#[test]
fn the_newest_three_checkpoints_stay_and_older_entries_go() {
    let log = log(1, &[C(1), M(1, 2), C(2), M(2, 4), C(3), M(3, 6), M(3, 8)]);
    let found = superseded(&log, &[], &live(&[]), RETAINED);
    // 4, 6 and 8 stay, with the claims in between.
    assert_eq!(found.entries, [1, 2, 3].map(paths::entry));
    assert_eq!(found.held, None);
}

#[test]
fn with_fewer_checkpoints_than_are_kept_nothing_goes() {
    let log = log(1, &[C(1), C(2), M(2, 2), C(3), M(3, 4)]);
    assert_eq!(superseded(&log, &[], &live(&[]), RETAINED).entries, Vec::<String>::new());
}

#[test]
fn files_that_no_kept_manifest_names_go() {
    let log = log(1, &[C(3), M(3, 2), M(3, 4), M(3, 6), M(3, 8)]);
    let files = listed(&(1..=8).map(|epoch| snap(3, epoch)).collect::<Vec<_>>());
    let found = superseded(&log, &files, &live(&[]), RETAINED);
    assert_eq!(found.files, [snap(3, 1), snap(3, 2)]);
}

#[test]
fn files_in_use_or_on_their_way_stay() {
    let log = log(1, &[C(3), M(3, 2), M(3, 4), M(3, 6), M(3, 8)]);
    let merged = |serial| paths::merged(3, Epochs { first: 1, last: 2 }, "count", serial);
    let files = [snap(3, 1), snap(3, 9), merged(4), merged(5)];
    let found = superseded(&log, &files, &live(&[&snap(3, 1)]), RETAINED);
    assert_eq!(found.files, [merged(4)]);
}

#[test]
fn before_its_first_commit_an_attempt_deletes_none_of_its_own_files() {
    let log = log(1, &[C(1), M(1, 2), M(1, 4), M(1, 6), C(3)]);
    let found = superseded(&log, &[snap(3, 1), snap(3, 7), snap(2, 7)], &Live { committed: None, ..live(&[]) }, RETAINED);
    assert_eq!(found.files, [snap(2, 7)]);
}

#[test]
fn what_was_committed_since_it_was_said_what_is_in_use_stays() {
    let log = log(1, &[C(3), M(3, 2), M(3, 4), M(3, 6), M(3, 8)]);
    let found = superseded(&log, &[snap(3, 1), snap(3, 2), snap(3, 3)], &Live { committed: Some(2), ..live(&[]) }, RETAINED);
    assert_eq!(found.files, [snap(3, 1), snap(3, 2)]);
}

#[test]
fn files_of_older_attempts_without_a_manifest_are_garbage_and_those_of_newer_ones_are_not() {
    let log = log(1, &[C(2), C(3), M(3, 4)]);
    let found = superseded(&log, &[snap(1, 9), snap(2, 9), snap(4, 1), snap(3, 3)], &live(&[]), RETAINED);
    assert_eq!(found.files, [snap(1, 9), snap(2, 9)]);
}

#[test]
fn whoever_has_been_overtaken_deletes_nothing() {
    let log = log(1, &[C(3), M(3, 2), M(3, 4), M(3, 6), M(3, 8), C(4)]);
    let found = superseded(&log, &[snap(1, 1)], &live(&[]), RETAINED);
    assert_eq!((found.entries.len(), found.files.len()), (0, 0));
    assert_eq!(found.held.unwrap(), "attempt 4 has taken over");
}

#[test]
fn what_attempts_that_are_over_have_left_unnamed_is_abandoned() {
    let abandoned = |log: &Log| {
        super::abandoned(&Outline::of(log), [snap(1, 1), snap(2, 2), snap(2, 3), snap(3, 3), snap(4, 3)].iter().map(String::as_str), 3)
    };
    // Without a checkpoint all of it, but nothing of the attempt itself and of newer ones.
    assert_eq!(abandoned(&log(1, &[C(1), C(2), C(3)])), [snap(1, 1), snap(2, 2), snap(2, 3)]);
    // A manifest counts, be it as old as it may.
    assert_eq!(abandoned(&log(1, &[C(1), M(1, 1), C(2), M(2, 2), M(2, 3), C(3)])), Vec::<String>::new());
    assert_eq!(abandoned(&log(1, &[C(1), M(1, 1), C(2), C(3)])), [snap(2, 2), snap(2, 3)]);
    // What can't be read may be a manifest.
    assert_eq!(abandoned(&log(1, &[C(1), B, C(3)])), Vec::<String>::new());
}

#[test]
fn without_a_checkpoint_nothing_is_superseded() {
    let found = superseded(&log(1, &[C(1), C(3)]), &[snap(1, 1)], &live(&[]), RETAINED);
    assert_eq!((found.entries.len(), found.files.len()), (0, 0));
}

#[test]
fn while_a_kept_entry_cannot_be_read_no_state_file_goes() {
    let log = log(1, &[C(3), M(3, 2), M(3, 4), B, M(3, 8), M(3, 10)]);
    let found = superseded(&log, &[snap(3, 1), snap(1, 1)], &live(&[]), RETAINED);
    assert_eq!(found.files, Vec::<String>::new());
    assert!(found.held.unwrap().contains(&paths::entry(4)));
    assert_eq!(found.entries, [1, 2].map(paths::entry));
}

#[test]
fn what_lies_below_a_gap_is_left_over() {
    let mut log = log(5, &[M(1, 2), B, M(3, 4), M(3, 6)]);
    log.entries.remove(&6);
    let found = superseded(&log, &[], &live(&[]), RETAINED);
    assert_eq!(found.entries, [5].map(paths::entry));
}

#[test]
fn an_entry_that_came_late_into_a_freed_slot_goes_and_one_above_those_that_are_kept_stays() {
    let log = log(5, &[M(3, 4), M(3, 6), M(3, 8)]);
    let found = superseded(&log, &[2, 3, 6, 9].map(paths::entry), &live(&[]), RETAINED);
    assert_eq!((found.entries, found.kept), ([2, 3].map(paths::entry).into(), 5));
}

#[test]
fn foreign_files_are_named_and_stay() {
    let log = log(1, &[C(3), M(3, 2), M(3, 4), M(3, 6), M(3, 8)]);
    let files = listed(&["notes.txt".into(), "state/3-1/count.state".into(), snap(3, 1)]);
    let found = superseded(&log, &files, &live(&[]), RETAINED);
    assert_eq!((found.foreign, found.files), (files[..2].to_vec(), vec![snap(3, 1)]));
}

/// A file of an epoch for one subtask of `parallelism`, of this size.
fn sized(epoch: u64, subtask: u16, parallelism: u16, bytes: u64) -> StateFile {
    let groups = KeyGroups::of_subtask(subtask, parallelism, 128);
    StateFile { bytes, groups, ..state_file(3, epoch, "count", subtask) }
}

fn lists(parallelism: u16, files: &[StateFile]) -> FileLists {
    let restored: Manifest = manifest(3, 1000, files.to_vec());
    FileLists::new(OWN, parallelism, 128, Some(&restored))
}

fn sizes(merge: &Merge) -> Vec<u64> {
    merge.inputs.iter().map(|file| file.bytes).collect()
}

fn one_lane(sizes: &[u64]) -> Vec<StateFile> {
    sizes.iter().enumerate().map(|(index, &bytes)| sized(index as u64 + 1, 0, 1, bytes)).collect()
}

#[test]
fn up_to_eight_files_are_left_alone() {
    assert_eq!(lists(1, &one_lane(&[100, 10, 10, 10, 10, 10, 10, 10])).next_merge(), None);
}

#[test]
fn files_that_take_far_more_than_the_one_below_them_become_a_base_with_it() {
    assert_eq!(lists(1, &one_lane(&[10, 100, 100])).next_merge(), None);
    assert_eq!(lists(1, &one_lane(&[10, 10, 10, 1])).next_merge(), None);
    let merge = lists(1, &one_lane(&[10, 10, 10, 10])).next_merge().unwrap();
    assert_eq!((sizes(&merge), merge.base), (vec![10; 4], true));
    // The base too, however large what lies between.
    let merge = lists(1, &one_lane(&[10, 500, 1, 1])).next_merge().unwrap();
    assert_eq!((sizes(&merge).len(), merge.base), (4, true));
}

/// However much of its state changes, a checkpoint takes a few times what the state does, and little is written more than twice.
#[test]
fn a_state_that_changes_as_a_whole_takes_four_times_its_bytes_at_most() {
    let (mut lists, mut merged) = (lists(1, &[]), 0);
    for epoch in 1..=100 {
        lists.add("count", &[sized(epoch, 0, 1, 100)]);
        if let Some(merge) = lists.next_merge() {
            let groups = KeyGroups { start: 0, end: 128 };
            let file = StateFile { path: merge.outputs[0].path.clone(), bytes: 100, groups, ..merge.inputs[0].clone() };
            lists
                .finish(Merged {
                    operator: "count".into(),
                    inputs: merge.inputs.into_iter().map(|file| file.path).collect(),
                    files: vec![file],
                })
                .unwrap();
            merged += 1;
        }
        assert!(lists.files("count").len() <= 4);
    }
    assert!(merged <= 34, "{merged}");
}

#[test]
fn nine_equal_files_become_a_base() {
    let merge = lists(1, &one_lane(&[10; 9])).next_merge().unwrap();
    assert_eq!((sizes(&merge), merge.base), (vec![10; 9], true));
    let output = MergeOutput { path: "state/3-9/count.1-9.1.merged.state".into(), groups: KeyGroups { start: 0, end: 128 } };
    assert_eq!(merge.outputs, [output]);
}

#[test]
fn a_large_old_file_is_left_out_until_enough_has_come() {
    let merge = lists(1, &one_lane(&[1000, 10, 10, 10, 10, 10, 10, 10, 10])).next_merge().unwrap();
    assert_eq!((sizes(&merge), merge.base), (vec![10; 8], false));
    let merge = lists(1, &one_lane(&[1000, 400, 20, 20, 20, 20, 20, 20, 100])).next_merge().unwrap();
    assert_eq!((sizes(&merge).len(), merge.base), (9, true));
}

#[test]
fn files_of_different_subtasks_are_merged_apart() {
    let files: Vec<StateFile> = (1..=9).flat_map(|epoch| (0..2).map(move |subtask| sized(epoch, subtask, 2, 10))).collect();
    let mut lists = lists(2, &files);
    let merge = lists.next_merge().unwrap();
    assert_eq!(merge.inputs.len(), 9);
    assert!(merge.inputs.iter().all(|file| file.groups == merge.outputs[0].groups));
    // One at a time.
    assert_eq!(lists.next_merge(), None);
    lists.give_up("count");
    // What has failed comes after all else, and not at once.
    let other = lists.next_merge().unwrap();
    assert_ne!(other.outputs[0].groups, merge.outputs[0].groups);
    lists.give_up("count");
    assert_eq!(lists.next_merge(), None);
    lists.try_again();
    assert_eq!(lists.next_merge().unwrap().inputs, merge.inputs);
}

#[test]
fn there_is_one_merge_at_a_time_of_whatever_operator_the_longest_list_first() {
    let mut lists = lists(1, &one_lane(&[10; 9]));
    lists.add("other", &one_lane(&[10; 11]));
    let first = lists.next_merge().unwrap();
    assert_eq!((first.operator.as_str(), first.inputs.len()), ("other", 11));
    assert_eq!(lists.next_merge(), None);
    let inputs = first.inputs.iter().map(|file| file.path.clone()).collect();
    lists.finish(Merged { operator: "other".into(), inputs, files: vec![sized(11, 0, 1, 110)] }).unwrap();
    assert_eq!(lists.next_merge().unwrap().operator, "count");
}

#[test]
fn a_merge_that_fails_each_time_keeps_no_other_from_its_turn() {
    let mut lists = lists(1, &one_lane(&[10; 9]));
    lists.add("damaged", &one_lane(&[10; 11]));
    for operator in ["damaged", "count"] {
        assert_eq!(lists.next_merge().unwrap().operator, operator);
        lists.give_up(operator);
    }
    assert_eq!(lists.next_merge(), None, "until there is another checkpoint");
    lists.try_again();
    assert_eq!(lists.next_merge().unwrap().operator, "damaged");
}

#[test]
fn a_finished_merge_takes_the_place_of_its_inputs() {
    let mut files = one_lane(&[1000, 10, 10, 10, 10, 10, 10, 10, 10]);
    let mut lists = lists(1, &files);
    let merge = lists.next_merge().unwrap();
    let newer = sized(10, 0, 1, 7);
    lists.add("count", std::slice::from_ref(&newer));
    assert!(lists.live(None).paths.contains(&merge.outputs[0].path), "its output is in use before it is there");
    let path = merge.outputs[0].path.clone();
    let file = StateFile { path: path.clone(), epochs: Epochs { first: 2, last: 9 }, ..sized(9, 0, 1, 80) };
    let inputs = merge.inputs.iter().map(|file| file.path.clone()).collect();
    let merged = Merged { operator: "count".into(), inputs, files: vec![file.clone()] };
    lists.finish(merged.clone()).unwrap();
    assert_eq!(lists.files("count"), [files.remove(0), file, newer]);
    assert_eq!(lists.finish(merged).unwrap_err().kind(), Kind::Internal);
}

#[test]
fn what_is_written_anew_leaves_nothing_of_before_not_even_by_a_merge_under_way() {
    let mut lists = lists(1, &one_lane(&[10; 9]));
    let merge = lists.next_merge().unwrap();
    lists.begin_afresh("count");
    assert!(lists.files("count").is_empty());
    let newer = sized(10, 0, 1, 7);
    lists.add("count", std::slice::from_ref(&newer));
    let inputs = merge.inputs.iter().map(|file| file.path.clone()).collect();
    lists.finish(Merged { operator: "count".into(), inputs, files: vec![sized(9, 0, 1, 80)] }).unwrap();
    assert_eq!(lists.files("count"), [newer]);
    // Another one that has failed in vain.
    (11..19).for_each(|epoch| lists.add("count", &[sized(epoch, 0, 1, 7)]));
    lists.next_merge().unwrap();
    lists.begin_afresh("count");
    lists.give_up("count");
    lists.add("count", &one_lane(&[10; 9]));
    assert_eq!(lists.next_merge().unwrap().inputs.len(), 9);
}

#[test]
fn after_a_change_of_parallelism_all_becomes_a_base_in_the_new_ranges() {
    let old = (1..=4).flat_map(|epoch| (0..3).map(move |subtask| sized(epoch, subtask, 3, 10)));
    let new = (5..=9).flat_map(|epoch| (0..2).map(move |subtask| sized(epoch, subtask, 2, 10)));
    let files: Vec<StateFile> = old.chain(new).collect();
    let merge = lists(2, &files).next_merge().unwrap();
    assert_eq!((merge.inputs.len(), merge.base), (files.len(), true));
    let groups: Vec<KeyGroups> = merge.outputs.iter().map(|output| output.groups).collect();
    assert_eq!(groups, [KeyGroups { start: 0, end: 64 }, KeyGroups { start: 64, end: 128 }]);
    assert_ne!(merge.outputs[0].path, merge.outputs[1].path);
}

/// However many files there are, a merge reads no more than it may have open, the oldest, and those after it the rest. Meanwhile the
/// order stays as it is.
#[test]
fn very_many_files_are_merged_a_part_at_a_time() {
    // Of one subtask, where merges have fallen behind; and of many, of which there is now one.
    for (before, epochs) in [(1, 600), (100, 20)] {
        let old = (1..epochs).flat_map(|epoch| (0..before).map(move |subtask| sized(epoch, subtask, before, 10)));
        let files: Vec<StateFile> = old.chain([sized(epochs, 0, 1, 10)]).collect();
        let tells = |file: &StateFile| (file.groups.start..file.groups.end).map(|group| (group, vec![file.epochs.last])).collect();
        let mut content: Told = files.iter().map(|file| (file.path.clone(), tells(file))).collect();
        let mut lists = lists(1, &files);
        let mut merges = 0;
        while let Some(merge) = lists.next_merge() {
            assert!(merge.inputs.len() <= 256, "{}", merge.inputs.len());
            lists.finish(run_merge(&merge, &mut content)).unwrap();
            for group in 0..128 {
                assert_eq!(told(&content, &lists, group), (1..=epochs).collect::<Vec<_>>());
            }
            merges += 1;
            assert!(merges < 20);
        }
        let at = |group: u16| lists.files("count").iter().filter(|file| file.groups.contains(group)).count();
        assert!(merges > 1 && (0..128).all(|group| at(group) <= MAX_FILES), "{merges}");
    }
}

/// Each merge leaves fewer files than it reads, however many it writes.
#[test]
fn more_subtasks_than_a_merge_reads_files_redivide_what_fewer_have_left() {
    const MOST: u16 = 32_768;
    let file = |epoch, subtask, parallelism| {
        let groups = KeyGroups::of_subtask(subtask, parallelism, MOST);
        StateFile { groups, ..state_file(3, epoch, "count", subtask) }
    };
    let old: Vec<StateFile> = (1..=8).flat_map(|epoch| (0..200).map(move |subtask| file(epoch, subtask, 200))).collect();
    let mut lists = FileLists::new(OWN, 307, MOST, Some(&manifest(3, 1000, old)));
    (0..307).for_each(|subtask| lists.add("count", &[file(9, subtask, 307)]));
    let mut count = lists.files("count").len();
    while let Some(Merge { operator, inputs, outputs, .. }) = lists.next_merge() {
        let made = |output: MergeOutput| StateFile { path: output.path, groups: output.groups, ..inputs[0].clone() };
        let files = outputs.into_iter().map(made).collect();
        lists.finish(Merged { operator, inputs: inputs.iter().map(|file| file.path.clone()).collect(), files }).unwrap();
        assert!(lists.files("count").len() < count);
        count = lists.files("count").len();
    }
    assert!(count <= 307 * MAX_FILES, "{count}");
}

#[test]
fn files_that_the_attempt_has_brought_along_share_no_path_with_merged_ones() {
    let mut files = one_lane(&[10; 9]);
    files[0].path = paths::merged(OWN.attempt, Epochs::only(1), "count", 7);
    let mut lists = lists(1, &files);
    assert_eq!(lists.next_merge().unwrap().outputs[0].path, "state/3-9/count.1-9.8.merged.state");
}

/// For each file, which epochs it tells of a key group, in order.
type Told = BTreeMap<String, BTreeMap<u16, Vec<u64>>>;

fn told(told: &Told, lists: &FileLists, group: u16) -> Vec<u64> {
    let files = lists.files("count").iter().filter(|file| file.groups.contains(group));
    files.flat_map(|file| told[&file.path].get(&group).cloned().unwrap_or_default()).collect()
}

fn run_merge(merge: &Merge, told: &mut Told) -> Merged {
    let mut files = Vec::new();
    for output in &merge.outputs {
        let mut content: BTreeMap<u16, Vec<u64>> = BTreeMap::new();
        for group in output.groups.start..output.groups.end {
            let inputs = merge.inputs.iter().filter(|input| input.groups.contains(group));
            content.insert(group, inputs.flat_map(|input| told[&input.path][&group].clone()).collect());
        }
        told.insert(output.path.clone(), content);
        let epochs = merge.inputs.iter().skip(1).fold(merge.inputs[0].epochs, |all, input| all.union(input.epochs));
        let bytes = merge.inputs.iter().map(|input| input.bytes).sum::<u64>() / merge.outputs.len() as u64;
        let (path, groups) = (output.path.clone(), output.groups);
        files.push(StateFile { path, groups, epochs, bytes, base: merge.base, ..state_file(3, 1, "count", 0) });
    }
    Merged { operator: merge.operator.clone(), inputs: merge.inputs.iter().map(|file| file.path.clone()).collect(), files }
}

proptest! {
    /// Whatever is merged when, every key group is told every epoch once and in order, a base begins with the first, and the number of
    /// files for a key group stays small.
    #[test]
    fn merging_keeps_every_epoch_of_every_key_group_in_order(
        steps in proptest::collection::vec((1u16..6, 1u64..5000, 0u8..4), 1..120),
    ) {
        let mut lists = lists(steps[0].0, &[]);
        let mut content = Told::new();
        let mut running: Option<Merge> = None;
        let mut parallelism = steps[0].0;
        for (epoch, (wanted, bytes, what)) in (1u64..).zip(steps) {
            // Seldom a change of parallelism, as after a restart.
            if what == 0 && epoch % 7 == 0 {
                parallelism = wanted;
                let files = lists.files("count").to_vec();
                lists = FileLists::new(AttemptId { attempt: OWN.attempt + epoch as u32, ..OWN }, parallelism, 128, Some(&manifest(3, 1000, files)));
                running = None;
            }
            for subtask in 0..parallelism {
                let file = sized(epoch, subtask, parallelism, bytes * u64::from(subtask + 1));
                let groups = file.groups.start..file.groups.end;
                content.insert(file.path.clone(), groups.map(|group| (group, vec![epoch])).collect());
                lists.add("count", &[file]);
            }
            // A merge may take until after the next commits.
            if what > 1 && let Some(merge) = running.take() {
                let merged = run_merge(&merge, &mut content);
                lists.finish(merged).unwrap();
            }
            if running.is_none() {
                running = lists.next_merge();
            }
            for group in [0, 1, 25, 26, 42, 43, 63, 64, 100, 127] {
                prop_assert_eq!(told(&content, &lists, group), (1..=epoch).collect::<Vec<_>>());
                let files: Vec<&StateFile> = lists.files("count").iter().filter(|file| file.groups.contains(group)).collect();
                prop_assert!(files.len() < 40, "{} files for key group {}", files.len(), group);
                for file in files.iter().filter(|file| file.base) {
                    prop_assert_eq!(content[&file.path][&group][0], 1);
                }
            }
        }
    }
}
