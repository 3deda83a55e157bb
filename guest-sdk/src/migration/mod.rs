//! Migrations: how values that another version of an operator has written become values of this one.
//!
//! What a field's `#[state(migrate(…))]` says of a version counts. Of a version of which it says nothing, values are taken over if only
//! optional fields were added to structs, or fields put into another order, and no version lies between: that needs no code, only the two
//! schemas. It comes first where the schema is an older one of the version that a migration takes.

mod plan;
#[cfg(test)]
mod tests;
mod transcode;

use crate::codec::Value;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::operator::Fields;
use crate::state::StateDescriptor;
use plan::Plan;

/// Rewrites one value: takes its bytes, and appends those of the new one.
type Rewrite = dyn Fn(&[u8], &mut Vec<u8>) -> Result<()>;

/// How values of one other version are rewritten: an arm of `#[state(migrate(…))]`.
pub struct Migration {
    version: u32,
    schema: String,
    rewrite: Box<Rewrite>,
}

impl Migration {
    /// Values of `version` are of the type that `migrate` takes, and become what it gives: a `New`, or a `Result<New>`.
    pub fn new<New: Value, Old: Value, Given: MigratedTo<New>>(version: u32, migrate: impl Fn(Old) -> Given + 'static) -> Self {
        let rewrite = move |old: &[u8], out: &mut Vec<u8>| {
            migrate(Old::decode(old)?).migrated()?.encode(out);
            Ok(())
        };
        Migration { version, schema: Old::schema(), rewrite: Box::new(rewrite) }
    }
}

/// What a migration may give.
#[diagnostic::on_unimplemented(message = "a migration of this state gives a `{New}`, or a `Result<{New}>`, and not `{Self}`")]
pub trait MigratedTo<New> {
    /// The new value.
    ///
    /// # Errors
    /// Why there is none.
    fn migrated(self) -> Result<New>;
}

impl<New> MigratedTo<New> for New {
    fn migrated(self) -> Result<New> {
        Ok(self)
    }
}

impl<New> MigratedTo<New> for Result<New> {
    fn migrated(self) -> Result<New> {
        self
    }
}

/// Rewrites values of state `state` of `O` that were written under another version or schema.
///
/// # Errors
/// Why there is no migration from there, or none of one of the values.
pub fn migrate<O: Fields>(state: u32, version: u32, schema: &str, values: &Column) -> Result<Column> {
    let place = state as usize;
    let Some(now) = O::states().into_iter().nth(place) else {
        return Err(Error::new(format_args!("there is no state {state}")));
    };
    let migrations = O::migrations().into_iter().nth(place).unwrap_or_default();
    let rewrite = find(&now, migrations, version, schema)?;
    let mut new = Column::new();
    for value in values.iter() {
        let mut rewritten = Ok(());
        new.push_with(|out| rewritten = rewrite(value, out));
        rewritten?;
    }
    Ok(new)
}

/// How values of a version and a schema become those of `now`.
fn find(now: &StateDescriptor, migrations: Vec<Migration>, version: u32, schema: &str) -> Result<Box<Rewrite>> {
    let newer = if version == now.version { now.version.saturating_add(1) } else { now.version };
    let to_say = format!("`#[state(version = {newer}, migrate({version} => …))]` says how values are rewritten");
    if let Some(migration) = migrations.into_iter().find(|migration| migration.version == version) {
        if schema == migration.schema {
            return Ok(migration.rewrite);
        }
        // Optional fields were added before: so it would have been rewritten by code of that version.
        let plan = Plan::new(schema, &migration.schema);
        let differs = |reason| Error::new(format_args!("the migration from version {version} takes {}: {reason}", migration.schema));
        let plan = plan.map_err(differs)?;
        return Ok(Box::new(move |old, out| {
            let mut taken = Vec::new();
            plan.rewrite(old, &mut taken)?;
            (migration.rewrite)(&taken, out)
        }));
    }
    if schema == now.schema && version != now.version {
        // The type tells of no change, so it must be the meaning that has changed.
        return Err(Error::new(format_args!("the schema is the same, and the version is not: {to_say}")));
    }
    if version.abs_diff(now.version) > 1 {
        return Err(Error::new(format_args!("a version lies between, in which the meaning may have changed: {to_say}")));
    }
    let plan = Plan::new(schema, &now.schema);
    let plan = plan.map_err(|reason| Error::new(format_args!("only added optional fields need no code, and {reason}: {to_say}")))?;
    Ok(Box::new(move |old, out| plan.rewrite(old, out)))
}
