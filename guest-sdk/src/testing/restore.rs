//! Restoring a snapshot, which another version of the operator may have made: compared and migrated as the host does it.

use super::Harness;
use super::harness::Kind;
use super::snapshot::{Declared, ListSnapshot, Snapshot};
use crate::backend::keyed::Entries;
use crate::backend::memory::OperatorList;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::migration::migrate;
use crate::operator::Operator;

impl<O: Operator> Harness<O> {
    /// Makes the state that of a snapshot, and the instance a new one, as after a restart. The snapshot may be of another version of the
    /// operator, of another type: its values are migrated then. New states begin empty.
    ///
    /// # Panics
    /// If [`try_restore`](Self::try_restore) refuses the snapshot, or the operator doesn't open.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        self.try_restore(snapshot).unwrap_or_else(|error| panic!("the snapshot can't be restored: {error}"));
    }

    /// As [`restore`](Self::restore), for a snapshot that may not fit.
    ///
    /// # Errors
    /// If keys are of another schema, the operator has a state no more, or it is of another kind, or a value can't be migrated. Nothing
    /// has changed then.
    ///
    /// # Panics
    /// If the operator doesn't open.
    pub fn try_restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        if let Some(gone) = snapshot.declared.keys().find(|&name| self.states.iter().all(|(state, _)| state != name)) {
            return Err(Error::new(format_args!("state `{gone}` is no longer declared")));
        }
        if let (Some(then), Some(now)) = (&snapshot.key_schema, self.key_schema())
            && *then != now
        {
            return Err(Error::new(format_args!("its state has keys of schema {then}, and the operator has {now}")));
        }
        let mut restored = Vec::new();
        for (index, (state, &(_, kind))) in O::states().iter().zip(&self.states).enumerate() {
            let restoring = Restoring { index, now: state.into(), then: snapshot.declared.get(&state.name) };
            restored.push(restoring.state::<O>(kind, snapshot).map_err(|error| error.context(format_args!("state `{}`", state.name)))?);
        }
        let mut memory = self.backend.memory();
        for (index, (state, &(_, kind))) in restored.into_iter().zip(&self.states).enumerate() {
            match state {
                Restored::Entries(entries) if kind == Kind::Broadcast => memory.broadcast.restore(index, entries),
                Restored::Entries(entries) => memory.states.restore(index, entries),
                Restored::List(list) => drop(memory.lists.insert(index, list)),
            }
        }
        drop(memory);
        self.replace_instance();
        Ok(())
    }
}

/// What a state was, as it is to be now.
enum Restored {
    /// Of keyed or broadcast state.
    Entries(Entries),
    List(OperatorList),
}

/// A state that is restored.
struct Restoring<'a> {
    index: usize,
    now: Declared,
    /// As the snapshot has it.
    then: Option<&'a Declared>,
}

impl Restoring<'_> {
    fn state<O: Operator>(&self, kind: Kind, snapshot: &Snapshot) -> Result<Restored> {
        let name = &O::states()[self.index].name;
        match kind {
            Kind::Keyed => self.entries::<O>(snapshot.states.get(name).cloned().unwrap_or_default()).map(Restored::Entries),
            Kind::Broadcast => self.entries::<O>(snapshot.broadcast.get(name).cloned().unwrap_or_default()).map(Restored::Entries),
            Kind::List | Kind::UnionList => self.list::<O>(snapshot.lists.get(name).cloned().unwrap_or_default()).map(Restored::List),
        }
    }

    fn entries<O: Operator>(&self, mut entries: Entries) -> Result<Entries> {
        self.rewrite::<O>(entries.values_mut().flat_map(|entry| entry.values_mut()).map(|cell| &mut cell.value))?;
        Ok(entries)
    }

    fn list<O: Operator>(&self, mut list: ListSnapshot) -> Result<OperatorList> {
        self.rewrite::<O>(list.seen.iter_mut().chain(&mut list.own))?;
        let ListSnapshot { seen, own, .. } = list;
        Ok(OperatorList { seen, own })
    }

    /// Migrates values, if they are of another version or schema.
    fn rewrite<'v, O: Operator>(&self, values: impl Iterator<Item = &'v mut Vec<u8>>) -> Result<()> {
        let Some(then) = self.then else { return Ok(()) };
        let Declared { schema, version, .. } = self.now.clone();
        if *then == self.now {
            return Ok(());
        }
        if (Declared { schema, version, ..then.clone() }) != self.now {
            return Err(Error::new(format_args!("{then:?} can't be restored as {:?}", self.now)));
        }
        let values: Vec<_> = values.collect();
        let mut old = Column::new();
        values.iter().for_each(|value| old.push(value));
        let new = migrate::<O>(self.index as u32, then.version, &then.schema, &old)?;
        values.into_iter().zip(new.iter()).for_each(|(value, new)| *value = new.to_vec());
        Ok(())
    }
}
