//! Processes with many actors on one directory, killed with SIGKILL at random moments, one after the other; what they
//! acknowledged is compared with what recovers.
//!
//! `JOURNAL_CRASH_ROUNDS` is the number of kills (20), `JOURNAL_SEED` repeats the moments of a run.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails"
)]
#![allow(clippy::print_stdout, reason = "the seed, and what was hit")]

mod bank;
#[path = "../common/child.rs"]
mod child;
mod killed;
mod line;
mod witness;

use std::{env, fmt, time::Duration};

use fastrand::Rng;

use crate::{
    killed::{Killed, Moment, Phase},
    line::Line,
    witness::Witness,
};

const ROUNDS: u32 = 20;
/// An opening reads again what former ones wrote.
const ROUNDS_PER_DIRECTORY: u32 = 25;
const LONGEST_WORK: Duration = Duration::from_millis(200);
const LONGEST_RECOVERY: Duration = Duration::from_millis(20);
const NAME: &str = "what_was_acknowledged_before_a_kill_is_recovered_after_it";

#[test]
fn what_was_acknowledged_before_a_kill_is_recovered_after_it() {
    if let Some(directory) = child::role() {
        return bank::run(directory.as_ref());
    }
    let seed = number("JOURNAL_SEED").unwrap_or_else(|| fastrand::u32(..).into());
    let rounds = number("JOURNAL_CRASH_ROUNDS").map_or(ROUNDS, |rounds| u32::try_from(rounds).unwrap());
    println!("repeat with: JOURNAL_SEED={seed} JOURNAL_CRASH_ROUNDS={rounds} cargo test --test crash");

    let mut random = Rng::with_seed(seed);
    let mut hits = Hits::default();
    let mut left = rounds;
    while left > 0 {
        let carried = left.min(ROUNDS_PER_DIRECTORY);
        carry(carried, &mut random, &mut hits);
        left -= carried;
    }
    println!("{rounds} kills: {hits}");
    if rounds >= ROUNDS {
        hits.check();
    }
}

/// A directory through so many kills.
fn carry(rounds: u32, random: &mut Rng, hits: &mut Hits) {
    let directory = tempfile::tempdir().unwrap();
    let mut witness = Witness::default();
    let mut startup = LONGEST_WORK;
    for round in 0..rounds {
        let (moment, longest) = match round % 5 {
            0 => (Moment::Start, startup),
            1 => (Moment::Opened, LONGEST_RECOVERY),
            _ => (Moment::FirstReply, LONGEST_WORK),
        };
        let killed = killed::round(NAME, directory.path(), moment, longest.mul_f64(random.f64()));
        startup = killed.startup.unwrap_or(startup);
        hits.count(&killed);
        witness.hear(round, &killed);
        witness.inspect(round, directory.path());
    }
}

/// What the kills hit.
#[derive(Default)]
struct Hits {
    starting: u32,
    opening: u32,
    recovering: u32,
    at_work: u32,
    snapshot_rounds: u32,
    replies: usize,
    deletions: usize,
}

impl Hits {
    fn count(&mut self, killed: &Killed) {
        *match killed.phase() {
            Phase::Starting => &mut self.starting,
            Phase::Opening => &mut self.opening,
            Phase::Recovering => &mut self.recovering,
            Phase::AtWork => &mut self.at_work,
        } += 1;
        self.snapshot_rounds += killed.snapshot_rounds_cut();
        self.replies += killed.count(|line| matches!(line, Line::Replied(_)));
        self.deletions += killed.count(|line| matches!(line, Line::EventsDeleted { .. }));
    }

    fn check(&self) {
        assert!(
            self.opening + self.recovering > 0,
            "no kill hit opening or recovery: {self}"
        );
        assert!(self.at_work > 0, "no kill hit actors at work: {self}");
        assert!(self.snapshot_rounds > 0, "no kill hit a snapshot round: {self}");
        assert!(
            self.deletions > 0,
            "nothing was deleted behind a snapshot: {self}"
        );
    }
}

impl fmt::Display for Hits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} before opening, {} while opening, {} while recovering, {} at work, {} snapshot rounds cut off; {} \
             replies, {} deletions",
            self.starting,
            self.opening,
            self.recovering,
            self.at_work,
            self.snapshot_rounds,
            self.replies,
            self.deletions
        )
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is no number")),
    )
}
