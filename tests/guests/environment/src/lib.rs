//! For tests: says for each name what is in its environment under it, and for `*` what there is at all.

use cofferdam_sdk::prelude::*;

/// The operator.
#[operator]
pub struct Environment;

#[operator]
impl Environment {
    #[input]
    fn names(&mut self, name: &str, out: &mut Output<String>) -> Result<()> {
        match (name, std::env::var(name)) {
            ("*", _) => {
                let mut names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
                names.sort();
                out.emit(format_args!("all: {}", names.join(" ")));
            }
            (_, Ok(value)) => out.emit(format_args!("{name} is {value:?}")),
            (_, Err(error)) => out.emit(format_args!("{name}: {error}")),
        }
        Ok(())
    }
}
