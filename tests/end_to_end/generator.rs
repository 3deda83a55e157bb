//! The source `generator`: the same lines at any parallelism, and through kills.

use crate::harness::{JobFile, Moment, Place, Random, assert_lines, kill_and_resume};

fn job(distribution: &str, rate: &str) -> JobFile {
    let settings = "type = \"generator\"\nkind = \"words\"\nkeys = 1000\nwords-per-line = 5\nlines = 20_000\nseed = 3";
    JobFile::new("40ms").source("words", &format!("{settings}\ndistribution = {distribution:?}\n{rate}")).file_sink("out", &["words"])
}

/// How often the most frequent word comes.
fn most_frequent(lines: &[String]) -> usize {
    let mut words: Vec<&str> = lines.iter().flat_map(|line| line.split(' ')).collect();
    words.sort_unstable();
    words.chunk_by(|one, other| one == other).map(<[&str]>::len).max().unwrap_or(0)
}

#[test]
fn generated_lines_are_the_same_at_any_parallelism_and_through_kills() {
    let mut random = Random::new(14);
    for distribution in ["zipf", "uniform"] {
        let whole = Place::new(&job(distribution, ""));
        whole.run(&["-p", "1"]).succeeds();
        let lines = whole.lines("out");
        assert_eq!(lines.len(), 20_000);
        let is_word =
            |word: &str| word.len() == 8 && word.strip_prefix('w').is_some_and(|key| key.parse::<u64>().is_ok_and(|key| key < 1000));
        assert!(lines.iter().all(|line| line.split(' ').count() == 5 && line.split(' ').all(is_word)));
        // With zipf the first of 1,000 words is a tenth of all; with uniform each is a thousandth.
        let expected = if distribution == "zipf" { 8000..12_000 } else { 100..200 };
        assert!(expected.contains(&most_frequent(&lines)), "{distribution}: {}", most_frequent(&lines));

        let place = Place::new(&job(distribution, "rate = 6000"));
        kill_and_resume(&place, &mut random, 4, &["1", "2", "3"], |random| Moment::Checkpoints(1 + random.below(4)));
        place.set_job(&job(distribution, ""));
        place.run(&["-p", "4"]).succeeds();
        assert_lines(place.lines("out"), lines, distribution);
    }
}
