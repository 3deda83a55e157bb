//! Tests of the generator of words: the lines are a contract, since benchmarks and expected outputs are made of them.

use proptest::prelude::*;

use super::*;
use crate::plan::Distribution;

fn settings(distribution: Distribution) -> WordsSettings {
    WordsSettings { keys: 1_000_000, words_per_line: 4, lines: Some(1000), seed: 7, distribution }
}

fn line(settings: &WordsSettings, number: u64) -> String {
    let mut out = Vec::new();
    Lines::new(settings).append(number, &mut out);
    String::from_utf8(out).unwrap()
}

/// Reads a split from `position` to its end, in pieces.
fn read_split(source: &WordsSource, split: &str, position: &Position, max_records: usize, max_bytes: usize) -> Vec<String> {
    let mut reader = source.open(split, position).unwrap();
    let mut lines = Vec::new();
    while !reader.position().ended {
        let mut batch = Batch::default();
        reader.read(&mut batch, max_records, max_bytes).unwrap();
        assert!(!batch.is_empty() && batch.len() <= max_records);
        lines.extend(batch.values.iter().map(|value| String::from_utf8(value.to_vec()).unwrap()));
    }
    lines
}

#[test]
fn golden_lines() {
    // All but the widest also came out of an independent program with the formula and 50 digits.
    let zipf = settings(Distribution::Zipf);
    assert_eq!(line(&zipf, 0), "w0000016 w0004543 w0007708 w0163432");
    assert_eq!(line(&zipf, 1), "w0248678 w0000072 w0003067 w0000051");
    assert_eq!(line(&zipf, 1_000_000_000_000), "w0000000 w0621008 w0002853 w0000211");
    assert_eq!(line(&WordsSettings { seed: 8, ..zipf.clone() }, 0), "w0058150 w0000016 w0090275 w0000061");
    assert_eq!(line(&settings(Distribution::Uniform), 0), "w0207485 w0609583 w0647841 w0868890");
    assert_eq!(line(&WordsSettings { keys: 1 << 50, ..zipf.clone() }, 0), "w0001326 w1496736625 w5636114253 w11970227052570");
    assert_eq!(line(&WordsSettings { keys: 1, ..zipf.clone() }, 0), "w0000000 w0000000 w0000000 w0000000");
    assert_eq!(line(&WordsSettings { words_per_line: 1, ..zipf.clone() }, 0), "w0000016");
    assert_eq!(line(&WordsSettings { words_per_line: 0, ..zipf }, 0), "");
}

#[test]
fn words_are_w_and_the_number_in_7_digits() {
    for number in (0..200_000).chain(9_900_000..10_000_000).chain((0..10_000_000).step_by(997)) {
        assert_eq!(word(number).as_slice(), format!("w{number:07}").as_bytes());
    }
}

#[test]
fn lines_are_the_drawn_keys_written_out() {
    for distribution in [Distribution::Zipf, Distribution::Uniform] {
        for keys in [1, 9, 1_000_000, FIXED_KEYS, FIXED_KEYS + 1, MAX_KEYS] {
            let settings = WordsSettings { keys, words_per_line: 50, ..settings(distribution) };
            for number in 0..100 {
                let (lines, mut words) = (Lines::new(&settings), Vec::new());
                lines.draw.each(mix(lines.seed ^ mix(number)), 50, |_, key| words.push(format!("w{key:07}")));
                assert_eq!(line(&settings, number), words.join(" "), "{keys} keys");
            }
        }
    }
}

#[test]
fn all_splits_together_are_all_lines_once() {
    for lines in [0, 1, 63, 64, 65, 1000] {
        let settings = WordsSettings { lines: Some(lines), ..settings(Distribution::Zipf) };
        let source = WordsSource::new("words", &settings);
        let splits = source.splits().unwrap();
        assert_eq!((splits.len(), splits[0].as_str(), splits[63].as_str()), (64, "00", "63"));
        let mut found = vec![None; lines as usize];
        for (number, split) in splits.iter().enumerate() {
            for (index, text) in read_split(&source, split, &Position::default(), 7, 1 << 20).into_iter().enumerate() {
                assert_eq!(found[index * 64 + number].replace(text), None);
            }
        }
        for (number, text) in found.into_iter().enumerate() {
            assert_eq!(text, Some(line(&settings, number as u64)));
        }
    }
}

