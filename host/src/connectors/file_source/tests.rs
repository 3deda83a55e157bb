//! Tests of the file source against a naive reading of the same bytes.

use std::fs;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::connectors::MAX_LINE;
use crate::record::Batch;

/// The records of a file, the naive way.
fn oracle(content: &[u8], skip_lines: usize) -> Vec<Vec<u8>> {
    let mut lines: Vec<&[u8]> = content.split(|&byte| byte == b'\n').collect();
    let last = lines.pop().unwrap_or_default();
    let whole = lines.into_iter().map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let all = whole.chain((!last.is_empty()).then_some(last));
    all.skip(skip_lines).map(<[u8]>::to_vec).collect()
}

fn directory(files: &[(&str, &[u8])]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (name, content) in files {
        fs::write(dir.path().join(name), content).unwrap();
    }
    dir
}

/// Reads a split from `position` to its end; the records, and the position after each read.
fn read(source: &FileSource, split: &str, position: &Position, sizes: &[(usize, usize)]) -> Result<(Vec<Vec<u8>>, Vec<Position>)> {
    let mut reader = source.open(split, position)?;
    // A record before it, to see that what is there stays.
    let mut batch = Batch::default();
    batch.values.push("é".as_bytes());
    let mut positions = vec![reader.position()];
    for &(max_records, max_bytes) in sizes.iter().cycle() {
        if reader.position().ended {
            break;
        }
        let before = batch.len();
        reader.read(&mut batch, max_records, max_bytes)?;
        assert!(batch.len() - before <= max_records);
        assert!(batch.len() > before || reader.position().ended, "a read without progress");
        positions.push(reader.position());
    }
    assert_eq!(batch.values.get(0), "é".as_bytes());
    Ok((batch.values.iter().skip(1).map(<[u8]>::to_vec).collect(), positions))
}

/// Content of short lines, with all kinds of line ends.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![Just("\n"), Just("\r\n"), Just("\r"), Just("a"), Just("é"), Just("日本"), Just("some longer words")];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat().into_bytes())
}

/// Lines and pieces of lines, some of which are text only together.
fn broken_piece() -> impl Strategy<Value = &'static [u8]> {
    prop::sample::select(vec![&b"\n"[..], b"\xc3", b"\xa9", b"a\n", b"\r"])
}

proptest! {
    #[test]
    fn records_are_the_lines_and_each_position_leads_to_the_rest(
        content in content(), skip_lines in 0usize..4, sizes in prop::collection::vec((1usize..6, 0usize..30), 1..4),
    ) {
        let dir = directory(&[("in.txt", &content)]);
        let source = FileSource::new("lines", dir.path(), skip_lines as u64);
        let expected = oracle(&content, skip_lines);
        let (records, positions) = read(&source, "in.txt", &Position::default(), &sizes).unwrap();
        prop_assert_eq!(&records, &expected);
        prop_assert!(positions.last().unwrap().ended);
        prop_assert_eq!(positions.last().unwrap().offset, content.len() as u64);
        for position in positions {
            let (rest, _) = read(&source, "in.txt", &position, &sizes).unwrap();
            prop_assert_eq!(&rest, &expected[position.records as usize..]);
        }
    }

    #[test]
    fn the_first_line_that_is_not_text_is_named(
        pieces in prop::collection::vec(broken_piece(), 0..30),
        skip_lines in 0usize..3, sizes in prop::collection::vec((1usize..6, 0usize..5), 1..3),
    ) {
        let content = pieces.concat();
        let dir = directory(&[("in.txt", &content)]);
        let source = FileSource::new("lines", dir.path(), skip_lines as u64);
        let bad = oracle(&content, skip_lines).iter().position(|line| std::str::from_utf8(line).is_err());
        let result = read(&source, "in.txt", &Position::default(), &sizes);
        match bad {
            None => prop_assert!(result.is_ok()),
            Some(record) => {
                let error = result.unwrap_err();
                let place = format!("in.txt:{}: the line is not UTF-8 text", skip_lines + record + 1);
                prop_assert!(error.message().ends_with(&place), "{} for {}", error.message(), place);
                prop_assert_eq!(error.kind(), Kind::Job);
            }
        }
    }
}

#[test]
fn lines_longer_than_the_buffer_are_read() {
    let content = [vec![b'a'; 700_000], b"\r\n".to_vec(), vec![b'b'; 262_143], b"\nlast".to_vec()].concat();
    let dir = directory(&[("in.txt", &content)]);
    let source = FileSource::new("lines", dir.path(), 0);
    let (records, positions) = read(&source, "in.txt", &Position::default(), &[(1, 1)]).unwrap();
    assert_eq!(records, oracle(&content, 0));
    assert_eq!(positions[1].offset, 700_002);
}

