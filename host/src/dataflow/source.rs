//! [`SourceStage`]: reads splits for one subtask, some of them in turn, at most at the source's rate.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::control::Control;
use super::splits::{SharedSplits, Taken};
use crate::clock;
use crate::connectors::{Source, SplitReader};
use crate::error::Result;
use crate::record::{Batch, Position, SplitPosition};

/// Records of a batch, at most: it is what has arrived.
const READ_RECORDS: usize = 1024;
/// Bytes of values from which on a batch takes no more records: only its last one may go beyond.
const READ_BYTES: usize = 64 << 10;

/// What one subtask of a source reads.
pub(super) struct SourceStage {
    source: Arc<dyn Source>,
    /// How many splits it reads in turn.
    in_turn: usize,
    /// Its splits: those that it was given at the start, and those that it has begun since.
    readers: Vec<(Arc<str>, Box<dyn SplitReader>)>,
    /// The readers that are read in turn, by index, the next one first.
    turn: VecDeque<usize>,
    /// The readers that begin when one that is read in turn has ended, by index. Those that have ended are in neither.
    waiting: VecDeque<usize>,
    /// The splits that no subtask has begun: it begins one of them when fewer than `in_turn` readers are in `turn`.
    shared: Arc<SharedSplits>,
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
    /// It may read more after this time only.
    Later(Duration),
    /// All splits are at their end.
    Ended,
}

impl SourceStage {
    /// Begins with `splits`, which belong to this subtask.
    pub(super) fn new(
        source: Arc<dyn Source>,
        splits: Vec<(Arc<str>, Position)>,
        shared: Arc<SharedSplits>,
        waits: Vec<usize>,
    ) -> Result<Self> {
        let in_turn = source.read_in_turn().max(1);
        let mut turn: VecDeque<usize> = (0..splits.len()).filter(|&index| !splits[index].1.ended).collect();
        let waiting = turn.split_off(in_turn.min(turn.len()));
        let open = |(split, position): (Arc<str>, Position)| source.open(&split, &position).map(|reader| (split, reader));
        let readers = splits.into_iter().map(open).collect::<Result<_>>()?;
        Ok(SourceStage { source, in_turn, readers, turn, waiting, shared, waits, last: [0; 2], reported: false })
    }

