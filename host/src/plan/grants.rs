//! [`Grants`]: what an operator may see of the host's surroundings: nothing, unless its job says so.

use std::fmt;

/// `grants` of an operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// The variables of its environment, each name once.
    pub environment: Vec<Variable>,
}

/// A variable of an operator's environment. Its value may be a secret: it is not shown anywhere, for which reason `Debug` is by hand.
#[derive(Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value; none: that of the host's variable of this name.
    pub value: Option<String>,
}

impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Variable").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Grants {
    /// Gives each variable that has no value yet the one that `host` has for its name.
    ///
    /// # Errors
    /// The name of the first one for which the host has none.
    pub fn fill_in(&mut self, host: impl Fn(&str) -> Option<String>) -> Result<(), String> {
        for variable in self.environment.iter_mut().filter(|variable| variable.value.is_none()) {
            variable.value = Some(host(&variable.name).ok_or_else(|| variable.name.clone())?);
        }
        Ok(())
    }
}