#[test]
fn the_longest_line_is_read_and_a_longer_one_is_named() {
    let longest = vec![b'a'; MAX_LINE as usize];
    for (end, more, fits) in
        [("\r\n", "", true), ("\n", "", true), ("", "", true), ("\n", "a", false), ("", "aaaa", false), ("\r\n", "a", false)]
    {
        let dir = directory(&[("in.txt", &[b"first\n", longest.as_slice(), more.as_bytes(), end.as_bytes()].concat())]);
        let source = FileSource::new("lines", &dir.path().join("in.txt"), 0);
        let result = read(&source, "in.txt", &Position::default(), &[(10, 10)]);
        if fits {
            assert!(result.unwrap().0[1] == longest);
        } else {
            let error = result.unwrap_err();
            assert!(error.message().ends_with("in.txt:2: the line is longer than 16 MiB"), "{}", error.message());
        }
    }
}

#[test]
fn splits_are_the_visible_regular_files_by_name() {
    let dir = directory(&[("b.txt", b"1\n"), ("a.txt", b""), (".hidden", b"2\n"), ("B", b"3")]);
    fs::create_dir(dir.path().join("folder")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(dir.path().join(".hidden"), dir.path().join("link")).unwrap();
    let expected = if cfg!(unix) { vec!["B", "a.txt", "b.txt", "link"] } else { vec!["B", "a.txt", "b.txt"] };
    let source = FileSource::new("lines", dir.path(), 0);
    assert_eq!(source.splits().unwrap(), expected);
    let (records, positions) = read(&source, "a.txt", &Position::default(), &[(1, 1)]).unwrap();
    assert_eq!((records.len(), positions.last()), (0, Some(&Position { ended: true, ..Position::default() })));
    assert_eq!(FileSource::new("lines", &dir.path().join(".hidden"), 0).splits().unwrap(), [".hidden"]);
}

#[test]
fn what_can_not_be_read_is_named_when_the_job_is_validated() {
    let dir = directory(&[(".hidden", b"")]);
    let mut wrong = vec![(dir.path().join("missing"), "can't be read: "), (dir.path().into(), "has no files")];
    if cfg!(unix) {
        wrong.push(("/dev/null".into(), "is no regular file"));
    }
    for (path, what) in wrong {
        let error = FileSource::new("lines", &path, 0).splits().unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
        assert!(error.message().starts_with(&format!("source `lines`: {}: {what}", path.display())), "{}", error.message());
        assert!(error.help_text().is_some());
    }
}

#[cfg(unix)]
#[test]
fn a_file_whose_name_is_not_text_or_that_leads_nowhere_is_not_passed_over() {
    use std::os::unix::ffi::OsStrExt;
    let dir = directory(&[("a", b"")]);
    std::os::unix::fs::symlink("nowhere", dir.path().join("link")).unwrap();
    let source = FileSource::new("lines", dir.path(), 0);
    assert!(source.splits().unwrap_err().message().contains("link: can't be read"));
    fs::remove_file(dir.path().join("link")).unwrap();
    fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"\xff")), b"").unwrap();
    assert!(source.splits().unwrap_err().message().ends_with("its name is not UTF-8"));
}

#[test]
fn a_file_that_was_changed_is_not_taken_for_the_one_that_was_read() {
    let dir = directory(&[("in.txt", b"one\ntwo\nthree")]);
    let source = FileSource::new("lines", dir.path(), 0);
    let at = |offset| Position { offset, records: 1, ended: false };
    let refused = |offset, what: &str| {
        let Err(error) = source.open("in.txt", &at(offset)) else { panic!("{offset} was accepted") };
        assert_eq!(error.kind(), Kind::Checkpoint);
        assert!(error.message().contains("in.txt: the file was changed") && error.message().contains(what), "{}", error.message());
    };
    refused(14, "it has 13 bytes, and 14 had been read");
    refused(5, "no line begins at byte 5");
    // Had the last line been read, the split would have ended.
    refused(13, "no line begins at byte 13");
    assert!(source.open("in.txt", &at(8)).is_ok());
}

