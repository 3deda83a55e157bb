//! [`FileLists`]: the state files of each operator, oldest first, as the next manifest will name them; and which of them to merge, so
//! that a restore never reads many files for one key group.

use std::collections::{BTreeMap, BTreeSet};

use super::retain::Live;
use crate::checkpoint::manifest::{Epochs, Manifest, OperatorStateFile, StateFile};
use crate::checkpoint::paths::{self, Origin, RunPath, StatePath};
use crate::error::{Error, Kind, Result};
use crate::plan::StateDescriptor;
use crate::record::{AttemptId, KeyGroups};

/// More files than this for one key group are merged.
pub const MAX_FILES: usize = 8;

/// At least this many files are merged with the one below them when they take more than [`MAX_GROWTH`] times its bytes: where much changes,
/// a checkpoint would else take many times what its state does. Fewer are not, so that what is read again is a fraction of what was written.
const MIN_NEWER: usize = 3;
/// See [`MIN_NEWER`].
const MAX_GROWTH: u64 = 2;

/// No merge beside a job's work reads more files than this, or twice as many as it writes: each takes an open file and some memory.
const MAX_INPUTS: usize = 256;

/// State files to be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The operator.
    pub operator: String,
    /// The files, oldest first.
    pub inputs: Vec<StateFile>,
    /// What becomes of them.
    pub outputs: Vec<MergeOutput>,
    /// Whether nothing lies below the oldest.
    pub base: bool,
    /// The operator's states, which say how long values live; of others the files say so.
    pub states: Vec<StateDescriptor>,
}

/// One file that comes out of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeOutput {
    /// Where it is to lie, within the run.
    pub path: String,
    /// The key groups that it covers.
    pub groups: KeyGroups,
}

/// A finished merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The operator.
    pub operator: String,
    /// Paths of the files that were merged.
    pub inputs: Vec<String>,
    /// The files that say the same.
    pub files: Vec<StateFile>,
}

impl Merged {
    /// Has a manifest name the files that came out of the merge instead of those that went in, which are all of the operator's.
    pub fn stand_in(self, manifest: &mut Manifest) {
        let Some(operator) = manifest.operators.iter_mut().find(|operator| operator.uid == self.operator) else { return };
        let bytes = |files: &[StateFile]| files.iter().map(|file| file.bytes).sum::<u64>();
        manifest.total_bytes = manifest.total_bytes - bytes(&operator.files) + bytes(&self.files);
        manifest.new_bytes += bytes(&self.files);
        operator.files = self.files;
    }
}

/// The state files of each operator, oldest first, as the next manifest will name them.
#[derive(Clone, Debug)]
pub struct FileLists {
    attempt: AttemptId,
    parallelism: u16,
    max_parallelism: u16,
    lists: BTreeMap<String, Vec<StateFile>>,
    /// Operator state: of each operator the newest file of each subtask, and under none that of broadcast state.
    operator_state: BTreeMap<String, BTreeMap<Option<u16>, OperatorStateFile>>,
    /// Merges under way, by operator.
    running: BTreeMap<String, Merge>,
    /// Those of them of whose files nothing is needed any more.
    vain: BTreeSet<String>,
    /// What could not be merged, by operator and first key group: all else comes before it.
    failed: BTreeSet<(String, u16)>,
    /// The number of the next merged file.
    next_serial: u64,
}

