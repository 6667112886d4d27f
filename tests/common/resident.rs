//! The memory of this process in bytes, as Linux counts it.

use std::fs;

/// Resident now.
pub(crate) fn now() -> u64 {
    read("VmRSS:")
}

/// The most that was resident since [`forget_peak`].
pub(crate) fn peak() -> u64 {
    read("VmHWM:")
}

pub(crate) fn forget_peak() {
    // 5 resets the peak, see proc(5).
    fs::write("/proc/self/clear_refs", "5").unwrap();
}

fn read(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    let kilobytes: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
    kilobytes << 10
}
