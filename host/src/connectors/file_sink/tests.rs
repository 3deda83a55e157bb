//! Tests of the file sink: what readers see at every point at which the host may crash.

use tempfile::TempDir;

use super::*;
use crate::record::Batch;

fn attempt(attempt: u32) -> AttemptId {
    AttemptId { run: 1, attempt }
}

fn batch(values: &[&str]) -> Batch {
    Batch { values: values.iter().map(|value| value.as_bytes()).collect(), ..Batch::default() }
}

/// A sink made ready for attempt 1, in a directory that did not exist before.
fn ready() -> (TempDir, PathBuf, FileSink) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("some/out");
    let sink = FileSink::new("out", &path);
    sink.prepare(attempt(1), false).unwrap();
    (dir, path, sink)
}

fn stage(sink: &FileSink, attempt: AttemptId, subtask: u16, epoch: u64, values: &[&str]) -> Vec<Staged> {
    let mut writer = sink.open(attempt, subtask).unwrap();
    writer.write(&batch(values)).unwrap();
    writer.stage(epoch).unwrap()
}

/// Names and contents in a directory, without hidden ones.
fn visible(dir: &Path) -> Vec<(String, String)> {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()).collect();
    files.sort_by_key(|entry| entry.file_name());
    let named = files.into_iter().map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
    named.filter(|(name, _)| !name.starts_with('.')).map(|(name, path)| (name, fs::read_to_string(path).unwrap())).collect()
}

fn staging(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir.join(STAGING)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn records_are_seen_as_lines_once_published_and_not_before() {
    let (_guard, dir, sink) = ready();
    let mut writer = sink.open(attempt(1), 3).unwrap();
    writer.write(&batch(&["one", "", "two"])).unwrap();
    writer.write(&batch(&["three"])).unwrap();
    assert!(visible(&dir).is_empty());
    let staged = writer.stage(7).unwrap();
    assert!(visible(&dir).is_empty());
    let expected = Staged {
        from: ".staging/out-0001-0001-00000007-00003.txt".into(),
        to: "part-out-0001-00000007-00003.txt".into(),
        bytes: 15,
        records: 4,
    };
    assert_eq!(staged, [expected]);
    sink.publish(&staged, false).unwrap();
    assert_eq!(visible(&dir), [("part-out-0001-00000007-00003.txt".into(), "one\n\ntwo\nthree\n".into())]);
    assert!(staging(&dir).is_empty());
}

#[test]
fn an_epoch_without_records_stages_nothing_and_the_next_one_only_its_own() {
    let (_guard, dir, sink) = ready();
    let mut writer = sink.open(attempt(1), 0).unwrap();
    assert!(writer.stage(1).unwrap().is_empty());
    writer.write(&batch(&[])).unwrap();
    assert!(writer.stage(2).unwrap().is_empty() && staging(&dir).is_empty());
    writer.write(&batch(&["a"])).unwrap();
    let third = writer.stage(3).unwrap();
    writer.write(&batch(&["b"])).unwrap();
    let fourth = writer.stage(4).unwrap();
    sink.publish(&[third, fourth].concat(), false).unwrap();
    let contents: Vec<_> = visible(&dir).into_iter().map(|(_, content)| content).collect();
    assert_eq!(contents, ["a\n", "b\n"]);
}

#[test]
fn publication_goes_on_after_a_crash_at_any_point() {
    // Files 0 to `renamed` were renamed when the host crashed; then all is published again, and again.
    for renamed in 0..=3 {
        let (_guard, dir, sink) = ready();
        let staged: Vec<_> = (0..3).flat_map(|subtask| stage(&sink, attempt(1), subtask, 1, &["x"])).collect();
        for file in &staged[..renamed] {
            fs::rename(dir.join(&file.from), dir.join(&file.to)).unwrap();
        }
        let after = FileSink::new("out", &dir);
        after.publish(&staged, true).unwrap();
        after.prepare(attempt(2), true).unwrap();
        after.publish(&staged, true).unwrap();
        fs::remove_dir(dir.join(STAGING)).unwrap();
        after.publish(&staged, true).unwrap();
        assert_eq!(visible(&dir).len(), 3);
        assert!(visible(&dir).iter().all(|(_, content)| content == "x\n"));
    }
}

#[test]
fn a_new_attempt_removes_what_older_ones_left_and_nothing_else() {
    let (_guard, dir, sink) = ready();
    let other = FileSink::new("out-0001", &dir);
    other.prepare(attempt(1), false).unwrap();
    let others = stage(&other, attempt(1), 0, 1, &["theirs"]);
    let later = stage(&sink, attempt(5), 0, 1, &["from an attempt to come"]);
    let old_run = stage(&sink, AttemptId { run: 0, attempt: 1 }, 0, 1, &["of another run"]);
    fs::write(dir.join(STAGING).join("notes.txt"), "a stranger's").unwrap();
    fs::write(dir.join("README"), "a stranger's").unwrap();
    let published = stage(&sink, attempt(1), 0, 1, &["kept"]);
    sink.publish(&published, false).unwrap();
    stage(&sink, attempt(1), 0, 2, &["staged, never committed"]);
    stage(&sink, attempt(2), 0, 2, &["staged, never committed"]);
    for attempt in [attempt(2), AttemptId { run: 0, attempt: 9 }] {
        let mut writer = sink.open(attempt, 1).unwrap();
        writer.write(&batch(&["never staged"])).unwrap();
        std::mem::forget(writer); // as a crash does
    }
    assert_eq!(staging(&dir).len(), 8);

    sink.prepare(attempt(3), true).unwrap();
    let mut kept: Vec<String> = [others, later, old_run].concat().into_iter().map(|file| file.from.replace(".staging/", "")).collect();
    kept.push("notes.txt".into());
    kept.sort();
    assert_eq!(staging(&dir), kept);
    let names: Vec<_> = visible(&dir).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["README", "part-out-0001-00000001-00000.txt"]);
}