impl FileLists {
    /// The lists that an attempt begins with: those of the checkpoint that it restored, whose files must lie in the attempt's own run.
    pub fn new(attempt: AttemptId, parallelism: u16, max_parallelism: u16, restored: Option<&Manifest>) -> Self {
        let operators = restored.into_iter().flat_map(|manifest| &manifest.operators);
        let lists: BTreeMap<_, _> = operators.map(|operator| (operator.uid.clone(), operator.files.clone())).collect();
        // With another parallelism the old subtasks are gone, and every new one writes all of its lists before anything is committed.
        // Broadcast state belongs to no subtask.
        let same = restored.is_some_and(|manifest| manifest.parallelism == parallelism);
        let kept = |file: &&OperatorStateFile| same || file.subtask.is_none();
        let by_subtask = |files: &[OperatorStateFile]| files.iter().filter(kept).map(|file| (file.subtask, file.clone())).collect();
        let operators = restored.into_iter().flat_map(|manifest| &manifest.operators);
        let operator_state = operators.map(|operator| (operator.uid.clone(), by_subtask(&operator.operator_state))).collect();
        // An attempt that restores a checkpoint of another run brings its files along, under paths of its own.
        let brought = lists.values().flatten().filter_map(|file| match paths::classify(&file.path) {
            RunPath::State(StatePath { attempt: by, origin: Origin::Merged { serial, .. }, .. }) if by == attempt.attempt => Some(serial),
            _ => None,
        });
        let next_serial = brought.max().unwrap_or(0) + 1;
        FileLists {
            attempt,
            parallelism,
            max_parallelism,
            lists,
            operator_state,
            running: BTreeMap::new(),
            vain: BTreeSet::new(),
            failed: BTreeSet::new(),
            next_serial,
        }
    }

    /// The files of an operator.
    pub fn files(&self, operator: &str) -> &[StateFile] {
        self.lists.get(operator).map_or(&[], Vec::as_slice)
    }

    /// Adds files that a commit has named, after those that are there.
    pub fn add(&mut self, operator: &str, files: &[StateFile]) {
        self.lists.entry(operator.into()).or_default().extend_from_slice(files);
    }

