//! For tests: `mortal` as of a later version, in which everything lives for a day.

#[path = "../../mortal/src/work.rs"]
mod work;

use cofferdam_sdk::prelude::*;

/// The operator.
#[operator(key = String)]
pub struct Mortal {
    #[state(ttl = "1day")]
    value: ValueState<u64>,
    #[state(ttl = "1day")]
    list: ListState<u64>,
    #[state(ttl = "1day")]
    map: MapState<u64, u64>,
    #[state(ttl = "1day")]
    lasting: ValueState<u64>,
}
