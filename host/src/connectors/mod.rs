//! Sources and sinks, one folder each.
