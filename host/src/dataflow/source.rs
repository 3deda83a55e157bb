//! [`SourceStage`]: reads the splits of one subtask, some of them in turn, at most at its rate.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::control::Control;
use crate::clock;
use crate::connectors::{RateLimit, SplitReader};
use crate::error::Result;
use crate::record::{Batch, SplitPosition};

/// A batch is what has arrived, up to this many records,
const READ_RECORDS: usize = 1024;
/// and about this many bytes.
const READ_BYTES: usize = 64 << 10;

/// The splits of one subtask of a source.
pub(super) struct SourceStage {
    readers: Vec<(Arc<str>, Box<dyn SplitReader>)>,
    /// The readers that are read in turn, the next one first, by index,
    turn: VecDeque<usize>,
    /// and those that begin when one of them has ended. Those that have ended are in neither.
    waiting: VecDeque<usize>,
    rate: Option<RateLimit>,
    /// Sources, by node, that must be worked off before it reads.
    waits: Vec<usize>,
    /// Sizes of the last batch, from which the next takes its room: records, bytes.
    last: [usize; 2],
    /// Whether its end has been reported.
    pub(super) reported: bool,
}

/// Where the records of a batch were read.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    /// The split.
    pub(super) split: Arc<str>,
    /// The number of the batch's first record within it, from 1 on.
    pub(super) first: u64,
}

/// What reading gave.
pub(super) enum Read {
    /// Records, and where they were read.
    Batch(Batch, Origin),
    /// The rate allows more after this time only.
    Later(Duration),
    /// All splits are at their end.
    Ended,
}

impl SourceStage {
    /// Reads `in_turn` splits in turn, or all if there are fewer.
    pub(super) fn new(readers: Vec<(Arc<str>, Box<dyn SplitReader>)>, in_turn: usize, rate: Option<RateLimit>, waits: Vec<usize>) -> Self {
        let mut turn: VecDeque<usize> = (0..readers.len()).filter(|&index| !readers[index].1.position().ended).collect();
        let waiting = turn.split_off(in_turn.max(1).min(turn.len()));
        SourceStage { readers, turn, waiting, rate, waits, last: [0; 2], reported: false }
    }

    pub(super) fn read(&mut self) -> Result<Read> {
        while let Some(&index) = self.turn.front() {
            let mut records = READ_RECORDS;
            if let Some(rate) = &mut self.rate {
                let now = clock::now();
                records = records.min(rate.allowed(now));
                if records == 0 {
                    return Ok(Read::Later(rate.next(now)));
                }
            }
            let mut batch = self.new_batch(records);
            let (split, reader) = &mut self.readers[index];
            let origin = Origin { split: Arc::clone(split), first: reader.position().records + 1 };
            reader.read(&mut batch, records, READ_BYTES)?;
            self.turn.pop_front();
            self.turn.extend(if reader.position().ended { self.waiting.pop_front() } else { Some(index) });
            if let Some(rate) = &mut self.rate {
                rate.take(batch.len());
            }
            // Otherwise the split has ended, and there is one less.
            if !batch.is_empty() {
                self.last = [batch.len(), batch.values.bytes.len()];
                return Ok(Read::Batch(batch, origin));
            }
        }
        // Every split has ended, some only now.
        Ok(Read::Ended)
    }

    /// A batch with the room that the last one needed, and an eighth more, since no two are quite the same.
    fn new_batch(&self, most: usize) -> Batch {
        let [records, bytes] = self.last.map(|size| size + size / 8);
        let mut batch = Batch::default();
        batch.values.ends.reserve(records.min(most));
        batch.values.bytes.reserve(bytes);
        batch
    }

    /// Whether sources that it waits for are not worked off yet.
    pub(super) fn has_to_wait(&mut self, control: &Control) -> bool {
        self.waits.retain(|&node| !control.is_worked_off(node));
        !self.waits.is_empty()
    }

    pub(super) fn is_ended(&self) -> bool {
        self.turn.is_empty()
    }