    /// Reads what belongs to `epoch`.
    pub(super) fn read(&mut self, epoch: u64) -> Result<Read> {
        loop {
            if self.turn.len() < self.in_turn {
                match self.shared.take(epoch) {
                    Taken::Split(split) => self.begin(split)?,
                    Taken::AfterBarrier if self.turn.is_empty() => return Ok(Read::Later(Duration::ZERO)),
                    Taken::AfterBarrier | Taken::Nothing => {}
                }
            }
            // Every split has ended, some only now.
            let Some(&index) = self.turn.front() else { return Ok(Read::Ended) };
            let mut records = READ_RECORDS;
            if let Some(mut rate) = self.shared.rate() {
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
            if let Some(mut rate) = self.shared.rate() {
                rate.take(batch.len());
            }
            // Otherwise the split has ended, and there is one less.
            if !batch.is_empty() {
                self.last = [batch.len(), batch.values.bytes.len()];
                return Ok(Read::Batch(batch, origin));
            }
        }
    }

    fn begin(&mut self, split: Arc<str>) -> Result<()> {
        let reader = self.source.open(&split, &Position::default())?;
        self.turn.push_back(self.readers.len());
        self.readers.push((split, reader));
        Ok(())
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
        self.turn.is_empty() && self.shared.is_empty()
    }

    /// Its splits at the barrier that ends `epoch`; the first subtask tells of those too that nobody has begun.
    pub(super) fn positions(&self, epoch: u64, subtask: u16) -> Vec<SplitPosition> {
        let position =
            |(split, reader): &(Arc<str>, Box<dyn SplitReader>)| SplitPosition { split: split.to_string(), position: reader.position() };
        let unread = if subtask == 0 { self.shared.report(epoch) } else { Vec::new() };
        self.readers.iter().map(position).chain(unread).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::connectors::RateLimit;

    /// Splits `0`, `1`, … of so many records, each of `length` bytes.
    struct FakeSource {
        totals: Vec<u64>,
        length: usize,
        in_turn: usize,
        asked: Arc<AtomicUsize>,
    }

    impl Source for FakeSource {
        fn splits(&self) -> Result<Vec<String>> {
            Ok((0..self.totals.len()).map(|split| split.to_string()).collect())
        }

        fn read_in_turn(&self) -> usize {
            self.in_turn
        }

        fn open(&self, split: &str, position: &Position) -> Result<Box<dyn SplitReader>> {
            let total = self.totals[split.parse::<usize>().unwrap()];
            Ok(Box::new(Fake { total, length: self.length, position: position.clone(), asked: Arc::clone(&self.asked) }))
        }
    }

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
    fn stage(splits: &[(u64, u64)], length: usize, in_turn: usize, rate: Option<u64>) -> (SourceStage, Arc<AtomicUsize>) {
        let own = |(number, &(total, records)): (usize, &(u64, u64))| {
            (number.to_string().into(), Position { offset: records, records, ended: records == total })
        };
        shared_stage(splits.iter().enumerate().map(own).collect(), splits.iter().map(|(total, _)| *total), length, in_turn, &[], rate)
    }

    /// A stage with `own` splits, which shares those named `unread`.
    fn shared_stage(
        own: Vec<(Arc<str>, Position)>,
        totals: impl IntoIterator<Item = u64>,
        length: usize,
        in_turn: usize,
        unread: &[&str],
        rate: Option<u64>,
    ) -> (SourceStage, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let source = FakeSource { totals: totals.into_iter().collect(), length, in_turn, asked: Arc::clone(&asked) };
        let shared = Arc::new(SharedSplits::new(unread.iter().map(|&split| split.into()), rate));
        (SourceStage::new(Arc::new(source), own, shared, Vec::new()).unwrap(), asked)
    }

    /// Reads to the end: for each batch its split, its first record and its length.
    fn read_all(stage: &mut SourceStage) -> Vec<(usize, u64, usize)> {
        let mut batches = Vec::new();
        loop {
            assert!(!stage.is_ended() || matches!(stage.read(1), Ok(Read::Ended)));
            match stage.read(1).unwrap() {
                Read::Batch(batch, origin) => batches.push((origin.split.parse().unwrap(), origin.first, batch.len())),
                Read::Later(_) => panic!("it has no rate"),
                Read::Ended => break,
            }
        }
        assert!(stage.is_ended() && stage.positions(1, 0).iter().all(|split| split.position.ended));
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
        stage.read(1).unwrap();
        let positions: Vec<_> =
            stage.positions(1, 0).into_iter().map(|split| (split.split, split.position.records, split.position.ended)).collect();
        assert_eq!(positions, [("0".into(), 5, true), ("1".into(), 1024, false), ("2".into(), 0, false)]);
    }

    #[test]
    fn without_splits_or_with_ended_ones_only_it_has_ended() {
        for splits in [&[][..], &[(3, 3), (0, 0)]] {
            let (mut stage, _) = stage(splits, 1, 1, None);
            assert!(stage.is_ended() && matches!(stage.read(1).unwrap(), Read::Ended));
            assert_eq!(stage.positions(1, 0).len(), splits.len());
        }
    }

    #[test]
    fn a_batch_does_not_ask_all_splits() {
        let ended = vec![(9, 9); 3000];
        let (mut stage, asked) = stage(&[&ended[..], &[(100_000, 0)], &ended[..]].concat(), 1, 1, None);
        asked.store(0, Ordering::Relaxed);
        for _ in 0..50 {
            assert!(!stage.is_ended());
            assert!(matches!(stage.read(1).unwrap(), Read::Batch(..)));
        }
        assert!(asked.load(Ordering::Relaxed) <= 3 * 50);
    }

    #[test]
    fn a_batch_has_the_room_that_the_last_one_needed() {
        let (mut stage, _) = stage(&[(4096, 0)], 50, 1, None);
        for number in 0..4 {
            let room = stage.new_batch(READ_RECORDS).values;
            let Read::Batch(batch, _) = stage.read(1).unwrap() else { panic!("there is more") };
            assert_eq!(batch.len(), 1024);
            assert_eq!(number > 0, room.ends.capacity() >= 1024 && room.bytes.capacity() >= 1024 * 50, "batch {number}");
            if number > 0 {
                // It never grew.
                assert_eq!((batch.values.ends.capacity(), batch.values.bytes.capacity()), (room.ends.capacity(), room.bytes.capacity()));
            }
        }
    }

    #[test]
    fn a_split_that_nobody_has_begun_is_read_once_there_is_nothing_else() {
        let (mut stage, _) = shared_stage(vec![("0".into(), Position::default())], [5, 2000, 7], 1, 1, &["1", "2"], None);
        assert_eq!(read_all(&mut stage), [(0, 1, 5), (1, 1, 1024), (1, 1025, 976), (2, 1, 7)]);
        let (mut stage, _) = shared_stage(Vec::new(), [5, 5], 1, 1, &["0", "1"], None);
        assert!(!stage.is_ended());
        let unread = |stage: &SourceStage, subtask| stage.positions(1, subtask).len();
        assert_eq!([unread(&stage, 1), unread(&stage, 0)], [0, 2]);
        // What is unread at this barrier is told, so that the barrier has to be passed first.
        assert!(matches!(stage.read(1).unwrap(), Read::Later(Duration::ZERO)));
        assert!(matches!(stage.read(2).unwrap(), Read::Batch(..)));
    }

    #[test]
    fn a_rate_is_read_in_grants_across_batches_and_splits() {
        let (mut stage, _) = stage(&[(2000, 0), (10, 0), (10, 0), (1_000_000, 0)], 1, 1, Some(100_000));
        // Time that has passed, for a whole burst of 50 ms.
        *stage.shared.rate().unwrap() = RateLimit::new(100_000.0, clock::now().checked_sub(Duration::from_secs(1)).unwrap());
        let mut next = || match stage.read(1).unwrap() {
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
        let (mut stage, _) = stage(&[(10, 0)], 1, 1, Some(5));
        let Read::Later(wait) = stage.read(1).unwrap() else { panic!("nothing is allowed at the start") };
        assert!(wait <= Duration::from_millis(201) && !stage.is_ended());
    }
}
