//! The source `generator`, kind `words`: lines of words for tests and benchmarks, the same on every machine for the same settings.
//!
//! Line i depends on the seed and i only. It belongs to split i % 64, so neither the parallelism nor the order of reading changes what
//! is generated. A position's `offset` counts within the split: offset n of split s is line 64 n + s.

mod draw;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::sync::Arc;

use self::draw::{Draw, mix};
use super::{MAX_LINE, Source, SplitReader, end_value};
use crate::error::{Error, Kind, Result};
use crate::plan::WordsSettings;
use crate::record::{Batch, Position};

/// How many splits there are, whatever the settings, so that a job may change its parallelism.
const SPLITS: u64 = 64;

/// Numbers up to this have 7 digits, and words all the same length: they take the fast way.
const FIXED_KEYS: u64 = 10_000_000;

/// Bytes of a word with 7 digits and the space after it.
const WORD: usize = 9;

/// More keys than this would not be drawn exactly.
const MAX_KEYS: u64 = 1 << 52;

/// The source.
pub(super) struct WordsSource {
    uid: String,
    settings: WordsSettings,
}

impl WordsSource {
    pub(super) fn new(uid: &str, settings: &WordsSettings) -> Self {
        WordsSource { uid: uid.into(), settings: settings.clone() }
    }

    fn check(&self) -> Result<()> {
        let WordsSettings { keys, words_per_line, .. } = self.settings;
        let wrong = |what: String, help: &str| Err(Error::new(Kind::Config, format!("source `{}`: {what}", self.uid)).help(help));
        if keys == 0 || keys > MAX_KEYS {
            return wrong(format!("`keys` is {keys}"), "set it to a number from 1 to 2^52");
        }
        // The longest word is `w` and 16 digits.
        if words_per_line > MAX_LINE / 18 {
            return wrong(format!("`words-per-line` is {words_per_line}"), "set it so that a line stays below 16 MiB");
        }
        Ok(())
    }
}

impl Source for WordsSource {
    fn splits(&self) -> Result<Vec<String>> {
        self.check()?;
        Ok((0..SPLITS).map(|split| format!("{split:02}")).collect())
    }

    /// One after the other where they end.
    fn read_in_turn(&self) -> usize {
        if self.settings.lines.is_some() { 1 } else { usize::MAX }
    }

    fn open(&self, split: &str, position: &Position) -> Result<Box<dyn SplitReader>> {
        self.check()?;
        let Some(number) = (0..SPLITS).find(|number| format!("{number:02}") == split) else {
            return Err(Error::new(Kind::Checkpoint, format!("source `{}` has no split `{split}`", self.uid))
                .help("the generator's splits are 00 to 63: the checkpoint is of another kind of source"));
        };
        Ok(Box::new(Reader::new(Lines::new(&self.settings), number, position)))
    }
}

/// What every line is.
struct Lines {
    settings: WordsSettings,
    draw: Draw,
    /// The seed, mixed: similar seeds are not to give similar lines.
    seed: u64,
}

impl Lines {
    fn new(settings: &WordsSettings) -> Arc<Self> {
        let draw = Draw::new(settings.distribution, settings.keys);
        Arc::new(Lines { settings: settings.clone(), draw, seed: mix(settings.seed.wrapping_add(1)) })
    }

    /// Appends line `line` to `out`.
    fn append(&self, line: u64, out: &mut Vec<u8>) {
        // Checked to be small.
        let words = self.settings.words_per_line as usize;
        let state = mix(self.seed ^ mix(line));
        if self.settings.keys > FIXED_KEYS {
            self.draw.each(state, words, |number, key| {
                let space = if number == 0 { "" } else { " " };
                write!(out, "{space}w{key:07}").expect("a Vec takes everything");
            });
            return;
        }
        // The spaces are there already; each word is 8 bytes, written at once.
        let start = out.len();
        out.resize(start + words * WORD, b' ');
        let mut places = out[start..].chunks_exact_mut(WORD);
        self.draw.each(state, words, |_, key| {
            if let Some(place) = places.next() {
                place[..8].copy_from_slice(&word(key));
            }
        });
        if words > 0 {
            out.pop();
        }
    }
}

/// `w` and the 7 digits of a number below 10^7, found two, two and one at a time in the lanes of an integer.
#[inline]
fn word(number: u64) -> [u8; 8] {
    let (high, low) = (number / 10_000, number % 10_000);
    let fours = high | low << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = hundreds | (fours - hundreds * 100) << 16;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | (twos - tens * 10) << 8;
    // '0' onto each digit; the eighth, in front, is always 0 and becomes 'w'.
    (ones + 0x3030_3030_3030_3077).to_le_bytes()
}

struct Reader {
    lines: Arc<Lines>,
    split: u64,
    /// How many lines the split has in all.
    total: u64,
    position: Position,
}

impl Reader {
    fn new(lines: Arc<Lines>, split: u64, position: &Position) -> Self {
        // Without end: as many as can be numbered.
        let total = lines.settings.lines.unwrap_or(u64::MAX).saturating_sub(split).div_ceil(SPLITS);
        let position = Position { ended: position.ended || position.offset >= total, ..*position };
        Reader { lines, split, total, position }
    }
}

impl SplitReader for Reader {
    fn read(&mut self, batch: &mut Batch, max_records: usize, max_bytes: usize) -> Result<()> {
        if self.position.ended {
            return Ok(());
        }
        let values = &mut batch.values;
        let (start, mut read) = (values.bytes.len(), 0);
        while (read as usize) < max_records && self.position.offset < self.total {
            self.lines.append(self.position.offset * SPLITS + self.split, &mut values.bytes);
            end_value(values);
            self.position.offset += 1;
            read += 1;
            if values.bytes.len() - start >= max_bytes {
                break;
            }
        }
        self.position.records += read;
        self.position.ended = self.position.offset >= self.total;
        Ok(())
    }

    fn position(&self) -> Position {
        self.position.clone()
    }
}