    pub(super) fn positions(&self) -> Vec<SplitPosition> {
        let position =
            |(split, reader): &(Arc<str>, Box<dyn SplitReader>)| SplitPosition { split: split.to_string(), position: reader.position() };
        self.readers.iter().map(position).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::record::Position;

    /// A split of `total` records, each of `length` bytes, and how often its position was asked for.
    struct Fake {
        total: u64,
        length: usize,
        position: Position,
        asked: Arc<AtomicUsize>,
    }

    impl SplitReader for Fake {
        fn read(&mut self, batch: &mut Batch, max_records: usize, _max_bytes: usize) -> Result<()> {
            assert!(!self.position.ended, "read though it has ended");
            for _ in 0..max_records {
                if self.position.records == self.total {
                    self.position.ended = true;
                    break;
                }
                batch.values.push(&vec![b'a'; self.length]);
                self.position.records += 1;
            }
            Ok(())
        }

        fn position(&self) -> Position {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.position.clone()
        }
    }

    /// A stage over splits `0`, `1`, … with so many records, some of them read; and how often positions were asked for.
    fn stage(splits: &[(u64, u64)], length: usize, in_turn: usize, rate: Option<RateLimit>) -> (SourceStage, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let reader = |(number, &(total, records)): (usize, &(u64, u64))| {
            let position = Position { offset: records, records, ended: records == total };
            let fake = Fake { total, length, position, asked: Arc::clone(&asked) };
            (number.to_string().into(), Box::new(fake) as Box<dyn SplitReader>)
        };
        (SourceStage::new(splits.iter().enumerate().map(reader).collect(), in_turn, rate, Vec::new()), asked)
    }

    /// Reads to the end: for each batch its split, its first record and its length.
    fn read_all(stage: &mut SourceStage) -> Vec<(usize, u64, usize)> {
        let mut batches = Vec::new();
        loop {
            assert!(!stage.is_ended() || matches!(stage.read(), Ok(Read::Ended)));
            match stage.read().unwrap() {
                Read::Batch(batch, origin) => batches.push((origin.split.parse().unwrap(), origin.first, batch.len())),
                Read::Later(_) => panic!("it has no rate"),
                Read::Ended => break,
            }
        }
        assert!(stage.is_ended() && stage.positions().iter().all(|split| split.position.ended));
        batches
    }

    #[test]
    fn one_at_a_time_a_split_is_read_to_its_end_before_the_next() {
        let (mut stage, _) = stage(&[(1500, 0), (0, 0), (7, 7), (3000, 1000), (5, 0)], 1, 1, None);
        let expected = [(0, 1, 1024), (0, 1025, 476), (3, 1001, 1024), (3, 2025, 976), (4, 1, 5)];
        assert_eq!(read_all(&mut stage), expected);
    }

    #[test]
    fn the_next_split_begins_when_one_of_those_in_turn_has_ended() {
        let splits = [(2500, 0), (1000, 0), (1000, 0), (1000, 0)];
        let order = |in_turn| read_all(&mut stage(&splits, 1, in_turn, None).0).into_iter().map(|(split, ..)| split).collect::<Vec<_>>();
        assert_eq!(order(2), [0, 1, 0, 2, 0, 3]);
        assert_eq!(order(usize::MAX), [0, 1, 2, 3, 0, 0]);
        assert_eq!(order(0), order(1));
    }

    #[test]
    fn positions_are_those_of_all_splits_in_their_order_ended_ones_included() {
        let (mut stage, _) = stage(&[(5, 5), (2000, 0), (5, 0)], 1, 1, None);
        assert!(!stage.is_ended());
        stage.read().unwrap();
        let positions: Vec<_> =
            stage.positions().into_iter().map(|split| (split.split, split.position.records, split.position.ended)).collect();
        assert_eq!(positions, [("0".into(), 5, true), ("1".into(), 1024, false), ("2".into(), 0, false)]);
    }

    #[test]
    fn without_splits_or_with_ended_ones_only_it_has_ended() {
        for splits in [&[][..], &[(3, 3), (0, 0)]] {
            let (mut stage, _) = stage(splits, 1, 1, None);
            assert!(stage.is_ended() && matches!(stage.read().unwrap(), Read::Ended));
            assert_eq!(stage.positions().len(), splits.len());
        }
    }

    #[test]
    fn a_batch_does_not_ask_all_splits() {
        let ended = vec![(9, 9); 3000];
        let (mut stage, asked) = stage(&[&ended[..], &[(100_000, 0)], &ended[..]].concat(), 1, 1, None);
        asked.store(0, Ordering::Relaxed);
        for _ in 0..50 {
            assert!(!stage.is_ended());
            assert!(matches!(stage.read().unwrap(), Read::Batch(..)));
        }
        assert!(asked.load(Ordering::Relaxed) <= 3 * 50);
    }

    #[test]
    fn a_batch_has_the_room_that_the_last_one_needed() {
        let (mut stage, _) = stage(&[(4096, 0)], 50, 1, None);
        for number in 0..4 {
            let room = stage.new_batch(READ_RECORDS).values;
            let Read::Batch(batch, _) = stage.read().unwrap() else { panic!("there is more") };
            assert_eq!(batch.len(), 1024);
            assert_eq!(number > 0, room.ends.capacity() >= 1024 && room.bytes.capacity() >= 1024 * 50, "batch {number}");
            if number > 0 {
                // It never grew.
                assert_eq!((batch.values.ends.capacity(), batch.values.bytes.capacity()), (room.ends.capacity(), room.bytes.capacity()));
            }
        }
    }

    #[test]
    fn a_rate_is_read_in_grants_across_batches_and_splits() {
        // A second ago: its burst of 50 ms is there.
        let rate = RateLimit::new(100_000.0, clock::now().checked_sub(Duration::from_secs(1)).unwrap());
        let (mut stage, _) = stage(&[(2000, 0), (10, 0), (10, 0), (1_000_000, 0)], 1, 1, Some(rate));
        let mut next = || match stage.read().unwrap() {
            Read::Batch(batch, _) => batch.len(),
            _ => panic!("there is more"),
        };
        let grant = [(); 6].map(|()| next());
        assert_eq!(grant, [1024, 976, 10, 10, 1024, 1024]);
        // What is left of it, and what has come in meanwhile.
        let rest = next();
        assert!((932..=1024).contains(&rest), "{rest}");
    }

    #[test]
    fn a_low_rate_lets_its_first_record_wait() {
        let (mut stage, _) = stage(&[(10, 0)], 1, 1, Some(RateLimit::new(5.0, clock::now())));
        let Read::Later(wait) = stage.read().unwrap() else { panic!("nothing is allowed at the start") };
        assert!(wait <= Duration::from_millis(201) && !stage.is_ended());
    }
}
