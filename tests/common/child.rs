//! Children: this test's own binary, run again for one of its tests, which finds its part in the environment.

use std::{
    env,
    ffi::OsStr,
    path::PathBuf,
    process::{Command, Stdio},
};

const ROLE: &str = "JOURNAL_TEST_ROLE";

/// The command that runs the test `name` of this binary in a process of its own, as `role`.
pub(crate) fn command(name: &str, role: impl AsRef<OsStr>) -> Command {
    // The link leads to the running program also where a build has replaced its file.
    let linux = cfg!(target_os = "linux").then(|| PathBuf::from("/proc/self/exe"));
    let mut command = Command::new(linux.unwrap_or_else(|| env::current_exe().unwrap()));
    command
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .stdin(Stdio::null());
    command
}

/// What this process was started as, if by [`command`].
pub(crate) fn role() -> Option<String> {
    env::var(ROLE).ok()
}
