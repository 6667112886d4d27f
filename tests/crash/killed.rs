//! One round: a child that works on the directory, killed at a moment; what it told until then.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::Stdio,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use crate::{bank::ACCOUNTS, child, line::Line};

const SIGKILL: i32 = 9;
/// A child that says nothing for so long hangs.
const SILENCE: Duration = Duration::from_secs(60);

/// When the wait for the kill begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Start,
    Opened,
    FirstReply,
}

/// What a child was doing when it was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Starting,
    Opening,
    Recovering,
    AtWork,
}

pub(crate) struct Killed {
    pub(crate) told: Vec<Line>,
    /// From the start of the process to its first reply, where that was waited for.
    pub(crate) startup: Option<Duration>,
}

/// Starts a child on the directory, kills it, and returns everything it told.
pub(crate) fn round(test: &str, directory: &Path, moment: Moment, delay: Duration) -> Killed {
    let mut child = child::command(test, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    let (reached, reaching) = mpsc::channel();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let mut stderr = child.stderr.take().unwrap();
    let listening = thread::spawn(move || {
        let mut told = Vec::new();
        for line in stdout.lines() {
            let Some(line) = Line::read(&line.unwrap()) else {
                continue;
            };
            told.push(line);
            let now = match line {
                Line::Opened => Moment::Opened,
                Line::Replied(_) => Moment::FirstReply,
                _ => continue,
            };
            if now == moment {
                // Nobody listens any more after the first.
                let _ = reached.send(());
            }
        }
        told
    });
    let complaints = thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).unwrap();
        text
    });
    if moment != Moment::Start {
        // Disconnected where the child ended by itself, which shows below.
        let _ = reaching.recv_timeout(SILENCE);
    }
    let waited = started.elapsed();
    // The moment of the kill is what is random.
    thread::sleep(delay);
    child.kill().unwrap();
    let status = child.wait().unwrap();
    let complaints = complaints.join().unwrap();
    assert_eq!(
        status.signal(),
        Some(SIGKILL),
        "the child ended by itself, {status}\n{complaints}"
    );
    assert_eq!(complaints, "", "the child complained");
    assert!(
        waited < SILENCE,
        "the child did not get to {moment:?} within {SILENCE:?}"
    );
    Killed {
        told: listening.join().unwrap(),
        startup: (moment == Moment::FirstReply).then_some(waited),
    }
}

impl Killed {
    pub(crate) fn count(&self, counted: impl Fn(&Line) -> bool) -> usize {
        self.told.iter().filter(|line| counted(line)).count()
    }

    pub(crate) fn phase(&self) -> Phase {
        let recovered = self.count(|line| matches!(line, Line::Recovered { .. }));
        if !self.told.contains(&Line::Opening) {
            Phase::Starting
        } else if !self.told.contains(&Line::Opened) {
            Phase::Opening
        } else if u64::try_from(recovered).unwrap() < ACCOUNTS {
            Phase::Recovering
        } else {
            Phase::AtWork
        }
    }

    /// Accounts that had saved a snapshot and not yet deleted what is behind it.
    pub(crate) fn snapshot_rounds_cut(&self) -> u32 {
        let mut open: BTreeMap<u64, bool> = BTreeMap::new();
        for line in &self.told {
            match *line {
                Line::SnapshotSaved { account } => open.insert(account, true),
                Line::SnapshotRoundEnded { account } => open.insert(account, false),
                _ => None,
            };
        }
        u32::try_from(open.values().filter(|open| **open).count()).unwrap()
    }
}