#[test]
fn the_same_epoch_of_two_attempts_is_kept_apart_until_one_is_published() {
    let (_guard, dir, sink) = ready();
    let zombie = stage(&sink, attempt(1), 0, 5, &["zombie"]);
    let current = stage(&sink, attempt(2), 0, 5, &["current"]);
    sink.publish(&current, false).unwrap();
    // Were the zombie to publish in spite of the fence, it would replace nothing.
    let error = sink.publish(&zombie, false).unwrap_err();
    assert!(error.message().contains("never replaced"), "{}", error.message());
    assert_eq!(visible(&dir)[0].1, "current\n");
}

#[test]
fn a_reader_may_have_taken_away_what_was_published_before_a_crash() {
    let (_guard, dir, sink) = ready();
    let staged: Vec<_> = (0..3).flat_map(|subtask| stage(&sink, attempt(1), subtask, 1, &["x"])).collect();
    fs::rename(dir.join(&staged[0].from), dir.join(&staged[0].to)).unwrap();
    fs::rename(dir.join(&staged[1].from), dir.join("taken away")).unwrap();
    sink.publish(&staged, true).unwrap();
    let names: Vec<_> = visible(&dir).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [staged[0].to.as_str(), &staged[2].to, "taken away"]);
}

#[test]
fn a_rename_that_another_process_was_first_with_is_accepted() {
    let (_guard, dir, sink) = ready();
    let staged = stage(&sink, attempt(1), 0, 1, &["x"]).remove(0);
    let (from, to) = (dir.join(&staged.from), dir.join(&staged.to));
    // Both have seen it staged and not published; then the other one renames it.
    fs::rename(&from, &to).unwrap();
    sink.rename(&staged, &from, &to, false).unwrap();
    assert_eq!(visible(&dir), [(staged.to.clone(), "x\n".into())]);
    fs::write(&to, "longer").unwrap();
    let error = sink.rename(&staged, &from, &to, false).unwrap_err();
    assert!(error.message().contains("has 6 bytes, and 2 were staged"), "{}", error.message());
    fs::remove_file(&to).unwrap();
    assert!(sink.rename(&staged, &from, &to, false).unwrap_err().message().contains("is gone, nor is it published"));
    sink.rename(&staged, &from, &to, true).unwrap();
    // Not found may also be where it should go to.
    fs::write(&from, "x\n").unwrap();
    let error = sink.rename(&staged, &from, &dir.join("gone/x"), true).unwrap_err();
    assert!(error.message().contains("gone/x: can't publish it"), "{}", error.message());
}

#[test]
fn two_processes_may_publish_the_same_checkpoint_at_once() {
    let (_guard, dir, sink) = ready();
    let staged: Vec<_> = (0..300).flat_map(|subtask| stage(&sink, attempt(1), subtask, 1, &["x"])).collect();
    std::thread::scope(|scope| {
        let publish = || FileSink::new("out", &dir).publish(&staged, false);
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(publish)).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    });
    assert_eq!(visible(&dir).len(), 300);
    assert!(staging(&dir).is_empty());
}

#[test]
fn staged_output_that_is_gone_or_was_changed_is_named() {
    let (_guard, dir, sink) = ready();
    let staged = stage(&sink, attempt(1), 0, 1, &["x"]);
    fs::write(dir.join(&staged[0].from), "longer").unwrap();
    let error = sink.publish(&staged, false).unwrap_err();
    assert!(error.message().contains("has 6 bytes, and 2 were staged"), "{}", error.message());
    fs::remove_file(dir.join(&staged[0].from)).unwrap();
    let error = sink.publish(&staged, false).unwrap_err();
    assert_eq!(error.kind(), Kind::Storage);
    assert!(error.message().contains("sink `out`") && error.message().contains("is gone"), "{}", error.message());
    fs::write(dir.join(&staged[0].to), "longer").unwrap();
    assert!(sink.publish(&staged, false).unwrap_err().message().contains("has 6 bytes, and 2 were staged"));
}

