//! The memory of this process, as the kernel counts it.

use std::fs;

use crate::runner::{NotApplicable, Verdict};

const STATUS: &str = "/proc/self/status";

/// The resident bytes now.
pub(crate) fn now() -> Result<u64, NotApplicable> {
    read("VmRSS:")
}

/// The most resident bytes since the start, or since [`forget_peak`].
pub(crate) fn peak() -> Result<u64, NotApplicable> {
    read("VmHWM:")
}

pub(crate) fn forget_peak() -> Verdict {
    // 5 resets the peak, see proc(5).
    fs::write("/proc/self/clear_refs", "5")
        .or_else(|error| NotApplicable::because(format!("/proc/self/clear_refs: {error}")))
}

fn read(field: &str) -> Result<u64, NotApplicable> {
    let Ok(status) = fs::read_to_string(STATUS) else {
        return NotApplicable::because("this system has no /proc to measure memory by");
    };
    let kilobytes = status.lines().find_map(|line| {
        line.strip_prefix(field)?
            .split_whitespace()
            .next()?
            .parse::<u64>()
            .ok()
    });
    match kilobytes {
        Some(kilobytes) => Ok(kilobytes << 10),
        None => NotApplicable::because(format!("{STATUS} has no {field}")),
    }
}