    /// The newest operator state of an operator, with `newer` in the place of what they replace.
    pub fn operator_state_with<'a>(
        &self,
        operator: &str,
        newer: impl IntoIterator<Item = &'a OperatorStateFile>,
    ) -> Vec<OperatorStateFile> {
        let mut files = self.operator_state.get(operator).cloned().unwrap_or_default();
        files.extend(newer.into_iter().map(|file| (file.subtask, file.clone())));
        files.into_values().collect()
    }

    /// Merges all files that a manifest names into one for each subtask. They count as under way until [`FileLists::replace`], and are the
    /// only ones.
    pub fn whole(&mut self, manifest: &Manifest) -> Vec<Merge> {
        let ranges = self.ranges(KeyGroups { start: 0, end: self.max_parallelism });
        let operators = manifest.operators.iter().filter(|operator| !operator.files.is_empty());
        let due = |files: &[StateFile]| Due { inputs: files.to_vec(), ranges: ranges.clone(), base: true };
        operators.map(|operator| self.begin(&operator.uid, due(&operator.files))).collect()
    }

    /// Puts the files that a commit has named in the place of all that were there.
    pub fn replace(&mut self, operator: &str, files: &[StateFile]) {
        self.running.remove(operator);
        self.lists.insert(operator.into(), files.to_vec());
    }

    /// Notes the operator state that a commit has named, in the place of what it replaces.
    pub fn replace_operator_state(&mut self, operator: &str, newer: &[OperatorStateFile]) {
        let files = self.operator_state.entry(operator.into()).or_default();
        files.extend(newer.iter().map(|file| (file.subtask, file.clone())));
    }

    /// All state of an operator is being written anew: the next manifest names nothing of what was there before.
    pub fn begin_afresh(&mut self, operator: &str) {
        self.lists.remove(operator);
        self.operator_state.remove(operator);
        self.vain.extend(self.running.contains_key(operator).then(|| operator.to_owned()));
    }

    /// What the attempt is using, for a collection of garbage. `committed` is its last checkpoint.
    pub fn live(&self, committed: Option<u64>) -> Live {
        let listed = self.lists.values().flatten().map(|file| file.path.clone());
        let running = self.running.values().flat_map(|merge| &merge.outputs).map(|output| output.path.clone());
        let operator_state = self.operator_state.values().flat_map(BTreeMap::values).map(|file| file.path.clone());
        let paths = listed.chain(running).chain(operator_state).collect();
        Live { attempt: self.attempt, paths, next_serial: self.next_serial, committed }
    }

    /// A merge that is due, if there is one; it counts as under way until [`FileLists::finish`] or [`FileLists::give_up`]. There is
    /// never more than one, the longest list first: however many operators a job has, merging takes no more than one processor and what
    /// one stream of the store gives. What has failed waits for [`FileLists::try_again`].
    pub fn next_merge(&mut self) -> Option<Merge> {
        if !self.running.is_empty() {
            return None;
        }
        let due = self.lists.iter().flat_map(|(operator, files)| self.due(files).into_iter().map(move |due| (operator.clone(), due)));
        let untried = due.filter(|(operator, due)| !self.failed.contains(&(operator.clone(), due.first_group())));
        let (operator, due) = untried.max_by_key(|(_, due)| due.inputs.len())?;
        Some(self.begin(&operator, due))
    }

    /// What could not be merged is due like all else again; but for as long as one is under way, lest two that fail take turns for ever.
    pub fn try_again(&mut self) {
        if self.running.is_empty() {
            self.failed.clear();
        }
    }

    /// Whether the next manifest will name a state file.
    pub fn has(&self, path: &str) -> bool {
        self.lists.values().flatten().any(|file| file.path == path)
    }

    /// A merge that is under way from now on.
    fn begin(&mut self, operator: &str, Due { inputs, ranges, base }: Due) -> Merge {
        // There is at least one input.
        let epochs = inputs.iter().map(|file| file.epochs).reduce(Epochs::union).unwrap_or(Epochs::only(0));
        let mut outputs = Vec::new();
        for groups in ranges {
            let path = paths::merged(self.attempt.attempt, epochs, operator, self.next_serial);
            self.next_serial += 1;
            outputs.push(MergeOutput { path, groups });
        }
        let merge = Merge { operator: operator.into(), inputs, outputs, base, states: Vec::new() };
        self.running.insert(operator.into(), merge.clone());
        merge
    }

    /// Puts the files that came out of a merge in the place of those that went in.
    ///
    /// # Errors
    /// [`Kind::Internal`] if the merge was not under way, or its inputs have gone from the list.
    pub fn finish(&mut self, merged: Merged) -> Result<()> {
        let operator = &merged.operator;
        if self.vain.remove(operator) {
            self.running.remove(operator);
            return Ok(());
        }
        let inputs: BTreeSet<&str> = merged.inputs.iter().map(String::as_str).collect();
        let list = self.lists.get_mut(operator);
        let (Some(_), Some(list)) = (self.running.remove(operator), list) else {
            return Err(Error::new(Kind::Internal, format!("operator `{operator}`: a merge has finished that was not under way")));
        };
        let last = list.iter().rposition(|file| inputs.contains(file.path.as_str()));
        let there = list.iter().filter(|file| inputs.contains(file.path.as_str())).count();
        let (Some(last), true) = (last, there == inputs.len()) else {
            return Err(Error::new(Kind::Internal, format!("operator `{operator}`: files of a finished merge have gone from its list")));
        };
        // What lies between the inputs shares no key group with them, so the place of the newest is right for all.
        let tail = list.split_off(last + 1);
        list.retain(|file| !inputs.contains(file.path.as_str()));
        list.extend(merged.files);
        list.extend(tail);
        Ok(())
    }

    /// The merge under way for `operator` has failed, and is returned if its files are still needed; the list stays as it is.
    pub fn give_up(&mut self, operator: &str) -> Option<Merge> {
        let merge = self.running.remove(operator)?;
        if self.vain.remove(operator) {
            return None;
        }
        self.failed.extend(merge.outputs.first().map(|output| (operator.to_owned(), output.groups.start)));
        Some(merge)
    }

    /// What is to be merged in a list.
    fn due(&self, files: &[StateFile]) -> Vec<Due> {
        lanes(files).iter().filter_map(|lane| self.due_in(lane)).collect()
    }

    fn due_in(&self, lane: &Lane<'_>) -> Option<Due> {
        let is_long = depth(&lane.files) > MAX_FILES;
        let first = lane.files.first()?;
        if lane.files.iter().any(|file| file.groups != first.groups) {
            return is_long.then(|| self.redivided(lane));
        }
        let has_outgrown = has_outgrown(&lane.files);
        if !is_long && !has_outgrown {
            return None;
        }
        let start = if has_outgrown { 0 } else { suffix(&lane.files) };
        let inputs = oldest(&lane.files[start..], MAX_INPUTS);
        // One file that is far smaller than the next: others will join it.
        (inputs.len() > 1).then(|| Due { inputs, ranges: vec![lane.hull], base: start == 0 })
    }

    /// After a change of parallelism files overlap in other ranges than they are written in now. A merge of all, or of as many as can be at
    /// once, puts that right.
    fn redivided(&self, lane: &Lane<'_>) -> Due {
        let ranges = self.ranges(lane.hull);
        // With each merge there are fewer.
        let most = MAX_INPUTS.max(2 * ranges.len());
        Due { inputs: oldest(&lane.files, most), ranges, base: true }
    }

    /// What of some key groups each subtask has that has any.
    fn ranges(&self, hull: KeyGroups) -> Vec<KeyGroups> {
        let subtasks = (0..self.parallelism).map(|subtask| KeyGroups::of_subtask(subtask, self.parallelism, self.max_parallelism));
        let within = |range: KeyGroups| KeyGroups { start: range.start.max(hull.start), end: range.end.min(hull.end) };
        subtasks.map(within).filter(|range| range.start < range.end).collect()
    }
}