#[test]
fn a_path_that_leads_out_of_the_directory_is_refused() {
    let (_guard, _dir, sink) = ready();
    for path in ["../x", "/etc/x", "", "a/../../x", "."] {
        let staged = Staged { from: path.into(), to: "x".into(), bytes: 0, records: 0 };
        assert!(sink.publish(&[staged], false).unwrap_err().message().contains("is no path in it"), "{path}");
    }
}

#[test]
fn files_of_a_run_of_the_same_number_are_found_before_anything_is_written() {
    let (_guard, dir, sink) = ready();
    sink.publish(&stage(&sink, attempt(1), 0, 1, &["x"]), false).unwrap();
    for number in [1, 2] {
        let error = sink.prepare(attempt(number), false).unwrap_err();
        assert!(error.message().ends_with("part-out-0001-00000001-00000.txt: is there already, and published files are never replaced"));
    }
    sink.prepare(attempt(2), true).unwrap();
    sink.prepare(AttemptId { run: 2, attempt: 1 }, false).unwrap();
    FileSink::new("other", &dir).prepare(attempt(1), false).unwrap();

    // What a crashed run of that number was writing is of no use to anyone; what it had staged may be.
    let mut writer = sink.open(attempt(2), 0).unwrap();
    writer.write(&batch(&["x"])).unwrap();
    std::mem::forget(writer);
    sink.prepare(attempt(2), true).unwrap();
    assert!(staging(&dir).is_empty());
    stage(&sink, attempt(2), 0, 2, &["x"]);
    assert!(sink.prepare(attempt(2), true).unwrap_err().message().contains("though this attempt has written nothing yet"));
}

#[test]
fn a_name_that_is_taken_is_found_when_staging_not_after_the_commit() {
    let (_guard, dir, sink) = ready();
    fs::write(dir.join("part-out-0001-00000001-00000.txt"), "theirs").unwrap();
    let mut writer = sink.open(attempt(2), 0).unwrap();
    writer.write(&batch(&["x"])).unwrap();
    assert!(writer.stage(1).unwrap_err().message().contains("never replaced"));
    assert!(staging(&dir).is_empty());
    assert_eq!(visible(&dir)[0].1, "theirs");
}

#[test]
fn after_an_error_a_writer_stages_nothing_more() {
    let (_guard, dir, sink) = ready();
    let mut writer = sink.open(attempt(1), 0).unwrap();
    fs::remove_dir(dir.join(STAGING)).unwrap();
    let first = writer.write(&batch(&["lost"])).unwrap_err();
    assert_eq!(first.kind(), Kind::Storage);
    assert!(first.message().contains("sink `out`") && first.message().contains(".staging/out-0001-0001-open-00000.txt"));
    fs::create_dir(dir.join(STAGING)).unwrap();
    for error in [writer.write(&batch(&["later"])).unwrap_err(), writer.write(&batch(&[])).unwrap_err(), writer.stage(1).unwrap_err()] {
        assert_eq!(error.message(), first.message());
    }
    assert!(staging(&dir).is_empty());
}

#[test]
fn two_writers_of_one_file_are_told_apart_and_a_dropped_one_leaves_nothing() {
    let (_guard, dir, sink) = ready();
    let mut one = sink.open(attempt(1), 0).unwrap();
    one.write(&batch(&["x"])).unwrap();
    let mut two = sink.open(attempt(1), 0).unwrap();
    assert!(two.write(&batch(&["y"])).unwrap_err().message().contains("another job writes"));
    drop(two);
    assert_eq!(staging(&dir).len(), 1);
    drop(one);
    assert!(staging(&dir).is_empty());
}

#[test]
fn an_epoch_is_staged_once() {
    let (_guard, _dir, sink) = ready();
    let mut writer = sink.open(attempt(1), 0).unwrap();
    writer.stage(2).unwrap();
    assert_eq!(writer.stage(2).unwrap_err().kind(), Kind::Internal);
}

#[test]
fn a_directory_that_can_not_be_made_is_named() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    for path in [dir.path().join("file"), dir.path().join("file/below")] {
        let error = FileSink::new("out", &path).prepare(attempt(1), false).unwrap_err();
        assert_eq!(error.kind(), Kind::Storage);
        assert!(error.message().starts_with(&format!("sink `out`: {}: can't make the directory", path.display())), "{}", error.message());
    }
    let error = FileSink::new("out", &dir.path().join("missing")).publish(&[], false);
    assert!(error.is_ok());
}