#[test]
fn a_split_without_lines_has_ended_from_the_start() {
    let source = WordsSource::new("words", &WordsSettings { lines: Some(10), ..settings(Distribution::Zipf) });
    assert!(source.open("10", &Position::default()).unwrap().position().ended);
    assert!(!source.open("09", &Position::default()).unwrap().position().ended);
}

#[test]
fn without_an_end_it_goes_on() {
    let source = WordsSource::new("words", &WordsSettings { lines: None, ..settings(Distribution::Zipf) });
    let mut reader = source.open("63", &Position { offset: 1 << 50, records: 1 << 50, ended: false }).unwrap();
    let mut batch = Batch::default();
    reader.read(&mut batch, 100, usize::MAX).unwrap();
    assert_eq!((batch.len(), reader.position().offset, reader.position().ended), (100, (1 << 50) + 100, false));
}

#[test]
fn a_read_stops_at_its_limits_and_makes_progress() {
    let source = WordsSource::new("words", &settings(Distribution::Zipf));
    let mut reader = source.open("00", &Position::default()).unwrap();
    let mut batch = Batch::default();
    for (max_records, max_bytes, expected) in [(0, 1000, 0), (3, 1000, 3), (1000, 0, 1), (1000, 35, 1), (1000, 36, 2), (1000, 70, 2)] {
        batch.clear();
        reader.read(&mut batch, max_records, max_bytes).unwrap();
        assert_eq!(batch.len(), expected, "{max_records} records, {max_bytes} bytes");
    }
}

#[test]
fn zipf_gives_each_key_its_share_and_uniform_the_same_to_all() {
    let (keys, lines) = (100, 20_000);
    for distribution in [Distribution::Zipf, Distribution::Uniform] {
        let settings = WordsSettings { keys, words_per_line: 10, ..settings(distribution) };
        let mut counts = vec![0f64; keys as usize];
        for number in 0..lines {
            for word in line(&settings, number).split(' ') {
                counts[word[1..].parse::<usize>().unwrap()] += 1.0;
            }
        }
        let total = (lines * 10) as f64;
        for (key, count) in counts.into_iter().enumerate() {
            let share = match distribution {
                Distribution::Zipf => ((key + 2) as f64 / (key + 1) as f64).ln() / ((keys + 1) as f64).ln(),
                Distribution::Uniform => 1.0 / keys as f64,
            };
            // Five standard deviations.
            let slack = 5.0 * (total * share).sqrt();
            assert!((count - total * share).abs() < slack, "{distribution:?}: key {key} came {count} times for {}", total * share);
        }
    }
}

#[test]
fn settings_that_can_not_be_generated_are_refused_by_name() {
    let good = settings(Distribution::Zipf);
    let bad = [
        (WordsSettings { keys: 0, ..good.clone() }, "source `words`: `keys` is 0"),
        (WordsSettings { keys: u64::MAX, ..good.clone() }, "source `words`: `keys` is 18446744073709551615"),
        (WordsSettings { words_per_line: u64::MAX, ..good.clone() }, "source `words`: `words-per-line` is 18446744073709551615"),
    ];
    for (settings, message) in bad {
        let source = WordsSource::new("words", &settings);
        let error = source.splits().unwrap_err();
        assert_eq!((error.kind(), error.message()), (Kind::Config, message));
        assert!(source.open("00", &Position::default()).is_err());
    }
    let Err(error) = WordsSource::new("words", &good).open("64", &Position::default()) else { panic!("there is no split 64") };
    assert_eq!(error.message(), "source `words` has no split `64`");
}

proptest! {
    #[test]
    fn a_restart_at_any_position_gives_the_rest(
        split in 0u64..64, lines in 0u64..2000, at in 0usize..40, max_records in 1usize..9, max_bytes in 0usize..200,
    ) {
        let settings = WordsSettings { lines: Some(lines), ..settings(Distribution::Zipf) };
        let (source, split) = (WordsSource::new("words", &settings), format!("{split:02}"));
        let all = read_split(&source, &split, &Position::default(), 1000, usize::MAX);
        let mut reader = source.open(&split, &Position::default()).unwrap();
        let mut batch = Batch::default();
        reader.read(&mut batch, at, usize::MAX).unwrap();
        let position = reader.position();
        prop_assert_eq!(position.records as usize, batch.len());
        prop_assert_eq!(position.ended, batch.len() == all.len());
        prop_assert_eq!(&read_split(&source, &split, &position, max_records, max_bytes), &all[batch.len()..]);
    }
}