struct Due {
    inputs: Vec<StateFile>,
    ranges: Vec<KeyGroups>,
    base: bool,
}

impl Due {
    fn first_group(&self) -> u16 {
        self.ranges.first().map_or(0, |range| range.start)
    }
}

/// As many of these files as a merge may read, the oldest first: the next one takes what comes of them, and the rest.
fn oldest(files: &[&StateFile], most: usize) -> Vec<StateFile> {
    files.iter().take(most).map(|&file| file.clone()).collect()
}

/// Files that share key groups, directly or through others, in the order of the list. Files of different lanes have nothing to do with
/// each other.
struct Lane<'a> {
    hull: KeyGroups,
    files: Vec<&'a StateFile>,
}

fn lanes(files: &[StateFile]) -> Vec<Lane<'_>> {
    let mut ranges: Vec<KeyGroups> = files.iter().map(|file| file.groups).collect();
    ranges.sort_by_key(|range| range.start);
    let mut lanes: Vec<Lane<'_>> = Vec::new();
    for range in ranges {
        match lanes.last_mut() {
            Some(lane) if range.start < lane.hull.end => lane.hull.end = lane.hull.end.max(range.end),
            _ => lanes.push(Lane { hull: range, files: Vec::new() }),
        }
    }
    for file in files {
        if let Some(lane) = lanes.iter_mut().find(|lane| lane.hull.overlaps(file.groups)) {
            lane.files.push(file);
        }
    }
    lanes
}

/// The most files that hold the same key group.
fn depth(files: &[&StateFile]) -> usize {
    let at = |group: u16| files.iter().filter(|file| file.groups.contains(group)).count();
    files.iter().map(|file| at(file.groups.start)).max().unwrap_or(0)
}

/// Whether newer files take far more than the oldest; all are of the same key groups.
fn has_outgrown(files: &[&StateFile]) -> bool {
    let Some((base, newer)) = files.split_first() else { return false };
    newer.len() >= MIN_NEWER && newer.iter().map(|file| file.bytes).sum::<u64>() / MAX_GROWTH > base.bytes
}

/// Where the longest end of the list begins in which no file is larger than twice all newer ones together: so that each byte is merged
/// again only when about as much has been added.
fn suffix(files: &[&StateFile]) -> usize {
    let mut start = files.len();
    let mut newer = 0;
    for file in files.iter().rev() {
        if newer > 0 && file.bytes / 2 > newer {
            break;
        }
        start -= 1;
        newer += file.bytes;
    }
    start
}