#[test]
fn a_file_that_is_changed_before_its_first_read_is_refused_then() {
    let dir = directory(&[("in.txt", b"one\ntwo\nthree")]);
    let source = FileSource::new("lines", dir.path(), 0);
    let position = Position { offset: 8, records: 2, ended: false };
    for (content, what) in [("one\n", "it has 4 bytes, and 8 had been read"), ("one, two, three", "no line begins at byte 8")] {
        fs::write(dir.path().join("in.txt"), "one\ntwo\nthree").unwrap();
        let mut reader = source.open("in.txt", &position).unwrap();
        fs::write(dir.path().join("in.txt"), content).unwrap();
        let error = reader.read(&mut Batch::default(), 1, 1).unwrap_err();
        assert_eq!(error.kind(), Kind::Checkpoint);
        assert!(error.message().contains("in.txt: the file was changed") && error.message().contains(what), "{}", error.message());
    }
    for position in [position, Position::default()] {
        fs::write(dir.path().join("in.txt"), "one\ntwo\nthree").unwrap();
        let mut reader = source.open("in.txt", &position).unwrap();
        fs::remove_file(dir.path().join("in.txt")).unwrap();
        let error = reader.read(&mut Batch::default(), 1, 1).unwrap_err();
        assert!(error.kind() == Kind::Storage && error.message().contains("in.txt: can't be read"), "{}", error.message());
    }
}

/// How many files in a directory this process has open.
#[cfg(target_os = "linux")]
fn open_files(dir: &TempDir) -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    links.filter(|link| link.starts_with(dir.path())).count()
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_is_open_from_its_first_read_to_its_end_only() {
    let dir = directory(&[]);
    let content = b"one\ntwo\n";
    // More than a process may usually open.
    let names: Vec<String> = (0..1500).map(|number| number.to_string()).collect();
    names.iter().for_each(|name| fs::write(dir.path().join(name), content).unwrap());
    let source = FileSource::new("lines", dir.path(), 0);
    let middle = Position { offset: 4, records: 1, ended: false };
    let positions = [Position::default(), middle];
    let opened = names.iter().zip(positions.iter().cycle()).map(|(name, position)| source.open(name, position).unwrap());
    let mut readers: Vec<_> = opened.collect();
    assert_eq!(open_files(&dir), 0);
    for reader in &mut readers[..3] {
        reader.read(&mut Batch::default(), 1, 100).unwrap();
    }
    assert_eq!(open_files(&dir), 3);
    let mut records = 3;
    for reader in &mut readers {
        let mut batch = Batch::default();
        while !reader.position().ended {
            reader.read(&mut batch, 10, 100).unwrap();
        }
        records += batch.len();
        assert!(open_files(&dir) <= 2);
    }
    assert_eq!((records, open_files(&dir)), (750 * 2 + 750, 0));
    assert_eq!(source.read_in_turn(), 1);
}

#[test]
fn a_split_that_had_ended_is_not_looked_for() {
    let ended = Position { offset: 77, records: 9, ended: true };
    let dir = directory(&[("other.txt", b"1\n"), ("in.txt", b"changed since, and longer\n")]);
    // Neither the file, nor the directory; and another file, or one that can't be read any more, in its place.
    for (path, split) in [
        (dir.path().to_path_buf(), "gone.txt"),
        (dir.path().to_path_buf(), "in.txt"),
        (dir.path().join("gone"), "in.txt"),
        (dir.path().join("other.txt"), "in.txt"),
        (dir.path().join("other.txt/below"), "in.txt"),
    ] {
        let source = FileSource::new("lines", &path, 1);
        let (records, positions) = read(&source, split, &ended, &[(1, 1)]).unwrap();
        assert_eq!((records.len(), positions.as_slice()), (0, &[ended.clone()][..]), "{}", path.display());
    }
}

#[test]
fn a_split_that_is_gone_is_an_error_unless_it_had_ended() {
    let dir = directory(&[("in.txt", b"one\n")]);
    let source = FileSource::new("lines", dir.path(), 0);
    let Err(error) = source.open("gone.txt", &Position::default()) else { panic!("it is not there") };
    assert!(error.kind() == Kind::Storage && error.message().contains("gone.txt: can't be read"), "{}", error.message());
    let ended = Position { offset: 77, records: 9, ended: true };
    let (records, positions) = read(&source, "gone.txt", &ended, &[(1, 1)]).unwrap();
    assert_eq!((records.len(), &positions[0]), (0, &ended));
    for split in ["../in.txt", "", ".", "..", "in.txt/", "/in.txt"] {
        assert!(source.open(split, &Position::default()).is_err(), "{split}");
    }
    let single = FileSource::new("lines", &dir.path().join("in.txt"), 0);
    assert!(single.open("in.txt", &Position::default()).is_ok());
    assert!(single.open("other.txt", &Position::default()).is_err());
}

#[test]
fn a_header_alone_is_a_split_that_has_ended() {
    for header in ["name,count", "name,count\n"] {
        let dir = directory(&[("in.csv", header.as_bytes())]);
        let source = FileSource::new("lines", dir.path(), 1);
        let (records, positions) = read(&source, "in.csv", &Position::default(), &[(1, 1)]).unwrap();
        let ended = Position { offset: header.len() as u64, records: 0, ended: true };
        assert_eq!((records.len(), positions), (0, vec![Position::default(), ended]));
    }
}
